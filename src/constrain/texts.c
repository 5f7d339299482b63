/* SPDX-License-Identifier: Apache-2.0 */
/* What a regular expression's net over code points becomes: assertions are worked out, lengths
 * bounded, two patterns made one. All are products: pairs of what is told apart on both sides, as
 * far as they are met. */
#include "constrain/texts.h"

#include <stdlib.h>

#include "base/limits.h"
#include "constrain/regex.h"

/* ---- where it may begin and end, and how many characters
 * ------------------------------------------ */

/* Puts any characters before and behind. */
static struct frag anywhere(struct net *net, struct frag f)
{
    struct frag all = net_frag(net);
    net_span(net, all.start, all.start, 0, 0xd7ff, 0);
    net_span(net, all.start, all.start, 0xe000, 0x10ffff, 0);
    net_empty(net, all.start, f.start);
    net_empty(net, f.end, all.end);
    net_span(net, all.end, all.end, 0, 0xd7ff, 0);
    net_span(net, all.end, all.end, 0xe000, 0x10ffff, 0);
    return all;
}

/* What has become of the text in a state: ^ is passed only where it has not begun, and behind $
 * nothing may come. */
enum { BEGUN = 1, ENDED = 2, PHASES = 4 };

/* Pairs of a state of `in`, a phase and a number of characters (up to where it makes no difference)
 * as states of `out`. */
struct product {
    struct net *out;
    const struct net *in;
    struct text_bounds bounds;
    uint32_t counts; /* numbers of characters that are told apart */
    uint32_t *known; /* [in state][phase][count] state of out, 0: not met */
    uint32_t *queue; /* indexes of known, in the order of the states of out */
    uint32_t n_queue;
    uint32_t rest; /* state of in from which all goes; 0: none */
};

static uint32_t product_state(struct product *p, uint32_t state, unsigned phase, uint32_t count)
{
    uint32_t index = (state * PHASES + phase) * p->counts + count;
    if (!p->known[index]) {
        uint32_t made = net_state(p->out);
        if (!made) return 0;
        p->known[index] = made;
        p->queue[p->n_queue++] = index;
        p->out->nodes[made].rest = state == p->rest && !(phase & ENDED) && p->counts == 1;
    }
    return p->known[index];
}

static void product_edge(struct product *p, uint32_t from, const struct net_edge *edge,
                         unsigned phase, uint32_t count)
{
    uint32_t more = count + 1 < p->counts ? count + 1 : count;
    switch ((enum net_kind)edge->kind) {
    case NET_EMPTY: net_empty(p->out, from, product_state(p, edge->target, phase, count)); break;
    case NET_BEGIN:
        if (!(phase & BEGUN)) net_empty(p->out, from, product_state(p, edge->target, phase, count));
        break;
    case NET_END:
        net_empty(p->out, from, product_state(p, edge->target, phase | ENDED, count));
        break;
    case NET_SPAN:
        if (phase & ENDED || (count == more && p->bounds.max != UINT32_MAX)) break;
        net_span(p->out, from, product_state(p, edge->target, phase | BEGUN, more), edge->lo,
                 edge->hi, 0);
        break;
    case NET_CALL: break;
    }
}

static struct frag run_product(struct product *p, struct frag f)
{
    struct frag out = {product_state(p, f.start, 0, 0), net_state(p->out)};
    for (uint32_t i = 0; i < p->n_queue && !p->out->problem; i++) {
        uint32_t index = p->queue[i], count = index % p->counts, phase = index / p->counts % PHASES,
                 state = index / p->counts / PHASES;
        uint32_t from = p->known[index];
        for (uint32_t j = p->in->nodes[state].edge; j; j = p->in->edges[j].next)
            product_edge(p, from, &p->in->edges[j], phase, count);
        if (state == f.end && count >= p->bounds.min) net_empty(p->out, from, out.end);
    }
    return out;
}

static bool bind(struct net *out, struct frag *result, const struct net *in, struct frag f,
                 bool rest, struct text_bounds bounds, ey_err *e)
{
    uint64_t counts = (uint64_t)(bounds.max == UINT32_MAX ? bounds.min : bounds.max) + 1;
    uint64_t size = (uint64_t)in->n_states * PHASES * counts;
    if (size > EY_MAX_PATTERN_PRODUCT)
        return ey_fail(e, EY_BAD_REQUEST,
                       "this pattern and lengths up to %llu together are too large; drop one of "
                       "them, or bound the "
                       "length within the pattern",
                       (unsigned long long)(counts - 1));
    struct product p = {.out = out,
                        .in = in,
                        .bounds = bounds,
                        .counts = (uint32_t)counts,
                        .rest = rest ? f.end : 0};
    p.known = calloc(size, sizeof(*p.known));
    p.queue = malloc(size * sizeof(*p.queue));
    bool ok = p.known && p.queue;
    if (ok)
        *result = run_product(&p, f);
    else
        ey_fail_memory(e, "a pattern", size * sizeof(*p.known));
    free(p.known);
    free(p.queue);
    return ok && net_check(out, e);
}

/* ---- what two nets have in common
 * ---------------------------------------------------------------- */

