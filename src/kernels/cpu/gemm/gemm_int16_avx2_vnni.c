/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls in int16 for AVX-VNNI. */
#define MATMUL_INT16 cpu_matmul_int16_avx2_vnni
#define MATMUL_INT16_VISION cpu_matmul_vision_avx2_vnni
#include "kernels/cpu/gemv/gemv_int16_avx2_tmpl.h"
