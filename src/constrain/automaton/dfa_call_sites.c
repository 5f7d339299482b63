/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: sets of rules called together, their call sites, and where these continue when some of the
 * rules have ended. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "constrain/automaton/dfa_builder_internal.h"
#include "constrain/automaton/nesting_depth.h"

/* Returns the body to use: the counted one only if the rule is called alone, since two counters
 * cannot run at once. */
static const struct rule_body *body_for(struct dfa_builder *d, uint32_t rule, bool alone)
{
    struct rule *r = &d->c->rules[rule];
    bool counted = alone && r->has_counter;
    if (!counted && r->has_counter && !r->body[0].frag.end) {
        uint32_t n_rules = d->c->n_rules;
        if (!compiler_build_rule(d->c, rule, false) || !dfa_cover_nfa(d)) return NULL;
        r = &d->c->rules[rule];
        assert(d->c->n_rules == n_rules); /* unrolling adds no rules */
        (void)n_rules;
        dfa_own_body(d, rule, &r->body[0]);
        if (!measure_state_depths(d->c, d->owner, r->body[0].begin, r->body[0].end, d->min_depth))
            return NULL;
    }
    return &r->body[counted];
}

/* ---- rule sets, call sites, returns ---- */

/* Returns the entry state of a new rule set with the rules in d->chosen_rules. */
static uint32_t entry_state(struct dfa_builder *d, uint32_t depth_left, uint8_t first_byte)
{
    uint32_t n = d->chosen_rules.n;
    struct growing_array firsts = growing_array_of(sizeof(uint32_t), EY_MAX_GRAMMAR_NFA_STATES);
    for (uint32_t i = 0; i < n && !d->c->failed; i++) {
        const struct rule_body *body = body_for(d, growing_array_u32(&d->chosen_rules)[i], n == 1);
        if (body) dfa_push_u32(d, &d->seeds, body->frag.start);
    }
    dfa_epsilon_closure(d, depth_left);
    for (uint32_t i = 0; i < d->closure.n && !d->c->failed; i++)
        for (uint32_t j = d->c->nfa.states[growing_array_u32(&d->closure)[i]].last_edge; j;
             j = d->c->nfa.edges[j].next) {
            const struct nfa_edge *edge = &d->c->nfa.edges[j];
            if (edge->kind == NFA_SPAN && edge->lo <= first_byte && first_byte <= edge->hi)
                dfa_push_u32(d, &firsts, edge->target);
        }
    for (uint32_t i = 0; i < firsts.n; i++)
        dfa_push_u32(d, &d->seeds, growing_array_u32(&firsts)[i]);
    free(firsts.data);
    return dfa_pruned_closure(d, depth_left) ? dfa_state_of_closure(d, depth_left) : UINT32_MAX;
}

uint32_t dfa_rule_set_of_chosen(struct dfa_builder *d, uint32_t depth_left, uint8_t first_byte)
{
    uint32_t most = 0;
    bool made;
    for (uint32_t i = 0; i < d->chosen_rules.n; i++) {
        uint32_t max_depth = d->c->rules[growing_array_u32(&d->chosen_rules)[i]].max_depth - 1;
        if (max_depth > most) most = max_depth;
    }
    depth_left = depth_left - 1 < most ? depth_left - 1 : most;
    uint32_t number = dfa_intern_set(d, &d->rule_sets, &d->rule_set_index, &d->chosen_rules,
                                     depth_left, &made);
    if (!made) return number;
    for (uint32_t i = 0; i < d->chosen_rules.n; i++) {
        uint32_t rule = growing_array_u32(&d->chosen_rules)[i];
        struct membership *m = dfa_push(d, &d->memberships);
        if (!m) return UINT32_MAX;
        *m = (struct membership){.rule_set = number, .next = d->rule_sets_with[rule]};
        d->rule_sets_with[rule] = d->memberships.n;
    }
    uint32_t entry = entry_state(d, depth_left, first_byte);
    if (d->c->failed) return UINT32_MAX;
    ((struct rule_set *)d->rule_sets.data)[number].entry = entry;
    return number;
}

static bool is_subset(const struct dfa_builder *d, const struct number_set *of,
                      const struct number_set *s)
{
    const uint32_t *a = growing_array_u32(&d->members) + s->first,
                   *b = growing_array_u32(&d->members) + of->first;
    uint32_t j = 0;
    for (uint32_t i = 0; i < s->n; i++, j++) {
        while (j < of->n && b[j] < a[i])
            j++;
        if (j == of->n || b[j] != a[i]) return false;
    }
    return true;
}

