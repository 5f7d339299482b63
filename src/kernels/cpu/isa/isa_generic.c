/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for any machine. */
#define LANES 4
#define KERNEL_SET cpu_kernels_generic
#define LEVEL CPU_GENERIC
#define LEVEL_NAME "generic"
#define MATMUL_F32 cpu_matmul_f32_generic
#include "kernels/cpu/isa/kernel_set_tmpl.h"
