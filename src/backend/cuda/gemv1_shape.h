/* Which products gemv1.cu takes, and how it is launched. */
#ifndef EY_CUDA_GEMV1_SHAPE_H
#define EY_CUDA_GEMV1_SHAPE_H

#include <stddef.h>

#include "backend/cuda/kernels.h"
#include "backend/cuda/launch.h"

enum {
    GEMV1_DEPTH = 4,      /* chunks of a warp that are on their way at once: 8 loads of a lane */
    GEMV1_WARPS = 16,     /* of a block, at most … */
    GEMV1_PAIR_WARPS = 8, /* … and where it has two matrices, half a row block each */
    GEMV1_COLUMNS = 24 * 1024, /* that x's place in shared memory has room for */
};

/* As few rounds as the most warps allow, and then as few warps as these rounds allow. */
static inline int gemv1_warps(int n_chunks, int most)
{
    int rounds = (n_chunks + GEMV1_DEPTH * most - 1) / (GEMV1_DEPTH * most);
    return (n_chunks + GEMV1_DEPTH * rounds - 1) / (GEMV1_DEPTH * rounds);
}

/* .kernel is NULL: it does not take this one. The matrices are packed, and all of a->k columns. */
static inline struct launch gemv1_launch(const struct linear_args *a)
{
    struct launch l = {NULL, {0, 1, 1}, 0, 0};
    int n_chunks = (a->k + PACK_BYTES - 1) / PACK_BYTES, blocks = 0, pair = a->out == OUT_SILU;
    if (a->n != 1 || a->gather || a->segment[0].w.dtype != K_FP8 || a->k % 8 || a->k > GEMV1_COLUMNS) return l;
    if (a->norm && a->out == OUT_F32) l.kernel = "gemv1_rms_f32";
    else if (a->norm && pair && !a->segment[0].bias) l.kernel = "gemv1_rms_silu";
    else if (!a->norm && a->out == OUT_ADD) l.kernel = "gemv1_act_add";
    else return l;
    for (int i = 0; i < (pair ? 1 : a->n_segments); i++) blocks += (a->segment[i].w.rows + PACK_ROWS - 1) / PACK_ROWS;
    l.grid[0] = (unsigned)(pair ? 2 * blocks : blocks);
    l.block = 32 * (unsigned)gemv1_warps(n_chunks, pair ? GEMV1_PAIR_WARPS : GEMV1_WARPS);
    l.shared = (unsigned)(n_chunks * PACK_BYTES) * (unsigned)sizeof(float);
    return l;
}

#endif
