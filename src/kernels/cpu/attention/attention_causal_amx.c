/* SPDX-License-Identifier: Apache-2.0 */
/* Causal attention in BF16 with tiles (AMX).
 *
 * Scores need precision, so queries are sums of BF16 parts: three for BF16 keys, which gives exact
 * products, or two for keys of two parts, without the product of the remainders. Softmax weights
 * have two parts. */
#include "kernels/cpu/common/amx_tmpl.h"

#include "kernels/cpu/attention/online_softmax_tmpl.h"

enum { KEY_GROUPS = CPU_KEY_BLOCK / AMX_ROWS, KEY_ROW = 2 * CPU_KEY_BLOCK, SOFTMAX_PARTS = 2 };

/* Configures tiles of `rows` rows, except tile 6, whose 16 rows hold keys or values. Tile 7 can
 * hold them only if `rows` is 16. */
static void configure_attention(int rows)
{
    struct amx_tile_config config = amx_full_tiles();
    for (int i = 0; i < 8; i++)
        if (i != 6) config.rows[i] = (uint8_t)rows;
    amx_load_config(&config);
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

/* Attention of a few queries is mostly reading. The next block is prefetched between tile products,
 * a few lines at a time, because processors drop bursts of prefetches; keys together with values,
 * because two streams get more memory bandwidth. */
struct kv_prefetch {
    const char *at; /* next line of keys; NULL for no prefetch */
    size_t half;    /* bytes from keys to values */
    size_t lines;   /* lines of keys that remain, and as many of values */
};
/* Lines of keys, and as many of values, that are prefetched in each step of scores and each step of
 * adding values. PREFETCH_WITH_WEIGHTS is a divisor: a softmax prefetches 1/8 of the block. */
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

/* Multiplies 32 columns of queries with all keys of the block; `rest`: remainders of the keys, or
 * NULL. */
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

/* Returns the last columns of keys, padded with zeros to 32. */
INLINE const uint16_t *last_columns(uint16_t buffer[AMX_ROWS * KEY_ROW], const uint16_t *keys,
                                    size_t d, size_t dim)
{
    memset(buffer, 0, AMX_ROWS * KEY_ROW * sizeof(*buffer));
    memcpy(buffer, keys + d * CPU_KEY_BLOCK, (dim - d) * CPU_KEY_BLOCK * sizeof(*buffer));
    amx_memory(buffer);
    return buffer;
}

/* Computes scores[rows of a tile][CPU_KEY_BLOCK] of rows from `first` on. */
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

/* Softmax of `rows` rows from `first` on; rows that attend to nothing, and padding rows, get weight
 * 0. */
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

/* Multiplies both parts of the weights of 32 keys with 16 or 32 columns of their values. */
#define ADD_VALUES(high, low, from, two)                     \
    do {                                                     \
        _tile_loadd(6, from, row);                           \
        if (two) _tile_loadd(7, (from) + 2 * AMX_ROWS, row); \
        _tile_dpbf16ps(0, high, 6);                          \
        if (two) _tile_dpbf16ps(1, high, 7);                 \
        _tile_dpbf16ps(0, low, 6);                           \
        if (two) _tile_dpbf16ps(1, low, 7);                  \
    } while (0)

/* o[rows of a tile, o_stride] += weights · values. With 16 rows, two independent sums hide
 * latency. */
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

/* Returns a copy of the first n values followed by zeros, because unused slots may hold
 * anything. */
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

/* Adds row by row: 0 times NaN is NaN, so a value that only some rows attend to is kept from the
 * others. */
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

/* Returns how many keys at least one row attends to; *all: how many every row attends to. */
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

/* Returns the prefetches for the next block: none for many queries, whose products take longer than
 * reading. */
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
