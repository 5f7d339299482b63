/* SPDX-License-Identifier: Apache-2.0 */
/* Quantizes rows to int16 in steps of a fraction of the row's length. A sum of products of two such
 * rows is at most the product of their lengths (Cauchy-Schwarz), so no int32 overflows if the
 * lengths are chosen such that this product fits; sums are exact and equal in any order. A VNNI
 * instruction does twice as many multiply-adds as one of float32, and as many as one of BF16. AVX2
 * needs two instructions instead, but a core runs more of them in parallel, so AVX2 reaches one and
 * a half times the rate of float32. The rounding error is a small part of BF16's: BF16 keeps 8 bits
 * of each number, while most of 128 numbers in steps of 1/26000 of their length keep 11 bits. */
#ifndef EY_KERNELS_CPU_INT16_TMPL_H
#define EY_KERNELS_CPU_INT16_TMPL_H

#include "kernels/cpu/common/simd_tmpl.h"

/* Returns the sum of the squares of factor · x[n], and in *largest the largest
 * magnitude of factor · x[n]. */
INLINE float sum_squares(float *largest, const float *x, size_t n, float factor)
{
    vf max_length = {0}, squares = {0};
    for (size_t i = 0; i < n; i += LANES) {
        const vf part = (vf)load_padded(x, i, n) * splat(factor);
        max_length = max_vf(max_length, max_vf(part, -part));
        squares += part * part;
    }
    *largest = max_lane(max_length);
    return sum_lanes(squares);
}

/* Returns the step for quantizing x[n], and in *per_step the factor that turns numbers into steps.
 * The length of x is then at most `max_length` steps and its largest number at most 32767. Returns
 * 0 if all numbers are 0 (or below 1e-30, which is as good as 0), NaN if one of them is not finite.
 */
INLINE float quantization_step(float *per_step, const float *x, size_t n, float max_length)
{
    float top, squares = sum_squares(&top, x, n, 1), unit = 1;
    if (!(squares > 1e-20f && squares < 1e30f)) { /* may have overflowed or underflowed */
        unit = top > 1e-30f ? top : 1;
        squares = sum_squares(&top, x, n, 1 / unit);
    }
    const float length = sqrtf(squares), step = length / max_length > top * (1.0f / INT16_MAX)
                                                    ? length / max_length
                                                    : top * (1.0f / INT16_MAX);
    const bool is_nonzero = squares >= 0 && step * unit > 1e-35f;
    *per_step = is_nonzero ? 1 / step / unit : 0;
    return is_nonzero ? step * unit : squares >= 0 ? 0 : NAN;
}

#if LANES == 16
typedef __m512i int_vector; /* LANES integers, or pairs of int16 */
typedef __m256i short_vector;

INLINE short_vector to_int16(vf x, float per_step)
{
    return _mm512_cvtepi32_epi16(_mm512_cvtps_epi32((__m512)(x * splat(per_step))));
}

INLINE int_vector join_halves(short_vector first, short_vector second)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

INLINE vf int_to_vf(int_vector v)
{
    return (vf)_mm512_cvtepi32_ps(v);
}

/* Adds the products of pairs to the sums. This is inline assembly, because compilers copy sums back
 * and forth for the intrinsic function. */
INLINE int_vector dot_accumulate(int_vector sum, int_vector a, int_vector b)
{
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
}

/* Adds the products with one pair in memory, which all lanes share. */
INLINE int_vector dot_accumulate_pair(int_vector sum, int_vector a, const uint32_t *pair)
{
    __asm__("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(a), "m"(*pair));
    return sum;
}
#else
typedef __m256i int_vector;
typedef __m128i short_vector;

INLINE short_vector to_int16(vf x, float per_step)
{
    const __m256i words = _mm256_cvtps_epi32((__m256)(x * splat(per_step)));
    return _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

INLINE int_vector join_halves(short_vector first, short_vector second)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
}

INLINE vf int_to_vf(int_vector v)
{
    return (vf)_mm256_cvtepi32_ps(v);
}

INLINE int_vector dot_accumulate(int_vector sum, int_vector a, int_vector b)
{
#ifdef __AVXVNNI__
    __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum) : "x"(a), "xm"(b));
#else
    __asm__("vpaddd %1, %0, %0"
            : "+x"(sum)
            : "x"(_mm256_madd_epi16(a, b))); /* otherwise compilers run out of registers */
#endif
    return sum;
}

INLINE int_vector dot_accumulate_pair(int_vector sum, int_vector a, const uint32_t *pair)
{
    return dot_accumulate(sum, a, _mm256_set1_epi32((int)*pair));
}
#endif

#endif
