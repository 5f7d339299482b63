/* SPDX-License-Identifier: Apache-2.0 */
/* Packing and products in float32; a part of kernels_body.h. */

/* ---- weights as float32 ---- */

#if LANES == 4
INLINE vf f16_to_vf(const uint8_t *bits)
{
    float f[LANES];
    elements_to_f32(f, bits, DTYPE_F16, LANES);
    return load_vf(f);
}
#elif LANES == 8
INLINE vf f16_to_vf(const uint8_t *bits)
{
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)bits));
}
#else
INLINE vf f16_to_vf(const uint8_t *bits)
{
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)bits));
}
#endif

/* Two vectors of e4m3 codes as float32 times 2^-8: their bits moved into a half's fields,
 * subnormals included. What they are multiplied with carries the unit, 2^8. The NaN codes come out
 * as 480 · 2^-8: see has_nan_e4m3(). */
enum { FP8_LOAD_FACTOR = 256 };

INLINE void load_fp8_pair(vf out[2], const uint8_t *quantized)
{
#if LANES == 16
    __m512i wide = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)quantized));
    __m512i half = _mm512_and_si512(_mm512_slli_epi16(wide, 7), _mm512_set1_epi16((short)0xbf80));
    out[0] = (vf)_mm512_cvtph_ps(_mm512_castsi512_si256(half));
    out[1] = (vf)_mm512_cvtph_ps(_mm512_extracti64x4_epi64(half, 1));
#elif LANES == 8
    __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)quantized));
    __m256i half = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16((short)0xbf80));
    out[0] = (vf)_mm256_cvtph_ps(_mm256_castsi256_si128(half));
    out[1] = (vf)_mm256_cvtph_ps(_mm256_extracti128_si256(half, 1));
#else
    float f[2 * LANES];
    elements_to_f32(f, quantized, DTYPE_F8_E4M3, 2 * LANES);
    out[0] = load_vf(f) * (1.0f / FP8_LOAD_FACTOR);
    out[1] = load_vf(f + LANES) * (1.0f / FP8_LOAD_FACTOR);
#endif
}

/* Two vectors of int8 codes. */
INLINE void load_int8_pair(vf out[2], const uint8_t *quantized)
{
#if LANES == 16
    __m256i q = _mm256_loadu_si256((const __m256i *)quantized);
    out[0] = (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_castsi256_si128(q)));
    out[1] = (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_extracti128_si256(q, 1)));
#elif LANES == 8
    __m128i q = _mm_loadu_si128((const __m128i *)quantized);
    out[0] = (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q));
    out[1] = (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(q, 8)));
#else
    float f[2 * LANES];
    for (size_t i = 0; i < 2 * LANES; i++)
        f[i] = (float)(int8_t)quantized[i];
    out[0] = load_vf(f);
    out[1] = load_vf(f + LANES);
#endif
}

INLINE void load_weight_pair(vf out[2], enum dtype dtype, const uint8_t *p)
{
    switch (dtype) {
    case DTYPE_F8_E4M3: load_fp8_pair(out, p); break;
    case DTYPE_I8: load_int8_pair(out, p); break;
    case DTYPE_BF16:
        out[0] = load_bf16(p);
        out[1] = load_bf16(p + 2 * LANES);
        break;
    case DTYPE_F16:
        out[0] = f16_to_vf(p);
        out[1] = f16_to_vf(p + 2 * LANES);
        break;
    default:
        memcpy(&out[0], p, sizeof(vf));
        memcpy(&out[1], p + sizeof(vf), sizeof(vf));
        break;
    }
}

enum { STEP = 2 * LANES };

/* The largest magnitudes of CPU_K_STEP codes, lane by lane, joined to `most`. */
typedef uint8_t magnitudes __attribute__((vector_size(4 * LANES)));

INLINE magnitudes max_magnitudes(magnitudes most, const uint8_t *quantized)
{
    for (size_t i = 0; i < CPU_K_STEP; i += sizeof(most)) {
        magnitudes code;
        memcpy(&code, quantized + i, sizeof(code));
        code &= 0x7f;
#if LANES == 16
        most = (magnitudes)_mm512_max_epu8((__m512i)most, (__m512i)code);
#elif LANES == 8
        most = (magnitudes)_mm256_max_epu8((__m256i)most, (__m256i)code);
#else
        magnitudes larger = (magnitudes)(code > most);
        most = (code & larger) | (most & ~larger);
#endif
    }
    return most;
}

