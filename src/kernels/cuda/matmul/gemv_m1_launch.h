/* SPDX-License-Identifier: Apache-2.0 */
/* The matmuls that the gemv_m1 kernels take, their launches, and constants shared by both. */
#ifndef EY_CUDA_GEMV_M1_LAUNCH_H
#define EY_CUDA_GEMV_M1_LAUNCH_H

#include <stddef.h>

#include "kernels/cuda/common/gguf_layout.h"
#include "kernels/cuda/common/launch.h"

#ifdef __CUDACC__
#define EY_BOTH __host__ __device__
#else
#define EY_BOTH
#endif

enum {
    GEMV_M1_WARPS = 16,      /* most warps of a block */
    GEMV_M1_PAIR_WARPS = 8,  /* the same with two matrices */
    GEMV_M1_GGUF_WARPS = 10, /* the same for GGUF types with a norm, which need more registers */
    GEMV_M1_SHARED =
        96 * 1024 /* most bytes of x with FP8 weights: every GPU has 99 KiB, and sums need some */
};

/* FP8: halves of a row block of each matrix in a block of threads. */
#define GEMV_M1_HALVES(out) ((out) == EPI_F32 ? 2 : 1)
/* FP8: chunks of a warp in flight. Times the halves and the matrices, they are eight loads per
 * lane. */
#define GEMV_M1_DEPTH(out) ((out) == EPI_ADD ? 8 : 4)
/* int4 and GGUF: chunks that a warp takes at a time. */
enum { GEMV_M1_INT4_PAIR = 2 };

EY_BOTH static inline int gemv_m1_chunks(int dtype, int k)
{
    int columns = dtype == K_INT4 || kernel_dtype_is_gguf(dtype) ? 2 * PACK_BYTES : PACK_BYTES;
    return (k + columns - 1) / columns;
}

/* Returns the fewest warps that need no more rounds than `most` warps would. */
static inline int gemv_m1_warps(int n_chunks, int depth, int most)
{
    int rounds = (n_chunks + depth * most - 1) / (depth * most);
    return (n_chunks + depth * rounds - 1) / (depth * rounds);
}

/* Computes the launch; .kernel is GPU_NO_KERNEL if the matmul does not suit. The matrices must be
 * packed and have all a->k columns. */
static inline struct launch gemv_m1_launch(const struct matmul_args *a)
{
    static const enum gpu_kernel m1_kernels[2][3] = {
        {GPU_gemv_m1_fp8_rms_f32, GPU_gemv_m1_fp8_rms_silu, GPU_gemv_m1_fp8_act_add},
        {GPU_gemv_m1_int4_rms_f32, GPU_gemv_m1_int4_rms_silu, GPU_gemv_m1_int4_act_add}};
    struct launch l = {GPU_NO_KERNEL, {0, 1, 1}, 0, 0};
    const int dtype = a->segment[0].w.dtype, int4 = dtype == K_INT4, out = a->epilogue,
              pair = out == EPI_SILU;
    int blocks = 0;
    if (a->n != 1 || a->gather || (dtype != K_FP8 && !int4) || a->k % 8) return l;
    l.shared = int4
                   ? 0
                   : (unsigned)(gemv_m1_chunks(dtype, a->k) * PACK_BYTES) * (unsigned)sizeof(float);
    if (l.shared > GEMV_M1_SHARED ||
        (int4 && pair && a->segment[0].w.groups_per_128 != a->segment[1].w.groups_per_128))
        return l;
    if (a->norm && out == EPI_F32)
        l.kernel = m1_kernels[int4][0];
    else if (a->norm && pair && !a->segment[0].bias)
        l.kernel = m1_kernels[int4][1];
    else if (!a->norm && out == EPI_ADD)
        l.kernel = m1_kernels[int4][2];
    else
        return l;
    for (int i = 0; i < (pair ? 1 : a->n_segments); i++)
        blocks += (a->segment[i].w.rows + PACK_ROWS - 1) / PACK_ROWS;
    l.grid[0] = (unsigned)(int4 ? blocks : blocks * 2 / GEMV_M1_HALVES(out));
    l.block = 32 * (unsigned)gemv_m1_warps(gemv_m1_chunks(dtype, a->k),
                                           int4 ? GEMV_M1_INT4_PAIR : GEMV_M1_DEPTH(out),
                                           pair ? GEMV_M1_PAIR_WARPS : GEMV_M1_WARPS);
    return l;
}

/* The same for matrices of GGUF types, which may differ except for gate and up; a head's row may be
 * gathered. */
static inline struct launch gemv_m1_gguf_launch(const struct matmul_args *a)
{
    struct launch l = {GPU_NO_KERNEL, {0, 1, 1}, 0, 0};
    const int out = a->epilogue, pair = out == EPI_SILU;
    if (a->n != 1 || a->k % 32 || (pair && (a->n_segments != 2 || a->segment[0].bias))) return l;
    for (int i = 0; i < a->n_segments; i++) {
        const struct dev_matrix *w = &a->segment[i].w;
        if (!w->packed || !kernel_dtype_is_gguf(w->dtype) || w->cols != a->k ||
            (pair && (w->dtype != a->segment[0].w.dtype || w->rows != a->segment[0].w.rows)))
            return l;
    }
    if (a->norm && out == EPI_F32)
        l.kernel = GPU_gemv_m1_gguf_rms_f32;
    else if (a->norm && pair && !a->gather)
        l.kernel = GPU_gemv_m1_gguf_rms_silu;
    else if (!a->norm && out == EPI_ADD && !a->gather && a->n_segments == 1)
        l.kernel = GPU_gemv_m1_gguf_act_add;
    else
        return l;
    for (int i = 0; i < (pair ? 1 : a->n_segments); i++)
        l.grid[0] += (unsigned)(a->segment[i].w.rows + PACK_ROWS - 1) / PACK_ROWS;
    l.block = 32 * (unsigned)gemv_m1_warps(gemv_m1_chunks(a->segment[0].w.dtype, a->k),
                                           GEMV_M1_INT4_PAIR,
                                           pair      ? GEMV_M1_PAIR_WARPS
                                           : a->norm ? GEMV_M1_GGUF_WARPS
                                                     : GEMV_M1_WARPS);
    return l;
}

#endif
