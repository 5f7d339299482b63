/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls of weights that share scales in groups, for AVX-512. */
#define LANES 16
#define MATMUL_BLOCKS cpu_matmul_blocks_avx512
#include "kernels/cpu/isa/matmul_blocks_tmpl.h"
