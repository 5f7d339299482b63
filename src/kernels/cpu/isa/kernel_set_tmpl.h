/* SPDX-License-Identifier: Apache-2.0 */
/* The body of every kernel, written with vector types of LANES floats; included by one small file
 * an instruction set, which sets LANES, KERNEL_SET (the table's name), LEVEL, LEVEL_NAME and
 * MATMUL_F32 (the name of its float32 products) or, for products in BF16, HAVE_BF16, and HAVE_VBMI
 * where bytes are looked up.
 *
 * Products of few rows run along k: each sum is a vector whose lanes hold every LANES-th product,
 * so that weights are read in place, row by row; those of many are the same sums, a lane after the
 * other (body_blocks.h). Attention runs along keys for the scores (keys are stored transposed) and
 * along the head for the values; nothing the size of keys x queries exists. */
#include "tensor/bf12.h"
#include "kernels/cpu/common/simd_tmpl.h"

#include "kernels/cpu/gemv/gemv_f32_tmpl.h"
#ifdef HAVE_BF16
#include "kernels/cpu/common/bf12_decode_tmpl.h"

#include "kernels/cpu/common/to_bf16_tmpl.h"
#endif
#include "kernels/cpu/gemm/gemm_f32_tmpl.h"
#ifdef HAVE_BF16
#include "kernels/cpu/gemv/gemv_bf16_tmpl.h"
#endif
#if LANES == 16
#include "kernels/cpu/gemv/gemv_int16_avx512_tmpl.h"
#endif
#include "kernels/cpu/common/norm_activation_tmpl.h"
#include "kernels/cpu/attention/attention_causal_tmpl.h"

#define TABLE_REST                                                                  \
    .to_bf16 = to_bf16, .dequantize_row = dequantize_row, .accumulate = accumulate, \
    .rms_norm = rms_norm, .layer_norm = layer_norm, .silu_mul = silu_mul_row,       \
    .gelu_tanh = gelu_tanh_row, .gelu_erf = gelu_erf_row

#if LANES == 16
static const struct matmul_kernels matmul_int16 = {.scales_sums = true,
                                                   .gemm_rows = M_TILE_ROWS,
                                                   .gemv_rows = MAX_GEMV_ROWS,
                                                   .gemv_max_rows = CPU_GEMV_ROWS,
                                                   .panel_element = sizeof(uint16_t),
                                                   .x_element = sizeof(float),
                                                   .pack_gemv = pack_gemv_int16_avx512,
                                                   .gemv = gemv_int16_avx512,
                                                   .panel_tail = CPU_INT16_PANEL_END,
                                                   .n_blocks = 1,
                                                   .max_panel_bytes = 768 << 10,
                                                   .whole_k = CPU_INT16_COLUMNS,
                                                   .kc = CPU_INT16_COLUMNS,
                                                   .pack_gemm = cpu_pack_gemm_int16,
                                                   .x_offset = cpu_x_offset_int16,
                                                   .pack_panel = cpu_pack_panel_int16,
                                                   .gemm = cpu_gemm_int16,
                                                   .store_gemm = cpu_store_gemm_int16,
                                                   .gemm_sums = cpu_gemm_sums_int16};
#endif

#ifdef HAVE_BF16
static const struct matmul_kernels matmul_bf16 = {.bf12 = true,
                                                  .int8_interleaved = true,
                                                  .gemm_rows = M_TILE_ROWS,
                                                  .gemv_rows = MAX_GEMV_ROWS,
                                                  .gemv_max_rows = CPU_GEMV_ROWS,
                                                  .panel_element = sizeof(uint16_t),
                                                  .x_element = sizeof(float),
                                                  .pack_gemv = pack_gemv_bf16,
                                                  .gemv = gemv_bf16,
                                                  .n_blocks = 1,
                                                  .max_panel_bytes = 768 << 10,
                                                  .whole_k = SIZE_MAX,
                                                  .pack_gemm = pack_gemm_bf16,
                                                  .pack_panel = pack_panel_bf16,
                                                  .gemm = gemm_bf16,
                                                  .store_gemm = store_gemm_tile,
                                                  .gemm_sums = gemm_sums_size};
