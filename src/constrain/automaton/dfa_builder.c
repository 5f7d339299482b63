/* SPDX-License-Identifier: Apache-2.0 */
/* The subset construction: edges of each state, then the tables. */
#include "constrain/automaton/dfa_builder.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "constrain/automaton/dfa_builder_internal.h"
#include "constrain/automaton/nesting_depth.h"

/* ---- edges of a state ---- */

static void dfa_add_edge(struct dfa_builder *d, uint32_t first_edge, struct grammar_edge edge)
{
    struct grammar_edge *last = d->edges.n > first_edge
                                    ? &((struct grammar_edge *)d->edges.data)[d->edges.n - 1]
                                    : NULL;
    if (last && last->hi + 1 == edge.lo && last->kind == edge.kind && last->flags == edge.flags &&
        last->target == edge.target && edge.kind != EDGE_CALL) {
        last->hi = edge.hi;
        return;
    }
    struct grammar_edge *e = dfa_push(d, &d->edges);
    if (e) *e = edge;
}

/* The byte alone tells whether a rule ends (grammar_compiler.h), and ends have no successors, so
 * either all states of a set are ends or none is. */
static bool is_return(struct dfa_builder *d)
{
    uint32_t ends = 0;
    for (uint32_t i = 0; i < d->closure.n; i++) {
        uint32_t s = growing_array_u32(&d->closure)[i];
        ends += d->owner[s] && dfa_is_end(d, s);
    }
    assert(!ends || ends == d->closure.n);
    return ends;
}

static void list_spans(struct dfa_builder *d, uint32_t state)
{
    struct number_set s = *dfa_set_at(&d->states, state);
    d->spans.n = d->wide_spans.n = d->open_calls.n = 0;
    memset(d->span_of_byte, 0, sizeof(d->span_of_byte));
    for (uint32_t i = 0; i < s.n && !d->c->failed; i++)
        for (uint32_t j = d->c->nfa.states[growing_array_u32(&d->members)[s.first + i]].last_edge;
             j; j = d->c->nfa.edges[j].next) {
            const struct nfa_edge *edge = &d->c->nfa.edges[j];
            dfa_count_work(d, 1);
            if (edge->kind == NFA_EPSILON || d->min_depth[edge->target] > s.depth_left) continue;
            if (edge->kind == NFA_CALL) {
                struct open_call *call = d->c->rules[edge->lo].min_depth <= s.depth_left
                                             ? dfa_push(d, &d->open_calls)
                                             : NULL;
                if (call) *call = (struct open_call){.rule = edge->lo, .target = edge->target};
                continue;
            }
            struct byte_span *span = dfa_push(d, &d->spans);
            if (!span) return;
            *span = (struct byte_span){.target = edge->target,
                                       .lo = (uint8_t)edge->lo,
                                       .hi = (uint8_t)edge->hi,
                                       .flags = edge->flags};
            if (edge->lo == edge->hi) {
                span->next = d->span_of_byte[edge->lo];
                d->span_of_byte[edge->lo] = d->spans.n;
            } else
                dfa_push_u32(d, &d->wide_spans, d->spans.n - 1);
        }
}

/* Marks the bytes at which the set of matching spans may change. */
static void mark_cuts(const struct dfa_builder *d, bool cut[257])
{
    const struct byte_span *spans = d->spans.data;
    memset(cut, 0, 257 * sizeof(*cut));
    cut[0] = cut[256] = true;
    for (uint32_t i = 0; i < d->spans.n; i++)
        cut[spans[i].lo] = cut[spans[i].hi + 1] = true;
}

/* Puts the targets of byte b into d->seeds. Returns the counter flags of their edges. */
static uint8_t seed_byte(struct dfa_builder *d, unsigned b)
{
    uint8_t flags = 0;
    for (uint32_t i = d->span_of_byte[b]; i; i = ((struct byte_span *)d->spans.data)[i - 1].next) {
        flags |= ((struct byte_span *)d->spans.data)[i - 1].flags;
        dfa_push_u32(d, &d->seeds, ((struct byte_span *)d->spans.data)[i - 1].target);
    }
    for (uint32_t i = 0; i < d->wide_spans.n; i++) {
        const struct byte_span *span = &(
            (struct byte_span *)d->spans.data)[growing_array_u32(&d->wide_spans)[i]];
        if (span->lo > b || span->hi < b) continue;
        flags |= span->flags;
        dfa_push_u32(d, &d->seeds, span->target);
    }
    dfa_count_work(d, d->wide_spans.n + d->seeds.n);
    return flags;
}

