/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as int16, all of a row in steps of a part of its length. A sum of products of two such
 * rows is at most the product of their lengths (Cauchy and Schwarz), so where these are chosen for
 * it no int32 overflows, whatever the numbers are; sums are exact and come out alike in any order.
 * VNNI multiplies and adds twice as many an instruction as float32 has lanes, as many as BF16; AVX2
 * alone takes two instructions, of which more go at once, for one and a half times float32's rate.
 * What is lost is a small part of what BF16 loses: that keeps 8 bits of each number, of 128 in
 * steps of a 26000th of their length most keep 11. */

/* The sum of the squares of x[n] times `factor`, and the largest magnitude of these. */
INLINE float squares_of(float *largest, const float *x, size_t n, float factor)
{
    vf most = {0}, squares = {0};
    for (size_t i = 0; i < n; i += LANES) {
        const vf part = (vf)numbers_at(x, i, n) * splat(factor);
        most = max_of(most, max_of(part, -part));
        squares += part * part;
    }
    *largest = lanes_max(most);
    return lanes_sum(squares);
}

/* The step in which the length of x[n] is `most`, or its largest number 32767, and in *per_step
 * what x is multiplied with to be in steps. Nothing but zeros (and what is as good as zero, below
 * 1e-30): 0. With a number among them that is none, NaN. */
INLINE float step_of(float *per_step, const float *x, size_t n, float most)
{
    float top, squares = squares_of(&top, x, n, 1), unit = 1;
    if (!(squares > 1e-20f && squares < 1e30f)) { /* float32 is at its ends */
        unit = top > 1e-30f ? top : 1;
        squares = squares_of(&top, x, n, 1 / unit);
    }
    const float length = sqrtf(squares), step = length / most > top * (1.0f / INT16_MAX)
                                                    ? length / most
                                                    : top * (1.0f / INT16_MAX);
    const bool some = squares >= 0 && step * unit > 1e-35f;
    *per_step = some ? 1 / step / unit : 0;
    return some ? step * unit : squares >= 0 ? 0 : NAN;
}

#if LANES == 16
typedef __m512i whole; /* LANES whole numbers, or pairs of int16 */
typedef __m256i shorts;

INLINE shorts in_steps(vf x, float per_step)
{
    return _mm512_cvtepi32_epi16(_mm512_cvtps_epi32((__m512)(x * splat(per_step))));
}

INLINE whole both(shorts first, shorts second)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

INLINE vf whole_floats(whole v)
{
    return (vf)_mm512_cvtepi32_ps(v);
}

/* sum + products of pairs. In assembler, because compilers move sums about for the intrinsic
 * function. */
INLINE whole with_products(whole sum, whole a, whole b)
{
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
}

/* The same with a pair in memory for all lanes. */
INLINE whole with_products_of_pair(whole sum, whole a, const uint32_t *pair)
{
    __asm__("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(a), "m"(*pair));
    return sum;
}
#else
typedef __m256i whole;
typedef __m128i shorts;

INLINE shorts in_steps(vf x, float per_step)
{
    const __m256i words = _mm256_cvtps_epi32((__m256)(x * splat(per_step)));
    return _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

INLINE whole both(shorts first, shorts second)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
}

INLINE vf whole_floats(whole v)
{
    return (vf)_mm256_cvtepi32_ps(v);
}

INLINE whole with_products(whole sum, whole a, whole b)
{
#ifdef __AVXVNNI__
    __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
#else
    __asm__("vpaddd %1, %0, %0"
            : "+x"(sum)
            : "x"(_mm256_madd_epi16(
                a, b))); /* or compilers add products first, and have no room for them */
#endif
    return sum;
}

INLINE whole with_products_of_pair(whole sum, whole a, const uint32_t *pair)
{
    return with_products(sum, a, _mm256_set1_epi32((int)*pair));
}
#endif
