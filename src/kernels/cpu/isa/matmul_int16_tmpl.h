/* SPDX-License-Identifier: Apache-2.0 */
/* The int16 matmul kernels of a tier. The including file sets LANES and the names of the kernels:
 * MATMUL_FP8 is for FP8 weights; MATMUL_VISION multiplies rows of images by BF16 weights, and has
 * no GEMV. */
#include "kernels/cpu/gemm/gemm_int16_tmpl.h"
#include "kernels/cpu/gemv/gemv_int16_tmpl.h"

enum { INT16_PANEL_BYTES = 768 << 10 };

#define GEMM_INT16                                                                                 \
    .x = X_INT16, .scales_sums = true, .gemm_rows = M_TILE_ROWS, .panel_element = sizeof(int16_t), \
    .x_element = sizeof(float), .panel_tail = CPU_INT16_PANEL_END, .n_blocks = 1,                  \
    .max_panel_bytes = INT16_PANEL_BYTES, .whole_k = CPU_INT16_KC, .kc = CPU_INT16_KC,             \
    .pack_gemm = pack_gemm_int16, .x_offset = x_offset_int16, .gemm = gemm_int16,                  \
    .store_gemm = store_gemm_int16, .gemm_sums = gemm_sums_int16

#define GEMV_AND_GEMM_INT16(gemv_kernel)                                                \
    .gemv_rows = GEMV_MR, .gemv_max_rows = CPU_GEMV_ROWS, .pack_gemv = pack_gemv_int16, \
    .gemv = gemv_kernel, .pack_panel = pack_panel_int16, GEMM_INT16

const struct matmul_kernels MATMUL_FP8 = {GEMV_AND_GEMM_INT16(gemv_int16)};
const struct matmul_kernels MATMUL_VISION = {.pack_panel = pack_panel_bf16_as_int16, GEMM_INT16};
