/* SPDX-License-Identifier: Apache-2.0 */
/* Converts FP8 weights and rows of x to int16.
 *
 * An e4m3 value is multiplied by 16 and by the largest power of four with which the whole matrix
 * fits (cpu_fp8_as_int16.c), and rounded: if the largest value is 448, all from 1/2 on are exact,
 * and smaller ones are off by at most 1/32. Each 128 columns of a row of activations (a block of
 * scales) have a step of their own. The Euclidean length of 128 weights is at most 16 · 448
 * · sqrt(128) = 81,096 steps, so the length of 128 columns of x may be 26,000 steps (int16_tmpl.h).
 * Scales multiply the sums of blocks, so a row is packed once for all weights. */
#ifndef EY_KERNELS_CPU_FP8_TO_INT16_TMPL_H
#define EY_KERNELS_CPU_FP8_TO_INT16_TMPL_H

#include "kernels/cpu/common/int16_tmpl.h"

enum { E4M3_UNIT = 16, MAX_POWERS = 7, X_BLOCK_LENGTH = 26000 };

struct e4m3_tables {
#if LANES == 16
    __m512i first[2], second;
#else
    __m256i leading, lower, upper;
#endif
};

#if LANES == 16
/* An int16 is the product of two bytes: one is looked up by all bits but the sign, the other by the
 * sign and the upper three bits of the exponent. For the values 0 to 7 of these three bits, its
 * magnitude is 1, 1, 1, 1, 1, 4, 16 and 64. Each power of four raises exponents by two, so the
 * tables begin two exponents later. */
#define LEFT(e) ((e) >= 8 ? 2 + (e) % 2 : (e) / 7)
#define RIGHT(e) ((e) < 6 ? 6 - (e) : 0)
#define FIRST_BYTE(eighths, e) ((((eighths) << LEFT(e)) + (1 << RIGHT(e) >> 1)) >> RIGHT(e))
#define FIRST_BYTES(e)                                                                           \
    FIRST_BYTE(8, e), FIRST_BYTE(9, e), FIRST_BYTE(10, e), FIRST_BYTE(11, e), FIRST_BYTE(12, e), \
        FIRST_BYTE(13, e), FIRST_BYTE(14, e), FIRST_BYTE(15, e)
#define FIRST_BYTES_OF_FOUR(e) \
    FIRST_BYTES(e), FIRST_BYTES((e) + 1), FIRST_BYTES((e) + 2), FIRST_BYTES((e) + 3)
static const uint8_t first_bytes[(16 + 2 * (MAX_POWERS + 1)) * 8] = {
    FIRST_BYTES_OF_FOUR(0),  FIRST_BYTES_OF_FOUR(4),  FIRST_BYTES_OF_FOUR(8),
    FIRST_BYTES_OF_FOUR(12), FIRST_BYTES_OF_FOUR(16), FIRST_BYTES_OF_FOUR(20),
    FIRST_BYTES_OF_FOUR(24), FIRST_BYTES_OF_FOUR(28)};
/* Subnormals have the exponent of the smallest normal numbers. */
#define SUBNORMAL_BYTES(e)                                                                        \
    {                                                                                             \
        FIRST_BYTE(0, e), FIRST_BYTE(1, e), FIRST_BYTE(2, e), FIRST_BYTE(3, e), FIRST_BYTE(4, e), \
            FIRST_BYTE(5, e), FIRST_BYTE(6, e), FIRST_BYTE(7, e)                                  \
    }
static const uint8_t subnormal_bytes[MAX_POWERS + 1][8] = {
    SUBNORMAL_BYTES(1), SUBNORMAL_BYTES(3),  SUBNORMAL_BYTES(5),  SUBNORMAL_BYTES(7),
    SUBNORMAL_BYTES(9), SUBNORMAL_BYTES(11), SUBNORMAL_BYTES(13), SUBNORMAL_BYTES(15)};