static const struct matmul_kernels matmul_amx = {.bf12 = true,
                                                 .int8_interleaved = true,
                                                 .gemm_rows = CPU_AMX_GEMM_ROWS,
                                                 .gemv_rows = CPU_AMX_GEMV_ROWS,
                                                 .gemv_tile_bytes = 2 << 20,
                                                 .gemv_max_rows = CPU_AMX_GEMV_MAX_ROWS,
                                                 .panel_element = sizeof(uint16_t),
                                                 .x_element = sizeof(uint16_t),
                                                 .pack_gemv_columns = cpu_pack_gemv_amx,
                                                 .gemv = cpu_gemv_amx,
                                                 .n_blocks = 2,
                                                 .max_panel_bytes = 3 << 20,
                                                 .whole_k = 2048,
                                                 .kc = 1024,
                                                 .pack_gemm = cpu_pack_gemm_amx,
                                                 .x_offset = cpu_x_offset_amx,
                                                 .pack_panel = cpu_pack_panel_amx,
                                                 .gemm = cpu_gemm_amx,
                                                 .store_gemm = cpu_store_gemm_amx,
                                                 .gemm_sums = cpu_gemm_sums_amx};

const struct cpu_kernels KERNEL_SET = {.level = LEVEL,
                                       .name = LEVEL_NAME,
                                       .f32 = &cpu_matmul_f32_avx512vbmi,
                                       .low_precision = &matmul_bf16,
                                       .fp8 = &matmul_int16,
                                       .attention = causal_attention,
                                       .vision_attention = &cpu_vision_attention_avx512,
                                       TABLE_REST};

static void attention_amx(struct attention_tile *t, const void *keys, const void *values,
                          enum kv_layout kind)
{
    if (kind == KV_LAYOUT_F32)
        causal_attention(t, keys, values, kind);
    else
        cpu_attention_amx(t, keys, values, kind);
}

/* The same, but for products in tiles. */
const struct cpu_kernels cpu_kernels_amx = {.level = CPU_AMX,
                                            .name = "amx",
                                            .f32 = &cpu_matmul_f32_avx512vbmi,
                                            .low_precision = &matmul_amx,
                                            .two_pass = true,
                                            .attention = attention_amx,
                                            .vision_attention = &cpu_vision_attention_amx,
                                            TABLE_REST};
#else
const struct matmul_kernels MATMUL_F32 = {.bf12 = LANES >= 8,
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
                                          .gemm_sums = gemm_sums_size};
#ifdef HAVE_VBMI
static const struct matmul_kernels matmul_int16_vision = {.scales_sums = true,
                                                          .gemm_rows = M_TILE_ROWS,
                                                          .panel_element = sizeof(uint16_t),
                                                          .x_element = sizeof(float),
                                                          .panel_tail = CPU_INT16_PANEL_END,
                                                          .n_blocks = 1,
                                                          .max_panel_bytes = 768 << 10,
                                                          .whole_k = CPU_INT16_COLUMNS,
                                                          .kc = CPU_INT16_COLUMNS,
                                                          .pack_gemm = cpu_pack_gemm_int16,
                                                          .x_offset = cpu_x_offset_int16,
                                                          .pack_panel = cpu_pack_panel_bf16_int16,
                                                          .gemm = cpu_gemm_int16,
                                                          .store_gemm = cpu_store_gemm_int16,
                                                          .gemm_sums = cpu_gemm_sums_int16};

const struct cpu_kernels KERNEL_SET = {.level = LEVEL,
                                       .name = LEVEL_NAME,
                                       .f32 = &MATMUL_F32,
                                       .fp8 = &matmul_int16,
                                       .vision = &matmul_int16_vision,
                                       .attention = causal_attention,
                                       .vision_attention = &cpu_vision_attention_avx512vbmi,
                                       TABLE_REST};
#elif LANES == 8
const struct cpu_kernels cpu_kernels_avx2 = {.level = CPU_AVX2,
                                             .name = "avx2",
                                             .f32 = &MATMUL_F32,
                                             .fp8 = &cpu_matmul_int16_avx2,
                                             .vision = &cpu_matmul_vision_avx2,
                                             .attention = causal_attention,
                                             .vision_attention = &cpu_vision_attention_avx2,
                                             TABLE_REST};
const struct cpu_kernels cpu_kernels_avxvnni = {.level = CPU_AVXVNNI,
                                                .name = "avxvnni",
                                                .f32 = &MATMUL_F32,
                                                .fp8 = &cpu_matmul_int16_avxvnni,
                                                .vision = &cpu_matmul_vision_avxvnni,
                                                .attention = causal_attention,
                                                .vision_attention = &cpu_vision_attention_avxvnni,
                                                TABLE_REST};
#else
const struct cpu_kernels KERNEL_SET = {.level = LEVEL,
                                       .name = LEVEL_NAME,
                                       .f32 = &MATMUL_F32,
                                       .attention = causal_attention,
                                       TABLE_REST};
#endif
#endif
