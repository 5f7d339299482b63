/* SPDX-License-Identifier: Apache-2.0 */
/* Weights with scales in groups as int16: GGUF blocks, and 4-bit weights with separate scales.
 *
 * Rows are processed 256 columns at a time, which is one block of a K type or eight blocks of 32.
 * Codes become int16 words: each 16 or 32 codes are multiplied by their integer scale (K types), or
 * their zero is subtracted (other types). What remains is one float scale per group: 256 columns of
 * K types, 32 to 128 of others. Sums of a group are integers, exact in any order. Each 256 columns
 * of a row of activations have a step of their own. The Euclidean length of 256 words of a weight
 * row is at most 65536, so the length of 256 columns of x may be 26000 steps (int16_tmpl.h).
 *
 * A load is a vector of bytes; each 16 of them (a lane) hold the codes of 32 columns. A load
 * becomes four vectors of words, and each of their lanes has every second or fourth column of a
 * `sub`, which is 32 adjacent columns. Rows of x are packed in that order. */
#ifndef EY_KERNELS_CPU_BLOCK_WORDS_TMPL_H
#define EY_KERNELS_CPU_BLOCK_WORDS_TMPL_H

#include "kernels/cpu/common/gguf_tmpl.h"
#include "kernels/cpu/common/int16_tmpl.h"

enum {
    BLOCK = 256,
    SUB = 32, /* columns */
    SUBS = BLOCK / SUB,
    LANE_WORDS = 8,
    LOAD_SUBS = LANES / 4, /* lanes of a vector */
    LOADS = SUBS / LOAD_SUBS,
    LOAD_WORDS = 4,                   /* vectors of a load */
    BLOCK_WORDS = LOADS * LOAD_WORDS, /* vectors of a block */
    BLOCK_X_LENGTH = 26000            /* steps */
};

typedef int8_t bytes_vector __attribute__((vector_size(LANES * 4)));
typedef int16_t words_vector __attribute__((vector_size(LANES * 4)));
typedef uint16_t uwords_vector __attribute__((vector_size(LANES * 4)));

/* ---- types ---- */

INLINE bool has_sub_scales(enum dtype dtype)
{
    return dtype == DTYPE_Q4_K || dtype == DTYPE_Q5_K || dtype == DTYPE_Q6_K ||
           dtype == DTYPE_IQ4_XS;
}

INLINE bool has_minima(enum dtype dtype)
{
    return dtype == DTYPE_Q4_K || dtype == DTYPE_Q5_K;
}

/* Returns the bytes of BLOCK columns of a row. */
INLINE size_t block_bytes(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_Q8_0: return 8 * 34;
    case DTYPE_Q4_0: return 8 * 18;
    case DTYPE_Q4_K: return 144;
    case DTYPE_Q5_K: return 176;
    case DTYPE_Q6_K: return 210;
    case DTYPE_IQ4_XS: return 136;
    default: return BLOCK / 2;
    }
}

/* Returns the number of columns that share a float scale. */
INLINE size_t scaled_columns(const struct tensor *w)
{
    if (w->dtype == DTYPE_INT4) return (size_t)w->group_size;
    return has_sub_scales(w->dtype) ? BLOCK : SUB;
}

/* The columns whose codes are in a lane of words: every `step`th one from `first` on. */
struct lane_columns {
    int first, step;
};

INLINE struct lane_columns columns_of_lane(enum dtype dtype, int lane, int i)
{
    const int odd = i % 2, plane = i / 2, half = lane % 2 * 16;
    switch (dtype) {
    case DTYPE_Q4_K:
    case DTYPE_Q5_K: return (struct lane_columns){lane / 2 * 64 + plane * 32 + half + odd, 2};
    case DTYPE_Q6_K:
        return (struct lane_columns){lane / 4 * 128 + (lane % 4 / 2 + 2 * plane) * 32 + half + odd,
                                     2};
    case DTYPE_INT4: return (struct lane_columns){lane * SUB + odd * 2 + plane, 4};
    default: return (struct lane_columns){lane * SUB + plane * 16 + odd, 2};
    }
}

/* ---- what differs between tiers ---- */

