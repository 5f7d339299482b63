/* SPDX-License-Identifier: Apache-2.0 */
/* Attention among an image's patches with tiles (AMX). Scores are computed with keys as rows and
 * queries as columns, so that a row of 16 queries is a vector and the softmax needs no sums across
 * lanes; the sums of values are [dim, queries], too.
 *
 * Scores need precision: queries and keys are sums of two BF16 parts, multiplied without the
 * product of the remainders. Values and their weights are BF16. */
#include "kernels/cpu/common/amx_tmpl.h"

enum {
    HALVES = CPU_Q_ROWS / AMX_ROWS, /* halves of a tile of queries */
    KEY_STEP = 128,                 /* keys between updates of the maximum */
    KEY_STEP_STRIPS = KEY_STEP / AMX_ROWS,
    MAX_STEPS = (CPU_VISION_MAX_DIM + AMX_K - 1) / AMX_K,
    MAX_STRIPS = (CPU_VISION_MAX_DIM + AMX_ROWS - 1) / AMX_ROWS,
    CELLS = AMX_ROWS * AMX_ROWS
};

struct amx_vision_state {
    uint16_t q[HALVES][MAX_STEPS + 1][2][AMX_TILE]; /* + 1: packed 64 columns at a time */
    float scores[KEY_STEP_STRIPS][HALVES][CELLS];
    uint16_t weights[KEY_STEP / AMX_K][HALVES][AMX_TILE];
    float o[MAX_STRIPS][HALVES][CELLS];
    uint16_t last[MAX_STRIPS][AMX_TILE]; /* values of the last, incomplete 32 keys */
    __m512 max[HALVES], sum[HALVES];
} __attribute__((aligned(64)));

static size_t amx_vision_state_bytes(void)
{
    return sizeof(struct amx_vision_state);
}

/* ---- keys and values ---- */

static size_t key_steps(int dim)
{
    return ((size_t)dim + AMX_K - 1) / AMX_K;
}

static size_t value_strips(int dim)
{
    return ((size_t)dim + AMX_ROWS - 1) / AMX_ROWS;
}

static size_t amx_key_bytes(int dim)
{
    return 2 * key_steps(dim) * AMX_K * sizeof(uint16_t);
}

static size_t amx_value_bytes(int dim)
{
    return value_strips(dim) * AMX_ROWS * sizeof(uint16_t);
}

/* Stores a key. Keys are [groups of 16 patches][part][groups of 32 columns][16 patches][32
 * columns]. */
static void amx_store_key(void *keys, size_t patch, const float *key, int dim)
{
    size_t steps = key_steps(dim);
    uint16_t *strip = (uint16_t *)keys + patch / AMX_ROWS * 2 * steps * AMX_TILE +
                      patch % AMX_ROWS * AMX_K;
    for (size_t s = 0; s < steps; s++) {
        __m512 v[2] = {load_padded(key, s * AMX_K, (size_t)dim),
                       load_padded(key, s * AMX_K + 16, (size_t)dim)};
        for (size_t part = 0; part < 2; part++)
            _mm512_storeu_si512(strip + (part * steps + s) * AMX_TILE, split_off_bf16(v));
    }
}

/* Stores values. They are [groups of 64 patches][groups of 16 columns][2 groups of 32 patches][16
 * columns][32 patches]. */
