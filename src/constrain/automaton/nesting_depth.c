/* SPDX-License-Identifier: Apache-2.0 */
/* Finds minimum depths in rounds: round h finds the rules that can end with calls no deeper than
 * h. */
#include "constrain/automaton/nesting_depth.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

static const struct rule_body *own_body(const struct rule *rule)
{
    return &rule->body[rule->has_counter];
}

/* ---- maximum depth of rules ---- */

struct callers {
    uint32_t *first;  /* [n_rules + 1] index in `caller` */
    uint32_t *caller; /* calling rules, grouped by the rule that they call */
    uint32_t *open;   /* [n_rules] number of a rule's calls whose maximum depth is not known yet */
    uint32_t *queue;  /* [n_rules] */
};

/* Lists all calls, or only counts them if `count`. */
static void list_calls(const struct compiler *c, const uint32_t *owner, struct callers *k,
                       bool count)
{
    for (uint32_t s = 1; s < c->nfa.n_states; s++)
        for (uint32_t i = c->nfa.states[s].last_edge; i; i = c->nfa.edges[i].next) {
            const struct nfa_edge *edge = &c->nfa.edges[i];
            if (edge->kind != NFA_CALL) continue;
            if (count) {
                k->first[edge->lo + 1]++;
                k->open[owner[s]]++;
            } else
                k->caller[k->first[edge->lo]++] = owner[s];
        }
}

static void settle_max_depths(struct compiler *c, const struct callers *k)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < c->n_rules; r++)
        if (!k->open[r]) {
            c->rules[r].max_depth = 1;
            k->queue[n++] = r;
        }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t called = k->queue[i], max_depth = c->rules[called].max_depth + 1;
        for (uint32_t j = called ? k->first[called - 1] : 0; j < k->first[called]; j++) {
            struct rule *caller = &c->rules[k->caller[j]];
            if (caller->max_depth == UNBOUNDED_DEPTH || caller->max_depth < max_depth)
                caller->max_depth = max_depth;
            if (!--k->open[k->caller[j]]) k->queue[n++] = k->caller[j];
        }
    }
    for (uint32_t r = 0; r < c->n_rules; r++)
        if (k->open[r])
            c->rules[r].max_depth = UNBOUNDED_DEPTH; /* recursive, or calls a recursive rule */
}

static bool measure_max_depths(struct compiler *c, const uint32_t *owner)
{
    struct callers k = {.first = calloc(c->n_rules + 1, sizeof(uint32_t)),
                        .open = calloc(c->n_rules, sizeof(uint32_t)),
                        .queue = calloc(c->n_rules, sizeof(uint32_t)),
                        .caller = calloc(c->nfa.n_edges + 1, sizeof(uint32_t))};
    bool ok = k.first && k.open && k.queue && k.caller;
    if (ok) {
        list_calls(c, owner, &k, true);
        for (uint32_t r = 0; r < c->n_rules; r++)
            k.first[r + 1] += k.first[r];
        list_calls(c, owner, &k, false); /* first[r] is then where the callers of r end */
        settle_max_depths(c, &k);
    }
    free(k.first);
    free(k.open);
    free(k.queue);
    free(k.caller);
    return ok || compiler_fail_memory(c, "a grammar's rules", c->n_rules);
}

/* ---- minimum depth of rules ---- */

/* Whether a rule can end with calls of rules no deeper than `most`. */
static bool can_end(const struct compiler *c, const struct rule_body *body, uint32_t most,
                    uint32_t *stack, uint32_t *seen, uint32_t stamp)
{
    uint32_t n = 0;
    stack[n++] = body->frag.start;
    seen[body->frag.start] = stamp;
    while (n) {
        uint32_t s = stack[--n];
        if (s == body->frag.end) return true;
        for (uint32_t i = c->nfa.states[s].last_edge; i; i = c->nfa.edges[i].next) {
            const struct nfa_edge *edge = &c->nfa.edges[i];
            bool open = edge->kind != NFA_CALL ||
                        c->rules[edge->lo].min_depth <= most; /* false for UNBOUNDED_DEPTH */
            if (open && seen[edge->target] != stamp) {
                seen[edge->target] = stamp;
                stack[n++] = edge->target;
            }
        }
    }
    return false;
}

static void settle_min_depths(struct compiler *c, uint32_t *stack, uint32_t *seen)
{
    uint32_t stamp = 0;
    for (uint32_t most = 0; most < EY_MAX_GRAMMAR_NESTING + 1; most++)
        for (uint32_t r = 0; r < c->n_rules; r++)
            if (c->rules[r].min_depth == UNBOUNDED_DEPTH &&
                can_end(c, own_body(&c->rules[r]), most, stack, seen, ++stamp))
                c->rules[r].min_depth = most + 1;
}

