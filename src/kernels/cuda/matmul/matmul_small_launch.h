/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls of some rows of x, 9 to 64, with FP8 weights (matmul_small.cu): their one tile, how the
 * columns are split, and how they are launched. C for the host, C++ for the kernels.
 *
 * A tile is SMALL_TILE rows of w (of gate and up by turns, 16 each) and all tokens. Where tiles are
 * fewer than SMs, a tile's columns are split over several blocks of threads. */
#ifndef EY_CUDA_MATMUL_SMALL_LAUNCH_H
#define EY_CUDA_MATMUL_SMALL_LAUNCH_H

#include <stdbool.h>

#include "kernels/cuda/common/abi.h"
#include "kernels/cuda/common/launch.h"

enum {
    SMALL_TILE = 128,
    SMALL_THREADS = 256, /* warps: 4 of 32 rows times 2 of half of a stage's columns */
    SMALL_HALVES = 2,
    SMALL_W_BYTES = SMALL_TILE * SCALE_BLOCK, /* of a stage, which is SCALE_BLOCK columns */
    SMALL_STAGED_ROW = SMALL_TILE + 4,        /* floats between tokens of sums in shared memory */
    SMALL_MOST_TOKENS = 64,
    SMALL_MOST_SPLITS = 8,
    SMALL_MOST_PARTS = 320, /* tiles times splits where there are several splits */
    SMALL_LEAST_ROWS = 8,
    SMALL_ALWAYS_ROWS = 16,
    SMALL_SHARE_BYTES = 100 << 10, /* of weights for an SM, from which it pays with fewer rows */
    ARRANGE_THREADS = 256,
    ARRANGE_COLUMNS = 16, /* of a thread at a time */
};

/* Tokens that the kernel for n of them has. */
static inline int small_tokens(int n)
{
    return n <= 16 ? 16 : n <= 32 ? 32 : 64;
}

/* Bytes of x in a stage. */
#define SMALL_X_BYTES(tokens) ((tokens)*SCALE_BLOCK * 2)
/* As many as fit the 99 KB that a block may have on every GPU from sm_80 on. */
#define SMALL_STAGES(tokens) ((tokens) > 32 ? 3 : 4)
#define SMALL_SHARED(tokens) (SMALL_STAGES(tokens) * (SMALL_W_BYTES + SMALL_X_BYTES(tokens)))

static inline int small_tiles(const struct matmul_args *a)
{
    const int across = a->epilogue == EPI_SILU ? SMALL_TILE / 2 : SMALL_TILE;
    int tiles = 0;
    for (int i = 0; i < (a->epilogue == EPI_SILU ? 1 : a->n_segments); i++)
        tiles += (a->segment[i].w.rows + across - 1) / across;
    return tiles;
}

/* Blocks of threads that the GPU has room for at once: two an SM, or as many as fit its shared
 * memory. */
static inline int small_room(int tokens, int sm_count, int sm_shared)
{
    return sm_shared >= 2 * (SMALL_SHARED(tokens) + 1024) ? 2 * sm_count : sm_count;
}

/* That with the fewest stages one after the other; beginning, and joining, count as some too. */
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

/* Whether the kernel can multiply them. */
static inline bool small_takes(const struct matmul_args *a)
{
    if (a->n < 1 || a->n > SMALL_MOST_TOKENS || a->k % ARRANGE_COLUMNS || a->gather ||
        a->epilogue > EPI_SILU || (a->epilogue == EPI_SILU && a->n_segments != 2))
        return false;
    for (int i = 0; i < a->n_segments; i++) {
        const struct matmul_segment *s = &a->segment[i];
        if (!s->w.packed || s->w.dtype != K_FP8 || s->w.cols != a->k) return false;
        if (a->epilogue == EPI_SILU && (s->w.rows != a->segment[0].w.rows || s->bias)) return false;
    }
    return true;
}

static inline int64_t small_weight_bytes(const struct matmul_args *a)
{
    int64_t rows = 0;
    for (int i = 0; i < a->n_segments; i++)
        rows += a->segment[i].w.rows;
    return rows * a->k;
}

/* Whether it is faster than a GEMV, measured on an H100: each SM's share of the weights makes up
 * for one launch more, and for joining, or rows are so many that a GEMV is slow in any case. A norm
 * is half of a GEMV's work with x. */
static inline bool small_is_faster(const struct matmul_args *a, int sm_count)
{
    const int64_t bytes = small_weight_bytes(a) * (a->norm ? 2 : 1);
    if (a->n > SMALL_ALWAYS_ROWS) return true;
    return a->n >= SMALL_LEAST_ROWS && bytes >= (int64_t)SMALL_SHARE_BYTES * sm_count;
}

static inline struct launch arrange_launch(const struct arrange_args *a)
{
    struct launch l = {GPU_arrange_rows, {(unsigned)a->tokens, 1, 1}, ARRANGE_THREADS, 0};
    return l;
}

static inline struct launch small_launch(const struct small_matmul_args *a, int sm_count,
                                         int sm_shared)
{
    const int tokens = small_tokens(a->matmul.n), tiles = small_tiles(&a->matmul),
              splits = small_splits(tiles, (a->matmul.k + SCALE_BLOCK - 1) / SCALE_BLOCK,
                                    small_room(tokens, sm_count, sm_shared));
    struct launch l = {tokens == 16   ? GPU_matmul_small_16
                       : tokens == 32 ? GPU_matmul_small_32
                                      : GPU_matmul_small_64,
                       {(unsigned)tiles, (unsigned)splits, 1},
                       SMALL_THREADS,
                       (unsigned)SMALL_SHARED(tokens)};
    return l;
}

#endif
