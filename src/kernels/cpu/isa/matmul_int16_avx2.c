/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls in int16 for AVX2: pairs are multiplied by one instruction and added by another. */
#define LANES 8
#define MATMUL_FP8 cpu_matmul_int16_avx2
#define MATMUL_VISION cpu_matmul_vision_avx2
#include "kernels/cpu/isa/matmul_int16_tmpl.h"
