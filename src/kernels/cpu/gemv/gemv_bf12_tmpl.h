/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV with BF12 blocks (tensor/bf12.h). A template with parameters: GEMV_BF12_STEP multiplies 64
 * columns of up to BF12_ROWS_AT_ONCE rows, GEMV_BF12_UNCOMPRESSED takes rows as they lie in the
 * file. */

/* Steps of a block that stay in the first-level cache while its rows are taken a few at a time. */
enum { STEPS_PER_CHUNK = 8 };

/* 64 columns of `count` rows of a strip; prefetches as many of the step that is `ahead`. */
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

/* The strip that begins with row p.row of the tile, p.n rows at a time. */
INLINE void gemv_bf12_block(float *out, size_t out_stride, const struct gemv_args *t,
                            struct weight_streams p, int n)
{
    vf all[BF12_ROWS * MAX_GEMV_ROWS];
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
            vf acc[MAX_WEIGHT_STREAMS * MAX_GEMV_ROWS], *sums = all + group * n;
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
                    GEMV_BF12_STEP(acc, (const bf12_vector(*)[BF12_VECTORS])wv, t, k, &p, a, count,
                                   n);
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
    GEMV_BF12_UNCOMPRESSED(out, out_stride, &strip);
}

INLINE void gemv_bf12_blocks(float *out, size_t out_stride, const struct gemv_args *t, int n)
{
    for (int row = 0; row < t->n_w; row += BF12_ROWS) {
        if (bf12_block_at(t->weight->bf12, t->row + row)->n_outliers != BF12_UNCOMPRESSED)
            gemv_bf12_block(out, out_stride, t, (struct weight_streams){row, 1, STREAMS_FOR(n)}, n);
        else
            gemv_uncompressed_block(out + row, out_stride, t, row);
    }
}

static void gemv_bf12(float *out, size_t out_stride, const struct gemv_args *t)
{
#define GEMV_BF12(rows) gemv_bf12_blocks(out, out_stride, t, rows)
    FOR_GEMV_ROWS(t->n_x, GEMV_BF12)
}
