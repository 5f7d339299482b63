/* SPDX-License-Identifier: Apache-2.0 */
/* Products and attention in BF16 with tiles (AMX), beside the kernels for AVX-512 with BF16. A tile
 * product adds, to 16 x 16 sums, 32 products each.
 *
 * Weights are the rows of the first factor, so that rows in place and decoded ones are the same;
 * packed rows of the input are the columns of the second, whose layout wants pairs of elements: [32
 * columns of k][16 rows, or twice 16][16 pairs of columns][16 rows][2]. */
#include "kernels/cpu/common/amx_tmpl.h"
#include "kernels/cpu/attention/online_softmax_tmpl.h"

/* ---- packing ---- */

/* Columns of the second factor: remainders make two of one row. */
static int packed_columns_of(const struct packing_args *p)
{
    return p->two_pass ? 2 * p->n : p->n;
}

/* Rows first .. first+15 of values and then remainders, zeros after them; from 32 columns of k to
 * the next are `step` elements. */
INLINE void pack_columns(uint16_t *out, const struct packing_args *p, int first, size_t step)
{
    int n = packed_columns_of(p);
    for (size_t k = 0; k < p->padded; k += CPU_K_STEP, out += 2 * step) {
        __m512i r[2][AMX_ROWS];
        for (int i = 0; i < AMX_ROWS; i++) {
            int at = first + i, row = at < p->n ? at : at - p->n;
            __m512i values[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
            if (at < n) bf16_step(values, p, p->x + (size_t)row * p->x_stride, k, at >= p->n);
            r[0][i] = values[0];
            r[1][i] = values[1];
        }
        transpose(r[0]);
        transpose(r[1]);
        memcpy(out, r[0], sizeof(r[0]));
        memcpy(out + step, r[1], sizeof(r[1]));
    }
}

void cpu_pack_gemm_amx(void *out, const struct packing_args *p)
{
    bool wide = packed_columns_of(p) > AMX_ROWS;
    pack_columns(out, p, 0, wide ? 2 * AMX_TILE : AMX_TILE);
    if (wide) pack_columns((uint16_t *)out + AMX_TILE, p, AMX_ROWS, 2 * AMX_TILE);
}

/* ---- products ---- */

/* Columns of k that are multiplied with all weights of a panel before the next ones are: packed
 * rows stay in the first-level cache. */
enum {
    KC = 512,
    SCALE_STEPS = FP8_BLOCK / AMX_K,
    PAIR_SUMS = 4 * AMX_TILE / 2,
    PAIR = 2 * AMX_ROWS
};

static size_t kc_columns(size_t k, size_t k0)
{
    return k - k0 < KC ? k - k0 : KC;
}

/* Columns k0 .. of one strip, a step at a time; what is beyond the last column is zero. */
INLINE void panel_strip(uint16_t *out, const struct weight *w, int64_t row, int n, size_t k0,
                        size_t k, enum dtype dtype, const struct byte_tables *tables)
{
    size_t cols = (size_t)w->cols, size = dtype_size(dtype), stride = cols * size;
    const uint8_t *in = (const uint8_t *)w->data + (size_t)row * stride;
    for (size_t i = k0; i < k0 + k; i += CPU_K_STEP, out += 4 * AMX_TILE)
        load_tiles(out, in + i * size, stride, n, dtype, cols - i, tables, 2 * AMX_TILE);
}

static void int4_panel_strip(uint16_t *out, const struct weight *w, int64_t row, int n, size_t k0,
                             size_t k)
{
    struct int4_strip s;
    int4_strip_at(&s, w, row, n, 1);
    if (k0 % s.group) int4_strip_enter(&s, k0);
    for (size_t i = k0; i < k0 + k; i += CPU_K_STEP, out += 4 * AMX_TILE)
        load_int4_tiles(out, &s, i, (size_t)w->cols - i, 2 * AMX_TILE);
}

/* A strip of twelve bits; false: it is read where it is stored. */
static bool bf12_panel_strip(uint16_t *out, const struct weight *w, int64_t row, size_t k0,
                             size_t k)
{
    const struct bf12_block *s = bf12_block_at(w, row);
    uint32_t outlier = 0;
    if (s->n_outliers == BF12_UNCOMPRESSED) return false;
    while (outlier < s->n_outliers && s->outlier[outlier].at < k0 * BF12_ROWS)
        outlier++;
    for (size_t i = k0; i < k0 + k; i += CPU_K_STEP, out += 4 * AMX_TILE) {
        const uint8_t *step = bf12_steps(w, row) + i / CPU_K_STEP * BF12_STEP;
        load_bf12_tiles(out, s, step, step + CPU_PREFETCH_BYTES, 2 * AMX_TILE);
        outlier = patch_outlier_tiles(out, s, outlier, i, 2 * AMX_TILE);
    }
    return true;
}

/* As multiply() goes by: [blocks of k][pairs of strips][32 columns of k][2 strips][16 rows][32]. */
void cpu_pack_panel_amx(void *out, const struct weight *w, int64_t row, int n, size_t begin,
                        size_t k)
{
    struct byte_tables tables = fp8_tables_load();
    uint16_t *to = out;
    for (size_t k0 = 0, columns; k0 < k; k0 += columns) {
        columns = kc_columns(k, k0);
        for (int at = 0; at < n; at += AMX_ROWS) {
            int rows = n - at < AMX_ROWS ? n - at : AMX_ROWS;
            uint16_t *strip = to + (size_t)(at / PAIR) * PAIR * columns +
                              (size_t)(at % PAIR) * AMX_K;
            if (w->dtype == DTYPE_INT4)
                int4_panel_strip(strip, w, row + at, rows, begin + k0, columns);
            else if (w->dtype == DTYPE_F8_E4M3)
                panel_strip(strip, w, row + at, rows, begin + k0, columns, DTYPE_F8_E4M3, &tables);
            else if (!w->bf12 || !bf12_panel_strip(strip, w, row + at, begin + k0, columns))
                panel_strip(strip, w, row + at, rows, begin + k0, columns, DTYPE_BF16, &tables);
        }
        to += (size_t)((n + PAIR - 1) / PAIR) * PAIR * columns;
    }
}

/* Sums of a pair of strips with up to 16, or up to 32 packed rows: tiles 0 and 1, 2 and 3. */
#define TILE_STEP(w, x)                                                                       \
    do {                                                                                      \
        _tile_stream_loadd(                                                                   \
            4, w,                                                                             \
            64); /* used once: it leaves its place in the first-level cache to packed rows */ \
        _tile_loadd(6, x, 64);                                                                \
        _tile_dpbf16ps(0, 4, 6);                                                              \
        _tile_stream_loadd(5, (w) + AMX_TILE, 64);                                            \
        _tile_dpbf16ps(1, 5, 6);                                                              \
        if (wide) {                                                                           \
            _tile_loadd(7, (x) + AMX_TILE, 64);                                               \
            _tile_dpbf16ps(2, 4, 7);                                                          \
            _tile_dpbf16ps(3, 5, 7);                                                          \
        }                                                                                     \
    } while (0)

INLINE void store_sum_tiles(float *sums, bool wide)
{
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + 256, 64);
    if (wide) {
        _tile_stored(2, sums + 512, 64);
        _tile_stored(3, sums + 768, 64);
    }
    amx_memory(sums);
}

