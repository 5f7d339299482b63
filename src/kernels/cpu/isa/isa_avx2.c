/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX2 with FMA and F16C, and those for AVX-VNNI, which differ in how int16 pairs
 * are multiplied (gemm/gemm_int16_avxvnni.c). */
#define LANES 8
#define MATMUL_F32 cpu_matmul_f32_avx2
#include "kernels/cpu/isa/matmul_f32_tmpl.h"
#include "kernels/cpu/isa/row_kernels_tmpl.h"

const struct cpu_kernels cpu_kernels_avx2 = {
    .level = CPU_AVX2,
    .name = "avx2",
    .f32 = &cpu_matmul_f32_avx2,
    .fp8 = &cpu_matmul_int16_avx2,
    .vision = &cpu_matmul_vision_avx2,
    .attention = causal_attention,
    .vision_attention = &cpu_vision_attention_avx2,
    ROW_KERNELS,
};

const struct cpu_kernels cpu_kernels_avxvnni = {
    .level = CPU_AVXVNNI,
    .name = "avxvnni",
    .f32 = &cpu_matmul_f32_avx2,
    .fp8 = &cpu_matmul_int16_avxvnni,
    .vision = &cpu_matmul_vision_avxvnni,
    .attention = causal_attention,
    .vision_attention = &cpu_vision_attention_avxvnni,
    ROW_KERNELS,
};
