/* The body of every kernel, written with vector types of LANES floats; included by one small file an instruction set,
 * which sets LANES, KERNELS (the table's name), LEVEL, LEVEL_NAME and PRODUCTS (the name of its float32 products) or, for products in BF16, HAVE_BF16, and HAVE_VBMI where bytes
 * are looked up.
 *
 * Products of few rows run along k: each sum is a vector whose lanes hold every LANES-th product, so that weights are read in
 * place, row by row; those of many are the same sums, a lane after the other (body_blocks.h). Attention runs along keys for the scores (keys are stored transposed) and along the head for the
 * values; nothing the size of keys x queries exists. */
#include "backend/cpu/body_vectors.h"

#include "backend/cpu/body_products.h"
#ifdef HAVE_BF16
#include "backend/cpu/body_bf16_rows.h"
#endif
#include "backend/cpu/body_blocks.h"
#ifdef HAVE_BF16
#include "backend/cpu/body_bf16.h"
#endif
#include "backend/cpu/body_rows.h"
#include "backend/cpu/body_attend.h"

#define TABLE_REST                                                                                                     \
    .to_bf16 = to_bf16, .decode = decode, .join = join, .rms_norm = rms_norm, .layer_norm = layer_norm, .silu_mul = silu_mul, \
    .gelu_tanh = gelu_tanh, .gelu_erf = gelu_erf

#ifdef HAVE_BF16
static const struct products vectors = {BLOCK_ROWS, MOST_FEW, sizeof(uint16_t), sizeof(float), pack_bf16, NULL, few_bf16, 1, SIZE_MAX, 0,
                                        pack_block_bf16, panel_block_bf16, multiply_block_bf16, put_block, block_sums};
static const struct products tiles = {CPU_AMX_X_ROWS, CPU_AMX_FEW, sizeof(uint16_t), sizeof(uint16_t), NULL, cpu_pack_few_amx, cpu_few_amx, 2, 2048, 1024,
                                      cpu_pack_amx, cpu_panel_amx, cpu_multiply_amx, cpu_put_amx, cpu_sums_amx};

const struct cpu_kernels KERNELS = {.level = LEVEL, .name = LEVEL_NAME, .f32 = &cpu_f32_avx512vbmi, .bf16 = &vectors, .attend = attend, TABLE_REST};

static void attend_amx(struct attend_tile *t, const void *keys, const void *values, enum kv_kind kind)
{
    if (kind == KV_F32) attend(t, keys, values, kind);
    else cpu_attend_amx(t, keys, values, kind);
}

/* The same, but for products in tiles. */
const struct cpu_kernels cpu_kernels_amx = {.level = CPU_AMX, .name = "amx", .f32 = &cpu_f32_avx512vbmi, .bf16 = &tiles, .split = true, .attend = attend_amx,
                                            .picture = &cpu_picture_amx, TABLE_REST};
#else
const struct products PRODUCTS = {BLOCK_ROWS, MOST_FEW, sizeof(float), sizeof(float), pack_f32, NULL, few_f32, 1, SIZE_MAX, 0, pack_block_f32, panel_block_f32, multiply_block_f32,
                                  put_block, block_sums};
const struct cpu_kernels KERNELS = {.level = LEVEL, .name = LEVEL_NAME, .f32 = &PRODUCTS, .attend = attend, TABLE_REST};
#endif