static bool has_rule(const struct dfa_builder *d, const struct number_set *s, uint32_t rule)
{
    return bsearch(&rule, growing_array_u32(&d->members) + s->first, s->n, sizeof(rule),
                   compare_u32) != NULL;
}

/* Adds the state in which a call site continues when the rules of a return set have ended. */
static void add_return(struct dfa_builder *d, uint32_t site, uint32_t return_set)
{
    const struct call_site *s = &((const struct call_site *)d->call_sites.data)[site];
    const struct return_set *l = &((const struct return_set *)d->return_sets.data)[return_set];
    const struct number_set *from = dfa_set_at(&d->states, s->state);
    uint32_t depth_left = from->depth_left;
    for (uint32_t i = 0; i < from->n && !d->c->failed; i++) {
        uint32_t state = growing_array_u32(&d->members)[from->first + i];
        for (uint32_t j = d->c->nfa.states[state].last_edge; j; j = d->c->nfa.edges[j].next) {
            const struct nfa_edge *edge = &d->c->nfa.edges[j];
            dfa_count_work(d, 1);
            if (edge->kind == NFA_CALL && has_rule(d, &l->set, edge->lo))
                dfa_push_u32(d, &d->seeds, edge->target);
        }
    }
    if (!dfa_pruned_closure(d, depth_left)) return;
    struct site_return given = {
        .site = site, .return_set = return_set, .state = dfa_state_of_closure(d, depth_left)};
    struct site_return *r = dfa_push(d, &d->returns);
    if (r) *r = given;
}

/* Links a return set with the call sites of all rule sets that hold its rules. */
static void link_return_set(struct dfa_builder *d, uint32_t return_set)
{
    struct return_set l = ((struct return_set *)d->return_sets.data)[return_set];
    uint32_t first = growing_array_u32(&d->members)[l.set.first];
    for (uint32_t i = d->rule_sets_with[first]; i && !d->c->failed;) {
        struct membership m = ((struct membership *)d->memberships.data)[i - 1];
        struct rule_set set = ((struct rule_set *)d->rule_sets.data)[m.rule_set];
        dfa_count_work(d, 1 + l.set.n);
        for (uint32_t s = is_subset(d, &set.set, &l.set) ? set.call_sites : 0;
             s && !d->c->failed;) {
            uint32_t next = ((struct call_site *)d->call_sites.data)[s - 1].next;
            if (s - 1 < d->linked_call_sites) add_return(d, s - 1, return_set);
            s = next;
        }
        i = m.next;
    }
}

static void link_call_site(struct dfa_builder *d, uint32_t site)
{
    struct rule_set set = ((struct rule_set *)d->rule_sets
                               .data)[((struct call_site *)d->call_sites.data)[site].rule_set];
    for (uint32_t i = 0; i < set.set.n && !d->c->failed; i++) {
        uint32_t rule = growing_array_u32(&d->members)[set.set.first + i];
        for (uint32_t l = d->return_sets_with[rule]; l && !d->c->failed;) {
            struct return_set return_set = ((struct return_set *)d->return_sets.data)[l - 1];
            dfa_count_work(d, 1 + return_set.set.n);
            if (is_subset(d, &set.set, &return_set.set)) add_return(d, site, l - 1);
            l = return_set.next;
        }
    }
}

void dfa_link_returns(struct dfa_builder *d)
{
    for (; d->linked_return_sets < d->return_sets.n && !d->c->failed; d->linked_return_sets++)
        link_return_set(d, d->linked_return_sets);
    for (; d->linked_call_sites < d->call_sites.n && !d->c->failed; d->linked_call_sites++)
        link_call_site(d, d->linked_call_sites);
}

uint32_t dfa_return_set_of_closure(struct dfa_builder *d)
{
    bool made;
    d->chosen_rules.n = 0;
    for (uint32_t i = 0; i < d->closure.n; i++)
        dfa_push_u32(d, &d->chosen_rules, d->owner[growing_array_u32(&d->closure)[i]]);
    growing_array_sort_unique(&d->chosen_rules);
    uint32_t number = dfa_intern_set(d, &d->return_sets, &d->return_set_index, &d->chosen_rules, 0,
                                     &made);
    if (made) {
        uint32_t *list = &d->return_sets_with[growing_array_u32(&d->chosen_rules)[0]];
        ((struct return_set *)d->return_sets.data)[number].next = *list;
        *list = number + 1;
    }
    return number;
}
