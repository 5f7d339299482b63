/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls of weights that share scales in groups, for AVX2 with VNNI. */
#define LANES 8
#define MATMUL_BLOCKS cpu_matmul_blocks_avx2_vnni
#include "kernels/cpu/isa/matmul_blocks_tmpl.h"
