/* SPDX-License-Identifier: Apache-2.0 */
/* The subset construction, over states that call rules: edges of each state, then the tables. */
#include "constrain/determinize.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "constrain/det.h"
#include "constrain/heights.h"
#include "constrain/needs.h"
#include "constrain/rooms.h"

/* ---- edges of a state
 * ---------------------------------------------------------------------------- */

static void add_edge(struct det *d, uint32_t first_edge, struct grammar_edge edge)
{
    struct grammar_edge *last = d->edges.n > first_edge
                                    ? &((struct grammar_edge *)d->edges.data)[d->edges.n - 1]
                                    : NULL;
    if (last && last->hi + 1 == edge.lo && last->kind == edge.kind && last->flags == edge.flags &&
        last->target == edge.target && edge.kind != EDGE_CALL) {
        last->hi = edge.hi;
        return;
    }
    struct grammar_edge *e = det_push(d, &d->edges);
    if (e) *e = edge;
}

/* Behind a rule's end nothing of it comes, so either all states of a set are ends of rules or none
 * is. */
static bool is_return(struct det *d)
{
    uint32_t ends = 0;
    for (uint32_t i = 0; i < d->found.n; i++) {
        uint32_t s = list_numbers(&d->found)[i];
        ends += d->owner[s] && det_is_end(d, s);
    }
    assert(!ends || ends == d->found.n);
    return ends;
}

static void list_spans(struct det *d, uint32_t state)
{
    struct set s = *det_set_at(&d->states, state);
    d->spans.n = d->wide.n = d->open_calls.n = 0;
    memset(d->head, 0, sizeof(d->head));
    for (uint32_t i = 0; i < s.n && !d->c->failed; i++)
        for (uint32_t j = d->c->net.nodes[list_numbers(&d->members)[s.at + i]].edge; j;
             j = d->c->net.edges[j].next) {
            const struct net_edge *edge = &d->c->net.edges[j];
            det_count_work(d, 1);
            if (edge->kind == NET_EMPTY || d->need[edge->target] > s.level) continue;
            if (edge->kind == NET_CALL) {
                struct call *call = d->c->rules[edge->lo].height <= s.level
                                        ? det_push(d, &d->open_calls)
                                        : NULL;
                if (call) *call = (struct call){.rule = edge->lo, .target = edge->target};
                continue;
            }
            struct span *span = det_push(d, &d->spans);
            if (!span) return;
            *span = (struct span){.target = edge->target,
                                  .lo = (uint8_t)edge->lo,
                                  .hi = (uint8_t)edge->hi,
                                  .flags = edge->flags};
            if (edge->lo == edge->hi) {
                span->next = d->head[edge->lo];
                d->head[edge->lo] = d->spans.n;
            } else
                det_push_number(d, &d->wide, d->spans.n - 1);
        }
}

/* Bytes where the spans that hold may change. */
static void mark_cuts(const struct det *d, bool cut[257])
{
    const struct span *spans = d->spans.data;
    memset(cut, 0, 257 * sizeof(*cut));
    cut[0] = cut[256] = true;
    for (uint32_t i = 0; i < d->spans.n; i++)
        cut[spans[i].lo] = cut[spans[i].hi + 1] = true;
}

/* Puts the targets of byte b into d->seeds; what they do to the counter. */
static uint8_t seed_byte(struct det *d, unsigned b)
{
    uint8_t flags = 0;
    for (uint32_t i = d->head[b]; i; i = ((struct span *)d->spans.data)[i - 1].next) {
        flags |= ((struct span *)d->spans.data)[i - 1].flags;
        det_push_number(d, &d->seeds, ((struct span *)d->spans.data)[i - 1].target);
    }
    for (uint32_t i = 0; i < d->wide.n; i++) {
        const struct span *span = &((struct span *)d->spans.data)[list_numbers(&d->wide)[i]];
        if (span->lo > b || span->hi < b) continue;
        flags |= span->flags;
        det_push_number(d, &d->seeds, span->target);
    }
    det_count_work(d, d->wide.n + d->seeds.n);
    return flags;
}

static void add_span_edges(struct det *d, uint32_t level, uint32_t first_edge)
{
    bool cut[257];
    mark_cuts(d, cut);
    for (unsigned b = 0, next; b < 256 && !d->c->failed; b = next) {
        for (next = b + 1; !cut[next]; next++) {}
        uint8_t flags = seed_byte(d, b);
        if (!d->seeds.n || !det_close_over(d, level)) continue;
        struct grammar_edge edge = {.lo = (uint8_t)b, .hi = (uint8_t)(next - 1), .flags = flags};
        edge.kind = is_return(d) ? EDGE_RETURN : EDGE_MOVE;
        edge.target = edge.kind == EDGE_RETURN ? det_label_found(d) : det_state_found(d, level);
        add_edge(d, first_edge, edge);
    }
}