INLINE void gemm_strip_pair(float *sums, const uint16_t *w, const uint16_t *x, size_t k, bool wide)
{
    const size_t x_step = wide ? 2 * AMX_TILE : AMX_TILE;
    _tile_loadd(0, sums, 64);
    _tile_loadd(1, sums + 256, 64);
    if (wide) {
        _tile_loadd(2, sums + 512, 64);
        _tile_loadd(3, sums + 768, 64);
    }
    for (size_t i = 0; i < k; i += AMX_K, w += 2 * AMX_TILE, x += x_step)
        TILE_STEP(w, x);
    store_sum_tiles(sums, wide);
}

/* Sums of one block of scales, which are to be added to those of all, times their scale. */
struct pending_scale {
    float *to; /* NULL: none */
    const float *sums;
    float scale;
};

INLINE void add_quarter(const struct pending_scale *p, int quarter, bool wide)
{
    const int n = wide ? PAIR_SUMS / 4 : PAIR_SUMS / 8;
    __m512 scale = _mm512_set1_ps(p->scale);
    if (!p->to) return;
    for (int i = quarter * n; i < (quarter + 1) * n; i += 16)
        _mm512_storeu_ps(p->to + i, _mm512_fmadd_ps(_mm512_load_ps(p->sums + i), scale,
                                                    _mm512_loadu_ps(p->to + i)));
}

