/* The body of every kernel, written with vector types of LANES floats; included by one small file an instruction set,
 * which sets LANES, KERNELS (the table's name), LEVEL, LEVEL_NAME and, for BF16 dot products, HAVE_BF16.
 *
 * Dot tiles run along k: each of 4 x 4 sums is a vector whose lanes hold every LANES-th product, so that weights are
 * read in place, row by row. Attention runs along keys for the scores (keys are stored transposed) and along the
 * head for the values; nothing the size of keys x queries exists. */
#include <math.h>
#include <string.h>

#include "backend/convert.h"
#include "backend/cpu/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(LANES * 4)));
typedef int32_t vi __attribute__((vector_size(LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(LANES * 4)));
typedef uint16_t vh __attribute__((vector_size(LANES * 2)));

INLINE vf splat(float x)
{
    return x - (vf){0};
}

INLINE vf load(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof(v));
    return v;
}

INLINE void store(float *p, vf v)
{
    memcpy(p, &v, sizeof(v));
}

INLINE vf load_bf16(const uint8_t *p)
{
    vh bits;
    memcpy(&bits, p, sizeof(bits));
    return (vf)(__builtin_convertvector(bits, vu) << 16);
}

/* Lanes are added in halves, then quarters …: one order for every caller. */
INLINE float lanes_sum(vf v)
{
    float half[LANES];
    memcpy(half, &v, sizeof(v));
    for (int width = LANES / 2; width; width /= 2)
        for (int i = 0; i < width; i++) half[i] += half[i + width];
    return half[0];
}

INLINE float lanes_max(vf v)
{
    float m = v[0];
    for (int i = 1; i < LANES; i++) m = v[i] > m ? v[i] : m;
    return m;
}

INLINE vf max_of(vf a, vf b)
{
    vi larger = a > b;
    return (vf)(((vi)a & larger) | ((vi)b & ~larger));
}

/* ---- weights as float32 ---- */

#if LANES == 4
INLINE vf halves_to_floats(const uint16_t *bits)
{
    float f[LANES];
    weight_floats(f, bits, DTYPE_F16, LANES);
    return load(f);
}
#elif LANES == 8
INLINE vf halves_to_floats(const uint16_t *bits)
{
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)bits));
}
#else
INLINE vf halves_to_floats(const uint16_t *bits)
{
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)bits));
}
#endif

/* e4m3 codes as float32, two vectors at once. Their bits moved into a half's fields are the value times 2^-8, subnormals
 * included; 0x7f becomes NaN. `factor` is to be the scale: the 2^8 joins it exactly. */
INLINE void load_fp8_pair(vf out[2], const uint8_t *p, float factor)
{
#if LANES == 4
    float f[2 * LANES];
    weight_floats(f, p, DTYPE_F8_E4M3, 2 * LANES);
    out[0] = load(f) * factor, out[1] = load(f + LANES) * factor;
#else
    typedef uint8_t codes __attribute__((vector_size(2 * LANES)));
    typedef uint16_t halves __attribute__((vector_size(4 * LANES)));
    codes bytes;
    memcpy(&bytes, p, sizeof(bytes));
    halves code = __builtin_convertvector(bytes, halves), magnitude = code & 0x7f;
    halves half = (code & 0x80) << 8 | magnitude << 7 | ((halves)(magnitude == 0x7f) & 0x7e00);
#if LANES == 8
    out[0] = (vf)_mm256_cvtph_ps(_mm256_castsi256_si128((__m256i)half));
    out[1] = (vf)_mm256_cvtph_ps(_mm256_extracti128_si256((__m256i)half, 1));
#else
    out[0] = (vf)_mm512_cvtph_ps(_mm512_castsi512_si256((__m512i)half));
    out[1] = (vf)_mm512_cvtph_ps(_mm512_extracti64x4_epi64((__m512i)half, 1));
#endif
    out[0] *= 256.0f * factor, out[1] *= 256.0f * factor;
#endif
}

