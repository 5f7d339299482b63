/* SPDX-License-Identifier: Apache-2.0 */
/* Turns rows of raw q, k and v into queries and KV cache entries: per-head RMSNorm, RoPE, and the
 * store. Prefill runs this before attention; decode does it inside its own kernel. */
#include "kernels/cuda/attention/attention_launch.h"
#include "kernels/cuda/attention/kv_cache.cuh"

/* A warp handles one row of one head. */
enum { LANE_PAIRS = HEAD_DIM_MAX / 2 / 32 };

EY_DEVICE float head_scale(const float x[LANE_PAIRS], const float y[LANE_PAIRS], int dim, float eps)
{
    float sum = 0;
#pragma unroll
    for (int j = 0; j < LANE_PAIRS; j++)
        sum += x[j] * x[j] + y[j] * y[j];
    return rsqrtf(warp_sum(sum) / (float)dim + eps);
}

EY_KERNEL(kv_append, struct kv_append_args, WARP_KERNEL_THREADS, 1)
{
    int n_kv = a.kv.n_kv_heads, dim = a.kv.head_dim, half = dim / 2, heads = a.n_heads + 2 * n_kv,
        lane = lane_index();
    int unit = (int)blockIdx.x * (WARP_KERNEL_THREADS / 32) + warp_index(), row = unit / heads,
        head = unit % heads;
    wait_for_previous();
    let_next_start();
    if (row >= a.batch.n) return;
    bool is_q = head < a.n_heads, is_v = head >= a.n_heads + n_kv;
    const float *from = a.qkv + (int64_t)unit * dim;
    const float *norm = is_q ? a.q_norm : a.k_norm, *rope = a.rope + (int64_t)row * dim;
    float x[LANE_PAIRS], y[LANE_PAIRS]; /* pair lane + 32j */
#pragma unroll
    for (int j = 0; j < LANE_PAIRS; j++) {
        int i = lane + 32 * j;
        x[j] = i < half ? from[i] : 0;
        y[j] = i < half ? from[half + i] : 0;
    }
    float scale = norm && !is_v ? head_scale(x, y, dim, a.eps) : 1.0f;
    void *to = a.q + ((int64_t)row * a.n_heads + head) * dim;
    if (!is_q) {
        int index = a.batch.index[row], block = block_table_row(a.batch, row)[index / KV_TOKENS],
            kv_head = is_v ? head - a.n_heads - n_kv : head - a.n_heads;
        to = kv_cache_rows(a.kv, block, kv_head, is_v) +
             (int64_t)(index % KV_TOKENS) * dim * kv_element_size(a.kv);
    }
    int fp8 = !is_q && a.kv.fp8;
#pragma unroll
    for (int j = 0; j < LANE_PAIRS; j++) {
        int i = lane + 32 * j;
        if (i >= half) continue;
        float u = x[j] * scale, v = y[j] * scale, c = 1, s = 0;
        if (norm && !is_v) {
            u *= norm[i];
            v *= norm[half + i];
        }
        if (!is_v) {
            c = rope[2 * i];
            s = rope[2 * i + 1];
        }
        put_element(to, i, u * c - v * s, fp8);
        put_element(to, half + i, v * c + u * s, fp8);
    }
}
