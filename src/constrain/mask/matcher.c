/* SPDX-License-Identifier: Apache-2.0 */
/* The position of one answer in a grammar, and the mask of tokens that may come next.
 *
 * A mask is computed in two steps. The first step finds the tokens that stay within the innermost
 * rule (mostly a string). They depend only on the state and its counter, so they are cached,
 * together with a short list of exits: trie nodes at which the rule ends in the middle of longer
 * tokens. The second step walks the subtrees of the exits. It depends on the stack and runs for
 * each mask; after a string's closing quote it visits some 1,600 nodes of Qwen's vocabulary.
 *
 * In the first step most tokens need no walk: where a state treats many plain characters alike
 * (plain_set.h), the tokens of these characters are allowed as a set. The trie of the other tokens
 * has only 12,000 of the 333,000 nodes of Qwen's vocabulary. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "constrain/mask/mask_cache.h"
#include "constrain/automaton/automaton.h"
#include "constrain/automaton/nfa.h"
#include "constrain/analysis/plain_set.h"

struct matcher_position {
    uint32_t state, count, depth; /* count: the counter's value; depth: levels on the stack */
};

struct matcher_frame {
    uint32_t site, count; /* call site to return to; value of the caller's counter */
};

/* The position after a byte of a walk, and the stack frame that a call overwrote, to undo the
 * byte. */
struct matcher_step {
    struct matcher_position position;
    struct matcher_frame overwritten;
    bool pushed;
};

/* A state's transition for each byte: 0 if there is none, NEEDS_STEP if it involves the stack or a
 * counter, else the number of the next state + 1. */
struct transition_row {
    uint32_t state, next[256];
};
enum { TRANSITION_ROWS = 32 };
#define NEEDS_STEP UINT32_MAX

struct matcher {
    struct grammar *g;
    const struct vocabulary *v;
    struct matcher_position position;
    struct matcher_frame *stack; /* [max_depth] */
    struct matcher_step *steps;  /* [longest token + 1] used by walk_by_step */
    uint32_t *states;            /* [longest token + 1] used by walk_subtrees */
    struct transition_row *rows; /* [TRANSITION_ROWS] of recently visited states */
    uint32_t *mask;
    struct token_exit *exits;
    uint32_t n_exits;
    uint32_t visited; /* nodes visited for this mask */
    bool mask_is_current;
};

/* A mask is cached if computing it visited at least this many nodes: with fewer, computing it again
 * is no slower than copying it. */
enum { MIN_CACHED_VISITS = 1000 };

/* ---- bytes ---- */

enum byte_outcome { BYTE_REFUSED, BYTE_TAKEN, BYTE_LEFT_RULE };

/* Advances by a byte. Returns BYTE_LEFT_RULE if the byte ends the rule that runs at stack depth
 * `floor`; then *return_set is set, and the position keeps its state and depth. */
static inline enum byte_outcome matcher_step_byte(const struct grammar *g,
                                                  struct matcher_frame *stack, uint32_t floor,
                                                  uint8_t byte, struct matcher_step *step,
                                                  uint32_t *return_set)
{
    struct matcher_position *p = &step->position;
    const struct grammar_edge *edge = grammar_edge_at(g, p->state, byte);
    step->pushed = false;
    if (!edge) return BYTE_REFUSED;
    if (edge->flags) {
        const struct grammar_counter *counter = &g->counters[g->states[p->state].counter];
        if (edge->flags & NFA_CLOSES && p->count < counter->min) return BYTE_REFUSED;
        p->count += edge->flags & NFA_COUNTS ? 1 : 0;
        if (edge->flags & (NFA_COUNTS | EDGE_RAISES_MIN) &&
            p->count + g->states[edge->target].min_remaining > counter->max)
            return BYTE_REFUSED;
    }
    if (edge->kind == EDGE_MOVE) {
        p->state = edge->target;
    } else if (edge->kind == EDGE_CALL) {
        const struct grammar_call *call = &g->calls[edge->target];
        step->overwritten = stack[p->depth];
        step->pushed = true;
        stack[p->depth++] = (struct matcher_frame){call->site, p->count};
        p->state = call->state;
        p->count = 0;
    } else if (p->depth == floor) {
        *return_set = edge->target;
        return BYTE_LEFT_RULE;
    } else {
        struct matcher_frame frame = stack[--p->depth];
        p->state = grammar_return_state(g, frame.site, edge->target);
        p->count = frame.count;
    }
    return BYTE_TAKEN;
}

