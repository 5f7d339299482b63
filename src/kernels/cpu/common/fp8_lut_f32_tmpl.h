/* SPDX-License-Identifier: Apache-2.0 */
/* Converts FP8 weights to float32 by lookup, in half the instructions of load_fp8_pair(), and NaNs
 * come out as NaN. Columns come permuted within each 64, so x is packed in the same order
 * (packing_args.fp8_order). */
#ifndef EY_KERNELS_CPU_FP8_LUT_F32_TMPL_H
#define EY_KERNELS_CPU_FP8_LUT_F32_TMPL_H

#include "kernels/cpu/common/fp8_lut_tmpl.h"

/* BF16 bits of values divided by FP8_LOAD_FACTOR. Inputs that are packed for FP8 weights are
 * multiplied by that factor. */
#define SCALED_HIGH_BYTE(bits) \
    HIGH_BYTE((bits) == 0 || (bits) == 0x7fc0 ? (bits) : (bits) - (8 << 7))
static const uint8_t scaled_fp8_low[128] = {MAGNITUDES(LOW_BYTE)},
                     scaled_fp8_high[128] = {MAGNITUDES(SCALED_HIGH_BYTE)};

INLINE struct byte_tables scaled_fp8_tables_load(void)
{
    return (struct byte_tables){
        {_mm512_loadu_si512(scaled_fp8_low), _mm512_loadu_si512(scaled_fp8_low + 64)},
        {_mm512_loadu_si512(scaled_fp8_high), _mm512_loadu_si512(scaled_fp8_high + 64)}};
}

/* Returns the first or the second BF16 of each of 16 words as float32. */
INLINE vf bf16_half_to_f32(__m512i words, int second)
{
    return (vf)(second ? _mm512_and_si512(words, _mm512_set1_epi32((int)0xffff0000))
                       : _mm512_slli_epi32(words, 16));
}

/* Converts 64 quantized values to float32 divided by FP8_LOAD_FACTOR, in the order of
 * f32_in_fp8_order(). */
INLINE void fp8_lut_to_f32(vf out[4], const uint8_t *p, const struct byte_tables *t)
{
    __m512i words[2];
    fp8_to_bf16(words, p, t);
    for (int i = 0; i < 4; i++)
        out[i] = bf16_half_to_f32(words[i / 2], i % 2);
}

#endif
