/* SPDX-License-Identifier: Apache-2.0 */
/* The tiles of gemm.cu, and the choice among them. C for the host, C++ for the kernels.
 *
 * A tile is rows of w times tokens (rows of x): `row_warps` x `token_warps` warps of m_tiles·16
 * rows by n_tiles·8 tokens each share a ring of `stages` pieces of w and x, one chunk of columns
 * each. The narrow tile has k_warps instead: each warp has the whole tile, a ring of its own and
 * every k_warps-th block of columns, and the sums are added at the end. It is for few tokens, where
 * only the number of weights in flight counts. All rings are within 99 KB. */
#ifndef EY_CUDA_GEMM_LAUNCH_H
#define EY_CUDA_GEMM_LAUNCH_H

#include <stdbool.h>

#include "kernels/cuda/common/abi.h"
#include "kernels/cuda/common/launch.h"

/* T(name, row_warps, token_warps, k_warps, m_tiles, n_tiles, stages of FP8, of BF16, least blocks
 * of threads per SM) */
#define EY_GEMM_TILES(T)               \
    T(256x128, 4, 2, 1, 4, 8, 3, 4, 1) \
    T(128x128, 2, 2, 1, 4, 8, 3, 4, 2) \
    T(128x64, 4, 1, 1, 2, 8, 3, 4, 3)  \
    T(32x64, 1, 1, 4, 2, 8, 2, 4, 1)

/* The tiles for compute capability 9.0 (gemm_wgmma_sm90.cu): T(name, tiles of 64 rows per
 * warpgroup, tiles of 8 tokens). A ring has as many stages as fit, at most GEMM_SM90_MAX_STAGES. */
#define EY_GEMM_SM90_TILES(T) \
    T(128x256, 1, 32)         \
    T(128x224, 1, 28)         \
    T(128x200, 1, 25)         \
    T(128x192, 1, 24)         \
    T(128x160, 1, 20)         \
    T(128x144, 1, 18)         \
    T(128x128, 1, 16)         \
    T(128x104, 1, 13)         \
    T(128x64, 1, 8)

enum { GEMM_SM90_THREADS = 256, GEMM_SM90_SHARED = 227 << 10, GEMM_SM90_MAX_STAGES = 6 };
#define EY_GEMM_SM90_STAGE(m, n, fp8) ((m) * ((fp8) ? 8192 : 16384) + (n)*1024)
#define EY_GEMM_SM90_STAGES(m, n, fp8)                                       \
    (GEMM_SM90_SHARED / EY_GEMM_SM90_STAGE(m, n, fp8) < GEMM_SM90_MAX_STAGES \
         ? GEMM_SM90_SHARED / EY_GEMM_SM90_STAGE(m, n, fp8)                  \
         : GEMM_SM90_MAX_STAGES)

enum gemm_tile_kind {
#define EY_GEMM_KIND(name, ...) GEMM_##name,
#define EY_GEMM_SM90_KIND(name, ...) GEMM_SM90_##name,
    EY_GEMM_TILES(EY_GEMM_KIND) GEMM_PORTABLE_TILES,
    GEMM_BEFORE_SM90 = GEMM_PORTABLE_TILES - 1,
    EY_GEMM_SM90_TILES(EY_GEMM_SM90_KIND)
#undef EY_GEMM_SM90_KIND
#undef EY_GEMM_KIND
        GEMM_TILES
};

struct gemm_tile {
    enum gpu_kernel fp8, bf16;
    int rows, tokens, threads;
    int shared_fp8, shared_bf16; /* dynamic bytes */
};

enum {
    GEMM_BAND = 16
}; /* tiles of tokens that use the same weights before the next tile of rows */

static inline const struct gemm_tile *gemm_tile(enum gemm_tile_kind kind)
{
/* a stage: a chunk of columns of each 16 rows of w, and of each token of x: 64 columns with FP8, 32
 * with BF16 */
#define EY_GEMM_ROWS(rw, m) (16 * (rw) * (m))
#define EY_GEMM_TOKENS(tw, n) (8 * (tw) * (n))
#define EY_GEMM_SHARED(rw, tw, kw, m, n, stages, fp8) \
    ((kw) * (stages) *                                \
     (EY_GEMM_ROWS(rw, m) / PACK_ROWS * PACK_CHUNK + EY_GEMM_TOKENS(tw, n) * ((fp8) ? 128 : 64)))
#define EY_GEMM_TILE(name, rw, tw, kw, m, n, stages_fp8, stages_bf16, blocks) \
    {GPU_gemm_fp8_##name,                                                     \
     GPU_gemm_bf16_##name,                                                    \
     EY_GEMM_ROWS(rw, m),                                                     \
     EY_GEMM_TOKENS(tw, n),                                                   \
     32 * (rw) * (tw) * (kw),                                                 \
     EY_GEMM_SHARED(rw, tw, kw, m, n, stages_fp8, 1),                         \
     EY_GEMM_SHARED(rw, tw, kw, m, n, stages_bf16, 0)},
#define EY_GEMM_SM90_TILE(name, m, n)                            \
    {GPU_gemm_sm90_fp8_##name,                                   \
     GPU_gemm_sm90_bf16_##name,                                  \
     128 * (m),                                                  \
     8 * (n),                                                    \
     GEMM_SM90_THREADS,                                          \
     EY_GEMM_SM90_STAGES(m, n, 1) * EY_GEMM_SM90_STAGE(m, n, 1), \
     EY_GEMM_SM90_STAGES(m, n, 0) * EY_GEMM_SM90_STAGE(m, n, 0)},
    static const struct gemm_tile tiles[GEMM_TILES] = {EY_GEMM_TILES(EY_GEMM_TILE)
                                                           EY_GEMM_SM90_TILES(EY_GEMM_SM90_TILE)};
#undef EY_GEMM_SM90_TILE
#undef EY_GEMM_TILE
#undef EY_GEMM_SHARED
#undef EY_GEMM_TOKENS
#undef EY_GEMM_ROWS
    return &tiles[kind];
}

