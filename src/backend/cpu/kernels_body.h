/* SPDX-License-Identifier: Apache-2.0 */
/* The body of every kernel, written with vector types of LANES floats; included by one small file
 * an instruction set, which sets LANES, KERNELS (the table's name), LEVEL, LEVEL_NAME and PRODUCTS
 * (the name of its float32 products) or, for products in BF16, HAVE_BF16, and HAVE_VBMI where bytes
 * are looked up.
 *
 * Products of few rows run along k: each sum is a vector whose lanes hold every LANES-th product,
 * so that weights are read in place, row by row; those of many are the same sums, a lane after the
 * other (body_blocks.h). Attention runs along keys for the scores (keys are stored transposed) and
 * along the head for the values; nothing the size of keys x queries exists. */
#include "backend/cpu/bf12.h"
#include "backend/cpu/body_vectors.h"

#include "backend/cpu/body_products.h"
#ifdef HAVE_BF16
#include "backend/cpu/body_bf12.h"

#include "backend/cpu/body_bf16_rows.h"
#endif
#include "backend/cpu/body_blocks.h"
#ifdef HAVE_BF16
#include "backend/cpu/body_bf16.h"
#endif
#if LANES == 16
#include "backend/cpu/body_int16_few.h"
#endif
#include "backend/cpu/body_rows.h"
#include "backend/cpu/body_attend.h"

#define TABLE_REST                                                            \
    .to_bf16 = to_bf16, .decode = decode, .join = join, .rms_norm = rms_norm, \
    .layer_norm = layer_norm, .silu_mul = silu_mul, .gelu_tanh = gelu_tanh, .gelu_erf = gelu_erf

#if LANES == 16
static const struct products int16 = {.once = true,
                                      .x_rows = BLOCK_ROWS,
                                      .most_few = MOST_FEW,
                                      .few_rows = CPU_FEW,
                                      .element = sizeof(uint16_t),
                                      .tile_element = sizeof(float),
                                      .pack = pack_int16,
                                      .few = few_int16,
                                      .panel_end = CPU_INT16_PANEL_END,
                                      .slabs = 1,
                                      .panels = 768 << 10,
                                      .whole = CPU_INT16_COLUMNS,
                                      .part = CPU_INT16_COLUMNS,
                                      .pack_block = cpu_pack_block_int16,
                                      .columns = cpu_columns_int16,
                                      .panel_block = cpu_panel_int16,
                                      .multiply_block = cpu_multiply_int16,
                                      .put_block = cpu_put_int16,
                                      .block_sums = cpu_sums_int16};
#endif

#ifdef HAVE_BF16
static const struct products vectors = {.bf12 = true,
                                        .ordered = true,
                                        .x_rows = BLOCK_ROWS,
                                        .most_few = MOST_FEW,
                                        .few_rows = CPU_FEW,
                                        .element = sizeof(uint16_t),
                                        .tile_element = sizeof(float),
                                        .pack = pack_bf16,
                                        .few = few_bf16,
                                        .slabs = 1,
                                        .panels = 768 << 10,
                                        .whole = SIZE_MAX,
                                        .pack_block = pack_block_bf16,
                                        .panel_block = panel_block_bf16,
                                        .multiply_block = multiply_block_bf16,
                                        .put_block = put_block,
                                        .block_sums = block_sums};
static const struct products tiles = {.bf12 = true,
                                      .ordered = true,
                                      .x_rows = CPU_AMX_X_ROWS,
                                      .most_few = CPU_AMX_FEW,
                                      .few_bytes = 2 << 20,
                                      .few_rows = CPU_AMX_FEW_ROWS,
                                      .element = sizeof(uint16_t),
                                      .tile_element = sizeof(uint16_t),
                                      .pack_few = cpu_pack_few_amx,
                                      .few = cpu_few_amx,
                                      .slabs = 2,
                                      .panels = 3 << 20,
                                      .whole = 2048,
                                      .part = 1024,
                                      .pack_block = cpu_pack_amx,
                                      .columns = cpu_columns_amx,
                                      .panel_block = cpu_panel_amx,
                                      .multiply_block = cpu_multiply_amx,
                                      .put_block = cpu_put_amx,
                                      .block_sums = cpu_sums_amx};