INLINE vf load_weight(enum w_kind kind, const uint8_t *row, size_t k)
{
    uint16_t bits[LANES];
    switch (kind) {
    case W_BF16: return load_bf16(row + 2 * k);
    case W_F16: return memcpy(bits, row + 2 * k, sizeof(bits)), halves_to_floats(bits);
    default: return load((const float *)(const void *)row + k);
    }
}

INLINE size_t kind_size(enum w_kind kind)
{
    return kind == W_FP8 ? 1 : kind == W_BF16 || kind == W_F16 ? 2 : 4;
}

/* ---- dot tiles in float32 ---- */

enum { DOT_STEP = 2 * LANES };

/* The last, incomplete step of rows that are read in place, copied beside zeros. */
INLINE void copy_tails(uint8_t tail[CPU_W_ROWS][CPU_K_STEP * 4], const struct dot_tile *t, size_t from, size_t size)
{
    memset(tail, 0, CPU_W_ROWS * CPU_K_STEP * 4);
    for (int a = 0; a < CPU_W_ROWS; a++) memcpy(tail[a], t->w[a] + from * size, (t->k - from) * size);
}

/* Two vectors of each row from column k on. */
INLINE void load_weight_pair(vf out[2], enum w_kind kind, const uint8_t *row, size_t k, const float *scale)
{
    if (kind == W_FP8) load_fp8_pair(out, row + k, scale[k / FP8_BLOCK]);
    else out[0] = load_weight(kind, row, k), out[1] = load_weight(kind, row, k + LANES);
}

/* Columns from .. to-1, a multiple of two vectors. */
INLINE void dot_steps(vf acc[CPU_W_ROWS][CPU_X_ROWS], const uint8_t *const w[CPU_W_ROWS], enum w_kind kind, const float *scale,
                      const float *x, size_t x_stride, int n_x, size_t from, size_t to)
{
    for (size_t k = from; k < to; k += DOT_STEP) {
        vf wv[CPU_W_ROWS][2];
        for (int a = 0; a < CPU_W_ROWS; a++) load_weight_pair(wv[a], kind, w[a], k, scale);
        for (int u = 0; u < 2; u++)
            for (int b = 0; b < n_x; b++) {
                vf xv = load(x + (size_t)b * x_stride + k + (size_t)u * LANES);
                for (int a = 0; a < CPU_W_ROWS; a++) acc[a][b] += wv[a][u] * xv;
            }
    }
}

INLINE void dot_f32(float sums[CPU_W_ROWS][CPU_X_ROWS], const struct dot_tile *t, enum w_kind kind, int n_x)
{
    vf acc[CPU_W_ROWS][CPU_X_ROWS];
    for (int a = 0; a < CPU_W_ROWS; a++)
        for (int b = 0; b < n_x; b++) acc[a][b] = (vf){0};
    size_t whole = kind == W_PANEL ? (t->k + DOT_STEP - 1) / DOT_STEP * DOT_STEP : t->k / DOT_STEP * DOT_STEP;
    dot_steps(acc, t->w, kind, t->scale, t->x, t->x_stride, n_x, 0, whole);
    if (whole < t->k) {
        uint8_t tail[CPU_W_ROWS][CPU_K_STEP * 4];
        const uint8_t *w[CPU_W_ROWS];
        copy_tails(tail, t, whole, kind_size(kind));
        for (int a = 0; a < CPU_W_ROWS; a++) w[a] = tail[a];
        dot_steps(acc, w, kind, t->scale ? t->scale + whole / FP8_BLOCK : NULL, (const float *)t->x + whole, t->x_stride, n_x, 0, DOT_STEP);
    }
    for (int a = 0; a < CPU_W_ROWS; a++)
        for (int b = 0; b < n_x; b++) sums[a][b] = lanes_sum(acc[a][b]);
}

/* One instance a kind and number of rows, so that the sums stay in registers. */
#define DOT_INSTANCES(body, kind)                                                                                      \
    switch (t->n_x) {                                                                                                  \
    case 1: body(sums, t, kind, 1); break;                                                                             \
    case 2: body(sums, t, kind, 2); break;                                                                             \
    case 3: body(sums, t, kind, 3); break;                                                                             \
    default: body(sums, t, kind, 4); break;                                                                            \
    }