static void add_call_edge(struct det *d, uint32_t state, uint32_t first_edge, uint8_t opens)
{
    struct grammar_edge *edges = d->edges.data;
    for (uint32_t i = first_edge; i < d->edges.n; i++)
        if (edges[i].lo <= opens && opens <= edges[i].hi) {
            compiler_fail(d->c,
                          "two alternatives begin with '%c', one as plain text, one as JSON, which "
                          "is not supported",
                          opens);
            return;
        }
    uint32_t rule_set = det_rule_set_chosen(d, det_set_at(&d->states, state)->level, opens);
    struct site *site = d->c->failed ? NULL : det_push(d, &d->sites);
    struct grammar_call *call = site ? det_push(d, &d->calls) : NULL;
    if (!call) return;
    struct rule_set *set = &((struct rule_set *)d->rule_sets.data)[rule_set];
    *site = (struct site){.state = state, .rule_set = rule_set, .next = set->sites, .opens = opens};
    set->sites = d->sites.n;
    *call = (struct grammar_call){.site = d->sites.n - 1, .state = set->entry};
    add_edge(d, first_edge,
             (struct grammar_edge){
                 .lo = opens, .hi = opens, .kind = EDGE_CALL, .target = d->calls.n - 1});
}

static void add_call_edges(struct det *d, uint32_t state, uint32_t first_edge)
{
    static const uint8_t brackets[] = {'"', '[', '{'};
    for (size_t i = 0; i < sizeof(brackets) && !d->c->failed; i++) {
        d->chosen.n = 0;
        for (uint32_t j = 0; j < d->open_calls.n; j++) {
            uint32_t rule = ((struct call *)d->open_calls.data)[j].rule;
            if (d->c->rules[rule].opens == brackets[i]) det_push_number(d, &d->chosen, rule);
        }
        list_tidy(&d->chosen);
        if (d->chosen.n) add_call_edge(d, state, first_edge, brackets[i]);
    }
}

static int edge_order(const void *a, const void *b)
{
    return (int)((const struct grammar_edge *)a)->lo - (int)((const struct grammar_edge *)b)->lo;
}

/* ---- the whole
 * ----------------------------------------------------------------------------------- */

/* Edges of all states, in the order in which they are found. first_edges: of each state. */
static void build_states(struct det *d, struct list *first_edges)
{
    for (uint32_t s = 0; s < d->states.n && !d->c->failed; s++) {
        uint32_t first = d->edges.n;
        det_push_number(d, first_edges, first);
        list_spans(d, s);
        add_span_edges(d, det_set_at(&d->states, s)->level, first);
        add_call_edges(d, s, first);
        if (d->edges.n > first)
            qsort((struct grammar_edge *)d->edges.data + first, d->edges.n - first,
                  sizeof(struct grammar_edge), edge_order);
        det_settle(d);
    }
}

static int return_order(const void *a, const void *b)
{
    const struct given_return *x = a, *y = b;
    if (x->site != y->site) return x->site < y->site ? -1 : 1;
    return (x->label > y->label) - (x->label < y->label);
}

static void fill_returns(struct det *d, struct grammar *g)
{
    struct given_return *given = d->returns.data;
    if (d->returns.n) qsort(given, d->returns.n, sizeof(*given), return_order);
    for (uint32_t i = 0; i < d->returns.n; i++) {
        struct grammar_site *site = &g->sites[given[i].site];
        if (!site->n_returns++) site->returns = i;
        g->returns[i] = (struct grammar_return){.label = given[i].label, .state = given[i].state};
    }
}

/* The whole grammar's end is among the states of a set. */
static bool has_whole_end(const struct det *d, const struct set *set)
{
    for (uint32_t i = 0; i < set->n; i++) {
        uint32_t s = list_numbers(&d->members)[set->at + i];
        if (!d->owner[s] && det_is_end(d, s)) return true;
    }
    return false;
}

static void fill_states(struct det *d, struct grammar *g, const struct list *first_edges)
{
    for (uint32_t s = 0; s < g->n_states; s++) {
        const struct set *set = det_set_at(&d->states, s);
        uint32_t end = s + 1 < g->n_states ? list_numbers(first_edges)[s + 1] : g->n_edges;
        uint32_t first = list_numbers(&d->members)[set->at], owner = d->owner[first];
        const struct body *counted = &d->c->rules[owner].body[1];
        struct grammar_state *out = &g->states[s];
        out->edges = list_numbers(first_edges)[s];
        out->n_edges = (uint16_t)(end - out->edges);
        if (d->c->rules[owner].has_counter && first >= counted->begin && first < counted->end)
            out->counter = owner;
        out->accepts = has_whole_end(d, set);
    }
    for (uint32_t r = 0; r < g->n_counters; r++)
        g->counters[r] = (struct grammar_counter){.min = d->c->rules[r].min,
                                                  .max = d->c->rules[r].max};
}

static void *table(struct det *d, struct grammar *g, uint32_t n, size_t size, const void *content)
{
    void *memory = calloc((size_t)n + 1, size);
    if (!memory) return compiler_fail_memory(d->c, "a grammar", n * size), NULL;
    if (content) memcpy(memory, content, n * size);
    g->bytes += (n + 1) * size;
    return memory;
}

