/* SPDX-License-Identifier: Apache-2.0 */
/* A nondeterministic automaton under construction (Thompson's). An edge carries a range of bytes
 * (or of code points, while a pattern is parsed), nothing, or the call of a rule: a bracketed text
 * with an automaton of its own, so that it may nest. */
#ifndef EY_CONSTRAIN_NFA_H
#define EY_CONSTRAIN_NFA_H

#include "base/err.h"

enum nfa_edge_kind {
    NFA_EPSILON,      /* reads nothing */
    NFA_SPAN,         /* a byte or code point in lo..hi */
    NFA_CALL,         /* a text of rule lo */
    NFA_ASSERT_BEGIN, /* taken for nothing before the first character only (patterns) */
    NFA_ASSERT_END,   /* … after the last one */
};

/* What an edge does to the counter of its rule. */
enum nfa_edge_flags {
    NFA_COUNTS = 1, /* adds one, and may be taken only while there are fewer than the most */
    NFA_CLOSES = 2, /* may be taken only when there are enough */
};

struct nfa_edge {
    uint32_t next, target; /* next: of the same state; 0: the last */
    uint32_t lo, hi;
    uint8_t kind, flags;
};

struct nfa_state {
    uint32_t last_edge; /* the last one added */
    bool dominates;     /* accepts every suffix that any other state of its rule accepts, so that a
                           closure may drop the others */
};

enum nfa_problem { NFA_OK, NFA_TOO_LARGE, NFA_NO_MEMORY };

/* State 0 and edge 0 are sinks: once an NFA has a problem, all calls return or change these, so
 * that a builder checks for problems only when it is done. */
struct nfa {
    struct nfa_state *states; /* [n_states] */
    struct nfa_edge *edges;
    uint32_t n_states, n_edges, states_capacity, edges_capacity, max_states;
    enum nfa_problem problem;
};

/* From start to end. Nothing leads into start or out of end, until somebody adds it. */
struct frag {
    uint32_t start, end;
};

struct nfa nfa_with_max(uint32_t max_states);
void nfa_finish(struct nfa *nfa);
uint32_t nfa_add_state(struct nfa *nfa);
struct frag nfa_new_frag(struct nfa *nfa); /* two states, not connected */
void nfa_add_epsilon(struct nfa *nfa, uint32_t from, uint32_t to);
void nfa_add_span(struct nfa *nfa, uint32_t from, uint32_t to, uint32_t lo, uint32_t hi,
                  unsigned flags);
void nfa_add_call(struct nfa *nfa, uint32_t from, uint32_t to, uint32_t rule);
void nfa_add_assertion(struct nfa *nfa, uint32_t from, uint32_t to, enum nfa_edge_kind kind);
/* The state behind n bytes that begin at `from`. */
uint32_t nfa_add_bytes(struct nfa *nfa, uint32_t from, const char *bytes, size_t n);

struct frag nfa_concat(struct nfa *nfa, struct frag a, struct frag b);
struct frag nfa_union(struct nfa *nfa, const struct frag *frags,
                      size_t n); /* none: nothing matches */
/* One or more. */
struct frag nfa_one_or_more(struct nfa *nfa, struct frag f);
/* A copy of f, whose states are all those from `begin` up to `end` and lead nowhere else. */
struct frag nfa_copy(struct nfa *nfa, uint32_t begin, uint32_t end, struct frag f);
/* f min..max times; max UINT32_MAX: any number. f's states are all those from `begin` on. */
struct frag nfa_repeat(struct nfa *nfa, uint32_t begin, struct frag f, uint32_t min, uint32_t max);

/* False, with a message that names the limit, when the NFA has a problem. */
bool nfa_check(const struct nfa *nfa, ey_err *e);

#endif
