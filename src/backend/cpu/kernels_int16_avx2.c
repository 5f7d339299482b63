/* SPDX-License-Identifier: Apache-2.0 */
/* Products in int16 for AVX2: pairs are multiplied in one instruction, and added in another. */
#define PRODUCTS cpu_int16_avx2
#define PRODUCTS_OF_PICTURES cpu_pictures_avx2
#include "backend/cpu/body_int16_narrow.h"
