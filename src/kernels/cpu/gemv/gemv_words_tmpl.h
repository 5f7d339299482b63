/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV in float32, or with pairs of BF16 if HAVE_BF16: few rows of x against stored weights,
 * limited by reading the weights. Packed rows are consecutive. */
#ifndef EY_KERNELS_CPU_GEMV_WORDS_TMPL_H
#define EY_KERNELS_CPU_GEMV_WORDS_TMPL_H

#ifdef HAVE_BF16
#include "kernels/cpu/common/words_bf16_tmpl.h"
#else
#include "kernels/cpu/common/words_f32_tmpl.h"
#endif

enum { LINE_NIBBLES = 128 }; /* 4-bit values in 64 bytes */

static void pack_gemv_words(void *out, const struct packing_args *p)
{
    for (int row = 0; row < p->n; row++)
        for (size_t k = 0; k < p->padded; k += CPU_K_STEP) {
            float *words = (float *)out + ((size_t)row * p->padded + k) / WORD_COLUMNS;
            WORDS(store_x_words)(words, p, row, k);
        }
}

/* ---- the end: sums to the output ---- */

/* Sets the sums of rows with NaNs to NaN. */
static __attribute__((noinline)) void mark_nan(vf *sums, const uint8_t *const *w,
                                               const struct weight_streams *p,
                                               const struct gemv_args *t, int n)
{
    for (int a = 0; a < p->n; a++) {
        magnitudes most = {0};
        for (size_t k = 0; k < t->k; k += CPU_K_STEP)
            most = max_magnitudes(most, w[a] + k);
        for (int b = 0; has_nan_e4m3(most) && b < n; b++)
            sums[b * p->n + a] = splat(NAN);
    }
}

/* nan_codes: FP8 rows some of which have NaNs, or NULL. */
INLINE void store_streams(float *out, size_t out_stride, const vf *acc,
                          const uint8_t *const *nan_codes, const struct weight_streams *p,
                          const struct gemv_args *t, int n)
{
    vf sums[GEMV_MAX_NR * GEMV_MR];
    UNROLL
    for (int i = 0; i < p->n * n; i++)
        sums[i] = acc[i];
    if (nan_codes) mark_nan(sums, nan_codes, p, t, n);
    store_lane_sums(out, out_stride, sums, p, t, n);
}

/* ---- rows of any dtype ---- */

/* acc[n, streams] += decoded_columns() columns from k on. */
INLINE void gemv_columns(vf *acc, const uint8_t *const *w, const struct WORDS(decoder) * d,
                         enum dtype dtype, const struct gemv_args *t, size_t k,
                         const struct weight_streams *p, int n)
{
    UNROLL
    for (int first = 0; first < p->n; first += ROWS_DECODED) {
        decoded wv[ROWS_DECODED];
        const int count = p->n - first < ROWS_DECODED ? p->n - first : ROWS_DECODED;
        UNROLL
        for (int a = 0; a < count; a++)
            WORDS(decode_columns)(wv[a], dtype, w[first + a] + k * dtype_size(dtype), d);
        WORDS(gemv_step)(acc, (const decoded *)wv, dtype, t, k, p, first, count, n);
    }
}

INLINE void gemv_streams(float *out, size_t out_stride, const struct gemv_args *t,
                         struct weight_streams p, enum dtype dtype, int n)
{
    vf acc[GEMV_MAX_NR * GEMV_MR];
    const size_t size = dtype_size(dtype);
    struct WORDS(decoder) d = WORDS(decoder_of)(dtype);
    const uint8_t *w[GEMV_MAX_NR];
    stream_pointers(w, &p, t);
    UNROLL
    for (int i = 0; i < p.n * n; i++)
        acc[i] = (vf){0};
    for (size_t k = 0; k < t->k; k += CPU_K_STEP) {
        prefetch_streams(w, p.n, k * size, size, GEMV_TO_L2);
        WORDS(look_for_nan)(&d, dtype, w, p.n, k);
        if (WORDS(decoded_columns)(dtype) == CPU_K_STEP)
            gemv_columns(acc, w, &d, dtype, t, k, &p, n);
        else
            for (size_t u = k; u < k + CPU_K_STEP; u += WORDS(decoded_columns)(dtype))
                gemv_columns(acc, w, &d, dtype, t, u, &p, n);
    }
    store_streams(out, out_stride, acc, WORDS(nan_was_seen)(&d, dtype) ? w : NULL, &p, t, n);
}

