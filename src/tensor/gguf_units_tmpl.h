/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes 32 values of a GGUF block to float32, one function per type. This file is compiled as
 * plain C and, for each tier of kernels, with the instructions of that tier. All give the same
 * bits, since products and sums are never fused. */
#ifndef EY_TENSOR_GGUF_UNITS_TMPL_H
#define EY_TENSOR_GGUF_UNITS_TMPL_H

#include <string.h>

#include "tensor/dequantize.h"
#include "tensor/gguf_blocks.h"

#define GGUF_INLINE static inline __attribute__((always_inline))

GGUF_INLINE float gguf_half_at(const uint8_t *p)
{
    uint16_t bits;
    memcpy(&bits, p, sizeof(bits));
    return f16_to_f32(bits);
}

/* ---- blocks of 32 ---- */

GGUF_INLINE void gguf_unit_q4_0(float *out, const uint8_t *p)
{
    const float d = gguf_half_at(p);
    for (int i = 0; i < 16; i++)
        out[i] = (float)((p[2 + i] & 15) - 8) * d;
    for (int i = 0; i < 16; i++)
        out[16 + i] = (float)((p[2 + i] >> 4) - 8) * d;
}

GGUF_INLINE void gguf_unit_q4_1(float *out, const uint8_t *p)
{
    const float d = gguf_half_at(p), m = gguf_half_at(p + 2);
    for (int i = 0; i < 16; i++)
        out[i] = (float)(p[4 + i] & 15) * d + m;
    for (int i = 0; i < 16; i++)
        out[16 + i] = (float)(p[4 + i] >> 4) * d + m;
}

/* Adds the fifth bits: bit i of the word belongs to value i. */
GGUF_INLINE void gguf_five_bits(int *q, const uint8_t *bits, const uint8_t *nibbles)
{
    uint32_t high;
    memcpy(&high, bits, sizeof(high));
    for (int i = 0; i < 16; i++)
        q[i] = (nibbles[i] & 15) | (int)(high >> i & 1) << 4;
    for (int i = 0; i < 16; i++)
        q[16 + i] = nibbles[i] >> 4 | (int)(high >> (16 + i) & 1) << 4;
}

GGUF_INLINE void gguf_unit_q5_0(float *out, const uint8_t *p)
{
    const float d = gguf_half_at(p);
    int q[GGUF_UNIT];
    gguf_five_bits(q, p + 2, p + 6);
    for (int i = 0; i < GGUF_UNIT; i++)
        out[i] = (float)(q[i] - 16) * d;
}

GGUF_INLINE void gguf_unit_q5_1(float *out, const uint8_t *p)
{
    const float d = gguf_half_at(p), m = gguf_half_at(p + 2);
    int q[GGUF_UNIT];
    gguf_five_bits(q, p + 4, p + 8);
    for (int i = 0; i < GGUF_UNIT; i++)
        out[i] = (float)q[i] * d + m;
}

GGUF_INLINE void gguf_unit_q8_0(float *out, const uint8_t *p)
{
    const float d = gguf_half_at(p);
    for (int i = 0; i < GGUF_UNIT; i++)
        out[i] = (float)(int8_t)p[2 + i] * d;
}

