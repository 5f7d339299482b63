/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses and launches the GEMV kernel of a matmul. */
#ifndef EY_CUDA_GEMV_LAUNCH_H
#define EY_CUDA_GEMV_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/cuda/matmul/gemv_depth.h"
#include "kernels/cuda/matmul/lm_head_launch.h"
#include "kernels/cuda/common/launch.h"

enum {
    GEMV_WARP_COLUMNS = 256, /* least columns of a warp, if there are as many */
    GEMV_SHARED = 99 * 1024  /* most bytes of a block */
};

enum { GEMV_FP8, GEMV_BF16, GEMV_INT8, GEMV_INT4, GEMV_DTYPES };

static inline int gemv_dtype(const struct matmul_args *a)
{
    switch (a->segment[0].w.dtype) {
    case K_FP8: return GEMV_FP8;
    case K_BF16: return GEMV_BF16;
    case K_INT8: return GEMV_INT8;
    case K_INT4: return GEMV_INT4;
    default: return -1;
    }
}

/* Whether all matrices suit the kernels. */
static inline bool gemv_weights_fit(const struct matmul_args *a)
{
    for (int i = 0; i < a->n_segments; i++) {
        const struct dev_matrix *w = &a->segment[i].w;
        if (!w->packed || w->dtype != a->segment[0].w.dtype || w->cols != a->k) return false;
        if (a->epilogue == EPI_SILU && (w->rows != a->segment[0].w.rows || a->segment[i].bias))
            return false;
    }
    return a->epilogue != EPI_SILU || a->n_segments == 2;
}

static inline enum gpu_kernel gemv_kernel(const struct matmul_args *a)
{
    static const enum gpu_kernel f32[GEMV_DTYPES] = {/* BF16 and int8 are in lm_head.cu */
                                                     [GEMV_FP8] = GPU_gemv_fp8_rms_f32_8,
                                                     [GEMV_INT4] = GPU_gemv_int4_rms_f32_8};
    static const enum gpu_kernel silu[GEMV_DTYPES] = {[GEMV_FP8] = GPU_gemv_fp8_rms_silu_8,
                                                      [GEMV_BF16] = GPU_gemv_bf16_rms_silu_8,
                                                      [GEMV_INT4] = GPU_gemv_int4_rms_silu_8};
    static const enum gpu_kernel add[GEMV_DTYPES] = {[GEMV_FP8] = GPU_gemv_fp8_act_add_8,
                                                     [GEMV_BF16] = GPU_gemv_bf16_act_add_8,
                                                     [GEMV_INT4] = GPU_gemv_int4_act_add_8};
    int dtype = gemv_dtype(a);
    if (dtype < 0) return GPU_NO_KERNEL;
    if (a->norm && a->epilogue == EPI_F32) return f32[dtype];
    if (a->norm && a->epilogue == EPI_SILU) return silu[dtype];
    if (!a->norm && a->epilogue == EPI_ADD) return add[dtype];
    return GPU_NO_KERNEL;
}

static inline int gemv_row_blocks(const struct matmul_args *a)
{
    int blocks = 0;
    for (int i = 0; i < (a->epilogue == EPI_SILU ? 1 : a->n_segments); i++)
        blocks += (a->segment[i].w.rows + PACK_ROWS - 1) / PACK_ROWS;
    return blocks;
}

/* Returns the columns of a chunk. */
static inline int gemv_chunk_columns(int dtype)
{
    return dtype == K_BF16 ? 32 : dtype == K_INT4 ? 128 : 64;
}

/* Returns the warps of a block, by the matrix and kind of result alone, so that sums run in the
 * same order whatever n is. *each: chunks of a warp. With int4 weights a block has fewer warps, so
 * that several blocks fit an SM: a chunk has as many bytes as one of FP8, but twice as many columns
 * of x. */
static inline int gemv_warps(int dtype, int out, int n_chunks, int *each)
{
    int most = dtype == K_INT4 ? GEMV_INT4_WARPS : out == EPI_ADD ? GEMV_WARPS : GEMV_NORM_WARPS;
    int wanted = GEMV_WARP_COLUMNS / gemv_chunk_columns(dtype);
    *each = (n_chunks + most - 1) / most;
    if (*each < wanted) *each = wanted;
    return (n_chunks + *each - 1) / *each;
}

/* Fills a->layout. Returns the bytes of shared memory, or 0 if there is not enough. groups: of
 * eight tokens. */
static inline unsigned gemv_lay_out(struct matmul_args *a, int groups, int *warps)
{
    struct gemv_layout *l = &a->layout;
    int dtype = a->segment[0].w.dtype, tiles = a->epilogue == EPI_SILU ? 2 : 1,
        depth = GEMV_DEPTH(dtype, groups, a->epilogue), each, ahead = 1;
    int chunk_columns = gemv_chunk_columns(dtype),
        chunk_bytes = a->n * (chunk_columns * 2 + 4) +
                      groups * 8 * 4; /* x, its squares and scales */
    int sum_bytes = tiles * groups * 8 * GEMV_TOKEN_FLOATS * 4;
    l->one_over_k = 1.0f / (float)a->k;
    l->n_blocks = gemv_row_blocks(a);
    l->n_chunks = (a->k + chunk_columns - 1) / chunk_columns;
    *warps = gemv_warps(dtype, a->epilogue, l->n_chunks, &each);
    l->rounds = (each + depth - 1) / depth;
    int squares = *warps * a->n * 4, most = (GEMV_SHARED - squares) / *warps / 16 * 16;
    l->log_ahead = 0;
    while (ahead < depth && ahead < each && 2 * ahead * chunk_bytes <= most) {
        ahead *= 2;
        l->log_ahead++;
    }
    int x_bytes = (ahead * chunk_bytes + 15) / 16 * 16;
    l->warp_bytes = x_bytes > sum_bytes ? x_bytes : (sum_bytes + 15) / 16 * 16;
    return l->warp_bytes > most ? 0 : (unsigned)(*warps * l->warp_bytes + squares);
}

/* Computes the launch from a->epilogue, a->norm and the matrices; .kernel is GPU_NO_KERNEL if no
 * kernel takes the matmul. Fills a->layout, or a->lm_head. A row block gets a block of threads.
 * sm_shared: bytes of shared memory of an SM. */
static inline struct launch gemv_launch(struct matmul_args *a, int sm_count, int sm_shared)
{
    struct launch none = {GPU_NO_KERNEL, {0, 0, 0}, 0, 0}, launch;
    int warps;
    if (a->n < 1 || a->n > GEMV_TOKENS || a->k < 8 || a->k % 8 || a->ldx % 8 ||
        !gemv_weights_fit(a))
        return none;
    launch = lm_head_launch(a, sm_count, sm_shared);
    if (launch.kernel) return launch;
    launch.kernel = gemv_kernel(a);
    if (!launch.kernel) return none;
    launch.shared = gemv_lay_out(a, 1, &warps);
    if (!launch.shared) return none;
    launch.block = (unsigned)warps * 32;
    launch.grid[0] = (unsigned)a->layout.n_blocks;
    launch.grid[1] = launch.grid[2] = 1;
    return launch;
}

#endif