static void matcher_undo_step(struct matcher_frame *stack, const struct matcher_step *step)
{
    if (step->pushed) stack[step->position.depth - 1] = step->overwritten;
}

/* ---- walks ---- */

/* Allows the tokens that end at nodes [begin, end). */
static void allow_tokens(struct matcher *m, const struct token_trie *t, uint32_t begin,
                         uint32_t end)
{
    for (uint32_t i = t->first_token[begin]; i < t->first_token[end]; i++)
        m->mask[t->token_ids[i] / 32] |= 1u << (t->token_ids[i] % 32);
}

static void note_exit(struct matcher *m, const struct token_trie *t, uint32_t node,
                      uint32_t return_set)
{
    if (t->subtree_end[node] == node + 1) return;
    if (t == &m->v->tries[OTHER_TRIE]) node |= OTHER_TRIE_NODE;
    m->exits[m->n_exits++] = (struct token_exit){node, return_set};
}

/* Walks nodes [begin, end), which are whole subtrees, and allows their tokens that the grammar
 * accepts from `base` on. Records an exit where a token leaves the rule that runs at stack
 * depth `floor`. */
static void walk_by_step(struct matcher *m, const struct token_trie *t, uint32_t begin,
                         uint32_t end, struct matcher_position base, uint32_t floor)
{
    uint32_t depth = 0, skipped = t->depth[begin] - 1u, return_set;
    m->steps[0] = (struct matcher_step){.position = base};
    for (uint32_t node = begin; node < end;) {
        uint32_t next = t->depth[node] - skipped;
        while (depth >= next)
            matcher_undo_step(m->stack, &m->steps[depth--]);
        m->steps[next].position = m->steps[depth].position;
        enum byte_outcome outcome = matcher_step_byte(m->g, m->stack, floor, t->byte[node],
                                                      &m->steps[next], &return_set);
        m->visited++;
        if (outcome != BYTE_REFUSED) allow_tokens(m, t, node, node + 1);
        if (outcome == BYTE_LEFT_RULE) note_exit(m, t, node, return_set);
        if (outcome == BYTE_TAKEN) {
            depth = next;
            node++;
        } else
            node = t->subtree_end[node];
    }
    while (depth)
        matcher_undo_step(m->stack, &m->steps[depth--]);
}

static void fill_transition_row(const struct grammar *g, struct transition_row *row, uint32_t state)
{
    const struct grammar_edge *edge = g->edges + g->states[state].first_edge;
    row->state = state;
    memset(row->next, 0, sizeof(row->next));
    for (uint32_t i = 0; i < g->states[state].n_edges; i++, edge++) {
        uint32_t next = edge->kind == EDGE_MOVE && !edge->flags ? edge->target + 1 : NEEDS_STEP;
        for (unsigned byte = edge->lo; byte <= edge->hi; byte++)
            row->next[byte] = next;
    }
}

static inline const struct transition_row *transition_row_of(struct matcher *m, uint32_t state)
{
    struct transition_row *row = &m->rows[state % TRANSITION_ROWS];
    if (row->state != state) fill_transition_row(m->g, row, state);
    return row;
}

/* Like walk_by_step, but three times as fast: follows transitions without stack and counter itself
 * and leaves the others to walk_by_step. If `wanted` is not 0, skips subtrees that have none of
 * these classes. */
static void walk_subtrees(struct matcher *m, const struct token_trie *t, uint32_t begin,
                          uint32_t end, struct matcher_position base, uint32_t floor,
                          uint64_t wanted)
{
    if (begin == end) return;
    uint32_t skipped = t->depth[begin] - 1u, *states = m->states, visited = 0;
    states[0] = base.state;
    for (uint32_t node = begin; node < end; visited++) {
        uint32_t depth = t->depth[node] - skipped,
                 next = transition_row_of(m, states[depth - 1])->next[t->byte[node]];
        if (!next || (wanted && !(t->classes[node] & wanted))) {
            node = t->subtree_end[node];
        } else if (next == NEEDS_STEP) {
            walk_by_step(m, t, node, t->subtree_end[node],
                         (struct matcher_position){states[depth - 1], base.count, base.depth},
                         floor);
            node = t->subtree_end[node];
        } else {
            allow_tokens(m, t, node, node + 1);
            states[depth] = next - 1;
            node++;
        }
    }
    m->visited += visited;
}

