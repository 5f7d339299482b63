/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls of the AVX-512 tier where it has BF16 dot products. */
#define LANES 16
#define HAVE_BF16
#define MATMUL_INT16 cpu_matmul_int16_avx512_bf16
#include "kernels/cpu/gemm/gemm_bf16_tmpl.h"
#include "kernels/cpu/gemv/gemv_bf16_tmpl.h"
#include "kernels/cpu/isa/matmul_int16_tmpl.h"

const struct matmul_kernels cpu_matmul_bf16_avx512 = {
    .bf12 = true,
    .int8_interleaved = true,
    .gemm_rows = M_TILE_ROWS,
    .gemv_rows = MAX_GEMV_ROWS,
    .gemv_max_rows = CPU_GEMV_ROWS,
    .panel_element = sizeof(uint16_t),
    .x_element = sizeof(float),
    .pack_gemv = pack_gemv_bf16,
    .gemv = gemv_bf16,
    .n_blocks = 1,
    .max_panel_bytes = 768 << 10,
    .whole_k = SIZE_MAX,
    .pack_gemm = pack_gemm_bf16,
    .pack_panel = pack_panel_bf16,
    .gemm = gemm_bf16,
    .store_gemm = store_gemm_tile,
    .gemm_sums = gemm_sums_size,
};
