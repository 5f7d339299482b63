/* SPDX-License-Identifier: Apache-2.0 */
/* Rescoring: recomputes the top-k logits of an 8-bit head from its BF16 rows, bit for bit as
 * backend/rescore.h does on the host, and sorts them. */
#include "tensor/rescore_order.h"
#include "kernels/cuda/common/ptx.cuh"
#include "kernels/cuda/sampling/rescore_launch.h"
#include "kernels/cuda/sampling/sort_key.cuh"

enum {
    ROW_LOADS = 32
}; /* pieces of a row that a thread has in flight: the bus has a long latency */

struct rescore_float4 {
    float v[RESCORE_NEIGHBORS];
};

EY_DEVICE struct rescore_float4 rescore_load4(const float *p)
{
    uint4 bits = load_fresh(p);
    struct rescore_float4 f = {
        {bits_float(bits.x), bits_float(bits.y), bits_float(bits.z), bits_float(bits.w)}};
    return f;
}

EY_DEVICE float rescore_lane_sum(const struct rescore_float4 &f)
{
    return warp_sum((f.v[0] + f.v[1]) + (f.v[2] + f.v[3]));
}

/* Returns the scale of RMSNorm of x[cols]. */
EY_DEVICE float rescore_norm_scale(const float *x, int cols, float eps)
{
    struct rescore_float4 sum = {};
    for (int i = lane_index() * RESCORE_NEIGHBORS; i < cols; i += RESCORE_STRIDE) {
        struct rescore_float4 f = rescore_load4(x + i);
        for (int k = 0; k < RESCORE_NEIGHBORS; k++)
            sum.v[k] += product_rounded(f.v[k], f.v[k]);
    }
    return 1.0f / sqrtf(rescore_lane_sum(sum) / (float)cols + eps);
}

/* sum += normed x · row, at columns i .. i + RESCORE_NEIGHBORS - 1. */
EY_DEVICE void rescore_add_products(struct rescore_float4 *sum, uint2 row, const float *x,
                                    const float *norm, float scale)
{
    struct rescore_float4 f = rescore_load4(x), w = rescore_load4(norm);
    const float of_row[RESCORE_NEIGHBORS] = {bf16_low(row.x), bf16_high(row.x), bf16_low(row.y),
                                             bf16_high(row.y)};
    for (int k = 0; k < RESCORE_NEIGHBORS; k++)
        sum->v[k] += product_rounded(product_rounded(f.v[k], product_rounded(scale, w.v[k])),
                                     of_row[k]);
}

EY_DEVICE float rescore_logit(const bf16 *row, const float *x, const struct rescore_args &a)
{
    struct rescore_float4 sum = {};
    float scale = 0;
    for (int first = lane_index() * RESCORE_NEIGHBORS;
         first - lane_index() * RESCORE_NEIGHBORS < a.cols; first += ROW_LOADS * RESCORE_STRIDE) {
        uint2 piece[ROW_LOADS];
#pragma unroll
        for (int i = 0; i < ROW_LOADS; i++)
            if (first + i * RESCORE_STRIDE < a.cols)
                piece[i] = load_weight_8(row + first + i * RESCORE_STRIDE);
        if (first < RESCORE_STRIDE)
            scale = rescore_norm_scale(x, a.cols, a.eps); /* computed while they are loaded */
#pragma unroll
        for (int i = 0; i < ROW_LOADS; i++) {
            int at = first + i * RESCORE_STRIDE;
            if (at < a.cols) rescore_add_products(&sum, piece[i], x + at, a.norm + at, scale);
        }
    }
    return rescore_lane_sum(sum);
}

/* Sorts the row's rescored logits; one warp. */
EY_DEVICE void put_in_order(struct topk_logit *best, uint64_t sortable[TOPK])
{
    for (int i = lane_index(); i < TOPK; i += 32) {
        float logit = load_fresh_float(&best[i].logit),
              id = load_fresh_float((const float *)&best[i].id);
        sortable[i] = (int)float_bits(id) < 0 ? 0 : sortable_of(logit, (int)float_bits(id));
    }
    __syncwarp();
    for (int i = lane_index(); i < TOPK; i += 32) {
        int rank = 0;
        for (int k = 0; k < TOPK; k++)
            rank += sortable[k] > sortable[i];
        best[sortable[i] ? rank : i] = topk_logit_of(
            sortable[i]); /* empty entries are last already */
    }
}

EY_KERNEL(rescore, struct rescore_args, 32, 8)
{
    __shared__ uint64_t sortable[TOPK];
    wait_for_previous();
    let_next_start();
    const int row = (int)blockIdx.y;
    struct topk_logit *best = a.best + row * TOPK, *mine = best + blockIdx.x;
    const int id = (int)float_bits(load_fresh_float((const float *)&mine->id));
    uint32_t before = 0;
    if (id >= 0) {
        float logit = rescore_logit(a.rows + (int64_t)id * a.cols,
                                    a.x + (int64_t)a.gather[row] * a.cols, a);
        if (lane_index() == 0) mine->logit = logit;
    }
    if (lane_index() == 0) before = count_arrival(a.arrived + row);
    if (shuffle(before, 0) != TOPK - 1) return;
    __syncwarp(); /* all lanes see lane 0's writes */
    put_in_order(best, sortable);
    if (lane_index() == 0) a.arrived[row] = 0;
}
