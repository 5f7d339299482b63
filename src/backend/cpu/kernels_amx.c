/* Products and attention in BF16 with tiles (AMX), beside the kernels for AVX-512 with BF16. A tile product adds, to 16 x 16 sums, 32 products each.
 *
 * Weights are the rows of the first factor, so that rows in place and decoded ones are the same; packed rows of the input
 * are the columns of the second, whose layout wants pairs of elements: [32 columns of k][16 pairs][16 rows][2]. A panel is strips of 16 weight rows, each [32 columns of k][16 rows][32]. */
#include "backend/cpu/body_amx.h"
#include "backend/cpu/body_softmax.h"

/* ---- packing ---- */

/* [16 rows][columns of k, two by two][16][2] as columns of weights with scales lie. */
void cpu_stage_amx(float *out, const struct packing *p)
{
    size_t rows = ((size_t)p->n + AMX_ROWS - 1) / AMX_ROWS * AMX_ROWS;
    for (size_t i = 0; i < rows; i++) {
        float *to = out + i / AMX_ROWS * AMX_ROWS * p->padded + i % AMX_ROWS * 2;
        const float *x = p->x + i * p->x_stride;
        for (size_t k = 0; k < p->padded; k += CPU_K_STEP)
            for (size_t at = 0; at < CPU_K_STEP; at++) {
                size_t column = k + column_at(at);
                to[(k + at) / 2 * 2 * AMX_ROWS + at % 2] = i < (size_t)p->n && column < p->width ? x[column] : 0;
            }
    }
}

