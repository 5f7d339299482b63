/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls in float32: the parts of GEMV (gemv_words_tmpl.h) and GEMM (gemm_words_tmpl.h) for
 * weights of any dtype as float32. A word is one float32. */
#ifndef EY_KERNELS_CPU_WORDS_F32_TMPL_H
#define EY_KERNELS_CPU_WORDS_F32_TMPL_H

#include "kernels/cpu/common/dequantize_tmpl.h"
#include "kernels/cpu/gemv/gemv_streams_tmpl.h"
#ifdef HAVE_VBMI
#include "kernels/cpu/common/fp8_lut_f32_tmpl.h"
#endif
#if LANES >= 8
#include "kernels/cpu/common/bf12_decode_tmpl.h"
#endif

/* The templates add this suffix to names. */
#define WORDS(name) name##_f32

enum {
    WORD_COLUMNS = 1,
    STEP_VECTORS = CPU_K_STEP / LANES,  /* vectors of words of a step */
    ROWS_DECODED = LANES == 16 ? 4 : 2, /* weight rows decoded into registers */
    BF12_ROWS_AT_ONCE = 1,
    GEMV_TO_L2 = 0, /* weights are prefetched into the L1 cache */
    SCALED_WORD_FLOATS = 1,
    MAX_PANEL_BYTES = 3 << 20
};

/* ---- x ---- */

/* Loads CPU_K_STEP columns of a row in the order of the weights. */
INLINE void x_unscaled_words(vf out[STEP_VECTORS], const struct packing_args *p, int row, size_t k)
{
    for (size_t i = 0; i < STEP_VECTORS; i++)
        out[i] = x_lanes(p, row, k + i * LANES);
#ifdef HAVE_VBMI
    if (p->fp8_order) f32_in_fp8_order(out);
#endif
}

/* Stores CPU_K_STEP columns of a row times their scale, as words. */
INLINE void store_x_words_f32(float *out, const struct packing_args *p, int row, size_t k)
{
    vf x[STEP_VECTORS];
    const float factor = p->scale && k < p->width ? p->scale[k / FP8_BLOCK] * FP8_LOAD_FACTOR : 1;
    x_unscaled_words(x, p, row, k);
    for (size_t i = 0; i < STEP_VECTORS; i++)
        store_vf(out + i * LANES, x[i] * factor);
}

/* ---- GEMV: rows of any dtype ---- */

#ifdef HAVE_VBMI
#define IS_LUT(dtype) ((dtype) == DTYPE_F8_E4M3)
#else
#define IS_LUT(dtype) ((void)(dtype), false)
#endif

/* State of decoding. Without lookups, FP8 NaNs are lost in decoding, so they are recorded here. */
struct decoder_f32 {
    magnitudes most;
#ifdef HAVE_VBMI
    struct byte_tables tables;
#endif
};

typedef vf decoded[2]; /* columns of a row */

INLINE struct decoder_f32 decoder_of_f32(enum dtype dtype)
{
    struct decoder_f32 d = {.most = {0}};
#ifdef HAVE_VBMI
    if (IS_LUT(dtype)) d.tables = scaled_fp8_tables_load();
#endif
    (void)dtype;
    return d;
}

INLINE size_t decoded_columns_f32(enum dtype dtype)
{
    return IS_LUT(dtype) ? CPU_K_STEP : STEP;
}

/* Checks columns k .. k + CPU_K_STEP - 1 of n rows for NaN. */
INLINE void look_for_nan_f32(struct decoder_f32 *d, enum dtype dtype, const uint8_t *const *w,
                             int n, size_t k)
{
    if (dtype != DTYPE_F8_E4M3 || IS_LUT(dtype)) return;
    UNROLL
    for (int a = 0; a < n; a++)
        d->most = max_magnitudes(d->most, w[a] + k);
}

INLINE bool nan_was_seen_f32(const struct decoder_f32 *d, enum dtype dtype)
{
    return dtype == DTYPE_F8_E4M3 && !IS_LUT(dtype) && has_nan_e4m3(d->most);
}

INLINE void decode_columns_f32(decoded out, enum dtype dtype, const uint8_t *p,
                               const struct decoder_f32 *d)
{
#ifdef HAVE_VBMI
    if (IS_LUT(dtype)) {
        __m512i words[2];
        fp8_to_bf16(words, p, &d->tables);
        out[0] = (vf)words[0];
        out[1] = (vf)words[1];
        return;
    }
#endif
    (void)d;
    load_weight_pair(out, dtype, p);
}

