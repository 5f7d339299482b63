/* SPDX-License-Identifier: Apache-2.0 */
/* For each state, finds a set of plain characters with the same next state, and how many of them
 * may follow in a row. */
#include "constrain/analysis/max_remaining.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "constrain/analysis/plain_set.h"
#include "constrain/automaton/nfa.h"

/* For fewer characters a walk of the trie is just as fast. */
enum { MIN_PLAIN_SET_SIZE = 20 };

/* UTF-8 byte ranges of the non-ASCII plain characters. */
struct plain_range {
    uint8_t n, lo[4], hi[4];
};

static const struct plain_range plain_ranges[] = {
    {2, {0xc2, 0xa0}, {0xc2, 0xbf}},
    {2, {0xc3, 0x80}, {0xdf, 0xbf}},
    {3, {0xe0, 0xa0, 0x80}, {0xe0, 0xbf, 0xbf}},
    {3, {0xe1, 0x80, 0x80}, {0xe1, 0xbf, 0xbf}},
    {3, {0xe2, 0x81, 0x80}, {0xe2, 0xbf, 0xbf}},
    {3, {0xe3, 0x80, 0x80}, {0xec, 0xbf, 0xbf}},
    {3, {0xed, 0x80, 0x80}, {0xed, 0x9f, 0xbf}},
    {3, {0xee, 0x80, 0x80}, {0xef, 0xbf, 0xbf}},
    {4, {0xf0, 0x90, 0x80, 0x80}, {0xf0, 0xbf, 0xbf, 0xbf}},
    {4, {0xf1, 0x80, 0x80, 0x80}, {0xf3, 0xbf, 0xbf, 0xbf}},
    {4, {0xf4, 0x80, 0x80, 0x80}, {0xf4, 0x8f, 0xbf, 0xbf}},
};
enum { PLAIN_RANGES = sizeof(plain_ranges) / sizeof(plain_ranges[0]) };

/* ---- one state ---- */

/* The transition of a state on most plain characters. */
struct plain_move {
    struct plain_set set; /* characters that lead to the target */
    uint32_t target;
    uint8_t flags;
};

/* Sets `set` to the plain ASCII characters of an edge. */
static void edge_bytes(const struct grammar_edge *edge, uint64_t set[2])
{
    set[0] = set[1] = 0;
    for (unsigned byte = edge->lo; byte <= edge->hi && byte < 128; byte++)
        set[byte / 64] |= (uint64_t)1 << (byte % 64);
    set[0] &= PLAIN_LOW;
    set[1] &= PLAIN_HIGH;
}

/* Returns plain_class() of all plain characters that the state accepts, except those in `but`. */
static uint64_t other_classes(const struct grammar *g, uint32_t state, const struct plain_set *but)
{
    const struct grammar_edge *edge = g->edges + g->states[state].first_edge;
    uint64_t classes = 0;
    for (uint32_t i = 0; i < g->states[state].n_edges; i++, edge++) {
        uint64_t set[2];
        edge_bytes(edge, set);
        for (unsigned byte = 0x20; byte < 0x7f; byte++)
            if (set[byte / 64] & ~but->ascii[byte / 64] & (uint64_t)1 << (byte % 64))
                classes |= plain_class((uint8_t)byte);
        if (edge->hi >= 0x80 && !but->non_ascii) classes |= plain_class(0x80);
    }
    return classes;
}

/* Finds the target of most plain ASCII characters. Returns false if too few share one. */
static bool find_plain_target(const struct grammar *g, uint32_t state, struct plain_move *h)
{
    enum { CANDIDATES = 8 };
    struct plain_move candidates[CANDIDATES];
    unsigned n = 0, most = 0, best = 0;
    const struct grammar_edge *edge = g->edges + g->states[state].first_edge;
    for (uint32_t i = 0; i < g->states[state].n_edges; i++, edge++) {
        uint64_t set[2];
        unsigned k = 0;
        edge_bytes(edge, set);
        if (edge->kind != EDGE_MOVE || !(set[0] | set[1])) continue;
        while (k < n &&
               (candidates[k].target != edge->target || candidates[k].flags != edge->flags))
            k++;
        if (k == CANDIDATES) continue;
        if (k == n)
            candidates[n++] = (struct plain_move){.target = edge->target, .flags = edge->flags};
        uint64_t *ascii = candidates[k].set.ascii;
        ascii[0] |= set[0];
        ascii[1] |= set[1];
        unsigned size = (unsigned)(__builtin_popcountll(ascii[0]) + __builtin_popcountll(ascii[1]));
        if (size > most) {
            most = size;
            best = k;
        }
    }
    if (most < MIN_PLAIN_SET_SIZE) return false;
    *h = candidates[best];
    return true;
}

/* Whether all byte sequences of the range, from byte i on, lead to the target. */
static bool all_move(const struct grammar *g, uint32_t state, const struct plain_range *range,
                     int i, const struct plain_move *h)
{
    const struct grammar_edge *edge = g->edges + g->states[state].first_edge,
                              *end = edge + g->states[state].n_edges;
    assert(i < 4);
    unsigned next = range->lo[i];
    for (; edge < end && next <= range->hi[i]; edge++) {
        bool last = i + 1 == range->n;
        if (edge->hi < next) continue;
        if (edge->lo > next || edge->kind != EDGE_MOVE || edge->flags != (i ? 0 : h->flags))
            return false;
        if (last ? edge->target != h->target : !all_move(g, edge->target, range, i + 1, h))
            return false;
        next = edge->hi + 1u;
    }
    return next > range->hi[i];
}