/* Rows first .. first+15 of values and then remainders, zeros after them. */
INLINE void pack_columns(uint16_t *out, const struct packing *p, int first)
{
    int n = p->split ? 2 * p->n : p->n;
    for (size_t k = 0; k < p->padded; k += CPU_K_STEP) {
        __m512i r[2][AMX_ROWS];
        for (int i = 0; i < AMX_ROWS; i++) {
            int at = first + i, row = at < p->n ? at : at - p->n;
            __m512i values[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
            if (at < n) packed_step(values, p, p->x + (size_t)row * p->x_stride, k, at >= p->n);
            r[0][i] = values[0], r[1][i] = values[1];
        }
        transpose(r[0]), transpose(r[1]);
        memcpy(out + k * AMX_ROWS, r, sizeof(r));
    }
}

void cpu_pack_amx(void *out, const struct packing *p)
{
    int n = p->split ? 2 * p->n : p->n;
    for (int first = 0; first < n; first += AMX_ROWS) pack_columns((uint16_t *)out + (size_t)first * p->padded, p, first);
}

static void int4_panel_strip(uint16_t *strip, const struct weight *w, int64_t row, int n, size_t padded)
{
    struct int4_strip s;
    int4_strip_of(&s, w, row, n, 1);
    for (size_t k = 0; k < padded; k += CPU_K_STEP) load_int4_tiles(strip + k * AMX_ROWS, &s, k, (size_t)w->cols - k);
}

void cpu_panel_amx(void *out, const struct weight *w, int64_t row, int n, size_t padded)
{
    size_t cols = (size_t)w->cols, stride = cols * dtype_size(w->dtype);
    struct fp8_tables tables = fp8_tables_load();
    for (int at = 0; at < n; at += AMX_ROWS) {
        int rows = n - at < AMX_ROWS ? n - at : AMX_ROWS;
        const uint8_t *in = (const uint8_t *)w->data + ((size_t)row + (size_t)at) * stride;
        uint16_t *strip = (uint16_t *)out + (size_t)at * padded;
        if (w->dtype == DTYPE_INT4) {
            int4_panel_strip(strip, w, row + at, rows, padded);
            continue;
        }
        for (size_t k = 0; k < padded; k += CPU_K_STEP) {
            if (w->dtype == DTYPE_F8_E4M3) load_tiles(strip + k * AMX_ROWS, in + k, stride, rows, DTYPE_F8_E4M3, cols - k, &tables);
            else load_tiles(strip + k * AMX_ROWS, in + 2 * k, stride, rows, DTYPE_BF16, cols - k, &tables);
        }
    }
}

/* ---- products ---- */

/* Columns of k that are multiplied with all strips before the next ones are: packed rows stay in the first-level cache, while sums of
 * all strips come and go. */
enum { K_BLOCK = 256, MOST_STRIPS = FP8_BLOCK / AMX_ROWS };

struct sums {
    float tile[MOST_STRIPS][2][AMX_ROWS][AMX_ROWS] __attribute__((aligned(64)));
};

/* k columns of one or two strips with up to 16, or up to 32 packed rows. w1: what is from strip to strip; x1: from 16 rows to 16. */
INLINE void multiply_strips(float (*sums)[2][AMX_ROWS][AMX_ROWS], const uint16_t *w, size_t w1, const uint16_t *x, size_t x1, size_t k, bool two, bool wide)
{
    enum { ROW = AMX_ROWS * sizeof(float) };
    _tile_loadd(0, sums[0][0], ROW);
    if (two) _tile_loadd(1, sums[1][0], ROW);
    if (wide) _tile_loadd(2, sums[0][1], ROW);
    if (two && wide) _tile_loadd(3, sums[1][1], ROW);
    for (size_t i = 0; i < k; i += AMX_K, w += AMX_TILE, x += AMX_TILE) {
        _tile_loadd(4, w, 64);
        _tile_loadd(6, x, 64);
        _tile_dpbf16ps(0, 4, 6);
        if (two) {
            _tile_loadd(5, w + w1, 64);
            _tile_dpbf16ps(1, 5, 6);
        }
        if (wide) {
            _tile_loadd(7, x + x1, 64);
            _tile_dpbf16ps(2, 4, 7);
        }
        if (two && wide) _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums[0][0], ROW);
    if (two) _tile_stored(1, sums[1][0], ROW);
    if (wide) _tile_stored(2, sums[0][1], ROW);
    if (two && wide) _tile_stored(3, sums[1][1], ROW);
}

/* Staged columns from k0 on, packed: 16 rows and, `rest` after them, 16 more, or what rounding left. */
INLINE void pack_staged(uint16_t *out, const struct tile *t, size_t k0, size_t k, size_t rest, bool split, bool wide)
{
    const float *in = t->staged + k0 * AMX_ROWS, *more = in + t->k * AMX_ROWS;
    for (size_t i = 0; i < k * AMX_ROWS; i += AMX_K) {
        __m512 factor = _mm512_set1_ps(t->scale[(k0 + i / AMX_ROWS) / FP8_BLOCK]);
        __m512 v[2] = {_mm512_mul_ps(_mm512_loadu_ps(in + i), factor), _mm512_mul_ps(_mm512_loadu_ps(in + i + 16), factor)};
        _mm512_store_si512(out + i, take_part(v));
        if (wide && !split) v[0] = _mm512_mul_ps(_mm512_loadu_ps(more + i), factor), v[1] = _mm512_mul_ps(_mm512_loadu_ps(more + i + 16), factor);
        if (wide) _mm512_store_si512(out + rest + i, take_part(v));
    }
    amx_memory(out);
}

/* K_BLOCK columns, or what is left of them. */
INLINE void multiply_block(struct sums *sums, const struct tile *t, const uint16_t *x, size_t x1, size_t k0, size_t k, bool wide)
{
    size_t strip = t->k * AMX_ROWS;
    for (int row = 0; row < t->n_w; row += 2 * AMX_ROWS) {
        const uint16_t *w = (const uint16_t *)(const void *)t->w + (size_t)row * t->k + k0 * AMX_ROWS;
        if (row + AMX_ROWS < t->n_w) multiply_strips(sums->tile + row / AMX_ROWS, w, strip, x, x1, k, true, wide);
        else multiply_strips(sums->tile + row / AMX_ROWS, w, strip, x, x1, k, false, wide);
    }
}

INLINE void multiply_tile(struct sums *sums, const struct tile *t, bool wide)
{
    uint16_t packed[2 * AMX_ROWS * K_BLOCK] __attribute__((aligned(64)));
    for (size_t k0 = 0, k; k0 < t->k; k0 += k) {
        k = t->k - k0 < K_BLOCK ? t->k - k0 : K_BLOCK;
        const uint16_t *x = t->staged ? packed : (const uint16_t *)t->x + k0 * AMX_ROWS;
        if (t->staged && t->split) pack_staged(packed, t, k0, k, AMX_ROWS * K_BLOCK, true, wide);
        else if (t->staged) pack_staged(packed, t, k0, k, AMX_ROWS * K_BLOCK, false, wide);
        multiply_block(sums, t, x, t->staged ? AMX_ROWS * K_BLOCK : t->k * AMX_ROWS, k0, k, wide);
    }
}

void cpu_multiply_amx(float *out, size_t out_stride, const struct tile *t)
{
    struct sums sums;
    int first = t->staged && t->split ? t->n_x / 2 : t->n_x < AMX_ROWS ? t->n_x : AMX_ROWS;
    memset(&sums, 0, sizeof(sums));
    amx_memory(&sums);
    amx_begin(0, 0);
    if (first < t->n_x) multiply_tile(&sums, t, true);
    else multiply_tile(&sums, t, false);
    _tile_release();
    for (int row = 0; row < t->n_w; row += AMX_ROWS) {
        put_tile(out + row, out_stride, (const float(*)[AMX_ROWS])sums.tile[row / AMX_ROWS][0], first);
        put_tile(out + (size_t)first * out_stride + row, out_stride, (const float(*)[AMX_ROWS])sums.tile[row / AMX_ROWS][1], t->n_x - first);
    }
}

/* ---- attention ----
 *
 * Scores are sharp, so queries are sums of BF16 parts: three, against keys that are BF16 (every bit of both counts), or two, against
 * keys of two parts, without the product of the remainders. Weights of values are of two parts. */

enum { KEY_GROUPS = CPU_KEYS / AMX_ROWS, KEY_ROW = 2 * CPU_KEYS, SPLIT_PARTS = 2 };

/* Tiles 0 to 5 have `rows`. */
static void attend_begin(uint8_t rows)
{
    struct {
        uint8_t palette, start, zero[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) config.rows[i] = AMX_ROWS, config.bytes[i] = 64;
    for (int i = 0; i < 6; i++) config.rows[i] = rows;
    amx_memory(&config);
    _tile_loadconfig(&config);
}

static size_t padded_dim(const struct attend_tile *t)
{
    return ((size_t)t->dim + AMX_K - 1) / AMX_K * AMX_K;
}

static uint16_t *query_part(const struct attend_tile *t, int part)
{
    return t->room + (size_t)part * CPU_Q_ROWS * padded_dim(t);
}

static void pack_queries(struct attend_tile *t)
{
    size_t padded = padded_dim(t), dim = (size_t)t->dim;
    for (int r = 0; r < t->n_rows; r++)
        for (size_t d = 0; d < padded; d += AMX_K) {
            __m512 v[2] = {row_floats(t->q[r], d, dim), row_floats(t->q[r], d + 16, dim)};
            for (int part = 0; part < CPU_Q_PARTS; part++) _mm512_storeu_si512(query_part(t, part) + (size_t)r * padded + d, take_part(v));
        }
    t->is_packed = true;
}

#define SCORE_GROUP(tile, g)                                                                                           \
    do {                                                                                                               \
        _tile_loadd(6, keys + 2 * AMX_ROWS * (g), 2 * KEY_ROW);                                                        \
        _tile_dpbf16ps(tile, 4, 6);                                                                                    \
        _tile_dpbf16ps(tile, 5, 6);                                                                                    \
        if (rest) {                                                                                                    \
            _tile_loadd(7, rest + 2 * AMX_ROWS * (g), 2 * KEY_ROW);                                                    \
            _tile_dpbf16ps(tile, 4, 7);                                                                                \
        } else {                                                                                                       \
            _tile_dpbf16ps(tile, 7, 6);                                                                                \
        }                                                                                                              \
    } while (0)

/* 32 columns of queries with all keys of the block; `rest`: remainders of the keys, or NULL. */
INLINE void score_step(const struct attend_tile *t, int first, size_t d, const uint16_t *keys, const uint16_t *rest)
{
    size_t padded = padded_dim(t), at = (size_t)first * padded + d, row = 2 * padded;
    _tile_loadd(4, query_part(t, 0) + at, row);
    _tile_loadd(5, query_part(t, 1) + at, row);
    if (!rest) _tile_loadd(7, query_part(t, 2) + at, row);
    SCORE_GROUP(0, 0);
    SCORE_GROUP(1, 1);
    SCORE_GROUP(2, 2);
    SCORE_GROUP(3, 3);
}

/* What there is of the last 32 columns of keys, zeros after it. */
INLINE const uint16_t *last_columns(uint16_t room[AMX_ROWS * KEY_ROW], const uint16_t *keys, size_t d, size_t dim)
{
    memset(room, 0, AMX_ROWS * KEY_ROW * sizeof(*room));
    memcpy(room, keys + d * CPU_KEYS, (dim - d) * CPU_KEYS * sizeof(*room));
    amx_memory(room);
    return room;
}

/* scores[AMX_ROWS][CPU_KEYS] of rows first .. */
INLINE void score_tile(float (*scores)[CPU_KEYS], const struct attend_tile *t, int first, const uint16_t *keys, bool split)
{
    uint16_t last[AMX_ROWS * KEY_ROW], last_rest[AMX_ROWS * KEY_ROW];
    size_t dim = (size_t)t->dim, whole = dim / AMX_K * AMX_K;
    const uint16_t *rest = keys + dim * CPU_KEYS;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t d = 0; d < whole; d += AMX_K) score_step(t, first, d, keys + d * CPU_KEYS, split ? rest + d * CPU_KEYS : NULL);
    if (whole < dim)
        score_step(t, first, whole, last_columns(last, keys, whole, dim), split ? last_columns(last_rest, rest, whole, dim) : NULL);
    _tile_stored(0, scores[0], sizeof(scores[0]));
    _tile_stored(1, scores[0] + AMX_ROWS, sizeof(scores[0]));
    _tile_stored(2, scores[0] + 2 * AMX_ROWS, sizeof(scores[0]));
    _tile_stored(3, scores[0] + 3 * AMX_ROWS, sizeof(scores[0]));
    amx_memory(scores);
}

struct weights {
    uint16_t part[SPLIT_PARTS][AMX_ROWS][CPU_KEYS] __attribute__((aligned(64)));
};

/* Softmax of rows first .. ; rows that see nothing, and those that are not there, weigh nothing. */
INLINE void soften_tile(struct weights *w, struct attend_tile *t, int first, float (*scores)[CPU_KEYS])
{
    for (int i = 0; i < AMX_ROWS; i++) {
        bool sees = first + i < t->n_rows && t->n_keys[first + i];
        if (sees) soften_row(t, first + i, scores[i]);
        for (int k = 0; k < CPU_KEYS; k += AMX_K) {
            __m512 v[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
            if (sees) v[0] = _mm512_loadu_ps(scores[i] + k), v[1] = _mm512_loadu_ps(scores[i] + k + 16);
            for (int part = 0; part < SPLIT_PARTS; part++) _mm512_store_si512(w->part[part][i] + k, take_part(v));
        }
    }
}

/* Both parts of the weights of 32 keys with 16 columns of their values, or 32. */
#define ADD_VALUES(high, low, from, two)                                                                               \
    do {                                                                                                               \
        _tile_loadd(6, from, row);                                                                                     \
        if (two) _tile_loadd(7, (from) + 2 * AMX_ROWS, row);                                                           \
        _tile_dpbf16ps(0, high, 6);                                                                                    \
        if (two) _tile_dpbf16ps(1, high, 7);                                                                           \
        _tile_dpbf16ps(0, low, 6);                                                                                     \
        if (two) _tile_dpbf16ps(1, low, 7);                                                                            \
    } while (0)

/* o[AMX_ROWS, o_stride] += weights · values */
INLINE void add_tile(float *o, const struct attend_tile *t, const struct weights *w, const uint16_t *values)
{
    size_t row = (size_t)t->dim * 4, half = (size_t)AMX_ROWS * (size_t)t->dim * 2, o_row = t->o_stride * sizeof(float);
    amx_memory(w), amx_memory(values), amx_memory(o);
    _tile_loadd(2, w->part[0][0], sizeof(w->part[0][0]));
    _tile_loadd(3, w->part[0][0] + AMX_K, sizeof(w->part[0][0]));
    _tile_loadd(4, w->part[1][0], sizeof(w->part[0][0]));
    _tile_loadd(5, w->part[1][0] + AMX_K, sizeof(w->part[0][0]));
    size_t d = 0;
    for (; d + 2 * AMX_ROWS <= t->o_stride; d += 2 * AMX_ROWS) { /* two sums, so that they need not wait for themselves */
        _tile_loadd(0, o + d, o_row);
        _tile_loadd(1, o + d + AMX_ROWS, o_row);
        ADD_VALUES(2, 4, values + 2 * d, true);
        ADD_VALUES(3, 5, values + 2 * d + half, true);
        _tile_stored(0, o + d, o_row);
        _tile_stored(1, o + d + AMX_ROWS, o_row);
    }
    if (d < t->o_stride) {
        _tile_loadd(0, o + d, o_row);
        ADD_VALUES(2, 4, values + 2 * d, false);
        ADD_VALUES(3, 5, values + 2 * d + half, false);
        _tile_stored(0, o + d, o_row);
    }
    amx_memory(o);
}

/* A copy of the first n values, zeros after them: what lies there may be anything. */
static const uint16_t *first_values(const struct attend_tile *t, const uint16_t *values, int n)
{
    uint16_t *copy = query_part(t, CPU_Q_PARTS);
    size_t dim = (size_t)t->dim;
    memset(copy, 0, CPU_KEYS * (dim + CPU_HEAD_PAD) * sizeof(*copy));
    memcpy(copy, values, (size_t)n / 2 * 2 * dim * sizeof(*copy));
    for (size_t d = 0; n % 2 && d < dim; d++) copy[(size_t)n / 2 * 2 * dim + 2 * d] = values[(size_t)n / 2 * 2 * dim + 2 * d];
    return copy;
}

static bool all_finite(const uint16_t *values, size_t n)
{
    unsigned found = 0;
    for (size_t i = 0; i < n; i++) found |= (values[i] & 0x7f80) == 0x7f80;
    return !found;
}

/* Zero times what is no number is no number: a value that only some rows of the tile see is kept from the others. */
static void add_row_by_row(float *o, const struct attend_tile *t, int first, const struct weights *w, const uint16_t *values)
{
    attend_begin(1);
    for (int i = 0; i < AMX_ROWS && first + i < t->n_rows; i++) {
        struct weights own;
        for (int part = 0; part < SPLIT_PARTS; part++) memcpy(own.part[part][0], w->part[part][i], sizeof(own.part[part][0]));
        if (t->n_keys[first + i]) add_tile(o + (size_t)i * t->o_stride, t, &own, first_values(t, values, t->n_keys[first + i]));
    }
    attend_begin(AMX_ROWS);
}

/* Keys that some row sees, and, in *all, that all rows see which see any. */
static int seen_keys(const struct attend_tile *t, int *all)
{
    int most = 0;
    *all = CPU_KEYS;
    for (int r = 0; r < t->n_rows; r++) {
        most = t->n_keys[r] > most ? t->n_keys[r] : most;
        *all = t->n_keys[r] < *all ? t->n_keys[r] : *all;
    }
    return most;
}

INLINE void attend_parts(struct attend_tile *t, const uint16_t *keys, const uint16_t *values, bool split)
{
    float scores[AMX_ROWS][CPU_KEYS] __attribute__((aligned(64)));
    struct weights weights;
    int all, most = seen_keys(t, &all);
    const uint16_t *seen = most < CPU_KEYS ? first_values(t, values, most) : values;
    bool apart = all < most && !all_finite(values + (size_t)all / 2 * 2 * (size_t)t->dim, ((size_t)most + 1 - (size_t)all / 2 * 2) / 2 * 2 * (size_t)t->dim);
    attend_begin(AMX_ROWS);
    for (int first = 0; first < t->n_rows && most; first += AMX_ROWS) {
        float *o = t->o + (size_t)first * t->o_stride;
        score_tile(scores, t, first, keys, split);
        soften_tile(&weights, t, first, scores);
        if (apart) add_row_by_row(o, t, first, &weights, values);
        else add_tile(o, t, &weights, seen);
    }
    _tile_release();
}

void cpu_attend_amx(struct attend_tile *t, const void *keys, const void *values, enum kv_kind kind)
{
    if (!t->is_packed) pack_queries(t);
    if (kind == KV_SPLIT) attend_parts(t, keys, values, true);
    else attend_parts(t, keys, values, false);
}
