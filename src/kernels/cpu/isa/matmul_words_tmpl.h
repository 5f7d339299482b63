/* SPDX-License-Identifier: Apache-2.0 */
/* The matmul kernels of a tier in float32, or with pairs of BF16. The including file sets LANES,
 * HAVE_VBMI if byte permutes exist, HAVE_BF16 for BF16, and MATMUL, the name of the kernels. */
#include "kernels/cpu/gemm/gemm_words_tmpl.h"
#include "kernels/cpu/gemv/gemv_words_tmpl.h"

/* Panels have all columns, and fewer weight rows if there are many columns. */
const struct matmul_kernels MATMUL = {
    .x = WORD_COLUMNS == 2 ? X_BF16 : X_F32,
    .bf12 = LANES >= 8,
    .int8_interleaved = WORD_COLUMNS == 2,
    .gemm_rows = M_TILE_ROWS,
    .gemv_rows = GEMV_MR,
    .gemv_max_rows = CPU_GEMV_ROWS,
    .panel_element = sizeof(float) / WORD_COLUMNS,
    .x_element = sizeof(float),
    .pack_gemv = pack_gemv_words,
    .gemv = gemv_words,
    .n_blocks = 1,
    .max_panel_bytes = MAX_PANEL_BYTES,
    .whole_k = SIZE_MAX,
    .pack_gemm = pack_gemm_words,
    .pack_panel = pack_panel_words,
    .gemm = gemm_words,
    .store_gemm = store_gemm_tile,
    .gemm_sums = gemm_sums_size,
};
