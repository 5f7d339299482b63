/* SPDX-License-Identifier: Apache-2.0 */
/* The top 64 logits of each row in exact order, and the log of the sum of exponentials.
 *
 * A block selects from its sort keys (sort_key.cuh) in three steps: a bound that at least 64 keys
 * reach, from the highest keys of each warp; the few keys that reach it; the rank of each, by
 * counting larger ones. Only where more than KEPT reach the bound (many equal logits) do histograms
 * of ever lower bits raise it. */
#include "kernels/cuda/common/ptx.cuh"
#include "kernels/cuda/sampling/sort_key.cuh"
#include "kernels/cuda/sampling/topk_launch.h"

enum {
    WARPS = TOPK_THREADS / 32,
    FROM_WARP = TOPK / WARPS, /* lanes of each warp that reach the first bound */
    KEPT = TOPK_THREADS / 2,
    DIGIT = 11,
    BINS = 1 << DIGIT,
    THREAD_BINS = BINS / TOPK_THREADS,
    AT_ONCE = 8 /* numbers of a thread in flight */
};

/* ---- what a block shares ---- */

struct selection {
    uint64_t kept[KEPT];
    uint32_t histogram[BINS];
    uint32_t warp[WARPS]; /* one number per warp */
    uint32_t n_kept;
    uint32_t bin, above, in; /* the bin of the wanted number, and how many numbers are in higher
                                bins and in this one */
};

EY_DEVICE uint32_t warp_max_bits(uint32_t v)
{
    for (int mask = 16; mask; mask /= 2) {
        uint32_t other = shuffle_xor(v, mask);
        v = other > v ? other : v;
    }
    return v;
}

/* Returns a number that at least TOPK of items[n] reach, if there are so many: each warp has a key
 * that FROM_WARP of its lanes reach, and this is the lowest of those keys. */
EY_DEVICE uint64_t first_bound(struct selection *s, const uint64_t *items, int n)
{
    uint32_t key = 0, highest = 0;
    for (int i = (int)threadIdx.x; i < n; i += TOPK_THREADS) {
        uint32_t other = (uint32_t)(items[i] >> 32);
        key = other > key ? other : key;
    }
    for (int i = 0; i < FROM_WARP; i++) {
        highest = warp_max_bits(key);
        if (key == highest) key = 0;
    }
    if (lane_index() == 0) s->warp[warp_index()] = highest;
    __syncthreads();
    uint32_t bound = ~warp_max_bits(~s->warp[lane_index() % WARPS]);
    return bound ? (uint64_t)bound << 32 : 1;
}

/* Sets s->bin, above and in for the `need`-th number from the top of the histogram. */
EY_DEVICE void find_bin(struct selection *s, uint32_t need)
{
    int highest = BINS - 1 - THREAD_BINS * (int)threadIdx.x, lane = lane_index();
    uint32_t mine = 0, before = 0;
    for (int i = 0; i < THREAD_BINS; i++)
        mine += s->histogram[highest - i];
    uint32_t sum = mine;
    for (int d = 1; d < 32; d *= 2) {
        uint32_t lower = shuffle(sum, (lane - d) & 31);
        if (lane >= d) sum += lower;
    }
    if (lane == 31) s->warp[warp_index()] = sum;
    __syncthreads();
    for (int w = 0; w < warp_index(); w++)
        before += s->warp[w];
    before += sum - mine;
    for (int i = 0; i < THREAD_BINS; i++) {
        uint32_t in = s->histogram[highest - i];
        if (before < need && need <= before + in) {
            s->bin = (uint32_t)(highest - i);
            s->above = before;
            s->in = in;
        }
        before += in;
    }
    __syncthreads();
}