/* Pairs of a state of each as states of `out`. */
struct meeting {
    struct net *out;
    const struct net *a, *b;
    uint32_t *known; /* [a states][b states] state of out, 0: not met */
    uint32_t *queue; /* indexes of known */
    uint32_t n_queue;
};

static uint32_t meeting_state(struct meeting *m, uint32_t a, uint32_t b)
{
    uint32_t index = a * m->b->n_states + b;
    if (!m->known[index]) {
        uint32_t made = net_state(m->out);
        if (!made) return 0;
        m->known[index] = made;
        m->queue[m->n_queue++] = index;
    }
    return m->known[index];
}

/* Characters that both take. */
static void meet(struct meeting *m, uint32_t from, const struct net_edge *x, uint32_t b)
{
    for (uint32_t i = m->b->nodes[b].edge; i; i = m->b->edges[i].next) {
        const struct net_edge *y = &m->b->edges[i];
        uint32_t lo = x->lo > y->lo ? x->lo : y->lo, hi = x->hi < y->hi ? x->hi : y->hi;
        if (y->kind == NET_SPAN && lo <= hi)
            net_span(m->out, from, meeting_state(m, x->target, y->target), lo, hi, 0);
    }
}

static struct frag run_meeting(struct meeting *m, struct frag a, struct frag b)
{
    struct frag out = {meeting_state(m, a.start, b.start), net_state(m->out)};
    for (uint32_t i = 0; i < m->n_queue && !m->out->problem; i++) {
        uint32_t index = m->queue[i], in_a = index / m->b->n_states, in_b = index % m->b->n_states,
                 from = m->known[index];
        for (uint32_t j = m->a->nodes[in_a].edge; j; j = m->a->edges[j].next) {
            if (m->a->edges[j].kind == NET_EMPTY)
                net_empty(m->out, from, meeting_state(m, m->a->edges[j].target, in_b));
            else
                meet(m, from, &m->a->edges[j], in_b);
        }
        for (uint32_t j = m->b->nodes[in_b].edge; j; j = m->b->edges[j].next)
            if (m->b->edges[j].kind == NET_EMPTY)
                net_empty(m->out, from, meeting_state(m, in_a, m->b->edges[j].target));
        if (in_a == a.end && in_b == b.end) net_empty(m->out, from, out.end);
    }
    return out;
}

static bool intersect(struct net *out, struct frag *result, const struct net *a, struct frag in_a,
                      const struct net *b, struct frag in_b, ey_err *e)
{
    size_t size = (size_t)a->n_states * b->n_states;
    if (size > EY_MAX_PATTERN_PRODUCT)
        return ey_fail(e, EY_BAD_REQUEST,
                       "this pattern beside a format is too large; drop one of them");
    struct meeting m = {.out = out,
                        .a = a,
                        .b = b,
                        .known = calloc(size, sizeof(*m.known)),
                        .queue = malloc(size * sizeof(*m.queue))};
    bool ok = m.known && m.queue;
    if (ok)
        *result = run_meeting(&m, in_a, in_b);
    else
        ey_fail_memory(e, "a pattern", size * sizeof(*m.known));
    free(m.known);
    free(m.queue);
    return ok && net_check(out, e);
}

/* ---- the whole
 * ----------------------------------------------------------------------------------- */

static bool compile_one(struct net *chars, struct frag *out, struct pattern_text p,
                        struct text_bounds bounds, ey_err *e)
{
    struct net read = net_with_max(chars->max_states);
    struct frag f;
    bool ok = regex_read(&read, &f, p.pattern, p.n, e);
    if (ok && p.anywhere) f = anywhere(&read, f);
    ok = ok && net_check(&read, e) && bind(chars, out, &read, f, p.anywhere, bounds, e);
    net_finish(&read);
    return ok;
}

bool texts_of_pattern(struct net *chars, struct frag *out, struct pattern_text p,
                      struct text_bounds bounds, ey_err *e)
{
    return compile_one(chars, out, p, bounds, e);
}

bool texts_of_both(struct net *chars, struct frag *out, struct pattern_text p,
                   struct pattern_text q, struct text_bounds bounds, ey_err *e)
{
    struct net a = net_with_max(chars->max_states), b = net_with_max(chars->max_states);
    struct frag in_a, in_b;
    bool ok = compile_one(&a, &in_a, p, bounds, e) &&
              compile_one(&b, &in_b, q, (struct text_bounds){.max = UINT32_MAX}, e) &&
              intersect(chars, out, &a, in_a, &b, in_b, e);
    net_finish(&a);
    net_finish(&b);
    return ok;
}

/* Round n takes the states that n characters lead to. */
uint32_t shortest_text(struct net *chars, struct frag f)
{
    uint32_t *queue = malloc(((size_t)chars->n_states + 1) * sizeof(*queue)),
             *later = malloc(((size_t)chars->n_states + 1) * sizeof(*later));
    uint8_t *seen = calloc((size_t)chars->n_states + 1, 1);
    uint32_t n = 1, length = 0, found = UINT32_MAX;
    if (!queue || !later || !seen) {
        chars->problem = NET_NO_MEMORY;
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
            for (uint32_t j = chars->nodes[queue[i]].edge; j; j = chars->edges[j].next) {
                uint32_t target = chars->edges[j].target;
                bool taken = chars->edges[j].kind == NET_EMPTY;
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
