/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for the whole of AVX-512: byte permutes (VBMI), integer products (VNNI), GFNI and
 * BF16 products. */
#define LANES 16
#define KERNEL_SET cpu_kernels_avx512
#define LEVEL CPU_AVX512
#define LEVEL_NAME "avx512"
#define HAVE_BF16
#include "kernels/cpu/isa/kernel_set_tmpl.h"
