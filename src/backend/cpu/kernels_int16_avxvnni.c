/* SPDX-License-Identifier: Apache-2.0 */
/* Products in int16 for AVX-VNNI. */
#define PRODUCTS cpu_int16_avxvnni
#define PRODUCTS_OF_PICTURES cpu_pictures_avxvnni
#include "backend/cpu/body_int16_narrow.h"
