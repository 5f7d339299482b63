/* SPDX-License-Identifier: Apache-2.0 */
/* How a kernel is launched: what the shape headers compute from its arguments. */
#ifndef EY_CUDA_LAUNCH_H
#define EY_CUDA_LAUNCH_H

struct launch {
    const char *kernel;
    unsigned grid[3], block, shared; /* shared: dynamic bytes */
};

#endif
