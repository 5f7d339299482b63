/* SPDX-License-Identifier: Apache-2.0 */
/* A Thompson NFA under construction. An edge reads a range of bytes (or code points, while a
 * pattern is parsed), reads nothing, or calls a rule: a bracketed text with an automaton of its
 * own, which may nest. */
#ifndef EY_CONSTRAIN_NFA_H
#define EY_CONSTRAIN_NFA_H

#include "base/err.h"

enum nfa_edge_kind {
    NFA_EPSILON,      /* reads nothing */
    NFA_SPAN,         /* reads a byte or code point in lo..hi */
    NFA_CALL,         /* calls rule lo */
    NFA_ASSERT_BEGIN, /* epsilon, valid only before the first character of a pattern's text */
    NFA_ASSERT_END,   /* epsilon, valid only after the last character */
};

/* Effect of an edge on its rule's counter. */
enum nfa_edge_flags {
    NFA_COUNTS = 1, /* increments it; allowed while it is below the maximum */
    NFA_CLOSES = 2, /* allowed once it has reached the minimum */
};

struct nfa_edge {
    uint32_t next, target; /* next: next edge of the state, 0 at the end */
    uint32_t lo, hi;
    uint8_t kind, flags;
};

struct nfa_state {
    uint32_t last_edge; /* the last one added */
    bool dominates;     /* accepts every suffix that any other state of its rule accepts, so a
                          closure may drop the others */
};

enum nfa_problem { NFA_OK, NFA_TOO_LARGE, NFA_NO_MEMORY };

/* State 0 is unused, and edge 0 ends lists. After a failure, nfa_add_state() returns 0 and nothing
 * is added, so that a builder needs to check for failure only at its end. */
struct nfa {
    struct nfa_state *states; /* [n_states] */
    struct nfa_edge *edges;
    uint32_t n_states, n_edges, states_capacity, edges_capacity, max_states;
    enum nfa_problem problem;
};

/* A fragment from start to end, with no edge into start or out of end yet. */
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
/* Adds n bytes in sequence from `from` on. Returns the state after them. */
uint32_t nfa_add_bytes(struct nfa *nfa, uint32_t from, const char *bytes, size_t n);

struct frag nfa_concat(struct nfa *nfa, struct frag a, struct frag b);
struct frag nfa_union(struct nfa *nfa, const struct frag *frags,
                      size_t n); /* n == 0 matches nothing */
/* Repeats f one or more times. */
struct frag nfa_one_or_more(struct nfa *nfa, struct frag f);
/* Copies f, whose states are exactly [begin, end) and have no edges to others. */
struct frag nfa_copy(struct nfa *nfa, uint32_t begin, uint32_t end, struct frag f);
/* Repeats f min to max times (UINT32_MAX: no limit). f's states are all those from `begin` on. */
struct frag nfa_repeat(struct nfa *nfa, uint32_t begin, struct frag f, uint32_t min, uint32_t max);

/* Fails with a message that names the limit if building has failed. */
bool nfa_check(const struct nfa *nfa, ey_err *e);

#endif
