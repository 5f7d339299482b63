/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM (many rows of x) in int16 for AVX-512 with VNNI. */
#define LANES 16
#include "kernels/cpu/common/simd_tmpl.h"

#define SHARED
#define NAMED(name) cpu_##name##_int16
#include "kernels/cpu/gemm/gemm_int16_tmpl.h"
