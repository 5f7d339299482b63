/* SPDX-License-Identifier: Apache-2.0 */
/* Activations rounded to e4m3, as limits.fp8_prompts has it (backend.h), in plain arithmetic: what
 * a GPU's kernels are held to. */
#ifndef EY_BACKEND_ACTIVATIONS_H
#define EY_BACKEND_ACTIVATIONS_H

#include <math.h>

#include "tensor/tensor.h"

/* The e4m3 number nearest to f, to even; |f| is at most 448, its largest. */
static inline float nearest_e4m3(float f)
{
    int exponent;
    frexpf(f, &exponent);
    const float step = ldexpf(
        1, exponent < -5 ? -9 : exponent - 4); /* three bits behind the first, or those of 2^-6 */
    return nearbyintf(f / step) * step;
}

/* A row of activations, in place, as limits.fp8_prompts has it: in each 128 columns multiples e4m3
 * of the largest magnitude over 448. */
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