static const int8_t second_bytes[8 + MAX_POWERS] = {1, 1, 1,  1,
                                                    1, 4, 16, 64}; /* the rest is never looked up */

INLINE struct e4m3_tables e4m3_tables_load(int powers)
{
    const __m512i begin = _mm512_loadu_si512(first_bytes + 16 * powers),
                  rest = _mm512_loadu_si512(first_bytes + 16 * powers + 64);
    const __m128i plus = _mm_loadl_epi64((const __m128i *)(const void *)(second_bytes + powers));
    return (struct e4m3_tables){
        {_mm512_mask_loadu_epi8(begin, 0xff, subnormal_bytes[powers]), rest},
        _mm512_broadcast_i32x4(_mm_unpacklo_epi64(plus, _mm_sub_epi8(_mm_setzero_si128(), plus)))};
}

/* Converts 64 quantized values to int16, even positions first, then odd ones. */
INLINE void e4m3_to_int16(__m512i out[2], __m512i quantized, const struct e4m3_tables *t)
{
    const __m512i upper = _mm512_gf2p8affine_epi64_epi8(
        quantized, _mm512_set1_epi64(0x1020408000000000), 0); /* quantized >> 4 */
    const __m512i first = _mm512_permutex2var_epi8(t->first[0], quantized, t->first[1]),
                  second = _mm512_shuffle_epi8(t->second, upper);
    out[0] = _mm512_maddubs_epi16(_mm512_and_si512(first, _mm512_set1_epi16(0x00ff)), second);
    out[1] = _mm512_maddubs_epi16(_mm512_andnot_si512(_mm512_set1_epi16(0x00ff), first), second);
}

/* Permutes 32 numbers like e4m3_to_int16(): even columns in the lower half, then odd ones. */
INLINE __m512i even_before_odd(__m512i words)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(words)),
                              _mm512_cvtepi32_epi16(_mm512_srli_epi32(words, 16)), 1);
}
#else
/* An e4m3 value is its significand (a leading 1, or 0 for a subnormal, and three fraction bits)
 * times a power of two. The leading bit and the power are looked up by the exponent, and mulhrs
 * multiplies and rounds; values below half a step become 0. */
#define POWER(e) ((e) < 16 ? 1 << (e) >> 2 : 0)
#define POWERS_FROM(e, shift)                                                             \
    {                                                                                     \
        (uint8_t)(POWER((e) + 1) >> (shift)), (uint8_t)(POWER((e) + 1) >> (shift)),       \
            (uint8_t)(POWER((e) + 2) >> (shift)), (uint8_t)(POWER((e) + 3) >> (shift)),   \
            (uint8_t)(POWER((e) + 4) >> (shift)), (uint8_t)(POWER((e) + 5) >> (shift)),   \
            (uint8_t)(POWER((e) + 6) >> (shift)), (uint8_t)(POWER((e) + 7) >> (shift)),   \
            (uint8_t)(POWER((e) + 8) >> (shift)), (uint8_t)(POWER((e) + 9) >> (shift)),   \
            (uint8_t)(POWER((e) + 10) >> (shift)), (uint8_t)(POWER((e) + 11) >> (shift)), \
            (uint8_t)(POWER((e) + 12) >> (shift)), (uint8_t)(POWER((e) + 13) >> (shift)), \
            (uint8_t)(POWER((e) + 14) >> (shift)), (uint8_t)(POWER((e) + 15) >> (shift))  \
    }
#define POWERS(shift)                                                             \
    {                                                                             \
        POWERS_FROM(0, shift), POWERS_FROM(2, shift), POWERS_FROM(4, shift),      \
            POWERS_FROM(6, shift), POWERS_FROM(8, shift), POWERS_FROM(10, shift), \
            POWERS_FROM(12, shift), POWERS_FROM(14, shift)                        \
    }
static const uint8_t lower_bytes[MAX_POWERS + 1][16] = POWERS(0),
                                              upper_bytes[MAX_POWERS + 1][16] = POWERS(8);
