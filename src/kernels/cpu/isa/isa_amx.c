/* SPDX-License-Identifier: Apache-2.0 */
/* The AMX tier: matmuls and attention in BF16 with tiles, and the rest with AVX-512. */
#include "kernels/cpu/cpu_kernels.h"

enum {
    AMX_GEMV_TILE_BYTES = 2 << 20,
    AMX_PANEL_BYTES = 3 << 20, /* of the panels of the two N-blocks that share a pass over x */
    /* The panels of a matrix of at most AMX_WHOLE_K columns have all of them, those of a wider one
     * AMX_KC. gemm_amx.c has a smaller block of columns for the L1 cache. */
    AMX_WHOLE_K = 2048,
    AMX_KC = 1024,
    AMX_INT4_GEMV_MR = 4,                                   /* equal to BLOCKS_MR */
    AMX_INT4_PANEL_END = CPU_N_BLOCK * AMX_WHOLE_K / 32 * 4 /* bytes of the scales of groups */
};

static const struct matmul_kernels matmul_amx = {
    .x = X_BF16,
    .bf12 = true,
    .int8_interleaved = true,
    .gemm_rows = CPU_AMX_MR,
    .gemv_rows = CPU_AMX_GEMV_MR,
    .gemv_tile_bytes = AMX_GEMV_TILE_BYTES,
    .gemv_max_rows = CPU_AMX_GEMV_MAX_ROWS,
    .panel_element = sizeof(uint16_t),
    .x_element = sizeof(uint16_t),
    .pack_gemv_columns = cpu_pack_gemv_amx,
    .gemv = cpu_gemv_amx,
    .n_blocks = 2,
    .max_panel_bytes = AMX_PANEL_BYTES,
    .whole_k = AMX_WHOLE_K,
    .kc = AMX_KC,
    .pack_gemm = cpu_pack_gemm_amx,
    .x_offset = cpu_x_offset_amx,
    .pack_panel = cpu_pack_panel_amx,
    .gemm = cpu_gemm_amx,
    .store_gemm = cpu_store_gemm_amx,
    .gemm_sums = cpu_gemm_sums_amx,
};

static void pack_gemv_int4_amx(void *out, const struct packing_args *p)
{
    cpu_matmul_blocks_avx512[CPU_BLOCKS_INT4].pack_gemv(out, p);
}

static void gemv_int4_amx(float *out, size_t out_stride, const struct gemv_args *t)
{
    cpu_matmul_blocks_avx512[CPU_BLOCKS_INT4].gemv(out, out_stride, t);
}

/* Few rows of x are multiplied by AVX-512 instructions, many by AMX tiles. Both sum the same
 * integers. */
static const struct matmul_kernels matmul_int4_amx = {
    .x = X_INT16,
    .scales_sums = true,
    .gemm_rows = CPU_AMX_MR,
    .gemv_rows = AMX_INT4_GEMV_MR,
    .gemv_max_rows = CPU_GEMV_ROWS,
    .panel_element = sizeof(uint8_t),
    .x_element = sizeof(float),
    .pack_gemv = pack_gemv_int4_amx,
    .gemv = gemv_int4_amx,
    .panel_tail = AMX_INT4_PANEL_END,
    .n_blocks = 2,
    .max_panel_bytes = AMX_PANEL_BYTES,
    .whole_k = AMX_WHOLE_K,
    .kc = AMX_WHOLE_K,
    .pack_gemm = cpu_pack_gemm_int4_amx,
    .x_offset = cpu_x_offset_int4_amx,
    .pack_panel = cpu_pack_panel_int4_amx,
    .gemm = cpu_gemm_int4_amx,
    .store_gemm = cpu_store_gemm_int4_amx,
    .gemm_sums = cpu_gemm_sums_amx,
};

static void attention_amx(struct attention_tile *t, const void *keys, const void *values,
                          enum kv_layout kind)
{
    if (kind == KV_LAYOUT_F32)
        cpu_row_kernels_avx512.attention(t, keys, values, kind);
    else
        cpu_attention_amx(t, keys, values, kind);
}

const struct cpu_kernels cpu_kernels_amx = {
    .isa = {CPU_AMX, true, true},
    .name = "amx",
    .mask = "amx",
    .rows = &cpu_row_kernels_avx512,
    .f32 = &cpu_matmul_f32_avx512,
    .low_precision = &matmul_amx,
    .blocks = cpu_matmul_blocks_avx512,
    .int4 = &matmul_int4_amx,
    .two_pass = true,
    .attention = attention_amx,
    .vision_attention = &cpu_vision_attention_amx,
};