static void amx_store_values(void *values, size_t patch, const float *in, size_t stride, int n,
                             int dim)
{
    size_t strips = value_strips(dim), at = patch % AMX_ROWS;
    uint16_t *block = (uint16_t *)values + patch / CPU_KEY_BLOCK * 2 * strips * AMX_TILE +
                      patch % CPU_KEY_BLOCK / AMX_K * AMX_TILE +
                      patch % AMX_K / AMX_ROWS * AMX_ROWS;
    const __mmask16 there = (__mmask16)(((1u << n) - 1) << at);
    for (size_t s = 0; s < strips; s++) {
        __m512i r[AMX_ROWS];
        for (size_t i = 0; i < AMX_ROWS; i++)
            r[i] = i < at || i >= at + (size_t)n
                       ? _mm512_setzero_si512()
                       : (__m512i)load_padded(in + (i - at) * stride, s * AMX_ROWS, (size_t)dim);
        transpose(r);
        for (size_t i = 0; i < AMX_ROWS; i++)
            _mm256_mask_storeu_epi16(block + s * 2 * AMX_TILE + i * AMX_K, there,
                                     (__m256i)_mm512_cvtneps_pbh((__m512)r[i]));
    }
}

/* ---- scores ---- */

/* Packs queries times log2(e), because the softmax uses powers of two. */
static void amx_pack_vision_queries(struct amx_vision_state *r,
                                    const struct vision_attention_tile *t)
{
    float scaled[AMX_ROWS * CPU_VISION_MAX_DIM];
    const size_t dim = (size_t)t->dim;
    for (int half = 0; half < HALVES; half++) {
        int left = t->n_rows - half * AMX_ROWS, n = left < 0          ? 0
                                                    : left < AMX_ROWS ? left
                                                                      : AMX_ROWS;
        for (size_t i = 0; i < AMX_ROWS * dim; i++)
            scaled[i] = i < (size_t)n * dim
                            ? t->q[(size_t)half * AMX_ROWS * dim + i] * 1.44269504089f
                            : 0;
        const struct packing_args p = {.x = scaled,
                                       .x_stride = dim,
                                       .width = dim,
                                       .padded = (dim + CPU_K_STEP - 1) / CPU_K_STEP * CPU_K_STEP,
                                       .n = AMX_ROWS,
                                       .two_pass = true};
        cpu_pack_gemm_amx(r->q[half][0][0], &p);
    }
}

#define FOUR_PRODUCTS()      \
    _tile_dpbf16ps(0, 4, 6); \
    _tile_dpbf16ps(1, 5, 6); \
    _tile_dpbf16ps(2, 4, 7); \
    _tile_dpbf16ps(3, 5, 7)

/* Scores two strips of 16 keys from `keys` on. */
INLINE void score_strips(struct amx_vision_state *r, size_t strip, const uint16_t *keys,
                         size_t steps)
{
    const size_t low = steps * AMX_TILE, second = 2 * low;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t s = 0; s < steps; s++, keys += AMX_TILE) {
        _tile_stream_loadd(4, keys, 64);
        _tile_loadd(6, r->q[0][s][1], 64);
        _tile_stream_loadd(5, keys + second, 64);
        _tile_loadd(7, r->q[1][s][1], 64);
        FOUR_PRODUCTS();
        _tile_loadd(6, r->q[0][s][0], 64);
        _tile_loadd(7, r->q[1][s][0], 64);
        FOUR_PRODUCTS();
        _tile_stream_loadd(4, keys + low, 64);
        _tile_stream_loadd(5, keys + low + second, 64);
        FOUR_PRODUCTS();
    }
    _tile_stored(0, r->scores[strip][0], 64);
    _tile_stored(1, r->scores[strip + 1][0], 64);
    _tile_stored(2, r->scores[strip][1], 64);
    _tile_stored(3, r->scores[strip + 1][1], 64);
}

/* ---- softmax ---- */

/* 2^x for x <= 0. The relative error is below 4e-6, which is enough for weights rounded to BF16. 0
 * gives 1; no result is denormal, which is a hundred times slower; NaN stays NaN. */
INLINE __m512 amx_exp2(__m512 x)
{
    x = _mm512_max_ps(_mm512_set1_ps(-126), x); /* NaN stays NaN */
    __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
           f = _mm512_sub_ps(x, n);
    __m512 p = _mm512_set1_ps(9.78291255e-3f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.59768836e-2f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.40207111e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.93113604e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1));
    return _mm512_scalef_ps(p, n);
}