/* Returns the tiles of rows of the whole GEMM: separate for each matrix, except that gate and up
 * share theirs equally. */
static inline int gemm_row_tiles(const struct matmul_args *a, int tile_rows)
{
    int n = 0;
    if (a->epilogue == EPI_SILU)
        return (a->segment[0].w.rows + tile_rows / 2 - 1) / (tile_rows / 2);
    for (int i = 0; i < a->n_segments; i++)
        n += (a->segment[i].w.rows + tile_rows - 1) / tile_rows;
    return n;
}

static inline int gemm_token_tiles(const struct matmul_args *a, int tile_tokens)
{
    return (a->n + tile_tokens - 1) / tile_tokens;
}

static inline struct launch gemm_launch_tile(const struct matmul_args *a, enum gemm_tile_kind kind)
{
    const struct gemm_tile *tile = gemm_tile(kind);
    int fp8 = a->segment[0].w.dtype == K_FP8;
    struct launch launch = {fp8 ? tile->fp8 : tile->bf16,
                            {1, 1, 1},
                            (unsigned)tile->threads,
                            (unsigned)(fp8 ? tile->shared_fp8 : tile->shared_bf16)};
    launch.grid[0] = (unsigned)(gemm_row_tiles(a, tile->rows) * gemm_token_tiles(a, tile->tokens));
    return launch;
}

/* Returns the tile with which the busiest SM finishes first. An SM's throughput grows with the
 * tile, because a small one does fewer products per byte of shared memory; the start and end of a
 * tile cost about as much as 256 columns. With up to 64 tokens a GEMM is limited by reading
 * weights: then the narrow tile is chosen if wide ones would leave a third of the SMs idle. */
static inline enum gemm_tile_kind gemm_choose_portable(const struct matmul_args *a, int sm_count)
{
    static const double speed[] = {1.0, 0.92, 0.75};
    enum gemm_tile_kind best = GEMM_128x64;
    double best_cost = 0;
    if (a->n <= 64 && 3 * gemm_row_tiles(a, 128) < 2 * sm_count) return GEMM_32x64;
    for (int i = GEMM_256x128; i <= GEMM_128x64; i++) {
        const struct gemm_tile *tile = gemm_tile((enum gemm_tile_kind)i);
        int64_t tiles = (int64_t)gemm_row_tiles(a, tile->rows) * gemm_token_tiles(a, tile->tokens);
        double cost = (double)((tiles + sm_count - 1) / sm_count) * tile->rows * tile->tokens /
                      speed[i] * (a->k + 256);
        if (i == GEMM_256x128 || cost < best_cost) {
            best = (enum gemm_tile_kind)i;
            best_cost = cost;
        }
    }
    return best;
}

/* Returns the approximate microseconds of a GEMM, measured on an H200: each wave of tiles has a
 * start and an end, and its stages of 64 columns. */
static inline double gemm_sm90_cost(const struct matmul_args *a, const struct gemm_tile *tile,
                                    int sm_count)
{
    int tiles = gemm_row_tiles(a, tile->rows) * gemm_token_tiles(a, tile->tokens),
        stages = (a->k + SCALE_BLOCK - 1) / SCALE_BLOCK * 2;
    double stage = a->segment[0].w.dtype == K_FP8 ? 0.25 + 0.0019 * tile->tokens
                                                  : 0.2 + 0.0015 * tile->tokens;
    return (double)((tiles + sm_count - 1) / sm_count) *
           (0.5 + 0.036 * tile->tokens + stages * stage);
}

/* Returns the approximate microseconds with the narrow tile, which is better while a GEMM is
 * limited by reading weights. */
static inline double gemm_narrow_cost(const struct matmul_args *a, int sm_count)
{
    const struct gemm_tile *tile = gemm_tile(GEMM_32x64);
    double waves = (double)(gemm_row_tiles(a, tile->rows) * gemm_token_tiles(a, tile->tokens)) /
                   sm_count;
    return 2.5 + (waves > 1 ? waves : 1) * a->k * (a->segment[0].w.dtype == K_FP8 ? 0.0033 : 0.004);
}

static inline enum gemm_tile_kind gemm_choose_sm90(const struct matmul_args *a, int sm_count)
{
    enum gemm_tile_kind best = GEMM_32x64;
    double best_cost = gemm_narrow_cost(a, sm_count);
    for (int i = GEMM_PORTABLE_TILES; i < GEMM_TILES; i++) {
        double cost = gemm_sm90_cost(a, gemm_tile((enum gemm_tile_kind)i), sm_count);
        if (cost < best_cost) {
            best = (enum gemm_tile_kind)i;
            best_cost = cost;
        }
    }
    return best;
}

/* has_sm90: the kernels of gemm_wgmma_sm90.cu are loaded and suit the GPU. */
static inline enum gemm_tile_kind gemm_choose(const struct matmul_args *a, int sm_count,
                                              bool has_sm90)
{
    return has_sm90 ? gemm_choose_sm90(a, sm_count) : gemm_choose_portable(a, sm_count);
}

/* Computes the launch. Does not use pointers of `a`, only epilogue, n, k and the matrices' rows and
 * dtype. */
static inline struct launch gemm_launch(const struct matmul_args *a, int sm_count, bool has_sm90)
{
    return gemm_launch_tile(a, gemm_choose(a, sm_count, has_sm90));
}

#endif
