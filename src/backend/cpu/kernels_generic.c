/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for any machine. */
#define LANES 4
#define KERNELS cpu_kernels_generic
#define LEVEL CPU_GENERIC
#define LEVEL_NAME "generic"
#define PRODUCTS cpu_f32_generic
#include "backend/cpu/kernels_body.h"
