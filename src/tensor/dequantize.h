/* SPDX-License-Identifier: Apache-2.0 */
/* Converts stored element types to float32, exactly, and float32 to BF16. */
#ifndef EY_TENSOR_DEQUANTIZE_H
#define EY_TENSOR_DEQUANTIZE_H

#include <string.h>

#include "tensor/tensor.h"

/* Converts n elements of F32, BF16, F16 or F8_E4M3 (unscaled) at any alignment. */
void elements_to_f32(float *out, const void *in, enum dtype dtype, size_t n);

/* Rounds to nearest, ties to even; NaN stays NaN. */
static inline uint16_t f32_to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float bf16_to_f32(uint16_t v)
{
    uint32_t bits = (uint32_t)v << 16;
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* Converts a half to float32, exactly. */
static inline float f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
             mantissa = bits & 1023;
    if (exponent == 0) { /* zero and subnormals: mantissa · 2^-24 */
        float f = (float)mantissa * 0x1p-24f;
        return sign ? -f : f;
    }
    uint32_t wide = sign | (exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13;
    float f;
    memcpy(&f, &wide, sizeof(f));
    return f;
}

/* Converts any byte as e4m3fn (spec 2.5): no infinities, 0x7f and 0xff are NaN. */
float e4m3_to_f32(uint8_t byte);
/* Returns 2^(e - 127); 0 gives a subnormal number, 255 is NaN. */
static inline float e8m0_to_f32(uint8_t e)
{
    uint32_t bits = e == 255 ? 0x7fc00000 : e ? (uint32_t)e << 23 : 0x00400000;
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* Dequantizes columns first .. first+n-1 of a row in float32. The dtype must have a dequantizer in
 * types.def, and the data must exist, not only a recipe for it. */
void dequantize_columns(float *out, const struct tensor *w, int64_t row, int64_t first, size_t n);

/* Return the scale and the zero point of a group of columns. */
float weight_group_scale(const struct tensor *w, int64_t row, int64_t group);
int weight_group_zero(const struct tensor *w, int64_t row, int64_t group);

#endif
