/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the GEMV kernels for one token: the rows of a block of threads, and the addresses of
 * its results. */
#ifndef EY_CUDA_GEMV_M1_CUH
#define EY_CUDA_GEMV_M1_CUH

#include "kernels/cuda/common/matrix_element.cuh"

EY_DEVICE float m1_sum_squares(float4 v)
{
    return v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
}

EY_DEVICE uint32_t m1_word(const uint4 &v, int q)
{
    return q == 0 ? v.x : q == 1 ? v.y : q == 2 ? v.z : v.w;
}

/* The matrix of q, k, v (or the only one) to which row block `block` belongs, and its index
 * there. */
struct m1_rows {
    int segment, block;
};

EY_DEVICE struct m1_rows m1_find_rows(const struct matmul_args &a, int block)
{
    struct m1_rows p = {0, block};
    for (; p.segment < a.n_segments - 1; p.segment++) {
        int n = (a.segment[p.segment].w.rows + PACK_ROWS - 1) / PACK_ROWS;
        if (p.block < n) break;
        p.block -= n;
    }
    return p;
}

template <int out>
EY_DEVICE void m1_store(const struct matmul_segment &s, int row, float value, float up)
{
    if (row >= s.w.rows) return;
    if (out == EPI_SILU) {
        ((bf16 *)s.y)[row] = bf16_of(value / (1.0f + exp2_fast(-1.4426950408889634f * value)) * up);
        return;
    }
    if (s.bias) value += s.bias[row];
    float *y = (float *)s.y + row;
    if (out == EPI_ADD)
        add_in_memory(y, value);
    else
        *y = value;
}

#endif
