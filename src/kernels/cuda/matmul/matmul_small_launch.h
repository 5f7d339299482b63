/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls of up to 64 rows of x with packed weights (matmul_small.cu): their one tile, the splits
 * of columns, and the launches. C for the host, C++ for the kernels.
 *
 * A tile is SMALL_TILE rows of w (gate and up alternate, 16 each) and all tokens. If there are
 * fewer tiles than SMs, a tile's columns are split over several blocks of threads. */
#ifndef EY_CUDA_MATMUL_SMALL_LAUNCH_H
#define EY_CUDA_MATMUL_SMALL_LAUNCH_H

#include <stdbool.h>

#include "kernels/cuda/common/abi.h"
#include "kernels/cuda/common/launch.h"

enum {
    SMALL_TILE = 128,
    SMALL_THREADS = 256, /* warps: 4 of 32 rows times 2 of half of a stage's columns */
    SMALL_HALVES = 2,
    SMALL_STAGED_ROW = SMALL_TILE + 4, /* floats between tokens of sums in shared memory */
    SMALL_MOST_TOKENS = 64,
    SMALL_MOST_SPLITS = 8,
    SMALL_MOST_PARTS = 320, /* most tiles times splits if there are several splits */
    SMALL_LEAST_ROWS = 8,
    SMALL_SHARE_BYTES = 100 << 10, /* least bytes of weights per SM for which this kernel beats a
                                      GEMV of SMALL_LEAST_ROWS rows */
    ARRANGE_THREADS = 256,
    ARRANGE_COLUMNS = 16, /* x has a multiple of this many columns */
};

/* K(name, dtype, tokens) */
#define EY_SMALL_KERNELS_OF(K, name, dtype) K(name, dtype, 16) K(name, dtype, 32) K(name, dtype, 64)
#define EY_SMALL_KERNELS(K)              \
    EY_SMALL_KERNELS_OF(K, fp8, K_FP8)   \
    EY_SMALL_KERNELS_OF(K, bf16, K_BF16) \
    EY_SMALL_KERNELS_OF(K, int8, K_INT8) \
    EY_SMALL_KERNELS_OF(K, int4, K_INT4)

/* Returns the tokens of the smallest kernel that takes n tokens. */
static inline int small_tokens(int n)
{
    return n <= 16 ? 16 : n <= 32 ? 32 : 64;
}

/* Columns of a packed chunk; in a stage, chunks of 16 rows, and bytes of weights and of x. */
#define SMALL_CHUNK_COLUMNS(dtype) ((dtype) == K_BF16 ? 32 : (dtype) == K_INT4 ? 128 : 64)
#define SMALL_CHUNKS(dtype) ((dtype) == K_INT4 ? 1 : 2)
#define SMALL_W_BYTES(dtype) (SMALL_TILE / PACK_ROWS * SMALL_CHUNKS(dtype) * PACK_CHUNK)
#define SMALL_X_BYTES(dtype, tokens) ((tokens)*SMALL_CHUNKS(dtype) * SMALL_CHUNK_COLUMNS(dtype) * 2)
/* Stages: as many as fit into the 99 KB that a block may have on every GPU from sm_80 on, up to
 * four. */
#define SMALL_STAGES(dtype, tokens) \
    (4 * (SMALL_W_BYTES(dtype) + SMALL_X_BYTES(dtype, tokens)) <= 99 << 10 ? 4 : 3)
#define SMALL_SHARED(dtype, tokens) \
    (SMALL_STAGES(dtype, tokens) * (SMALL_W_BYTES(dtype) + SMALL_X_BYTES(dtype, tokens)))

#ifdef __CUDACC__
__host__ __device__
#endif
    static inline int
    small_stages(int dtype, int k)
{
    const int columns = SMALL_CHUNKS(dtype) * SMALL_CHUNK_COLUMNS(dtype);
    return (k + columns - 1) / columns;
}

static inline int small_tiles(const struct matmul_args *a)
{
    const int across = a->epilogue == EPI_SILU ? SMALL_TILE / 2 : SMALL_TILE;
    int tiles = 0;
    for (int i = 0; i < (a->epilogue == EPI_SILU ? 1 : a->n_segments); i++)
        tiles += (a->segment[i].w.rows + across - 1) / across;
    return tiles;
}

/* Returns the blocks of threads that the GPU runs at once: two per SM, or as many as fit its shared
 * memory. */
