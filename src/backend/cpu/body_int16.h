/* Numbers as int16, all of a row in steps of a part of its length. A sum of products of two such rows is at most the product of their lengths (Cauchy and Schwarz), so where these are
 * chosen for it no int32 overflows, whatever the numbers are; sums are exact and come out alike in any order. AVX-512 with VNNI multiplies and adds as many of them an instruction as
 * BF16, and what is lost is a tenth: BF16 has 8 bits of each number, a step is 1/32767 of a row's length. */

/* LANES numbers from i on, zeros from n on. */
INLINE __m512 numbers_at(const float *x, size_t i, size_t n)
{
    return i + LANES <= n ? _mm512_loadu_ps(x + i) : _mm512_maskz_loadu_ps((__mmask16)((1u << (n - i)) - 1), x + i);
}

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

/* LANES numbers in steps. */
INLINE __m256i in_steps(__m512 x, float per_step)
{
    return _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(_mm512_mul_ps(x, _mm512_set1_ps(per_step))));
}
