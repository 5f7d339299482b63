/* SPDX-License-Identifier: Apache-2.0 */
/* A tile of queries of a picture's attention, where values lie as words of PATCHES patches each,
 * [words, padded_dim()], as their weights do; a part of kernels for pictures. What includes it has
 * with_weight(), which adds a vector of values times a word of weights, and put_weights(), which
 * makes words of a block's. */

/* ---- a tile ---- */

struct room {
    float o[CPU_Q_ROWS * (CPU_PICTURE_DIM + LANES)];
    float weights[SHARE][CPU_KEYS / PATCHES]; /* words */
    struct queries queries;
} __attribute__((aligned(64)));

static size_t room_bytes(void)
{
    return sizeof(struct room);
}

/* o[rows] += n words of weights times `width` vectors of values, `stride` apart. */
INLINE void add_values(float *o, const float *v, size_t stride,
                       const float (*weights)[CPU_KEYS / PATCHES], int n, int rows, int width)
{
    vf acc[SHARE][WIDE];
    UNROLL
    for (int i = 0; i < width * rows; i++)
        acc[i / width][i % width] = load(o + (size_t)(i / width) * stride + i % width * LANES);
    for (int j = 0; j < n; j++, v += stride) {
        vf row[WIDE];
        UNROLL
        for (int u = 0; u < width; u++)
            row[u] = load(v + u * LANES);
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
        for (int u = 0; u < width; u++)
            acc[r][u] = with_weight(acc[r][u], row[u], &weights[r][j]);
    }
    UNROLL
    for (int i = 0; i < width * rows; i++)
        store(o + (size_t)(i / width) * stride + i % width * LANES, acc[i / width][i % width]);
}

/* Queries first .. first+rows-1 against a block of n patches. */
INLINE void attend_rows(struct room *room, const struct picture_tile *t, const void *keys,
                        const float *values, int n, int first, int rows)
{
    const size_t padded = padded_dim(t->dim);
    const int words = (n + PATCHES - 1) / PATCHES;
    vf scores[SHARE][KEY_VECTORS];
    score_rows(scores, &room->queries, keys, t->dim, n, first, rows);
    UNROLL
    for (int r = 0; r < rows; r++) {
        soften_row(&room->queries, first + r, scores[r]);
        put_weights(room->weights[r], scores[r]);
    }
    for (size_t d = 0; d < padded; d += WIDE * LANES) {
        float *o = room->o + (size_t)first * padded + d;
        switch ((padded - d) / LANES) {
        case 1: add_values(o, values + d, padded, room->weights, words, rows, 1); break;
        case 2: add_values(o, values + d, padded, room->weights, words, rows, 2); break;
        case 3: add_values(o, values + d, padded, room->weights, words, rows, 3); break;
        default: add_values(o, values + d, padded, room->weights, words, rows, WIDE);
        }
    }
}

static void attend_picture(const struct picture_tile *t, void *scratch)
{
    struct room *room = scratch;
    const size_t padded = padded_dim(t->dim);
    start_rows(&room->queries, room->o, padded, t);
    for (int key = 0; key < t->n_keys; key += CPU_KEYS) {
        const uint8_t *keys = (const uint8_t *)t->keys + (size_t)key * key_bytes(t->dim);
        const float *values = (const float *)t->values + (size_t)key / PATCHES * padded;
        const int n = patches_of_block(t, key);
        int r = 0;
        for (; r + SHARE <= t->n_rows; r += SHARE)
            attend_rows(room, t, keys, values, n, r, SHARE);
        for (; r < t->n_rows; r++)
            attend_rows(room, t, keys, values, n, r, 1);
    }
    finish_rows(t, &room->queries);
}
