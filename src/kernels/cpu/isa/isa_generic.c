/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for any machine. */
#define LANES 4
#define MATMUL cpu_matmul_f32_generic
#include "kernels/cpu/isa/matmul_words_tmpl.h"
#include "kernels/cpu/isa/row_kernels_tmpl.h"

static const struct row_kernels generic_rows = {ROW_KERNELS};

const struct cpu_kernels cpu_kernels_generic = {
    .isa = {CPU_GENERIC, false, false},
    .name = "generic",
    .mask = "generic",
    .rows = &generic_rows,
    .f32 = &cpu_matmul_f32_generic,
    .attention = causal_attention,
};