/* Tiles work on one block of scales while vectors add the sums of the one before. */
INLINE void gemm_strip_pair_scaled(struct pending_scale *last, float (*buffer)[PAIR_SUMS],
                                   float *sums, const uint16_t *w, const uint16_t *x, size_t k,
                                   const float *scale, bool wide)
{
    const size_t x_step = wide ? 2 * AMX_TILE : AMX_TILE;
    for (size_t k0 = 0; k0 < k; k0 += FP8_BLOCK) {
        float *now = last->sums == buffer[0] ? buffer[1] : buffer[0];
        size_t steps = k - k0 < FP8_BLOCK ? (k - k0) / AMX_K : SCALE_STEPS;
        _tile_zero(0);
        _tile_zero(1);
        if (wide) {
            _tile_zero(2);
            _tile_zero(3);
        }
        for (size_t i = 0; i < SCALE_STEPS; i++) {
            if (i < steps) TILE_STEP(w, x);
            if (i < steps) {
                w += 2 * AMX_TILE;
                x += x_step;
            }
            add_quarter(last, (int)i, wide);
        }
        store_sum_tiles(now, wide);
        *last = (struct pending_scale){sums, now, scale[k0 / FP8_BLOCK]};
    }
}

INLINE void gemm_panel_amx(float *sums, const struct gemm_args *b, bool wide)
{
    float buffer[2][PAIR_SUMS] __attribute__((aligned(64)));
    struct pending_scale last = {NULL, NULL, 0};
    const uint16_t *w = b->w, *x = b->x;
    for (size_t k0 = 0, k; k0 < b->k; k0 += k) {
        k = kc_columns(b->k, k0);
        for (int row = 0; row < b->n_w; row += PAIR, w += PAIR * k) {
            float *to = sums + (size_t)(row / PAIR) * PAIR_SUMS;
            if (b->scale)
                gemm_strip_pair_scaled(&last, buffer, to, w, x, k, b->scale + k0 / FP8_BLOCK, wide);
            else
                gemm_strip_pair(to, w, x, k, wide);
        }
        x += k * (wide ? 2 * AMX_ROWS : AMX_ROWS);
    }
    for (int i = 0; i < SCALE_STEPS; i++)
        add_quarter(&last, i, wide);
}

size_t cpu_x_offset_amx(size_t k0, int n)
{
    return k0 * (n > CPU_N_ALIGN ? 2 * CPU_N_ALIGN : CPU_N_ALIGN) * sizeof(uint16_t);
}

size_t cpu_gemm_sums_amx(size_t width)
{
    (void)width;
    return CPU_N_BLOCK * CPU_AMX_GEMM_ROWS;
}

void cpu_gemm_amx(float *sums, const struct gemm_args *b)
{
    if (b->first) memset(sums, 0, cpu_gemm_sums_amx(0) * sizeof(*sums));
    amx_memory(b->w);
    amx_memory(b->x);
    amx_memory(sums);
    amx_configure(0, 0);
    if (b->n_x > AMX_ROWS)
        gemm_panel_amx(sums, b, true);
    else
        gemm_panel_amx(sums, b, false);
    _tile_release();
}

void cpu_store_gemm_amx(float *out, size_t out_stride, const float *sums, int n_w, int first,
                        int n_x)
{
    (void)first; /* all of a tile */
    for (int row = 0; row < n_w; row += AMX_ROWS)
        for (int at = 0; at < n_x; at += AMX_ROWS) {
            const float *tile = sums + row / PAIR * PAIR_SUMS + at / AMX_ROWS * 512 +
                                row % PAIR * AMX_ROWS;
            store_amx_tile(out + (size_t)at * out_stride + row, out_stride,
                           (const float(*)[AMX_ROWS])tile,
                           n_x - at < AMX_ROWS ? n_x - at : AMX_ROWS);
        }
}

/* ---- attention ----
 *
 * Scores are sharp, so queries are sums of BF16 parts: three, against keys that are BF16 (every bit
 * of both counts), or two, against keys of two parts, without the product of the remainders.
 * Weights of values are of two parts. */

enum { KEY_GROUPS = CPU_KEY_BLOCK / AMX_ROWS, KEY_ROW = 2 * CPU_KEY_BLOCK, SOFTMAX_PARTS = 2 };