static const uint8_t leading_ones[16] = {0,    0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40,
                                         0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40};

INLINE __m256i table_of(const uint8_t bytes[16])
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)bytes));
}

INLINE struct e4m3_tables e4m3_tables_load(int powers)
{
    return (struct e4m3_tables){table_of(leading_ones), table_of(lower_bytes[powers]),
                                table_of(upper_bytes[powers])};
}

/* Converts 32 quantized values to int16: the first eight of either half, then the others. */
INLINE void e4m3_to_int16(__m256i out[2], __m256i quantized, const struct e4m3_tables *t)
{
    const __m256i exponent = _mm256_and_si256(_mm256_srli_epi16(quantized, 3),
                                              _mm256_set1_epi8(15)),
                  fraction = _mm256_and_si256(_mm256_slli_epi16(quantized, 3),
                                              _mm256_set1_epi8(0x38));
    const __m256i digits = _mm256_sign_epi8(
        _mm256_or_si256(fraction, _mm256_shuffle_epi8(t->leading, exponent)),
        quantized); /* -0 becomes 0 */
    const __m256i lower = _mm256_shuffle_epi8(t->lower, exponent),
                  upper = _mm256_shuffle_epi8(t->upper, exponent), none = _mm256_setzero_si256();
    out[0] = _mm256_mulhrs_epi16(_mm256_unpacklo_epi8(none, digits),
                                 _mm256_unpacklo_epi8(lower, upper));
    out[1] = _mm256_mulhrs_epi16(_mm256_unpackhi_epi8(none, digits),
                                 _mm256_unpackhi_epi8(lower, upper));
}
#endif

/* Returns the e4m3 value of one int16 step. */
INLINE float e4m3_int16_scale(int powers)
{
    return 1.0f / (float)(E4M3_UNIT << 2 * powers);
}

enum { BLOCK_VECTORS = FP8_BLOCK / (2 * LANES) };

/* Quantizes a block of a row, n columns, whose length becomes at most `length` steps. Returns the
 * step. */
INLINE float quantize_block(int_vector words[BLOCK_VECTORS], const float *x, size_t n, float length)
{
    float per_step;
    const float step = quantization_step(&per_step, x, n, length);
    for (size_t i = 0; i < BLOCK_VECTORS; i++)
        words[i] = join_halves(to_int16((vf)load_padded(x, 2 * LANES * i, n), per_step),
                               to_int16((vf)load_padded(x, 2 * LANES * i + LANES, n), per_step));
    return step;
}

/* Permutes the columns to the order in which CPU_K_STEP quantized values are unpacked. */
INLINE void words_in_fp8_order(int_vector words[BLOCK_VECTORS])
{
#if LANES == 16
    for (int v = 0; v < BLOCK_VECTORS; v++)
        words[v] = even_before_odd(words[v]);
    for (int v = 0; v < BLOCK_VECTORS; v += 2) {
        const int_vector even = _mm512_shuffle_i64x2(words[v], words[v + 1], 0x44);
        words[v + 1] = _mm512_shuffle_i64x2(words[v], words[v + 1], 0xee);
        words[v] = even;
    }
#else
    for (int v = 0; v < BLOCK_VECTORS; v += 2) {
        const int_vector first = _mm256_permute2x128_si256(words[v], words[v + 1], 0x20);
        words[v + 1] = _mm256_permute2x128_si256(words[v], words[v + 1], 0x31);
        words[v] = first;
    }
#endif
}

/* The same for GEMV, where e4m3_to_int16() gets INT16_COLUMNS columns of one or two weight rows,
 * and the columns of a row are adjacent. */
INLINE void words_in_gemv_order(int_vector words[BLOCK_VECTORS])
{
#if LANES == 16
    for (int v = 0; v < BLOCK_VECTORS; v++)
        words[v] = even_before_odd(words[v]);
#else
    words_in_fp8_order(words);
#endif
}

#endif
