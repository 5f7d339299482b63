/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV in float32: few rows of x against weights in place, which takes as long as reading the
 * weights. Packed rows lie one after the other. */
#ifndef EY_KERNELS_CPU_GEMV_F32_TMPL_H
#define EY_KERNELS_CPU_GEMV_F32_TMPL_H

#include "kernels/cpu/gemv/gemv_sums_tmpl.h"
#ifdef HAVE_VBMI
#include "kernels/cpu/gemv/gemv_fp8_vbmi_tmpl.h"
#define GEMV_STREAMS_FP8 gemv_streams_fp8_lut
#else
#define GEMV_STREAMS_FP8 gemv_streams_f32
#endif
#if LANES >= 8
#include "kernels/cpu/common/bf12_decode_tmpl.h"
#endif

/* ---- packing ---- */

enum { STEP_VECTORS = CPU_K_STEP / LANES };

/* CPU_K_STEP columns of a row, in the order of the weights. */
INLINE void x_row_step(vf out[STEP_VECTORS], const struct packing_args *p, int row, size_t k)
{
    for (size_t i = 0; i < STEP_VECTORS; i++)
        out[i] = x_lanes(p, row, k + i * LANES);
#ifdef HAVE_VBMI
    if (p->fp8_order) f32_in_fp8_order(out);
#endif
}

/* Rows one after the other. */
static void pack_gemv_f32(void *out, const struct packing_args *p)
{
    for (int row = 0; row < p->n; row++)
        for (size_t k = 0; k < p->padded; k += CPU_K_STEP) {
            vf x[STEP_VECTORS];
            const float factor = p->scale && k < p->width
                                     ? p->scale[k / FP8_BLOCK] * FP8_LOAD_FACTOR
                                     : 1;
            x_row_step(x, p, row, k);
            for (size_t i = 0; i < STEP_VECTORS; i++)
                store_vf((float *)out + (size_t)row * p->padded + k + i * LANES, x[i] * factor);
        }
}

/* ---- rows of any dtype ---- */

INLINE void gemv_streams_f32(float *out, size_t out_stride, const struct gemv_args *t,
                             struct weight_streams p, enum dtype dtype, int n)
{
    vf acc[MAX_WEIGHT_STREAMS * MAX_GEMV_ROWS];
    magnitudes most = {0};
    size_t size = dtype_size(dtype);
    const uint8_t *w[MAX_WEIGHT_STREAMS];
    stream_pointers(w, &p, t);
    UNROLL
    for (int i = 0; i < p.n * n; i++)
        acc[i] = (vf){0};
    for (size_t k = 0; k < t->k; k += CPU_K_STEP) {
        prefetch_streams(w, p.n, k * size, size);
        if (dtype == DTYPE_F8_E4M3) {
            UNROLL
            for (int a = 0; a < p.n; a++)
                most = max_magnitudes(most, w[a] + k);
        }
        for (size_t u = k; u < k + CPU_K_STEP; u += STEP)
            UNROLL
        for (int first = 0; first < p.n; first += ROWS_DECODED) {
            vf wv[ROWS_DECODED][2];
            int count = p.n - first < ROWS_DECODED ? p.n - first : ROWS_DECODED;
            UNROLL
            for (int a = 0; a < count; a++)
                load_weight_pair(wv[a], dtype, w[first + a] + u * size);
            UNROLL
            for (int b = 0; b < n; b++) {
                const float *x = (const float *)t->x + (size_t)b * t->k + u;
                vf x0 = load_vf(x), x1 = load_vf(x + LANES);
                UNROLL
                for (int a = 0; a < count; a++)
                    acc[b * p.n + first + a] += wv[a][0] * x0;
                UNROLL
                for (int a = 0; a < count; a++)
                    acc[b * p.n + first + a] += wv[a][1] * x1;
            }
        }
    }
    store_streams(out, out_stride, acc, dtype == DTYPE_F8_E4M3 && has_nan_e4m3(most) ? w : NULL, &p,
                  t, n);
}

/* ---- BF12 blocks ---- */

#if LANES >= 8

/* Vector i of 64 columns. */
INLINE vf bf16_words_to_f32(const bf12_vector *words, int i)
{
#if LANES == 16
    return (vf)_mm512_slli_epi32(
        _mm512_cvtepu16_epi32(i % 2 ? _mm512_extracti64x4_epi64(words[i / 2], 1)
                                    : _mm512_castsi512_si256(words[i / 2])),
        16);
#else
    const __m256i none = _mm256_setzero_si256();
    return (vf)(i % 2 ? _mm256_unpackhi_epi16(none, words[i / 2])
                      : _mm256_unpacklo_epi16(none, words[i / 2]));
#endif
}

enum { BF12_ROWS_AT_ONCE = 1 };

/* acc[n, places] += columns k .. k + CPU_K_STEP - 1 of the n rows of x times those of `count`
 * weight rows, which are from place `first` on. */