INLINE int_vector load_whole(const void *p)
{
    int_vector v;
    memcpy(&v, p, sizeof(v));
    return v;
}

INLINE __m128i load_lane(const void *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

#if LANES == 16
/* Loads 16 bytes for each lane, from places `stride` bytes apart. If n is less than the number of
 * lanes, the other lanes repeat the last of the n. */
INLINE int_vector load_lanes(const uint8_t *p, size_t stride, int n)
{
    int_vector v = _mm512_castsi128_si512(load_lane(p));
    v = _mm512_inserti32x4(v, load_lane(p + (n > 1 ? 1 : 0) * stride), 1);
    v = _mm512_inserti32x4(v, load_lane(p + (size_t)(n > 2 ? 2 : n - 1) * stride), 2);
    return _mm512_inserti32x4(v, load_lane(p + (size_t)(n - 1) * stride), 3);
}

/* Loads 32 bytes into both halves. */
INLINE int_vector load_half(const uint8_t *p)
{
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

INLINE int_vector lane_everywhere(__m128i lane)
{
    return _mm512_broadcast_i32x4(lane);
}

INLINE int_vector multiply_high(int_vector a, int_vector b)
{
    return _mm512_mulhi_epi16(a, b);
}

INLINE int_vector look_up_bytes(int_vector table, int_vector at)
{
    return _mm512_shuffle_epi8(table, at);
}

/* Adds to each int32 of `sum` four products of an unsigned byte of a and a signed byte of b. */
INLINE int_vector dot_bytes(int_vector sum, int_vector a, int_vector b)
{
    return _mm512_dpbusd_epi32(sum, a, b);
}

INLINE int_vector multiply_bytes(int_vector a, int_vector b)
{
    return _mm512_maddubs_epi16(a, b);
}

/* Returns the sums of two products of words each. */
INLINE int_vector multiply_words(int_vector a, int_vector b)
{
    return _mm512_madd_epi16(a, b);
}

INLINE int_vector add_ints(int_vector a, int_vector b)
{
    return _mm512_add_epi32(a, b);
}

INLINE int_vector add_pairs_32(int_vector a, int_vector b)
{
    return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

INLINE int_vector add_pairs_64(int_vector a, int_vector b)
{
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}
#else
INLINE int_vector load_lanes(const uint8_t *p, size_t stride, int n)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load_lane(p)),
                                   load_lane(p + (size_t)(n - 1) * stride), 1);
}

INLINE int_vector load_half(const uint8_t *p)
{
    return load_whole(p);
}

INLINE int_vector lane_everywhere(__m128i lane)
{
    return _mm256_broadcastsi128_si256(lane);
}

INLINE int_vector multiply_high(int_vector a, int_vector b)
{
    return _mm256_mulhi_epi16(a, b);
}

INLINE int_vector look_up_bytes(int_vector table, int_vector at)
{
    return _mm256_shuffle_epi8(table, at);
}

/* Returns the sums, as int16, of two products of an unsigned and a signed byte each; they fit if
 * the unsigned bytes are below 128. */
INLINE int_vector multiply_bytes(int_vector a, int_vector b)
{
    return _mm256_maddubs_epi16(a, b);
}

INLINE int_vector multiply_words(int_vector a, int_vector b)
{
    return _mm256_madd_epi16(a, b);
}

INLINE int_vector add_word_pairs(int_vector sum, int_vector words)
{
    return _mm256_add_epi32(sum, multiply_words(words, _mm256_set1_epi16(1)));
}

INLINE int_vector dot_bytes(int_vector sum, int_vector a, int_vector b)
{
#ifdef __AVXVNNI__
    return _mm256_dpbusd_avx_epi32(sum, a, b);
#else
    return add_word_pairs(sum, multiply_bytes(a, b));
#endif
}

INLINE int_vector add_ints(int_vector a, int_vector b)
{
    return _mm256_add_epi32(a, b);
}

INLINE int_vector add_pairs_32(int_vector a, int_vector b)
{
    return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}

INLINE int_vector add_pairs_64(int_vector a, int_vector b)
{
    return _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}
#endif

INLINE int_vector bytes_of(int value)
{
    return (int_vector)((bytes_vector){0} + (int8_t)value);
}

