/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of kernels: random numbers, storage formats, and memory that free_all() frees. */
#ifndef EY_TESTS_CUDA_KERNEL_TEST_VALUES_H
#define EY_TESTS_CUDA_KERNEL_TEST_VALUES_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/common/abi.h"

static uint64_t random_state = 1;

static inline uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

static inline float random_float(void) /* -1 to 1 */
{
    return (float)random_bits() * 0x1p-30f - 1.0f;
}

static void *last_block; /* each block begins with the address of the one before */

/* Allocates memory that is 64-byte aligned and filled with 0xff, NaN in every format. */
static inline void *aligned(size_t bytes)
{
    size_t size = (bytes + 63) / 64 * 64 + 128;
    char *block = aligned_alloc(64, size);
    if (!block) abort();
    memset(block, 0xff, size);
    memcpy(block, &last_block, sizeof(last_block));
    last_block = block;
    return block + 64;
}

static inline int free_all(void **state)
{
    (void)state;
    while (last_block) {
        void *block = last_block;
        memcpy(&last_block, block, sizeof(last_block));
        free(block);
    }
    return 0;
}

static inline float *random_floats(size_t n, float size)
{
    float *out = aligned(n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        out[i] = size * random_float();
    return out;
}

static inline float bf16_float(bf16 v)
{
    uint32_t u = (uint32_t)v << 16;
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

static inline bf16 float_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return (bf16)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

static inline double e4m3_double(uint8_t code)
{
    int exponent = code >> 3 & 15, fraction = code & 7;
    double v = exponent ? ldexp(1.0 + fraction / 8.0, exponent - 7) : ldexp(fraction, -9);
    if ((code & 0x7f) == 0x7f) v = NAN;
    return code & 0x80 ? -v : v;
}

#endif
