/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for the whole of AVX-512: byte permutes (VBMI), integer dot products (VNNI), GFNI and
 * BF16 dot products. */
#define LANES 16
#define HAVE_BF16
#include "kernels/cpu/gemm/gemm_bf16_tmpl.h"
#include "kernels/cpu/gemv/gemv_bf16_tmpl.h"
#include "kernels/cpu/isa/matmul_int16_tmpl.h"
#include "kernels/cpu/isa/row_kernels_tmpl.h"

static const struct matmul_kernels matmul_bf16 = {
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

const struct cpu_kernels cpu_kernels_avx512 = {
    .level = CPU_AVX512,
    .name = "avx512",
    .f32 = &cpu_matmul_f32_avx512vbmi,
    .low_precision = &matmul_bf16,
    .fp8 = &matmul_int16,
    .attention = causal_attention,
    .vision_attention = &cpu_vision_attention_avx512,
    ROW_KERNELS,
};