/* Walks a whole trie, starting from the state's edges. */
static void walk_trie(struct matcher *m, const struct token_trie *t, uint64_t wanted)
{
    const struct grammar_state *state = &m->g->states[m->position.state];
    for (uint32_t i = 0; i < state->n_edges; i++) {
        const struct grammar_edge *edge = &m->g->edges[state->first_edge + i];
        for (unsigned byte = edge->lo; byte <= edge->hi; byte++)
            if (t->root_child[byte] < t->n_nodes)
                walk_subtrees(m, t, t->root_child[byte], t->subtree_end[t->root_child[byte]],
                              m->position, m->position.depth, wanted);
    }
}

/* Walks the subtrees of the exits. */
static void walk_exits(struct matcher *m)
{
    if (!m->n_exits) return;
    struct matcher_frame frame = m->stack[m->position.depth - 1];
    struct matcher_position position = {.count = frame.count, .depth = m->position.depth - 1};
    for (uint32_t i = 0; i < m->n_exits; i++) {
        const struct token_trie *t =
            &m->v->tries[m->exits[i].node & OTHER_TRIE_NODE ? OTHER_TRIE : PLAIN_TRIE];
        uint32_t node = m->exits[i].node & ~OTHER_TRIE_NODE;
        position.state = grammar_return_state(m->g, frame.site, m->exits[i].return_set);
        walk_subtrees(m, t, node + 1, t->subtree_end[node], position, 0, 0);
    }
}

/* ---- masks ---- */

static uint32_t min_u32(uint32_t value, uint32_t most)
{
    return value < most ? value : most;
}

static struct mask_key matcher_mask_key(const struct matcher *m)
{
    const struct grammar_state *state = &m->g->states[m->position.state];
    struct mask_key key = {.grammar = m->g->serial, .state = m->position.state};
    if (state->counter) {
        const struct grammar_counter *counter = &m->g->counters[state->counter];
        key.max_remaining = min_u32(counter->max - m->position.count,
                                    m->v->max_token_bytes + 1 + counter->largest_min);
        key.min_remaining = min_u32(
            counter->min > m->position.count ? counter->min - m->position.count : 0,
            m->v->max_token_bytes + 1);
    }
    return key;
}

/* Returns how many characters of the state's plain set may follow. */
static uint32_t matcher_max_remaining(const struct matcher *m)
{
    const struct grammar_state *state = &m->g->states[m->position.state];
    if (state->max_by_counter)
        return m->g->counters[state->counter].max - m->position.count - state->min_remaining;
    return state->max_remaining == REMAINING_UNBOUNDED ? UINT32_MAX : state->max_remaining;
}

/* Allows the plain tokens whose characters are all in the set. A subtree is allowed as a whole if
 * the set has all characters of its classes. */
static void allow_plain_set(struct matcher *m, const struct plain_set *a)
{
    const struct token_trie *t = &m->v->tries[PLAIN_TRIE];
    uint64_t outside = plain_set_missing(a);
    memset(m->mask, 0, m->v->words * sizeof(*m->mask));
    for (uint32_t node = 0; node < t->n_nodes;) {
        bool whole = !(t->classes[node] & outside), has = plain_set_has(a, t->byte[node]);
        uint32_t end = has && !whole ? node + 1 : t->subtree_end[node];
        if (has) allow_tokens(m, t, node, end);
        node = end;
    }
}

/* Finds the plain tokens: those of the state's plain set without a walk, the others by walking
 * their trie. */
static void make_plain_mask(struct matcher *m)
{
    const struct grammar_state *state = &m->g->states[m->position.state];
    const struct plain_set *a = &m->g->plain_sets[state->plain_set];
    struct mask_key key = {
        .grammar = m->g->serial, .state = state->plain_set, .of_plain_set = true};
    if (!state->plain_set) {
        memset(m->mask, 0, m->v->words * sizeof(*m->mask));
        walk_trie(m, &m->v->tries[PLAIN_TRIE], 0);
        return;
    }
    if (plain_set_is_full(a)) {
        vocabulary_plain_mask(m->v, matcher_max_remaining(m), m->mask);
        return;
    }
    if (!mask_cache_get(m->v->cache, key, m->mask, m->exits, &m->n_exits)) {
        allow_plain_set(m, a);
        mask_cache_put(m->v->cache, key, m->mask, m->exits, 0);
    }
    vocabulary_drop_longer(m->v, matcher_max_remaining(m), m->mask);
    if (a->diverging) walk_trie(m, &m->v->tries[PLAIN_TRIE], a->diverging);
}

