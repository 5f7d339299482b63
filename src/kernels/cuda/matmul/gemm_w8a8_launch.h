/* SPDX-License-Identifier: Apache-2.0 */
/* The GEMM of FP8 activations and FP8 weights (gemm_w8a8_sm89.cu): its one tile, and the launches.
 * C for the host, C++ for the kernels.
 *
 * A tile is 128 rows of w and 128 tokens, computed by 2 x 2 warps of 64 each. Two blocks of threads
 * fit an SM of 100 KB to the byte. */
#ifndef EY_CUDA_GEMM_W8A8_LAUNCH_H
#define EY_CUDA_GEMM_W8A8_LAUNCH_H

#include "kernels/cuda/matmul/gemm_launch.h"

enum {
    GEMM_W8A8_TILE = 128, /* rows and tokens of a tile */
    GEMM_W8A8_THREADS = 128,
    GEMM_W8A8_STAGES = 3,                                    /* of 64 columns */
    GEMM_W8A8_STAGE_BYTES = 2 * GEMM_W8A8_TILE * PACK_BYTES, /* bytes of w and of x */
    GEMM_W8A8_SCALES_AT = GEMM_W8A8_STAGES *
                          GEMM_W8A8_STAGE_BYTES, /* offset of x's scales: of the current block of
                                                    columns, and of the next */
    GEMM_W8A8_SCALE_BYTES = GEMM_W8A8_TILE * (int)sizeof(float),
    GEMM_W8A8_SHARED = GEMM_W8A8_SCALES_AT + 2 * GEMM_W8A8_SCALE_BYTES,
    QUANTIZE_ROWS_THREADS = 256,
};

static inline struct launch quantize_rows_launch(const struct quantize_rows_args *a)
{
    int64_t groups = (int64_t)a->n * ((a->k + SCALE_BLOCK - 1) / SCALE_BLOCK),
            a_block = QUANTIZE_ROWS_THREADS / 32;
    struct launch l = {GPU_quantize_rows,
                       {(unsigned)((groups + a_block - 1) / a_block), 1, 1},
                       QUANTIZE_ROWS_THREADS,
                       0};
    return l;
}

static inline struct launch gemm_w8a8_launch(const struct w8a8_args *a)
{
    int tiles = gemm_row_tiles(&a->matmul, GEMM_W8A8_TILE) *
                gemm_token_tiles(&a->matmul, GEMM_W8A8_TILE);
    struct launch l = {GPU_gemm_w8a8, {(unsigned)tiles, 1, 1}, GEMM_W8A8_THREADS, GEMM_W8A8_SHARED};
    return l;
}

#endif
