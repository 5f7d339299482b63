/* SPDX-License-Identifier: Apache-2.0 */
/* One answer's place in a grammar, and the tokens that may come next.
 *
 * A mask is made in two steps. What tokens do within the innermost bracketed text (a string,
 * mostly) depends on the state alone and is cached; it leaves a short list of nodes of the trie
 * where that text ended within a token. What may follow below those depends on the stack, and is
 * walked anew each time: with Qwen's vocabulary some 1,600 nodes behind a string's quote.
 *
 * In the first step most tokens need no walk: those of plain characters that are all alike to the
 * state (rooms.h) are taken as one set. The trie of the others has 12,000 of 333,000 nodes. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "constrain/cache.h"
#include "constrain/grammar.h"
#include "constrain/net.h"
#include "constrain/rooms.h"

struct place {
    uint32_t state, count, height; /* count: of the state's counter; height: of the stack */
};

struct frame {
    uint32_t site, count; /* where to return to, and its counter */
};

/* The place behind a byte of a walk, and what it overwrote on the stack. */
struct step {
    struct place place;
    struct frame lost;
    bool pushed;
};

/* Where the bytes of a state lead: 0 nowhere, BY_STEP to what a walk by states alone cannot do,
 * else to a state, plus 1. */
struct row {
    uint32_t state, next[256];
};
enum { ROWS = 32 };
#define BY_STEP UINT32_MAX

struct constraint {
    struct grammar *g;
    const struct vocabulary *v;
    struct place at;
    struct frame *stack; /* [levels] */
    struct step *steps;  /* [longest + 1] of a walk … */
    uint32_t *states;    /* [longest + 1] … of one by states alone */
    struct row *rows;    /* [ROWS] of the states that were met last */
    uint32_t *mask;
    struct token_exit *exits;
    uint32_t n_exits;
    uint32_t visited; /* nodes, for this mask */
    bool mask_is_current;
};

/* A mask that took this many nodes is worth keeping: it takes longer than copying one. */
enum { WORTH_KEEPING = 1000 };

/* ---- bytes
 * --------------------------------------------------------------------------------------- */

enum outcome { REFUSED, TAKEN, LEFT };

/* Takes a byte. LEFT: it ended the bracketed text whose caller is at `floor`; step->place is then
 * as before but for *label. */
static inline enum outcome take_byte(const struct grammar *g, struct frame *stack, uint32_t floor,
                                     uint8_t byte, struct step *step, uint32_t *label)
{
    struct place *p = &step->place;
    const struct grammar_edge *edge = grammar_edge_at(g, p->state, byte);
    step->pushed = false;
    if (!edge) return REFUSED;
    if (edge->flags) {
        const struct grammar_counter *counter = &g->counters[g->states[p->state].counter];
        if (edge->flags & NET_CLOSES && p->count < counter->min) return REFUSED;
        p->count += edge->flags & NET_COUNTS ? 1 : 0;
        if (edge->flags & (NET_COUNTS | EDGE_NEEDS) &&
            p->count + g->states[edge->target].need > counter->max)
            return REFUSED;
    }
    if (edge->kind == EDGE_MOVE) {
        p->state = edge->target;
    } else if (edge->kind == EDGE_CALL) {
        const struct grammar_call *call = &g->calls[edge->target];
        step->lost = stack[p->height];
        step->pushed = true;
        stack[p->height++] = (struct frame){call->site, p->count};
        p->state = call->state;
        p->count = 0;
    } else if (p->height == floor) {
        *label = edge->target;
        return LEFT;
    } else {
        struct frame frame = stack[--p->height];
        p->state = grammar_return_state(g, frame.site, edge->target);
        p->count = frame.count;
    }
    return TAKEN;
}

static void undo(struct frame *stack, const struct step *step)
{
    if (step->pushed) stack[step->place.height - 1] = step->lost;
}

/* ---- walks
 * --------------------------------------------------------------------------------------- */

