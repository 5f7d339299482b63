/* SPDX-License-Identifier: Apache-2.0 */
/* How the kernels of candidates.cu are launched. */
#ifndef EY_CUDA_CANDIDATES_SHAPE_H
#define EY_CUDA_CANDIDATES_SHAPE_H

#include "backend/cuda/kernels.h"
#include "backend/cuda/launch.h"

enum { CANDIDATES_THREADS = 512 };

/* A part's logits lie in shared memory, 8 bytes each: vocabulary / parts up to 10,000. */
static inline struct launch candidates_part_launch(const struct candidates_args *a)
{
    unsigned each = (unsigned)((a->vocabulary + a->parts - 1) / a->parts);
    struct launch l = {
        "candidates_part", {(unsigned)a->parts, (unsigned)a->n, 1}, CANDIDATES_THREADS, each * 8};
    return l;
}

static inline struct launch candidates_merge_launch(const struct candidates_args *a)
{
    struct launch l = {"candidates_merge",
                       {(unsigned)a->n, 1, 1},
                       CANDIDATES_THREADS,
                       (unsigned)(a->parts * CANDIDATES) * 8};
    return l;
}

static inline struct launch exact_launch(const struct exact_args *a)
{
    struct launch l = {"score_again", {CANDIDATES, (unsigned)a->n, 1}, 32, 0};
    return l;
}

#endif