bool measure_rule_depths(struct compiler *c, const uint32_t *owner)
{
    uint32_t *stack = calloc(c->nfa.n_states, sizeof(*stack)),
             *seen = calloc(c->nfa.n_states, sizeof(*seen));
    bool ok = stack && seen;
    if (ok) settle_min_depths(c, stack, seen);
    free(stack);
    free(seen);
    return (ok || compiler_fail_memory(c, "a grammar's rules", c->nfa.n_states)) &&
           measure_max_depths(c, owner);
}

/* ---- minimum depth of states ---- */

struct reverse_nfa_edges {
    uint32_t begin, n;
    uint32_t *first; /* [n + 1] index in `edge` */
    uint32_t *edge;  /* edges, grouped by target … */
    uint32_t *from;  /* … and their source states */
    uint32_t *queue; /* [n] */
};

static void list_reverse_edges(const struct nfa *nfa, struct reverse_nfa_edges *b, bool count)
{
    for (uint32_t s = b->begin; s < b->begin + b->n; s++)
        for (uint32_t i = nfa->states[s].last_edge; i; i = nfa->edges[i].next) {
            uint32_t target = nfa->edges[i].target - b->begin;
            if (count) {
                b->first[target + 1]++;
            } else {
                b->edge[b->first[target]] = i;
                b->from[b->first[target]++] = s;
            }
        }
}

/* Returns the fewest levels that the edge needs. */
static uint32_t edge_min_depth(const struct compiler *c, uint32_t edge)
{
    return c->nfa.edges[edge].kind == NFA_CALL ? c->rules[c->nfa.edges[edge].lo].min_depth : 0;
}

/* Walks back from the states that need `depth`. If an edge needs more, its source is deferred to a
 * later round through min_depth. */
static void spread_min_depth(const struct compiler *c, const struct reverse_nfa_edges *b,
                             uint32_t depth, uint8_t *min_depth, uint8_t *done)
{
    uint32_t n = 0;
    for (uint32_t s = b->begin; s < b->begin + b->n; s++)
        if (min_depth[s] == depth && !done[s - b->begin]) {
            done[s - b->begin] = 1;
            b->queue[n++] = s;
        }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t target = b->queue[i] - b->begin;
        for (uint32_t j = target ? b->first[target - 1] : 0; j < b->first[target]; j++) {
            uint32_t from = b->from[j], edge_depth = edge_min_depth(c, b->edge[j]),
                     least = edge_depth > depth ? edge_depth : depth;
            if (least >= min_depth[from]) continue;
            min_depth[from] = (uint8_t)least;
            if (least == depth) {
                done[from - b->begin] = 1;
                b->queue[n++] = from;
            }
        }
    }
}

bool measure_state_depths(struct compiler *c, const uint32_t *owner, uint32_t begin, uint32_t end,
                          uint8_t *min_depth)
{
    struct reverse_nfa_edges b = {.begin = begin, .n = end - begin};
    bool present[EY_MAX_GRAMMAR_NESTING + 1] = {true};
    size_t n_edges = 1;
    for (uint32_t s = begin; s < end; s++) {
        const struct rule *rule = &c->rules[owner[s]];
        min_depth[s] = s == rule->body[0].frag.end || s == rule->body[1].frag.end ? 0
                                                                                  : NO_COMPLETION;
        for (uint32_t i = c->nfa.states[s].last_edge; i; i = c->nfa.edges[i].next, n_edges++)
            if (edge_min_depth(c, i) <= EY_MAX_GRAMMAR_NESTING)
                present[edge_min_depth(c, i)] = true;
    }
    uint8_t *done = calloc(b.n + 1, 1);
    b.first = calloc(b.n + 1, sizeof(*b.first));
    b.edge = calloc(n_edges, sizeof(*b.edge));
    b.from = calloc(n_edges, sizeof(*b.from));
    b.queue = calloc(b.n + 1, sizeof(*b.queue));
    bool ok = done && b.first && b.edge && b.from && b.queue;
    if (ok) {
        list_reverse_edges(&c->nfa, &b, true);
        for (uint32_t i = 0; i < b.n; i++)
            b.first[i + 1] += b.first[i];
        list_reverse_edges(&c->nfa, &b, false); /* first[i] is then where the edges to i end */
        for (uint32_t depth = 0; depth <= EY_MAX_GRAMMAR_NESTING; depth++)
            if (present[depth]) spread_min_depth(c, &b, depth, min_depth, done);
    }
    free(done);
    free(b.first);
    free(b.edge);
    free(b.from);
    free(b.queue);
    return ok || compiler_fail_memory(c, "a grammar's states", end - begin);
}