/* The tokens that end at nodes begin..end-1. */
static void allow(struct constraint *c, const struct trie *t, uint32_t begin, uint32_t end)
{
    for (uint32_t i = t->tokens[begin]; i < t->tokens[end]; i++)
        c->mask[t->id[i] / 32] |= 1u << (t->id[i] % 32);
}

static void note_exit(struct constraint *c, const struct trie *t, uint32_t node, uint32_t label)
{
    if (t->end[node] == node + 1) return;
    if (t == &c->v->trie[ODD_TRIE]) node |= ODD_NODE;
    c->exits[c->n_exits++] = (struct token_exit){node, label};
}

/* Allows the tokens at nodes begin..end-1, which are whole subtrees, as far as they go on from
 * `base`. Where they leave the bracketed text whose caller is at `floor`, that is noted. */
static void walk_by_step(struct constraint *c, const struct trie *t, uint32_t begin, uint32_t end,
                         struct place base, uint32_t floor)
{
    uint32_t depth = 0, skipped = t->depth[begin] - 1u, label;
    c->steps[0] = (struct step){.place = base};
    for (uint32_t node = begin; node < end;) {
        uint32_t next = t->depth[node] - skipped;
        while (depth >= next)
            undo(c->stack, &c->steps[depth--]);
        c->steps[next].place = c->steps[depth].place;
        enum outcome outcome = take_byte(c->g, c->stack, floor, t->byte[node], &c->steps[next],
                                         &label);
        c->visited++;
        if (outcome != REFUSED) allow(c, t, node, node + 1);
        if (outcome == LEFT) note_exit(c, t, node, label);
        if (outcome == TAKEN) {
            depth = next;
            node++;
        } else
            node = t->end[node];
    }
    while (depth)
        undo(c->stack, &c->steps[depth--]);
}

static void fill_row(const struct grammar *g, struct row *row, uint32_t state)
{
    const struct grammar_edge *edge = g->edges + g->states[state].edges;
    row->state = state;
    memset(row->next, 0, sizeof(row->next));
    for (uint32_t i = 0; i < g->states[state].n_edges; i++, edge++) {
        uint32_t next = edge->kind == EDGE_MOVE && !edge->flags ? edge->target + 1 : BY_STEP;
        for (unsigned byte = edge->lo; byte <= edge->hi; byte++)
            row->next[byte] = next;
    }
}

static inline const struct row *row_of(struct constraint *c, uint32_t state)
{
    struct row *row = &c->rows[state % ROWS];
    if (row->state != state) fill_row(c->g, row, state);
    return row;
}

/* The same, three times as fast: what only moves from state to state is followed here, the rest
 * step by step. Subtrees without any of the `wanted` classes are passed over. */
static void walk(struct constraint *c, const struct trie *t, uint32_t begin, uint32_t end,
                 struct place base, uint32_t floor, uint64_t wanted)
{
    if (begin == end) return;
    uint32_t skipped = t->depth[begin] - 1u, *states = c->states, visited = 0;
    states[0] = base.state;
    for (uint32_t node = begin; node < end; visited++) {
        uint32_t depth = t->depth[node] - skipped,
                 next = row_of(c, states[depth - 1])->next[t->byte[node]];
        if (!next || (wanted && !(t->classes[node] & wanted))) {
            node = t->end[node];
        } else if (next == BY_STEP) {
            walk_by_step(c, t, node, t->end[node],
                         (struct place){states[depth - 1], base.count, base.height}, floor);
            node = t->end[node];
        } else {
            allow(c, t, node, node + 1);
            states[depth] = next - 1;
            node++;
        }
    }
    c->visited += visited;
}

