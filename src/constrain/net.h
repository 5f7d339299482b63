/* SPDX-License-Identifier: Apache-2.0 */
/* A nondeterministic automaton under construction. Edges carry spans of bytes (or, while a pattern
 * is being read, of code points), nothing, or the call of a rule: a bracketed text that has an
 * automaton of its own, so that it may nest. */
#ifndef EY_CONSTRAIN_NET_H
#define EY_CONSTRAIN_NET_H

#include "base/err.h"

enum net_kind {
    NET_EMPTY, /* taken for nothing */
    NET_SPAN,  /* a byte or code point in lo..hi */
    NET_CALL,  /* a text of rule lo */
    NET_BEGIN, /* taken for nothing before the first character only (patterns) */
    NET_END,   /* … after the last one */
};

/* What an edge does to the counter of its rule. */
enum net_flags {
    NET_COUNTS = 1, /* adds one, and may be taken only while there are fewer than the most */
    NET_CLOSES = 2, /* may be taken only when there are enough */
};

struct net_edge {
    uint32_t next, target; /* next: of the same state; 0: the last */
    uint32_t lo, hi;
    uint8_t kind, flags;
};

struct net_node {
    uint32_t edge; /* the last one added */
    bool rest;     /* all that any other state of its rule may still read can be read from here: the
                      others are needless */
};

enum net_problem { NET_FINE, NET_TOO_LARGE, NET_NO_MEMORY };

/* States and edges 0 are no states and edges: what is asked of a net with a problem goes there and
 * does nothing, so that a builder need look for problems only when it is done. */
struct net {
    struct net_node *nodes; /* [n_states] */
    struct net_edge *edges;
    uint32_t n_states, n_edges, states_capacity, edges_capacity, max_states;
    enum net_problem problem;
};

/* From start to end. Nothing leads into start or out of end, until somebody adds it. */
struct frag {
    uint32_t start, end;
};

struct net net_with_max(uint32_t max_states);
void net_finish(struct net *net);
uint32_t net_state(struct net *net);
struct frag net_frag(struct net *net); /* two states, not connected */
void net_empty(struct net *net, uint32_t from, uint32_t to);
void net_span(struct net *net, uint32_t from, uint32_t to, uint32_t lo, uint32_t hi,
              unsigned flags);
void net_call(struct net *net, uint32_t from, uint32_t to, uint32_t rule);
void net_assert(struct net *net, uint32_t from, uint32_t to, enum net_kind kind);
/* The state behind n bytes that begin at `from`. */
uint32_t net_bytes(struct net *net, uint32_t from, const char *bytes, size_t n);

struct frag net_sequence(struct net *net, struct frag a, struct frag b);
struct frag net_alternatives(struct net *net, const struct frag *frags,
                             size_t n); /* none: nothing matches */
/* One or more. */
struct frag net_some(struct net *net, struct frag f);
/* A copy of f, whose states are all those from `begin` up to `end` and lead nowhere else. */
struct frag net_copy(struct net *net, uint32_t begin, uint32_t end, struct frag f);
/* f min..max times; max UINT32_MAX: any number. f's states are all those from `begin` on. */
struct frag net_repeat(struct net *net, uint32_t begin, struct frag f, uint32_t min, uint32_t max);

/* False, with a message that names the limit, when the net has a problem. */
bool net_check(const struct net *net, ey_err *e);

#endif