static void dot(float sums[CPU_W_ROWS][CPU_X_ROWS], const struct dot_tile *t)
{
    switch (t->kind) {
    case W_F32: DOT_INSTANCES(dot_f32, W_F32) break;
    case W_F16: DOT_INSTANCES(dot_f32, W_F16) break;
    case W_BF16: DOT_INSTANCES(dot_f32, W_BF16) break;
    case W_FP8: DOT_INSTANCES(dot_f32, W_FP8) break;
    case W_PANEL: DOT_INSTANCES(dot_f32, W_PANEL) break;
    }
}

/* ---- dot tiles in BF16 ---- */

#ifdef HAVE_BF16
/* Low and high bytes of the BF16 of e4m3 magnitudes 0..127. */
struct fp8_tables {
    __m512i low[2], high[2];
};

INLINE struct fp8_tables fp8_tables_load(void)
{
    return (struct fp8_tables){{_mm512_loadu_si512(fp8_low), _mm512_loadu_si512(fp8_low + 64)},
                               {_mm512_loadu_si512(fp8_high), _mm512_loadu_si512(fp8_high + 64)}};
}

/* 64 codes → 64 BF16 in order: quarters are swapped first because unpacking works within 128 bits. */
INLINE void fp8_to_bf16(__m512i out[2], const uint8_t *p, const struct fp8_tables *t)
{
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    __m512i codes = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(p));
    __m512i low = _mm512_permutex2var_epi8(t->low[0], codes, t->low[1]);
    __m512i high = _mm512_permutex2var_epi8(t->high[0], codes, t->high[1]);
    high = _mm512_ternarylogic_epi64(high, codes, _mm512_set1_epi8((char)0x80), 0xf8); /* high | (codes & 0x80) */
    out[0] = _mm512_unpacklo_epi8(low, high);
    out[1] = _mm512_unpackhi_epi8(low, high);
}

INLINE void load_bf16_pair(__m512i out[2], enum w_kind kind, const uint8_t *row, size_t k, const struct fp8_tables *t)
{
    if (kind == W_FP8) {
        fp8_to_bf16(out, row + k, t);
    } else {
        out[0] = _mm512_loadu_si512(row + 2 * k);
        out[1] = _mm512_loadu_si512(row + 2 * k + 64);
    }
}

/* Products with the remainders, where there are any, join the same sum: the weights are loaded once. */
INLINE __m512 dot_pair(__m512 acc, const __m512i w[2], const uint16_t *x, size_t low)
{
    acc = _mm512_dpbf16_ps(acc, (__m512bh)w[0], (__m512bh)_mm512_loadu_si512(x));
    acc = _mm512_dpbf16_ps(acc, (__m512bh)w[1], (__m512bh)_mm512_loadu_si512(x + 32));
    if (!low) return acc;
    acc = _mm512_dpbf16_ps(acc, (__m512bh)w[0], (__m512bh)_mm512_loadu_si512(x + low));
    return _mm512_dpbf16_ps(acc, (__m512bh)w[1], (__m512bh)_mm512_loadu_si512(x + low + 32));
}

/* Columns from .. to-1 (multiples of CPU_K_STEP). With scales, each 128 columns are summed apart and scaled in
 * float32; a block is never split between calls. */
