/* SPDX-License-Identifier: Apache-2.0 */
/* Heights by rounds: in round h are found the rules that can end with calls of rules not higher
 * than h. */
#include "constrain/heights.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

static const struct body *body_of(const struct rule *rule)
{
    return &rule->body[rule->has_counter];
}

/* ---- reach
 * --------------------------------------------------------------------------------------- */

struct callers {
    uint32_t *first;  /* [n_rules + 1] of `caller` */
    uint32_t *caller; /* rules, by the rule that they call */
    uint32_t *open;   /* [n_rules] calls whose reach is not known */
    uint32_t *queue;  /* [n_rules] */
};

/* Visits all calls; `caller` NULL: only counts. */
static void list_calls(const struct compiler *c, const uint32_t *owner, struct callers *k,
                       bool count)
{
    for (uint32_t s = 1; s < c->net.n_states; s++)
        for (uint32_t i = c->net.nodes[s].edge; i; i = c->net.edges[i].next) {
            const struct net_edge *edge = &c->net.edges[i];
            if (edge->kind != NET_CALL) continue;
            if (count) {
                k->first[edge->lo + 1]++;
                k->open[owner[s]]++;
            } else
                k->caller[k->first[edge->lo]++] = owner[s];
        }
}

static void settle_reach(struct compiler *c, const struct callers *k)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < c->n_rules; r++)
        if (!k->open[r]) {
            c->rules[r].reach = 1;
            k->queue[n++] = r;
        }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t called = k->queue[i], reach = c->rules[called].reach + 1;
        for (uint32_t j = called ? k->first[called - 1] : 0; j < k->first[called]; j++) {
            struct rule *caller = &c->rules[k->caller[j]];
            if (caller->reach == NO_HEIGHT || caller->reach < reach) caller->reach = reach;
            if (!--k->open[k->caller[j]]) k->queue[n++] = k->caller[j];
        }
    }
    for (uint32_t r = 0; r < c->n_rules; r++)
        if (k->open[r]) c->rules[r].reach = NO_HEIGHT; /* it leads to itself, or to one that does */
}

static bool measure_reach(struct compiler *c, const uint32_t *owner)
{
    struct callers k = {.first = calloc(c->n_rules + 1, sizeof(uint32_t)),
                        .open = calloc(c->n_rules, sizeof(uint32_t)),
                        .queue = calloc(c->n_rules, sizeof(uint32_t)),
                        .caller = calloc(c->net.n_edges + 1, sizeof(uint32_t))};
    bool ok = k.first && k.open && k.queue && k.caller;
    if (ok) {
        list_calls(c, owner, &k, true);
        for (uint32_t r = 0; r < c->n_rules; r++)
            k.first[r + 1] += k.first[r];
        list_calls(c, owner, &k, false); /* first[r] is then where the calls of r end */
        settle_reach(c, &k);
    }
    free(k.first);
    free(k.open);
    free(k.queue);
    free(k.caller);
    return ok || compiler_fail_memory(c, "a grammar's rules", c->n_rules);
}

/* ---- heights
 * ------------------------------------------------------------------------------------- */

/* Whether a rule can end with calls of rules not higher than `most`. */
static bool can_end(const struct compiler *c, const struct body *body, uint32_t most,
                    uint32_t *stack, uint32_t *seen, uint32_t stamp)
{
    uint32_t n = 0;
    stack[n++] = body->frag.start;
    seen[body->frag.start] = stamp;
    while (n) {
        uint32_t s = stack[--n];
        if (s == body->frag.end) return true;
        for (uint32_t i = c->net.nodes[s].edge; i; i = c->net.edges[i].next) {
            const struct net_edge *edge = &c->net.edges[i];
            bool open = edge->kind != NET_CALL ||
                        c->rules[edge->lo].height <= most; /* NO_HEIGHT is more */
            if (open && seen[edge->target] != stamp) {
                seen[edge->target] = stamp;
                stack[n++] = edge->target;
            }
        }
    }
    return false;
}

static void settle_heights(struct compiler *c, uint32_t *stack, uint32_t *seen)
{
    uint32_t stamp = 0;
    for (uint32_t most = 0; most < EY_MAX_GRAMMAR_LEVELS + 1; most++)
        for (uint32_t r = 0; r < c->n_rules; r++)
            if (c->rules[r].height == NO_HEIGHT &&
                can_end(c, body_of(&c->rules[r]), most, stack, seen, ++stamp))
                c->rules[r].height = most + 1;
}