INLINE bool has_nan_e4m3(magnitudes most)
{
#if LANES == 16
    return _mm512_cmpeq_epi8_mask((__m512i)most, _mm512_set1_epi8(0x7f));
#elif LANES == 8
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8((__m256i)most, _mm256_set1_epi8(0x7f)));
#else
    bool found = false;
    for (size_t i = 0; i < sizeof(most); i++)
        found |= most[i] == 0x7f;
    return found;
#endif
}

/* n codes as float32 times `unit` / FP8_LOAD_FACTOR, without scales. */
static void fp8_to_f32(float *out, const uint8_t *quantized, size_t n, float unit)
{
    for (size_t k = 0; k < n; k += STEP) {
        uint8_t tail[STEP] = {0};
        float all[STEP];
        vf values[2];
        size_t count = n - k < STEP ? n - k : STEP;
        float *to = count < STEP ? all : out + k;
        load_fp8_pair(values, count < STEP ? memcpy(tail, quantized + k, count) : quantized + k);
        store_vf(to, values[0] * unit);
        store_vf(to + LANES, values[1] * unit);
        if (to == all) memcpy(out + k, all, count * sizeof(float));
    }
    for (size_t k = 0; k < n; k++)
        if ((quantized[k] & 0x7f) == 0x7f) out[k] = NAN;
}

static void dequantize_row(float *out, const struct weight *w, int64_t row)
{
    size_t n = (size_t)w->cols;
    if (w->dtype == DTYPE_INT4) {
        dequantize_columns(out, w, row, 0, n);
        return;
    }
    if (w->bf12) {
        bf12_decode_row(out, w, row);
        return;
    }
    const uint8_t *in = (const uint8_t *)w->data + (size_t)row * n * dtype_size(w->dtype);
    if (w->dtype != DTYPE_F8_E4M3) {
        elements_to_f32(out, in, w->dtype, n);
        return;
    }
    fp8_to_f32(out, in, n, FP8_LOAD_FACTOR);
    const float *scale = weight_row_scale(w, row);
    for (size_t k = 0; k < n; k++)
        out[k] *= scale[k / FP8_BLOCK];
}

/* ---- packing ---- */

static void to_bf16(uint16_t *out, const float *in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = f32_to_bf16(in[i]);
}

/* LANES columns of a row from k on, zeros after its end. */
INLINE vf x_lanes(const struct packing_args *p, int row, size_t k)
{
    const float *x = p->x + (size_t)row * p->x_stride;
    float some[LANES] = {0};
    if (k + LANES <= p->width) return load_vf(x + k);
    if (k < p->width) memcpy(some, x + k, (p->width - k) * sizeof(float));
    return load_vf(some);
}

#ifdef HAVE_VBMI
#include "kernels/cpu/common/fp8_lut_tmpl.h"
#endif

#ifndef HAVE_BF16 /* else avx512vbmi's are used */
enum { STEP_VECTORS = CPU_K_STEP / LANES };

/* CPU_K_STEP columns of a row, in the order of the weights. */
INLINE void x_row_step(vf out[STEP_VECTORS], const struct packing_args *p, int row, size_t k)
{
    for (size_t i = 0; i < STEP_VECTORS; i++)
        out[i] = x_lanes(p, row, k + i * LANES);
#ifdef HAVE_VBMI
    if (p->fp8_order) f32_in_fp8_order(out);
#endif
}

/* Rows one after the other. */
static void pack_gemv_f32(void *out, const struct packing_args *p)
{
    for (int row = 0; row < p->n; row++)
        for (size_t k = 0; k < p->padded; k += CPU_K_STEP) {
            vf x[STEP_VECTORS];
            const float factor = p->scale && k < p->width
                                     ? p->scale[k / FP8_BLOCK] * FP8_LOAD_FACTOR
                                     : 1;
            x_row_step(x, p, row, k);
            for (size_t i = 0; i < STEP_VECTORS; i++)
                store_vf((float *)out + (size_t)row * p->padded + k + i * LANES, x[i] * factor);
        }
}
#endif

/* ---- products of few rows: as long as reading the weights takes ---- */

#include "kernels/cpu/gemv/gemv_streams_tmpl.h"

enum { ROWS_DECODED = LANES == 16 ? 4 : 2 }; /* rows, in registers */

