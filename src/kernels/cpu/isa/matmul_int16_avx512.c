/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls in int16 for AVX-512, which always has VNNI. */
#define LANES 16
#define MATMUL_FP8 cpu_matmul_int16_avx512
#define MATMUL_VISION cpu_matmul_vision_avx512
#include "kernels/cpu/isa/matmul_int16_tmpl.h"

/* For processors that also have BF16 dot products: the GEMV prefetches into the L2 cache. */
const struct matmul_kernels cpu_matmul_int16_avx512_bf16 = {GEMV_AND_GEMM_INT16(gemv_int16_to_l2)};