static void add_span_edges(struct dfa_builder *d, uint32_t depth_left, uint32_t first_edge)
{
    bool cut[257];
    mark_cuts(d, cut);
    for (unsigned b = 0, next; b < 256 && !d->c->failed; b = next) {
        for (next = b + 1; !cut[next]; next++) {}
        uint8_t flags = seed_byte(d, b);
        if (!d->seeds.n || !dfa_pruned_closure(d, depth_left)) continue;
        struct grammar_edge edge = {.lo = (uint8_t)b, .hi = (uint8_t)(next - 1), .flags = flags};
        edge.kind = is_return(d) ? EDGE_RETURN : EDGE_MOVE;
        edge.target = edge.kind == EDGE_RETURN ? dfa_return_set_of_closure(d)
                                               : dfa_state_of_closure(d, depth_left);
        dfa_add_edge(d, first_edge, edge);
    }
}

static void add_call_edge(struct dfa_builder *d, uint32_t state, uint32_t first_edge,
                          uint8_t first_byte)
{
    struct grammar_edge *edges = d->edges.data;
    for (uint32_t i = first_edge; i < d->edges.n; i++)
        if (edges[i].lo <= first_byte && first_byte <= edges[i].hi) {
            compiler_fail(d->c,
                          "two alternatives begin with '%c', one as plain text, one as JSON, which "
                          "is not supported",
                          first_byte);
            return;
        }
    uint32_t rule_set = dfa_rule_set_of_chosen(d, dfa_set_at(&d->states, state)->depth_left,
                                               first_byte);
    struct call_site *site = d->c->failed ? NULL : dfa_push(d, &d->call_sites);
    struct grammar_call *call = site ? dfa_push(d, &d->calls) : NULL;
    if (!call) return;
    struct rule_set *set = &((struct rule_set *)d->rule_sets.data)[rule_set];
    *site = (struct call_site){
        .state = state, .rule_set = rule_set, .next = set->call_sites, .first_byte = first_byte};
    set->call_sites = d->call_sites.n;
    *call = (struct grammar_call){.site = d->call_sites.n - 1, .state = set->entry};
    dfa_add_edge(
        d, first_edge,
        (struct grammar_edge){
            .lo = first_byte, .hi = first_byte, .kind = EDGE_CALL, .target = d->calls.n - 1});
}

static void add_call_edges(struct dfa_builder *d, uint32_t state, uint32_t first_edge)
{
    static const uint8_t brackets[] = {'"', '[', '{'};
    for (size_t i = 0; i < sizeof(brackets) && !d->c->failed; i++) {
        d->chosen_rules.n = 0;
        for (uint32_t j = 0; j < d->open_calls.n; j++) {
            uint32_t rule = ((struct open_call *)d->open_calls.data)[j].rule;
            if (d->c->rules[rule].first_byte == brackets[i])
                dfa_push_u32(d, &d->chosen_rules, rule);
        }
        growing_array_sort_unique(&d->chosen_rules);
        if (d->chosen_rules.n) add_call_edge(d, state, first_edge, brackets[i]);
    }
}

static int compare_edges(const void *a, const void *b)
{
    return (int)((const struct grammar_edge *)a)->lo - (int)((const struct grammar_edge *)b)->lo;
}

/* ---- automaton ---- */

/* Builds the edges of all states in the order of discovery. first_edges[s] is state s's first. */
static void build_states(struct dfa_builder *d, struct growing_array *first_edges)
{
    for (uint32_t s = 0; s < d->states.n && !d->c->failed; s++) {
        uint32_t first = d->edges.n;
        dfa_push_u32(d, first_edges, first);
        list_spans(d, s);
        add_span_edges(d, dfa_set_at(&d->states, s)->depth_left, first);
        add_call_edges(d, s, first);
        if (d->edges.n > first)
            qsort((struct grammar_edge *)d->edges.data + first, d->edges.n - first,
                  sizeof(struct grammar_edge), compare_edges);
        dfa_link_returns(d);
    }
}