/* Makes sums NaN where their rows have NaN codes. */
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

/* nan_codes: rows of FP8 of which some have NaN codes; NULL: there are none. */
INLINE void store_streams(float *out, size_t out_stride, const vf *acc,
                          const uint8_t *const *nan_codes, const struct weight_streams *p,
                          const struct gemv_args *t, int n)
{
    vf sums[MAX_WEIGHT_STREAMS * MAX_GEMV_ROWS];
    UNROLL
    for (int i = 0; i < p->n * n; i++)
        sums[i] = acc[i];
    if (nan_codes) mark_nan(sums, nan_codes, p, t, n);
    store_lane_sums(out, out_stride, sums, p, t, n);
}

INLINE void gemv_streams_f32(float *out, size_t out_stride, const struct gemv_args *t,
                             struct weight_streams p, enum dtype dtype, int n)
{
    vf acc[MAX_WEIGHT_STREAMS * MAX_GEMV_ROWS];
    magnitudes most = {0};
    size_t size = dtype_size(dtype);
    const uint8_t *w[MAX_WEIGHT_STREAMS];
    stream_pointers(w, &p, t);
    UNROLL
    for (int i = 0; i < p.n * n; i++)
        acc[i] = (vf){0};
    for (size_t k = 0; k < t->k; k += CPU_K_STEP) {
        prefetch_streams(w, p.n, k * size, size);
        if (dtype == DTYPE_F8_E4M3) {
            UNROLL
            for (int a = 0; a < p.n; a++)
                most = max_magnitudes(most, w[a] + k);
        }
        for (size_t u = k; u < k + CPU_K_STEP; u += STEP)
            UNROLL
        for (int first = 0; first < p.n; first += ROWS_DECODED) {
            vf wv[ROWS_DECODED][2];
            int count = p.n - first < ROWS_DECODED ? p.n - first : ROWS_DECODED;
            UNROLL
            for (int a = 0; a < count; a++)
                load_weight_pair(wv[a], dtype, w[first + a] + u * size);
            UNROLL
            for (int b = 0; b < n; b++) {
                const float *x = (const float *)t->x + (size_t)b * t->k + u;
                vf x0 = load_vf(x), x1 = load_vf(x + LANES);
                UNROLL
                for (int a = 0; a < count; a++)
                    acc[b * p.n + first + a] += wv[a][0] * x0;
                UNROLL
                for (int a = 0; a < count; a++)
                    acc[b * p.n + first + a] += wv[a][1] * x1;
            }
        }
    }
    store_streams(out, out_stride, acc, dtype == DTYPE_F8_E4M3 && has_nan_e4m3(most) ? w : NULL, &p,
                  t, n);
}

#if LANES >= 8 && !defined(HAVE_BF16)
#include "kernels/cpu/common/bf12_decode_tmpl.h"

/* Vector i of 64 columns. */
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

enum { BF12_ROWS_AT_ONCE = 1 };

/* acc[n, places] += columns k .. k + CPU_K_STEP - 1 of the n rows of x times those of `count`
 * weight rows, which are from place `first` on. */
INLINE void gemv_step(vf *acc, const bf12_vector (*wv)[BF12_VECTORS], const struct gemv_args *t,
                      size_t k, const struct weight_streams *p, int first, int count, int n)
{
    UNROLL
    for (int a = 0; a < count; a++) {
        const float *x = (const float *)t->x + k;
        __asm__(""
                : "+r"(x)); /* or compilers load all columns for two weight rows, and have no room
                               for them */
        UNROLL
        for (int i = 0; i < CPU_K_STEP / LANES; i++) {
            const vf w = bf16_words_to_f32(wv[a], i);
            UNROLL
            for (int b = 0; b < n; b++)
                acc[b * p->n + first + a] += w * load_vf(x + (size_t)b * t->k + (size_t)i * LANES);
        }
    }
}

static void gemv_uncompressed(float *out, size_t out_stride, const struct gemv_args *t)
{
    GEMV_INSTANCES(gemv_streams_f32, DTYPE_BF16)
}

#include "kernels/cpu/gemv/gemv_bf12_tmpl.h"