bool measure_rules(struct compiler *c, const uint32_t *owner)
{
    uint32_t *stack = calloc(c->net.n_states, sizeof(*stack)),
             *seen = calloc(c->net.n_states, sizeof(*seen));
    bool ok = stack && seen;
    if (ok) settle_heights(c, stack, seen);
    free(stack);
    free(seen);
    return (ok || compiler_fail_memory(c, "a grammar's rules", c->net.n_states)) &&
           measure_reach(c, owner);
}

/* ---- needs
 * --------------------------------------------------------------------------------------- */

struct backward {
    uint32_t begin, n;
    uint32_t *first; /* [n + 1] of `edge` */
    uint32_t *edge;  /* edges by the state that they lead to … */
    uint32_t *from;  /* … and the states that they come from */
    uint32_t *queue; /* [n] */
};

static void list_edges(const struct net *net, struct backward *b, bool count)
{
    for (uint32_t s = b->begin; s < b->begin + b->n; s++)
        for (uint32_t i = net->nodes[s].edge; i; i = net->edges[i].next) {
            uint32_t target = net->edges[i].target - b->begin;
            if (count) {
                b->first[target + 1]++;
            } else {
                b->edge[b->first[target]] = i;
                b->from[b->first[target]++] = s;
            }
        }
}

/* Levels that taking the edge needs at least. */
static uint32_t edge_height(const struct compiler *c, uint32_t edge)
{
    return c->net.edges[edge].kind == NET_CALL ? c->rules[c->net.edges[edge].lo].height : 0;
}

/* From what needs `level` on backward. Edges that need more leave their number in `need` for a
 * later round. */
static void spread(const struct compiler *c, const struct backward *b, uint32_t level,
                   uint8_t *need, uint8_t *done)
{
    uint32_t n = 0;
    for (uint32_t s = b->begin; s < b->begin + b->n; s++)
        if (need[s] == level && !done[s - b->begin]) {
            done[s - b->begin] = 1;
            b->queue[n++] = s;
        }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t target = b->queue[i] - b->begin;
        for (uint32_t j = target ? b->first[target - 1] : 0; j < b->first[target]; j++) {
            uint32_t from = b->from[j], height = edge_height(c, b->edge[j]),
                     least = height > level ? height : level;
            if (least >= need[from]) continue;
            need[from] = (uint8_t)least;
            if (least == level) {
                done[from - b->begin] = 1;
                b->queue[n++] = from;
            }
        }
    }
}

bool measure_needs(struct compiler *c, const uint32_t *owner, uint32_t begin, uint32_t end,
                   uint8_t *need)
{
    struct backward b = {.begin = begin, .n = end - begin};
    bool present[EY_MAX_GRAMMAR_LEVELS + 1] = {true};
    size_t n_edges = 1;
    for (uint32_t s = begin; s < end; s++) {
        const struct rule *rule = &c->rules[owner[s]];
        need[s] = s == rule->body[0].frag.end || s == rule->body[1].frag.end ? 0 : NEVER;
        for (uint32_t i = c->net.nodes[s].edge; i; i = c->net.edges[i].next, n_edges++)
            if (edge_height(c, i) <= EY_MAX_GRAMMAR_LEVELS) present[edge_height(c, i)] = true;
    }
    uint8_t *done = calloc(b.n + 1, 1);
    b.first = calloc(b.n + 1, sizeof(*b.first));
    b.edge = calloc(n_edges, sizeof(*b.edge));
    b.from = calloc(n_edges, sizeof(*b.from));
    b.queue = calloc(b.n + 1, sizeof(*b.queue));
    bool ok = done && b.first && b.edge && b.from && b.queue;
    if (ok) {
        list_edges(&c->net, &b, true);
        for (uint32_t i = 0; i < b.n; i++)
            b.first[i + 1] += b.first[i];
        list_edges(&c->net, &b, false); /* first[i] is then where the edges to i end */
        for (uint32_t level = 0; level <= EY_MAX_GRAMMAR_LEVELS; level++)
            if (present[level]) spread(c, &b, level, need, done);
    }
    free(done);
    free(b.first);
    free(b.edge);
    free(b.from);
    free(b.queue);
    return ok || compiler_fail_memory(c, "a grammar's states", end - begin);
}
