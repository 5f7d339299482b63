/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of LANES floats, their sums and maxima, transposition. The including file sets LANES to
 * 4, 8 or 16, once per translation unit. */
#ifndef EY_KERNELS_CPU_SIMD_TMPL_H
#define EY_KERNELS_CPU_SIMD_TMPL_H

#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu_kernels.h"
#include "tensor/dequantize.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

/* Sums stay in registers only if every loop over them is unrolled and their address is never
 * taken. */
#define UNROLL _Pragma("GCC unroll 32")

typedef float vf __attribute__((vector_size(LANES * 4)));
typedef int32_t vi __attribute__((vector_size(LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(LANES * 4)));
typedef uint16_t vh __attribute__((vector_size(LANES * 2)));

INLINE vf splat(float x)
{
    return x - (vf){0};
}

INLINE vf load_vf(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof(v));
    return v;
}

INLINE void store_vf(float *p, vf v)
{
    memcpy(p, &v, sizeof(v));
}

/* Stores the first n lanes. */
INLINE void store_first(float *p, vf v, int n)
{
#if LANES == 16
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#elif LANES == 8
    _mm256_maskstore_ps(
        p, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
        (__m256)v);
#else
    for (int i = 0; i < n && i < LANES; i++)
        p[i] = v[i];
#endif
}

INLINE vf load_bf16(const uint8_t *p)
{
    vh bits;
    memcpy(&bits, p, sizeof(bits));
    return (vf)(__builtin_convertvector(bits, vu) << 16);
}

/* Adds lanes in halves, then quarters, and so on: the same order for every caller. */
INLINE float sum_lanes(vf v)
{
#if LANES == 16
    return _mm512_reduce_add_ps((__m512)v);
#elif LANES == 8
    __m128 half = _mm_add_ps(_mm256_castps256_ps128((__m256)v),
                             _mm256_extractf128_ps((__m256)v, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
#else
    float half[LANES];
    memcpy(half, &v, sizeof(v));
    for (int width = LANES / 2; width; width /= 2)
        for (int i = 0; i < width; i++)
            half[i] += half[i + width];
    return half[0];
#endif
}

/* Sums the lanes of several vectors: halves of two vectors are added in one step, then quarters of
 * four, and so on, in sum_lanes()'s order. The first `count` lanes are the sums; v is
 * overwritten. */
#if LANES == 16
#define EIGHTS(a, b)                                                                            \
    __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),      \
        __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, \
                                31)
#define FOURS(a, b)                                                                          \
    __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27), \
        __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)
#define TWOS(a, b)                                                                           \
    __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29), \
        __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31)
#define ONES(a, b)                                                                            \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), \
        __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#elif LANES == 8
#define FOURS(a, b)                                          \
    __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11), \
        __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#define TWOS(a, b)                                           \
    __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13), \
        __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15)
#define ONES(a, b)                                            \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14), \
        __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#else
#define TWOS(a, b) \
    __builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7)
#define ONES(a, b) \
    __builtin_shufflevector(a, b, 0, 2, 4, 6), __builtin_shufflevector(a, b, 1, 3, 5, 7)
#endif

INLINE vf added(vf low, vf high)
{
    return low + high;
}

#define PAIR_UP(step)                                                           \
    for (int i = 0; 2 * i < count; i++)                                         \
        v[i] = added(step(v[2 * i], v[2 * i + 1 < count ? 2 * i + 1 : 2 * i])); \
    count = (count + 1) / 2;

INLINE vf sum_lanes_of(vf *v, int count)
{
#if LANES == 16
    PAIR_UP(EIGHTS)
#endif
#if LANES >= 8
    PAIR_UP(FOURS)
#endif
    PAIR_UP(TWOS)
    PAIR_UP(ONES)
    return v[0];
}

