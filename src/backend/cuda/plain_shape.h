/* SPDX-License-Identifier: Apache-2.0 */
/* How plain_linear is launched. */
#ifndef EY_CUDA_PLAIN_SHAPE_H
#define EY_CUDA_PLAIN_SHAPE_H

#include "backend/cuda/kernels.h"
#include "backend/cuda/launch.h"

enum { PLAIN_THREADS = 256 };

/* A warp a result: blockIdx.x over rows of all matrices, blockIdx.y over rows of x. */
static inline struct launch plain_shape(const struct linear_args *a)
{
    int rows = 0, warps = PLAIN_THREADS / 32;
    for (int i = 0; i < (a->out == OUT_SILU ? 1 : a->n_segments); i++)
        rows += a->segment[i].w.rows;
    struct launch launch = {
        "plain_linear",
        {(unsigned)((rows + warps - 1) / warps), (unsigned)(a->n < 65535 ? a->n : 65535), 1},
        PLAIN_THREADS,
        0};
    return launch;
}

#endif