/* Returns a bound that between TOPK and KEPT of items[n] reach; more than KEPT reach `bound`. */
EY_DEVICE uint64_t raised_bound(struct selection *s, const uint64_t *items, int n, uint64_t bound)
{
    uint64_t prefix = 0;
    uint32_t need = TOPK, better = 0;
    for (int end = 64, shift;; end = shift) {
        shift = end > DIGIT ? end - DIGIT : 0;
        for (int i = (int)threadIdx.x; i < BINS; i += TOPK_THREADS)
            s->histogram[i] = 0;
        __syncthreads();
        for (int i = (int)threadIdx.x; i < n; i += TOPK_THREADS) {
            uint64_t v = items[i];
            if (v >= bound && (end == 64 || v >> end == prefix))
                atomicAdd(&s->histogram[(uint32_t)(v >> shift) & ((1u << (end - shift)) - 1)], 1u);
        }
        __syncthreads();
        find_bin(s, need);
        prefix = prefix << (end - shift) | s->bin;
        if (shift == 0 || better + s->above + s->in <= KEPT) return prefix << shift;
        better += s->above;
        need -= s->above;
    }
}

/* Puts the numbers that reach the bound into s->kept, at most KEPT. s->n_kept counts all of these
 * numbers, also beyond KEPT. */
EY_DEVICE void topk_keep(struct selection *s, const uint64_t *items, int n, uint64_t bound)
{
    __syncthreads();
    if (threadIdx.x == 0) s->n_kept = 0;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < n; i += TOPK_THREADS) {
        if (items[i] < bound) continue;
        uint32_t at = atomicAdd(&s->n_kept, 1u);
        if (at < KEPT) s->kept[at] = items[i];
    }
    __syncthreads();
}

/* out[TOPK]: the best of the kept, best first. Two threads count for one number. */
EY_DEVICE void write_in_order(struct topk_logit *out, const struct selection *s)
{
    uint32_t n = s->n_kept, mine = threadIdx.x / 2, rank = 0;
    uint64_t sortable = mine < n ? s->kept[mine] : 0;
    for (uint32_t i = threadIdx.x % 2; sortable && i < n; i += 2)
        rank += s->kept[i] > sortable;
    rank += shuffle_xor(rank, 1);
    if (!sortable) rank = mine; /* no key: a slot after the last one */
    if (threadIdx.x % 2 == 0 && rank < TOPK) out[rank] = topk_logit_of(sortable);
}

EY_DEVICE void select_best(struct topk_logit *out, struct selection *s, const uint64_t *items,
                           int n)
{
    uint64_t bound = first_bound(s, items, n);
    topk_keep(s, items, n, bound);
    if (s->n_kept > KEPT) topk_keep(s, items, n, raised_bound(s, items, n, bound));
    write_in_order(out, s);
}

/* ---- sums of exponentials ---- */

struct exp_sum {
    float max, sum; /* of exp(logit - max) */
};

/* Returns exp(v - max); 1 at the maximum, even an infinite one. */
EY_DEVICE float weight_of(float v, float max)
{
    return v == max ? 1.0f : exp2_fast((v - max) * 1.44269504f);
}

EY_DEVICE struct exp_sum warp_exp_sum(struct exp_sum of)
{
    struct exp_sum all = {warp_max(of.max), 0};
    all.sum = warp_sum(of.sum > 0 ? of.sum * weight_of(of.max, all.max) : 0.0f);
    return all;
}

/* Returns the sum over items[n] to the threads of warp 0. NaN adds nothing. */
EY_DEVICE struct exp_sum block_exp_sum(struct exp_sum warps[WARPS], const uint64_t *items, int n)
{
    struct exp_sum mine = {bits_float(0xff800000u), 0};
    for (int i = (int)threadIdx.x; i < n; i += TOPK_THREADS)
        mine.max = fmaxf(mine.max, logit_of(items[i]));
    for (int i = (int)threadIdx.x; i < n; i += TOPK_THREADS) {
        float v = logit_of(items[i]);
        if (v == v) mine.sum += weight_of(v, mine.max);
    }
    mine = warp_exp_sum(mine);
    if (lane_index() == 0) warps[warp_index()] = mine;
    __syncthreads();
    struct exp_sum none = {bits_float(0xff800000u), 0};
    return warp_index() == 0 ? warp_exp_sum(lane_index() < WARPS ? warps[lane_index()] : none)
                             : mine;
}