/* Tiles have `rows`, but for 6, which has keys or values; so has 7 where all have 16. */
static void configure_attention(int rows)
{
    struct {
        uint8_t palette, start, zero[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.rows[i] = i == 6 ? AMX_ROWS : (uint8_t)rows;
        config.bytes[i] = 64;
    }
    amx_memory(&config);
    _tile_loadconfig(&config);
}

static size_t amx_padded_dim(const struct attention_tile *t)
{
    return ((size_t)t->dim + AMX_K - 1) / AMX_K * AMX_K;
}

static uint16_t *query_part(const struct attention_tile *t, int part)
{
    return t->scratch + (size_t)part * CPU_Q_ROWS * amx_padded_dim(t);
}

static void amx_pack_queries(struct attention_tile *t)
{
    size_t padded = amx_padded_dim(t), dim = (size_t)t->dim;
    for (int r = 0; r < t->n_rows; r++)
        for (size_t d = 0; d < padded; d += AMX_K) {
            __m512 v[2] = {load_padded(t->q[r], d, dim), load_padded(t->q[r], d + 16, dim)};
            for (int part = 0; part < CPU_Q_PARTS; part++)
                _mm512_storeu_si512(query_part(t, part) + (size_t)r * padded + d,
                                    split_off_bf16(v));
        }
    t->q_is_packed = true;
}

/* Of a few queries' attention most is reading. What is read next is asked for beside what is
 * multiplied, a few lines at a time, as processors drop what is asked for in bursts, and of keys
 * and values at once, as memory gives more to two streams. */
struct kv_prefetch {
    const char *at;     /* of keys; NULL: of nothing */
    size_t half, lines; /* bytes from keys to values; lines of each that are left */
};
/* Lines of each beside so many columns of 16 keys, or half as many of values; and beside the
 * softmax, an eighth. */
enum { PREFETCH_WITH_SCORES = 6, PREFETCH_WITH_VALUES = 8, PREFETCH_WITH_WEIGHTS = 8 };

INLINE void prefetch_kv(struct kv_prefetch *a, size_t lines)
{
    if (a->lines < lines) lines = a->lines;
    for (size_t i = 0; i < lines; i++, a->at += 64) {
        prefetch_line(a->at);
        prefetch_line(a->at + a->half);
    }
    a->lines -= lines;
}

#define SCORE_GROUP(tile, g)                                        \
    do {                                                            \
        prefetch_kv(next, PREFETCH_WITH_SCORES);                    \
        _tile_loadd(6, keys + 2 * AMX_ROWS * (g), 2 * KEY_ROW);     \
        _tile_dpbf16ps(tile, 4, 6);                                 \
        _tile_dpbf16ps(tile, 5, 6);                                 \
        if (rest) {                                                 \
            _tile_loadd(7, rest + 2 * AMX_ROWS * (g), 2 * KEY_ROW); \
            _tile_dpbf16ps(tile, 4, 7);                             \
        } else {                                                    \
            _tile_dpbf16ps(tile, 7, 6);                             \
        }                                                           \
    } while (0)

/* 32 columns of queries with all keys of the block; `rest`: remainders of the keys, or NULL. */
INLINE void score_step(const struct attention_tile *t, int first, size_t d, const uint16_t *keys,
                       const uint16_t *rest, struct kv_prefetch *next)
{
    size_t padded = amx_padded_dim(t), at = (size_t)first * padded + d, row = 2 * padded;
    _tile_loadd(4, query_part(t, 0) + at, row);
    _tile_loadd(5, query_part(t, 1) + at, row);
    if (!rest) _tile_loadd(7, query_part(t, 2) + at, row);
    SCORE_GROUP(0, 0);
    SCORE_GROUP(1, 1);
    SCORE_GROUP(2, 2);
    SCORE_GROUP(3, 3);
}

/* What there is of the last 32 columns of keys, zeros after it. */
INLINE const uint16_t *last_columns(uint16_t buffer[AMX_ROWS * KEY_ROW], const uint16_t *keys,
                                    size_t d, size_t dim)
{
    memset(buffer, 0, AMX_ROWS * KEY_ROW * sizeof(*buffer));
    memcpy(buffer, keys + d * CPU_KEY_BLOCK, (dim - d) * CPU_KEY_BLOCK * sizeof(*buffer));
    amx_memory(buffer);
    return buffer;
}

/* scores[rows of a tile][CPU_KEY_BLOCK] of rows first .. */
INLINE void score_tile(float (*scores)[CPU_KEY_BLOCK], const struct attention_tile *t, int first,
                       const uint16_t *keys, bool two_pass, struct kv_prefetch *next)
{
    uint16_t last[AMX_ROWS * KEY_ROW], last_rest[AMX_ROWS * KEY_ROW];
    size_t dim = (size_t)t->dim, whole = dim / AMX_K * AMX_K;
    const uint16_t *rest = keys + dim * CPU_KEY_BLOCK;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t d = 0; d < whole; d += AMX_K)
        score_step(t, first, d, keys + d * CPU_KEY_BLOCK,
                   two_pass ? rest + d * CPU_KEY_BLOCK : NULL, next);
    if (whole < dim)
        score_step(t, first, whole, last_columns(last, keys, whole, dim),
                   two_pass ? last_columns(last_rest, rest, whole, dim) : NULL, next);
    _tile_stored(0, scores[0], sizeof(scores[0]));
    _tile_stored(1, scores[0] + AMX_ROWS, sizeof(scores[0]));
    _tile_stored(2, scores[0] + 2 * AMX_ROWS, sizeof(scores[0]));
    _tile_stored(3, scores[0] + 3 * AMX_ROWS, sizeof(scores[0]));
    amx_memory(scores);
}

