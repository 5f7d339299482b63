/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX2 with FMA and F16C. */
#define LANES 8
#define PRODUCTS cpu_f32_avx2
#include "backend/cpu/kernels_body.h"
