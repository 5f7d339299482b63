/* SPDX-License-Identifier: Apache-2.0 */
/* Converts GGUF blocks to float32, 32 values at a time: bit operations make a byte of each code,
 * which is widened, multiplied by the scale of its sixteen codes and added to their minimum.
 * Products of codes and scales are exact, so fused multiply-adds give the same bits as
 * tensor/gguf_units_tmpl.h. */
#ifndef EY_KERNELS_CPU_GGUF_TMPL_H
#define EY_KERNELS_CPU_GGUF_TMPL_H

#include "kernels/cpu/common/simd_tmpl.h"
#include "tensor/gguf_units_tmpl.h"

enum { GGUF_VECTORS = GGUF_UNIT / LANES };

#if LANES >= 8

/* Codes of a unit, with scale and offset of each half. */
struct gguf_codes {
    __m256i q; /* signed bytes */
    float scale[2], offset[2];
};

INLINE float gguf_half(const uint8_t *p)
{
    uint16_t bits;
    memcpy(&bits, p, sizeof(bits));
    return _cvtsh_ss(bits);
}

INLINE __m256i gguf_load_32(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* Returns the low nibbles of sixteen bytes, then the high ones. */
INLINE __m256i gguf_nibbles(const uint8_t *p)
{
    const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(b, 4), b), _mm256_set1_epi8(15));
}

/* Returns (byte >> right & mask) << left of each byte. */
INLINE __m256i gguf_bits(const uint8_t *p, int right, int mask, int left)
{
    const __m256i v = _mm256_srl_epi16(gguf_load_32(p), _mm_cvtsi32_si128(right));
    return _mm256_slli_epi16(_mm256_and_si256(v, _mm256_set1_epi8((char)mask)), left);
}

/* Returns 16 in each byte whose bit of the word is set, else 0. */
INLINE __m256i gguf_fifth_bits(const uint8_t *p)
{
    int32_t word;
    memcpy(&word, p, sizeof(word));
    const __m256i bytes = _mm256_shuffle_epi8(
        _mm256_set1_epi32(word),
        _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0));
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit),
                            _mm256_set1_epi8(16));
}

INLINE __m256i gguf_look_up(__m256i codes, __m128i table)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), codes);
}

INLINE __m128i gguf_iq4_table(void)
{
    return _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
}

INLINE __m128i gguf_e2m1_table(void)
{
    return _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
}

INLINE struct gguf_codes gguf_one_scale(__m256i q, float scale, float offset)
{
    return (struct gguf_codes){q, {scale, scale}, {offset, offset}};
}

INLINE struct gguf_codes gguf_codes_k45(const uint8_t *p, __m256i q, int unit)
{
    int scale, minimum;
    gguf_scale_and_minimum(p + 4, unit, &scale, &minimum);
    return gguf_one_scale(q, gguf_half(p) * (float)scale, -(gguf_half(p + 2) * (float)minimum));
}

INLINE struct gguf_codes gguf_codes_q2_k(const uint8_t *p, int unit)
{
    const float d = gguf_half(p + 80), dmin = gguf_half(p + 82);
    struct gguf_codes c = {.q = gguf_bits(p + 16 + unit / 4 * 32, unit % 4 * 2, 3, 0)};
    for (int i = 0; i < 2; i++) {
        c.scale[i] = d * (float)(p[2 * unit + i] & 15);
        c.offset[i] = -(dmin * (float)(p[2 * unit + i] >> 4));
    }
    return c;
}

INLINE struct gguf_codes gguf_codes_q3_k(const uint8_t *p, int unit)
{
    const float d = gguf_half(p + 108);
    /* a code whose mask bit is 0 is four less */
    const __m256i high = gguf_bits(p, unit, 1, 2),
                  low = gguf_bits(p + 32 + unit / 4 * 32, unit % 4 * 2, 3, 0);
    struct gguf_codes c = {.q = _mm256_sub_epi8(_mm256_add_epi8(low, high), _mm256_set1_epi8(4))};
    for (int i = 0; i < 2; i++)
        c.scale[i] = d * (float)gguf_q3_k_scale(p + 96, 2 * unit + i);
    return c;
}

