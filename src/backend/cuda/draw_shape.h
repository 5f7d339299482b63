/* How draw_tokens is launched. */
#ifndef EY_CUDA_DRAW_SHAPE_H
#define EY_CUDA_DRAW_SHAPE_H

#include "backend/cuda/kernels.h"
#include "backend/cuda/launch.h"

static inline struct launch draw_launch(const struct draw_args *a)
{
    struct launch l = {"draw_tokens", {(unsigned)a->n, 1, 1}, 32, 0};
    return l;
}

#endif
