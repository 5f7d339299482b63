/* SPDX-License-Identifier: Apache-2.0 */
/* Launches the kernels of topk.cu. */
#ifndef EY_CUDA_TOPK_LAUNCH_H
#define EY_CUDA_TOPK_LAUNCH_H

#include "kernels/cuda/common/abi.h"
#include "kernels/cuda/common/launch.h"

enum { TOPK_THREADS = 512 };

/* A part's logits lie in shared memory, 8 bytes each: vocabulary / parts up to 10,000. */
static inline struct launch topk_part_launch(const struct topk_args *a)
{
    unsigned each = (unsigned)((a->vocabulary + a->parts - 1) / a->parts);
    struct launch l = {
        GPU_topk_part, {(unsigned)a->parts, (unsigned)a->n, 1}, TOPK_THREADS, each * 8};
    return l;
}

static inline struct launch topk_merge_launch(const struct topk_args *a)
{
    struct launch l = {
        GPU_topk_merge, {(unsigned)a->n, 1, 1}, TOPK_THREADS, (unsigned)(a->parts * TOPK) * 8};
    return l;
}

#endif
