/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of the net's states: where they lead for nothing, and what number each has as a state. */
#include <stdlib.h>
#include <string.h>

#include "constrain/det.h"

bool det_is_end(const struct det *d, uint32_t s)
{
    const struct rule *rule = &d->c->rules[d->owner[s]];
    return s == rule->body[0].frag.end || s == rule->body[1].frag.end;
}

/* States that read something, call, or are an end: the others are only ways to them. */
static bool matters(const struct det *d, uint32_t s)
{
    for (uint32_t i = d->c->net.nodes[s].edge; i; i = d->c->net.edges[i].next)
        if (d->c->net.edges[i].kind != NET_EMPTY) return true;
    return det_is_end(d, s);
}

uint32_t det_walk(struct det *d, uint32_t level)
{
    const struct net *net = &d->c->net;
    uint32_t rest = 0, stamp = ++d->stamp;
    d->found.n = 0;
    while (d->seeds.n && !d->c->failed) {
        uint32_t s = list_numbers(&d->seeds)[--d->seeds.n];
        if (d->mark[s] == stamp || d->need[s] > level) continue;
        d->mark[s] = stamp;
        if (net->nodes[s].rest) rest = s;
        if (matters(d, s)) det_push_number(d, &d->found, s);
        uint32_t steps = 1;
        for (uint32_t i = net->nodes[s].edge; i; i = net->edges[i].next, steps++)
            if (net->edges[i].kind == NET_EMPTY)
                det_push_number(d, &d->seeds, net->edges[i].target);
        det_count_work(d, steps);
    }
    return rest;
}

static bool one_owner(const struct det *d)
{
    const uint32_t *v = list_numbers(&d->found);
    for (uint32_t i = 1; i < d->found.n; i++)
        if (d->owner[v[i]] != d->owner[v[0]]) return false;
    return true;
}

/* Levels that calls from these states can use: what they cannot use would only make states that are
 * alike differ. */
static uint32_t useful_level(const struct det *d, uint32_t level)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < d->found.n; i++) {
        uint32_t reach = d->c->rules[d->owner[list_numbers(&d->found)[i]]].reach -
                         1; /* NO_HEIGHT stays large */
        if (reach > most) most = reach;
    }
    return level < most ? level : most;
}

bool det_close_over(struct det *d, uint32_t level)
{
    uint32_t rest = det_walk(d, level);
    if (rest && one_owner(d)) {
        det_push_number(d, &d->seeds, rest);
        det_walk(d, level);
    }
    return d->found.n && !d->c->failed;
}

uint32_t det_state_found(struct det *d, uint32_t level)
{
    bool made;
    det_count_work(d, d->found.n);
    return det_set_number(d, &d->states, &d->state_index, &d->found, useful_level(d, level), &made);
}

bool det_cover_net(struct det *d)
{
    uint32_t n = d->c->net.n_states;
    if (n <= d->net_capacity) return true;
    uint32_t capacity = n + n / 2;
    uint32_t *owner = realloc(d->owner, capacity * sizeof(*owner));
    if (owner) d->owner = owner;
    uint32_t *mark = realloc(d->mark, capacity * sizeof(*mark));
    if (mark) d->mark = mark;
    uint8_t *need = realloc(d->need, capacity);
    if (need) d->need = need;
    if (!owner || !mark || !need) return compiler_fail_memory(d->c, "a grammar", capacity * 9);
    memset(mark + d->net_capacity, 0, (capacity - d->net_capacity) * sizeof(*mark));
    memset(owner + d->net_capacity, 0, (capacity - d->net_capacity) * sizeof(*owner));
    d->net_capacity = capacity;
    return true;
}

void det_own_body(struct det *d, uint32_t rule, const struct body *body)
{
    for (uint32_t s = body->begin; s < body->end; s++)
        d->owner[s] = rule;
}
