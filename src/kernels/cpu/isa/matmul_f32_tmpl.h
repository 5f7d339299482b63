/* SPDX-License-Identifier: Apache-2.0 */
/* The float32 matmul kernels of an instruction set. What includes it sets LANES, HAVE_VBMI where
 * bytes can be looked up, and MATMUL_F32, the name of the kernels. */
#include "kernels/cpu/gemm/gemm_f32_tmpl.h"
#include "kernels/cpu/gemv/gemv_f32_tmpl.h"

const struct matmul_kernels MATMUL_F32 = {
    .bf12 = LANES >= 8,
    .gemm_rows = M_TILE_ROWS,
    .gemv_rows = MAX_GEMV_ROWS,
    .gemv_max_rows = CPU_GEMV_ROWS,
    .panel_element = sizeof(float),
    .x_element = sizeof(float),
    .pack_gemv = pack_gemv_f32,
    .gemv = gemv_f32,
    .n_blocks = 1,
    .max_panel_bytes = 3 << 20,
    .whole_k = SIZE_MAX,
    .pack_gemm = pack_gemm_f32,
    .pack_panel = pack_panel_f32,
    .gemm = gemm_f32,
    .store_gemm = store_gemm_tile,
    .gemm_sums = gemm_sums_size,
};
