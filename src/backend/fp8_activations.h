/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds activations to e4m3 for limits.fp8_prompts (backend.h), in plain arithmetic: the reference
 * for a GPU's kernels. */
#ifndef EY_BACKEND_FP8_ACTIVATIONS_H
#define EY_BACKEND_FP8_ACTIVATIONS_H

#include <math.h>

#include "tensor/tensor.h"

/* Returns the e4m3 number nearest to f, ties to even; |f| must be at most 448, the largest e4m3
 * number. */
static inline float nearest_e4m3(float f)
{
    int exponent;
    frexpf(f, &exponent);
    /* three fraction bits; below 2^-6 numbers are 2^-9 apart */
    const float step = ldexpf(1, exponent < -5 ? -9 : exponent - 4);
    return nearbyintf(f / step) * step;
}

/* Rounds a row of activations in place as limits.fp8_prompts does: each block of 128 columns to
 * e4m3 numbers times its largest magnitude / 448. */
static inline void round_activations(float *row, size_t n)
{
    for (size_t first = 0; first < n; first += FP8_BLOCK) {
        const size_t end = first + FP8_BLOCK < n ? first + FP8_BLOCK : n;
        float largest = 0;
        for (size_t i = first; i < end; i++)
            largest = fabsf(row[i]) > largest ? fabsf(row[i]) : largest;
        const float scale = largest / 448;
        for (size_t i = first; i < end; i++)
            row[i] = scale > 0 ? nearest_e4m3(row[i] / scale) * scale : 0;
    }
}

#endif
