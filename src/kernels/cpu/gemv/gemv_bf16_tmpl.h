/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV with BF16 dot products (AVX512-BF16). */
#ifndef EY_KERNELS_CPU_GEMV_BF16_TMPL_H
#define EY_KERNELS_CPU_GEMV_BF16_TMPL_H

#include "kernels/cpu/common/bf12_decode_tmpl.h"
#include "kernels/cpu/common/to_bf16_tmpl.h"
#include "kernels/cpu/gemv/gemv_sums_tmpl.h"

/* Rows one after the other. */
static void pack_gemv_bf16(void *out, const struct packing_args *p)
{
    for (int i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->padded; k += CPU_K_STEP) {
            __m512i values[2];
            bf16_step(values, p, p->x + (size_t)i * p->x_stride, k, false);
            memcpy((uint16_t *)out + (size_t)i * p->padded + k, values, sizeof(values));
        }
}

INLINE vf dot_bf16(vf acc, __m512i w, const uint16_t *x)
{
    return (vf)_mm512_dpbf16_ps((__m512)acc, (__m512bh)w, (__m512bh)_mm512_loadu_si512(x));
}

/* acc[n, places] += columns k .. k + CPU_K_STEP - 1 of the n rows of x times those of `count`
 * weight rows, which are from place `first` on. */
INLINE void gemv_step_bf16(vf *acc, const __m512i (*wv)[2], const struct gemv_args *t, size_t k,
                           const struct weight_streams *p, int first, int count, int n)
{
    UNROLL
    for (int b = 0; b < n; b++) {
        const uint16_t *x = (const uint16_t *)t->x + (size_t)b * t->k + k;
        UNROLL
        for (int a = 0; a < count; a++)
            acc[b * p->n + first + a] = dot_bf16(acc[b * p->n + first + a], wv[a][0], x);
        UNROLL
        for (int a = 0; a < count; a++)
            acc[b * p->n + first + a] = dot_bf16(acc[b * p->n + first + a], wv[a][1], x + 32);
    }
}

INLINE void gemv_streams_bf16(float *out, size_t out_stride, const struct gemv_args *t,
                              struct weight_streams p, enum dtype dtype, int n)
{
    vf acc[MAX_WEIGHT_STREAMS * MAX_GEMV_ROWS];
    size_t size = dtype_size(dtype);
    struct byte_tables tables = byte_tables_load(dtype);
    const uint8_t *w[MAX_WEIGHT_STREAMS];
    stream_pointers(w, &p, t);
    UNROLL
    for (int i = 0; i < p.n * n; i++)
        acc[i] = (vf){0};
    for (size_t k = 0; k < t->k; k += CPU_K_STEP) {
        prefetch_streams(w, p.n, k * size, size);
        UNROLL
        for (int first = 0; first < p.n; first += ROWS_DECODED) {
            __m512i wv[ROWS_DECODED][2];
            int count = p.n - first < ROWS_DECODED ? p.n - first : ROWS_DECODED;
            UNROLL
            for (int a = 0; a < count; a++)
                load_bf16_step(wv[a], dtype, w[first + a] + k * size, &tables, CPU_K_STEP);
            gemv_step_bf16(acc, wv, t, k, &p, first, count, n);
        }
    }
    store_streams(out, out_stride, acc, NULL, &p, t, n);
}

INLINE void gemv_streams_int4_bf16(float *out, size_t out_stride, const struct gemv_args *t,
                                   struct weight_streams p, enum dtype dtype, int n)
{
    const size_t group = (size_t)t->weight->tensor.group_size;
    struct int4_row w[MAX_WEIGHT_STREAMS];
    __m512i table[MAX_WEIGHT_STREAMS];
    vf acc[MAX_WEIGHT_STREAMS * MAX_GEMV_ROWS];
    (void)dtype;
    UNROLL
    for (int a = 0; a < p.n; a++) {
        w[a] = int4_row_at(t->weight, t->row + stream_row(&p, t, a));
        table[a] = _mm512_setzero_si512();
    }
    UNROLL
    for (int i = 0; i < p.n * n; i++)
        acc[i] = (vf){0};
    for (size_t k = 0; k < t->k; k += CPU_K_STEP)
        UNROLL
    for (int a = 0; a < p.n; a++) {
        __m512i wv[1][2];
        if (k % LINE_NIBBLES == 0) PREFETCH_WEIGHTS(w[a].nibbles + k / 2);
        int4_step(wv[0], &w[a], &table[a], group, k, CPU_K_STEP);
        gemv_step_bf16(acc, wv, t, k, &p, a, 1, n);
    }
    store_streams(out, out_stride, acc, NULL, &p, t, n);
}

/* ---- BF12 blocks ---- */

enum { BF12_ROWS_AT_ONCE = ROWS_DECODED };

static void gemv_uncompressed_bf16(float *out, size_t out_stride, const struct gemv_args *t)
{
    GEMV_INSTANCES(gemv_streams_bf16, DTYPE_BF16)
}

#define GEMV_BF12_STEP gemv_step_bf16
#define GEMV_BF12_UNCOMPRESSED gemv_uncompressed_bf16
#include "kernels/cpu/gemv/gemv_bf12_tmpl.h"

static void gemv_bf16(float *out, size_t out_stride, const struct gemv_args *t)
{
    switch (t->dtype) {
    case DTYPE_F8_E4M3: GEMV_INSTANCES(gemv_streams_bf16, DTYPE_F8_E4M3) break;
    case DTYPE_I8: GEMV_INSTANCES(gemv_streams_bf16, DTYPE_I8) break;
    case DTYPE_INT4: GEMV_INSTANCES(gemv_streams_int4_bf16, DTYPE_INT4) break;
    default: (t->weight->bf12 ? gemv_bf12 : gemv_uncompressed_bf16)(out, out_stride, t);
    }
}

#endif