/* A whole trie, from the state's edges on. */
static void walk_trie(struct constraint *c, const struct trie *t, uint64_t wanted)
{
    const struct grammar_state *state = &c->g->states[c->at.state];
    for (uint32_t i = 0; i < state->n_edges; i++) {
        const struct grammar_edge *edge = &c->g->edges[state->edges + i];
        for (unsigned byte = edge->lo; byte <= edge->hi; byte++)
            if (t->first[byte] < t->n_nodes)
                walk(c, t, t->first[byte], t->end[t->first[byte]], c->at, c->at.height, wanted);
    }
}

/* What is behind the ends of the innermost text. */
static void walk_exits(struct constraint *c)
{
    if (!c->n_exits) return;
    struct frame frame = c->stack[c->at.height - 1];
    struct place place = {.count = frame.count, .height = c->at.height - 1};
    for (uint32_t i = 0; i < c->n_exits; i++) {
        const struct trie *t = &c->v->trie[c->exits[i].node & ODD_NODE ? ODD_TRIE : PLAIN_TRIE];
        uint32_t node = c->exits[i].node & ~ODD_NODE;
        place.state = grammar_return_state(c->g, frame.site, c->exits[i].label);
        walk(c, t, node + 1, t->end[node], place, 0, 0);
    }
}

/* ---- masks
 * --------------------------------------------------------------------------------------- */

static uint32_t at_most(uint32_t value, uint32_t most)
{
    return value < most ? value : most;
}

static struct mask_key key_of(const struct constraint *c)
{
    const struct grammar_state *state = &c->g->states[c->at.state];
    struct mask_key key = {.grammar = c->g->serial, .state = c->at.state};
    if (state->counter) {
        const struct grammar_counter *counter = &c->g->counters[state->counter];
        key.room = at_most(counter->max - c->at.count, c->v->longest + 1 + counter->most_needed);
        key.need = at_most(counter->min > c->at.count ? counter->min - c->at.count : 0,
                           c->v->longest + 1);
    }
    return key;
}

/* Characters of the state's alphabet that may follow. */
static uint32_t alphabet_room(const struct constraint *c)
{
    const struct grammar_state *state = &c->g->states[c->at.state];
    if (state->counted_room) return c->g->counters[state->counter].max - c->at.count - state->need;
    return state->room == ROOM_ENDLESS ? UINT32_MAX : state->room;
}

/* Plain tokens whose characters are all of an alphabet; at once where all below a node must be so.
 */
static void spell_alphabet(struct constraint *c, const struct grammar_alphabet *a)
{
    const struct trie *t = &c->v->trie[PLAIN_TRIE];
    uint64_t outside = alphabet_lacks(a);
    memset(c->mask, 0, c->v->words * sizeof(*c->mask));
    for (uint32_t node = 0; node < t->n_nodes;) {
        bool whole = !(t->classes[node] & outside), has = alphabet_has(a, t->byte[node]);
        uint32_t end = has && !whole ? node + 1 : t->end[node];
        if (has) allow(c, t, node, end);
        node = end;
    }
}

/* The plain tokens: those of the state's alphabet at once, the others by walking. */
static void make_plain(struct constraint *c)
{
    const struct grammar_state *state = &c->g->states[c->at.state];
    const struct grammar_alphabet *a = &c->g->alphabets[state->alphabet];
    struct mask_key key = {.grammar = c->g->serial, .state = state->alphabet, .of_alphabet = true};
    if (!state->alphabet) {
        memset(c->mask, 0, c->v->words * sizeof(*c->mask));
        walk_trie(c, &c->v->trie[PLAIN_TRIE], 0);
        return;
    }
    if (alphabet_is_full(a)) {
        vocabulary_plain(c->v, alphabet_room(c), c->mask);
        return;
    }
    if (!cache_get(c->v->cache, key, c->mask, c->exits, &c->n_exits)) {
        spell_alphabet(c, a);
        cache_put(c->v->cache, key, c->mask, c->exits, 0);
    }
    vocabulary_shorten(c->v, alphabet_room(c), c->mask);
    if (a->leaves) walk_trie(c, &c->v->trie[PLAIN_TRIE], a->leaves);
}

