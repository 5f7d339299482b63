/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels' trial on a card: each family against loops on the host, on small random problems.
 * What fails is not used: a plainer kernel does its work. */
#ifndef EY_CUDA_CHECK_H
#define EY_CUDA_CHECK_H

#include "backend/cuda/cuda.h"
#include "backend/cuda/gemm_shape.h"

/* Those up to FAMILY_GEMV have nothing in their place; the others are several each: by dtype, width
 * or tile. */
enum cuda_family {
    FAMILY_PLAIN_LINEAR, /* and with it the packing of matrices */
    FAMILY_APPEND,
    FAMILY_ATTEND_PLAIN,
    FAMILY_VISION_PLAIN,
    FAMILY_NORM,
    FAMILY_MERGE_NORM,
    FAMILY_EMBED,
    FAMILY_CANDIDATES,
    FAMILY_UNPACK,
    FAMILY_GEMV,                    /* FP8, BF16, int8, int4 */
    FAMILY_GEMV1 = FAMILY_GEMV + 4, /* of one row */
    FAMILY_ATTEND,                  /* 64, 128, and the same with an FP8 cache */
    FAMILY_DECODE = FAMILY_ATTEND + 4,
    FAMILY_VISION = FAMILY_DECODE + 4, /* 64, 80 */
    FAMILY_EXACT = FAMILY_VISION + 2,  /* candidates scored again */
    FAMILY_E4M3,                       /* of FP8 activations, which it makes too */
    FAMILY_GEMM,                       /* tiles, FP8 first */
    CUDA_FAMILIES = FAMILY_GEMM + 2 * GEMM_TILES
};
_Static_assert((int)CUDA_FAMILIES <= (int)KERNEL_FAMILIES_MAX,
               "a report holds them, and a bit of 64 stands for each");

static inline bool cuda_failed(const struct cuda *c, int family)
{
    return c->failed_families >> family & 1;
}

static inline int cuda_family_of_gemv(int dtype)
{
    return FAMILY_GEMV + (dtype == K_FP8 ? 0 : dtype == K_BF16 ? 1 : dtype == K_INT8 ? 2 : 3);
}

static inline int cuda_family_of_gemm(int dtype, enum gemm_tile_kind kind)
{
    return FAMILY_GEMM + (dtype == K_BF16 ? GEMM_TILES : 0) + (int)kind;
}

static inline int cuda_family_of_attend(const struct kv_layer *kv)
{
    return FAMILY_ATTEND + (kv->head_dim > 64) + 2 * (kv->fp8 != 0);
}

static inline int cuda_family_of_decode(const struct kv_layer *kv)
{
    return FAMILY_DECODE + (kv->head_dim > 64) + 2 * (kv->fp8 != 0);
}

static inline int cuda_family_of_vision(int head_dim)
{
    return FAMILY_VISION + (head_dim > 64);
}

/* The tile that a product was to have, or another that works on every card; GEMM_TILES: none does.
 */
static inline enum gemm_tile_kind cuda_working_tile(const struct cuda *c, int dtype,
                                                    enum gemm_tile_kind wanted)
{
    if (!cuda_failed(c, cuda_family_of_gemm(dtype, wanted))) return wanted;
    for (int kind = 0; kind < GEMM_PORTABLE_TILES; kind++)
        if (!cuda_failed(c, cuda_family_of_gemm(dtype, (enum gemm_tile_kind)kind)))
            return (enum gemm_tile_kind)kind;
    return GEMM_TILES;
}

/* Families that this card has no kernels for. */
static inline bool cuda_lacks_family(const struct cuda *c, int family)
{
    if (family == FAMILY_E4M3) return !c->e4m3_gemm;
    return family >= FAMILY_GEMM && (family - FAMILY_GEMM) % GEMM_TILES >= GEMM_PORTABLE_TILES &&
           !c->wide_gemm;
}

/* ---- trial.c ---- */
/* Tries the families that the report does not say are tried. False: the card stopped working on the
 * way, and the report says in which; or there is no memory for it. */
bool cuda_try_families(struct cuda *c, struct kernel_report *report, ey_err *e);

#endif
