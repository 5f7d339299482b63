/* SPDX-License-Identifier: Apache-2.0 */
/* Four bits: of a group of 32, 64 or 128 columns of a row each value becomes (code - zero) · scale,
 * code and zero 0 .. 15.
 *
 * Looked for are the scale s and the zero that make the sum of h · (x - d · s)² least, d = code -
 * zero. For given d the best scale is s = Σ h·x·d / Σ h·d², and the sum is then Σ h·x² - (Σ h·x·d)²
 * / Σ h·d². So codes are made with several trial scales and zeros, those that reach the largest (Σ
 * h·x·d)² / Σ h·d² are kept, their s becomes BF16, and codes and s are made again from each other
 * while that helps.
 *
 * Sums run in sixteen lanes in an order of their own, so every machine and instruction set finds
 * the same bits. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "backend/convert.h"
#include "quantize/blocks.h"

enum { LANES = 16, AGAIN = 4 };

/* As in ref_linear.c: one source, the widest registers that the machine has. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__has_feature)
#define WIDEST __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define WIDEST
#endif
#define INLINE static inline __attribute__((always_inline))

#define LEAST_NORMAL 0x1p-126f

/* A trial scale is the group's range / t: beyond 15, its ends are cut off; below, some codes are
 * not used. The zero then lies so that both ends lose or leave the same, or next to it. */
static const float trial[] = {10.5f, 11.75f, 12.75f, 13.5f, 14.25f, 15, 15.75f, 16.75f, 18, 19.75f};
enum { TRIALS = sizeof(trial) / sizeof(trial[0]) };

/* A group, times the reciprocal of its largest magnitude. */
struct group {
    float x[INT4_MOST_GROUP], hx[INT4_MOST_GROUP], h[INT4_MOST_GROUP];
    float low, high; /* least and largest of x, or 0 */
    int n;
};

INLINE float sum(float part[LANES])
{
    for (int width = LANES / 2; width; width /= 2)
        for (int i = 0; i < width; i++)
            part[i] += part[i + width];
    return part[0];
}

/* d of a value, as a number: the nearest integer, to even, from -zero to 15 - zero. */
INLINE float nearest(float v, float zero)
{
    v = (v + 0x1.8p23f) - 0x1.8p23f;
    v = v < -zero ? -zero : v;
    return v > 15 - zero ? 15 - zero : v;
}

/* Σ h·x·d and Σ h·d² of the codes that go with a scale and a zero. */
struct fit {
    float along, norm;
};

INLINE struct fit fit_of(const struct group *g, float inverse, float zero)
{
    float along[LANES] = {0}, norm[LANES] = {0};
    for (int i = 0; i < g->n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float d = nearest(g->x[i + j] * inverse, zero);
            along[j] += g->hx[i + j] * d;
            norm[j] += g->h[i + j] * d * d;
        }
    return (struct fit){sum(along), sum(norm)};
}

INLINE float noise_of(const struct group *g, float scale, float zero)
{
    float noise[LANES] = {0}, inverse = 1 / scale;
    for (int i = 0; i < g->n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float off = g->x[i + j] - scale * nearest(g->x[i + j] * inverse, zero);
            noise[j] += g->h[i + j] * off * off;
        }
    return sum(noise);
}

static float rounded(float value)
{
    return bf16_float(nearest_bf16(value));
}

/* What is best so far; scales are those of the group as it is, BF16 numbers at the end. */
struct choice {
    float scale, zero, noise;
};

INLINE float zero_of(const struct group *g, float inverse)
{
    float zero = floorf(7.5f - (g->low + g->high) / 2 * inverse);
    return zero < 0 ? 0 : zero > 15 ? 15 : zero;
}

WIDEST static struct choice best_choice(const struct group *g, float most)
{
    struct choice best = {0, 0, 0};
    float best_gain = -1;
    for (int t = 0; t < TRIALS; t++) {
        const float inverse = trial[t] / (g->high - g->low), first = zero_of(g, inverse);
        for (float zero = first; zero <= first + 1 && zero <= 15; zero++) {
            struct fit f = fit_of(g, inverse, zero);
            float gain = f.norm > 0 && f.along > 0 ? f.along * f.along / f.norm : 0;
            if (gain > best_gain) {
                best_gain = gain;
                best.zero = zero;
                best.scale = gain > 0 ? f.along / f.norm : 1 / inverse;
            }
        }
    }
    best.scale = fmaxf(rounded(best.scale * most), LEAST_NORMAL);
    best.noise = noise_of(g, best.scale / most, best.zero);
    for (int i = 0; i < AGAIN; i++) {
        struct fit f = fit_of(g, most / best.scale, best.zero);
        if (!(f.norm > 0 && f.along > 0)) break;
        float next = fmaxf(rounded(f.along / f.norm * most), LEAST_NORMAL),
              noise = noise_of(g, next / most, best.zero);
        if (next == best.scale || !(noise < best.noise)) break;
        best.scale = next;
        best.noise = noise;
    }
    return best;
}

static float largest(const float *x, int n)
{
    float most = 0;
    for (int i = 0; i < n; i++)
        most = fmaxf(most, fabsf(x[i]));
    return most;
}

struct int4_multiplier int4_group(uint8_t *codes, double *noise, const float *x, const float *h,
                                  int n)
{
    enum { MIDDLE = 8 };
    struct group g = {.n = n};
    const float most = largest(x, n);
    *noise = 0;
    if (!(most >= 0x1p-100f)) { /* nothing there */
        for (int i = 0; i < n; i++)
            codes[i] = MIDDLE;
        return (struct int4_multiplier){nearest_bf16(LEAST_NORMAL), MIDDLE};
    }
    for (int i = 0; i < n; i++) {
        g.x[i] = x[i] / most;
        g.h[i] = h ? h[i] : 1;
        g.hx[i] = g.x[i] * g.h[i];
        g.low = fminf(g.low, g.x[i]);
        g.high = fmaxf(g.high, g.x[i]);
    }
    const struct choice best = best_choice(&g, most);
    const float inverse = 1 / (best.scale / most);
    for (int i = 0; i < n; i++)
        codes[i] = (uint8_t)(nearest(g.x[i] * inverse, best.zero) + best.zero);
    *noise = (double)best.noise * most * most;
    return (struct int4_multiplier){nearest_bf16(best.scale), (uint8_t)best.zero};
}

static double signal_of(const float *x, const float *h, int n)
{
    double signal = 0;
    for (int i = 0; i < n; i++)
        signal += (double)x[i] * x[i] * (h ? h[i] : 1);
    return signal;
}

bool int4_row(const struct making *m, int64_t row, uint8_t *codes, struct int4_multiplier *out,
              struct quantize_error *error)
{
    float x[INT4_MOST_GROUP];
    uint8_t code[INT4_MOST_GROUP];
    const int n = m->group;
    for (int64_t first = 0; first < m->cols; first += n) {
        const float *h = m->importance ? m->importance + first : NULL;
        double noise;
        weight_values(x, m->stored, row, first, (size_t)n);
        for (int i = 0; i < n; i++)
            if (!(fabsf(x[i]) <= FLT_MAX)) return false;
        out[first / n] = int4_group(code, &noise, x, h, n);
        for (int i = 0; i < n; i += 2)
            codes[(first + i) / 2] = (uint8_t)(code[i] | code[i + 1] << 4);
        error->noise += noise;
        error->signal += signal_of(x, h, n);
    }
    return true;
}