INLINE void dot_bf16_steps(__m512 acc[CPU_W_ROWS][CPU_X_ROWS], const uint8_t *const w[CPU_W_ROWS], enum w_kind kind, const float *scale,
                           const uint16_t *x, size_t x_stride, size_t low, int n_x, size_t from, size_t to,
                           const struct fp8_tables *tables)
{
    size_t step = scale ? FP8_BLOCK : CPU_K_STEP;
    for (size_t k = from; k < to; k += step) {
        bool two = scale && k + CPU_K_STEP < to;
        __m512 factor = _mm512_set1_ps(scale ? scale[k / FP8_BLOCK] : 0);
        for (int a = 0; a < CPU_W_ROWS; a++) {
            __m512i first[2], second[2] = {{0}, {0}};
            load_bf16_pair(first, kind, w[a], k, tables);
            if (two) load_bf16_pair(second, kind, w[a], k + CPU_K_STEP, tables);
            for (int b = 0; b < n_x; b++) {
                const uint16_t *row = x + (size_t)b * x_stride + k;
                __m512 part = dot_pair(scale ? _mm512_setzero_ps() : acc[a][b], first, row, low);
                if (two) part = dot_pair(part, second, row + CPU_K_STEP, low);
                acc[a][b] = scale ? _mm512_fmadd_ps(part, factor, acc[a][b]) : part;
            }
        }
    }
}

INLINE void dot_bf16_rows(float sums[CPU_W_ROWS][CPU_X_ROWS], const struct dot_tile *t, enum w_kind kind, bool scaled,
                          bool split, int n_x)
{
    __m512 acc[CPU_W_ROWS][CPU_X_ROWS];
    struct fp8_tables tables = kind == W_FP8 ? fp8_tables_load() : (struct fp8_tables){{{0}, {0}}, {{0}, {0}}};
    const float *scale = scaled ? t->scale : NULL;
    for (int a = 0; a < CPU_W_ROWS; a++)
        for (int b = 0; b < n_x; b++) acc[a][b] = _mm512_setzero_ps();
    size_t unit = scaled ? FP8_BLOCK : CPU_K_STEP, padded = (t->k + CPU_K_STEP - 1) / CPU_K_STEP * CPU_K_STEP;
    size_t whole = kind == W_PANEL ? padded : t->k / unit * unit;
    dot_bf16_steps(acc, t->w, kind, scale, t->x, t->x_stride, split ? t->low : 0, n_x, 0, whole, &tables);
    if (whole < t->k) {
        uint8_t tail[CPU_W_ROWS][2 * FP8_BLOCK];
        const uint8_t *w[CPU_W_ROWS];
        size_t size = kind_size(kind);
        memset(tail, 0, sizeof(tail));
        for (int a = 0; a < CPU_W_ROWS; a++) w[a] = memcpy(tail[a], t->w[a] + whole * size, (t->k - whole) * size);
        dot_bf16_steps(acc, w, kind, scale ? scale + whole / FP8_BLOCK : NULL, (const uint16_t *)t->x + whole, t->x_stride,
                       split ? t->low : 0, n_x, 0, padded - whole, &tables);
    }
    for (int a = 0; a < CPU_W_ROWS; a++)
        for (int b = 0; b < n_x; b++) sums[a][b] = lanes_sum((vf)acc[a][b]);
}

#define DOT_PLAIN(sums, t, kind, n_x) dot_bf16_rows(sums, t, kind, false, false, n_x)
#define DOT_SCALED(sums, t, kind, n_x) dot_bf16_rows(sums, t, kind, true, false, n_x)
#define DOT_PLAIN_SPLIT(sums, t, kind, n_x) dot_bf16_rows(sums, t, kind, false, true, n_x)
#define DOT_SCALED_SPLIT(sums, t, kind, n_x) dot_bf16_rows(sums, t, kind, true, true, n_x)

#define DOT_CASES(plain, scaled)                                                                                       \
    switch (t->kind) {                                                                                                 \
    case W_FP8: DOT_INSTANCES(scaled, W_FP8) break;                                                                    \
    case W_PANEL:                                                                                                      \
        if (t->scale) {                                                                                                \
            DOT_INSTANCES(scaled, W_PANEL)                                                                             \
        } else {                                                                                                       \
            DOT_INSTANCES(plain, W_PANEL)                                                                              \
        }                                                                                                              \
        break;                                                                                                         \
    default: DOT_INSTANCES(plain, W_BF16) break;                                                                       \
    }

static void dot_bf16(float sums[CPU_W_ROWS][CPU_X_ROWS], const struct dot_tile *t)
{
    if (t->low) {
        DOT_CASES(DOT_PLAIN_SPLIT, DOT_SCALED_SPLIT)
    } else {
        DOT_CASES(DOT_PLAIN, DOT_SCALED)
    }
}
#endif

