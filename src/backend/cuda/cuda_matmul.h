/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses and launches the kernels of matmuls and of the norm before them. */
#ifndef EY_CUDA_MATMUL_H
#define EY_CUDA_MATMUL_H

#include "backend/cuda/cuda_context.h"

/* y = x bf16[n, k] (or RMSNorm(x f32[n, k]) if there is a norm) times the segments' matrices. */
struct cuda_matmul_desc {
    const struct placed *w[MAX_SEGMENTS];
    const struct placed *bias[MAX_SEGMENTS];
    void *y[MAX_SEGMENTS];
    int n_segments;
    enum cuda_epilogue epilogue;
    const void *x;
    int n, k, ldy;             /* ldy: elements from row to row of every y; 0: the matrix's rows */
    const struct placed *norm; /* NULL if x is bf16 and not normed */
    float eps;
    const int32_t *gather; /* on the GPU */
    int n_prompt;          /* number of prompt rows, which are the last ones */
};
void cuda_matmul(struct cuda *c, const struct cuda_matmul_desc *p);
/* y bf16[n, width] = LayerNorm(x f32[n, width]) */
void cuda_layer_norm(struct cuda *c, void *y, const void *x, const struct layer_norm *norm, int n,
                     float eps);

#endif
