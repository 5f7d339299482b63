/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel launch as computed by the launch headers from the arguments. */
#ifndef EY_CUDA_LAUNCH_H
#define EY_CUDA_LAUNCH_H

#include "kernels/cuda/common/gpu_kernels.h"

struct launch {
    enum gpu_kernel kernel;          /* GPU_NO_KERNEL if none takes these arguments */
    unsigned grid[3], block, shared; /* shared: dynamic bytes */
};

#endif
