/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: the rules that are called together, the places that call them, and where those go on when
 * some of the rules have come to their end. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "constrain/det.h"
#include "constrain/heights.h"

/* The body that is right where a rule is called alone, or with others: two counters cannot run at
 * once. */
static const struct body *body_for(struct det *d, uint32_t rule, bool alone)
{
    struct rule *r = &d->c->rules[rule];
    bool counted = alone && r->has_counter;
    if (!counted && r->has_counter && !r->body[0].frag.end) {
        uint32_t n_rules = d->c->n_rules;
        if (!build_rule(d->c, rule, false) || !det_cover_net(d)) return NULL;
        r = &d->c->rules[rule];
        assert(d->c->n_rules == n_rules); /* the same parts, spelled in another way */
        det_own_body(d, rule, &r->body[0]);
        if (!measure_needs(d->c, d->owner, r->body[0].begin, r->body[0].end, d->need)) return NULL;
    }
    return &r->body[counted];
}

/* ---- rule sets, sites, returns
 * ------------------------------------------------------------------- */

/* Finds the entry of a new rule set, whose rules are in d->chosen. */
static uint32_t entry_state(struct det *d, uint32_t level, uint8_t opens)
{
    uint32_t n = d->chosen.n;
    struct list firsts = list_of(sizeof(uint32_t), EY_MAX_GRAMMAR_NET);
    for (uint32_t i = 0; i < n && !d->c->failed; i++) {
        const struct body *body = body_for(d, list_numbers(&d->chosen)[i], n == 1);
        if (body) det_push_number(d, &d->seeds, body->frag.start);
    }
    det_walk(d, level);
    for (uint32_t i = 0; i < d->found.n && !d->c->failed; i++)
        for (uint32_t j = d->c->net.nodes[list_numbers(&d->found)[i]].edge; j;
             j = d->c->net.edges[j].next) {
            const struct net_edge *edge = &d->c->net.edges[j];
            if (edge->kind == NET_SPAN && edge->lo <= opens && opens <= edge->hi)
                det_push_number(d, &firsts, edge->target);
        }
    for (uint32_t i = 0; i < firsts.n; i++)
        det_push_number(d, &d->seeds, list_numbers(&firsts)[i]);
    free(firsts.data);
    return det_close_over(d, level) ? det_state_found(d, level) : UINT32_MAX;
}

uint32_t det_rule_set_chosen(struct det *d, uint32_t level, uint8_t opens)
{
    uint32_t most = 0;
    bool made;
    for (uint32_t i = 0; i < d->chosen.n; i++) {
        uint32_t reach = d->c->rules[list_numbers(&d->chosen)[i]].reach - 1;
        if (reach > most) most = reach;
    }
    level = level - 1 < most ? level - 1 : most;
    uint32_t number = det_set_number(d, &d->rule_sets, &d->rule_set_index, &d->chosen, level,
                                     &made);
    if (!made) return number;
    for (uint32_t i = 0; i < d->chosen.n; i++) {
        uint32_t rule = list_numbers(&d->chosen)[i];
        struct membership *m = det_push(d, &d->memberships);
        if (!m) return UINT32_MAX;
        *m = (struct membership){.rule_set = number, .next = d->sets_with[rule]};
        d->sets_with[rule] = d->memberships.n;
    }
    uint32_t entry = entry_state(d, level, opens);
    if (d->c->failed) return UINT32_MAX;
    ((struct rule_set *)d->rule_sets.data)[number].entry = entry;
    return number;
}

static bool is_subset(const struct det *d, const struct set *of, const struct set *s)
{
    const uint32_t *a = list_numbers(&d->members) + s->at, *b = list_numbers(&d->members) + of->at;
    uint32_t j = 0;
    for (uint32_t i = 0; i < s->n; i++, j++) {
        while (j < of->n && b[j] < a[i])
            j++;
        if (j == of->n || b[j] != a[i]) return false;
    }
    return true;
}

