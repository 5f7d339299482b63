/* SPDX-License-Identifier: Apache-2.0 */
/* See rescore.h. The loops over partial sums are written for the compiler to vectorize. */
#include "backend/rescore.h"

#include <math.h>

#include "tensor/dequantize.h"

static float rescore_tree_sum(const float partial[RESCORE_STRIDE])
{
    float lane[RESCORE_LANES];
    for (int i = 0; i < RESCORE_LANES; i++) {
        const float *four = partial + i * RESCORE_NEIGHBORS;
        lane[i] = (four[0] + four[1]) + (four[2] + four[3]);
    }
    for (int half = RESCORE_LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

void rescore_norm(float *out, const float *x, const float *norm, size_t n, float eps)
{
    float partial[RESCORE_STRIDE] = {0};
    for (size_t first = 0; first < n; first += RESCORE_STRIDE)
        for (size_t i = 0; i < RESCORE_STRIDE && first + i < n; i++)
            partial[i] += x[first + i] * x[first + i];
    const float scale = 1 / sqrtf(rescore_tree_sum(partial) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * (scale * norm[i]);
}

static void rescore_accumulate(float partial[RESCORE_STRIDE], const float *normed, const char *row,
                               size_t n)
{
    uint16_t piece[RESCORE_STRIDE];
    memcpy(piece, row, n * sizeof(*piece));
    for (size_t i = 0; i < n; i++)
        partial[i] += normed[i] * bf16_to_f32(piece[i]);
}

float rescore_dot(const float *normed, const void *row, size_t n)
{
    float partial[RESCORE_STRIDE] = {0};
    const char *at = row;
    size_t whole = n / RESCORE_STRIDE * RESCORE_STRIDE;
    for (size_t first = 0; first < whole; first += RESCORE_STRIDE)
        rescore_accumulate(partial, normed + first, at + first * sizeof(uint16_t), RESCORE_STRIDE);
    rescore_accumulate(partial, normed + whole, at + whole * sizeof(uint16_t), n - whole);
    return rescore_tree_sum(partial);
}
