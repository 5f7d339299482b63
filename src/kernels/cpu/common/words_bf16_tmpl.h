/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls with BF16 dot products (AVX512-BF16): the parts of GEMV (gemv_words_tmpl.h) and GEMM
 * (gemm_words_tmpl.h) for weights as BF16. A word is two BF16. */
#ifndef EY_KERNELS_CPU_WORDS_BF16_TMPL_H
#define EY_KERNELS_CPU_WORDS_BF16_TMPL_H

#include "kernels/cpu/common/bf12_decode_tmpl.h"
#include "kernels/cpu/common/dequantize_tmpl.h"
#include "kernels/cpu/common/to_bf16_tmpl.h"
#include "kernels/cpu/gemv/gemv_streams_tmpl.h"

/* The templates add this suffix to names. */
#define WORDS(name) name##_bf16

enum {
    WORD_COLUMNS = 2,
    STEP_VECTORS = CPU_K_STEP / (WORD_COLUMNS * LANES), /* vectors of words of a step */
    ROWS_DECODED = 4,                                   /* weight rows decoded into registers */
    BF12_ROWS_AT_ONCE = ROWS_DECODED,
    GEMV_TO_L2 = 1, /* weights are prefetched into the L2 cache */
    SCALED_WORD_FLOATS = 2,
    MAX_PANEL_BYTES = 768 << 10
};

/* ---- x ---- */

/* Stores CPU_K_STEP columns of a row times their scale, in the order of the weights, as words. */
INLINE void store_x_words_bf16(float *out, const struct packing_args *p, int row, size_t k)
{
    __m512i words[STEP_VECTORS];
    bf16_step(words, p, p->x + (size_t)row * p->x_stride, k, false);
    memcpy(out, words, sizeof(words));
}

/* ---- GEMV: rows of any dtype ---- */

struct decoder_bf16 {
    struct byte_tables tables;
};

typedef __m512i decoded[2]; /* columns of a row */

INLINE struct decoder_bf16 decoder_of_bf16(enum dtype dtype)
{
    return (struct decoder_bf16){byte_tables_load(dtype)};
}

INLINE size_t decoded_columns_bf16(enum dtype dtype)
{
    (void)dtype;
    return CPU_K_STEP;
}

/* Nothing to check: decoding keeps FP8 NaNs. */
INLINE void look_for_nan_bf16(struct decoder_bf16 *d, enum dtype dtype, const uint8_t *const *w,
                              int n, size_t k)
{
    (void)d;
    (void)dtype;
    (void)w;
    (void)n;
    (void)k;
}

INLINE bool nan_was_seen_bf16(const struct decoder_bf16 *d, enum dtype dtype)
{
    (void)d;
    (void)dtype;
    return false;
}

INLINE void decode_columns_bf16(decoded out, enum dtype dtype, const uint8_t *p,
                                const struct decoder_bf16 *d)
{
    load_bf16_step(out, dtype, p, &d->tables, CPU_K_STEP);
}

INLINE vf dot_bf16(vf acc, __m512i w, const uint16_t *x)
{
    return (vf)_mm512_dpbf16_ps((__m512)acc, (__m512bh)w, (__m512bh)_mm512_loadu_si512(x));
}

/* acc[n, streams] += CPU_K_STEP columns from k on of the n rows of x times those of `count` weight
 * rows, beginning with stream `first`. */