static bool has_rule(const struct det *d, const struct set *s, uint32_t rule)
{
    return bsearch(&rule, list_numbers(&d->members) + s->at, s->n, sizeof(rule), number_order) !=
           NULL;
}

/* Where to go on when the rules of a label, called at a site, have come to their end. */
static void add_return(struct det *d, uint32_t site, uint32_t label)
{
    const struct site *s = &((const struct site *)d->sites.data)[site];
    const struct label *l = &((const struct label *)d->labels.data)[label];
    const struct set *from = det_set_at(&d->states, s->state);
    uint32_t level = from->level;
    for (uint32_t i = 0; i < from->n && !d->c->failed; i++) {
        uint32_t state = list_numbers(&d->members)[from->at + i];
        for (uint32_t j = d->c->net.nodes[state].edge; j; j = d->c->net.edges[j].next) {
            const struct net_edge *edge = &d->c->net.edges[j];
            det_count_work(d, 1);
            if (edge->kind == NET_CALL && has_rule(d, &l->set, edge->lo))
                det_push_number(d, &d->seeds, edge->target);
        }
    }
    if (!det_close_over(d, level)) return;
    struct given_return given = {.site = site, .label = label, .state = det_state_found(d, level)};
    struct given_return *r = det_push(d, &d->returns);
    if (r) *r = given;
}

/* The sites of all rule sets that hold the label's rules, up to those of this round. */
static void settle_label(struct det *d, uint32_t label)
{
    struct label l = ((struct label *)d->labels.data)[label];
    uint32_t first = list_numbers(&d->members)[l.set.at];
    for (uint32_t i = d->sets_with[first]; i && !d->c->failed;) {
        struct membership m = ((struct membership *)d->memberships.data)[i - 1];
        struct rule_set set = ((struct rule_set *)d->rule_sets.data)[m.rule_set];
        det_count_work(d, 1 + l.set.n);
        for (uint32_t s = is_subset(d, &set.set, &l.set) ? set.sites : 0; s && !d->c->failed;) {
            uint32_t next = ((struct site *)d->sites.data)[s - 1].next;
            if (s - 1 < d->settled_sites) add_return(d, s - 1, label);
            s = next;
        }
        i = m.next;
    }
}

static void settle_site(struct det *d, uint32_t site)
{
    struct rule_set set =
        ((struct rule_set *)d->rule_sets.data)[((struct site *)d->sites.data)[site].rule_set];
    for (uint32_t i = 0; i < set.set.n && !d->c->failed; i++) {
        uint32_t rule = list_numbers(&d->members)[set.set.at + i];
        for (uint32_t l = d->labels_with[rule]; l && !d->c->failed;) {
            struct label label = ((struct label *)d->labels.data)[l - 1];
            det_count_work(d, 1 + label.set.n);
            if (is_subset(d, &set.set, &label.set)) add_return(d, site, l - 1);
            l = label.next;
        }
    }
}

void det_settle(struct det *d)
{
    for (; d->settled_labels < d->labels.n && !d->c->failed; d->settled_labels++)
        settle_label(d, d->settled_labels);
    for (; d->settled_sites < d->sites.n && !d->c->failed; d->settled_sites++)
        settle_site(d, d->settled_sites);
}

uint32_t det_label_found(struct det *d)
{
    bool made;
    d->chosen.n = 0;
    for (uint32_t i = 0; i < d->found.n; i++)
        det_push_number(d, &d->chosen, d->owner[list_numbers(&d->found)[i]]);
    list_tidy(&d->chosen);
    uint32_t number = det_set_number(d, &d->labels, &d->label_index, &d->chosen, 0, &made);
    if (made) {
        uint32_t *list = &d->labels_with[list_numbers(&d->chosen)[0]];
        ((struct label *)d->labels.data)[number].next = *list;
        *list = number + 1;
    }
    return number;
}
