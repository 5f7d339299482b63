/* SPDX-License-Identifier: Apache-2.0 */
/* The AVX2 tier: AVX2 with FMA and F16C. AVX-VNNI changes how int16 pairs are multiplied; kernels
 * with it are in separate files (*_vnni.c). */
#define LANES 8
#define MATMUL cpu_matmul_f32_avx2
#include "kernels/cpu/isa/matmul_words_tmpl.h"
#include "kernels/cpu/isa/row_kernels_tmpl.h"

static const struct row_kernels avx2_rows = {ROW_KERNELS};

const struct cpu_kernels cpu_kernels_avx2[2] = {
    {
        .isa = {CPU_AVX2, false, false},
        .name = "avx2",
        .mask = "avx2-novnni",
        .rows = &avx2_rows,
        .f32 = &cpu_matmul_f32_avx2,
        .fp8 = &cpu_matmul_int16_avx2,
        .blocks = cpu_matmul_blocks_avx2,
        .vision = &cpu_matmul_vision_avx2,
        .attention = causal_attention,
        .vision_attention = &cpu_vision_attention_avx2,
    },
    {
        .isa = {CPU_AVX2, true, false},
        .name = "avx2 with VNNI",
        .mask = "avx2",
        .rows = &avx2_rows,
        .f32 = &cpu_matmul_f32_avx2,
        .fp8 = &cpu_matmul_int16_avx2_vnni,
        .blocks = cpu_matmul_blocks_avx2_vnni,
        .vision = &cpu_matmul_vision_avx2_vnni,
        .attention = causal_attention,
        .vision_attention = &cpu_vision_attention_avx2_vnni,
    },
};
