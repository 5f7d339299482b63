/* Numbers as int16, all of a row in steps of a part of its length. A sum of products of two such rows is at most the product of their lengths (Cauchy and Schwarz), so where these are
 * chosen for it no int32 overflows, whatever the numbers are; sums are exact and come out alike in any order. AVX-512 with VNNI multiplies and adds as many of them an instruction as
 * BF16, and what is lost is a small part of what BF16 loses: that keeps 8 bits of each number, of 128 in steps of a 26000th of their length most keep 11. */

/* The step in which the length of x[n] is `most`, or its largest number 32767, and in *per_step what x is multiplied with to be in steps. Nothing but zeros (and what is as good as zero, below 1e-30): 0. With
 * a number among them that is none, NaN. */
INLINE float step_of(float *per_step, const float *x, size_t n, float most)
{
    __m512 largest = _mm512_setzero_ps(), squares = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += LANES) largest = _mm512_max_ps(largest, _mm512_abs_ps(numbers_at(x, i, n)));
    const float top = _mm512_reduce_max_ps(largest), unit = top > 1e-30f ? top : 1; /* the squares of large numbers would be infinite */
    for (size_t i = 0; i < n; i += LANES) {
        const __m512 part = _mm512_mul_ps(numbers_at(x, i, n), _mm512_set1_ps(1 / unit));
        squares = _mm512_fmadd_ps(part, part, squares);
    }
    const float length = sqrtf(_mm512_reduce_add_ps(squares)), step = length / most > 1.0f / INT16_MAX ? length / most : 1.0f / INT16_MAX;
    *per_step = length > 0.5f ? 1 / step / unit : 0;
    return length > 0.5f ? step * unit : length <= 0.5f ? 0 : NAN;
}

/* sum + products of pairs. In assembler, because compilers move sums about for the intrinsic function. */
INLINE __m512i with_products(__m512i sum, __m512i a, __m512i b)
{
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
}

/* The same with a pair in memory for all lanes. */
INLINE __m512i with_products_of_pair(__m512i sum, __m512i a, const uint32_t *pair)
{
    __asm__("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(a), "m"(*pair));
    return sum;
}

/* LANES numbers in steps. */
INLINE __m256i in_steps(__m512 x, float per_step)
{
    return _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(_mm512_mul_ps(x, _mm512_set1_ps(per_step))));
}

/* Sums of the halves of up to 8 vectors of whole numbers, side by side: of the lower halves of the first four, of their upper ones, then of the others. v is used up. */
INLINE __m512i sums_of_halves(__m512i *v, int count)
{
#define PAIR_UP_INTS(first, second)                                                                                    \
    for (int i = 0; 2 * i < count; i++) {                                                                              \
        const __m512i a = v[2 * i], b = v[2 * i + 1 < count ? 2 * i + 1 : 2 * i];                                      \
        v[i] = _mm512_add_epi32(first, second);                                                                        \
    }                                                                                                                  \
    count = (count + 1) / 2;
    PAIR_UP_INTS(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b))
    PAIR_UP_INTS(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b))
    PAIR_UP_INTS(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd))
#undef PAIR_UP_INTS
    return v[0];
}
