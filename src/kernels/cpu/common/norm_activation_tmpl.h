/* SPDX-License-Identifier: Apache-2.0 */
/* Row kernels: bias and accumulation, norms, activations. */
#ifndef EY_KERNELS_CPU_NORM_ACTIVATION_TMPL_H
#define EY_KERNELS_CPU_NORM_ACTIVATION_TMPL_H

#include "kernels/cpu/common/exp_tmpl.h"

static void accumulate(float *y, const float *sums, const float *more, const float *bias, size_t n,
                       bool add)
{
    for (size_t i = 0; i < n; i++) {
        float value = sums[i];
        if (more) value += more[i];
        if (bias) value += bias[i];
        y[i] = add ? y[i] + value : value;
    }
}

/* Uses four independent sums to hide the latency of adds. */
static float sum_shifted(const float *x, size_t n, float minus, bool squares)
{
    vf acc[4] = {{0}, {0}, {0}, {0}}, shift = splat(minus);
    float tail = 0;
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int u = 0; u < 4; u++) {
            vf v = load_vf(x + i + (size_t)u * LANES) - shift;
            acc[u] += squares ? v * v : v;
        }
    for (; i < n; i++)
        tail += squares ? (x[i] - minus) * (x[i] - minus) : x[i] - minus;
    return sum_lanes((acc[0] + acc[1]) + (acc[2] + acc[3])) + tail;
}

static void rms_norm(float *y, const float *x, const float *w, size_t n, float eps)
{
    float scale = 1.0f / sqrtf(sum_shifted(x, n, 0, true) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = w[i] * (x[i] * scale);
}

static void layer_norm(float *y, const float *x, const float *w, const float *b, size_t n,
                       float eps)
{
    float mean = sum_shifted(x, n, 0, false) / (float)n,
          scale = 1.0f / sqrtf(sum_shifted(x, n, mean, true) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * scale * w[i] + b[i];
}

INLINE vf abs_vf(vf x)
{
    return (vf)((vi)x & 0x7fffffff);
}

/* 1 / (1 + e^-x) without overflow, by e^-|x| for both signs. */
INLINE vf sigmoid(vf x)
{
    vf e = exp_vf(-abs_vf(x)), one = splat(1);
    vi positive = x > 0;
    vf top = (vf)(((vi)one & positive) | ((vi)e & ~positive));
    return top / (1.0f + e);
}

/* Applies a vector function to n floats; the tail goes through a padded copy. */
#define EACH(x, n, expression)                                             \
    do {                                                                   \
        size_t each_i = 0;                                                 \
        for (; each_i + LANES <= (n); each_i += LANES) {                   \
            vf v = load_vf((x) + each_i);                                  \
            store_vf((x) + each_i, expression);                            \
        }                                                                  \
        if (each_i < (n)) {                                                \
            float each_tail[LANES] = {0};                                  \
            memcpy(each_tail, (x) + each_i, ((n)-each_i) * sizeof(float)); \
            vf v = load_vf(each_tail);                                     \
            store_vf(each_tail, expression);                               \
            memcpy((x) + each_i, each_tail, ((n)-each_i) * sizeof(float)); \
        }                                                                  \
    } while (0)

static void silu_mul_row(float *gate, const float *up, size_t n)
{
    EACH(gate, n, v * sigmoid(v));
    for (size_t i = 0; i < n; i++)
        gate[i] *= up[i];
}

/* 0.5 z (1 + tanh(u)) = z sigmoid(2u) */
static void gelu_tanh_row(float *x, size_t n)
{
    EACH(x, n, v * sigmoid(1.5957691216f * (v + 0.044715f * v * v * v)));
}

static void gelu_erf_row(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.7071067811865476f));
}

#endif