const struct cpu_kernels KERNELS = {.level = LEVEL,
                                    .name = LEVEL_NAME,
                                    .f32 = &cpu_f32_avx512vbmi,
                                    .narrow = &vectors,
                                    .fp8 = &int16,
                                    .attend = attend,
                                    .picture = &cpu_picture_bf16,
                                    TABLE_REST};

static void attend_amx(struct attend_tile *t, const void *keys, const void *values,
                       enum kv_kind kind)
{
    if (kind == KV_F32)
        attend(t, keys, values, kind);
    else
        cpu_attend_amx(t, keys, values, kind);
}

/* The same, but for products in tiles. */
const struct cpu_kernels cpu_kernels_amx = {.level = CPU_AMX,
                                            .name = "amx",
                                            .f32 = &cpu_f32_avx512vbmi,
                                            .narrow = &tiles,
                                            .split = true,
                                            .attend = attend_amx,
                                            .picture = &cpu_picture_amx,
                                            TABLE_REST};
#else
const struct products PRODUCTS = {.bf12 = LANES >= 8,
                                  .x_rows = BLOCK_ROWS,
                                  .most_few = MOST_FEW,
                                  .few_rows = CPU_FEW,
                                  .element = sizeof(float),
                                  .tile_element = sizeof(float),
                                  .pack = pack_f32,
                                  .few = few_f32,
                                  .slabs = 1,
                                  .panels = 3 << 20,
                                  .whole = SIZE_MAX,
                                  .pack_block = pack_block_f32,
                                  .panel_block = panel_block_f32,
                                  .multiply_block = multiply_block_f32,
                                  .put_block = put_block,
                                  .block_sums = block_sums};
#ifdef HAVE_VBMI
static const struct products int16_of_pictures = {.once = true,
                                                  .x_rows = BLOCK_ROWS,
                                                  .element = sizeof(uint16_t),
                                                  .tile_element = sizeof(float),
                                                  .panel_end = CPU_INT16_PANEL_END,
                                                  .slabs = 1,
                                                  .panels = 768 << 10,
                                                  .whole = CPU_INT16_COLUMNS,
                                                  .part = CPU_INT16_COLUMNS,
                                                  .pack_block = cpu_pack_block_int16,
                                                  .columns = cpu_columns_int16,
                                                  .panel_block = cpu_panel_bf16_int16,
                                                  .multiply_block = cpu_multiply_int16,
                                                  .put_block = cpu_put_int16,
                                                  .block_sums = cpu_sums_int16};

const struct cpu_kernels KERNELS = {.level = LEVEL,
                                    .name = LEVEL_NAME,
                                    .f32 = &PRODUCTS,
                                    .fp8 = &int16,
                                    .vision = &int16_of_pictures,
                                    .attend = attend,
                                    .picture = &cpu_picture_avx512vbmi,
                                    TABLE_REST};
#elif LANES == 8
const struct cpu_kernels cpu_kernels_avx2 = {.level = CPU_AVX2,
                                             .name = "avx2",
                                             .f32 = &PRODUCTS,
                                             .fp8 = &cpu_int16_avx2,
                                             .vision = &cpu_pictures_avx2,
                                             .attend = attend,
                                             .picture = &cpu_picture_avx2,
                                             TABLE_REST};
const struct cpu_kernels cpu_kernels_avxvnni = {.level = CPU_AVXVNNI,
                                                .name = "avxvnni",
                                                .f32 = &PRODUCTS,
                                                .fp8 = &cpu_int16_avxvnni,
                                                .vision = &cpu_pictures_avxvnni,
                                                .attend = attend,
                                                .picture = &cpu_picture_avxvnni,
                                                TABLE_REST};
#else
const struct cpu_kernels KERNELS = {
    .level = LEVEL, .name = LEVEL_NAME, .f32 = &PRODUCTS, .attend = attend, TABLE_REST};
#endif
#endif