static void make_mask(struct constraint *c)
{
    c->n_exits = c->visited = 0;
    make_plain(c);
    walk_trie(c, &c->v->trie[ODD_TRIE], 0);
}

const uint32_t *constraint_mask(struct constraint *c)
{
    if (c->mask_is_current) return c->mask;
    struct mask_key key = key_of(c);
    if (!cache_get(c->v->cache, key, c->mask, c->exits, &c->n_exits)) {
        make_mask(c);
        if (c->visited >= WORTH_KEEPING) cache_put(c->v->cache, key, c->mask, c->exits, c->n_exits);
    }
    walk_exits(c);
    c->mask_is_current = true;
    return c->mask;
}

/* ---- the answer
 * ---------------------------------------------------------------------------------- */

bool constraint_may_end(const struct constraint *c)
{
    return c->g->states[c->at.state].accepts;
}

bool constraint_must_end(const struct constraint *c)
{
    return constraint_may_end(c) && !c->g->states[c->at.state].n_edges;
}

bool constraint_accept_text(struct constraint *c, const char *text, size_t n)
{
    struct frame before[EY_MAX_GRAMMAR_LEVELS];
    struct step step = {.place = c->at};
    uint32_t label;
    memcpy(before, c->stack, c->g->levels * sizeof(*before));
    for (size_t i = 0; i < n; i++)
        if (take_byte(c->g, c->stack, 0, (uint8_t)text[i], &step, &label) != TAKEN) {
            memcpy(c->stack, before, c->g->levels * sizeof(*before));
            return false;
        }
    if (n) {
        c->at = step.place;
        c->mask_is_current = false;
    }
    return true;
}

bool constraint_accept(struct constraint *c, int32_t id)
{
    size_t n = id >= 0 && (size_t)id < c->v->n_spellings ? c->v->spelling[id].n : 0;
    return n && constraint_accept_text(c, c->v->text + c->v->spelling[id].at, n);
}

void constraint_restart(struct constraint *c)
{
    c->at = (struct place){.state = c->g->start};
    c->mask_is_current = false;
}

size_t constraint_bytes(const struct grammar *g, const struct vocabulary *v)
{
    return sizeof(struct constraint) + (g->levels + 1) * sizeof(struct frame) +
           (v->longest + 1) * (sizeof(struct step) + sizeof(uint32_t)) + ROWS * sizeof(struct row) +
           v->words * sizeof(uint32_t) + v->n_exits * sizeof(struct token_exit);
}

bool constraint_open(struct constraint **out, struct grammar *g, const struct vocabulary *v,
                     ey_err *e)
{
    struct constraint *c = calloc(1, sizeof(*c));
    if (!c) return ey_fail_memory(e, "a constraint", sizeof(*c));
    c->g = grammar_hold(g);
    c->v = v;
    c->stack = calloc(g->levels + 1, sizeof(*c->stack));
    c->steps = calloc(v->longest + 1, sizeof(*c->steps));
    c->states = calloc(v->longest + 1, sizeof(*c->states));
    c->rows = calloc(ROWS, sizeof(*c->rows));
    c->mask = calloc(v->words + 1, sizeof(*c->mask));
    c->exits = calloc(v->n_exits + 1, sizeof(*c->exits));
    if (!c->stack || !c->steps || !c->states || !c->rows || !c->mask || !c->exits) {
        constraint_close(&c);
        return ey_fail_memory(e, "a constraint", constraint_bytes(g, v));
    }
    for (int i = 0; i < ROWS; i++)
        c->rows[i].state = UINT32_MAX;
    constraint_restart(c);
    *out = c;
    return true;
}

void constraint_close(struct constraint **constraint)
{
    struct constraint *c = *constraint;
    if (!c) return;
    grammar_release(&c->g);
    free(c->stack);
    free(c->steps);
    free(c->states);
    free(c->rows);
    free(c->mask);
    free(c->exits);
    free(c);
    *constraint = NULL;
}