#ifdef HAVE_VBMI
/* Loads once for several FMAs: compilers would load again for each. */
INLINE vf load_once(const float *p)
{
    vf x = load_vf(p);
    __asm__("" : "+v"(x));
    return x;
}

INLINE void gemv_lut_step(vf *acc, const decoded *wv, const struct gemv_args *t, size_t k,
                          const struct weight_streams *p, int first, int count, int n)
{
    UNROLL
    for (int i = 0; i < 4; i++) {
        vf w[ROWS_DECODED];
        UNROLL
        for (int a = 0; a < count; a++)
            w[a] = bf16_half_to_f32((__m512i)wv[a][i / 2], i % 2);
        UNROLL
        for (int b = 0; b < n; b++) {
            vf x = load_once((const float *)t->x + (size_t)b * t->k + k + (size_t)i * LANES);
            UNROLL
            for (int a = 0; a < count; a++)
                acc[b * p->n + first + a] += w[a] * x;
        }
    }
}
#endif

/* acc[n, streams] += decoded_columns_f32() columns from k on of the n rows of x times those of
 * `count` weight rows, beginning with stream `first`. */
INLINE void gemv_step_f32(vf *acc, const decoded *wv, enum dtype dtype, const struct gemv_args *t,
                          size_t k, const struct weight_streams *p, int first, int count, int n)
{
#ifdef HAVE_VBMI
    if (IS_LUT(dtype)) {
        gemv_lut_step(acc, wv, t, k, p, first, count, n);
        return;
    }
#endif
    (void)dtype;
    UNROLL
    for (int b = 0; b < n; b++) {
        const float *x = (const float *)t->x + (size_t)b * t->k + k;
        vf x0 = load_vf(x), x1 = load_vf(x + LANES);
        UNROLL
        for (int a = 0; a < count; a++)
            acc[b * p->n + first + a] += wv[a][0] * x0;
        UNROLL
        for (int a = 0; a < count; a++)
            acc[b * p->n + first + a] += wv[a][1] * x1;
    }
}

/* ---- GEMV: BF12 blocks ---- */

#if LANES >= 8

/* Returns vector i of 64 columns. */
INLINE vf bf16_words_to_f32(const bf12_vector *words, int i)
{
#if LANES == 16
    return (vf)_mm512_slli_epi32(
        _mm512_cvtepu16_epi32(i % 2 ? _mm512_extracti64x4_epi64(words[i / 2], 1)
                                    : _mm512_castsi512_si256(words[i / 2])),
        16);
#else
    const __m256i none = _mm256_setzero_si256();
    return (vf)(i % 2 ? _mm256_unpackhi_epi16(none, words[i / 2])
                      : _mm256_unpacklo_epi16(none, words[i / 2]));
#endif
}

/* acc[n, streams] += columns k .. k + CPU_K_STEP - 1 of the n rows of x times those of `count`
 * weight rows, beginning with stream `first`. */
INLINE void gemv_bf12_step_f32(vf *acc, const bf12_vector (*wv)[BF12_VECTORS],
                               const struct gemv_args *t, size_t k, const struct weight_streams *p,
                               int first, int count, int n)
{
    UNROLL
    for (int a = 0; a < count; a++) {
        const float *x = (const float *)t->x + k;
        __asm__(""
                : "+r"(x)); /* otherwise compilers load all columns for two weight rows and run out
                               of registers */
        UNROLL
        for (int i = 0; i < CPU_K_STEP / LANES; i++) {
            const vf w = bf16_words_to_f32(wv[a], i);
            UNROLL
            for (int b = 0; b < n; b++)
                acc[b * p->n + first + a] += w * load_vf(x + (size_t)b * t->k + (size_t)i * LANES);
        }
    }
}

#endif

/* ---- GEMV: four-bit weights ---- */

/* Loads LANES 4-bit values as float32. */
INLINE vf load_int4(const uint8_t *p)
{
#if LANES == 16
    __m512i q = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(const void *)p));
    q = _mm512_and_si512(_mm512_or_si512(q, _mm512_slli_epi64(q, 28)), _mm512_set1_epi32(15));
    return (vf)_mm512_cvtepi32_ps(q);
#elif LANES == 8
    int32_t four;
    memcpy(&four, p, sizeof(four));
    __m256i q = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four));
    q = _mm256_and_si256(_mm256_or_si256(q, _mm256_slli_epi64(q, 28)), _mm256_set1_epi32(15));
    return (vf)_mm256_cvtepi32_ps(q);
