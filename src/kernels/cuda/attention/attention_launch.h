/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of the attention kernels: names, grids, threads and shared memory from their arguments,
 * and the shapes that the fast ones take. Shared by the host and the kernels. */
#ifndef EY_CUDA_ATTENTION_LAUNCH_H
#define EY_CUDA_ATTENTION_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/common/abi.h"
#include "kernels/cuda/common/launch.h"

enum {
    HEAD_DIM_MAX = 256,        /* limit of the fallback kernels */
    WARP_KERNEL_THREADS = 128, /* threads of kernels that have one warp per row of a head */

    /* flash_attention.cuh: keys of a tile, tiles of keys and of values in shared memory, padding of
     * a row */
    FLASH_THREADS = 128,
    FLASH_KEYS = 64,
    FLASH_KEY_TILES = 3,
    FLASH_VALUE_TILES = 2,
    FLASH_PAD = 8,

    VISION_ROWS = 128, /* query rows of a block of threads */

    /* attention_vision_sm90.cu: warpgroups of 64 rows, and two warps that load keys and values */
    VISION_SM90_TEAMS = 3,
    VISION_SM90_ROWS = 64 * VISION_SM90_TEAMS,
    VISION_SM90_THREADS = 128 * VISION_SM90_TEAMS + 128,
    VISION_SM90_KEYS = 96,
    VISION_SM90_STAGES = 4, /* stages of VISION_SM90_KEYS keys and their values */
    VISION_SM90_SHARED = VISION_SM90_STAGES * (2 * VISION_SM90_KEYS * 128 + 32),

    DECODE_WARPS = 8,
    DECODE_CHUNK = 16, /* keys that a warp takes at a time */
    DECODE_PART_MIN =
        DECODE_WARPS, /* least chunks of a block: one per warp; fewer parts are added up sooner */
    DECODE_HEADS = 8, /* most query heads of a KV head */

    /* attention_decode_many.cu */
    MANY_WARPS = 6,
    MANY_ROWS = 128,           /* most sequences of a launch */
    MANY_SM_BLOCKS = 2,        /* blocks of threads that run on an SM at once */
    MANY_BLOCKS = 384,         /* most blocks of threads */
    MANY_PAIR_COST = 16 << 10, /* cost of starting a pair of a sequence and a KV head, in bytes of
                                  keys that could be read meanwhile */
    MANY_HEADS_AT_ONCE = 8,    /* queries in a block's shared memory, unless two pairs have more */
    MANY_PAD = 8,              /* padding of a query there */
};

static inline unsigned flash_shared(int dim)
{
    return (FLASH_KEY_TILES + FLASH_VALUE_TILES) * FLASH_KEYS * (unsigned)(dim + FLASH_PAD) *
           (unsigned)sizeof(bf16);
}

static inline unsigned ceil_quotient(int64_t a, int64_t b)
{
    return (unsigned)((a + b - 1) / b);
}

/* Returns a launch with one warp per unit. */
static inline struct launch warp_launch(enum gpu_kernel kernel, int64_t units)
{
    struct launch l = {
        kernel, {ceil_quotient(units, WARP_KERNEL_THREADS / 32), 1, 1}, WARP_KERNEL_THREADS, 0};
    return l;
}

static inline struct launch kv_append_launch(const struct kv_append_args *a)
{
    return warp_launch(GPU_kv_append, (int64_t)a->batch.n * (a->n_heads + 2 * a->kv.n_kv_heads));
}

/* Whether rows suit the fast kernels, which read pieces of 16 bytes. */
static inline int attention_is_fast(const struct kv_layer *kv)
{
    return kv->head_dim <= 128 && kv->head_dim % (kv->fp8 ? 16 : 8) == 0;
}

static inline struct launch attention_fallback_launch(const struct attention_args *a)
{
    return warp_launch(GPU_attention_fallback, (int64_t)a->batch.n * a->n_heads);
}

static inline struct launch attention_launch(const struct attention_args *a)
{
    int dim = a->kv.head_dim <= 64 ? 64 : 128;
    struct launch l = {dim == 64 ? GPU_attention_64 : GPU_attention_128,
                       {(unsigned)a->n_heads, (unsigned)a->n_tiles, 1},
                       FLASH_THREADS,
                       flash_shared(dim)};
    return attention_is_fast(&a->kv) ? l : attention_fallback_launch(a);
}

/* Whether the decode kernels take these shapes; otherwise kv_append and attention with one-row
 * tiles are used. */
static inline int attention_decode_supports(const struct kv_layer *kv, int n_heads)
{
    return (kv->head_dim == 64 || kv->head_dim == 128) && n_heads <= DECODE_HEADS * kv->n_kv_heads;
}

/* Returns the shared memory for the warps' results before they are added up. */
static inline unsigned attention_decode_shared(int head_dim, int heads)
{
    return DECODE_WARPS * (unsigned)heads * (unsigned)(head_dim + 2) * (unsigned)sizeof(float);
}