static inline int small_room(int dtype, int tokens, int sm_count, int sm_shared)
{
    return sm_shared >= 2 * (SMALL_SHARED(dtype, tokens) + 1024) ? 2 * sm_count : sm_count;
}

/* Returns the splits with the fewest sequential stages. Starting counts as one stage, joining as
 * three more. */
static inline int small_splits(int tiles, int blocks, int room)
{
    int best = 1, least = 0;
    for (int splits = 1; splits <= SMALL_MOST_SPLITS && splits <= blocks; splits++) {
        if (splits > 1 && tiles * splits > SMALL_MOST_PARTS) break;
        int stages = (blocks + splits - 1) / splits + (splits > 1 ? 4 : 1),
            all = (tiles * splits + room - 1) / room * stages;
        if (splits > 1 && all >= least) continue;
        best = splits;
        least = all;
    }
    return best;
}

/* Whether the kernel takes these matrices. */
static inline bool small_takes(const struct matmul_args *a)
{
    const int dtype = a->segment[0].w.dtype;
    if (a->n < 1 || a->n > SMALL_MOST_TOKENS || a->k % (dtype == K_BF16 ? 8 : ARRANGE_COLUMNS) ||
        a->ldx % 4 || (a->gather && !a->norm) || a->epilogue > EPI_SILU ||
        (a->epilogue == EPI_SILU && a->n_segments != 2) ||
        (dtype != K_FP8 && dtype != K_BF16 && dtype != K_INT8 && dtype != K_INT4))
        return false;
    for (int i = 0; i < a->n_segments; i++) {
        const struct matmul_segment *s = &a->segment[i];
        if (!s->w.packed || s->w.dtype != dtype || s->w.cols != a->k) return false;
        if (a->epilogue == EPI_SILU && (s->w.rows != a->segment[0].w.rows || s->bias)) return false;
    }
    return true;
}

static inline int64_t small_weight_bytes(const struct matmul_args *a)
{
    int64_t rows = 0;
    for (int i = 0; i < a->n_segments; i++)
        rows += a->segment[i].w.rows;
    return rows * a->k * (a->segment[0].w.dtype == K_BF16 ? 4 : 2) /
           (a->segment[0].w.dtype == K_INT4 ? 4 : 2);
}

/* Whether this kernel is faster than a GEMV, measured on an H100: each SM's share of the weights
 * must be large enough to make up for one more launch and for joining. A norm doubles a GEMV's
 * work on x, so half of the bytes suffice. */
static inline bool small_is_faster(const struct matmul_args *a, int sm_count)
{
    const int64_t bytes = small_weight_bytes(a) * (a->norm ? 2 : 1);
    if (a->n > SMALL_LEAST_ROWS) return true;
    return a->n == SMALL_LEAST_ROWS && bytes >= (int64_t)SMALL_SHARE_BYTES * sm_count;
}

static inline struct launch arrange_launch(const struct arrange_args *a)
{
    struct launch l = {GPU_arrange_rows, {(unsigned)a->tokens, 1, 1}, ARRANGE_THREADS, 0};
    return l;
}

static inline enum gpu_kernel small_kernel(int dtype, int n)
{
    static const struct {
        enum gpu_kernel kernel;
        int dtype, tokens;
    } kernels[] = {
#define EY_SMALL_ENTRY(name, dtype, tokens) {GPU_matmul_small_##name##_##tokens, dtype, tokens},
        EY_SMALL_KERNELS(EY_SMALL_ENTRY)
#undef EY_SMALL_ENTRY
    };
    int i = 0;
    while (kernels[i].dtype != dtype || kernels[i].tokens < n)
        i++;
    return kernels[i].kernel;
}

static inline struct launch small_launch(const struct small_matmul_args *a, int sm_count,
                                         int sm_shared)
{
    const int dtype = a->matmul.segment[0].w.dtype, tokens = small_tokens(a->matmul.n),
              tiles = small_tiles(&a->matmul),
              splits = small_splits(tiles, small_stages(dtype, a->matmul.k),
                                    small_room(dtype, tokens, sm_count, sm_shared));
    struct launch l = {small_kernel(dtype, tokens),
                       {(unsigned)tiles, (unsigned)splits, 1},
                       SMALL_THREADS,
                       (unsigned)SMALL_SHARED(dtype, tokens)};
    return l;
}

#endif