#ifndef HAVE_BF16
INLINE void gemv_int4_streams(float *out, size_t out_stride, const struct gemv_args *t,
                              struct weight_streams p, enum dtype dtype, int n)
{
    const size_t group = (size_t)t->weight->tensor.group_size;
    struct WORDS(int4_stream) w[GEMV_MAX_NR];
    vf acc[GEMV_MAX_NR * GEMV_MR];
    (void)dtype;
    UNROLL
    for (int a = 0; a < p.n; a++)
        w[a] = WORDS(int4_stream_at)(t->weight, t->row + stream_row(&p, t, a));
    UNROLL
    for (int i = 0; i < p.n * n; i++)
        acc[i] = (vf){0};
    for (size_t k = 0; k < t->k; k += WORDS(int4_columns)(group))
        UNROLL
    for (int a = 0; a < p.n; a++) {
        WORDS(int4_enter_step)(&w[a], group, k);
        if (k % LINE_NIBBLES == 0) prefetch_weights(w[a].row.nibbles + k / 2, GEMV_TO_L2);
        WORDS(gemv_int4_step)(acc, &w[a], t, group, k, &p, a, n);
    }
    store_streams(out, out_stride, acc, NULL, &p, t, n);
}
#endif

static void gemv_bf16_rows(float *out, size_t out_stride, const struct gemv_args *t)
{
    GEMV_INSTANCES(gemv_streams, DTYPE_BF16)
}

/* ---- BF12 blocks (tensor/bf12.h) ---- */

#if LANES >= 8

/* Steps of a block that stay in the L1 cache while its rows are processed a few at a time. */
enum { STEPS_PER_CHUNK = 8 };

/* Decodes 64 columns of `count` rows of a strip; prefetches as many rows of the step at `ahead`. */
INLINE void bf12_decode_rows(bf12_vector (*wv)[BF12_VECTORS], const struct bf12_block *s,
                             const uint8_t *step, const uint8_t *ahead, uint32_t outlier,
                             uint32_t end, size_t k, int first, int count)
{
    UNROLL
    for (int a = 0; a < count; a++) {
        __builtin_prefetch(ahead + (first + a) * CPU_K_STEP, 0, 2);
        if (a % 2 == 0)
            __builtin_prefetch(ahead + BF12_SIGN_BYTES + (first + a) / 2 * CPU_K_STEP, 0, 2);
        bf12_to_words(wv[a], s, step, first + a);
    }
    if (outlier == end) return;
    bf12_vector rows[BF12_ROWS_AT_ONCE][BF12_VECTORS];
    UNROLL
    for (int i = 0; i < count * BF12_VECTORS; i++)
        rows[i / BF12_VECTORS][i % BF12_VECTORS] = wv[i / BF12_VECTORS][i % BF12_VECTORS];
    patch_outliers(rows, s, outlier, end, k, first, count);
    UNROLL
    for (int i = 0; i < count * BF12_VECTORS; i++)
        wv[i / BF12_VECTORS][i % BF12_VECTORS] = rows[i / BF12_VECTORS][i % BF12_VECTORS];
}

/* Multiplies the strip that begins with row p.row of the tile, p.n rows at a time. */
INLINE void gemv_bf12_block(float *out, size_t out_stride, const struct gemv_args *t,
                            struct weight_streams p, int n)
{
    vf all[BF12_ROWS * GEMV_MR];
    const struct bf12_block *s = bf12_block_at(t->weight->bf12, t->row + p.row);
    const uint8_t *steps = bf12_steps(t->weight->bf12, &t->weight->tensor, t->row + p.row),
                  *stop = bf12_steps(t->weight->bf12, &t->weight->tensor,
                                     t->row + (t->n_w + BF12_ROWS - 1) / BF12_ROWS * BF12_ROWS);
    uint32_t outlier = 0, end = 0;
    for (int i = 0; i < BF12_ROWS * n; i++)
        all[i] = (vf){0};
    for (size_t from = 0, to; from < t->k; from = to, outlier = end) {
        to = from + STEPS_PER_CHUNK * CPU_K_STEP < t->k ? from + STEPS_PER_CHUNK * CPU_K_STEP
                                                        : t->k;
        for (int group = 0; group < BF12_ROWS; group += p.n) {
            vf acc[GEMV_MAX_NR * GEMV_MR], *sums = all + group * n;
            uint32_t next = outlier;
            UNROLL
            for (int i = 0; i < p.n * n; i++)
                acc[i] = sums[i];
            for (size_t k = from; k < to; k += CPU_K_STEP) {
                const uint8_t *step = steps + k / CPU_K_STEP * BF12_STEP,
                              *ahead = step + BF12_PREFETCH_BYTES;
                const uint32_t first = next;
                if (ahead >= stop && t->next) ahead = t->next + (ahead - stop);
                next = next_outlier(s, first, k);
                UNROLL
                for (int a = 0; a < p.n; a += BF12_ROWS_AT_ONCE) {
                    bf12_vector wv[BF12_ROWS_AT_ONCE][BF12_VECTORS];
                    const int count = p.n - a < BF12_ROWS_AT_ONCE ? p.n - a : BF12_ROWS_AT_ONCE;
                    bf12_decode_rows(wv, s, step, ahead, first, next, k, group + a, count);
                    WORDS(gemv_bf12_step)
                    (acc, (const bf12_vector(*)[BF12_VECTORS])wv, t, k, &p, a, count, n);
                }
            }
            UNROLL
            for (int i = 0; i < p.n * n; i++)
                sums[i] = acc[i];
            end = next;
        }
    }
    for (int group = 0; group < BF12_ROWS; group += p.n, p.row += p.n)
        store_streams(out, out_stride, all + group * n, NULL, &p, t, n);
}

