/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the matmuls of few rows (matmul_small.cu, matmul_small_gguf.cu, matmul_small_sm90.cu).
 * If a tile's columns are split over several blocks of threads, the last one to arrive adds up all
 * their parts, in the same order whichever it is. */
#ifndef EY_CUDA_MATMUL_SMALL_JOIN_CUH
#define EY_CUDA_MATMUL_SMALL_JOIN_CUH

#include "kernels/cuda/matmul/gemm_common.cuh"
#include "kernels/cuda/matmul/matmul_small_launch.h"

/* Returns whether this block is the last of its tile's to arrive. The last block sees everything
 * that the others wrote. */
EY_DEVICE bool small_is_last(uint32_t *counter)
{
    __shared__ uint32_t before;
    __syncthreads();
    if (threadIdx.x == 0) {
        before = count_arrival(counter);
        if (before == gridDim.y - 1) *counter = 0;
    }
    __syncthreads();
    return before == gridDim.y - 1;
}

/* Adds up the parts of a tile's quad i of `n`, and those of the thread's next quad, in order, with
 * all loads in flight together. */
template <class S>
EY_DEVICE void small_sum_parts(float4 sum[2], const float *tile, int part_floats, int i, int n)
{
    const int splits = (int)gridDim.y;
    uint4 part[2][SMALL_MOST_SPLITS];
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int s = 0; s < SMALL_MOST_SPLITS; s++) {
            part[j][s] = make_uint4(0, 0, 0, 0);
            if (s < splits && i + j * S::threads < n)
                part[j][s] = load_fresh(tile + (int64_t)s * part_floats + (i + j * S::threads) * 4);
        }
#pragma unroll
    for (int j = 0; j < 2; j++) {
        sum[j] = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int s = 0; s < SMALL_MOST_SPLITS; s++)
            sum[j] = make_float4(
                sum[j].x + bits_float(part[j][s].x), sum[j].y + bits_float(part[j][s].y),
                sum[j].z + bits_float(part[j][s].z), sum[j].w + bits_float(part[j][s].w));
    }
}

/* Stores the block's sums as its part of the tile. */
template <class S>
EY_DEVICE void small_store_part(const struct small_matmul_args &a, const struct gemm_staged &staged)
{
    enum { QUADS = SMALL_TILE / 4, PART = S::tokens * SMALL_TILE };
    float *mine = a.partial + ((int64_t)blockIdx.x * gridDim.y + blockIdx.y) * PART;
    for (int i = (int)threadIdx.x; i < a.matmul.n * QUADS; i += S::threads) {
        float v[4];
        staged_sums<S>(v, staged, i / QUADS, i % QUADS * 4);
        *(float4 *)(mine + i * 4) = make_float4(v[0], v[1], v[2], v[3]);
    }
}

/* Turns all blocks' parts of the tile into the staged sums of the last block. Returns false in the
 * other blocks, and if the next kernel adds up the parts. */
template <class S>
EY_DEVICE bool small_join(const struct small_matmul_args &a, struct gemm_staged &staged)
{
    enum { QUADS = SMALL_TILE / 4, PART = S::tokens * SMALL_TILE };
    const int quads = a.matmul.n * QUADS;
    const float *tile = a.partial + (int64_t)blockIdx.x * gridDim.y * PART;
    small_store_part<S>(a, staged);
    if (a.keeps_parts || !small_is_last(a.arrived + blockIdx.x)) return false;
    for (int i = (int)threadIdx.x; i < quads; i += 2 * S::threads) {
        float4 sum[2];
        small_sum_parts<S>(sum, tile, PART, i, quads);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const int quad = i + j * S::threads;
            if (quad < quads)
                *(float4 *)(staged.sums + quad / QUADS * SMALL_STAGED_ROW +
                            quad % QUADS * 4) = sum[j];
        }
    }
    __syncthreads();
    staged.copies = 1;
    return true;
}

/* ---- for the two portable kernels ---- */

/* Copies the thread's part of stage `block` of arranged x; `x` is its address in stage 0. */
template <class S> EY_DEVICE void small_copy_x(const uint8_t *x, unsigned char *stage, int block)
{
    enum { PASS = SMALL_THREADS * 16 };
    unsigned char *to = stage + S::w_bytes + (int)threadIdx.x * 16;
    const uint8_t *from = x + (int64_t)block * S::x_bytes;
#pragma unroll
    for (int i = 0; i < (S::x_bytes + PASS - 1) / PASS; i++)
        if (S::x_bytes % PASS == 0 || (int)threadIdx.x * 16 + i * PASS < S::x_bytes)
            copy_async(to + i * PASS, from + i * PASS, 16);
}

/* Return the number of a warp's m-th block of 16 rows in its matrix, and that matrix. */
EY_DEVICE int small_row_block(const struct gemm_place &p, int m)
{
    const int row_warp = warp_index() / SMALL_HALVES;
    return min(p.first_block + (p.paired ? row_warp : row_warp * 2 + m), p.blocks - 1);
}

EY_DEVICE const struct dev_matrix &small_matrix(const struct matmul_args &a,
                                                const struct gemm_place &p, int m)
{
    return a.segment[p.segment + (p.paired ? m : 0)].w;
}

template <class S>
EY_DEVICE void small_write(const struct small_matmul_args &a, const struct gemm_place &p,
                           struct gemm_staged &staged)
{
    const int thread = (int)threadIdx.x;
    if (gridDim.y > 1 && !small_join<S>(a, staged)) return;
    switch (a.matmul.epilogue) {
    case EPI_BF16: write_results<S, EPI_BF16>(a.matmul, p, staged, thread, SMALL_THREADS); break;
    case EPI_F32: write_results<S, EPI_F32>(a.matmul, p, staged, thread, SMALL_THREADS); break;
    case EPI_ADD: write_results<S, EPI_ADD>(a.matmul, p, staged, thread, SMALL_THREADS); break;
    default: write_results<S, EPI_SILU>(a.matmul, p, staged, thread, SMALL_THREADS);
    }
}

#endif
