/* SPDX-License-Identifier: Apache-2.0 */
/* A picture's attention for AVX-512 with VNNI. */
#define LANES 16
#define PICTURE cpu_picture_avx512vbmi
#include "backend/cpu/body_picture_f32.h"