static void gemv_uncompressed_block(float *out, size_t out_stride, const struct gemv_args *t,
                                    int row)
{
    struct gemv_args strip = *t;
    strip.w += (size_t)row * t->w_stride;
    strip.row += row;
    strip.n_w = t->n_w - row < BF12_ROWS ? t->n_w - row : BF12_ROWS;
    gemv_bf16_rows(out, out_stride, &strip);
}

INLINE void gemv_bf12_blocks(float *out, size_t out_stride, const struct gemv_args *t, int n)
{
    for (int row = 0; row < t->n_w; row += BF12_ROWS) {
        if (bf12_block_at(t->weight->bf12, t->row + row)->n_outliers != BF12_UNCOMPRESSED)
            gemv_bf12_block(out, out_stride, t, (struct weight_streams){row, 1, GEMV_NR(n)}, n);
        else
            gemv_uncompressed_block(out + row, out_stride, t, row);
    }
}

static void gemv_bf12(float *out, size_t out_stride, const struct gemv_args *t)
{
#define GEMV_BF12(rows) gemv_bf12_blocks(out, out_stride, t, rows)
    FOR_GEMV_ROWS(t->n_x, GEMV_BF12)
}

#endif

/* ---- all ---- */

#ifndef HAVE_BF16
/* Multiplies float16 or float32 weights by 4, 2 or 1 rows of x at a time; repeated reads hit a
 * cache. */
INLINE void gemv_wide_dtype(float *out, size_t out_stride, const struct gemv_args *all,
                            enum dtype dtype)
{
    struct gemv_args part = *all;
    const struct gemv_args *t = &part;
    for (int left = all->n_x; left > 0; left -= part.n_x, out += (size_t)part.n_x * out_stride) {
        part.x = (const float *)all->x + (size_t)(all->n_x - left) * all->k;
        part.n_x = left >= 4 ? 4 : left >= 2 ? 2 : 1;
        switch (part.n_x) {
        case 1: GEMV_INSTANCE(gemv_streams, dtype, 1);
        case 2: GEMV_INSTANCE(gemv_streams, dtype, 2);
        default: GEMV_INSTANCE(gemv_streams, dtype, 4);
        }
    }
}
#endif

#ifndef HAVE_BF16
/* acc[n, streams] += a unit of weight row `a` times that of the n rows of x. */
INLINE void gemv_gguf_unit(vf *acc, const vf w[GGUF_VECTORS], const struct gemv_args *t, size_t k,
                           const struct weight_streams *p, int a, int n)
{
    UNROLL
    for (int i = 0; i < GGUF_VECTORS; i++)
        UNROLL
    for (int b = 0; b < n; b++)
        acc[b * p->n + a] += w[i] * load_vf((const float *)t->x + (size_t)b * t->k + k +
                                            (size_t)i * LANES);
}