/* Values of the 4-bit codes of IQ4_NL and IQ4_XS. */
static const float gguf_iq4_value[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};
/* Twice the values of e2m1; without negative zero, as in ggml. */
static const float gguf_e2m1_value[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

GGUF_INLINE void gguf_nibble_values(float *out, const uint8_t *nibbles, const float *value, float d,
                                    int half)
{
    for (int i = 0; i < half; i++) {
        out[i] = value[nibbles[i] & 15] * d;
        out[half + i] = value[nibbles[i] >> 4] * d;
    }
}

GGUF_INLINE void gguf_unit_iq4_nl(float *out, const uint8_t *p)
{
    gguf_nibble_values(out, p + 2, gguf_iq4_value, gguf_half_at(p), 16);
}

/* Returns 2^(exponent - 128); the lowest two are subnormal. */
GGUF_INLINE float gguf_half_power(uint8_t exponent)
{
    const uint32_t bits = exponent < 2 ? 0x00200000u << exponent : (uint32_t)(exponent - 1) << 23;
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

GGUF_INLINE void gguf_unit_mxfp4(float *out, const uint8_t *p)
{
    gguf_nibble_values(out, p + 1, gguf_e2m1_value, gguf_half_power(p[0]), 16);
}

/* ---- a block of 64 with four scales ---- */

/* Returns half of an unsigned e4m3 number, to go with twice the values of e2m1. 0x7f counts as 0,
 * as in ggml. */
GGUF_INLINE float gguf_half_of_scale(uint8_t byte)
{
    return (byte & 0x7f) == 0x7f ? 0 : e4m3_to_f32(byte & 0x7f) * 0.5f;
}

GGUF_INLINE void gguf_unit_nvfp4(float *out, const uint8_t *p, int unit)
{
    for (int i = 0; i < 2; i++)
        gguf_nibble_values(out + 16 * i, p + 4 + 8 * (2 * unit + i), gguf_e2m1_value,
                           gguf_half_of_scale(p[2 * unit + i]), 8);
}

/* ---- blocks of 256 ---- */

GGUF_INLINE void gguf_unit_q2_k(float *out, const uint8_t *p, int unit)
{
    const uint8_t *q = p + 16 + unit / 4 * 32;
    const float d = gguf_half_at(p + 80), dmin = gguf_half_at(p + 82);
    const int shift = unit % 4 * 2;
    for (int half = 0; half < 2; half++) {
        const uint8_t scales = p[2 * unit + half];
        const float scale = d * (float)(scales & 15), least = dmin * (float)(scales >> 4);
        for (int i = 16 * half; i < 16 * half + 16; i++)
            out[i] = scale * (float)(q[i] >> shift & 3) - least;
    }
}

/* Returns a 6-bit scale minus its offset of 32: four bits are in the first eight bytes, two in the
 * last four. */
GGUF_INLINE int gguf_q3_k_scale(const uint8_t *scales, int at)
{
    const int low = at < 8 ? scales[at] & 15 : scales[at - 8] >> 4;
    return (low | (scales[8 + at % 4] >> (at / 4 * 2) & 3) << 4) - 32;
}

GGUF_INLINE void gguf_unit_q3_k(float *out, const uint8_t *p, int unit)
{
    const uint8_t *q = p + 32 + unit / 4 * 32;
    const float d = gguf_half_at(p + 108);
    const int shift = unit % 4 * 2;
    for (int half = 0; half < 2; half++) {
        const float scale = d * (float)gguf_q3_k_scale(p + 96, 2 * unit + half);
        for (int i = 16 * half; i < 16 * half + 16; i++)
            out[i] = scale * (float)((q[i] >> shift & 3) - ((p[i] >> unit & 1) ? 0 : 4));
    }
}

/* Extracts scale and minimum of a unit, six bits each, from twelve bytes. */
GGUF_INLINE void gguf_scale_and_minimum(const uint8_t *c, int unit, int *scale, int *minimum)
{
    if (unit < 4) {
        *scale = c[unit] & 63;
        *minimum = c[unit + 4] & 63;
    } else {
        *scale = (c[unit + 4] & 15) | c[unit - 4] >> 6 << 4;
        *minimum = c[unit + 4] >> 4 | c[unit] >> 6 << 4;
    }
}

GGUF_INLINE void gguf_unit_q4_k(float *out, const uint8_t *p, int unit)
{
    const uint8_t *q = p + 16 + unit / 2 * 32;
    const int shift = unit % 2 * 4;
    int scale, minimum;
    gguf_scale_and_minimum(p + 4, unit, &scale, &minimum);
    const float d = gguf_half_at(p) * (float)scale, m = gguf_half_at(p + 2) * (float)minimum;
    for (int i = 0; i < GGUF_UNIT; i++)
        out[i] = d * (float)(q[i] >> shift & 15) - m;
}

GGUF_INLINE void gguf_unit_q5_k(float *out, const uint8_t *p, int unit)
{
    const uint8_t *q = p + 48 + unit / 2 * 32, *high = p + 16;
    const int shift = unit % 2 * 4;
    int scale, minimum;
    gguf_scale_and_minimum(p + 4, unit, &scale, &minimum);
    const float d = gguf_half_at(p) * (float)scale, m = gguf_half_at(p + 2) * (float)minimum;
    for (int i = 0; i < GGUF_UNIT; i++)
        out[i] = d * (float)((q[i] >> shift & 15) | (high[i] >> unit & 1) << 4) - m;
}

GGUF_INLINE void gguf_unit_q6_k(float *out, const uint8_t *p, int unit)
{
    const uint8_t *low = p + unit / 4 * 64 + unit % 2 * 32, *high = p + 128 + unit / 4 * 32;
    const float d = gguf_half_at(p + 208);
    const int shift = unit % 4 / 2 * 4, high_shift = unit % 4 * 2;
    for (int half = 0; half < 2; half++) {
        const float scale = d * (float)(int8_t)p[192 + 2 * unit + half];
        for (int i = 16 * half; i < 16 * half + 16; i++)
            out[i] = scale *
                     (float)(((low[i] >> shift & 15) | (high[i] >> high_shift & 3) << 4) - 32);
    }
}

GGUF_INLINE void gguf_unit_q8_k(float *out, const uint8_t *p, int unit)
{
    float d;
    memcpy(&d, p, sizeof(d));
    for (int i = 0; i < GGUF_UNIT; i++)
        out[i] = d * (float)(int8_t)p[4 + unit * GGUF_UNIT + i];
}

GGUF_INLINE void gguf_unit_iq4_xs(float *out, const uint8_t *p, int unit)
{
    uint16_t high;
    memcpy(&high, p + 2, sizeof(high));
    const int scale = (p[4 + unit / 2] >> (unit % 2 * 4) & 15) | (high >> (2 * unit) & 3) << 4;
    gguf_nibble_values(out, p + 8 + unit * 16, gguf_iq4_value,
                       gguf_half_at(p) * (float)(scale - 32), 16);
}

/* ---- all ---- */

GGUF_INLINE void gguf_unit_of(float *out, const uint8_t *block, enum dtype dtype, int unit)
{
    switch (dtype) {
    case DTYPE_Q4_0: gguf_unit_q4_0(out, block); break;
    case DTYPE_Q4_1: gguf_unit_q4_1(out, block); break;
    case DTYPE_Q5_0: gguf_unit_q5_0(out, block); break;
    case DTYPE_Q5_1: gguf_unit_q5_1(out, block); break;
    case DTYPE_Q8_0: gguf_unit_q8_0(out, block); break;
    case DTYPE_Q2_K: gguf_unit_q2_k(out, block, unit); break;
    case DTYPE_Q3_K: gguf_unit_q3_k(out, block, unit); break;
    case DTYPE_Q4_K: gguf_unit_q4_k(out, block, unit); break;
    case DTYPE_Q5_K: gguf_unit_q5_k(out, block, unit); break;
    case DTYPE_Q6_K: gguf_unit_q6_k(out, block, unit); break;
    case DTYPE_Q8_K: gguf_unit_q8_k(out, block, unit); break;
    case DTYPE_IQ4_NL: gguf_unit_iq4_nl(out, block); break;
    case DTYPE_IQ4_XS: gguf_unit_iq4_xs(out, block, unit); break;
    case DTYPE_GGUF_MXFP4: gguf_unit_mxfp4(out, block); break;
    default: gguf_unit_nvfp4(out, block, unit); break;
    }
}

#endif
