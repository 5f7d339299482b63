/* SPDX-License-Identifier: Apache-2.0 */
/* Epsilon closures of NFA state sets, and the DFA states made of them. */
#include <stdlib.h>
#include <string.h>

#include "constrain/automaton/dfa_builder_internal.h"

bool dfa_is_end(const struct dfa_builder *d, uint32_t s)
{
    const struct rule *rule = &d->c->rules[d->owner[s]];
    return s == rule->body[0].frag.end || s == rule->body[1].frag.end;
}

/* Whether a state reads, calls or ends; others only have epsilon edges. */
static bool is_kept_in_closure(const struct dfa_builder *d, uint32_t s)
{
    for (uint32_t i = d->c->nfa.states[s].last_edge; i; i = d->c->nfa.edges[i].next)
        if (d->c->nfa.edges[i].kind != NFA_EPSILON) return true;
    return dfa_is_end(d, s);
}

uint32_t dfa_epsilon_closure(struct dfa_builder *d, uint32_t depth_left)
{
    const struct nfa *nfa = &d->c->nfa;
    uint32_t dominating = 0, stamp = ++d->stamp;
    d->closure.n = 0;
    while (d->seeds.n && !d->c->failed) {
        uint32_t s = growing_array_u32(&d->seeds)[--d->seeds.n];
        if (d->visited[s] == stamp || d->min_depth[s] > depth_left) continue;
        d->visited[s] = stamp;
        if (nfa->states[s].dominates) dominating = s;
        if (is_kept_in_closure(d, s)) dfa_push_u32(d, &d->closure, s);
        uint32_t steps = 1;
        for (uint32_t i = nfa->states[s].last_edge; i; i = nfa->edges[i].next, steps++)
            if (nfa->edges[i].kind == NFA_EPSILON) dfa_push_u32(d, &d->seeds, nfa->edges[i].target);
        dfa_count_work(d, steps);
    }
    return dominating;
}

static bool one_owner(const struct dfa_builder *d)
{
    const uint32_t *v = growing_array_u32(&d->closure);
    for (uint32_t i = 1; i < d->closure.n; i++)
        if (d->owner[v[i]] != d->owner[v[0]]) return false;
    return true;
}

/* Caps depth_left at the levels that calls from these states can use; higher values would split
 * equal states. */
static uint32_t useful_level(const struct dfa_builder *d, uint32_t depth_left)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < d->closure.n; i++) {
        uint32_t max_depth = d->c->rules[d->owner[growing_array_u32(&d->closure)[i]]].max_depth -
                             1; /* UNBOUNDED_DEPTH stays large */
        if (max_depth > most) most = max_depth;
    }
    return depth_left < most ? depth_left : most;
}

bool dfa_pruned_closure(struct dfa_builder *d, uint32_t depth_left)
{
    uint32_t dominating = dfa_epsilon_closure(d, depth_left);
    if (dominating && one_owner(d)) {
        dfa_push_u32(d, &d->seeds, dominating);
        dfa_epsilon_closure(d, depth_left);
    }
    return d->closure.n && !d->c->failed;
}

uint32_t dfa_state_of_closure(struct dfa_builder *d, uint32_t depth_left)
{
    bool made;
    dfa_count_work(d, d->closure.n);
    return dfa_intern_set(d, &d->states, &d->state_index, &d->closure, useful_level(d, depth_left),
                          &made);
}

bool dfa_cover_nfa(struct dfa_builder *d)
{
    uint32_t n = d->c->nfa.n_states;
    if (n <= d->nfa_capacity) return true;
    uint32_t capacity = n + n / 2;
    uint32_t *owner = realloc(d->owner, capacity * sizeof(*owner));
    if (owner) d->owner = owner;
    uint32_t *visited = realloc(d->visited, capacity * sizeof(*visited));
    if (visited) d->visited = visited;
    uint8_t *min_depth = realloc(d->min_depth, capacity);
    if (min_depth) d->min_depth = min_depth;
    if (!owner || !visited || !min_depth)
        return compiler_fail_memory(d->c, "a grammar", capacity * 9);
    memset(visited + d->nfa_capacity, 0, (capacity - d->nfa_capacity) * sizeof(*visited));
    memset(owner + d->nfa_capacity, 0, (capacity - d->nfa_capacity) * sizeof(*owner));
    d->nfa_capacity = capacity;
    return true;
}

void dfa_own_body(struct dfa_builder *d, uint32_t rule, const struct rule_body *body)
{
    for (uint32_t s = body->begin; s < body->end; s++)
        d->owner[s] = rule;
}