struct softmax_weights {
    uint16_t part[SOFTMAX_PARTS][AMX_ROWS][CPU_KEY_BLOCK] __attribute__((aligned(64)));
};

/* Softmax of `rows` rows, first .. ; rows that see nothing, and those that are not there, weigh
 * nothing. */
INLINE void softmax_tile(struct softmax_weights *w, struct attention_tile *t, int first, int rows,
                         float (*scores)[CPU_KEY_BLOCK], struct kv_prefetch *next)
{
    const size_t beside = next->half / 64 / PREFETCH_WITH_WEIGHTS / (size_t)rows;
    for (int i = 0; i < rows; i++) {
        prefetch_kv(next, beside);
        bool sees = first + i < t->n_rows && t->end_key[first + i];
        if (sees) softmax_row(t, first + i, scores[i]);
        for (int k = 0; k < CPU_KEY_BLOCK; k += AMX_K) {
            __m512 v[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
            if (sees) {
                v[0] = _mm512_loadu_ps(scores[i] + k);
                v[1] = _mm512_loadu_ps(scores[i] + k + 16);
            }
            for (int part = 0; part < SOFTMAX_PARTS; part++)
                _mm512_store_si512(w->part[part][i] + k, split_off_bf16(v));
        }
    }
}

/* Both parts of the weights of 32 keys with 16 columns of their values, or 32. */
#define ADD_VALUES(high, low, from, two)                     \
    do {                                                     \
        _tile_loadd(6, from, row);                           \
        if (two) _tile_loadd(7, (from) + 2 * AMX_ROWS, row); \
        _tile_dpbf16ps(0, high, 6);                          \
        if (two) _tile_dpbf16ps(1, high, 7);                 \
        _tile_dpbf16ps(0, low, 6);                           \
        if (two) _tile_dpbf16ps(1, low, 7);                  \
    } while (0)

/* o[rows of a tile, o_stride] += weights · values; 16 rows: two sums at once, so that they need not
 * wait for themselves */
INLINE void add_tile(float *o, const struct attention_tile *t, const struct softmax_weights *w,
                     const uint16_t *values, int rows, struct kv_prefetch *next)
{
    size_t row = (size_t)t->dim * 4, half = (size_t)AMX_ROWS * (size_t)t->dim * 2,
           o_row = t->o_stride * sizeof(float);
    amx_memory(w);
    amx_memory(values);
    amx_memory(o);
    _tile_loadd(2, w->part[0][0], sizeof(w->part[0][0]));
    _tile_loadd(3, w->part[0][0] + AMX_K, sizeof(w->part[0][0]));
    _tile_loadd(4, w->part[1][0], sizeof(w->part[0][0]));
    _tile_loadd(5, w->part[1][0] + AMX_K, sizeof(w->part[0][0]));
    size_t d = 0;
    for (; rows == AMX_ROWS && d + 2 * AMX_ROWS <= t->o_stride; d += 2 * AMX_ROWS) {
        _tile_loadd(0, o + d, o_row);
        _tile_loadd(1, o + d + AMX_ROWS, o_row);
        ADD_VALUES(2, 4, values + 2 * d, true);
        ADD_VALUES(3, 5, values + 2 * d + half, true);
        _tile_stored(0, o + d, o_row);
        _tile_stored(1, o + d + AMX_ROWS, o_row);
    }
    for (; d < t->o_stride; d += AMX_ROWS) {
        prefetch_kv(next, PREFETCH_WITH_VALUES);
        _tile_loadd(0, o + d, o_row);
        ADD_VALUES(2, 4, values + 2 * d, false);
        prefetch_kv(next, PREFETCH_WITH_VALUES);
        ADD_VALUES(3, 5, values + 2 * d + half, false);
        _tile_stored(0, o + d, o_row);
    }
    amx_memory(o);
}

/* A copy of the first n values, zeros after them: what lies there may be anything. */
static const uint16_t *first_values(const struct attention_tile *t, const uint16_t *values, int n)
{
    uint16_t *copy = query_part(t, CPU_Q_PARTS);
    size_t dim = (size_t)t->dim;
    memset(copy, 0, CPU_KEY_BLOCK * (dim + CPU_HEAD_PAD) * sizeof(*copy));
    memcpy(copy, values, (size_t)n / 2 * 2 * dim * sizeof(*copy));
    for (size_t d = 0; n % 2 && d < dim; d++)
        copy[(size_t)n / 2 * 2 * dim + 2 * d] = values[(size_t)n / 2 * 2 * dim + 2 * d];
    return copy;
}

static bool all_finite(const uint16_t *values, size_t n)
{
    unsigned found = 0;
    for (size_t i = 0; i < n; i++)
        found |= (values[i] & 0x7f80) == 0x7f80;
    return !found;
}

/* Zero times what is no number is no number: a value that only some rows of the tile see is kept
 * from the others. */
static void add_row_by_row(float *o, const struct attention_tile *t, int first, int rows,
                           const struct softmax_weights *w, const uint16_t *values)
{
    struct kv_prefetch nothing = {0};
    configure_attention(1);
    for (int i = 0; i < rows && first + i < t->n_rows; i++) {
        struct softmax_weights own;
        for (int part = 0; part < SOFTMAX_PARTS; part++)
            memcpy(own.part[part][0], w->part[part][i], sizeof(own.part[part][0]));
        if (t->end_key[first + i])
            add_tile(o + (size_t)i * t->o_stride, t, &own,
                     first_values(t, values, t->end_key[first + i]), 1, &nothing);
    }
    configure_attention(rows);
}

/* Keys that some row sees, and, in *all, that all rows see which see any. */
static int seen_keys(const struct attention_tile *t, int *all)
{
    int most = 0;
    *all = CPU_KEY_BLOCK;
    for (int r = 0; r < t->n_rows; r++) {
        most = t->end_key[r] > most ? t->end_key[r] : most;
        *all = t->end_key[r] < *all ? t->end_key[r] : *all;
    }
    return most;
}

/* Many queries take longer than reading does. */
static struct kv_prefetch next_kv(const struct attention_tile *t, bool few)
{
    const size_t half = (size_t)t->dim * CPU_KEY_BLOCK * sizeof(uint16_t);
    return few && t->next ? (struct kv_prefetch){t->next, half, half / 64}
                          : (struct kv_prefetch){0};
}

INLINE void attention_in_parts(struct attention_tile *t, const uint16_t *keys,
                               const uint16_t *values, bool two_pass)
{
    float scores[AMX_ROWS][CPU_KEY_BLOCK] __attribute__((aligned(64)));
    struct softmax_weights weights;
    int all, most = seen_keys(t, &all);
    const uint16_t *seen = most < CPU_KEY_BLOCK ? first_values(t, values, most) : values;
    bool apart = all < most &&
                 !all_finite(values + (size_t)all / 2 * 2 * (size_t)t->dim,
                             ((size_t)most + 1 - (size_t)all / 2 * 2) / 2 * 2 * (size_t)t->dim);
    const int rows = !two_pass && t->n_rows < AMX_ROWS ? t->n_rows : AMX_ROWS;
    const bool few = rows < AMX_ROWS;
    configure_attention(rows);
    for (int first = 0; first < t->n_rows && most; first += AMX_ROWS) {
        float *o = t->o + (size_t)first * t->o_stride;
        struct kv_prefetch next = next_kv(t, few);
        score_tile(scores, t, first, keys, two_pass, &next);
        softmax_tile(&weights, t, first, rows, scores, &next);
        if (apart)
            add_row_by_row(o, t, first, rows, &weights, values);
        else
            add_tile(o, t, &weights, seen, rows, &next);
    }
    _tile_release();
}

void cpu_attention_amx(struct attention_tile *t, const void *keys, const void *values,
                       enum kv_layout kind)
{
    if (!t->q_is_packed) amx_pack_queries(t);
    if (kind == KV_LAYOUT_TWO_PASS)
        attention_in_parts(t, keys, values, true);
    else
        attention_in_parts(t, keys, values, false);
}
