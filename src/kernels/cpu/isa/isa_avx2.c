/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX2 with FMA and F16C. */
#define LANES 8
#define MATMUL_F32 cpu_matmul_f32_avx2
#include "kernels/cpu/isa/kernel_set_tmpl.h"