INLINE int_vector words_of(int value)
{
    return (int_vector)((words_vector){0} + (int16_t)value);
}

/* ---- codes ---- */

INLINE int_vector upper_nibbles(int_vector v)
{
    return (int_vector)((uwords_vector)v >> 4) & bytes_of(15);
}

/* Moves the bits of each byte from bit `bit` to bit 4 and masks them by `mask`. In the upper half
 * of a vector of 64 bytes they begin two bits higher. */
INLINE int_vector bits_to_fourth(int_vector v, int bit, int mask)
{
    uwords_vector moved = (uwords_vector)v;
#if LANES == 16
    uwords_vector count = (uwords_vector){0} + (uint16_t)(bit < 4 ? 4 - bit : bit - 4);
    for (int i = LANES; i < 2 * LANES; i++)
        count[i] = (uint16_t)(bit < 4 ? 2 - bit : bit - 2);
    moved = bit < 4 ? moved << count : moved >> count;
#else
    moved = bit < 4 ? moved << (4 - bit) : moved >> (bit - 4);
#endif
    return (int_vector)moved & bytes_of(mask);
}

/* Loads the lower and the upper codes of a load, of which n lanes exist. Subtracts 32 from codes of
 * Q6_K. */
INLINE void load_codes(int_vector codes[2], enum dtype dtype, const uint8_t *p, int load, int n)
{
    const int first = load * LOAD_SUBS; /* sub */
    int_vector both;
    switch (dtype) {
    case DTYPE_Q8_0:
        codes[0] = load_lanes(p + first * 34 + 2, 34, n);
        codes[1] = load_lanes(p + first * 34 + 18, 34, n);
        return;
    case DTYPE_Q4_0: both = load_lanes(p + first * 18 + 2, 18, n); break;
    case DTYPE_Q4_K: both = load_whole(p + 16 + first * 16); break;
    case DTYPE_Q5_K: both = load_whole(p + 48 + first * 16); break;
    case DTYPE_Q6_K: both = load_whole(p + first * 16); break;
    case DTYPE_IQ4_XS: both = load_whole(p + 8 + first * 16); break;
    default:
        if (n == LOAD_SUBS)
            both = load_whole(p + first * 16);
        else {
            uint8_t some[sizeof(both)] = {0};
            memcpy(some, p + first * 16, (size_t)n * 16);
            both = load_whole(some);
        }
        break;
    }
    codes[0] = both & bytes_of(15);
    codes[1] = upper_nibbles(both);
    if (dtype == DTYPE_Q5_K)
        for (int i = 0; i < 2; i++)
            codes[i] |= bits_to_fourth(load_half(p + 16), first + i, 16);
    if (dtype == DTYPE_Q6_K)
        for (int i = 0; i < 2; i++) {
            const int_vector high = bits_to_fourth(load_half(p + 128 + first / 4 * 32),
                                                   first % 4 + 4 * i, 48);
            codes[i] = (int_vector)((bytes_vector)(codes[i] | high) - 32);
        }
}

/* Replaces codes of IQ4_XS by the numbers that they stand for. */
INLINE void look_up_codes(int_vector codes[2], __m128i table)
{
    for (int i = 0; i < 2; i++)
        codes[i] = look_up_bytes(lane_everywhere(table), codes[i]);
}

INLINE bool codes_have_signs(enum dtype dtype)
{
    return dtype == DTYPE_Q8_0 || dtype == DTYPE_Q6_K || dtype == DTYPE_IQ4_XS;
}

/* ---- integer scales, minima and zeros of codes ---- */

/* Unpacks eight scales and eight minima of six bits to bytes. */
INLINE void six_bits(uint64_t *scales, uint64_t *minima, const uint8_t *p)
{
    const uint32_t six = 0x3f3f3f3f, four = 0x0f0f0f0f, two = 0x30303030;
    uint32_t w[3];
    memcpy(w, p, sizeof(w));
    *scales = (w[0] & six) | (uint64_t)((w[2] & four) | (w[0] >> 2 & two)) << 32;
    *minima = (w[1] & six) | (uint64_t)((w[2] >> 4 & four) | (w[1] >> 2 & two)) << 32;
}

