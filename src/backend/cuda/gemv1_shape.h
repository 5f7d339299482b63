/* Which products gemv1.cu takes, how it is launched, and what both have to know. */
#ifndef EY_CUDA_GEMV1_SHAPE_H
#define EY_CUDA_GEMV1_SHAPE_H

#include <stddef.h>

#include "backend/cuda/kernels.h"
#include "backend/cuda/launch.h"

#ifdef __CUDACC__
#define EY_BOTH __host__ __device__
#else
#define EY_BOTH
#endif

enum {
    GEMV1_WARPS = 16,           /* of a block, at most … */
    GEMV1_PAIR_WARPS = 8,       /* … and where it has two matrices */
    GEMV1_STAGED = 256,         /* columns of x that a warp brings at once, a lane eight */
    GEMV1_ZEROS = 128,          /* bytes before x of int4 */
    GEMV1_SUM = 32,             /* columns of x of int4 that have a sum */
    GEMV1_SHARED = 96 * 1024    /* bytes that a block may have for x: every card has 99 KiB, and sums want some */
};

/* Halves of a row block of each matrix, that a block of threads has. */
#define GEMV1_HALVES(dtype, out) ((dtype) == K_INT4 || (out) == OUT_F32 ? 2 : 1)
/* Chunks that a warp has on their way at once; a lane has a load for each half of them, and a matrix. With FP8 that makes eight. */
#define GEMV1_DEPTH(dtype, out) ((dtype) == K_INT4 ? 2 : (out) == OUT_ADD ? 8 : 4)
/* BF16 numbers that an element of x is for int4. */
#define GEMV1_PARTS(out) ((out) == OUT_ADD ? 1 : 2)

EY_BOTH static inline int gemv1_chunks(int dtype, int k)
{
    int columns = dtype == K_INT4 ? 2 * PACK_BYTES : PACK_BYTES;
    return (k + columns - 1) / columns;
}

/* That x has in shared memory: of whole chunks, or for int4 of whole warps. */
EY_BOTH static inline int gemv1_columns(int dtype, int k)
{
    return dtype == K_INT4 ? (k + GEMV1_STAGED - 1) / GEMV1_STAGED * GEMV1_STAGED : gemv1_chunks(dtype, k) * PACK_BYTES;
}

/* Where the sums of x of int4 begin there. */
EY_BOTH static inline int gemv1_sums_at(int columns, int parts)
{
    return GEMV1_ZEROS + columns * parts * (int)sizeof(bf16);
}

static inline unsigned gemv1_shared(int dtype, int out, int k)
{
    int columns = gemv1_columns(dtype, k);
    return (unsigned)(dtype == K_FP8 ? columns : columns / GEMV1_SUM) * (unsigned)sizeof(float) + (unsigned)(dtype == K_FP8 ? 0 : gemv1_sums_at(columns, GEMV1_PARTS(out)));
}

/* As few rounds as the most warps allow, and then as few warps as these rounds allow. */
static inline int gemv1_warps(int n_chunks, int depth, int most)
{
    int rounds = (n_chunks + depth * most - 1) / (depth * most);
    return (n_chunks + depth * rounds - 1) / (depth * rounds);
}

/* .kernel is NULL: it does not take this one. The matrices are packed, and all of a->k columns. */
static inline struct launch gemv1_launch(const struct linear_args *a)
{
    static const char *const f32[] = {"gemv1_fp8_rms_f32", "gemv1_int4_rms_f32"}, *const silu[] = {"gemv1_fp8_rms_silu", "gemv1_int4_rms_silu"},
                             *const add[] = {"gemv1_fp8_act_add", "gemv1_int4_act_add"};
    struct launch l = {NULL, {0, 1, 1}, 0, 0};
    const int dtype = a->segment[0].w.dtype, int4 = dtype == K_INT4, out = a->out, pair = out == OUT_SILU;
    int blocks = 0;
    if (a->n != 1 || a->gather || (dtype != K_FP8 && !int4) || a->k % 8) return l;
    l.shared = gemv1_shared(dtype, out, a->k);
    if (l.shared > GEMV1_SHARED) return l;
    if (a->norm && out == OUT_F32) l.kernel = f32[int4];
    else if (a->norm && pair && !a->segment[0].bias) l.kernel = silu[int4];
    else if (!a->norm && out == OUT_ADD) l.kernel = add[int4];
    else return l;
    for (int i = 0; i < (pair ? 1 : a->n_segments); i++) blocks += (a->segment[i].w.rows + PACK_ROWS - 1) / PACK_ROWS;
    l.grid[0] = (unsigned)(blocks * 2 / GEMV1_HALVES(dtype, out));
    l.block = 32 * (unsigned)gemv1_warps(gemv1_chunks(dtype, a->k), GEMV1_DEPTH(dtype, out), pair ? GEMV1_PAIR_WARPS : GEMV1_WARPS);
    return l;
}

#endif
