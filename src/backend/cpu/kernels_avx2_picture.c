/* SPDX-License-Identifier: Apache-2.0 */
/* A picture's attention for AVX2. */
#define LANES 8
#define PICTURE cpu_picture_avx2
#include "backend/cpu/body_picture_f32.h"
