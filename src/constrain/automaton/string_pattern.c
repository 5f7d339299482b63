/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves ^ and $ in a pattern's NFA while bounding its length, and intersects two patterns. Both
 * are product constructions that build only reachable states. */
#include "constrain/automaton/string_pattern.h"

#include <stdlib.h>

#include "base/limits.h"
#include "constrain/automaton/regex_parser.h"

/* ---- anchors and length ---- */

/* Returns f with any characters before and after it. */
static struct frag match_anywhere(struct nfa *nfa, struct frag f)
{
    struct frag all = nfa_new_frag(nfa);
    nfa_add_span(nfa, all.start, all.start, 0, 0xd7ff, 0);
    nfa_add_span(nfa, all.start, all.start, 0xe000, 0x10ffff, 0);
    nfa_add_epsilon(nfa, all.start, f.start);
    nfa_add_epsilon(nfa, f.end, all.end);
    nfa_add_span(nfa, all.end, all.end, 0, 0xd7ff, 0);
    nfa_add_span(nfa, all.end, all.end, 0xe000, 0x10ffff, 0);
    return all;
}

/* ^ matches only before the first character (PHASE_BEGUN not set), and nothing may follow $
 * (PHASE_ENDED). */
enum { PHASE_BEGUN = 1, PHASE_ENDED = 2, PHASES = 4 };

/* States of `out` are triples: a state of `in`, a phase, and a number of characters, capped where
 * more make no difference. */
struct bounded_product {
    struct nfa *out;
    const struct nfa *in;
    struct length_bounds bounds;
    uint32_t counts;         /* number of distinct lengths */
    uint32_t *state_of_pair; /* [in state][phase][count] state of out, 0: not reached */
    uint32_t *queue;         /* reached triples, in the order of the states of out */
    uint32_t n_queue;
    uint32_t dominating; /* state of `in` that accepts everything, or 0 */
};

static uint32_t bounded_product_state(struct bounded_product *p, uint32_t state, unsigned phase,
                                      uint32_t count)
{
    uint32_t index = (state * PHASES + phase) * p->counts + count;
    if (!p->state_of_pair[index]) {
        uint32_t made = nfa_add_state(p->out);
        if (!made) return 0;
        p->state_of_pair[index] = made;
        p->queue[p->n_queue++] = index;
        p->out->states[made].dominates = state == p->dominating && !(phase & PHASE_ENDED) &&
                                         p->counts == 1;
    }
    return p->state_of_pair[index];
}

static void bounded_product_edge(struct bounded_product *p, uint32_t from,
                                 const struct nfa_edge *edge, unsigned phase, uint32_t count)
{
    uint32_t more = count + 1 < p->counts ? count + 1 : count;
    switch ((enum nfa_edge_kind)edge->kind) {
    case NFA_EPSILON:
        nfa_add_epsilon(p->out, from, bounded_product_state(p, edge->target, phase, count));
        break;
    case NFA_ASSERT_BEGIN:
        if (!(phase & PHASE_BEGUN))
            nfa_add_epsilon(p->out, from, bounded_product_state(p, edge->target, phase, count));
        break;
    case NFA_ASSERT_END:
        nfa_add_epsilon(p->out, from,
                        bounded_product_state(p, edge->target, phase | PHASE_ENDED, count));
        break;
    case NFA_SPAN:
        if (phase & PHASE_ENDED || (count == more && p->bounds.max != UINT32_MAX)) break;
        nfa_add_span(p->out, from,
                     bounded_product_state(p, edge->target, phase | PHASE_BEGUN, more), edge->lo,
                     edge->hi, 0);
        break;
    case NFA_CALL: break;
    }
}

static struct frag bounded_product_run(struct bounded_product *p, struct frag f)
{
    struct frag out = {bounded_product_state(p, f.start, 0, 0), nfa_add_state(p->out)};
    for (uint32_t i = 0; i < p->n_queue && !p->out->problem; i++) {
        uint32_t index = p->queue[i], count = index % p->counts, phase = index / p->counts % PHASES,
                 state = index / p->counts / PHASES;
        uint32_t from = p->state_of_pair[index];
        for (uint32_t j = p->in->states[state].last_edge; j; j = p->in->edges[j].next)
            bounded_product_edge(p, from, &p->in->edges[j], phase, count);
        if (state == f.end && count >= p->bounds.min) nfa_add_epsilon(p->out, from, out.end);
    }
    return out;
}

