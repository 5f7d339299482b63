/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled grammar: the immutable tables of a deterministic pushdown automaton. */
#ifndef EY_CONSTRAIN_AUTOMATON_H
#define EY_CONSTRAIN_AUTOMATON_H

#include <stdatomic.h>

#include "constrain/constrain.h"

enum edge_kind {
    EDGE_MOVE,   /* to state `target` */
    EDGE_CALL,   /* enters a rule: calls[target] */
    EDGE_RETURN, /* leaves a rule: `target` is the return set */
};

/* A flag besides those of enum nfa_edge_flags: the target's min_remaining exceeds the state's, so
 * the counter must be checked. */
enum { EDGE_RAISES_MIN = 4 };

struct grammar_edge {
    uint8_t lo, hi;      /* bytes */
    uint8_t kind, flags; /* enum edge_kind; enum nfa_edge_flags and EDGE_RAISES_MIN */
    uint32_t target;
};

/* Values of grammar_state.max_remaining. */
enum { REMAINING_UNBOUNDED = 0xffff, REMAINING_LIMIT = 0xfffe };

/* Plain characters (plain_set.h) that a state, and the states that they lead to, treat alike. */
struct plain_set {
    uint64_t ascii[2]; /* a bit for each byte */
    bool non_ascii; /* the set has all non-ASCII plain characters; if not, the state accepts none of
                       them */
    uint64_t diverging; /* union of plain_class() of the other plain characters that these states
                          accept and that lead elsewhere */
};

struct grammar_state {
    uint32_t first_edge; /* the first of n_edges, sorted by bytes, disjoint */
    uint16_t n_edges;
    uint16_t plain_set;     /* 0: too few plain characters are alike */
    uint16_t max_remaining; /* characters of the plain set that may follow; with max_by_counter, the
                              counter limits them instead */
    bool accepts;           /* the text may end in this state */
    bool max_by_counter;
    uint32_t min_remaining; /* counted characters still needed before the text can end */
    uint32_t counter;       /* 0: none */
};

struct grammar_call {
    uint32_t site, state; /* site: pushed on the stack; state: the next one */
};

/* A return address: the next state depends on which of the called alternatives have ended. */
struct grammar_call_site {
    uint32_t first_return, n_returns; /* sorted by return set */
};

struct grammar_return {
    uint32_t return_set, state;
};

struct grammar_counter {
    uint32_t min, max;
    uint32_t largest_min; /* largest min_remaining of its states */
};

struct grammar {
    atomic_int references;
    uint64_t serial; /* unique in the process */
    struct grammar_state *states;
    struct grammar_edge *edges;
    struct grammar_call *calls;
    struct grammar_call_site *call_sites;
    struct grammar_return *returns;
    struct grammar_counter *counters;
    struct plain_set *plain_sets; /* [n_plain_sets]; number 0 means none */
    uint32_t n_plain_sets;
    uint32_t n_states, n_edges, n_calls, n_call_sites, n_returns, n_counters;
    uint32_t start;
    uint32_t max_depth; /* maximum stack depth */
    size_t bytes;
};

/* Returns the edge for a byte, or NULL. */
static inline const struct grammar_edge *grammar_edge_at(const struct grammar *g, uint32_t state,
                                                         uint8_t byte)
{
    const struct grammar_edge *edge = g->edges + g->states[state].first_edge,
                              *end = edge + g->states[state].n_edges;
    while (edge < end && edge->hi < byte)
        edge++;
    return edge < end && edge->lo <= byte ? edge : NULL;
}

static inline uint32_t grammar_return_state(const struct grammar *g, uint32_t site,
                                            uint32_t return_set)
{
    const struct grammar_return *first = g->returns + g->call_sites[site].first_return;
    uint32_t n = g->call_sites[site].n_returns;
    while (n > 1) {
        uint32_t half = n / 2;
        if (first[half].return_set <= return_set) {
            first += half;
            n -= half;
        } else
            n = half;
    }
    return first->state;
}

#endif