static int compare_returns(const void *a, const void *b)
{
    const struct site_return *x = a, *y = b;
    if (x->site != y->site) return x->site < y->site ? -1 : 1;
    return (x->return_set > y->return_set) - (x->return_set < y->return_set);
}

static void fill_returns(struct dfa_builder *d, struct grammar *g)
{
    struct site_return *given = d->returns.data;
    if (d->returns.n) qsort(given, d->returns.n, sizeof(*given), compare_returns);
    for (uint32_t i = 0; i < d->returns.n; i++) {
        struct grammar_call_site *site = &g->call_sites[given[i].site];
        if (!site->n_returns++) site->first_return = i;
        g->returns[i] = (struct grammar_return){.return_set = given[i].return_set,
                                                .state = given[i].state};
    }
}

/* Whether the grammar's end is in the set. */
static bool has_whole_end(const struct dfa_builder *d, const struct number_set *set)
{
    for (uint32_t i = 0; i < set->n; i++) {
        uint32_t s = growing_array_u32(&d->members)[set->first + i];
        if (!d->owner[s] && dfa_is_end(d, s)) return true;
    }
    return false;
}

static void fill_states(struct dfa_builder *d, struct grammar *g,
                        const struct growing_array *first_edges)
{
    for (uint32_t s = 0; s < g->n_states; s++) {
        const struct number_set *set = dfa_set_at(&d->states, s);
        uint32_t end = s + 1 < g->n_states ? growing_array_u32(first_edges)[s + 1] : g->n_edges;
        uint32_t first = growing_array_u32(&d->members)[set->first], owner = d->owner[first];
        const struct rule_body *counted = &d->c->rules[owner].body[1];
        struct grammar_state *out = &g->states[s];
        out->first_edge = growing_array_u32(first_edges)[s];
        out->n_edges = (uint16_t)(end - out->first_edge);
        if (d->c->rules[owner].has_counter && first >= counted->begin && first < counted->end)
            out->counter = owner;
        out->accepts = has_whole_end(d, set);
    }
    for (uint32_t r = 0; r < g->n_counters; r++)
        g->counters[r] = (struct grammar_counter){.min = d->c->rules[r].min,
                                                  .max = d->c->rules[r].max};
}

static void *copy_table(struct dfa_builder *d, struct grammar *g, uint32_t n, size_t size,
                        const void *content)
{
    void *memory = calloc((size_t)n + 1, size);
    if (!memory) {
        compiler_fail_memory(d->c, "a grammar", n * size);
        return NULL;
    }
    if (content) memcpy(memory, content, n * size);
    g->bytes += (n + 1) * size;
    return memory;
}

static bool fill_grammar(struct dfa_builder *d, struct grammar *g,
                         const struct growing_array *first_edges)
{
    g->n_states = d->states.n;
    g->n_edges = d->edges.n;
    g->n_calls = d->calls.n;
    g->n_call_sites = d->call_sites.n;
    g->n_returns = d->returns.n;
    g->n_counters = d->c->n_rules;
    g->states = copy_table(d, g, g->n_states, sizeof(*g->states), NULL);
    g->edges = copy_table(d, g, g->n_edges, sizeof(*g->edges), d->edges.data);
    g->calls = copy_table(d, g, g->n_calls, sizeof(*g->calls), d->calls.data);
    g->call_sites = copy_table(d, g, g->n_call_sites, sizeof(*g->call_sites), NULL);
    g->returns = copy_table(d, g, g->n_returns, sizeof(*g->returns), NULL);
    g->counters = copy_table(d, g, g->n_counters, sizeof(*g->counters), NULL);
    if (d->c->failed) return false;
    fill_returns(d, g);
    fill_states(d, g, first_edges);
    g->max_depth = dfa_set_at(&d->states, 0)->depth_left;
    return true;
}

