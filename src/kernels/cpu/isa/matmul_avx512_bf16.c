/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls of the AVX-512 tier with BF16 dot products. */
#define LANES 16
#define HAVE_BF16
#define MATMUL cpu_matmul_bf16_avx512
#include "kernels/cpu/isa/matmul_words_tmpl.h"