INLINE void gemv_bf12_step_bf16(vf *acc, const decoded *wv, const struct gemv_args *t, size_t k,
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

INLINE void gemv_step_bf16(vf *acc, const decoded *wv, enum dtype dtype, const struct gemv_args *t,
                           size_t k, const struct weight_streams *p, int first, int count, int n)
{
    (void)dtype;
    gemv_bf12_step_bf16(acc, wv, t, k, p, first, count, n);
}

/* ---- GEMM: x ----
 *
 * Where weights have scales, x is packed as float32 in the order in which quantized values are
 * unpacked, and rounded when a phase is scaled. A packed phase has the first elements of all its
 * words, then the second ones. */

enum { MAX_PACKED_VECTORS = 2 * STEP_VECTORS };

/* Returns the number of vectors into which CPU_K_STEP columns of a row are packed. */
INLINE size_t packed_vectors_bf16(const struct packing_args *p)
{
    return p->fp8_order ? MAX_PACKED_VECTORS : STEP_VECTORS;
}

/* Return the number of steps of a phase, and the step of vector i of the columns from k on. */
INLINE size_t packed_steps_bf16(const struct packing_args *p)
{
    return p->padded / (WORD_COLUMNS * LANES) * (p->fp8_order ? WORD_COLUMNS : 1);
}

INLINE size_t packed_step_bf16(const struct packing_args *p, size_t k, size_t i)
{
    const size_t step = k / (WORD_COLUMNS * LANES), steps = p->padded / (WORD_COLUMNS * LANES);
    return p->fp8_order ? step + i / 2 + i % 2 * steps : step + i;
}

INLINE void x_packed_words_bf16(vf out[MAX_PACKED_VECTORS], const struct packing_args *p, int row,
                                size_t k)
{
    if (!p->fp8_order) {
        store_x_words_bf16((float *)out, p, row, k);
        return;
    }
    for (size_t i = 0; i < MAX_PACKED_VECTORS; i++)
        out[i] = x_lanes(p, row, k + i * LANES);
    f32_in_fp8_order(out);
}

/* Multiplies n pairs of float32 (first[i], second[i]) by a factor and converts each to a word. */
INLINE void scale_bf16(uint32_t *out, const float *first, const float *second, size_t n,
                       float factor)
{
    static const uint16_t interleaved[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                             21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                             11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i order = _mm512_loadu_si512(interleaved);
    const __m512 f = _mm512_set1_ps(factor);
    for (size_t i = 0; i < n; i += LANES) {
        const __mmask16 there = (__mmask16)(n - i < LANES ? (1u << (n - i)) - 1 : 0xffff);
        __m512 a = _mm512_mul_ps(_mm512_maskz_loadu_ps(there, first + i), f),
               b = _mm512_mul_ps(_mm512_maskz_loadu_ps(there, second + i), f);
        _mm512_mask_storeu_epi32(
            out + i, there, _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(b, a)));
    }
}

/* Multiplies n of the `all` words in x, from index `at` on, by their scale and converts them. */
INLINE void scale_words_bf16(uint32_t *out, const float *x, size_t all, size_t at, size_t n,
                             float scale)
{
    scale_bf16(out + at, x + at, x + all + at, n, scale);
}

INLINE vf fma_word_bf16(vf sum, vf w, const uint32_t *x)
{
    return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)_mm512_set1_epi32((int)*x));
}

/* ---- GEMM: panels ---- */

/* Loads 64 columns of a weight row from k on, with zeros after its end. */
INLINE void panel_bf16_step(__m512i out[2], const struct cpu_matrix *w, int64_t row, size_t k,
                            const struct byte_tables *tables)
{
    const size_t stride = weight_row_bytes(&w->tensor), size = dtype_size(w->tensor.dtype);
    const uint8_t *in = (const uint8_t *)w->tensor.data + (size_t)row * stride + k * size;
    prefetch_panel(in, stride, CPU_K_STEP * size);
    load_bf16_step(out, w->tensor.dtype, in, tables, (size_t)w->tensor.cols - k);
}

/* The source of a panel's LANES rows. */
struct panel_rows_bf16 {
    const struct cpu_matrix *w;
    int64_t row;
    size_t n;                       /* rows that exist */
    const struct bf12_block *strip; /* the BF12 block, or NULL to read the stored rows */
    uint32_t outlier;
    struct byte_tables tables;
};

INLINE struct panel_rows_bf16 panel_rows_of_bf16(const struct cpu_matrix *w)
{
    return (struct panel_rows_bf16){.w = w, .tables = fp8_tables_load()};
}

static void panel_rows_enter_bf16(struct panel_rows_bf16 *r, int64_t row, size_t n, size_t k)
{
    r->row = row;
    r->n = n < LANES ? n : LANES;
    r->strip = NULL;
    r->outlier = 0;
    if (!r->w->bf12 || !r->n || bf12_block_at(r->w->bf12, row)->n_outliers == BF12_UNCOMPRESSED)
        return;
    r->strip = bf12_block_at(r->w->bf12, row);
    while (r->outlier < r->strip->n_outliers && r->strip->outlier[r->outlier].at < k * BF12_ROWS)
        r->outlier++;
}

/* Loads 64 columns of all rows from k on, with zeros for missing ones. */
INLINE void panel_words_bf16(float (*words)[LANES * STEP_VECTORS], struct panel_rows_bf16 *r,
                             size_t k)
{
    __m512i(*values)[2] = (__m512i(*)[2])(void *)words;
    const struct cpu_matrix *w = r->w;
    const uint8_t *step = r->strip
                              ? bf12_steps(w->bf12, &w->tensor, r->row) + k / CPU_K_STEP * BF12_STEP
                              : NULL;
    for (size_t i = 0; r->strip && i < BF12_STEP; i += 64)
        __builtin_prefetch(step + BF12_PREFETCH_BYTES + i, 0, 2);
    for (size_t a = 0; a < LANES; a++) {
        if (a >= r->n)
            values[a][0] = values[a][1] = _mm512_setzero_si512();
        else if (r->strip)
            bf12_to_words(values[a], r->strip, step, (int)a);
        else
            panel_bf16_step(values[a], w, r->row + (int64_t)a, k, &r->tables);
    }
    if (!r->strip) return;
    const uint32_t next = next_outlier(r->strip, r->outlier, k);
    if (next > r->outlier) patch_outliers(values, r->strip, r->outlier, next, k, 0, (int)r->n);
    r->outlier = next;
}

#endif
