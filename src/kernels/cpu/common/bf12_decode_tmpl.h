/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes rows of BF12 blocks (bf12.h) to BF16 words. */
#ifndef EY_KERNELS_CPU_BF12_DECODE_TMPL_H
#define EY_KERNELS_CPU_BF12_DECODE_TMPL_H

#include "kernels/cpu/common/simd_tmpl.h"
#include "tensor/bf12.h"

_Static_assert((int)BF12_COLUMNS == (int)CPU_K_STEP, "a step of BF12 is a step of k");

#if LANES == 16
typedef __m512i bf12_vector;
#else
typedef __m256i bf12_vector;
#endif
enum { BF12_VECTORS = CPU_K_STEP * sizeof(uint16_t) / sizeof(bf12_vector) };

/* Prefetch distance in bytes, into the L2 cache; blocks are consecutive. No hardware prefetcher
 * follows this order of reads, and software prefetch into the L1 cache reached 24 GB/s instead of
 * 47 (two cores of a Zen 4, best of 5 s). */
enum { BF12_PREFETCH_BYTES = 16 * BF12_STEP };

/* Returns the index of a column's word among 64. With 16 lanes, words have the order of columns.
 * Otherwise each sixteen columns are stored as the first and third four, then the second and
 * fourth, because words in that order become float32 with the fewest instructions. */
INLINE size_t bf12_word_at(size_t column)
{
    return LANES == 16 ? column
                       : column / 16 * 16 + column / 4 % 2 * 8 + column / 8 % 2 * 4 + column % 4;
}

/* Decodes 64 columns of row a of a block, without outliers. */
#if LANES == 16
INLINE void bf12_to_words(__m512i out[2], const struct bf12_block *s, const uint8_t *step, int a)
{
    const __m512i sign = _mm512_set1_epi8((char)0x80),
                  bytes = _mm512_loadu_si512(step + a * CPU_K_STEP),
                  pair = _mm512_loadu_si512(step + BF12_SIGN_BYTES + a / 2 * CPU_K_STEP);
    const __m512i number = _mm512_and_si512(a % 2 ? _mm512_srli_epi16(pair, 4) : pair,
                                            _mm512_set1_epi8(15));
    const __m512i exponent_high = _mm512_shuffle_epi8(
        _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)s->row[a].high)), number);
    const __m512i exponent_low = _mm512_shuffle_epi8(
        _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)s->row[a].low)), number);
    const __m512i high = _mm512_ternarylogic_epi64(exponent_high, bytes, sign,
                                                   0xf8); /* exponent | (bytes & sign) */
    const __m512i low = _mm512_ternarylogic_epi64(exponent_low, bytes, sign,
                                                  0xf4); /* exponent | (bytes & ~sign) */
    out[0] = _mm512_unpacklo_epi8(low, high);
    out[1] = _mm512_unpackhi_epi8(low, high);
}
#else
INLINE void bf12_to_words(__m256i out[BF12_VECTORS], const struct bf12_block *s,
                          const uint8_t *step, int a)
{
    const __m256i fraction = _mm256_set1_epi8(0x7f),
                  order = _mm256_setr_epi32(0, 4, 2, 6, 1, 5, 3, 7);
    const __m256i highs = _mm256_broadcastsi128_si256(
                      _mm_loadu_si128((const __m128i *)(const void *)s->row[a].high)),
                  lows = _mm256_broadcastsi128_si256(
                      _mm_loadu_si128((const __m128i *)(const void *)s->row[a].low));
    for (int half = 0; half < 2; half++) {
        const __m256i bytes = _mm256_permutevar8x32_epi32(
            _mm256_loadu_si256((const __m256i *)(const void *)(step + a * CPU_K_STEP) + half),
            order);
        const __m256i pair = _mm256_permutevar8x32_epi32(
            _mm256_loadu_si256(
                (const __m256i *)(const void *)(step + BF12_SIGN_BYTES + a / 2 * CPU_K_STEP) +
                half),
            order);
        const __m256i number = _mm256_and_si256(a % 2 ? _mm256_srli_epi16(pair, 4) : pair,
                                                _mm256_set1_epi8(15));
        const __m256i high = _mm256_or_si256(_mm256_shuffle_epi8(highs, number),
                                             _mm256_andnot_si256(fraction, bytes));
        const __m256i low = _mm256_or_si256(_mm256_shuffle_epi8(lows, number),
                                            _mm256_and_si256(fraction, bytes));
        out[half] = _mm256_unpacklo_epi8(low, high);
        out[half + 2] = _mm256_unpackhi_epi8(low, high);
    }
}
#endif

/* Returns the number of the first outlier after the 64 columns from k on. The search begins at
 * number `odd`. */
INLINE uint32_t next_outlier(const struct bf12_block *s, uint32_t odd, size_t k)
{
    while (odd < s->n_outliers && s->outlier[odd].at < (k + CPU_K_STEP) * BF12_ROWS)
        odd++;
    return odd;
}

/* Stores outliers `odd` .. end-1, of 64 columns from k on, to rows first .. first+count-1 of a
 * block, which `rows` holds. */
static __attribute__((noinline, unused)) void patch_outliers(bf12_vector (*rows)[BF12_VECTORS],
                                                             const struct bf12_block *s,
                                                             uint32_t odd, uint32_t end, size_t k,
                                                             int first, int count)
{
    for (; odd < end; odd++) {
        const size_t column = s->outlier[odd].at / BF12_ROWS - k;
        const int row = (int)(s->outlier[odd].at % BF12_ROWS) - first;
        const uint16_t bits = (uint16_t)s->outlier[odd].bits;
        if (row >= 0 && row < count)
            memcpy((uint16_t *)(void *)rows[row] + bf12_word_at(column), &bits, sizeof(bits));
    }
}

#endif