/* ---- packing ---- */

static void to_bf16(uint16_t *out, const float *in, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = nearest_bf16(in[i]);
}

static void pack_split(uint16_t *out, const float *in, size_t n, size_t padded, size_t low)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = nearest_bf16(in[i]);
        out[low + i] = nearest_bf16(in[i] - bf16_float(out[i]));
    }
    memset(out + n, 0, (padded - n) * 2);
    memset(out + low + n, 0, (padded - n) * 2);
}

static void pack(void *out, const float *in, size_t n, size_t padded, bool bf16)
{
    size_t size = bf16 ? 2 : 4;
    if (bf16) to_bf16(out, in, n);
    else if (out != in) memcpy(out, in, n * size);
    memset((uint8_t *)out + n * size, 0, (padded - n) * size);
}

static void decode(void *out, const struct weight *w, int64_t row, size_t padded, bool bf16)
{
    size_t n = (size_t)w->cols, size = bf16 ? 2 : 4, scale_cols = (n + FP8_BLOCK - 1) / FP8_BLOCK, k = 0;
    const uint8_t *in = (const uint8_t *)w->data + (size_t)row * n * dtype_size(w->dtype);
    const float *scale = w->scale ? w->scale + (size_t)(row / FP8_BLOCK) * scale_cols : NULL;
    memset((uint8_t *)out + n * size, 0, (padded - n) * size);
    if (bf16 && w->dtype == DTYPE_BF16) {
        memcpy(out, in, n * 2);
        return;
    }
#ifdef HAVE_BF16
    if (bf16) {
        struct fp8_tables tables = fp8_tables_load();
        for (; k + CPU_K_STEP <= n; k += CPU_K_STEP) {
            __m512i values[2];
            fp8_to_bf16(values, in + k, &tables);
            memcpy((uint16_t *)out + k, values, sizeof(values));
        }
        for (; k < n; k++) ((uint16_t *)out)[k] = (uint16_t)((fp8_high[in[k] & 127] | (in[k] & 128)) << 8 | fp8_low[in[k] & 127]);
        return;
    }
#endif
    float *floats = out;
    if (w->dtype != DTYPE_F8_E4M3) {
        weight_floats(floats, in, w->dtype, n);
        return;
    }
    for (; k + DOT_STEP <= n; k += DOT_STEP) {
        vf values[2];
        load_fp8_pair(values, in + k, scale[k / FP8_BLOCK]);
        memcpy(floats + k, values, sizeof(values));
    }
    if (k < n) {
        uint8_t tail[DOT_STEP] = {0};
        vf values[2];
        memcpy(tail, in + k, n - k);
        load_fp8_pair(values, tail, scale[k / FP8_BLOCK]);
        memcpy(floats + k, values, (n - k) * sizeof(float));
    }
}

/* ---- rows ---- */

/* Four sums side by side, so that the adds do not wait for each other. */
static float sum_of(const float *x, size_t n, float minus, bool squares)
{
    vf acc[4] = {{0}, {0}, {0}, {0}}, shift = splat(minus);
    float tail = 0;
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int u = 0; u < 4; u++) {
            vf v = load(x + i + (size_t)u * LANES) - shift;
            acc[u] += squares ? v * v : v;
        }
    for (; i < n; i++) tail += squares ? (x[i] - minus) * (x[i] - minus) : x[i] - minus;
    return lanes_sum((acc[0] + acc[1]) + (acc[2] + acc[3])) + tail;
}

static void rms_norm(float *y, const float *x, const float *w, size_t n, float eps)
{
    float scale = 1.0f / sqrtf(sum_of(x, n, 0, true) / (float)n + eps);
    for (size_t i = 0; i < n; i++) y[i] = w[i] * (x[i] * scale);
}

