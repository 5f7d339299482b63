/* SPDX-License-Identifier: Apache-2.0 */
/* A lane's part of a chunk of GGUF codes and its decoding, for all kernels that read matrices of
 * these types (gguf_layout.h). */
#ifndef EY_CUDA_GGUF_UNIT_CUH
#define EY_CUDA_GGUF_UNIT_CUH

#include "kernels/cuda/common/gguf_layout.h"
#include "kernels/cuda/common/ptx.cuh"

template <int dtype> struct gguf_form;

#define GGUF_TYPE(id, BITS, ZERO, CODES, SCALES)                             \
    template <> struct gguf_form<K_##id> {                                   \
        enum {                                                               \
            bits = BITS,                                                     \
            codes = GGUF_##CODES,                                            \
            scales = GGUF_##SCALES,                                          \
            is_signed = BITS == 8 || (int)GGUF_##CODES != (int)GGUF_NUMBERS, \
            zero = ZERO,                                                     \
            two_scales = (int)scales == (int)GGUF_TWO_BYTES ||               \
                         (int)scales == (int)GGUF_TWO_E4M3 ||                \
                         (int)scales == (int)GGUF_NIBBLES_MINIMUM,           \
            has_minimum = (int)scales == (int)GGUF_HALF_MINIMUM ||           \
                          (int)scales == (int)GGUF_BYTE_MINIMUM ||           \
                          (int)scales == (int)GGUF_NIBBLES_MINIMUM,          \
            parts = BITS == 8 ? 2 : 1,                                       \
            high_bytes = GGUF_HIGH_BYTES(BITS),                              \
            scale_bytes = GGUF_SCALE_BYTES(GGUF_##SCALES),                   \
            d_bytes = GGUF_D_BYTES(GGUF_##SCALES),                           \
            high_at = GGUF_HIGH_AT(BITS),                                    \
            scales_at = GGUF_SCALES_AT(BITS),                                \
            chunk_bytes = GGUF_CHUNK_BYTES(BITS, GGUF_##SCALES),             \
            chunks = GGUF_RECORD_CHUNKS(GGUF_##SCALES), /* of a record */    \
            record_bytes = GGUF_RECORD_BYTES(BITS, GGUF_##SCALES)            \
        };                                                                   \
    };
#include "kernels/cuda/common/gguf_types.def"
#undef GGUF_TYPE

/* ---- loads ---- */

/* A lane's unit of rows g and g + 8. */
template <int dtype> struct gguf_unit {
    uint4 low[2][gguf_form<dtype>::parts];
    uint32_t high[2][2];
    uint32_t scale[2]; /* as stored: both rows in one word, or one word each */
};

template <int dtype>
EY_DEVICE void gguf_fetch_unit(struct gguf_unit<dtype> &u, const uint8_t *chunk)
{
    typedef struct gguf_form<dtype> form;
    const int lane = lane_index();
#pragma unroll
    for (int part = 0; part < form::parts; part++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            u.low[half][part] = load_weight(chunk + part * PACK_CHUNK + half * (PACK_CHUNK / 2) +
                                            lane * 16);
    if (form::high_bytes == 4) {
        const uint2 v = load_weight_8(chunk + form::high_at + lane * 8);
        u.high[0][0] = v.x;
        u.high[1][0] = v.y;
    }
    if (form::high_bytes == 8) {
        const uint4 v = load_weight(chunk + form::high_at + lane * 16);
        u.high[0][0] = v.x;
        u.high[0][1] = v.y;
        u.high[1][0] = v.z;
        u.high[1][1] = v.w;
    }
    const uint8_t *scales = chunk + form::scales_at + lane * (2 * form::scale_bytes);
    if (form::scale_bytes == 4) {
        const uint2 v = load_weight_8(scales);
        u.scale[0] = v.x;
        u.scale[1] = v.y;
    } else {
        u.scale[0] = form::scale_bytes == 2 ? load_weight_4((const uint32_t *)scales)
                                            : load_weight_2(scales);
    }
}

/* Loads d, with dmin in the upper half, of 256 columns: both rows in one word, or one word each. */
template <int dtype> EY_DEVICE void gguf_fetch_d(uint32_t d[2], const uint8_t *record)
{
    typedef struct gguf_form<dtype> form;
    const uint8_t *at = record + form::chunks * form::chunk_bytes +
                        lane_index() / 4 * (2 * form::d_bytes);
    d[0] = d[1] = 0;
    if (form::d_bytes == 2) d[0] = load_weight_4((const uint32_t *)at);
    if (form::d_bytes == 4) {
        const uint2 v = load_weight_8(at);
        d[0] = v.x;
        d[1] = v.y;
    }
}

/* ---- codes ---- */

EY_DEVICE uint32_t gguf_word(const uint4 &v, int q)
{
    return q == 0 ? v.x : q == 1 ? v.y : q == 2 ? v.z : v.w;
}

/* Returns the values of four nibbles as signed bytes; for e2m1 twice the values. */
template <int codes> EY_DEVICE uint32_t gguf_table_bytes(uint32_t four)
{
    const bool iq4 = codes == GGUF_IQ4;
    const uint32_t low = __byte_perm(iq4 ? 0xbfad9881u : 0x03020100u,
                                     iq4 ? 0xf6eaddcfu : 0x0c080604u, four),
                   high = __byte_perm(iq4 ? 0x26190d01u : 0xfdfeff00u,
                                      iq4 ? 0x71594535u : 0xf4f8fafcu, four);
    return __byte_perm(low, high, 0x3210u | (four & 0x8888u) >> 1);
}

EY_DEVICE uint32_t gguf_shift(uint32_t v, int left)
{
    return left >= 0 ? v << left : v >> -left;
}

/* Decodes words 2j and 2j + 1 of a unit: `odd` is j % 2; `low` has the low bits of both, but with
 * eight bits `low` is the first word and `next` the second; `high` has the high bits from word
 * 4 (j / 2) on. */
template <int dtype>
EY_DEVICE uint2 gguf_code_words(uint32_t low, uint32_t next, uint32_t high, int odd)
{
    typedef struct gguf_form<dtype> form;
    if (form::bits == 8) return make_uint2(low, next);
    if (form::codes != GGUF_NUMBERS)
        return make_uint2(gguf_table_bytes<form::codes>(low & 0xffffu),
                          gguf_table_bytes<form::codes>(low >> 16));
    uint2 w = make_uint2(low & 0x0f0f0f0fu, low >> 4 & 0x0f0f0f0fu);
    if (form::bits == 5) {
        w.x |= gguf_shift(high, 4 - 2 * odd) & 0x10101010u;
        w.y |= gguf_shift(high, 3 - 2 * odd) & 0x10101010u;
    }
    if (form::bits == 6) {
        w.x |= gguf_shift(high, 4 - 4 * odd) & 0x30303030u;
        w.y |= gguf_shift(high, 2 - 4 * odd) & 0x30303030u;
    }
    return w;
}

/* Decodes words 2j and 2j + 1 of the unit of row g + 8·half. */
template <int dtype>
EY_DEVICE uint2 gguf_words_of(const struct gguf_unit<dtype> &u, int half, int j)
{
    typedef struct gguf_form<dtype> form;
    const int part = form::parts == 2 ? j / 2 : 0, at = form::parts == 2 ? j % 2 * 2 : j;
    uint32_t high = 0;
    if (form::bits == 5) high = u.high[half][0] >> j / 2 * 4;
    if (form::bits == 6) high = u.high[half][j / 2];
    return gguf_code_words<dtype>(gguf_word(u.low[half][part], at),
                                  gguf_word(u.low[half][part], (at + 1) % 4), high, j % 2);
}

/* ---- scales ---- */

/* value = code · times + plus, for the first and the last 16 columns of a unit. */
struct gguf_factors {
    float times[2], plus[2];
};

EY_DEVICE float gguf_low_half(uint32_t word)
{
    return f16_bits_value((uint16_t)word);
}

EY_DEVICE float gguf_high_half(uint32_t word)
{
    return f16_bits_value((uint16_t)(word >> 16));
}

EY_DEVICE float gguf_signed_byte(uint32_t word, int at)
{
    return (float)(int8_t)(word >> (8 * at));
}

/* Returns 2^(exponent - 128). */
EY_DEVICE float gguf_half_of_power(uint32_t exponent)
{
    return bits_float(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
}

/* Returns half of an unsigned e4m3; NaN counts as 0. */
EY_DEVICE float gguf_half_of_e4m3(uint32_t byte)
{
    return (byte & 0x7fu) == 0x7fu ? 0.0f : e4m3_value((uint8_t)(byte & 0x7fu)) * 0.5f;
}

/* Returns the factors of row g + 8·half. */
template <int dtype>
EY_DEVICE struct gguf_factors gguf_unit_scales(const uint32_t scale[2], const uint32_t d[2],
                                               int half)
{
    enum { kind = gguf_form<dtype>::scales };
    struct gguf_factors s = {{0, 0}, {0, 0}};
    const uint32_t both = scale[0] >> (16 * half);
    if (kind == GGUF_HALF) s.times[0] = s.times[1] = gguf_low_half(both);
    if (kind == GGUF_HALF_MINIMUM) {
        s.times[0] = s.times[1] = gguf_low_half(scale[half]);
        s.plus[0] = s.plus[1] = gguf_high_half(scale[half]);
    }
    if (kind == GGUF_BYTE_MINIMUM) {
        s.times[0] = s.times[1] = gguf_low_half(d[half]) * (float)(both & 255u);
        s.plus[0] = s.plus[1] = -gguf_high_half(d[half]) * (float)(both >> 8 & 255u);
    }
    if (kind == GGUF_NIBBLES_MINIMUM)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            s.times[i] = gguf_low_half(d[half]) * (float)(both >> (8 * i) & 15u);
            s.plus[i] = -gguf_high_half(d[half]) * (float)(both >> (8 * i + 4) & 15u);
        }
    if (kind == GGUF_TWO_BYTES)
#pragma unroll
        for (int i = 0; i < 2; i++)
            s.times[i] = gguf_low_half(d[0] >> (16 * half)) * gguf_signed_byte(both, i);
    if (kind == GGUF_BYTE)
        s.times[0] = s.times[1] = gguf_low_half(d[0] >> (16 * half)) *
                                  gguf_signed_byte(scale[0], half);
    if (kind == GGUF_E8M0)
        s.times[0] = s.times[1] = gguf_half_of_power(scale[0] >> (8 * half) & 255u);
    if (kind == GGUF_TWO_E4M3)
#pragma unroll
        for (int i = 0; i < 2; i++)
            s.times[i] = gguf_half_of_e4m3(both >> (8 * i) & 255u);
    return s;
}

/* Returns the value of byte b of a word of codes before scales. */
template <int dtype> EY_DEVICE float gguf_code_value(uint32_t word, int b)
{
    typedef struct gguf_form<dtype> form;
    if (form::is_signed != 0) return gguf_signed_byte(word, b);
    return (float)((int)(word >> (8 * b) & 255u) - (int)form::zero);
}

/* ---- one value ---- */

EY_DEVICE uint32_t gguf_plain_word(const uint8_t *at)
{
    return *(const uint32_t *)at;
}

template <int dtype> EY_DEVICE float gguf_element(const struct dev_matrix &w, int row, int column)
{
    typedef struct gguf_form<dtype> form;
    const int chunk = column / GGUF_CHUNK_COLUMNS, lane = row % 8 * 4 + column % 128 / 32,
              half = row % PACK_ROWS / 8, j = column % 32 / 8;
    const int records = gguf_records(dtype, w.cols);
    const uint8_t *record = (const uint8_t *)w.data +
                            ((int64_t)(row / PACK_ROWS) * records + chunk / form::chunks) *
                                form::record_bytes,
                  *from = record + chunk % form::chunks * form::chunk_bytes;
    const uint8_t *low = from + half * (PACK_CHUNK / 2) + lane * 16 +
                         (form::parts == 2 ? j / 2 * PACK_CHUNK + j % 2 * 8 : j * 4),
                  *scales = from + form::scales_at + lane * (2 * form::scale_bytes),
                  *d_at = record + form::chunks * form::chunk_bytes + row % 8 * (2 * form::d_bytes);
    uint32_t high = 0, scale[2] = {0, 0}, d[2] = {0, 0};
    if (form::bits == 5)
        high = gguf_plain_word(from + form::high_at + lane * 8 + half * 4) >> j / 2 * 4;
    if (form::bits == 6)
        high = gguf_plain_word(from + form::high_at + lane * 16 + half * 8 + j / 2 * 4);
    if (form::scale_bytes == 1)
        scale[0] = *(const uint16_t *)scales;
    else
        scale[0] = gguf_plain_word(scales);
    if (form::scale_bytes == 4) scale[1] = gguf_plain_word(scales + 4);
    if (form::d_bytes > 0) d[0] = gguf_plain_word(d_at);
    if (form::d_bytes == 4) d[1] = gguf_plain_word(d_at + 4);
    const uint2 words = gguf_code_words<dtype>(
        gguf_plain_word(low), form::parts == 2 ? gguf_plain_word(low + 4) : 0, high, j % 2);
    const struct gguf_factors s = gguf_unit_scales<dtype>(scale, d, half);
    const int last = column % 32 / 16;
    return (gguf_code_value<dtype>(column % 2 ? words.y : words.x, column % 8 / 2) * s.times[last] +
            s.plus[last]) *
           w.global_scale;
}

EY_DEVICE float gguf_any_element(const struct dev_matrix &w, int row, int column)
{
    switch (w.dtype) {
#define GGUF_TYPE(id, ...) \
    case K_##id:           \
        return gguf_element<K_##id>(w, row, column);
#include "kernels/cuda/common/gguf_types.def"
#undef GGUF_TYPE
    default: return 0;
    }
}

#endif
