/* SPDX-License-Identifier: Apache-2.0 */
/* Maps operations to families of kernels, and tells whether a family may be used. A family that
 * failed its self-test is replaced by a simpler one. */
#ifndef EY_CUDA_KERNEL_IDS_H
#define EY_CUDA_KERNEL_IDS_H

#include "backend/cuda/cuda_context.h"
#include "kernels/cuda/matmul/gemm_launch.h"

_Static_assert((int)GPU_FAMILIES <= (int)SELFTEST_MAX_KERNELS,
               "families must fit a report and the bits of a uint64_t");
_Static_assert((int)FAMILY_GEMM_BF16_256x128 - (int)FAMILY_GEMM_FP8_256x128 == (int)GEMM_TILES,
               "a family for each tile and dtype, in the order of the tiles");

static inline bool cuda_family_failed(const struct cuda *c, enum gpu_family family)
{
    return c->failed_families >> family & 1;
}

static inline enum gpu_family cuda_gemv_family(int dtype)
{
    if (kernel_dtype_is_gguf(dtype)) return FAMILY_GEMV_GGUF;
    return dtype == K_FP8    ? FAMILY_GEMV_FP8
           : dtype == K_BF16 ? FAMILY_GEMV_BF16
           : dtype == K_INT8 ? FAMILY_GEMV_INT8
                             : FAMILY_GEMV_INT4;
}

static inline enum gpu_family cuda_small_family(int dtype)
{
    if (kernel_dtype_is_gguf(dtype)) return FAMILY_MATMUL_SMALL_GGUF;
    return dtype == K_FP8    ? FAMILY_MATMUL_SMALL_FP8
           : dtype == K_BF16 ? FAMILY_MATMUL_SMALL_BF16
           : dtype == K_INT8 ? FAMILY_MATMUL_SMALL_INT8
                             : FAMILY_MATMUL_SMALL_INT4;
}

static inline enum gpu_family cuda_gemm_family(int dtype, enum gemm_tile_kind kind)
{
    const struct gemm_tile *tile = gemm_tile(kind);
    return gpu_kernel_info(dtype == K_BF16 ? tile->bf16 : tile->fp8)->family;
}

static inline enum gpu_family cuda_attention_family(const struct kv_layer *kv)
{
    if (kv->fp8) return kv->head_dim > 64 ? FAMILY_ATTENTION_128_FP8 : FAMILY_ATTENTION_64_FP8;
    return kv->head_dim > 64 ? FAMILY_ATTENTION_128 : FAMILY_ATTENTION_64;
}

static inline enum gpu_family cuda_attention_decode_family(const struct kv_layer *kv)
{
    if (kv->fp8)
        return kv->head_dim > 64 ? FAMILY_ATTENTION_DECODE_128_FP8 : FAMILY_ATTENTION_DECODE_64_FP8;
    return kv->head_dim > 64 ? FAMILY_ATTENTION_DECODE_128 : FAMILY_ATTENTION_DECODE_64;
}

static inline enum gpu_family cuda_attention_vision_family(int head_dim)
{
    return head_dim > 64 ? FAMILY_ATTENTION_VISION_80 : FAMILY_ATTENTION_VISION_64;
}

/* Returns the wanted GEMM tile, or another one that passed, or GEMM_TILES if none did. */
static inline enum gemm_tile_kind cuda_working_tile(const struct cuda *c, int dtype,
                                                    enum gemm_tile_kind wanted)
{
    if (!cuda_family_failed(c, cuda_gemm_family(dtype, wanted))) return wanted;
    for (int kind = 0; kind < (c->has_gemm_sm90 ? GEMM_TILES : GEMM_PORTABLE_TILES); kind++)
        if (!cuda_family_failed(c, cuda_gemm_family(dtype, (enum gemm_tile_kind)kind)))
            return (enum gemm_tile_kind)kind;
    return GEMM_TILES;
}

#endif
