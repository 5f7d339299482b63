/* SPDX-License-Identifier: Apache-2.0 */
/* Causal attention of a few queries over a block of keys. */
#include "kernels/cpu/attention/online_softmax_tmpl.h"

/* Loads LANES floats at column i of row `row`, rows `stride` apart; BF16 rows are interleaved in
 * pairs. */
INLINE vf load_kv(const void *base, size_t row, size_t stride, size_t i, bool bf16)
{
    vu pair;
    if (!bf16) return load_vf((const float *)base + row * stride + i);
    memcpy(&pair, (const uint8_t *)base + 4 * (row / 2 * stride + i), sizeof(pair));
    return (vf)(row % 2 ? pair & 0xffff0000 : pair << 16);
}

/* Rows that share a load of keys or values, and the vectors whose sums fit into registers. */
enum { ROWS_PER_LOAD = LANES == 16 ? 4 : 2, VECTORS_AT_ONCE = 4 };

/* scores[rows][CPU_KEY_BLOCK] = q · keys */
INLINE void causal_scores(float (*scores)[CPU_KEY_BLOCK], const float *const *q, const void *keys,
                          int dim, bool bf16, int rows)
{
    for (size_t g = 0; g < KEY_BLOCK_VECTORS; g += VECTORS_AT_ONCE) {
        vf acc[ROWS_PER_LOAD][VECTORS_AT_ONCE];
        for (int r = 0; r < rows; r++)
            for (int u = 0; u < VECTORS_AT_ONCE; u++)
                acc[r][u] = (vf){0};
        for (int d = 0; d < dim; d++) {
            vf k[VECTORS_AT_ONCE];
            for (size_t u = 0; u < VECTORS_AT_ONCE; u++)
                k[u] = load_kv(keys, (size_t)d, CPU_KEY_BLOCK, (g + u) * LANES, bf16);
            for (int r = 0; r < rows; r++)
                for (int u = 0; u < VECTORS_AT_ONCE; u++)
                    acc[r][u] += q[r][d] * k[u];
        }
        for (int r = 0; r < rows; r++)
            for (size_t u = 0; u < VECTORS_AT_ONCE; u++)
                store_vf(scores[r] + (g + u) * LANES, acc[r][u]);
    }
}

/* o[rows] += weights[rows] · values of keys from .. to-1, a few vectors of the head at a time. */
INLINE void causal_add_values(float *o, size_t o_stride, float (*weights)[CPU_KEY_BLOCK],
                              const void *values, size_t v_stride, int from, int to, bool bf16,
                              int rows)
{
    for (size_t d = 0; d < o_stride; d += VECTORS_AT_ONCE * LANES) {
        int count = o_stride - d < VECTORS_AT_ONCE * LANES ? (int)((o_stride - d) / LANES)
                                                           : VECTORS_AT_ONCE;
        vf acc[ROWS_PER_LOAD][VECTORS_AT_ONCE];
        for (int r = 0; r < rows; r++)
            for (int u = 0; u < VECTORS_AT_ONCE; u++)
                acc[r][u] = u < count ? load_vf(o + (size_t)r * o_stride + d + (size_t)u * LANES)
                                      : (vf){0};
        for (int j = from; j < to; j++) {
            vf v[VECTORS_AT_ONCE];
            for (int u = 0; u < VECTORS_AT_ONCE; u++)
                v[u] = u < count ? load_kv(values, (size_t)j, v_stride, d + (size_t)u * LANES, bf16)
                                 : (vf){0};
            for (int r = 0; r < rows; r++)
                for (int u = 0; u < VECTORS_AT_ONCE; u++)
                    acc[r][u] += weights[r][j] * v[u];
        }
        for (int r = 0; r < rows; r++)
            for (int u = 0; u < count; u++)
                store_vf(o + (size_t)r * o_stride + d + (size_t)u * LANES, acc[r][u]);
    }
}

INLINE void causal_attention_rows(struct attention_tile *t, int first, int rows, const void *keys,
                                  const void *values, size_t v_stride, bool bf16)
{
    float scores[ROWS_PER_LOAD][CPU_KEY_BLOCK], *o = t->o + (size_t)first * t->o_stride;
    int all = CPU_KEY_BLOCK; /* keys that all rows attend to */
    causal_scores(scores, t->q + first, keys, t->dim, bf16, rows);
    for (int r = 0; r < rows; r++) {
        all = t->end_key[first + r] < all ? t->end_key[first + r] : all;
        if (t->end_key[first + r]) softmax_row(t, first + r, scores[r]);
    }
    causal_add_values(o, t->o_stride, scores, values, v_stride, 0, all, bf16, rows);
    for (int r = 0; r < rows; r++)
        if (t->end_key[first + r] > all)
            causal_add_values(o + (size_t)r * t->o_stride, t->o_stride, scores + r, values,
                              v_stride, all, t->end_key[first + r], bf16, 1);
}

INLINE void causal_attention_tile(struct attention_tile *t, const void *keys, const void *values,
                                  size_t v_stride, bool bf16)
{
    int r = 0;
    for (; ROWS_PER_LOAD == 4 && r + 4 <= t->n_rows; r += 4)
        causal_attention_rows(t, r, ROWS_PER_LOAD, keys, values, v_stride, bf16);
    for (; r + 2 <= t->n_rows; r += 2)
        causal_attention_rows(t, r, 2, keys, values, v_stride, bf16);
    for (; r < t->n_rows; r++)
        causal_attention_rows(t, r, 1, keys, values, v_stride, bf16);
}

static void causal_attention(struct attention_tile *t, const void *keys, const void *values,
                             enum kv_layout kind)
{
    if (kind == KV_LAYOUT_BF16)
        causal_attention_tile(t, keys, values, (size_t)t->dim, true);
    else
        causal_attention_tile(t, keys, values, (size_t)t->dim, false);
}