static bool takes_beyond_ascii(const struct grammar *g, uint32_t state)
{
    const struct grammar_state *s = &g->states[state];
    return s->n_edges && g->edges[s->first_edge + s->n_edges - 1].hi >= 0x80;
}

/* Returns false if the state treats its plain characters differently. */
static bool find_plain_move(const struct grammar *g, uint32_t state, struct plain_move *h)
{
    if (!find_plain_target(g, state, h)) return false;
    h->set.non_ascii = true;
    for (int i = 0; i < PLAIN_RANGES && h->set.non_ascii; i++)
        h->set.non_ascii = all_move(g, state, &plain_ranges[i], 0, h);
    if (!h->set.non_ascii && takes_beyond_ascii(g, state)) return false;
    h->set.diverging = other_classes(g, state, &h->set);
    return true;
}

/* ---- chains of states ---- */

struct chain_link {
    uint32_t state;
    struct plain_move move;
};

/* Sets plain_set and max_remaining of a state, unless there are MAX_PLAIN_SETS sets already. */
static void set_plain_set(struct grammar *g, uint32_t state, const struct plain_set *a,
                          uint16_t max_remaining)
{
    uint32_t i = 1;
    while (i < g->n_plain_sets &&
           (g->plain_sets[i].ascii[0] != a->ascii[0] || g->plain_sets[i].ascii[1] != a->ascii[1] ||
            g->plain_sets[i].non_ascii != a->non_ascii ||
            g->plain_sets[i].diverging != a->diverging))
        i++;
    if (i == MAX_PLAIN_SETS) return;
    if (i == g->n_plain_sets) g->plain_sets[g->n_plain_sets++] = *a;
    g->states[state].plain_set = (uint16_t)i;
    g->states[state].max_remaining = max_remaining;
}

static bool takes_none_of(const struct grammar *g, uint32_t state, const struct plain_set *a)
{
    const struct grammar_edge *edge = g->edges + g->states[state].first_edge;
    for (uint32_t i = 0; i < g->states[state].n_edges; i++, edge++) {
        uint64_t set[2];
        edge_bytes(edge, set);
        if (set[0] & a->ascii[0] || set[1] & a->ascii[1] || (edge->hi >= 0x80 && a->non_ascii))
            return false;
    }
    return true;
}

/* Sets the plain set of a state whose target is measured already. The state gets one only if its
 * target accepts none of these characters, or treats all of them alike. */
static void set_from_target(struct grammar *g, const struct chain_link *link)
{
    const struct grammar_state *t = &g->states[link->move.target];
    struct plain_set a = link->move.set;
    const struct plain_set *b = &g->plain_sets[t->plain_set];
    if (takes_none_of(g, link->move.target, &a)) {
        a.diverging |= other_classes(g, link->move.target, &a);
        set_plain_set(g, link->state, &a, 1);
        return;
    }
    bool within = !(a.ascii[0] & ~b->ascii[0]) && !(a.ascii[1] & ~b->ascii[1]) &&
                  (b->non_ascii || !a.non_ascii);
    if (!t->plain_set || t->max_by_counter || !within) return;
    a.diverging |= b->diverging;
    for (unsigned byte = 0x20; byte < 0x7f; byte++)
        if (plain_set_has(b, (uint8_t)byte) && !plain_set_has(&a, (uint8_t)byte))
            a.diverging |= plain_class((uint8_t)byte);
    if (b->non_ascii && !a.non_ascii) a.diverging |= plain_class(0x80);
    set_plain_set(g, link->state, &a,
                  t->max_remaining < REMAINING_LIMIT ? t->max_remaining + 1 : t->max_remaining);
}

/* Follows targets from s to a known state, then sets the plain sets of all states on the way.
 * `chain` has room for all states. */
static void measure_chain(struct grammar *g, uint32_t s, struct chain_link *chain, bool *known)
{
    uint32_t n = 0;
    while (!known[s]) {
        struct chain_link *link = &chain[n];
        link->state = s;
        known[s] = true; /* set before the walk, so that cycles end it */
        if (!find_plain_move(g, s, &link->move)) break;
        bool counts = link->move.flags & NFA_COUNTS;
        if (link->move.target == s) {
            set_plain_set(g, s, &link->move.set, REMAINING_UNBOUNDED);
            g->states[s].max_by_counter = counts;
            break;
        }
        if (counts) break;
        n++;
        s = link->move.target;
    }
    while (n)
        set_from_target(g, &chain[--n]);
}

bool measure_max_remaining(struct grammar *g)
{
    struct chain_link *chain = malloc(((size_t)g->n_states + 1) * sizeof(*chain));
    bool *known = calloc(g->n_states, sizeof(*known));
    g->plain_sets = calloc(MAX_PLAIN_SETS, sizeof(*g->plain_sets));
    bool ok = chain && known && g->plain_sets;
    g->n_plain_sets = 1;
    for (uint32_t s = 0; s < g->n_states && ok; s++)
        measure_chain(g, s, chain, known);
    free(chain);
    free(known);
    g->bytes += MAX_PLAIN_SETS * sizeof(*g->plain_sets);
    return ok;
}
