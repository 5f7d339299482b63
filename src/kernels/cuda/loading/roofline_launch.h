/* SPDX-License-Identifier: Apache-2.0 */
/* Launches the kernels of roofline.cu. */
#ifndef EY_CUDA_ROOFLINE_LAUNCH_H
#define EY_CUDA_ROOFLINE_LAUNCH_H

#include "kernels/cuda/common/abi.h"
#include "kernels/cuda/common/launch.h"

enum { ROOFLINE_THREADS = 256, PEAK_CHAINS = 8 };

static inline struct launch mma_peak_launch(int sm_count)
{
    struct launch l = {GPU_mma_peak, {(unsigned)sm_count * 2, 1, 1}, ROOFLINE_THREADS, 0};
    return l;
}

/* Returns the FLOPs of a launch: multiplying a 16x16 by a 16x8 matrix takes 4,096. */
static inline double mma_peak_flops(const struct launch *l, int times)
{
    return 4096.0 * PEAK_CHAINS * times * (double)l->grid[0] * (l->block / 32);
}

static inline struct launch read_memory_launch(int sm_count)
{
    struct launch l = {GPU_read_memory, {(unsigned)sm_count * 8, 1, 1}, ROOFLINE_THREADS, 0};
    return l;
}

#endif