static void layer_norm(float *y, const float *x, const float *w, const float *b, size_t n, float eps)
{
    float mean = sum_of(x, n, 0, false) / (float)n, scale = 1.0f / sqrtf(sum_of(x, n, mean, true) / (float)n + eps);
    for (size_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * w[i] + b[i];
}

/* e^x for x <= 0, relative error below 2e-7: 2^round(x/ln 2) times a polynomial. Below -87, where float32 ends, 0; NaN
 * stays NaN. */
INLINE vf exp_of(vf x)
{
    vi nothing = x < -87.0f;
    x = max_of(splat(-87.0f), x);
    vf shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
    vf r = x - n * 0.693359375f + n * 2.12194440e-4f;
    vf p = splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return (vf)(((vi)p + (__builtin_convertvector(n, vi) << 23)) & ~nothing);
}

INLINE vf absolute(vf x)
{
    return (vf)((vi)x & 0x7fffffff);
}

/* 1 / (1 + e^-x) without overflow: e^-|x| on both sides. */
INLINE vf sigmoid(vf x)
{
    vf e = exp_of(-absolute(x)), one = splat(1);
    vi positive = x > 0;
    vf top = (vf)(((vi)one & positive) | ((vi)e & ~positive));
    return top / (1.0f + e);
}

/* Applies a vector function to n floats; the tail goes through a padded copy. */
#define EACH(x, n, expression)                                                                                         \
    do {                                                                                                               \
        size_t each_i = 0;                                                                                             \
        for (; each_i + LANES <= (n); each_i += LANES) {                                                               \
            vf v = load((x) + each_i);                                                                                 \
            store((x) + each_i, expression);                                                                           \
        }                                                                                                              \
        if (each_i < (n)) {                                                                                            \
            float each_tail[LANES] = {0};                                                                              \
            memcpy(each_tail, (x) + each_i, ((n)-each_i) * sizeof(float));                                             \
            vf v = load(each_tail);                                                                                    \
            store(each_tail, expression);                                                                              \
            memcpy((x) + each_i, each_tail, ((n)-each_i) * sizeof(float));                                             \
        }                                                                                                              \
    } while (0)

static void silu_mul(float *gate, const float *up, size_t n)
{
    EACH(gate, n, v * sigmoid(v));
    for (size_t i = 0; i < n; i++) gate[i] *= up[i];
}

/* 0.5 z (1 + tanh(u)) = z sigmoid(2u) */
static void gelu_tanh(float *x, size_t n)
{
    EACH(x, n, v * sigmoid(1.5957691216f * (v + 0.044715f * v * v * v)));
}

static void gelu_erf(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.7071067811865476f));
}

/* ---- attention ---- */

enum { KEY_VECTORS = CPU_KEYS / LANES };

INLINE vf load_kv(const void *base, size_t i, bool bf16)
{
    return bf16 ? load_bf16((const uint8_t *)base + 2 * i) : load((const float *)base + i);
}

/* scores[CPU_KEYS] = q · keys, masked to -1e30 beyond n_keys. Four vectors at a time stay in registers. */
INLINE void score_row(float *scores, const float *q, const void *keys, int dim, bool bf16)
{
    enum { GROUP = KEY_VECTORS < 4 ? KEY_VECTORS : 4 };
    for (int g = 0; g < KEY_VECTORS; g += GROUP) {
        vf acc[GROUP];
        for (int u = 0; u < GROUP; u++) acc[u] = (vf){0};
        for (int d = 0; d < dim; d++)
            for (int u = 0; u < GROUP; u++)
                acc[u] += q[d] * load_kv(keys, (size_t)d * CPU_KEYS + (size_t)(g + u) * LANES, bf16);
        for (int u = 0; u < GROUP; u++) store(scores + (size_t)(g + u) * LANES, acc[u]);
    }
}