INLINE void gemv_step_f32(vf *acc, const bf12_vector (*wv)[BF12_VECTORS], const struct gemv_args *t,
                          size_t k, const struct weight_streams *p, int first, int count, int n)
{
    UNROLL
    for (int a = 0; a < count; a++) {
        const float *x = (const float *)t->x + k;
        __asm__(""
                : "+r"(x)); /* or compilers load all columns for two weight rows, and have no room
                               for them */
        UNROLL
        for (int i = 0; i < CPU_K_STEP / LANES; i++) {
            const vf w = bf16_words_to_f32(wv[a], i);
            UNROLL
            for (int b = 0; b < n; b++)
                acc[b * p->n + first + a] += w * load_vf(x + (size_t)b * t->k + (size_t)i * LANES);
        }
    }
}

static void gemv_uncompressed_f32(float *out, size_t out_stride, const struct gemv_args *t)
{
    GEMV_INSTANCES(gemv_streams_f32, DTYPE_BF16)
}

#define GEMV_BF12_STEP gemv_step_f32
#define GEMV_BF12_UNCOMPRESSED gemv_uncompressed_f32
#include "kernels/cpu/gemv/gemv_bf12_tmpl.h"

#endif

/* ---- four-bit weights ---- */

/* LANES four-bit values as numbers. */
INLINE vf load_int4(const uint8_t *p)
{
#if LANES == 16
    __m512i q = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(const void *)p));
    q = _mm512_and_si512(_mm512_or_si512(q, _mm512_slli_epi64(q, 28)), _mm512_set1_epi32(15));
    return (vf)_mm512_cvtepi32_ps(q);
#elif LANES == 8
    int32_t four;
    memcpy(&four, p, sizeof(four));
    __m256i q = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four));
    q = _mm256_and_si256(_mm256_or_si256(q, _mm256_slli_epi64(q, 28)), _mm256_set1_epi32(15));
    return (vf)_mm256_cvtepi32_ps(q);
#else
    float f[LANES];
    for (size_t i = 0; i < LANES; i++)
        f[i] = (float)(p[i / 2] >> (i % 2 * 4) & 15);
    return load_vf(f);
#endif
}

INLINE void gemv_streams_int4_f32(float *out, size_t out_stride, const struct gemv_args *t,
                                  struct weight_streams p, enum dtype dtype, int n)
{
    const size_t group = (size_t)t->weight->tensor.group_size;
    struct int4_row w[MAX_WEIGHT_STREAMS];
    vf acc[MAX_WEIGHT_STREAMS * MAX_GEMV_ROWS];
    (void)dtype;
    UNROLL
    for (int a = 0; a < p.n; a++)
        w[a] = int4_row_at(t->weight, t->row + stream_row(&p, t, a));
    UNROLL
    for (int i = 0; i < p.n * n; i++)
        acc[i] = (vf){0};
    for (size_t k = 0; k < t->k; k += group)
        UNROLL
    for (int a = 0; a < p.n; a++) {
        int4_enter_group(&w[a], k / group);
        if (k % LINE_NIBBLES == 0) PREFETCH_WEIGHTS(w[a].nibbles + k / 2);
        for (size_t u = k; u < k + group; u += LANES) {
            vf wv = load_int4(w[a].nibbles + u / 2) * splat(w[a].scale) + splat(w[a].offset);
            UNROLL
            for (int b = 0; b < n; b++)
                acc[b * p.n + a] += wv * load_vf((const float *)t->x + (size_t)b * t->k + u);
        }
    }
    store_streams(out, out_stride, acc, NULL, &p, t, n);
}

/* ---- all ---- */

/* Of weights that few models have: 4, 2 or 1 rows at once. What is read again is near. */
INLINE void gemv_rare_f32(float *out, size_t out_stride, const struct gemv_args *all,
                          enum dtype dtype)
{
    struct gemv_args part = *all;
    const struct gemv_args *t = &part;
    for (int left = all->n_x; left > 0; left -= part.n_x, out += (size_t)part.n_x * out_stride) {
        part.x = (const float *)all->x + (size_t)(all->n_x - left) * all->k;
        part.n_x = left >= 4 ? 4 : left >= 2 ? 2 : 1;
        switch (part.n_x) {
        case 1: GEMV_INSTANCE(gemv_streams_f32, dtype, 1);
        case 2: GEMV_INSTANCE(gemv_streams_f32, dtype, 2);
        default: GEMV_INSTANCE(gemv_streams_f32, dtype, 4);
        }
    }
}

static void gemv_f32(float *out, size_t out_stride, const struct gemv_args *t)
{
    switch (t->dtype) {
    case DTYPE_F8_E4M3: GEMV_INSTANCES(GEMV_STREAMS_FP8, DTYPE_F8_E4M3) break;
    case DTYPE_I8: GEMV_INSTANCES(gemv_streams_f32, DTYPE_I8) break;
    case DTYPE_INT4: GEMV_INSTANCES(gemv_streams_int4_f32, DTYPE_INT4) break;
#if LANES >= 8
    case DTYPE_BF16:
        (t->weight->bf12 ? gemv_bf12 : gemv_uncompressed_f32)(out, out_stride, t);
        break;
#else
    case DTYPE_BF16: GEMV_INSTANCES(gemv_streams_f32, DTYPE_BF16) break;
#endif
    case DTYPE_F16: gemv_rare_f32(out, out_stride, t, DTYPE_F16); break;
    default: gemv_rare_f32(out, out_stride, t, DTYPE_F32); break;
    }
}

#endif
