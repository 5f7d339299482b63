/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of a few queries over a block of keys; a part of kernels_body.h. */

/* LANES floats of place i of row `row`, rows `stride` apart; BF16 rows lie in pairs, element by
 * element. */
INLINE vf load_kv(const void *base, size_t row, size_t stride, size_t i, bool bf16)
{
    vu pair;
    if (!bf16) return load((const float *)base + row * stride + i);
    memcpy(&pair, (const uint8_t *)base + 4 * (row / 2 * stride + i), sizeof(pair));
    return (vf)(row % 2 ? pair & 0xffff0000 : pair << 16);
}

/* Rows that share a load of keys or values, with as many vectors as registers hold sums for. */
enum { SHARE = LANES == 16 ? 4 : 2, WIDE = 4 };

/* scores[rows][CPU_KEYS] = q · keys */
INLINE void score_rows(float (*scores)[CPU_KEYS], const float *const *q, const void *keys, int dim,
                       bool bf16, int rows)
{
    for (size_t g = 0; g < KEY_VECTORS; g += WIDE) {
        vf acc[SHARE][WIDE];
        for (int r = 0; r < rows; r++)
            for (int u = 0; u < WIDE; u++)
                acc[r][u] = (vf){0};
        for (int d = 0; d < dim; d++) {
            vf k[WIDE];
            for (size_t u = 0; u < WIDE; u++)
                k[u] = load_kv(keys, (size_t)d, CPU_KEYS, (g + u) * LANES, bf16);
            for (int r = 0; r < rows; r++)
                for (int u = 0; u < WIDE; u++)
                    acc[r][u] += q[r][d] * k[u];
        }
        for (int r = 0; r < rows; r++)
            for (size_t u = 0; u < WIDE; u++)
                store(scores[r] + (g + u) * LANES, acc[r][u]);
    }
}

/* o[rows] += weights[rows] · values of the keys from .. to-1, a few vectors of the head at a time
 */
INLINE void add_values(float *o, size_t o_stride, float (*weights)[CPU_KEYS], const void *values,
                       size_t v_stride, int from, int to, bool bf16, int rows)
{
    for (size_t d = 0; d < o_stride; d += WIDE * LANES) {
        int count = o_stride - d < WIDE * LANES ? (int)((o_stride - d) / LANES) : WIDE;
        vf acc[SHARE][WIDE];
        for (int r = 0; r < rows; r++)
            for (int u = 0; u < WIDE; u++)
                acc[r][u] = u < count ? load(o + (size_t)r * o_stride + d + (size_t)u * LANES)
                                      : (vf){0};
        for (int j = from; j < to; j++) {
            vf v[WIDE];
            for (int u = 0; u < WIDE; u++)
                v[u] = u < count ? load_kv(values, (size_t)j, v_stride, d + (size_t)u * LANES, bf16)
                                 : (vf){0};
            for (int r = 0; r < rows; r++)
                for (int u = 0; u < WIDE; u++)
                    acc[r][u] += weights[r][j] * v[u];
        }
        for (int r = 0; r < rows; r++)
            for (int u = 0; u < count; u++)
                store(o + (size_t)r * o_stride + d + (size_t)u * LANES, acc[r][u]);
    }
}

INLINE void attend_rows(struct attend_tile *t, int first, int rows, const void *keys,
                        const void *values, size_t v_stride, bool bf16)
{
    float scores[SHARE][CPU_KEYS], *o = t->o + (size_t)first * t->o_stride;
    int all = CPU_KEYS; /* keys that all rows see */
    score_rows(scores, t->q + first, keys, t->dim, bf16, rows);
    for (int r = 0; r < rows; r++) {
        all = t->n_keys[first + r] < all ? t->n_keys[first + r] : all;
        if (t->n_keys[first + r]) soften_row(t, first + r, scores[r]);
    }
    add_values(o, t->o_stride, scores, values, v_stride, 0, all, bf16, rows);
    for (int r = 0; r < rows; r++)
        if (t->n_keys[first + r] > all)
            add_values(o + (size_t)r * t->o_stride, t->o_stride, scores + r, values, v_stride, all,
                       t->n_keys[first + r], bf16, 1);
}

INLINE void attend_tile(struct attend_tile *t, const void *keys, const void *values,
                        size_t v_stride, bool bf16)
{
    int r = 0;
    for (; SHARE == 4 && r + 4 <= t->n_rows; r += 4)
        attend_rows(t, r, SHARE, keys, values, v_stride, bf16);
    for (; r + 2 <= t->n_rows; r += 2)
        attend_rows(t, r, 2, keys, values, v_stride, bf16);
    for (; r < t->n_rows; r++)
        attend_rows(t, r, 1, keys, values, v_stride, bf16);
}

static void attend(struct attend_tile *t, const void *keys, const void *values, enum kv_kind kind)
{
    if (kind == KV_BF16)
        attend_tile(t, keys, values, (size_t)t->dim, true);
    else
        attend_tile(t, keys, values, (size_t)t->dim, false);
}
