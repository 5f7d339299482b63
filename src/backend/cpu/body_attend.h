/* Attention of a few queries over a block of keys; a part of kernels_body.h. */

enum { KEY_VECTORS = CPU_KEYS / LANES };

INLINE vf load_kv(const void *base, size_t i, bool bf16)
{
    return bf16 ? load_bf16((const uint8_t *)base + 2 * i) : load((const float *)base + i);
}

/* Rows that share a load of keys or values, with as many vectors as registers hold sums for. */
enum { SHARE = LANES == 16 ? 4 : 2, WIDE = 4 };

/* scores[rows][CPU_KEYS] = q · keys */
INLINE void score_rows(float (*scores)[CPU_KEYS], const float *const *q, const void *keys, int dim, bool bf16, int rows)
{
    for (size_t g = 0; g < KEY_VECTORS; g += WIDE) {
        vf acc[SHARE][WIDE];
        for (int r = 0; r < rows; r++)
            for (int u = 0; u < WIDE; u++) acc[r][u] = (vf){0};
        for (int d = 0; d < dim; d++) {
            vf k[WIDE];
            for (size_t u = 0; u < WIDE; u++) k[u] = load_kv(keys, (size_t)d * CPU_KEYS + (g + u) * LANES, bf16);
            for (int r = 0; r < rows; r++)
                for (int u = 0; u < WIDE; u++) acc[r][u] += q[r][d] * k[u];
        }
        for (int r = 0; r < rows; r++)
            for (size_t u = 0; u < WIDE; u++) store(scores[r] + (g + u) * LANES, acc[r][u]);
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

/* o[rows] += weights[rows] · values of the keys from .. to-1, a few vectors of the head at a time */
INLINE void add_values(float *o, size_t o_stride, float (*weights)[CPU_KEYS], const void *values, size_t v_stride, int from, int to,
                       bool bf16, int rows)
{
    for (size_t d = 0; d < o_stride; d += WIDE * LANES) {
        int count = o_stride - d < WIDE * LANES ? (int)((o_stride - d) / LANES) : WIDE;
        vf acc[SHARE][WIDE];
        for (int r = 0; r < rows; r++)
            for (int u = 0; u < WIDE; u++) acc[r][u] = u < count ? load(o + (size_t)r * o_stride + d + (size_t)u * LANES) : (vf){0};
        for (int j = from; j < to; j++) {
            vf v[WIDE];
            for (int u = 0; u < WIDE; u++) v[u] = u < count ? load_kv(values, (size_t)j * v_stride + d + (size_t)u * LANES, bf16) : (vf){0};
            for (int r = 0; r < rows; r++)
                for (int u = 0; u < WIDE; u++) acc[r][u] += weights[r][j] * v[u];
        }
        for (int r = 0; r < rows; r++)
            for (int u = 0; u < count; u++) store(o + (size_t)r * o_stride + d + (size_t)u * LANES, acc[r][u]);
    }
}

INLINE void attend_rows(struct attend_tile *t, int first, int rows, const void *keys, const void *values, size_t v_stride, bool bf16)
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
            add_values(o + (size_t)r * t->o_stride, t->o_stride, scores + r, values, v_stride, all, t->n_keys[first + r], bf16, 1);
}

INLINE void attend_tile(struct attend_tile *t, const void *keys, const void *values, size_t v_stride, bool bf16)
{
    int r = 0;
    for (; SHARE == 4 && r + 4 <= t->n_rows; r += 4) attend_rows(t, r, SHARE, keys, values, v_stride, bf16);
    for (; r + 2 <= t->n_rows; r += 2) attend_rows(t, r, 2, keys, values, v_stride, bf16);
    for (; r < t->n_rows; r++) attend_rows(t, r, 1, keys, values, v_stride, bf16);
}

static void attend(struct attend_tile *t, const void *keys, const void *values, size_t v_stride, bool bf16)
{
    if (bf16) attend_tile(t, keys, values, v_stride, true);
    else attend_tile(t, keys, values, v_stride, false);
}
