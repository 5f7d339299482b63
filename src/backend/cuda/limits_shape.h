/* SPDX-License-Identifier: Apache-2.0 */
/* How the kernels of limits.cu and read_memory are launched. */
#ifndef EY_CUDA_LIMITS_SHAPE_H
#define EY_CUDA_LIMITS_SHAPE_H

#include "backend/cuda/kernels.h"
#include "backend/cuda/launch.h"

enum { LIMIT_BLOCK = 256, PEAK_CHAINS = 8 };

static inline struct launch peak_launch(int sm_count)
{
    struct launch l = {"mma_peak", {(unsigned)sm_count * 2, 1, 1}, LIMIT_BLOCK, 0};
    return l;
}

/* Of a launch: a product of 16 by 16 with 16 by 8 is 4,096 operations. */
static inline double peak_flops(const struct launch *l, int times)
{
    return 4096.0 * PEAK_CHAINS * times * (double)l->grid[0] * (l->block / 32);
}

static inline struct launch read_launch(int sm_count)
{
    struct launch l = {"read_memory", {(unsigned)sm_count * 8, 1, 1}, LIMIT_BLOCK, 0};
    return l;
}

#endif