#if LANES == 8
/* Multiplies GGUF blocks: each unit is converted to float32 and multiplied like float32 rows. */
INLINE void gemv_gguf_streams(float *out, size_t out_stride, const struct gemv_args *t,
                              struct weight_streams p, enum dtype dtype, size_t values,
                              size_t bytes, int n)
{
    vf acc[GEMV_MAX_NR * GEMV_MR];
    const uint8_t *w[GEMV_MAX_NR];
    stream_pointers(w, &p, t);
    UNROLL
    for (int i = 0; i < p.n * n; i++)
        acc[i] = (vf){0};
    for (size_t k = 0; k < t->k; k += GGUF_UNIT)
        UNROLL
    for (int a = 0; a < p.n; a++) {
        const uint8_t *block = w[a] + k / values * bytes;
        vf wv[GGUF_VECTORS];
        prefetch_weights(block, GEMV_TO_L2);
        gguf_load_unit(wv, dtype, block, (int)(k % values / GGUF_UNIT));
        gemv_gguf_unit(acc, wv, t, k, &p, a, n);
    }
    store_streams(out, out_stride, acc, NULL, &p, t, n);
}

#elif LANES == 16
/* ---- Q4_1: codes are looked up ---- */

enum { GGUF_CHUNK = 256, CHUNK_UNITS = GGUF_CHUNK / GGUF_UNIT };

/* Scales of the units of a chunk of a row. */
struct gguf_scales {
    float scale[CHUNK_UNITS], offset[CHUNK_UNITS];
};

/* Converts the halves at offset `at` of each of n blocks. */
INLINE void gguf_halves(float out[CHUNK_UNITS], const uint8_t *p, size_t bytes, size_t at, int n)
{
    uint16_t half[CHUNK_UNITS] = {0};
    for (int i = 0; i < n; i++)
        memcpy(&half[i], p + (size_t)i * bytes + at, sizeof(half[i]));
    _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)half)));
}

/* Converts unit u of a chunk: codes are looked up in a table that includes scale and minimum. */
INLINE void gguf_scaled_unit(vf out[GGUF_VECTORS], const uint8_t *p, size_t bytes,
                             const struct gguf_scales *s, int u)
{
    const vf codes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
             table = codes * splat(s->scale[u]) + splat(s->offset[u]);
    const __m512i low = _mm512_cvtepu8_epi32(
        _mm_loadu_si128((const __m128i *)(const void *)(p + (size_t)u * bytes + bytes - 16)));
    out[0] = (vf)_mm512_permutexvar_ps(low, (__m512)table);
    out[1] = (vf)_mm512_permutexvar_ps(_mm512_srli_epi32(low, 4), (__m512)table);
}

INLINE void gemv_scaled_streams(float *out, size_t out_stride, const struct gemv_args *t,
                                struct weight_streams p, enum dtype dtype, size_t values,
                                size_t bytes, int n)
{
    vf acc[GEMV_MAX_NR * GEMV_MR];
    const uint8_t *w[GEMV_MAX_NR];
    (void)dtype;
    stream_pointers(w, &p, t);
    UNROLL
    for (int i = 0; i < p.n * n; i++)
        acc[i] = (vf){0};
    for (size_t k = 0; k < t->k; k += GGUF_CHUNK) {
        struct gguf_scales s[GEMV_MAX_NR];
        const int units = t->k - k < GGUF_CHUNK ? (int)((t->k - k) / GGUF_UNIT) : CHUNK_UNITS;
        const size_t at = k / values * bytes, chunk = GGUF_CHUNK / values * bytes;
        for (int a = 0; a < p.n; a++) {
            gguf_halves(s[a].scale, w[a] + at, bytes, 0, units);
            gguf_halves(s[a].offset, w[a] + at, bytes, 2, units);
            for (size_t line = 0; line < chunk; line += 64)
                prefetch_weights(w[a] + at + line, GEMV_TO_L2);
        }
        for (int u = 0; u < units; u++)
            UNROLL
        for (int a = 0; a < p.n; a++) {
            vf wv[GGUF_VECTORS];
            gguf_scaled_unit(wv, w[a] + at, bytes, &s[a], u);
            gemv_gguf_unit(acc, wv, t, k + (size_t)u * GGUF_UNIT, &p, a, n);
        }
    }
    store_streams(out, out_stride, acc, NULL, &p, t, n);
}
#endif

