/* SPDX-License-Identifier: Apache-2.0 */
/* How the kernels of draw.cu are launched. */
#ifndef EY_CUDA_DRAW_SHAPE_H
#define EY_CUDA_DRAW_SHAPE_H

#include "backend/cuda/kernels.h"
#include "backend/cuda/launch.h"

enum { WORDS_BLOCK = 1024 };

static inline struct launch words_launch(void)
{
    struct launch l = {"copy_words", {1, 1, 1}, WORDS_BLOCK, 0};
    return l;
}

static inline struct launch draw_launch(const struct draw_args *a)
{
    struct launch l = {"draw_tokens", {(unsigned)a->n, 1, 1}, 32, 0};
    return l;
}

#endif
