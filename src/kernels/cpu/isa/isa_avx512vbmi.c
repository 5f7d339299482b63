/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX-512 with byte permutes (VBMI), integer products (VNNI) and GFNI. */
#define LANES 16
#define KERNEL_SET cpu_kernels_avx512vbmi
#define LEVEL CPU_AVX512VBMI
#define LEVEL_NAME "avx512vbmi"
#define MATMUL_F32 cpu_matmul_f32_avx512vbmi
#define HAVE_VBMI
#include "kernels/cpu/isa/kernel_set_tmpl.h"
