/* SPDX-License-Identifier: Apache-2.0 */
/* The AVX-512 tier: AVX-512 with byte permutes (VBMI), integer dot products (VNNI) and GFNI. On
 * processors that also have BF16 dot products, matmuls and image attention use these instructions
 * (*_avx512_bf16.c). */
#define LANES 16
#define HAVE_VBMI
#define MATMUL cpu_matmul_f32_avx512
#include "kernels/cpu/isa/matmul_words_tmpl.h"
#include "kernels/cpu/isa/row_kernels_tmpl.h"

const struct row_kernels cpu_row_kernels_avx512 = {ROW_KERNELS};

const struct cpu_kernels cpu_kernels_avx512[2] = {
    {
        .isa = {CPU_AVX512, true, false},
        .name = "avx512",
        .mask = "avx512-nobf16",
        .rows = &cpu_row_kernels_avx512,
        .f32 = &cpu_matmul_f32_avx512,
        .fp8 = &cpu_matmul_int16_avx512,
        .blocks = cpu_matmul_blocks_avx512,
        .vision = &cpu_matmul_vision_avx512,
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
        .blocks = cpu_matmul_blocks_avx512,
        .attention = causal_attention,
        .vision_attention = &cpu_vision_attention_avx512_bf16,
    },
};
