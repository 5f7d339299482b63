/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled grammar: the tables of a deterministic pushdown automaton. They never change. */
#ifndef EY_CONSTRAIN_AUTOMATON_H
#define EY_CONSTRAIN_AUTOMATON_H

#include <stdatomic.h>

#include "constrain/constrain.h"

enum edge_kind {
    EDGE_MOVE,   /* to state `target` */
    EDGE_CALL,   /* a bracketed text begins: calls[target] */
    EDGE_RETURN, /* … and ends: `target` is the return set */
};

/* With enum nfa_edge_flags: the target's min_remaining exceeds the state's, so that the counter
 * must be checked. */
enum { EDGE_RAISES_MIN = 4 };

struct grammar_edge {
    uint8_t lo, hi;      /* bytes */
    uint8_t kind, flags; /* enum edge_kind; enum nfa_edge_flags and EDGE_RAISES_MIN */
    uint32_t target;
};

/* Values of grammar_state.max_remaining. */
enum { REMAINING_UNBOUNDED = 0xffff, REMAINING_LIMIT = 0xfffe };

/* Plain characters (plain_set.h) that a state, and the states they lead to, treat alike. */
struct plain_set {
    uint64_t ascii[2];  /* a bit for each byte */
    bool non_ascii;     /* also all non-ASCII ones; else none of them is taken */
    uint64_t diverging; /* plain_class() of other plain characters that are taken on the way and
                           lead elsewhere */
};

struct grammar_state {
    uint32_t first_edge; /* the first of n_edges, in the order of their bytes, not overlapping */
    uint16_t n_edges;
    uint16_t plain_set;     /* 0: the state treats too few plain characters alike */
    uint16_t max_remaining; /* characters of the plain set that may follow; with `max_by_counter`,
                               the counter says */
    bool accepts;           /* the text may end here */
    bool max_by_counter;
    uint32_t min_remaining; /* counted characters that must still come before the text can end */
    uint32_t counter;       /* 0: none */
};

struct grammar_call {
    uint32_t site, state; /* pushed on the stack; where to go */
};

/* A place to return to: the state depends on which of the alternatives that were called came to an
 * end. */
struct grammar_call_site {
    uint32_t first_return, n_returns; /* in the order of their return sets */
};

struct grammar_return {
    uint32_t return_set, state;
};

struct grammar_counter {
    uint32_t min, max;
    uint32_t largest_min; /* min_remaining of its states, at most */
};

struct grammar {
    atomic_int references;
    uint64_t serial; /* no other grammar of the process has it */
    struct grammar_state *states;
    struct grammar_edge *edges;
    struct grammar_call *calls;
    struct grammar_call_site *call_sites;
    struct grammar_return *returns;
    struct grammar_counter *counters;
    struct plain_set *plain_sets; /* [n_plain_sets]; 0 is none */
    uint32_t n_plain_sets;
    uint32_t n_states, n_edges, n_calls, n_call_sites, n_returns, n_counters;
    uint32_t start;
    uint32_t max_depth; /* of the stack, at most */
    size_t bytes;
};

/* The edge that takes a byte; NULL: none does. */
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
