/* SPDX-License-Identifier: Apache-2.0 */
/* Launches the kernel of rescore.cu. */
#ifndef EY_CUDA_RESCORE_LAUNCH_H
#define EY_CUDA_RESCORE_LAUNCH_H

#include "kernels/cuda/common/abi.h"
#include "kernels/cuda/common/launch.h"

/* One block of one warp for each of a row's top-k logits. */
static inline struct launch rescore_launch(const struct rescore_args *a)
{
    struct launch l = {GPU_rescore, {TOPK, (unsigned)a->n, 1}, 32, 0};
    return l;
}

#endif