/* 64 columns of LANES rows, of which n are there; false: they are read where they are stored. */
static bool unpack_bf12_rows(float (*out)[CPU_K_STEP], const struct weight *w, int64_t row,
                             size_t n, size_t k)
{
    const struct bf12_block *s = bf12_block_at(w, row);
    const uint8_t *step = bf12_steps(w, row) + k / CPU_K_STEP * BF12_STEP;
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

enum { LINE_NIBBLES = 128 }; /* four-bit codes of 64 bytes */

/* LANES four-bit codes as numbers. */
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

INLINE void gemv_streams_int4_f32(float *out, size_t out_stride, const struct gemv_args *t,
                                  struct weight_streams p, enum dtype dtype, int n)
{
    const size_t group = (size_t)t->weight->group_size;
    struct int4_row w[MAX_WEIGHT_STREAMS];
    vf acc[MAX_WEIGHT_STREAMS * MAX_GEMV_ROWS];
    (void)dtype;
    UNROLL
    for (int a = 0; a < p.n; a++)
        w[a] = int4_row_at(t->weight, t->row + stream_row(&p, t, a));
    UNROLL
    for (int i = 0; i < p.n * n; i++)
        acc[i] = (vf){0};
    for (size_t k = 0; k < t->k; k += group)
        UNROLL
    for (int a = 0; a < p.n; a++) {
        int4_enter_group(&w[a], k / group);
        if (k % LINE_NIBBLES == 0) PREFETCH_WEIGHTS(w[a].nibbles + k / 2);
        for (size_t u = k; u < k + group; u += LANES) {
            vf wv = load_int4(w[a].nibbles + u / 2) * splat(w[a].scale) + splat(w[a].offset);
            UNROLL
            for (int b = 0; b < n; b++)
                acc[b * p.n + a] += wv * load_vf((const float *)t->x + (size_t)b * t->k + u);
        }
    }
    store_streams(out, out_stride, acc, NULL, &p, t, n);
}

/* Of weights that few models have: 4, 2 or 1 rows at once. What is read again is near. */
INLINE void gemv_rare_f32(float *out, size_t out_stride, const struct gemv_args *all,
                          enum dtype dtype)
{
    struct gemv_args part = *all;
    const struct gemv_args *t = &part;
    for (int left = all->n_x; left > 0; left -= part.n_x, out += (size_t)part.n_x * out_stride) {
        part.x = (const float *)all->x + (size_t)(all->n_x - left) * all->k;
        part.n_x = left >= 4 ? 4 : left >= 2 ? 2 : 1;
        switch (part.n_x) {
        case 1: GEMV_INSTANCE(gemv_streams_f32, dtype, 1);
        case 2: GEMV_INSTANCE(gemv_streams_f32, dtype, 2);
        default: GEMV_INSTANCE(gemv_streams_f32, dtype, 4);
        }
    }
}

#ifdef HAVE_VBMI
#include "kernels/cpu/gemv/gemv_fp8_vbmi_tmpl.h"
#define GEMV_STREAMS_FP8 gemv_streams_fp8_lut
#else
#define GEMV_STREAMS_FP8 gemv_streams_f32
#endif

#ifndef HAVE_BF16 /* else avx512vbmi's are used */
static void gemv_f32(float *out, size_t out_stride, const struct gemv_args *t)
{
    switch (t->dtype) {
    case DTYPE_F8_E4M3: GEMV_INSTANCES(GEMV_STREAMS_FP8, DTYPE_F8_E4M3) break;
    case DTYPE_I8: GEMV_INSTANCES(gemv_streams_f32, DTYPE_I8) break;
    case DTYPE_INT4: GEMV_INSTANCES(gemv_streams_int4_f32, DTYPE_INT4) break;
#if LANES >= 8
    case DTYPE_BF16: (t->weight->bf12 ? gemv_bf12 : gemv_uncompressed)(out, out_stride, t); break;
#else
    case DTYPE_BF16: GEMV_INSTANCES(gemv_streams_f32, DTYPE_BF16) break;
#endif
    case DTYPE_F16: gemv_rare_f32(out, out_stride, t, DTYPE_F16); break;
    default: gemv_rare_f32(out, out_stride, t, DTYPE_F32); break;
    }
}
#endif

static void accumulate(float *y, const float *sums, const float *more, const float *bias, size_t n,
                       bool add)
{
    for (size_t i = 0; i < n; i++) {
        float value = sums[i];
        if (more) value += more[i];
        if (bias) value += bias[i];
        y[i] = add ? y[i] + value : value;
    }
}