INLINE void score_pair(float *scores0, float *scores1, const float *q0, const float *q1, const void *keys, int dim, bool bf16)
{
    enum { GROUP = KEY_VECTORS < 4 ? KEY_VECTORS : 4 };
    for (int g = 0; g < KEY_VECTORS; g += GROUP) {
        vf a0[GROUP], a1[GROUP];
        for (int u = 0; u < GROUP; u++) a0[u] = a1[u] = (vf){0};
        for (int d = 0; d < dim; d++)
            for (int u = 0; u < GROUP; u++) {
                vf k = load_kv(keys, (size_t)d * CPU_KEYS + (size_t)(g + u) * LANES, bf16);
                a0[u] += q0[d] * k, a1[u] += q1[d] * k;
            }
        for (int u = 0; u < GROUP; u++)
            store(scores0 + (size_t)(g + u) * LANES, a0[u]), store(scores1 + (size_t)(g + u) * LANES, a1[u]);
    }
}

/* Turns a row's scores into weights against its new maximum, and scales what it has so far. */
INLINE void soften_row(struct attend_tile *t, int r, float *scores)
{
    for (int j = t->n_keys[r]; j < CPU_KEYS; j++) scores[j] = -1e30f;
    vf most = load(scores), total = {0};
    for (int u = 1; u < KEY_VECTORS; u++) most = max_of(most, load(scores + (size_t)u * LANES));
    float block_max = lanes_max(most), max = block_max > t->max[r] ? block_max : t->max[r];
    for (int u = 0; u < KEY_VECTORS; u++) {
        vf s = load(scores + (size_t)u * LANES);
        vf p = exp_of(s - max); /* 0 where masked */
        store(scores + (size_t)u * LANES, p);
        total += p;
    }
    float keep = lanes_max(exp_of(splat(t->max[r] - max)));
    t->sum[r] = t->sum[r] * keep + lanes_sum(total);
    t->max[r] = max;
    float *o = t->o + (size_t)r * t->o_stride;
    for (size_t d = 0; d < t->o_stride; d += LANES) store(o + d, load(o + d) * keep);
}

/* o += weights · values, a few vectors of the head at a time */
INLINE void add_values(float *o, const float *weights, const void *values, size_t v_stride, int n_keys, size_t width, bool bf16)
{
    enum { GROUP = 4 };
    for (size_t d = 0; d < width; d += GROUP * LANES) {
        int count = width - d < GROUP * LANES ? (int)((width - d) / LANES) : GROUP;
        vf acc[GROUP];
        for (int u = 0; u < count; u++) acc[u] = load(o + d + (size_t)u * LANES);
        for (int j = 0; j < n_keys; j++)
            for (int u = 0; u < count; u++)
                acc[u] += weights[j] * load_kv(values, (size_t)j * v_stride + d + (size_t)u * LANES, bf16);
        for (int u = 0; u < count; u++) store(o + d + (size_t)u * LANES, acc[u]);
    }
}

INLINE void attend_rows(struct attend_tile *t, const void *keys, const void *values, size_t v_stride, bool bf16)
{
    float scores[CPU_Q_ROWS][CPU_KEYS];
    int r = 0;
    for (; r + 2 <= t->n_rows; r += 2) score_pair(scores[r], scores[r + 1], t->q[r], t->q[r + 1], keys, t->dim, bf16);
    for (; r < t->n_rows; r++) score_row(scores[r], t->q[r], keys, t->dim, bf16);
    for (r = 0; r < t->n_rows; r++) {
        if (!t->n_keys[r]) continue;
        soften_row(t, r, scores[r]);
        add_values(t->o + (size_t)r * t->o_stride, scores[r], values, v_stride, t->n_keys[r], t->o_stride, bf16);
    }
}

static void attend(struct attend_tile *t, const void *keys, const void *values, size_t v_stride, bool bf16)
{
    if (bf16) attend_rows(t, keys, values, v_stride, true);
    else attend_rows(t, keys, values, v_stride, false);
}

const struct cpu_kernels KERNELS = {
    .level = LEVEL,
    .name = LEVEL_NAME,
#ifdef HAVE_BF16
    .bf16 = true,
    .dot_bf16 = dot_bf16,
#endif
    .pack = pack,
    .pack_split = pack_split,
    .decode = decode,
    .dot = dot,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .silu_mul = silu_mul,
    .gelu_tanh = gelu_tanh,
    .gelu_erf = gelu_erf,
    .attend = attend,
};
