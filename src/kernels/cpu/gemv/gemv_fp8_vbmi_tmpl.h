/* SPDX-License-Identifier: Apache-2.0 */
/* FP8 weights as float32 by lookup. In half the instructions of
 * load_fp8_pair(), and NaNs come out as NaN. Their columns are in an order of their own, 64 by
 * 64, and so is what they are multiplied with (packing_args.fp8_order). */
#ifndef EY_KERNELS_CPU_GEMV_FP8_VBMI_TMPL_H
#define EY_KERNELS_CPU_GEMV_FP8_VBMI_TMPL_H

#include "kernels/cpu/common/fp8_lut_tmpl.h"
#include "kernels/cpu/gemv/gemv_sums_tmpl.h"

/* BF16 bits divided by FP8_LOAD_FACTOR: what is packed for FP8 weights is multiplied by that. */
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

/* Every first or every second BF16 of 16 words, as float32. */
INLINE vf bf16_half_to_f32(__m512i words, int second)
{
    return (vf)(second ? _mm512_and_si512(words, _mm512_set1_epi32((int)0xffff0000))
                       : _mm512_slli_epi32(words, 16));
}

/* 64 quantized values as float32 divided by FP8_LOAD_FACTOR, in the order of f32_in_fp8_order(). */
INLINE void fp8_lut_to_f32(vf out[4], const uint8_t *p, const struct byte_tables *t)
{
    __m512i words[2];
    fp8_to_bf16(words, p, t);
    for (int i = 0; i < 4; i++)
        out[i] = bf16_half_to_f32(words[i / 2], i % 2);
}

/* 64 columns of LANES rows, of which n are there, as `cols` columns are; zeros for the others. */
INLINE void unpack_fp8_step(float (*out)[CPU_K_STEP], const uint8_t *in, size_t stride, size_t n,
                            size_t cols)
{
    const struct byte_tables tables = scaled_fp8_tables_load();
    for (size_t a = 0; a < LANES; a++) {
        uint8_t some[CPU_K_STEP] = {0};
        const uint8_t *quantized = a < n ? in + a * stride : some;
        vf x[4];
        if (a < n && cols < CPU_K_STEP) quantized = memcpy(some, quantized, cols);
        prefetch_panel(quantized, stride, CPU_K_STEP);
        fp8_lut_to_f32(x, quantized, &tables);
        memcpy(out[a], x, sizeof(x));
    }
}

/* For several FMAs: compilers would rather read it once for each. */
INLINE vf load_once(const float *p)
{
    vf x = load_vf(p);
    __asm__("" : "+v"(x));
    return x;
}

INLINE void gemv_streams_fp8_lut(float *out, size_t out_stride, const struct gemv_args *t,
                                 struct weight_streams p, enum dtype dtype, int n)
{
    enum { TOGETHER = 4 }; /* rows, in registers */
    const struct byte_tables tables = scaled_fp8_tables_load();
    vf acc[MAX_WEIGHT_STREAMS * MAX_GEMV_ROWS];
    const uint8_t *w[MAX_WEIGHT_STREAMS];
    (void)dtype;
    stream_pointers(w, &p, t);
    UNROLL
    for (int i = 0; i < p.n * n; i++)
        acc[i] = (vf){0};
    for (size_t k = 0; k < t->k; k += CPU_K_STEP) {
        prefetch_streams(w, p.n, k, 1);
        UNROLL
        for (int first = 0; first < p.n; first += TOGETHER) {
            __m512i words[TOGETHER][2];
            int count = p.n - first < TOGETHER ? p.n - first : TOGETHER;
            UNROLL
            for (int a = 0; a < count; a++)
                fp8_to_bf16(words[a], w[first + a] + k, &tables);
            UNROLL
            for (int i = 0; i < 4; i++) {
                vf wv[TOGETHER];
                UNROLL
                for (int a = 0; a < count; a++)
                    wv[a] = bf16_half_to_f32(words[a][i / 2], i % 2);
                UNROLL
                for (int b = 0; b < n; b++) {
                    vf x = load_once((const float *)t->x + (size_t)b * t->k + k +
                                     (size_t)i * LANES);
                    UNROLL
                    for (int a = 0; a < count; a++)
                        acc[b * p.n + first + a] += wv[a] * x;
                }
            }
        }
    }
    store_streams(out, out_stride, acc, NULL, &p, t, n);
}

#endif
