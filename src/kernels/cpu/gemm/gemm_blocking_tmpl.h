/* SPDX-License-Identifier: Apache-2.0 */
/* How GEMM kernels block their operands: micro-panels of NR weight rows, M-blocks of MR rows of x;
 * gemm_words_tmpl.h explains why. */
#ifndef EY_KERNELS_CPU_GEMM_BLOCKING_TMPL_H
#define EY_KERNELS_CPU_GEMM_BLOCKING_TMPL_H

#include "kernels/cpu/common/simd_tmpl.h"

enum {
    DEPTH = LANES == 16  ? 4
            : LANES == 8 ? 3
                         : 2,
    NR = 2 * LANES, /* weight rows whose sums with MR rows of x stay in registers */
    MR = LANES == 16  ? 12
         : LANES == 8 ? 6
                      : 4,           /* largest number of rows of an M-block */
    M_TILE_ROWS = CPU_GEMM_MAX_ROWS, /* rows of a packed tile, which share reads of a panel */
    TILE_SUMS = M_TILE_ROWS * CPU_N_BLOCK
};

/* Returns the phase (gemm_words_tmpl.h) that computes what a lane of gemv() does: the lane's number
 * with its bits reversed. The function is its own inverse: it also turns a phase into its lane. */
INLINE size_t phase_of_lane(size_t lane)
{
    size_t phase = 0;
    for (int i = 0; i < DEPTH; i++)
        phase |= (lane >> i & 1) << (DEPTH - 1 - i);
    return phase;
}

/* Returns the number of M-blocks that n rows need. The blocks have about the same size. */
INLINE int n_m_blocks(int n)
{
    return (n + MR - 1) / MR;
}

INLINE int m_block_begin(int n, int m_block)
{
    return n * m_block / n_m_blocks(n);
}

/* Returns the number of floats in a thread's sums: a tile's sums on all DEPTH levels of the
 * summation tree, then one phase of the tile's rows, scaled. */
static inline size_t gemm_sums_size(size_t width)
{
    return DEPTH * TILE_SUMS + M_TILE_ROWS * width / LANES;
}

/* What is prefetched: the packed rows that are read next, and the next micro-panel. Every two
 * iterations of the loop over k, `from` advances by `step` bytes. */
struct gemm_prefetch {
    const char *from[2];
    size_t step[2];
};

/* Expands `call` for each possible number of rows of an M-block: if the number is a constant, the
 * sums stay in registers. */
#define MR_CASE(call, rows) \
    case rows: call((rows < MR ? rows : MR)); break;
/* clang-format off */
#define FOR_MR(n, call)                                                    \
    switch (n) {                                                           \
        MR_CASE(call, 1) MR_CASE(call, 2) MR_CASE(call, 3)                 \
        MR_CASE(call, 4) MR_CASE(call, 5) MR_CASE(call, 6)                 \
        MR_CASE(call, 7) MR_CASE(call, 8) MR_CASE(call, 9)                 \
        MR_CASE(call, 10) MR_CASE(call, 11)                                \
    default: call(MR);                                                     \
    }
/* clang-format on */

static void store_gemm_tile(float *out, size_t out_stride, const float *sums, int n_w, int first,
                            int n)
{
    for (size_t row = 0; row < (size_t)n_w; row += NR)
        for (size_t i = 0; i < (size_t)n; i++)
            memcpy(out + i * out_stride + row,
                   sums + (row / NR * M_TILE_ROWS + (size_t)first + i) * NR, NR * sizeof(float));
}

#endif
