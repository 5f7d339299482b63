/* SPDX-License-Identifier: Apache-2.0 */
/* Converts weights and activations to BF16 with AVX-512 and byte permutes (VBMI); shared by matmuls
 * with vectors and with tiles. */
#ifndef EY_KERNELS_CPU_TO_BF16_TMPL_H
#define EY_KERNELS_CPU_TO_BF16_TMPL_H

#include "kernels/cpu/common/fp8_lut_tmpl.h"

static const uint8_t fp8_low[128] = {MAGNITUDES(LOW_BYTE)}, fp8_high[128] = {MAGNITUDES(HIGH_BYTE)};

/* BF16 bits of the integers 0 to 127, also in two tables of bytes. */
#define TWO(F, b, step) F(b), F((b) + (step))
#define FOUR(F, b, step) TWO(F, b, step), TWO(F, (b) + 2 * (step), step)
#define EIGHT(F, b, step) FOUR(F, b, step), FOUR(F, (b) + 4 * (step), step)
#define SIXTEEN(F, b, step) EIGHT(F, b, step), EIGHT(F, (b) + 8 * (step), step)
#define THIRTY_TWO(F, b, step) SIXTEEN(F, b, step), SIXTEEN(F, (b) + 16 * (step), step)
#define INTEGERS(F)                                                                         \
    F(0), F(127 << 7), TWO(F, 128 << 7, 64), FOUR(F, 129 << 7, 32), EIGHT(F, 130 << 7, 16), \
        SIXTEEN(F, 131 << 7, 8), THIRTY_TWO(F, 132 << 7, 4), THIRTY_TWO(F, 133 << 7, 2),    \
        THIRTY_TWO(F, (133 << 7) + 64, 2)
static const uint8_t integer_low[128] = {INTEGERS(LOW_BYTE)},
                     integer_high[128] = {INTEGERS(HIGH_BYTE)};

INLINE struct byte_tables fp8_tables_load(void)
{
    return (struct byte_tables){{_mm512_loadu_si512(fp8_low), _mm512_loadu_si512(fp8_low + 64)},
                                {_mm512_loadu_si512(fp8_high), _mm512_loadu_si512(fp8_high + 64)}};
}

INLINE struct byte_tables byte_tables_load(enum dtype dtype)
{
    if (dtype != DTYPE_I8) return fp8_tables_load();
    return (struct byte_tables){
        {_mm512_loadu_si512(integer_low), _mm512_loadu_si512(integer_low + 64)},
        {_mm512_loadu_si512(integer_high), _mm512_loadu_si512(integer_high + 64)}};
}

/* Magnitudes from 64 on have the exponent 133, so their lower byte is twice the magnitude; smaller
 * ones are looked up in the first halves of the tables. */
INLINE void int8_to_bf16(__m512i out[2], __m512i quantized, const struct byte_tables *t)
{
    const __m512i index = _mm512_abs_epi8(quantized), sign = _mm512_set1_epi8((char)0x80);
    const __mmask64 below = _mm512_cmplt_epu8_mask(index, _mm512_set1_epi8(64));
    const __m512i low = _mm512_mask_permutexvar_epi8(_mm512_add_epi8(index, index), below, index,
                                                     t->low[0]);
    __m512i high = _mm512_mask_permutexvar_epi8(_mm512_set1_epi8(0x42), below, index, t->high[0]);
    high = _mm512_ternarylogic_epi64(high, quantized, sign, 0xf8); /* high | (quantized & sign) */
    out[0] = _mm512_unpacklo_epi8(low, high);
    out[1] = _mm512_unpackhi_epi8(low, high);
}

INLINE void bf16_in_fp8_order(__m512i v[2])
{
    __m512i first = _mm512_shuffle_i32x4(v[0], v[1], 0x88);
    v[1] = _mm512_shuffle_i32x4(v[0], v[1], 0xdd);
    v[0] = first;
}

/* Loads 64 weights. If only n < 64 of them exist, zeros follow them. */
INLINE void load_bf16_step(__m512i out[2], enum dtype dtype, const uint8_t *p,
                           const struct byte_tables *t, size_t n)
{
    uint8_t tail[2 * CPU_K_STEP] = {0};
    if (n < CPU_K_STEP) p = memcpy(tail, p, n * dtype_size(dtype));
    if (dtype == DTYPE_F8_E4M3)
        fp8_to_bf16(out, p, t);
    else if (dtype == DTYPE_I8)
        int8_to_bf16(out, _mm512_loadu_si512(p), t);
    else {
        out[0] = _mm512_loadu_si512(p);
        out[1] = _mm512_loadu_si512(p + 64);
    }
}

/* Converts 32 columns of a row from k on, times their scale, to BF16. `low`: returns the rounding
 * remainders instead. */
INLINE __m512i bf16_half_step(const struct packing_args *p, const float *x, size_t k, __m512 factor,
                              bool low)
{
    __m512 a = _mm512_mul_ps(load_padded(x, k, p->width), factor),
           b = _mm512_mul_ps(load_padded(x, k + 16, p->width), factor);
    __m512i high = (__m512i)_mm512_cvtne2ps_pbh(b, a);
    if (!low) return high;
    __m512i first = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(high)),
            second = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(high, 1));
    a = _mm512_sub_ps(a, (__m512)_mm512_slli_epi32(first, 16));
    b = _mm512_sub_ps(b, (__m512)_mm512_slli_epi32(second, 16));
    return (__m512i)_mm512_cvtne2ps_pbh(b, a);
}

/* The same for 64 columns, in the order of the weights. */
INLINE void bf16_step(__m512i out[2], const struct packing_args *p, const float *x, size_t k,
                      bool low)
{
    __m512 factor = _mm512_set1_ps(p->scale ? p->scale[k / FP8_BLOCK] : 1);
    out[0] = bf16_half_step(p, x, k, factor, low);
    out[1] = bf16_half_step(p, x, k + 32, factor, low);
    if (p->fp8_order) bf16_in_fp8_order(out);
}

#endif