static bool fill(struct det *d, struct grammar *g, const struct list *first_edges)
{
    g->n_states = d->states.n;
    g->n_edges = d->edges.n;
    g->n_calls = d->calls.n;
    g->n_sites = d->sites.n;
    g->n_returns = d->returns.n;
    g->n_counters = d->c->n_rules;
    g->states = table(d, g, g->n_states, sizeof(*g->states), NULL);
    g->edges = table(d, g, g->n_edges, sizeof(*g->edges), d->edges.data);
    g->calls = table(d, g, g->n_calls, sizeof(*g->calls), d->calls.data);
    g->sites = table(d, g, g->n_sites, sizeof(*g->sites), NULL);
    g->returns = table(d, g, g->n_returns, sizeof(*g->returns), NULL);
    g->counters = table(d, g, g->n_counters, sizeof(*g->counters), NULL);
    if (d->c->failed) return false;
    fill_returns(d, g);
    fill_states(d, g, first_edges);
    g->levels = det_set_at(&d->states, 0)->level;
    return (measure_rooms(g) && measure_counted(g)) ||
           compiler_fail_memory(d->c, "a grammar", g->n_states);
}

static bool start(struct det *d)
{
    struct compiler *c = d->c;
    if (!det_cover_net(d)) return false;
    for (uint32_t r = 1; r < c->n_rules; r++)
        det_own_body(d, r, &c->rules[r].body[c->rules[r].has_counter]);
    if (!measure_rules(c, d->owner) || !measure_needs(c, d->owner, 0, c->net.n_states, d->need))
        return false;
    d->need[0] = NEVER;
    d->sets_with = calloc(c->n_rules, sizeof(*d->sets_with));
    d->labels_with = calloc(c->n_rules, sizeof(*d->labels_with));
    if (!d->sets_with || !d->labels_with)
        return compiler_fail_memory(c, "a grammar's rules", c->n_rules);
    if (c->rules[0].height > EY_MAX_GRAMMAR_LEVELS + 1)
        return compiler_fail(c,
                             "no text satisfies it within %d levels of nesting: its parts "
                             "contradict each other, or need "
                             "themselves without end",
                             EY_MAX_GRAMMAR_LEVELS);
    det_push_number(d, &d->seeds, c->rules[0].body[0].frag.start);
    if (!det_close_over(d, EY_MAX_GRAMMAR_LEVELS))
        return c->failed ? false : compiler_fail(c, "no text satisfies it");
    det_state_found(d, EY_MAX_GRAMMAR_LEVELS);
    return !c->failed;
}

static void det_init(struct det *d, struct compiler *c)
{
    *d = (struct det){.c = c};
    d->members = list_of(sizeof(uint32_t), EY_MAX_GRAMMAR_MEMBERS);
    d->states = list_of(sizeof(struct set), EY_MAX_GRAMMAR_STATES);
    d->rule_sets = list_of(sizeof(struct rule_set), EY_MAX_GRAMMAR_STATES);
    d->labels = list_of(sizeof(struct label), EY_MAX_GRAMMAR_STATES);
    d->sites = list_of(sizeof(struct site), EY_MAX_GRAMMAR_EDGES);
    d->returns = list_of(sizeof(struct given_return), EY_MAX_GRAMMAR_EDGES);
    d->memberships = list_of(sizeof(struct membership), EY_MAX_GRAMMAR_EDGES);
    d->edges = list_of(sizeof(struct grammar_edge), EY_MAX_GRAMMAR_EDGES);
    d->calls = list_of(sizeof(struct grammar_call), EY_MAX_GRAMMAR_EDGES);
    d->spans = list_of(sizeof(struct span), EY_MAX_GRAMMAR_MEMBERS);
    d->open_calls = list_of(sizeof(struct call), EY_MAX_GRAMMAR_MEMBERS);
    d->seeds = d->found = d->wide = d->chosen = list_of(sizeof(uint32_t), EY_MAX_GRAMMAR_MEMBERS);
}

static void det_finish(struct det *d)
{
    struct list *lists[] = {&d->members,    &d->states,      &d->rule_sets, &d->labels, &d->sites,
                            &d->returns,    &d->memberships, &d->edges,     &d->calls,  &d->spans,
                            &d->open_calls, &d->seeds,       &d->found,     &d->wide,   &d->chosen};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        free(lists[i]->data);
    free(d->owner);
    free(d->need);
    free(d->mark);
    free(d->sets_with);
    free(d->labels_with);
    free(d->state_index.slot);
    free(d->rule_set_index.slot);
    free(d->label_index.slot);
}

bool determinize(struct grammar **out, struct compiler *c)
{
    struct det d;
    struct list first_edges = list_of(sizeof(uint32_t), EY_MAX_GRAMMAR_STATES);
    struct grammar *g = calloc(1, sizeof(*g));
    det_init(&d, c);
    if (g) {
        g->bytes = sizeof(*g);
        atomic_init(&g->owners, 1);
    } else
        compiler_fail_memory(c, "a grammar", sizeof(*g));
    if (!c->failed && start(&d)) build_states(&d, &first_edges);
    bool ok = !c->failed && fill(&d, g, &first_edges);
    free(first_edges.data);
    det_finish(&d);
    if (ok)
        *out = g;
    else
        grammar_release(&g);
    return ok;
}
