/* SPDX-License-Identifier: Apache-2.0 */
/* The matmuls that lm_head.cu takes, and its launch. */
#ifndef EY_CUDA_LM_HEAD_LAUNCH_H
#define EY_CUDA_LM_HEAD_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/cuda/matmul/gemv_depth.h"
#include "kernels/cuda/common/launch.h"

enum {
    LM_HEAD_SLOTS = 4, /* most units of a warp in flight */
    LM_HEAD_AHEAD = 8, /* most units of which a warp has x at a time */
    LM_HEAD_RESERVED =
        1024 /* bytes of an SM's shared memory that a block takes in addition to its own */
};

static inline int lm_head_columns(const struct matmul_args *a) /* columns of a unit */
{
    return a->segment[0].w.dtype == K_BF16 ? 64 : 128;
}

/* Chooses the number of shares and of their units, by the matrix alone, so that sums run in the
 * same order whatever n is. */
static inline void lm_head_share_out(struct matmul_args *a)
{
    struct lm_head_layout *l = &a->lm_head;
    int columns = lm_head_columns(a), n_units = (a->k + columns - 1) / columns, most = GEMV_WARPS;
    l->one_over_k = 1.0f / (float)a->k;
    l->n_blocks = 0;
    for (int i = 0; i < a->n_segments; i++)
        l->n_blocks += (a->segment[i].w.rows + PACK_ROWS - 1) / PACK_ROWS;
    l->n_chunks = (a->k * 2 + columns - 1) / columns;
    l->each = (n_units + most - 1) / most;
    l->shares = n_units < most ? n_units : most;
}

/* Fills the layout for a number of warps, of units with x, and of slots of the ring; returns the
 * bytes of shared memory. */
static inline int lm_head_lay_out(struct matmul_args *a, int groups, int warps, int staged,
                                  bool kept, int slots)
{
    struct lm_head_layout *l = &a->lm_head;
    int unit_bytes = a->n * (lm_head_columns(a) * 2 + 4) +
                     groups * 8 * 4; /* x, its squares, its scales */
    int sums = l->shares * a->n * GEMV_TOKEN_FLOATS * 4;
    l->slots = slots;
    l->staged = staged;
    for (l->log_ahead = 0; 1 << l->log_ahead < staged;)
        l->log_ahead++;
    l->kept = kept;
    l->x_at = warps * slots * UNIT_BYTES;
    l->x_bytes = (staged * unit_bytes + 15) / 16 * 16;
    l->sums_at = l->x_at + (kept ? l->shares : warps) * l->x_bytes;
    l->sums_bytes = a->n == 1 ? sums : 0;
    l->squares_at = l->sums_at + sums + l->sums_bytes;
    return l->squares_at + l->shares * a->n * 4;
}

/* Finds the most units in flight, up to all of a warp's, that fit `most` bytes with this many warps
 * and units with x; returns the bytes of shared memory, or 0 if not even two fit. */
static inline int lm_head_fit(struct matmul_args *a, int groups, int sm_count, int warps,
                              int staged, bool kept, int most)
{
    const struct lm_head_layout *l = &a->lm_head;
    int all = (l->n_blocks + sm_count - 1) / sm_count * l->each,
        slots = all < LM_HEAD_SLOTS ? all : LM_HEAD_SLOTS, least = slots < 2 ? slots : 2;
    for (; slots >= least; slots--) {
        int bytes = lm_head_lay_out(a, groups, warps, staged, kept, slots);
        if (bytes <= most) return bytes;
    }
    return 0;
}

/* Fills a->lm_head. Best is one warp per share, at least two units in flight for each, and all of x
 * kept, in half of an SM's shared memory, so that two blocks fit. If that is not enough, first the
 * warps are halved, then the other half of memory is taken, then x is loaded again for every row
 * block. Returns the warps of a block, or 0 if there is not enough memory. groups: of eight
 * tokens. */
static inline int lm_head_lay_out_all(struct matmul_args *a, int groups, int sm_count,
                                      int sm_shared, int *shared)
{
    struct lm_head_layout *l = &a->lm_head;
    lm_head_share_out(a);
    const int shares = l->shares, half = sm_shared / 2 - LM_HEAD_RESERVED,
              whole = sm_shared - LM_HEAD_RESERVED;
    if (l->each <= LM_HEAD_AHEAD) {
        if ((*shared = lm_head_fit(a, groups, sm_count, shares, l->each, true, half)))
            return shares;
        if ((*shared = lm_head_fit(a, groups, sm_count, (shares + 1) / 2, l->each, true, half)))
            return (shares + 1) / 2;
        if ((*shared = lm_head_fit(a, groups, sm_count, shares, l->each, true, whole)))
            return shares;
    }
    for (int warps = shares;; warps = (warps + 1) / 2) {
        for (int staged = l->each < LM_HEAD_AHEAD ? l->each : LM_HEAD_AHEAD; staged > 0; staged--) {
            if ((*shared = lm_head_fit(a, groups, sm_count, warps, staged, false, half)))
                return warps;
            if ((*shared = lm_head_fit(a, groups, sm_count, warps, staged, false, whole)))
                return warps;
        }
        if (warps == 1) return 0;
    }
}

/* Computes the launch; .kernel is GPU_NO_KERNEL if the matmul does not suit. The matrices must be
 * packed and have all a->k columns. sm_shared: bytes of shared memory of an SM. */
static inline struct launch lm_head_launch(struct matmul_args *a, int sm_count, int sm_shared)
{
    struct launch none = {GPU_NO_KERNEL, {0, 0, 0}, 0, 0}, l = {GPU_NO_KERNEL, {1, 1, 1}, 0, 0};
    int dtype = a->segment[0].w.dtype, shared;
    if ((dtype != K_BF16 && dtype != K_INT8) || !a->norm || a->epilogue != EPI_F32 ||
        a->n > GEMV_TOKENS)
        return none;
    int warps = lm_head_lay_out_all(a, 1, sm_count, sm_shared, &shared);
    if (!warps) return none;
    l.kernel = dtype == K_INT8 ? GPU_lm_head_int8_8 : GPU_lm_head_bf16_8;
    l.shared = (unsigned)shared;
    l.block = (unsigned)warps * 32;
    int slots = 2 * (shared + LM_HEAD_RESERVED) <= sm_shared ? 2 * sm_count : sm_count;
    l.grid[0] = (unsigned)(a->lm_head.n_blocks < slots ? a->lm_head.n_blocks : slots);
    return l;
}

#endif
