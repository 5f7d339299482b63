/* SPDX-License-Identifier: Apache-2.0 */
/* The products of FP8 activations and FP8 weights (gemm_sm89.cu): their one tile, and how they are
 * launched. C for the host, C++ for the kernels.
 *
 * A tile is 128 rows of w and 128 tokens, of 2 x 2 warps of 64 each. Two blocks of threads fit an
 * SM of 100 KB to the byte. */
#ifndef EY_CUDA_GEMM_E4M3_SHAPE_H
#define EY_CUDA_GEMM_E4M3_SHAPE_H

#include "backend/cuda/gemm_shape.h"

enum {
    E4M3_SIDE = 128, /* of a tile */
    E4M3_THREADS = 128,
    E4M3_STAGES = 3,                               /* of 64 columns … */
    E4M3_STAGE_BYTES = 2 * E4M3_SIDE * PACK_BYTES, /* … of w, and of x */
    E4M3_SCALES = E4M3_STAGES * E4M3_STAGE_BYTES,  /* where x's scales lie behind them: of the block
                                                      of columns at hand, and of the next */
    E4M3_SCALE_BYTES = E4M3_SIDE * (int)sizeof(float),
    E4M3_SHARED = E4M3_SCALES + 2 * E4M3_SCALE_BYTES,
    QUANTIZE_ROWS_THREADS = 256,
};

static inline struct launch quantize_rows_launch(const struct quantize_rows_args *a)
{
    int64_t groups = (int64_t)a->n * ((a->k + SCALE_BLOCK - 1) / SCALE_BLOCK),
            a_block = QUANTIZE_ROWS_THREADS / 32;
    struct launch l = {"quantize_rows",
                       {(unsigned)((groups + a_block - 1) / a_block), 1, 1},
                       QUANTIZE_ROWS_THREADS,
                       0};
    return l;
}

static inline struct launch gemm_e4m3_launch(const struct e4m3_args *a)
{
    int tiles = gemm_row_tiles(&a->product, E4M3_SIDE) * gemm_token_tiles(&a->product, E4M3_SIDE);
    struct launch l = {"gemm_e4m3", {(unsigned)tiles, 1, 1}, E4M3_THREADS, E4M3_SHARED};
    return l;
}

#endif
