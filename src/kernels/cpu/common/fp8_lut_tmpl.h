/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up bytes of weights, 64 at a time, with AVX-512's byte permutes (VBMI). */
#ifndef EY_KERNELS_CPU_FP8_LUT_TMPL_H
#define EY_KERNELS_CPU_FP8_LUT_TMPL_H

#include "kernels/cpu/common/simd_tmpl.h"

/* BF16 bits of e4m3 magnitudes (spec 2.5), all exact: subnormals m · 2^-9, then (8 + m) · 2^(e-10);
 * 0x7f is NaN. Two tables hold their lower and upper bytes, for byte permutes. */
#define SUBNORMALS(F)                                                                \
    F(0), F(118 << 7), F(119 << 7), F(119 << 7 | 64), F(120 << 7), F(120 << 7 | 32), \
        F(120 << 7 | 64), F(120 << 7 | 96)
#define SEVEN_NORMALS(F, b) \
    F(b), F((b) | 16), F((b) | 32), F((b) | 48), F((b) | 64), F((b) | 80), F((b) | 96)
#define NORMALS(F, e) SEVEN_NORMALS(F, ((e) + 120) << 7), F(((e) + 120) << 7 | 112)
#define MAGNITUDES(F)                                                                         \
    SUBNORMALS(F), NORMALS(F, 1), NORMALS(F, 2), NORMALS(F, 3), NORMALS(F, 4), NORMALS(F, 5), \
        NORMALS(F, 6), NORMALS(F, 7), NORMALS(F, 8), NORMALS(F, 9), NORMALS(F, 10),           \
        NORMALS(F, 11), NORMALS(F, 12), NORMALS(F, 13), NORMALS(F, 14),                       \
        SEVEN_NORMALS(F, 135 << 7), F(0x7fc0)
#define LOW_BYTE(bits) (uint8_t)((bits)&255)
#define HIGH_BYTE(bits) (uint8_t)((bits) >> 8)

struct byte_tables {
    __m512i low[2], high[2];
};

/* Converts 64 quantized values to 64 BF16. Unpacking works within quarters, so the first vector has
 * values 0-7, 16-23, 32-39 and 48-55, the second the rest. bf16_in_fp8_order() and
 * f32_in_fp8_order() put x in the same order. */
INLINE void bytes_to_bf16(__m512i out[2], __m512i quantized, __m512i index,
                          const struct byte_tables *t)
{
    __m512i low = _mm512_permutex2var_epi8(t->low[0], index, t->low[1]);
    __m512i high = _mm512_permutex2var_epi8(t->high[0], index, t->high[1]);
    high = _mm512_ternarylogic_epi64(high, quantized, _mm512_set1_epi8((char)0x80),
                                     0xf8); /* high | (quantized & 0x80) */
    out[0] = _mm512_unpacklo_epi8(low, high);
    out[1] = _mm512_unpackhi_epi8(low, high);
}

INLINE void fp8_to_bf16(__m512i out[2], const uint8_t *p, const struct byte_tables *t)
{
    __m512i quantized = _mm512_loadu_si512(p);
    bytes_to_bf16(out, quantized, quantized, t);
}

/* Permutes 64 floats in four vectors to the order of bytes_to_bf16() after its words are split into
 * two float32 each: vector 2h + o has element o of every word of out[h]. */
INLINE void f32_in_fp8_order(vf x[4])
{
    vf out[4];
    for (int i = 0; i < 4; i++) { /* every second of 8 columns of each vector, from `first` on */
        const int first = i / 2 * 8 + i % 2;
        const __m512i every = _mm512_add_epi32(
            _mm512_setr_epi32(0, 2, 4, 6, 16, 18, 20, 22, 0, 0, 0, 0, 0, 0, 0, 0),
            _mm512_set1_epi32(first));
        __m512 low = _mm512_permutex2var_ps((__m512)x[0], every, (__m512)x[1]),
               high = _mm512_permutex2var_ps((__m512)x[2], every, (__m512)x[3]);
        out[i] = (vf)_mm512_shuffle_f32x4(low, high, 0x44);
    }
    memcpy(x, out, sizeof(out));
}

#endif
