/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of a row block's sums in shared memory and in y, for kernels that add up the sums of
 * several warps (gemv.cu, lm_head.cu). */
#ifndef EY_CUDA_GEMV_REDUCE_CUH
#define EY_CUDA_GEMV_REDUCE_CUH

#include "kernels/cuda/matmul/gemv_common.cuh"
#include "kernels/cuda/matmul/gemv_depth.h"

/* Stores a warp's sums of one tile to [tokens, GEMV_TOKEN_FLOATS]. */
template <int groups> EY_DEVICE void share_sums(float *to, const float sum[groups][4], int n)
{
    int row = lane_index() / 4, column = lane_index() % 4 * 2;
#pragma unroll
    for (int i = 0; i < groups; i++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int token = 8 * i + column + e % 2;
            if (token < n) to[token * GEMV_TOKEN_FLOATS + row + e / 2 * 8] = sum[i][e];
        }
    }
}

/* One value of a row block: number `o` of [tokens, PACK_ROWS]. */
struct gemv_output {
    int row, token;
    int64_t at; /* offset in y */
    bool there;
};

EY_DEVICE struct gemv_output gemv_find_output(const struct matmul_args &a,
                                              const struct row_block &b, int o)
{
    struct gemv_output p;
    p.token = o / PACK_ROWS;
    p.row = b.number * PACK_ROWS + o % PACK_ROWS;
    p.at = (int64_t)p.token * a.segment[b.segment].ldy + p.row;
    p.there = p.row < a.segment[b.segment].w.rows && p.token < a.n;
    return p;
}

#endif