static inline struct launch attention_decode_launch(const struct attention_decode_args *a)
{
    static const enum gpu_kernel decode_kernels[2][2] = {
        {GPU_attention_decode_64, GPU_attention_decode_64_fp8},
        {GPU_attention_decode_128, GPU_attention_decode_128_fp8}};
    int dim = a->kv.head_dim;
    struct launch l = {decode_kernels[dim == 128][a->kv.fp8 != 0],
                       {(unsigned)a->splits, (unsigned)a->kv.n_kv_heads, (unsigned)a->batch.n},
                       DECODE_WARPS * 32,
                       attention_decode_shared(dim, a->n_heads / a->kv.n_kv_heads)};
    return l;
}

/* Returns the number of pairs in a turn. Their queries and sums are in shared memory at the same
 * time. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline int
    many_turn(int heads)
{
    return MANY_HEADS_AT_ONCE / heads > 2 ? MANY_HEADS_AT_ONCE / heads : 2;
}

/* Returns the shared memory for a turn's new keys and values, queries, and the warps' results. */
static inline unsigned decode_many_shared(int dim, int heads)
{
    return (unsigned)(many_turn(heads) *
                      (2 * dim * (int)sizeof(bf16) + heads * (dim + MANY_PAD) * (int)sizeof(bf16) +
                       MANY_WARPS * heads * (dim + 2) * (int)sizeof(float)));
}

/* Returns the blocks of threads for `pairs`, each a sequence and a KV head: as many as a GPU runs
 * at once, or slightly fewer so that blocks end where pairs of equal length do. */
static inline int decode_many_blocks(int pairs, int sm_count)
{
    const int all = MANY_SM_BLOCKS * sm_count, most = all < MANY_BLOCKS ? all : (int)MANY_BLOCKS,
              even = pairs > most ? pairs / ((pairs + most - 1) / most) : most / pairs * pairs;
    return even >= most - most / 8 ? even : most;
}

static inline struct launch decode_many_launch(const struct attention_decode_args *a)
{
    static const enum gpu_kernel many_kernels[2][2] = {
        {GPU_attention_decode_many_64, GPU_attention_decode_many_64_fp8},
        {GPU_attention_decode_many_128, GPU_attention_decode_many_128_fp8}};
    const int dim = a->kv.head_dim;
    struct launch l = {many_kernels[dim == 128][a->kv.fp8 != 0],
                       {(unsigned)a->splits, 1, 1},
                       MANY_WARPS * 32,
                       decode_many_shared(dim, a->n_heads / a->kv.n_kv_heads)};
    return l;
}

static inline struct launch attention_vision_fallback_launch(const struct attention_vision_args *a)
{
    return warp_launch(GPU_attention_vision_fallback, (int64_t)a->n * a->heads);
}

static inline struct launch attention_vision_launch(const struct attention_vision_args *a)
{
    int fast = a->head_dim <= 80 && a->head_dim % 8 == 0, dim = a->head_dim <= 64 ? 64 : 80;
    struct launch l = {dim == 64 ? GPU_attention_vision_64 : GPU_attention_vision_80,
                       {ceil_quotient(a->n, VISION_ROWS), (unsigned)a->heads, 1},
                       FLASH_THREADS,
                       flash_shared(dim)};
    return fast ? l : attention_vision_fallback_launch(a);
}

/* Adds a segment; there must be room. */
static inline void attention_vision_sm90_add(struct attention_vision_sm90_args *a,
                                             struct attention_vision_segment segment)
{
    const struct attention_vision_segment *last = &a->segment[a->n_segments - 1];
    segment.first_tile = a->n_segments
                             ? last->first_tile + (int32_t)ceil_quotient(last->n, VISION_SM90_ROWS)
                             : 0;
    a->segment[a->n_segments++] = segment;
}

static inline struct launch attention_vision_sm90_launch(const struct attention_vision_sm90_args *a)
{
    const struct attention_vision_segment *last = &a->segment[a->n_segments - 1];
    struct launch l = {GPU_attention_vision_sm90,
                       {(unsigned)last->first_tile + ceil_quotient(last->n, VISION_SM90_ROWS),
                        (unsigned)a->heads, 1},
                       VISION_SM90_THREADS,
                       VISION_SM90_SHARED};
    return l;
}

/* A thread rotates 8 pairs of a head, or one if head_dim is no multiple of 16. */
static inline struct launch vision_rope_launch(const struct vision_rope_args *a)
{
    int pairs = a->head_dim % 16 ? 1 : 8;
    int64_t units = (int64_t)a->n * 2 * a->heads * (a->head_dim / 2 / pairs);
    struct launch l = {pairs == 8 ? GPU_vision_rope : GPU_vision_rope_fallback,
                       {ceil_quotient(units, 2 * WARP_KERNEL_THREADS), 1, 1},
                       2 * WARP_KERNEL_THREADS,
                       0};
    return l;
}

#endif