/* Multiplies GGUF blocks that are converted to float32 in memory: one instance serves all types. */
INLINE void gemv_gguf_by_rows(float *out, size_t out_stride, const struct gemv_args *t,
                              struct weight_streams p, enum dtype dtype, int n)
{
    vf acc[GEMV_MAX_NR * GEMV_MR];
    (void)dtype;
    UNROLL
    for (int i = 0; i < p.n * n; i++)
        acc[i] = (vf){0};
    for (size_t k = 0; k < t->k; k += CPU_K_STEP)
        UNROLL
    for (int a = 0; a < p.n; a++) {
        float values[CPU_K_STEP] __attribute__((aligned(64)));
        gguf_to_f32(values, &t->weight->tensor, t->row + stream_row(&p, t, a), k, CPU_K_STEP);
        for (size_t u = 0; u < CPU_K_STEP; u += GGUF_UNIT) {
            vf wv[GGUF_VECTORS];
            UNROLL
            for (int i = 0; i < GGUF_VECTORS; i++)
                wv[i] = load_vf(values + u + (size_t)i * LANES);
            gemv_gguf_unit(acc, wv, t, k + u, &p, a, n);
        }
    }
    store_streams(out, out_stride, acc, NULL, &p, t, n);
}

#define GEMV_GGUF_ROWS(body, id, values, bytes, rows)                                             \
    for (int stride = (t->n_w + GEMV_NR(rows) - 1) / GEMV_NR(rows), row = 0; row < stride; row++) \
        body(out, out_stride, t, (struct weight_streams){row, stride, GEMV_NR(rows)}, DTYPE_##id, \
             values, bytes, rows);                                                                \
    break

#if LANES >= 8
#if LANES == 16
#define GEMV_Q4_1 gemv_scaled_streams
#else
#define GEMV_Q4_1 gemv_gguf_streams
#endif
/* Multiplies Q4_1, the most frequent type without int16 kernels. */
static void gemv_q4_1(float *out, size_t out_stride, const struct gemv_args *t)
{
    switch (t->n_x) {
    case 1: GEMV_GGUF_ROWS(GEMV_Q4_1, Q4_1, 32, 20, 1);
    case 2: GEMV_GGUF_ROWS(GEMV_Q4_1, Q4_1, 32, 20, 2);
    default: GEMV_GGUF_ROWS(GEMV_Q4_1, Q4_1, 32, 20, 4);
    }
}
#endif

static void gemv_gguf_any(float *out, size_t out_stride, const struct gemv_args *t)
{
    switch (t->n_x) {
    case 1: GEMV_INSTANCE(gemv_gguf_by_rows, DTYPE_NONE, 1);
    case 2: GEMV_INSTANCE(gemv_gguf_by_rows, DTYPE_NONE, 2);
    default: GEMV_INSTANCE(gemv_gguf_by_rows, DTYPE_NONE, 4);
    }
}

/* Multiplies 4, 2 or 1 rows of x at a time; repeated reads hit a cache. */
static void gemv_gguf(float *out, size_t out_stride, const struct gemv_args *all)
{
    struct gemv_args t = *all;
    for (int left = all->n_x; left > 0; left -= t.n_x, out += (size_t)t.n_x * out_stride) {
        t.x = (const float *)all->x + (size_t)(all->n_x - left) * all->k;
        t.n_x = left >= 4 ? 4 : left >= 2 ? 2 : 1;
#if LANES >= 8
        if (t.dtype == DTYPE_Q4_1) {
            gemv_q4_1(out, out_stride, &t);
            continue;
        }
#endif
        gemv_gguf_any(out, out_stride, &t);
    }
}
#endif

static void gemv_words(float *out, size_t out_stride, const struct gemv_args *t)
{
#ifndef HAVE_BF16
    if (dtype_is_gguf(t->dtype)) {
        gemv_gguf(out, out_stride, t);
        return;
    }
#endif
    switch (t->dtype) {
    case DTYPE_F8_E4M3: GEMV_INSTANCES(gemv_streams, DTYPE_F8_E4M3) break;
    case DTYPE_I8: GEMV_INSTANCES(gemv_streams, DTYPE_I8) break;
#ifndef HAVE_BF16
    case DTYPE_INT4: GEMV_INSTANCES(gemv_int4_streams, DTYPE_INT4) break;
    case DTYPE_F16: gemv_wide_dtype(out, out_stride, t, DTYPE_F16); break;
    case DTYPE_F32: gemv_wide_dtype(out, out_stride, t, DTYPE_F32); break;
#endif
#if LANES >= 8
    default: (t->weight->bf12 ? gemv_bf12 : gemv_bf16_rows)(out, out_stride, t); break;
#else
    default: gemv_bf16_rows(out, out_stride, t); break;
#endif
    }
}

#endif