/* ---- kernels ---- */

/* Block (p, row) searches one part of a row. */
EY_KERNEL(topk_part, struct topk_args, TOPK_THREADS, 1)
{
    __shared__ struct selection s;
    __shared__ struct exp_sum warps[WARPS];
    EY_DYNAMIC_SHARED(dynamic);
    uint64_t *items = (uint64_t *)dynamic;
    let_next_start();
    int each = (a.vocabulary + a.parts - 1) / a.parts, first = (int)blockIdx.x * each;
    int n = a.vocabulary - first < each ? a.vocabulary - first : each;
    const float *logits = a.logits + (int64_t)blockIdx.y * a.vocabulary + first;
    int64_t part = (int64_t)blockIdx.y * a.parts + blockIdx.x;
    if (n < 0) n = 0;
    wait_for_previous();
    for (int base = (int)threadIdx.x; base < n; base += AT_ONCE * TOPK_THREADS) {
        float v[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            v[i] = base + i * TOPK_THREADS < n ? load_fresh_float(logits + base + i * TOPK_THREADS)
                                               : 0;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int at = base + i * TOPK_THREADS;
            if (at < n) items[at] = sortable_of(v[i], first + at);
        }
    }
    __syncthreads();
    struct exp_sum sum = block_exp_sum(warps, items, n);
    if (threadIdx.x == 0) {
        a.part_sum[2 * part] = sum.max;
        a.part_sum[2 * part + 1] = sum.sum;
    }
    select_best(a.part + part * TOPK, &s, items, n);
}

/* Block `row` merges a row's parts. Items are distributed so that each warp has good and bad ones
 * of many parts. */
EY_KERNEL(topk_merge, struct topk_args, TOPK_THREADS, 1)
{
    __shared__ struct selection s;
    EY_DYNAMIC_SHARED(dynamic);
    uint64_t *items = (uint64_t *)dynamic;
    let_next_start();
    int n = a.parts * TOPK;
    const struct topk_logit *part = a.part + (int64_t)blockIdx.x * n;
    const float *sums = a.part_sum + (int64_t)blockIdx.x * a.parts * 2;
    wait_for_previous();
    for (int base = (int)threadIdx.x; base < n; base += AT_ONCE * TOPK_THREADS) {
        float logit[AT_ONCE], id[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int item = min(base + i * TOPK_THREADS, n - 1), p = item / TOPK,
                rank = (item + 5 * p) % TOPK;
            logit[i] = load_fresh_float(&part[p * TOPK + rank].logit);
            id[i] = load_fresh_float((const float *)&part[p * TOPK + rank].id);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int item = base + i * TOPK_THREADS;
            if (item < n)
                items[item] = (int)float_bits(id[i]) < 0
                                  ? 0
                                  : sortable_of(logit[i], (int)float_bits(id[i]));
        }
    }
    __syncthreads();
    select_best(a.best + (int64_t)blockIdx.x * TOPK, &s, items, n);
    if (warp_index() == 0) {
        struct exp_sum mine = {bits_float(0xff800000u), 0};
        for (int p = lane_index(); p < a.parts; p += 32) {
            struct exp_sum more = {load_fresh_float(sums + 2 * p),
                                   load_fresh_float(sums + 2 * p + 1)};
            float max = fmaxf(mine.max, more.max);
            mine.sum = (mine.sum > 0 ? mine.sum * weight_of(mine.max, max) : 0) +
                       (more.sum > 0 ? more.sum * weight_of(more.max, max) : 0);
            mine.max = max;
        }
        mine = warp_exp_sum(mine);
        if (lane_index() == 0) a.log_sum[blockIdx.x] = mine.max + logf(mine.sum);
    }
}