INLINE struct gguf_codes gguf_codes_q6_k(const uint8_t *p, int unit)
{
    const float d = gguf_half(p + 208);
    const __m256i low = gguf_bits(p + unit / 4 * 64 + unit % 2 * 32, unit % 4 / 2 * 4, 15, 0),
                  high = gguf_bits(p + 128 + unit / 4 * 32, unit % 4 * 2, 3, 4);
    struct gguf_codes c = {.q = _mm256_sub_epi8(_mm256_or_si256(low, high), _mm256_set1_epi8(32))};
    for (int i = 0; i < 2; i++)
        c.scale[i] = d * (float)(int8_t)p[192 + 2 * unit + i];
    return c;
}

INLINE struct gguf_codes gguf_codes_iq4_xs(const uint8_t *p, int unit)
{
    uint16_t high;
    memcpy(&high, p + 2, sizeof(high));
    const int scale = (p[4 + unit / 2] >> (unit % 2 * 4) & 15) | (high >> (2 * unit) & 3) << 4;
    return gguf_one_scale(gguf_look_up(gguf_nibbles(p + 8 + unit * 16), gguf_iq4_table()),
                          gguf_half(p) * (float)(scale - 32), 0);
}

INLINE struct gguf_codes gguf_codes_nvfp4(const uint8_t *p, int unit)
{
    const __m256i n = gguf_look_up(gguf_nibbles(p + 4 + 16 * unit), gguf_e2m1_table());
    const __m128i low = _mm256_castsi256_si128(n), high = _mm256_extracti128_si256(n, 1);
    struct gguf_codes c = {
        .q = _mm256_set_m128i(_mm_unpackhi_epi64(low, high), _mm_unpacklo_epi64(low, high))};
    for (int i = 0; i < 2; i++)
        c.scale[i] = gguf_half_of_scale(p[2 * unit + i]);
    return c;
}

INLINE struct gguf_codes gguf_codes_q8_k(const uint8_t *p, int unit)
{
    float d;
    memcpy(&d, p, sizeof(d));
    return gguf_one_scale(gguf_load_32(p + 4 + unit * GGUF_UNIT), d, 0);
}

INLINE struct gguf_codes gguf_codes_of(enum dtype dtype, const uint8_t *p, int unit)
{
    const __m256i eight = _mm256_set1_epi8(8), sixteen = _mm256_set1_epi8(16);
    switch (dtype) {
    case DTYPE_Q4_0:
        return gguf_one_scale(_mm256_sub_epi8(gguf_nibbles(p + 2), eight), gguf_half(p), 0);
    case DTYPE_Q4_1: return gguf_one_scale(gguf_nibbles(p + 4), gguf_half(p), gguf_half(p + 2));
    case DTYPE_Q5_0:
        return gguf_one_scale(
            _mm256_sub_epi8(_mm256_or_si256(gguf_nibbles(p + 6), gguf_fifth_bits(p + 2)), sixteen),
            gguf_half(p), 0);
    case DTYPE_Q5_1:
        return gguf_one_scale(_mm256_or_si256(gguf_nibbles(p + 8), gguf_fifth_bits(p + 4)),
                              gguf_half(p), gguf_half(p + 2));
    case DTYPE_Q8_0: return gguf_one_scale(gguf_load_32(p + 2), gguf_half(p), 0);
    case DTYPE_Q2_K: return gguf_codes_q2_k(p, unit);
    case DTYPE_Q3_K: return gguf_codes_q3_k(p, unit);
    case DTYPE_Q4_K:
        return gguf_codes_k45(p, gguf_bits(p + 16 + unit / 2 * 32, unit % 2 * 4, 15, 0), unit);
    case DTYPE_Q5_K:
        return gguf_codes_k45(
            p,
            _mm256_or_si256(gguf_bits(p + 48 + unit / 2 * 32, unit % 2 * 4, 15, 0),
                            gguf_bits(p + 16, unit, 1, 4)),
            unit);
    case DTYPE_Q6_K: return gguf_codes_q6_k(p, unit);
    case DTYPE_Q8_K: return gguf_codes_q8_k(p, unit);
    case DTYPE_IQ4_NL:
        return gguf_one_scale(gguf_look_up(gguf_nibbles(p + 2), gguf_iq4_table()), gguf_half(p), 0);
    case DTYPE_IQ4_XS: return gguf_codes_iq4_xs(p, unit);
    case DTYPE_GGUF_MXFP4:
        return gguf_one_scale(gguf_look_up(gguf_nibbles(p + 1), gguf_e2m1_table()),
                              gguf_half_power(p[0]), 0);
    default: return gguf_codes_nvfp4(p, unit);
    }
}