/* Integers of a block, eight int16 in every lane: scales of a K type (sixteen for Q6_K), or zeros.
 * They are kept in registers, because a vector that was stored in pieces is slow to load. */
struct sub_numbers {
    int_vector eight[2];
};

INLINE struct sub_numbers eight_bytes_as_numbers(uint64_t bytes)
{
    const __m128i words = _mm_cvtepu8_epi16(_mm_cvtsi64_si128((long long)bytes));
    return (struct sub_numbers){{lane_everywhere(words)}};
}

/* Returns the scales of IQ4_XS minus 32. The lower four bits of a scale are stored in one place,
 * its upper two bits in another. In one half of a vector the four bits are shifted to the top of
 * words, in the other half the two bits. */
INLINE struct sub_numbers iq4_xs_scales(const uint8_t *p)
{
    const __m256i at = _mm256_setr_epi8(4, -1, 4, -1, 5, -1, 5, -1, 6, -1, 6, -1, 7, -1, 7, -1, 2,
                                        3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3),
                  to_top = _mm256_setr_epi16(1 << 12, 1 << 8, 1 << 12, 1 << 8, 1 << 12, 1 << 8,
                                             1 << 12, 1 << 8, 1 << 14, 1 << 12, 1 << 10, 1 << 8,
                                             1 << 6, 1 << 4, 1 << 2, 1),
                  top = _mm256_inserti128_si256(_mm256_set1_epi16((short)0xc000),
                                                _mm_set1_epi16((short)0xf000), 0),
                  down = _mm256_inserti128_si256(_mm256_set1_epi16(1 << 6), _mm_set1_epi16(1 << 4),
                                                 0);
    int64_t head;
    memcpy(&head, p, sizeof(head));
    const __m256i risen = _mm256_mullo_epi16(_mm256_shuffle_epi8(_mm256_set1_epi64x(head), at),
                                             to_top),
                  parts = _mm256_mulhi_epu16(_mm256_and_si256(risen, top), down),
                  all = _mm256_add_epi16(parts, _mm256_permute4x64_epi64(parts, 0x4e)),
                  scales = _mm256_sub_epi16(all, _mm256_set1_epi16(32));
#if LANES == 16
    return (struct sub_numbers){{lane_everywhere(_mm256_castsi256_si128(scales))}};
#else
    return (struct sub_numbers){{scales}};
#endif
}

/* Returns the scales of a block of a K type; those of Q6_K are multiplied by 256. */
INLINE struct sub_numbers load_sub_scales(uint64_t *minima, enum dtype dtype, const uint8_t *p)
{
    uint64_t scales;
    __m256i sixteen;
    switch (dtype) {
    case DTYPE_Q4_K:
    case DTYPE_Q5_K: six_bits(&scales, minima, p + 4); return eight_bytes_as_numbers(scales);
    case DTYPE_IQ4_XS: return iq4_xs_scales(p);
    default:
        sixteen = _mm256_slli_epi16(_mm256_cvtepi8_epi16(load_lane(p + 192)), 8);
        return (struct sub_numbers){{lane_everywhere(_mm256_castsi256_si128(sixteen)),
                                     lane_everywhere(_mm256_extracti128_si256(sixteen, 1))}};
    }
}

/* Indices of the bytes of number e, for all words of a lane. */
#define LANE_OF(e)                                                                          \
    2 * (e), 2 * (e) + 1, 2 * (e), 2 * (e) + 1, 2 * (e), 2 * (e) + 1, 2 * (e), 2 * (e) + 1, \
        2 * (e), 2 * (e) + 1, 2 * (e), 2 * (e) + 1, 2 * (e), 2 * (e) + 1, 2 * (e), 2 * (e) + 1
#define OWN_LANES(e) LANE_OF(e), LANE_OF(e + 1), LANE_OF((e + 2) % 8), LANE_OF((e + 3) % 8)
#define PAIRS_OF_LANES(e) LANE_OF(e), LANE_OF(e), LANE_OF((e + 2) % 8), LANE_OF((e + 2) % 8)

/* Returns consecutive numbers, the first of which has the even index `first`: one for each lane, in
 * all words of the lane. */
