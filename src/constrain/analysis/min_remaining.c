/* SPDX-License-Identifier: Apache-2.0 */
/* Searches breadth-first from the ends of counted texts backwards, one character per round. */
#include "constrain/analysis/min_remaining.h"

#include <stdlib.h>

#include "constrain/automaton/nfa.h"

/* Edges between counted states, grouped by target. */
struct incoming_edges {
    uint32_t *first; /* [n_states + 1]; once filled, the end of each state's group */
    uint32_t *from;  /* 2 · source state, plus 1 if the edge counts a character */
};

static void list_incoming_edges(const struct grammar *g, struct incoming_edges *in, bool count)
{
    for (uint32_t s = 0; s < g->n_states; s++) {
        const struct grammar_edge *edge = g->edges + g->states[s].first_edge;
        for (uint32_t i = 0; i < g->states[s].n_edges && g->states[s].counter; i++, edge++) {
            if (edge->kind != EDGE_MOVE) continue;
            if (count)
                in->first[edge->target + 1]++;
            else
                in->from[in->first[edge->target]++] = s * 2 + (edge->flags & NFA_COUNTS ? 1 : 0);
        }
    }
}

/* Whether the text may end here or call a rule with a counter of its own (an array's item). */
static bool is_counted_end(const struct grammar *g, uint32_t s)
{
    for (uint32_t i = 0; i < g->states[s].n_edges; i++)
        if (g->edges[g->states[s].first_edge + i].kind != EDGE_MOVE) return true;
    return false;
}

static void spread_min_remaining(struct grammar *g, const struct incoming_edges *in, uint32_t *now,
                                 uint32_t *later, bool *known)
{
    uint32_t n = 0, n_later = 0;
    for (uint32_t s = 0; s < g->n_states; s++)
        if (g->states[s].counter && is_counted_end(g, s)) now[n++] = s;
    for (uint32_t remaining = 0; n; remaining++) {
        for (uint32_t i = 0; i < n; i++) {
            uint32_t s = now[i];
            if (known[s]) continue;
            known[s] = true;
            g->states[s].min_remaining = remaining;
            for (uint32_t j = s ? in->first[s - 1] : 0; j < in->first[s]; j++) {
                uint32_t from = in->from[j] / 2;
                if (known[from]) continue;
                if (in->from[j] & 1)
                    later[n_later++] = from;
                else
                    now[n++] = from;
            }
        }
        uint32_t *swap = now;
        now = later;
        later = swap;
        n = n_later;
        n_later = 0;
    }
}

/* Marks edges after which more characters are needed: within a multi-byte character, the choice of
 * the next byte may raise the minimum. */
static void mark_raising_edges(struct grammar *g)
{
    for (uint32_t s = 0; s < g->n_states; s++) {
        struct grammar_edge *edge = g->edges + g->states[s].first_edge;
        for (uint32_t i = 0; i < g->states[s].n_edges && g->states[s].counter; i++, edge++)
            if (edge->kind == EDGE_MOVE && !(edge->flags & NFA_COUNTS) &&
                g->states[edge->target].min_remaining > g->states[s].min_remaining)
                edge->flags |= EDGE_RAISES_MIN;
    }
}

bool measure_min_remaining(struct grammar *g)
{
    size_t n = (size_t)g->n_states + g->n_edges +
               1; /* each state is queued once initially, and once per edge */
    struct incoming_edges in = {.first = calloc(g->n_states + 1, sizeof(uint32_t)),
                                .from = malloc(((size_t)g->n_edges + 1) * sizeof(uint32_t))};
    uint32_t *now = malloc(n * sizeof(*now)), *later = malloc(n * sizeof(*later));
    bool *known = calloc(g->n_states, sizeof(*known)),
         ok = in.first && in.from && now && later && known;
    if (ok) {
        list_incoming_edges(g, &in, true);
        for (uint32_t s = 0; s < g->n_states; s++)
            in.first[s + 1] += in.first[s];
        list_incoming_edges(g, &in, false);
        spread_min_remaining(g, &in, now, later, known);
        mark_raising_edges(g);
        for (uint32_t s = 0; s < g->n_states; s++) {
            struct grammar_counter *counter = &g->counters[g->states[s].counter];
            if (g->states[s].min_remaining > counter->largest_min)
                counter->largest_min = g->states[s].min_remaining;
        }
    }
    free(in.first);
    free(in.from);
    free(now);
    free(later);
    free(known);
    return ok;
}
