/* SPDX-License-Identifier: Apache-2.0 */
/* The int16 matmul kernels of a tier for weights with scales in groups, one set per type. The
 * including file sets LANES, and MATMUL_BLOCKS to the name of the array of kernels. */
#include "kernels/cpu/gemm/gemm_blocks_tmpl.h"

enum {
    BLOCKS_PANEL_BYTES = 768 << 10,
    /* Bytes of a panel's scales. For each 256 columns, a weight row has eight scales of groups, or
     * one scale and the words of its minima, which are more. */
    BLOCKS_PANEL_END = CPU_N_BLOCK * (CPU_INT16_KC / BLOCK) * (SUBS + 2) * 4
};

#define BLOCKS_OF(id)                                                                    \
    static void pack_gemv_##id(void *out, const struct packing_args *p)                  \
    {                                                                                    \
        pack_gemv_blocks(out, p, DTYPE_##id);                                            \
    }                                                                                    \
    static void gemv_blocks_##id(float *out, size_t out_stride, const struct gemv_args *t) \
    {                                                                                    \
        gemv_blocks(out, out_stride, t, DTYPE_##id);                                     \
    }                                                                                    \
    static void pack_gemm_##id(void *out, const struct packing_args *p)                  \
    {                                                                                    \
        pack_gemm_blocks(out, p, DTYPE_##id);                                            \
    }                                                                                    \
    static void pack_panel_##id(void *out, const struct cpu_matrix *w, int64_t row, int n, \
                                size_t k0, size_t k)                                     \
    {                                                                                    \
        pack_panel_blocks(out, w, row, n, k0, k, DTYPE_##id);                            \
    }
FOR_CPU_BLOCK_TYPES(BLOCKS_OF)

#define BLOCKS_KERNELS(id)                                                                     \
    [CPU_BLOCKS_##id] = {                                                                      \
        .x = X_INT16,                                                                          \
        .scales_sums = true,                                                                   \
        .gemm_rows = M_TILE_ROWS,                                                              \
        .gemv_rows = BLOCKS_MR,                                                                \
        .gemv_max_rows = CPU_GEMV_ROWS,                                                        \
        .panel_element = sizeof(int16_t),                                                      \
        .x_element = sizeof(float),                                                            \
        .pack_gemv = pack_gemv_##id,                                                           \
        .gemv = gemv_blocks_##id,                                                              \
        .panel_tail = BLOCKS_PANEL_END,                                                        \
        .n_blocks = 1,                                                                         \
        .max_panel_bytes = BLOCKS_PANEL_BYTES,                                                 \
        .whole_k = CPU_INT16_KC,                                                               \
        .kc = CPU_INT16_KC,                                                                    \
        .pack_gemm = pack_gemm_##id,                                                           \
        .x_offset = x_offset_blocks,                                                           \
        .pack_panel = pack_panel_##id,                                                         \
        .gemm = gemm_blocks,                                                                   \
        .store_gemm = store_gemm_blocks,                                                       \
        .gemm_sums = gemm_sums_blocks,                                                         \
    },
const struct matmul_kernels MATMUL_BLOCKS[CPU_BLOCK_TYPES] = {FOR_CPU_BLOCK_TYPES(BLOCKS_KERNELS)};