static bool dfa_start(struct dfa_builder *d)
{
    struct compiler *c = d->c;
    if (!dfa_cover_nfa(d)) return false;
    for (uint32_t r = 1; r < c->n_rules; r++)
        dfa_own_body(d, r, &c->rules[r].body[c->rules[r].has_counter]);
    if (!measure_rule_depths(c, d->owner) ||
        !measure_state_depths(c, d->owner, 0, c->nfa.n_states, d->min_depth))
        return false;
    d->min_depth[0] = NO_COMPLETION;
    d->rule_sets_with = calloc(c->n_rules, sizeof(*d->rule_sets_with));
    d->return_sets_with = calloc(c->n_rules, sizeof(*d->return_sets_with));
    if (!d->rule_sets_with || !d->return_sets_with)
        return compiler_fail_memory(c, "a grammar's rules", c->n_rules);
    if (c->rules[0].min_depth > EY_MAX_GRAMMAR_NESTING + 1)
        return compiler_fail(
            c,
            "no text satisfies it within %d levels of nesting: its parts contradict "
            "each other, or they require each other endlessly",
            EY_MAX_GRAMMAR_NESTING);
    dfa_push_u32(d, &d->seeds, c->rules[0].body[0].frag.start);
    if (!dfa_pruned_closure(d, EY_MAX_GRAMMAR_NESTING))
        return c->failed ? false : compiler_fail(c, "no text satisfies it");
    dfa_state_of_closure(d, EY_MAX_GRAMMAR_NESTING);
    return !c->failed;
}

static void dfa_builder_init(struct dfa_builder *d, struct compiler *c)
{
    *d = (struct dfa_builder){.c = c};
    d->members = growing_array_of(sizeof(uint32_t), EY_MAX_GRAMMAR_SET_MEMBERS);
    d->states = growing_array_of(sizeof(struct number_set), EY_MAX_GRAMMAR_DFA_STATES);
    d->rule_sets = growing_array_of(sizeof(struct rule_set), EY_MAX_GRAMMAR_DFA_STATES);
    d->return_sets = growing_array_of(sizeof(struct return_set), EY_MAX_GRAMMAR_DFA_STATES);
    d->call_sites = growing_array_of(sizeof(struct call_site), EY_MAX_GRAMMAR_EDGES);
    d->returns = growing_array_of(sizeof(struct site_return), EY_MAX_GRAMMAR_EDGES);
    d->memberships = growing_array_of(sizeof(struct membership), EY_MAX_GRAMMAR_EDGES);
    d->edges = growing_array_of(sizeof(struct grammar_edge), EY_MAX_GRAMMAR_EDGES);
    d->calls = growing_array_of(sizeof(struct grammar_call), EY_MAX_GRAMMAR_EDGES);
    d->spans = growing_array_of(sizeof(struct byte_span), EY_MAX_GRAMMAR_SET_MEMBERS);
    d->open_calls = growing_array_of(sizeof(struct open_call), EY_MAX_GRAMMAR_SET_MEMBERS);
    d->seeds = d->closure = d->wide_spans = d->chosen_rules = growing_array_of(
        sizeof(uint32_t), EY_MAX_GRAMMAR_SET_MEMBERS);
}

static void dfa_builder_finish(struct dfa_builder *d)
{
    struct growing_array *lists[] = {
        &d->members,    &d->states,      &d->rule_sets, &d->return_sets, &d->call_sites,
        &d->returns,    &d->memberships, &d->edges,     &d->calls,       &d->spans,
        &d->open_calls, &d->seeds,       &d->closure,   &d->wide_spans,  &d->chosen_rules};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        free(lists[i]->data);
    free(d->owner);
    free(d->min_depth);
    free(d->visited);
    free(d->rule_sets_with);
    free(d->return_sets_with);
    free(d->state_index.slots);
    free(d->rule_set_index.slots);
    free(d->return_set_index.slots);
}

bool determinize(struct grammar **out, struct compiler *c)
{
    struct dfa_builder d;
    struct growing_array first_edges = growing_array_of(sizeof(uint32_t),
                                                        EY_MAX_GRAMMAR_DFA_STATES);
    struct grammar *g = calloc(1, sizeof(*g));
    dfa_builder_init(&d, c);
    if (g) {
        g->bytes = sizeof(*g);
        atomic_init(&g->references, 1);
    } else
        compiler_fail_memory(c, "a grammar", sizeof(*g));
    if (!c->failed && dfa_start(&d)) build_states(&d, &first_edges);
    bool ok = !c->failed && fill_grammar(&d, g, &first_edges);
    free(first_edges.data);
    dfa_builder_finish(&d);
    if (ok)
        *out = g;
    else
        grammar_release(&g);
    return ok;
}
