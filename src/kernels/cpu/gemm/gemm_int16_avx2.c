/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls in int16 for AVX2: pairs are multiplied in one instruction, and added in another. */
#define MATMUL_INT16 cpu_matmul_int16_avx2
#define MATMUL_INT16_VISION cpu_matmul_vision_avx2
#include "kernels/cpu/gemv/gemv_int16_avx2_tmpl.h"