INLINE int_vector own_numbers(int_vector eight, int first)
{
    static const int8_t at[4][64] = {
        {OWN_LANES(0)}, {OWN_LANES(2)}, {OWN_LANES(4)}, {OWN_LANES(6)}};
    return look_up_bytes(eight, load_whole(at[first / 2]));
}

/* Returns a number below 128 for each lane, in the lower byte of its words. If `odd`, the number is
 * in the upper byte, which makes the words 256 times as large. */
INLINE int_vector own_bytes(int_vector eight, int first, bool odd)
{
#define FOUR_OF(a, b) a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b
#define EVEN_BYTES(e)                                                               \
    FOUR_OF(2 * (e), -1), FOUR_OF(2 * (e) + 2, -1), FOUR_OF(2 * ((e + 2) % 8), -1), \
        FOUR_OF(2 * ((e + 2) % 8) + 2, -1)
#define ODD_BYTES(e)                                                                \
    FOUR_OF(-1, 2 * (e)), FOUR_OF(-1, 2 * (e) + 2), FOUR_OF(-1, 2 * ((e + 2) % 8)), \
        FOUR_OF(-1, 2 * ((e + 2) % 8) + 2)
    static const int8_t at[2][4][64] = {
        {{EVEN_BYTES(0)}, {EVEN_BYTES(2)}, {EVEN_BYTES(4)}, {EVEN_BYTES(6)}},
        {{ODD_BYTES(0)}, {ODD_BYTES(2)}, {ODD_BYTES(4)}, {ODD_BYTES(6)}}};
    return look_up_bytes(eight, load_whole(at[odd][first / 2]));
}

/* Returns every second number from `first` on, each for two lanes. */
INLINE int_vector numbers_of_pairs(int_vector eight, int first)
{
    static const int8_t at[8][64] = {{PAIRS_OF_LANES(0)}, {PAIRS_OF_LANES(1)}, {PAIRS_OF_LANES(2)},
                                     {PAIRS_OF_LANES(3)}, {PAIRS_OF_LANES(4)}, {PAIRS_OF_LANES(5)},
                                     {PAIRS_OF_LANES(6)}, {PAIRS_OF_LANES(7)}};
    return look_up_bytes(eight, load_whole(at[first]));
}

/* Returns a number for each lane: the first word is the number, the second is 256 times the number,
 * and the others are 0. */
INLINE int_vector numbers_as_pairs(int_vector eight, int first)
{
#define PAIR_OF(e) 2 * (e), -1, -1, 2 * (e), -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1
#define PAIRS_FROM(e) PAIR_OF(e), PAIR_OF(e + 1), PAIR_OF((e + 2) % 8), PAIR_OF((e + 3) % 8)
    static const int8_t at[4][64] = {
        {PAIRS_FROM(0)}, {PAIRS_FROM(2)}, {PAIRS_FROM(4)}, {PAIRS_FROM(6)}};
    return look_up_bytes(eight, load_whole(at[first / 2]));
}

/* Returns the scales by which the lower or upper codes (plane 0 or 1) of a load are multiplied, or
 * the zeros that are subtracted from them. */
INLINE int_vector numbers_of_load(enum dtype dtype, const struct sub_numbers *sub, int load,
                                  int plane)
{
    const int first = load * LOAD_SUBS;
    switch (dtype) {
    case DTYPE_Q4_K:
    case DTYPE_Q5_K: return numbers_of_pairs(sub->eight[0], first + plane);
    case DTYPE_Q6_K: return own_numbers(sub->eight[first / 4], first % 4 + 4 * plane);
    case DTYPE_IQ4_XS: return own_bytes(sub->eight[0], first, true);
    default: return own_numbers(sub->eight[0], first);
    }
}

/* ---- words ---- */

/* Widens every second code to words[0], the others to words[1]; times 256 if `raised`. */
INLINE void widen_codes(int_vector words[2], int_vector codes, bool have_signs, bool raised)
{
    const int_vector up = (int_vector)((uwords_vector)codes << 8);
    if (raised) {
        words[0] = up;
        words[1] = codes & words_of(-256);
    } else if (have_signs) {
        words[0] = (int_vector)((words_vector)up >> 8);
        words[1] = (int_vector)((words_vector)codes >> 8);
    } else {
        words[0] = codes & words_of(255);
        words[1] = (int_vector)((uwords_vector)codes >> 8);
    }
}

