/* SPDX-License-Identifier: Apache-2.0 */
/* The int16 matmul kernels for FP8 weights with AVX-512. GEMV is compiled with the instruction set
 * that includes it, for its prefetching; GEMM is gemm/gemm_int16_avx512.c. */
#include "kernels/cpu/gemm/gemm_blocking_tmpl.h"
#include "kernels/cpu/gemv/gemv_int16_avx512_tmpl.h"

const struct matmul_kernels MATMUL_INT16 = {
    .scales_sums = true,
    .gemm_rows = M_TILE_ROWS,
    .gemv_rows = MAX_GEMV_ROWS,
    .gemv_max_rows = CPU_GEMV_ROWS,
    .panel_element = sizeof(uint16_t),
    .x_element = sizeof(float),
    .pack_gemv = pack_gemv_int16_avx512,
    .gemv = gemv_int16_avx512,
    .panel_tail = CPU_INT16_PANEL_END,
    .n_blocks = 1,
    .max_panel_bytes = 768 << 10,
    .whole_k = CPU_INT16_COLUMNS,
    .kc = CPU_INT16_COLUMNS,
    .pack_gemm = cpu_pack_gemm_int16,
    .x_offset = cpu_x_offset_int16,
    .pack_panel = cpu_pack_panel_int16,
    .gemm = cpu_gemm_int16,
    .store_gemm = cpu_store_gemm_int16,
    .gemm_sums = cpu_gemm_sums_int16,
};