static bool nfa_bound_length(struct nfa *out, struct frag *result, const struct nfa *in,
                             struct frag f, bool dominating, struct length_bounds bounds, ey_err *e)
{
    uint64_t counts = (uint64_t)(bounds.max == UINT32_MAX ? bounds.min : bounds.max) + 1;
    uint64_t size = (uint64_t)in->n_states * PHASES * counts;
    if (size > EY_MAX_PATTERN_PRODUCT)
        return ey_fail(e, EY_BAD_REQUEST,
                       "this pattern with a length limit of %llu is too large; drop one of them, "
                       "or bound the length within the pattern",
                       (unsigned long long)(counts - 1));
    struct bounded_product p = {.out = out,
                                .in = in,
                                .bounds = bounds,
                                .counts = (uint32_t)counts,
                                .dominating = dominating ? f.end : 0};
    p.state_of_pair = calloc(size, sizeof(*p.state_of_pair));
    p.queue = malloc(size * sizeof(*p.queue));
    bool ok = p.state_of_pair && p.queue;
    if (ok)
        *result = bounded_product_run(&p, f);
    else
        ey_fail_memory(e, "a pattern", size * sizeof(*p.state_of_pair));
    free(p.state_of_pair);
    free(p.queue);
    return ok && nfa_check(out, e);
}

/* ---- the intersection of two NFAs ---- */

/* States of `out` are pairs of a state of `a` and a state of `b`. */
struct intersection {
    struct nfa *out;
    const struct nfa *a, *b;
    uint32_t *state_of_pair; /* [a states][b states] state of out, 0: not reached */
    uint32_t *queue;         /* reached pairs */
    uint32_t n_queue;
};

static uint32_t intersection_state(struct intersection *m, uint32_t a, uint32_t b)
{
    uint32_t index = a * m->b->n_states + b;
    if (!m->state_of_pair[index]) {
        uint32_t made = nfa_add_state(m->out);
        if (!made) return 0;
        m->state_of_pair[index] = made;
        m->queue[m->n_queue++] = index;
    }
    return m->state_of_pair[index];
}

/* Adds edges for the characters that both edges accept. */
static void intersect_edge(struct intersection *m, uint32_t from, const struct nfa_edge *x,
                           uint32_t b)
{
    for (uint32_t i = m->b->states[b].last_edge; i; i = m->b->edges[i].next) {
        const struct nfa_edge *y = &m->b->edges[i];
        uint32_t lo = x->lo > y->lo ? x->lo : y->lo, hi = x->hi < y->hi ? x->hi : y->hi;
        if (y->kind == NFA_SPAN && lo <= hi)
            nfa_add_span(m->out, from, intersection_state(m, x->target, y->target), lo, hi, 0);
    }
}

static struct frag intersection_run(struct intersection *m, struct frag a, struct frag b)
{
    struct frag out = {intersection_state(m, a.start, b.start), nfa_add_state(m->out)};
    for (uint32_t i = 0; i < m->n_queue && !m->out->problem; i++) {
        uint32_t index = m->queue[i], in_a = index / m->b->n_states, in_b = index % m->b->n_states,
                 from = m->state_of_pair[index];
        for (uint32_t j = m->a->states[in_a].last_edge; j; j = m->a->edges[j].next) {
            if (m->a->edges[j].kind == NFA_EPSILON)
                nfa_add_epsilon(m->out, from, intersection_state(m, m->a->edges[j].target, in_b));
            else
                intersect_edge(m, from, &m->a->edges[j], in_b);
        }
        for (uint32_t j = m->b->states[in_b].last_edge; j; j = m->b->edges[j].next)
            if (m->b->edges[j].kind == NFA_EPSILON)
                nfa_add_epsilon(m->out, from, intersection_state(m, in_a, m->b->edges[j].target));
        if (in_a == a.end && in_b == b.end) nfa_add_epsilon(m->out, from, out.end);
    }
    return out;
}

