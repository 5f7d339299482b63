/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the subset construction (dfa_builder.h): sets of states and rules, and the
 * tables built so far. */
#ifndef EY_CONSTRAIN_DFA_BUILDER_INTERNAL_H
#define EY_CONSTRAIN_DFA_BUILDER_INTERNAL_H

#include "constrain/automaton/grammar_compiler.h"
#include "constrain/automaton/automaton.h"

/* A growing array of numbers or structs, at most `max` elements of `size` bytes. */
struct growing_array {
    void *data;
    uint32_t n, capacity, max, size;
};

/* A set of numbers in dfa_builder.members; sets of rules are sorted. */
struct number_set {
    uint32_t first, n, hash, depth_left; /* depth_left: only for states and rule sets */
};

/* A hash table of sets by their members; slots hold set number + 1. */
struct set_index {
    uint32_t *slots;
    uint32_t size; /* a power of two */
};

struct rule_set {
    struct number_set set;
    uint32_t entry;      /* state after the opening byte */
    uint32_t call_sites; /* the last one added, + 1; it heads the list */
};

struct return_set {
    struct number_set set; /* of rules */
    uint32_t next;         /* the next return set + 1 with the same first rule */
};

struct call_site {
    uint32_t state, rule_set, next; /* next: the rule set's next call site, + 1 */
    uint8_t first_byte;
};

struct site_return {
    uint32_t site, return_set, state;
};

/* Linked lists of the rule sets that contain a rule. */
struct membership {
    uint32_t rule_set, next;
};

struct byte_span {
    uint32_t target, next; /* next: the next span that has only this one byte, + 1 */
    uint8_t lo, hi, flags;
};

struct open_call {
    uint32_t rule, target;
};

struct dfa_builder {
    struct compiler *c;
    uint32_t *owner;    /* [NFA states] rule */
    uint8_t *min_depth; /* [NFA states] */
    uint32_t *visited;  /* [NFA states] stamp of the last closure that held it */
    uint32_t stamp, nfa_capacity;
    uint64_t work;
    struct growing_array members, states, rule_sets, return_sets, call_sites, returns, memberships,
        edges, calls;
    struct set_index state_index, rule_set_index, return_set_index;
    uint32_t *rule_sets_with;   /* [n_rules] the last membership + 1 */
    uint32_t *return_sets_with; /* [n_rules] the last return set that begins with the rule, + 1 */
    uint32_t linked_call_sites, linked_return_sets;
    /* scratch of one state */
    struct growing_array seeds, closure, spans, wide_spans, open_calls, chosen_rules;
    uint32_t span_of_byte[256]; /* the last span of only this byte, + 1 */
};

/* ---- dfa_sets.c ---- */

struct growing_array growing_array_of(uint32_t size, uint32_t max);
/* Sorts numbers and drops duplicates. */
void growing_array_sort_unique(struct growing_array *l);
int compare_u32(const void *a, const void *b);

static inline uint32_t *growing_array_u32(const struct growing_array *l)
{
    return l->data;
}

/* Returns the set in element i of `sets`, whose elements all begin with a struct number_set. */
static inline const struct number_set *dfa_set_at(const struct growing_array *sets, uint32_t i)
{
    return (const struct number_set *)((const char *)sets->data + (size_t)i * sets->size);
}

/* Appends an uninitialized element. If the array is full or memory runs out, fails c and returns
 * NULL. */
void *dfa_push(struct dfa_builder *d, struct growing_array *l);
void dfa_push_u32(struct dfa_builder *d, struct growing_array *l, uint32_t value);
/* Counts steps of work. Fails c if there are too many. */
bool dfa_count_work(struct dfa_builder *d, uint64_t steps);
/* Returns the number of the set with the members of `l`, or UINT32_MAX if c has failed. `l` must be
 * sorted, unless it is d->closure. If *made, the set is new and the caller fills the rest of its
 * element. */
uint32_t dfa_intern_set(struct dfa_builder *d, struct growing_array *sets, struct set_index *index,
                        const struct growing_array *l, uint32_t depth_left, bool *made);

/* ---- dfa_closure.c ---- */

/* Whether s is its rule's end. */
bool dfa_is_end(const struct dfa_builder *d, uint32_t s);
/* Fills d->closure with the epsilon closure of d->seeds, without states that need more than
 * depth_left levels, and empties the seeds. Returns a state that dominates the others, or 0. */
uint32_t dfa_epsilon_closure(struct dfa_builder *d, uint32_t depth_left);
/* Like dfa_epsilon_closure, without dominated states. Returns false if the closure is empty or c
 * has failed. */
bool dfa_pruned_closure(struct dfa_builder *d, uint32_t depth_left);
/* Returns the number of the DFA state for d->closure. */
uint32_t dfa_state_of_closure(struct dfa_builder *d, uint32_t depth_left);
/* Grows owner, min_depth and visited to all NFA states. Returns false if c has failed. */
bool dfa_cover_nfa(struct dfa_builder *d);
void dfa_own_body(struct dfa_builder *d, uint32_t rule, const struct rule_body *body);

/* ---- dfa_call_sites.c ---- */

/* Returns the rule set of d->chosen_rules, called with depth_left levels left. */
uint32_t dfa_rule_set_of_chosen(struct dfa_builder *d, uint32_t depth_left, uint8_t first_byte);
/* Returns the return set of the rules whose ends are in d->closure. */
uint32_t dfa_return_set_of_closure(struct dfa_builder *d);
/* Links each new call site with each return set that its rules can end with. */
void dfa_link_returns(struct dfa_builder *d);

#endif