static void make_mask(struct matcher *m)
{
    m->n_exits = m->visited = 0;
    make_plain_mask(m);
    walk_trie(m, &m->v->tries[OTHER_TRIE], 0);
}

const uint32_t *matcher_mask(struct matcher *m)
{
    if (m->mask_is_current) return m->mask;
    struct mask_key key = matcher_mask_key(m);
    if (!mask_cache_get(m->v->cache, key, m->mask, m->exits, &m->n_exits)) {
        make_mask(m);
        if (m->visited >= MIN_CACHED_VISITS)
            mask_cache_put(m->v->cache, key, m->mask, m->exits, m->n_exits);
    }
    walk_exits(m);
    m->mask_is_current = true;
    return m->mask;
}

/* ---- the answer ---- */

bool matcher_may_end(const struct matcher *m)
{
    return m->g->states[m->position.state].accepts;
}

bool matcher_must_end(const struct matcher *m)
{
    return matcher_may_end(m) && !m->g->states[m->position.state].n_edges;
}

bool matcher_accept_text(struct matcher *m, const char *text, size_t n)
{
    struct matcher_frame before[EY_MAX_GRAMMAR_NESTING];
    struct matcher_step step = {.position = m->position};
    uint32_t return_set;
    memcpy(before, m->stack, m->g->max_depth * sizeof(*before));
    for (size_t i = 0; i < n; i++)
        if (matcher_step_byte(m->g, m->stack, 0, (uint8_t)text[i], &step, &return_set) !=
            BYTE_TAKEN) {
            memcpy(m->stack, before, m->g->max_depth * sizeof(*before));
            return false;
        }
    if (n) {
        m->position = step.position;
        m->mask_is_current = false;
    }
    return true;
}

bool matcher_accept_token(struct matcher *m, int32_t id)
{
    size_t n = id >= 0 && (size_t)id < m->v->n_token_ranges ? m->v->token_ranges[id].n : 0;
    return n && matcher_accept_text(m, m->v->text + m->v->token_ranges[id].at, n);
}

void matcher_reset(struct matcher *m)
{
    m->position = (struct matcher_position){.state = m->g->start};
    m->mask_is_current = false;
}

size_t matcher_bytes(const struct grammar *g, const struct vocabulary *v)
{
    return sizeof(struct matcher) + (g->max_depth + 1) * sizeof(struct matcher_frame) +
           (v->max_token_bytes + 1) * (sizeof(struct matcher_step) + sizeof(uint32_t)) +
           TRANSITION_ROWS * sizeof(struct transition_row) + v->words * sizeof(uint32_t) +
           v->n_exits * sizeof(struct token_exit);
}

bool matcher_open(struct matcher **out, struct grammar *g, const struct vocabulary *v, ey_err *e)
{
    struct matcher *m = calloc(1, sizeof(*m));
    if (!m) return ey_fail_memory(e, "a grammar matcher", sizeof(*m));
    m->g = grammar_retain(g);
    m->v = v;
    m->stack = calloc(g->max_depth + 1, sizeof(*m->stack));
    m->steps = calloc(v->max_token_bytes + 1, sizeof(*m->steps));
    m->states = calloc(v->max_token_bytes + 1, sizeof(*m->states));
    m->rows = calloc(TRANSITION_ROWS, sizeof(*m->rows));
    m->mask = calloc(v->words + 1, sizeof(*m->mask));
    m->exits = calloc(v->n_exits + 1, sizeof(*m->exits));
    if (!m->stack || !m->steps || !m->states || !m->rows || !m->mask || !m->exits) {
        matcher_close(&m);
        return ey_fail_memory(e, "a grammar matcher", matcher_bytes(g, v));
    }
    for (int i = 0; i < TRANSITION_ROWS; i++)
        m->rows[i].state = UINT32_MAX;
    matcher_reset(m);
    *out = m;
    return true;
}

void matcher_close(struct matcher **matcher)
{
    struct matcher *m = *matcher;
    if (!m) return;
    grammar_release(&m->g);
    free(m->stack);
    free(m->steps);
    free(m->states);
    free(m->rows);
    free(m->mask);
    free(m->exits);
    free(m);
    *matcher = NULL;
}
