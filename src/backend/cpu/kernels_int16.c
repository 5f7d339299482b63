/* SPDX-License-Identifier: Apache-2.0 */
/* Products of many rows in int16 for AVX-512 with VNNI. */
#define LANES 16
#include "backend/cpu/body_vectors.h"

#define SHARED
#define NAMED(name) cpu_##name##_int16
#include "backend/cpu/body_int16_many.h"
