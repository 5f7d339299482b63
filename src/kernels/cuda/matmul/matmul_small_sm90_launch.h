/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls of 2 to 128 rows of x with FP8 weights on GPUs of compute capability 9.0
 * (matmul_small_sm90.cu): their tiles, how columns are split, and how they are launched. C for the
 * host, C++ for the kernels. */
#ifndef EY_CUDA_MATMUL_SMALL_SM90_LAUNCH_H
#define EY_CUDA_MATMUL_SMALL_SM90_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/cuda/matmul/matmul_small_launch.h"

/* T(tokens, columns of an instruction: tokens, or twice as many where it takes both planes, teams
 * of eight warps that take stages in turns, KB of the ring, blocks of threads that must fit on an
 * SM) */
#define EY_PLANES_TILES(T) \
    T(8, 16, 1, 102, 2)    \
    T(16, 32, 1, 102, 2)   \
    T(32, 32, 2, 102, 1)   \
    T(64, 64, 1, 102, 1)   \
    T(128, 64, 1, 150, 1)

enum {
    PLANES_MOST_TOKENS = 128,
    PLANES_WARPS = 8, /* of a team, each with 16 rows of the tile */
    PLANES_MOST_STAGES = 16,
    PLANES_HEAD = 1024,   /* bytes of barriers, and of 1/rms, before the ring */
    PLANES_RMS_AT = 256,  /* offset of 1/rms there */
    PLANES_THREADS = 128, /* of a block of make_planes: a warp for SCALE_BLOCK columns of a row */
    PLANES_PARTS_X_TOKENS = SMALL_MOST_PARTS * SMALL_MOST_TOKENS, /* size of the buffer of parts */
};

/* Bytes of SCALE_BLOCK columns of x: both planes, and a scale for each token. */
#define PLANES_X_BYTES(tokens) ((tokens) * (2 * SCALE_BLOCK + 4))
/* Bytes of a stage: weights and x, rounded up so that the next stage also begins at a multiple of
 * 1024 bytes. */
#define PLANES_STAGE(tokens) (SMALL_W_BYTES(K_FP8) + (PLANES_X_BYTES(tokens) + 1023) / 1024 * 1024)

struct planes_tile {
    enum gpu_kernel kernel;
    int tokens, teams, ring_bytes;
};

/* Returns the smallest tile that holds n rows. */
static inline const struct planes_tile *planes_tile(int n)
{
#define EY_PLANES_TILE(tokens, columns, teams, ring, blocks) \
    {GPU_matmul_small_sm90_##tokens, tokens, teams, (ring) << 10},
    static const struct planes_tile tiles[] = {EY_PLANES_TILES(EY_PLANES_TILE)};
#undef EY_PLANES_TILE
    int i = 0;
    while (tiles[i].tokens < n)
        i++;
    return &tiles[i];
}

/* Whether the kernel takes this matmul. */
static inline bool planes_take(const struct matmul_args *a)
{
    struct matmul_args all = *a;
    all.n = 1;
    all.gather = NULL;
    return a->n > 1 && a->n <= PLANES_MOST_TOKENS && a->segment[0].w.dtype == K_FP8 &&
           small_takes(&all);
}

/* The times in microseconds of a matmul's blocks of threads, measured on an H200 (64 and 128
 * tokens: on an H100). */
struct planes_costs {
    int tokens, blocks;  /* blocks: of threads that an SM runs at once */
    double start, stage, /* of a round of blocks; of each of its stages */
        reading,         /* of a stage's weights, while all SMs read */
        part,            /* of each split if there are several */
        join;            /* adding up parts, if the next kernel does not do it */
};

/* Returns the time in microseconds of a matmul whose tiles have `blocks` blocks of columns. adds:
 * whether the result is added to y. Two teams process a stage each at the same time. */
static inline double planes_cost(int tiles, int blocks, int splits, const struct planes_tile *tile,
                                 bool adds, int sm_count)
{
    static const struct planes_costs costs[] = {{8, 2, 0, 0.4, 0.45, 0.088, 0.16},
                                                {16, 2, 0, 0.4, 0.45, 0.096, 0.32},
                                                {32, 1, 2, 0.45, 0.5, 0.5, 2.9},
                                                {64, 1, 0, 0.65, 0.7, 0.144, 0},
                                                {128, 1, 0, 1.2, 0.7, 0.208, 0}};
    const struct planes_costs *c = costs;
    while (c->tokens < tile->tokens)
        c++;
    const int at_once = c->blocks * sm_count, rounds = (tiles * splits + at_once - 1) / at_once,
              each = (blocks + splits - 1) / splits,
              stages = (each + tile->teams - 1) / tile->teams * tile->teams;
    const double reading = c->reading * tiles * blocks / sm_count,
                 work = rounds * (c->start + stages * c->stage);
    return (work > reading ? work : reading) +
           (splits > 1 ? c->part * splits + 0.2 + (adds ? 0 : c->join) : 0);
}

static inline int planes_splits(int tiles, int blocks, const struct planes_tile *tile, bool adds,
                                int sm_count)
{
    int best = 1;
    for (int splits = 2; splits <= SMALL_MOST_SPLITS && splits <= blocks; splits++) {
        if (tiles * splits * tile->tokens > PLANES_PARTS_X_TOKENS ||
            tiles * splits > SMALL_MOST_PARTS)
            break;
        if (planes_cost(tiles, blocks, splits, tile, adds, sm_count) <
            planes_cost(tiles, blocks, best, tile, adds, sm_count))
            best = splits;
    }
    return best;
}

static inline struct launch make_planes_launch(const struct planes_args *a)
{
    const int warps = a->n * ((a->k + SCALE_BLOCK - 1) / SCALE_BLOCK), each = PLANES_THREADS / 32;
    struct launch l = {
        GPU_make_planes, {(unsigned)((warps + each - 1) / each), 1, 1}, PLANES_THREADS, 0};
    return l;
}

/* Computes the launch, and fills in a->stages. */
static inline struct launch planes_launch(struct planes_matmul_args *a, int sm_count)
{
    const struct matmul_args *m = &a->small.matmul;
    const struct planes_tile *tile = planes_tile(m->n);
    const int tiles = small_tiles(m), blocks = (m->k + SCALE_BLOCK - 1) / SCALE_BLOCK,
              splits = planes_splits(tiles, blocks, tile, m->epilogue == EPI_ADD, sm_count),
              most = tile->ring_bytes / PLANES_STAGE(tile->tokens),
              wanted = (blocks + splits - 1) / splits,
              sums = tile->teams * tile->tokens * SMALL_STAGED_ROW * 4;
    int stages = wanted < most ? wanted : most;
    if (stages > PLANES_MOST_STAGES) stages = PLANES_MOST_STAGES;
    stages = stages < tile->teams ? tile->teams : stages / tile->teams * tile->teams;
    a->stages = stages;
    int ring = stages * PLANES_STAGE(tile->tokens);
    struct launch l = {tile->kernel,
                       {(unsigned)tiles, (unsigned)splits, 1},
                       (unsigned)(32 * (PLANES_WARPS * tile->teams + 2)),
                       (unsigned)(PLANES_HEAD + (ring > sums ? ring : sums))};
    return l;
}

#endif