INLINE float max_lane(vf v)
{
#if LANES == 16
    return _mm512_reduce_max_ps((__m512)v);
#elif LANES == 8
    __m128 half = _mm_max_ps(_mm256_castps256_ps128((__m256)v),
                             _mm256_extractf128_ps((__m256)v, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
#else
    float half[LANES];
    memcpy(half, &v, sizeof(v));
    for (int width = LANES / 2; width; width /= 2)
        for (int i = 0; i < width; i++)
            half[i] = half[i + width] > half[i] ? half[i + width] : half[i];
    return half[0];
#endif
}

/* a > b ? a : b */
INLINE vf max_vf(vf a, vf b)
{
#if LANES == 16
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif LANES == 8
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
    vi larger = a > b;
    return (vf)(((vi)a & larger) | ((vi)b & ~larger));
#endif
}

INLINE bool any_above(vf v, float limit)
{
#if LANES == 16
    return _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(limit), _CMP_GT_OQ);
#elif LANES == 8
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)v, _mm256_set1_ps(limit), _CMP_GT_OQ));
#else
    bool found = false;
    for (int i = 0; i < LANES; i++)
        found |= v[i] > limit;
    return found;
#endif
}

#if LANES == 16
/* Loads LANES numbers from i on, with zeros from n on. */
INLINE __m512 load_padded(const float *x, size_t i, size_t n)
{
    if (i + LANES <= n) return _mm512_loadu_ps(x + i);
    return i < n ? _mm512_maskz_loadu_ps((__mmask16)((1u << (n - i)) - 1), x + i)
                 : _mm512_setzero_ps();
}
#elif LANES == 8
INLINE __m256 load_padded(const float *x, size_t i, size_t n)
{
    if (i + LANES <= n) return _mm256_loadu_ps(x + i);
    return i < n ? _mm256_maskload_ps(x + i,
                                      _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n - i)),
                                                         _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)))
                 : _mm256_setzero_ps();
}
#endif

/* ---- LANES rows of LANES words become columns ---- */

#if LANES == 16
INLINE void transpose(__m512i r[16])
{
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) { /* quarter l of r[4j + i] is column 4l + i of rows 4j .. 4j+3 */
        __m512i a = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88),
                b = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        __m512i c = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd),
                d = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
        t[i] = _mm512_shuffle_i32x4(a, b, 0x88);
        t[i + 8] = _mm512_shuffle_i32x4(a, b, 0xdd);
        t[i + 4] = _mm512_shuffle_i32x4(c, d, 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(c, d, 0xdd);
    }
    memcpy(r, t, sizeof(t));
}

INLINE void transpose_floats(vf v[LANES])
{
    __m512i r[LANES];
    memcpy(r, v, sizeof(r));
    transpose(r);
    memcpy(v, r, sizeof(r));
}
#elif LANES == 8
INLINE void transpose_floats(vf v[LANES])
{
    __m256 a[LANES], b[LANES];
    for (int i = 0; i < LANES; i += 2) {
        a[i] = _mm256_unpacklo_ps((__m256)v[i], (__m256)v[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps((__m256)v[i], (__m256)v[i + 1]);
    }
    for (int i = 0; i < LANES; i += 4) { /* columns c and c + 4 of rows i .. i+3 */
        b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
        b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
        b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
        b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        v[i] = (vf)_mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        v[i + 4] = (vf)_mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}
#else
INLINE void transpose_floats(vf v[LANES])
{
    vf a = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5),
       b = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5);
    vf c = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7),
       d = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
    v[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    v[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    v[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
    v[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}
#endif

/* Loads LANES columns of a row from k on, with zeros after its end. */
INLINE vf x_lanes(const struct packing_args *p, int row, size_t k)
{
    const float *x = p->x + (size_t)row * p->x_stride;
    float some[LANES] = {0};
    if (k + LANES <= p->width) return load_vf(x + k);
    if (k < p->width) memcpy(some, x + k, (p->width - k) * sizeof(float));
    return load_vf(some);
}

#endif
