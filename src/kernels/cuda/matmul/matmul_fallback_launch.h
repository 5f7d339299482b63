/* SPDX-License-Identifier: Apache-2.0 */
/* Launches matmul_fallback. */
#ifndef EY_CUDA_MATMUL_FALLBACK_LAUNCH_H
#define EY_CUDA_MATMUL_FALLBACK_LAUNCH_H

#include "kernels/cuda/common/abi.h"
#include "kernels/cuda/common/launch.h"

enum { MATMUL_FALLBACK_THREADS = 256 };

/* One warp per result: blockIdx.x over rows of all matrices, blockIdx.y over rows of x. */
static inline struct launch matmul_fallback_launch(const struct matmul_args *a)
{
    int rows = 0, warps = MATMUL_FALLBACK_THREADS / 32;
    for (int i = 0; i < (a->epilogue == EPI_SILU ? 1 : a->n_segments); i++)
        rows += a->segment[i].w.rows;
    struct launch launch = {
        GPU_matmul_fallback,
        {(unsigned)((rows + warps - 1) / warps), (unsigned)(a->n < 65535 ? a->n : 65535), 1},
        MATMUL_FALLBACK_THREADS,
        0};
    return launch;
}

#endif
