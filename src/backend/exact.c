/* SPDX-License-Identifier: Apache-2.0 */
/* See exact.h. The loops over partial sums are what a compiler makes vectors of. */
#include "backend/exact.h"

#include <math.h>

#include "backend/convert.h"

static float added_up(const float partial[EXACT_STRIDE])
{
    float lane[EXACT_LANES];
    for (int i = 0; i < EXACT_LANES; i++) {
        const float *four = partial + i * EXACT_EACH;
        lane[i] = (four[0] + four[1]) + (four[2] + four[3]);
    }
    for (int half = EXACT_LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

void exact_norm(float *out, const float *x, const float *norm, size_t n, float eps)
{
    float partial[EXACT_STRIDE] = {0};
    for (size_t first = 0; first < n; first += EXACT_STRIDE)
        for (size_t i = 0; i < EXACT_STRIDE && first + i < n; i++)
            partial[i] += x[first + i] * x[first + i];
    const float scale = 1 / sqrtf(added_up(partial) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * (scale * norm[i]);
}

static void add_products(float partial[EXACT_STRIDE], const float *normed, const char *row,
                         size_t n)
{
    uint16_t piece[EXACT_STRIDE];
    memcpy(piece, row, n * sizeof(*piece));
    for (size_t i = 0; i < n; i++)
        partial[i] += normed[i] * bf16_float(piece[i]);
}

float exact_logit(const float *normed, const void *row, size_t n)
{
    float partial[EXACT_STRIDE] = {0};
    const char *at = row;
    size_t whole = n / EXACT_STRIDE * EXACT_STRIDE;
    for (size_t first = 0; first < whole; first += EXACT_STRIDE)
        add_products(partial, normed + first, at + first * sizeof(uint16_t), EXACT_STRIDE);
    add_products(partial, normed + whole, at + whole * sizeof(uint16_t), n - whole);
    return added_up(partial);
}
