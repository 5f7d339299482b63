/* SPDX-License-Identifier: Apache-2.0 */
/* Int4: each value of a group (32, 64 or 128 columns of a row) becomes (q - zero) * scale, with q
 * and zero in 0 .. 15.
 *
 * The search minimizes the sum of h * (x - d * s)^2 over scale s and zero, where d = q - zero. For
 * given d the best scale is s = sum(h*x*d) / sum(h*d^2), which leaves sum(h*x^2) - sum(h*x*d)^2 /
 * sum(h*d^2). So values are quantized with several trial scales and zeros, the trial with the
 * largest sum(h*x*d)^2 / sum(h*d^2) wins, its s is rounded to BF16, and q and s are refined
 * alternately while that helps.
 *
 * Sums run in sixteen lanes in a fixed order, so all machines and instruction sets compute the same
 * bits. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "tensor/dequantize.h"
#include "convert/quantize_internal.h"

enum { LANES = 16, REFINE_STEPS = 4 };

/* As in ref_linear.c, functions are compiled for several instruction sets; the best one that the
 * machine has is chosen when the program starts. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__has_feature)
#define WIDEST __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define WIDEST
#endif
#define INLINE static inline __attribute__((always_inline))

#define MIN_NORMAL 0x1p-126f

/* A trial scale is the group's range / t: t > 15 clips the ends, t < 15 leaves some of the 16
 * values unused. Two zeros are tried: the one that balances both ends, and the next. */
static const float trial_ranges[] = {10.5f, 11.75f, 12.75f, 13.5f, 14.25f,
                                     15,    15.75f, 16.75f, 18,    19.75f};
enum { TRIALS = sizeof(trial_ranges) / sizeof(trial_ranges[0]) };

/* A group, divided by its largest magnitude. */
struct int4_group_values {
    float x[INT4_MAX_GROUP], hx[INT4_MAX_GROUP], h[INT4_MAX_GROUP];
    float low, high; /* smallest and largest of x and 0 */
    int n;
};

INLINE float int4_lanes_sum(float part[LANES])
{
    for (int width = LANES / 2; width; width /= 2)
        for (int i = 0; i < width; i++)
            part[i] += part[i + width];
    return part[0];
}

/* Returns d as a float: the nearest integer, half to even, in -zero .. 15 - zero. */
INLINE float round_to_int4(float v, float zero)
{
    v = (v + 0x1.8p23f) - 0x1.8p23f;
    v = v < -zero ? -zero : v;
    return v > 15 - zero ? 15 - zero : v;
}

/* sum(h*x*d) and sum(h*d^2) for a scale and a zero. */
struct least_squares {
    float xd, dd;
};

INLINE struct least_squares least_squares_sums(const struct int4_group_values *g, float inverse,
                                               float zero)
{
    float xd[LANES] = {0}, dd[LANES] = {0};
    for (int i = 0; i < g->n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float d = round_to_int4(g->x[i + j] * inverse, zero);
            xd[j] += g->hx[i + j] * d;
            dd[j] += g->h[i + j] * d * d;
        }
    return (struct least_squares){int4_lanes_sum(xd), int4_lanes_sum(dd)};
}

INLINE float quantization_noise(const struct int4_group_values *g, float scale, float zero)
{
    float noise[LANES] = {0}, inverse = 1 / scale;
    for (int i = 0; i < g->n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float off = g->x[i + j] - scale * round_to_int4(g->x[i + j] * inverse, zero);
            noise[j] += g->h[i + j] * off * off;
        }
    return int4_lanes_sum(noise);
}

static float round_to_bf16(float value)
{
    return bf16_to_f32(f32_to_bf16(value));
}

/* The best choice so far. During the search the scale is for the group divided by its largest
 * magnitude, afterwards for the group itself, rounded to BF16. */
struct scale_choice {
    float scale, zero, noise;
};

INLINE float zero_point_of(const struct int4_group_values *g, float inverse)
{
    float zero = floorf(7.5f - (g->low + g->high) / 2 * inverse);
    return zero < 0 ? 0 : zero > 15 ? 15 : zero;
}