/* Whether a minimum is added; without it a zero keeps its sign. */
INLINE bool gguf_has_offset(enum dtype dtype)
{
    return dtype == DTYPE_Q4_1 || dtype == DTYPE_Q5_1 || dtype == DTYPE_Q2_K ||
           dtype == DTYPE_Q4_K || dtype == DTYPE_Q5_K;
}

/* Widens codes i · LANES .. +LANES-1 to float32. */
INLINE vf gguf_widen(__m256i q, int i)
{
#if LANES == 16
    const __m128i b = i ? _mm256_extracti128_si256(q, 1) : _mm256_castsi256_si128(q);
    return (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(b));
#else
    const __m128i b = i / 2 ? _mm256_extracti128_si256(q, 1) : _mm256_castsi256_si128(q);
    return (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(i % 2 ? _mm_srli_si128(b, 8) : b));
#endif
}

INLINE void gguf_load_unit(vf out[GGUF_VECTORS], enum dtype dtype, const uint8_t *block, int unit)
{
    const struct gguf_codes c = gguf_codes_of(dtype, block, unit);
    UNROLL
    for (int i = 0; i < GGUF_VECTORS; i++) {
        const int half = i / (GGUF_VECTORS / 2);
        out[i] = gguf_widen(c.q, i) * splat(c.scale[half]);
        if (gguf_has_offset(dtype)) out[i] += splat(c.offset[half]);
    }
}

#else

INLINE void gguf_load_unit(vf out[GGUF_VECTORS], enum dtype dtype, const uint8_t *block, int unit)
{
    float values[GGUF_UNIT];
    gguf_unit_of(values, block, dtype, unit);
    for (int i = 0; i < GGUF_VECTORS; i++)
        out[i] = load_vf(values + i * LANES);
}

#endif

/* Converts n columns (whole units) of a row from k on; the type is a compile-time constant. */
INLINE void gguf_row_of(float *out, enum dtype dtype, const uint8_t *data, size_t values,
                        size_t bytes, size_t k, size_t n)
{
    for (size_t at = k; at < k + n; at += GGUF_UNIT) {
        vf v[GGUF_VECTORS];
        gguf_load_unit(v, dtype, data + at / values * bytes, (int)(at % values / GGUF_UNIT));
        for (int i = 0; i < GGUF_VECTORS; i++)
            store_vf(out + (at - k) + (size_t)i * LANES, v[i]);
    }
}

/* Values and bytes of a block as constants, as in tensor/types.def. */
#define FOR_GGUF_TYPES(X) \
    X(Q4_0, 32, 18)       \
    X(Q4_1, 32, 20)       \
    X(Q5_0, 32, 22)       \
    X(Q5_1, 32, 24)       \
    X(Q8_0, 32, 34)       \
    X(Q2_K, 256, 84)      \
    X(Q3_K, 256, 110)     \
    X(Q4_K, 256, 144)     \
    X(Q5_K, 256, 176)     \
    X(Q6_K, 256, 210)     \
    X(Q8_K, 256, 292)     \
    X(IQ4_NL, 32, 18)     \
    X(IQ4_XS, 256, 136)   \
    X(GGUF_MXFP4, 32, 17) \
    X(GGUF_NVFP4, 64, 36)

/* Converts n columns (whole units) of a row from k on. Not inline: fifteen types are many
 * instructions. */
static __attribute__((noinline, unused)) void gguf_to_f32(float *out, const struct tensor *w,
                                                          int64_t row, size_t k, size_t n)
{
#define GGUF_ROW(id, values, bytes)                                           \
    case DTYPE_##id:                                                          \
        gguf_row_of(out, DTYPE_##id,                                          \
                    (const uint8_t *)w->data +                                \
                        (size_t)row * ((size_t)w->cols / (values) * (bytes)), \
                    values, bytes, k, n);                                     \
        break;
    switch (w->dtype) {
        FOR_GGUF_TYPES(GGUF_ROW)
    default: break;
    }
    if (!w->factor) return;
    for (size_t i = 0; i < n; i++)
        out[i] *= *w->factor;
}

#endif