static bool nfa_intersect(struct nfa *out, struct frag *result, const struct nfa *a,
                          struct frag in_a, const struct nfa *b, struct frag in_b, ey_err *e)
{
    size_t size = (size_t)a->n_states * b->n_states;
    if (size > EY_MAX_PATTERN_PRODUCT)
        return ey_fail(e, EY_BAD_REQUEST,
                       "this pattern and its format together are too large; drop one of them");
    struct intersection m = {.out = out,
                             .a = a,
                             .b = b,
                             .state_of_pair = calloc(size, sizeof(*m.state_of_pair)),
                             .queue = malloc(size * sizeof(*m.queue))};
    bool ok = m.state_of_pair && m.queue;
    if (ok)
        *result = intersection_run(&m, in_a, in_b);
    else
        ey_fail_memory(e, "a pattern", size * sizeof(*m.state_of_pair));
    free(m.state_of_pair);
    free(m.queue);
    return ok && nfa_check(out, e);
}

/* ---- entry points ---- */

static bool compile_pattern(struct nfa *code_points, struct frag *out, struct string_pattern p,
                            struct length_bounds bounds, ey_err *e)
{
    struct nfa read = nfa_with_max(code_points->max_states);
    struct frag f;
    bool ok = regex_parse(&read, &f, p.pattern, p.n, e);
    if (ok && p.anywhere) f = match_anywhere(&read, f);
    ok = ok && nfa_check(&read, e) &&
         nfa_bound_length(code_points, out, &read, f, p.anywhere, bounds, e);
    nfa_finish(&read);
    return ok;
}

bool string_pattern_compile(struct nfa *code_points, struct frag *out, struct string_pattern p,
                            struct length_bounds bounds, ey_err *e)
{
    return compile_pattern(code_points, out, p, bounds, e);
}

bool string_pattern_intersect(struct nfa *code_points, struct frag *out, struct string_pattern p,
                              struct string_pattern q, struct length_bounds bounds, ey_err *e)
{
    struct nfa a = nfa_with_max(code_points->max_states), b = nfa_with_max(code_points->max_states);
    struct frag in_a, in_b;
    bool ok = compile_pattern(&a, &in_a, p, bounds, e) &&
              compile_pattern(&b, &in_b, q, (struct length_bounds){.max = UINT32_MAX}, e) &&
              nfa_intersect(code_points, out, &a, in_a, &b, in_b, e);
    nfa_finish(&a);
    nfa_finish(&b);
    return ok;
}

/* Breadth-first: round n visits the states that n characters lead to. */
uint32_t nfa_shortest_length(struct nfa *code_points, struct frag f)
{
    uint32_t *queue = malloc(((size_t)code_points->n_states + 1) * sizeof(*queue)),
             *later = malloc(((size_t)code_points->n_states + 1) * sizeof(*later));
    uint8_t *seen = calloc((size_t)code_points->n_states + 1, 1);
    uint32_t n = 1, length = 0, found = UINT32_MAX;
    if (!queue || !later || !seen) {
        code_points->problem = NFA_NO_MEMORY;
        n = 0;
    }
    if (n) {
        queue[0] = f.start;
        seen[f.start] = 1;
    }
    for (; n && found == UINT32_MAX; length++) {
        uint32_t n_later = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (queue[i] == f.end) found = length;
            for (uint32_t j = code_points->states[queue[i]].last_edge; j;
                 j = code_points->edges[j].next) {
                uint32_t target = code_points->edges[j].target;
                bool taken = code_points->edges[j].kind == NFA_EPSILON;
                if (seen[target] & 1 || (!taken && seen[target])) continue;
                seen[target] |= taken ? 1 : 2;
                if (taken)
                    queue[n++] = target;
                else
                    later[n_later++] = target;
            }
        }
        uint32_t *swap = queue;
        queue = later;
        later = swap;
        n = 0;
        for (uint32_t i = 0; i < n_later; i++)
            if (!(seen[queue[i]] & 1)) {
                seen[queue[i]] |= 1;
                queue[n++] = queue[i];
            }
    }
    free(queue);
    free(later);
    free(seen);
    return found;
}