WIDEST static struct scale_choice search_scale(const struct int4_group_values *g, float max_abs)
{
    struct scale_choice best = {0, 0, 0};
    float best_gain = -1;
    for (int t = 0; t < TRIALS; t++) {
        const float inverse = trial_ranges[t] / (g->high - g->low),
                    first = zero_point_of(g, inverse);
        for (float zero = first; zero <= first + 1 && zero <= 15; zero++) {
            struct least_squares f = least_squares_sums(g, inverse, zero);
            float gain = f.dd > 0 && f.xd > 0 ? f.xd * f.xd / f.dd : 0;
            if (gain > best_gain) {
                best_gain = gain;
                best.zero = zero;
                best.scale = gain > 0 ? f.xd / f.dd : 1 / inverse;
            }
        }
    }
    best.scale = fmaxf(round_to_bf16(best.scale * max_abs), MIN_NORMAL);
    best.noise = quantization_noise(g, best.scale / max_abs, best.zero);
    for (int i = 0; i < REFINE_STEPS; i++) {
        struct least_squares f = least_squares_sums(g, max_abs / best.scale, best.zero);
        if (!(f.dd > 0 && f.xd > 0)) break;
        float next = fmaxf(round_to_bf16(f.xd / f.dd * max_abs), MIN_NORMAL),
              noise = quantization_noise(g, next / max_abs, best.zero);
        if (next == best.scale || !(noise < best.noise)) break;
        best.scale = next;
        best.noise = noise;
    }
    return best;
}

static float max_magnitude(const float *x, int n)
{
    float max_abs = 0;
    for (int i = 0; i < n; i++)
        max_abs = fmaxf(max_abs, fabsf(x[i]));
    return max_abs;
}

struct int4_scale quantize_int4_group(uint8_t *quantized, double *noise, const float *x,
                                      const float *h, int n)
{
    enum { MIDDLE = 8 };
    struct int4_group_values g = {.n = n};
    const float max_abs = max_magnitude(x, n);
    *noise = 0;
    if (!(max_abs >= 0x1p-100f)) { /* an all-zero group */
        for (int i = 0; i < n; i++)
            quantized[i] = MIDDLE;
        return (struct int4_scale){f32_to_bf16(MIN_NORMAL), MIDDLE};
    }
    for (int i = 0; i < n; i++) {
        g.x[i] = x[i] / max_abs;
        g.h[i] = h ? h[i] : 1;
        g.hx[i] = g.x[i] * g.h[i];
        g.low = fminf(g.low, g.x[i]);
        g.high = fmaxf(g.high, g.x[i]);
    }
    const struct scale_choice best = search_scale(&g, max_abs);
    const float inverse = 1 / (best.scale / max_abs);
    for (int i = 0; i < n; i++)
        quantized[i] = (uint8_t)(round_to_int4(g.x[i] * inverse, best.zero) + best.zero);
    *noise = (double)best.noise * max_abs * max_abs;
    return (struct int4_scale){f32_to_bf16(best.scale), (uint8_t)best.zero};
}

static double weighted_signal(const float *x, const float *h, int n)
{
    double signal = 0;
    for (int i = 0; i < n; i++)
        signal += (double)x[i] * x[i] * (h ? h[i] : 1);
    return signal;
}

bool quantize_int4_row(const struct quantize_job *m, int64_t row, uint8_t *quantized,
                       struct int4_scale *out, struct quantize_error *error)
{
    float x[INT4_MAX_GROUP];
    uint8_t q[INT4_MAX_GROUP];
    const int n = m->group_size;
    for (int64_t first = 0; first < m->cols; first += n) {
        const float *h = m->importance ? m->importance + first : NULL;
        double noise;
        dequantize_columns(x, m->source, row, first, (size_t)n);
        for (int i = 0; i < n; i++)
            if (!(fabsf(x[i]) <= FLT_MAX)) return false;
        out[first / n] = quantize_int4_group(q, &noise, x, h, n);
        for (int i = 0; i < n; i += 2)
            quantized[(first + i) / 2] = (uint8_t)(q[i] | q[i + 1] << 4);
        error->noise += noise;
        error->signal += weighted_signal(x, h, n);
    }
    return true;
}
