/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls of weights with scales in groups, for AVX2 without VNNI: one instruction multiplies pairs
 * of int16, another adds their products to the sums. */
#define LANES 8
#define MATMUL_BLOCKS cpu_matmul_blocks_avx2
#include "kernels/cpu/isa/matmul_blocks_tmpl.h"