INLINE __m512 score_row(const struct amx_vision_state *r, int key, int half)
{
    return _mm512_load_ps(r->scores[key / AMX_ROWS][half] + key % AMX_ROWS * AMX_ROWS);
}

/* Rescales the sums so far to a new maximum. */
static void amx_rescale(struct amx_vision_state *r, int half, __m512 max, size_t strips)
{
    __m512 keep = amx_exp2(_mm512_sub_ps(r->max[half], max));
    r->max[half] = max;
    r->sum[half] = _mm512_mul_ps(r->sum[half], keep);
    for (size_t s = 0; s < strips; s++)
        for (float *o = r->o[s][half], *end = o + CELLS; o < end; o += AMX_ROWS)
            _mm512_store_ps(o, _mm512_mul_ps(_mm512_load_ps(o), keep));
}

/* Turns the scores of n keys into weights; pairs of keys are adjacent. */
INLINE void amx_softmax(struct amx_vision_state *r, int half, int n, size_t strips)
{
    static const uint16_t interleaved[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                             21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                             11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i order = _mm512_loadu_si512(interleaved);
    __m512 max[2] = {r->max[half], r->max[half]},
           sum[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    for (int key = 0; key < n; key++)
        max[key % 2] = _mm512_max_ps(max[key % 2], score_row(r, key, half));
    max[0] = _mm512_max_ps(max[0], max[1]);
    if (_mm512_cmp_ps_mask(max[0], r->max[half], _CMP_NEQ_UQ)) amx_rescale(r, half, max[0], strips);
    max[0] = r->max[half];
    for (int key = 0; key < (n + AMX_K - 1) / AMX_K * AMX_K; key += 2) {
        __m512 a = _mm512_setzero_ps(), b = a;
        if (key < n) a = amx_exp2(_mm512_sub_ps(score_row(r, key, half), max[0]));
        if (key + 1 < n) b = amx_exp2(_mm512_sub_ps(score_row(r, key + 1, half), max[0]));
        sum[0] = _mm512_add_ps(sum[0], a);
        sum[1] = _mm512_add_ps(sum[1], b);
        __m512i pair = _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(b, a));
        _mm512_store_si512(r->weights[key / AMX_K][half] + key % AMX_K / 2 * AMX_K, pair);
    }
    r->sum[half] = _mm512_add_ps(r->sum[half], _mm512_add_ps(sum[0], sum[1]));
}

/* ---- values ---- */

/* Returns the values of 32 keys from `key` on, with zeros for missing keys, because unused slots
 * may hold anything. */
INLINE const uint16_t *values_of(struct amx_vision_state *r, const struct vision_attention_tile *t,
                                 int key, size_t strips, size_t *step)
{
    const uint16_t *from = (const uint16_t *)t->values +
                           (size_t)key / CPU_KEY_BLOCK * 2 * strips * AMX_TILE +
                           (size_t)key % CPU_KEY_BLOCK / AMX_K * AMX_TILE;
    *step = 2 * AMX_TILE;
    if (key + AMX_K <= t->n_keys) return from;
    for (size_t s = 0; s < strips; s++)
        for (size_t i = 0; i < AMX_ROWS; i++)
            _mm512_store_si512(r->last[s] + i * AMX_K,
                               _mm512_maskz_loadu_epi16((__mmask32)((1u << (t->n_keys - key)) - 1),
                                                        from + s * *step + i * AMX_K));
    *step = AMX_TILE;
    amx_memory(r->last);
    return r->last[0];
}

/* Adds weights of n keys times their values to one or two strips of columns of o. */
INLINE void amx_add_values(struct amx_vision_state *r, const struct vision_attention_tile *t,
                           size_t strip, int first, int n, size_t strips, bool two)
{
    _tile_loadd(0, r->o[strip][0], 64);
    _tile_loadd(2, r->o[strip][1], 64);
    if (two) {
        _tile_loadd(1, r->o[strip + 1][0], 64);
        _tile_loadd(3, r->o[strip + 1][1], 64);
    }
    for (int key = 0; key < n; key += AMX_K) {
        size_t step;
        const uint16_t *v = values_of(r, t, first + key, strips, &step) + strip * step;
        _tile_stream_loadd(4, v, 64);
        _tile_loadd(6, r->weights[key / AMX_K][0], 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, r->weights[key / AMX_K][1], 64);
        _tile_dpbf16ps(2, 4, 7);
        if (two) {
            _tile_stream_loadd(5, v + step, 64);
            _tile_dpbf16ps(1, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, r->o[strip][0], 64);
    _tile_stored(2, r->o[strip][1], 64);
    if (two) {
        _tile_stored(1, r->o[strip + 1][0], 64);
        _tile_stored(3, r->o[strip + 1][1], 64);
    }
}

/* ---- a tile ---- */

static void amx_vision_key_block(struct amx_vision_state *r, const struct vision_attention_tile *t,
                                 int first, int n)
{
    size_t steps = key_steps(t->dim), strips = value_strips(t->dim), strip = 0;
    const uint16_t *keys = (const uint16_t *)t->keys +
                           (size_t)first / AMX_ROWS * 2 * steps * AMX_TILE;
    for (int key = 0; key < n; key += 2 * AMX_ROWS)
        score_strips(r, (size_t)key / AMX_ROWS,
                     keys + (size_t)key / AMX_ROWS * 2 * steps * AMX_TILE, steps);
    amx_memory(r);
    for (int half = 0; half < HALVES; half++)
        amx_softmax(r, half, n, strips);
    amx_memory(r);
    for (; strip + 2 <= strips; strip += 2)
        amx_add_values(r, t, strip, first, n, strips, true);
    if (strip < strips) amx_add_values(r, t, strip, first, n, strips, false);
    amx_memory(r);
}

static void amx_store_rows(const struct amx_vision_state *r, const struct vision_attention_tile *t)
{
    for (int half = 0; half < HALVES; half++)
        for (size_t s = 0; s < value_strips(t->dim); s++) {
            __m512i o[AMX_ROWS];
            size_t left = (size_t)t->dim - s * AMX_ROWS;
            const __mmask16 there = left < AMX_ROWS ? (__mmask16)((1u << left) - 1) : 0xffff;
            for (int i = 0; i < AMX_ROWS; i++)
                o[i] = (__m512i)_mm512_div_ps(_mm512_load_ps(r->o[s][half] + i * AMX_ROWS),
                                              r->sum[half]);
            transpose(o);
            for (int i = 0; i < AMX_ROWS && half * AMX_ROWS + i < t->n_rows; i++)
                _mm512_mask_storeu_ps(t->o + (size_t)(half * AMX_ROWS + i) * t->o_stride +
                                          s * AMX_ROWS,
                                      there, (__m512)o[i]);
        }
}

static void amx_vision_attention(const struct vision_attention_tile *t, void *scratch)
{
    struct amx_vision_state *r = scratch;
    amx_pack_vision_queries(r, t);
    memset(r->o, 0, value_strips(t->dim) * sizeof(r->o[0]));
    for (int half = 0; half < HALVES; half++) {
        r->max[half] = _mm512_set1_ps(-1e30f);
        r->sum[half] = _mm512_setzero_ps();
    }
    amx_memory(r);
    amx_configure(0, 0);
    for (int first = 0; first < t->n_keys; first += KEY_STEP)
        amx_vision_key_block(r, t, first,
                             t->n_keys - first < KEY_STEP ? t->n_keys - first : KEY_STEP);
    _tile_release();
    amx_store_rows(r, t);
}

const struct vision_attention_kernels cpu_vision_attention_amx = {
    amx_key_bytes, amx_value_bytes,  amx_vision_state_bytes,
    amx_store_key, amx_store_values, amx_vision_attention};
