/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of the GPU's kernels, as the self-test counts them. A kernel that failed its self-test is not
 * used: a plainer one does its work. */
#ifndef EY_CUDA_KERNEL_IDS_H
#define EY_CUDA_KERNEL_IDS_H

#include "backend/cuda/cuda_context.h"
#include "kernels/cuda/matmul/gemm_launch.h"

/* Nothing replaces those up to KERNEL_GEMV. The later ones are several each: by dtype, width or
 * tile. */
enum cuda_kernel_id {
    KERNEL_MATMUL_FALLBACK, /* and with it the packing of matrices */
    KERNEL_KV_APPEND,
    KERNEL_ATTENTION_FALLBACK,
    KERNEL_ATTENTION_VISION_FALLBACK,
    KERNEL_NORM,
    KERNEL_MERGE_NORM,
    KERNEL_EMBED,
    KERNEL_TOPK,
    KERNEL_UNPACK_INT4,
    KERNEL_GEMV,                      /* FP8, BF16, int8, int4 */
    KERNEL_GEMV_M1 = KERNEL_GEMV + 4, /* of one row */
    KERNEL_ATTENTION,                 /* 64, 128, and the same with an FP8 cache */
    KERNEL_ATTENTION_DECODE = KERNEL_ATTENTION + 4,
    KERNEL_ATTENTION_VISION = KERNEL_ATTENTION_DECODE + 4, /* 64, 80 */
    KERNEL_RESCORE = KERNEL_ATTENTION_VISION + 2,          /* rescored top-k logits */
    KERNEL_GEMM_W8A8, /* of FP8 activations, which it makes too */
    KERNEL_GEMM,      /* tiles, FP8 first */
    CUDA_KERNEL_IDS = KERNEL_GEMM + 2 * GEMM_TILES
};
_Static_assert((int)CUDA_KERNEL_IDS <= (int)SELFTEST_MAX_KERNELS,
               "a report holds them, and a bit of 64 stands for each");

static inline bool cuda_kernel_failed(const struct cuda *c, int kernel_id)
{
    return c->failed_kernels >> kernel_id & 1;
}

static inline int cuda_gemv_kernel_id(int dtype)
{
    return KERNEL_GEMV + (dtype == K_FP8 ? 0 : dtype == K_BF16 ? 1 : dtype == K_INT8 ? 2 : 3);
}

static inline int cuda_gemm_kernel_id(int dtype, enum gemm_tile_kind kind)
{
    return KERNEL_GEMM + (dtype == K_BF16 ? GEMM_TILES : 0) + (int)kind;
}

static inline int cuda_attention_kernel_id(const struct kv_layer *kv)
{
    return KERNEL_ATTENTION + (kv->head_dim > 64) + 2 * (kv->fp8 != 0);
}

static inline int cuda_attention_decode_kernel_id(const struct kv_layer *kv)
{
    return KERNEL_ATTENTION_DECODE + (kv->head_dim > 64) + 2 * (kv->fp8 != 0);
}

static inline int cuda_attention_vision_kernel_id(int head_dim)
{
    return KERNEL_ATTENTION_VISION + (head_dim > 64);
}

/* The wanted GEMM tile, or another one that passed; GEMM_TILES: none did. */
static inline enum gemm_tile_kind cuda_working_tile(const struct cuda *c, int dtype,
                                                    enum gemm_tile_kind wanted)
{
    if (!cuda_kernel_failed(c, cuda_gemm_kernel_id(dtype, wanted))) return wanted;
    for (int kind = 0; kind < GEMM_PORTABLE_TILES; kind++)
        if (!cuda_kernel_failed(c, cuda_gemm_kernel_id(dtype, (enum gemm_tile_kind)kind)))
            return (enum gemm_tile_kind)kind;
    return GEMM_TILES;
}

/* Kernels that this GPU cannot have. */
static inline bool cuda_lacks_kernel(const struct cuda *c, int kernel_id)
{
    if (kernel_id == KERNEL_GEMM_W8A8) return !c->has_gemm_w8a8;
    return kernel_id >= KERNEL_GEMM &&
           (kernel_id - KERNEL_GEMM) % GEMM_TILES >= GEMM_PORTABLE_TILES && !c->has_gemm_sm90;
}

#endif
