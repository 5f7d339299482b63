/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the subset construction share: sets of states and rules, and what is found so
 * far (determinize.h). */
#ifndef EY_CONSTRAIN_DET_H
#define EY_CONSTRAIN_DET_H

#include "constrain/compile.h"
#include "constrain/grammar.h"

/* A growing array of numbers or of structs; `max` is of elements. */
struct list {
    void *data;
    uint32_t n, capacity, max, size;
};

/* A set of numbers in det.members; of rules: in order. */
struct set {
    uint32_t at, n, hash, level; /* level: of states and rule sets */
};

/* Finds sets by what they hold: slots are numbers of sets plus one. */
struct set_index {
    uint32_t *slot;
    uint32_t size; /* a power of two */
};

struct rule_set {
    struct set set;
    uint32_t entry; /* state behind the opening byte */
    uint32_t sites; /* the last one + 1 */
};

struct label {
    struct set set; /* of rules */
    uint32_t next;  /* the next label + 1 whose first rule is the same */
};

struct site {
    uint32_t state, rule_set, next; /* next: of the rule set, + 1 */
    uint8_t opens;
};

struct given_return {
    uint32_t site, label, state;
};

/* Which rule sets have a rule: lists by rule. */
struct membership {
    uint32_t rule_set, next;
};

struct span {
    uint32_t target, next; /* next: with the same single byte */
    uint8_t lo, hi, flags;
};

struct call {
    uint32_t rule, target;
};

struct det {
    struct compiler *c;
    uint32_t *owner; /* [net states] rule */
    uint8_t *need;   /* [net states] */
    uint32_t *mark;  /* [net states] stamp of the last walk that came by */
    uint32_t stamp, net_capacity;
    uint64_t work;
    struct list members, states, rule_sets, labels, sites, returns, memberships, edges, calls;
    struct set_index state_index, rule_set_index, label_index;
    uint32_t *sets_with;   /* [n_rules] the last membership + 1 */
    uint32_t *labels_with; /* [n_rules] the last label + 1 whose first rule it is */
    uint32_t settled_sites, settled_labels;
    /* scratch of one state */
    struct list seeds, found, spans, wide, open_calls, chosen;
    uint32_t head[256]; /* spans of a single byte + 1 */
};

/* ---- det_sets.c
 * ---------------------------------------------------------------------------------- */

struct list list_of(uint32_t size, uint32_t max);
/* Sorts numbers, and drops those that are there twice. */
void list_tidy(struct list *l);
int number_order(const void *a, const void *b);

static inline uint32_t *list_numbers(const struct list *l)
{
    return l->data;
}

/* Sets are the first member of the elements of `sets`. */
static inline const struct set *det_set_at(const struct list *sets, uint32_t i)
{
    return (const struct set *)((const char *)sets->data + (size_t)i * sets->size);
}

/* Room for one more; NULL: c has failed. */
void *det_push(struct det *d, struct list *l);
void det_push_number(struct det *d, struct list *l, uint32_t value);
/* False: there were too many steps, and c has failed. */
bool det_count_work(struct det *d, uint64_t steps);
/* The number of the set with the members of `l`, tidy or what the last walk found; *made says
 * whether it is new: then the caller fills the rest of its element. UINT32_MAX: c has failed. */
uint32_t det_set_number(struct det *d, struct list *sets, struct set_index *index,
                        const struct list *l, uint32_t level, bool *made);

/* ---- det_states.c
 * -------------------------------------------------------------------------------- */

/* The end of its rule. */
bool det_is_end(const struct det *d, uint32_t s);
/* Puts into d->found what d->seeds lead to for nothing, where the levels suffice; the seeds are
 * gone then. Returns a state of it that makes the others needless, or 0. */
uint32_t det_walk(struct det *d, uint32_t level);
/* The same without the needless; false: nothing is found, or c has failed. */
bool det_close_over(struct det *d, uint32_t level);
/* The state that is d->found, as the last of these calls left it. */
uint32_t det_state_found(struct det *d, uint32_t level);
/* owner, need and mark for all states of the net; false: c has failed. */
bool det_cover_net(struct det *d);
void det_own_body(struct det *d, uint32_t rule, const struct body *body);

/* ---- det_sites.c
 * --------------------------------------------------------------------------------- */

/* The set of the rules in d->chosen, called where `level` levels remain. */
uint32_t det_rule_set_chosen(struct det *d, uint32_t level, uint8_t opens);
/* The label of the rules whose ends are in d->found. */
uint32_t det_label_found(struct det *d);
/* Every site meets every label that its rules can end with, once: that gives the returns. */
void det_settle(struct det *d);

#endif