#else
    float f[LANES];
    for (size_t i = 0; i < LANES; i++)
        f[i] = (float)(p[i / 2] >> (i % 2 * 4) & 15);
    return load_vf(f);
#endif
}

struct int4_stream_f32 {
    struct int4_row row;
};

INLINE struct int4_stream_f32 int4_stream_at_f32(const struct cpu_matrix *w, int64_t row)
{
    return (struct int4_stream_f32){int4_row_at(w, row)};
}

/* Returns the columns of a step, which is a group. */
INLINE size_t int4_columns_f32(size_t group)
{
    return group;
}

INLINE void int4_enter_step_f32(struct int4_stream_f32 *s, size_t group, size_t k)
{
    int4_enter_group(&s->row, k / group);
}

/* acc[n, streams] += a step of the n rows of x times that of weight row `a`. */
INLINE void gemv_int4_step_f32(vf *acc, struct int4_stream_f32 *s, const struct gemv_args *t,
                               size_t group, size_t k, const struct weight_streams *p, int a, int n)
{
    const struct int4_row *w = &s->row;
    for (size_t u = k; u < k + group; u += LANES) {
        vf wv = load_int4(w->nibbles + u / 2) * splat(w->scale) + splat(w->offset);
        UNROLL
        for (int b = 0; b < n; b++)
            acc[b * p->n + a] += wv * load_vf((const float *)t->x + (size_t)b * t->k + u);
    }
}

/* ---- GEMM: x ---- */

enum { MAX_PACKED_VECTORS = STEP_VECTORS };

/* Returns the number of vectors into which CPU_K_STEP columns of a row are packed. */
INLINE size_t packed_vectors_f32(const struct packing_args *p)
{
    (void)p;
    return STEP_VECTORS;
}

/* Return the number of steps of a phase, and the step of vector i of the columns from k on. */
INLINE size_t packed_steps_f32(const struct packing_args *p)
{
    return p->padded / LANES;
}

INLINE size_t packed_step_f32(const struct packing_args *p, size_t k, size_t i)
{
    (void)p;
    return k / LANES + i;
}

INLINE void x_packed_words_f32(vf out[MAX_PACKED_VECTORS], const struct packing_args *p, int row,
                               size_t k)
{
    x_unscaled_words(out, p, row, k);
}

/* Multiplies n floats by a factor. */
INLINE void scale_f32(float *out, const float *x, size_t n, float factor)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store_vf(out + i, load_vf(x + i) * factor);
    for (; i < n; i++)
        out[i] = x[i] * factor;
}

/* Multiplies n of the `all` words in x, from index `at` on, by their scale. */
INLINE void scale_words_f32(uint32_t *out, const float *x, size_t all, size_t at, size_t n,
                            float scale)
{
    (void)all;
    scale_f32((float *)(void *)(out + at), x + at, n, scale * FP8_LOAD_FACTOR);
}

INLINE vf fma_word_f32(vf sum, vf w, const uint32_t *x)
{
    float value;
    memcpy(&value, x, sizeof(value));
    return sum + w * value;
}

/* ---- GEMM: panels ---- */

#if LANES >= 8

/* Decodes 64 columns of LANES rows, n of which exist; returns false if the block is
 * uncompressed. */
static bool unpack_bf12_rows(float (*out)[CPU_K_STEP], const struct cpu_matrix *w, int64_t row,
                             size_t n, size_t k)
{
    const struct bf12_block *s = bf12_block_at(w->bf12, row);
    const uint8_t *step = bf12_steps(w->bf12, &w->tensor, row) + k / CPU_K_STEP * BF12_STEP;
    bf12_vector words[LANES][BF12_VECTORS];
    uint32_t odd = 0;
    if (s->n_outliers == BF12_UNCOMPRESSED) return false;
    memset(words, 0, sizeof(words));
    for (size_t i = 0; i < BF12_STEP; i += 64)
        __builtin_prefetch(step + BF12_PREFETCH_BYTES + i, 0, 2);
    for (size_t a = 0; a < LANES && a < n; a++)
        bf12_to_words(words[a], s, step, (int)(row % BF12_ROWS) + (int)a);
    while (odd < s->n_outliers && s->outlier[odd].at < k * BF12_ROWS)
        odd++;
    patch_outliers(words, s, odd, next_outlier(s, odd, k), k, (int)(row % BF12_ROWS), LANES);
    for (size_t a = 0; a < LANES; a++)
        for (int i = 0; i < CPU_K_STEP / LANES; i++)
            store_vf(out[a] + i * LANES, bf16_words_to_f32(words[a], i));
    return true;
}

