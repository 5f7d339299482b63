/* SPDX-License-Identifier: Apache-2.0 */
/* Launches the kernels of norm_rope_embed.cu. */
#ifndef EY_CUDA_NORM_ROPE_EMBED_LAUNCH_H
#define EY_CUDA_NORM_ROPE_EMBED_LAUNCH_H

#include "kernels/cuda/common/abi.h"
#include "kernels/cuda/common/launch.h"

enum {
    NORM_BLOCK = 256,
    NORM_QUADS = 4, /* quads of columns that a norm thread holds in registers */
    ROW_BLOCK = 256
};

static inline struct launch norm_launch(const struct norm_args *a)
{
    struct launch l = {GPU_norm_rows, {(unsigned)a->n, 1, 1}, NORM_BLOCK, 0};
    return l;
}

static inline struct launch merge_norm_launch(const struct merge_norm_args *a)
{
    const int rows = a->grouped ? a->n : a->n * a->group;
    struct launch l = {GPU_merge_norm, {(unsigned)rows, 1, 1}, NORM_BLOCK, 0};
    return l;
}

/* One thread per element of rows. */
static inline struct launch rows_launch(enum gpu_kernel kernel, int n, int width)
{
    struct launch l = {
        kernel, {(unsigned)((width + ROW_BLOCK - 1) / ROW_BLOCK), (unsigned)n, 1}, ROW_BLOCK, 0};
    return l;
}

static inline struct launch embed_launch(const struct embed_args *a)
{
    return rows_launch(GPU_embed, a->n, a->hidden);
}

static inline struct launch add_features_launch(const struct add_features_args *a)
{
    return rows_launch(GPU_add_features, a->n, a->hidden);
}

static inline struct launch position_embed_launch(const struct position_args *a)
{
    return rows_launch(GPU_position_embed, a->n, a->hidden);
}

static inline struct launch rope_launch(const struct rope_args *a)
{
    return rows_launch(GPU_rope_table, 1, a->n * a->n_pairs);
}

static inline struct launch patchify_launch(const struct patchify_args *a)
{
    struct launch l = {GPU_patchify, {(unsigned)a->n, 1, 1}, ROW_BLOCK, 0};
    return l;
}

/* Any number of blocks shares the work. */
static inline struct launch convert_launch(const struct convert_bf16_args *a)
{
    int64_t blocks = (a->n / 8 + ROW_BLOCK - 1) / ROW_BLOCK;
    struct launch l = {GPU_convert_bf16,
                       {(unsigned)(blocks < 1      ? 1
                                   : blocks > 4096 ? 4096
                                                   : blocks),
                        1, 1},
                       ROW_BLOCK,
                       0};
    return l;
}

#endif
