/* SPDX-License-Identifier: Apache-2.0 */
/* Launches the kernels of sample.cu. */
#ifndef EY_CUDA_SAMPLE_LAUNCH_H
#define EY_CUDA_SAMPLE_LAUNCH_H

#include "kernels/cuda/common/abi.h"
#include "kernels/cuda/common/launch.h"

enum { COPY_WORDS_THREADS = 1024 };

static inline struct launch copy_words_launch(void)
{
    struct launch l = {GPU_copy_words, {1, 1, 1}, COPY_WORDS_THREADS, 0};
    return l;
}

static inline struct launch sample_launch(const struct sample_args *a)
{
    struct launch l = {GPU_sample_tokens, {(unsigned)a->n, 1, 1}, 32, 0};
    return l;
}

#endif