/* Multiplies words by scales. If `raised`, both are 256 times as large and the upper half of the
 * product is the result: that takes one instruction less than extending the signs. */
INLINE int_vector scale_words(int_vector words, int_vector number, bool raised)
{
    return raised ? multiply_high(words, number)
                  : (int_vector)((words_vector)words * (words_vector)number);
}

/* Makes the words of a load of the block at p; n subs of the load exist. `sub` has the scales of a
 * K type or the zeros of INT4. */
INLINE void load_words(int_vector words[LOAD_WORDS], enum dtype dtype, const uint8_t *p, int load,
                       int n, const struct sub_numbers *sub)
{
    const bool raised = has_sub_scales(dtype) && codes_have_signs(dtype);
    int_vector codes[2];
    load_codes(codes, dtype, p, load, n);
    if (dtype == DTYPE_IQ4_XS) look_up_codes(codes, gguf_iq4_table());
    UNROLL
    for (int plane = 0; plane < 2; plane++) {
        int_vector *out = words + 2 * plane;
        widen_codes(out, codes[plane], codes_have_signs(dtype), raised);
        if (dtype == DTYPE_Q8_0) continue;
        const int_vector number = dtype == DTYPE_Q4_0 ? words_of(8)
                                                      : numbers_of_load(dtype, sub, load, plane);
        UNROLL
        for (int i = 0; i < 2; i++)
            out[i] = has_sub_scales(dtype)
                         ? scale_words(out[i], number, raised)
                         : (int_vector)((words_vector)out[i] - (words_vector)number);
    }
}

/* The same for IQ4_XS, plus OFFSET times each word's scale: unsigned codes are widened and scaled
 * by one multiplication of bytes. The sums grow by an amount that depends only on scales and x;
 * pack_offsets() stores the correction. */
enum { OFFSET = 128 };
INLINE void load_offset_words(int_vector words[LOAD_WORDS], const uint8_t *p, int load,
                              const struct sub_numbers *sub)
{
    int_vector codes[2];
    load_codes(codes, DTYPE_IQ4_XS, p, load, LOAD_SUBS);
    look_up_codes(codes, _mm_xor_si128(gguf_iq4_table(), _mm_set1_epi8((char)OFFSET)));
    UNROLL
    for (int i = 0; i < LOAD_WORDS; i++)
        words[i] = multiply_bytes(codes[i / 2], own_bytes(sub->eight[0], load * LOAD_SUBS, i % 2));
}

/* ---- rows of x ---- */

/* Quantizes n columns, in order, and writes zeros after them. Returns the step. */
INLINE float quantize_columns(int16_t words[BLOCK], const float *x, size_t n)
{
    float per_step;
    const float step = quantization_step(&per_step, x, n, BLOCK_X_LENGTH);
    for (size_t i = 0; i < BLOCK; i += 2 * LANES) {
        const int_vector v = join_halves(to_int16((vf)load_padded(x, i, n), per_step),
                                         to_int16((vf)load_padded(x, i + LANES, n), per_step));
        memcpy(words + i, &v, sizeof(v));
    }
    return step;
}

INLINE void take_lane(int16_t *out, const int16_t *words, struct lane_columns c)
{
    for (int i = 0; i < LANE_WORDS; i++)
        out[i] = words[c.first + i * c.step];
}

INLINE uint32_t pair_of(int first, int second)
{
    return (uint32_t)(uint16_t)first | (uint32_t)(uint16_t)second << 16;
}

/* Returns the lowest signed digit of the number to base 256, and removes it from the number. */
INLINE int8_t take_digit(int *number)
{
    const int8_t digit = (int8_t)(uint8_t)(*number & 255);
    *number = (*number - digit) / 256;
    return digit;
}

/* Returns the pair first, second of number = first + 256 · second. */
INLINE uint32_t pair_of_digits(int number)
{
    const int8_t first = take_digit(&number);
    return pair_of(first, number);
}

INLINE int sum_of_sub(const int16_t *words)
{
    int sum = 0;
    for (int i = 0; i < SUB; i++)
        sum += words[i];
    return sum;
}

#endif