#endif

#ifdef HAVE_VBMI
/* Decodes 64 columns of LANES rows, n rows and `cols` columns of which exist, with zeros for the
 * others. */
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
#endif

/* Decodes 64 columns of a weight row from k on without scales, with zeros after its end. */
static void unpack_weights(float *out, const struct cpu_matrix *w, int64_t row, size_t k)
{
    const size_t cols = (size_t)w->tensor.cols,
                 n = k >= cols               ? 0
                     : cols - k < CPU_K_STEP ? cols - k
                                             : CPU_K_STEP,
                 size = dtype_size(w->tensor.dtype);
    const uint8_t *in = (const uint8_t *)w->tensor.data + ((size_t)row * cols + k) * size;
    if (dtype_is_gguf(w->tensor.dtype))
        gguf_to_f32(out, &w->tensor, row, k, n);
    else if (w->tensor.dtype == DTYPE_INT4 || dtype_is_rare(w->tensor.dtype))
        dequantize_columns(out, &w->tensor, row, (int64_t)k, n);
    else if (w->tensor.dtype == DTYPE_F8_E4M3)
        fp8_to_f32(out, in, n, 1);
    else
        elements_to_f32(out, in, w->tensor.dtype, n);
    memset(out + n, 0, (CPU_K_STEP - n) * sizeof(float));
}

/* The same for LANES complete rows; returns false if there is a NaN among them. */
INLINE bool unpack_full_rows(float (*out)[CPU_K_STEP], const uint8_t *in, size_t stride,
                             enum dtype dtype)
{
    magnitudes most = {0};
    for (size_t a = 0; a < LANES; a++, in += stride) {
        if (dtype == DTYPE_F8_E4M3) most = max_magnitudes(most, in);
        prefetch_panel(in, stride, CPU_K_STEP * dtype_size(dtype));
        for (size_t u = 0; u < CPU_K_STEP; u += STEP) {
            vf values[2];
            load_weight_pair(values, dtype, in + u * dtype_size(dtype));
            store_vf(out[a] + u, values[0]);
            store_vf(out[a] + u + LANES, values[1]);
        }
    }
    return dtype != DTYPE_F8_E4M3 || !has_nan_e4m3(most);
}

/* Decodes 64 columns of LANES rows, n of which exist. */
INLINE void unpack_step(float (*out)[CPU_K_STEP], const struct cpu_matrix *w, int64_t row, size_t n,
                        size_t k)
{
    const size_t stride = weight_row_bytes(&w->tensor);
    const uint8_t *in = (const uint8_t *)w->tensor.data + (size_t)row * stride +
                        k * dtype_size(w->tensor.dtype);
#if LANES >= 8
    if (w->bf12 && n && unpack_bf12_rows(out, w, row, n, k))
        return; /* without a row there may be no block */
#endif
#ifdef HAVE_VBMI
    if (w->tensor.dtype == DTYPE_F8_E4M3) {
        unpack_fp8_step(out, in, stride, n,
                        k < (size_t)w->tensor.cols ? (size_t)w->tensor.cols - k : 0);
        return;
    }
#endif
    if (n >= LANES && k + CPU_K_STEP <= (size_t)w->tensor.cols) {
        if (w->tensor.dtype == DTYPE_F8_E4M3 && unpack_full_rows(out, in, stride, DTYPE_F8_E4M3))
            return;
        if (w->tensor.dtype == DTYPE_BF16 && unpack_full_rows(out, in, stride, DTYPE_BF16)) return;
    }
    for (size_t a = 0; a < LANES; a++) {
        if (a < n)
            unpack_weights(out[a], w, row + (int64_t)a, k);
        else
            memset(out[a], 0, sizeof(out[a]));
    }
}

/* The source of a panel's LANES rows. */
struct panel_rows_f32 {
    const struct cpu_matrix *w;
    int64_t row;
    size_t n; /* rows that exist */
};

INLINE struct panel_rows_f32 panel_rows_of_f32(const struct cpu_matrix *w)
{
    return (struct panel_rows_f32){.w = w};
}

INLINE void panel_rows_enter_f32(struct panel_rows_f32 *r, int64_t row, size_t n, size_t k)
{
    (void)k;
    r->row = row;
    r->n = n;
}

INLINE void panel_words_f32(float (*words)[CPU_K_STEP], struct panel_rows_f32 *r, size_t k)
{
    unpack_step(words, r->w, r->row, r->n, k);
}

#endif
