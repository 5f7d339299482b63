/* SPDX-License-Identifier: Apache-2.0 */
/* The AVX-512 tier: AVX-512 with byte permutes (VBMI), integer dot products (VNNI) and GFNI. Where
 * there are BF16 dot products, matmuls and image attention take them (*_avx512_bf16.c). */
#define LANES 16
#define HAVE_VBMI
#define MATMUL_INT16 cpu_matmul_int16_avx512
#define MATMUL_F32 cpu_matmul_f32_avx512
#include "kernels/cpu/isa/matmul_f32_tmpl.h"
#include "kernels/cpu/isa/matmul_int16_tmpl.h"
#include "kernels/cpu/isa/row_kernels_tmpl.h"

static const struct matmul_kernels matmul_int16_vision = {
    .scales_sums = true,
    .gemm_rows = M_TILE_ROWS,
    .panel_element = sizeof(uint16_t),
    .x_element = sizeof(float),
    .panel_tail = CPU_INT16_PANEL_END,
    .n_blocks = 1,
    .max_panel_bytes = 768 << 10,
    .whole_k = CPU_INT16_COLUMNS,
    .kc = CPU_INT16_COLUMNS,
    .pack_gemm = cpu_pack_gemm_int16,
    .x_offset = cpu_x_offset_int16,
    .pack_panel = cpu_pack_panel_bf16_int16,
    .gemm = cpu_gemm_int16,
    .store_gemm = cpu_store_gemm_int16,
    .gemm_sums = cpu_gemm_sums_int16,
};

const struct row_kernels cpu_row_kernels_avx512 = {ROW_KERNELS};

const struct cpu_kernels cpu_kernels_avx512[2] = {
    {
        .isa = {CPU_AVX512, true, false},
        .name = "avx512",
        .mask = "avx512-nobf16",
        .rows = &cpu_row_kernels_avx512,
        .f32 = &cpu_matmul_f32_avx512,
        .fp8 = &cpu_matmul_int16_avx512,
        .vision = &matmul_int16_vision,
        .attention = causal_attention,
        .vision_attention = &cpu_vision_attention_avx512,
    },
    {
        .isa = {CPU_AVX512, true, true},
        .name = "avx512 with BF16",
        .mask = "avx512",
        .rows = &cpu_row_kernels_avx512,
        .f32 = &cpu_matmul_f32_avx512,
        .low_precision = &cpu_matmul_bf16_avx512,
        .fp8 = &cpu_matmul_int16_avx512_bf16,
        .attention = causal_attention,
        .vision_attention = &cpu_vision_attention_avx512_bf16,
    },
};
