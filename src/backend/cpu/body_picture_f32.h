/* A picture's attention with values in float32 and scores from int16 (body_picture.h); included by a small file for each way of multiplying pairs, which sets LANES and PICTURE (the table's name).
 *
 * Values are [patches, dim rounded up to LANES]. */
#include "backend/cpu/body_vectors.h"

#include "backend/cpu/body_picture.h"

static size_t padded_dim(int dim)
{
    return ((size_t)dim + LANES - 1) / LANES * LANES;
}

static size_t value_bytes(int dim)
{
    return padded_dim(dim) * sizeof(float);
}

static void store_values(void *values, size_t patch, const float *in, size_t stride, int n, int dim)
{
    float *out = (float *)values + patch * padded_dim(dim);
    for (int i = 0; i < n; i++, in += stride)
        for (size_t d = 0; d < padded_dim(dim); d += LANES, out += LANES) store(out, (vf)numbers_at(in, d, (size_t)dim));
}

/* ---- a tile ---- */

struct room {
    float o[CPU_Q_ROWS * (CPU_PICTURE_DIM + LANES)];
    float weights[SHARE][CPU_KEYS];
    struct queries queries;
} __attribute__((aligned(64)));

static size_t room_bytes(void)
{
    return sizeof(struct room);
}

/* o[rows] += the weights of n patches times `width` vectors of their values, `stride` apart. */
INLINE void add_values(float *o, const float *v, size_t stride, const float (*weights)[CPU_KEYS], int n, int rows, int width)
{
    vf acc[SHARE][WIDE];
    UNROLL
    for (int i = 0; i < width * rows; i++) acc[i / width][i % width] = load(o + (size_t)(i / width) * stride + i % width * LANES);
    for (int j = 0; j < n; j++, v += stride) {
        vf row[WIDE];
        UNROLL
        for (int u = 0; u < width; u++) row[u] = load(v + u * LANES);
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
            for (int u = 0; u < width; u++) acc[r][u] += row[u] * weights[r][j];
    }
    UNROLL
    for (int i = 0; i < width * rows; i++) store(o + (size_t)(i / width) * stride + i % width * LANES, acc[i / width][i % width]);
}

/* Queries first .. first+rows-1 against a block of n patches. */
INLINE void attend_rows(struct room *room, const struct picture_tile *t, const void *keys, const float *values, int n, int first, int rows)
{
    const size_t padded = padded_dim(t->dim);
    vf scores[SHARE][KEY_VECTORS];
    score_rows(scores, &room->queries, keys, t->dim, n, first, rows);
    UNROLL
    for (int r = 0; r < rows; r++) {
        soften_row(&room->queries, first + r, scores[r]);
        UNROLL
        for (int u = 0; u < KEY_VECTORS; u++) store(room->weights[r] + u * LANES, scores[r][u]);
    }
    for (size_t d = 0; d < padded; d += WIDE * LANES) {
        float *o = room->o + (size_t)first * padded + d;
        switch ((padded - d) / LANES) {
        case 1: add_values(o, values + d, padded, room->weights, n, rows, 1); break;
        case 2: add_values(o, values + d, padded, room->weights, n, rows, 2); break;
        case 3: add_values(o, values + d, padded, room->weights, n, rows, 3); break;
        default: add_values(o, values + d, padded, room->weights, n, rows, WIDE);
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
        const float *values = (const float *)t->values + (size_t)key * padded;
        const int n = patches_of_block(t, key);
        int r = 0;
        for (; r + SHARE <= t->n_rows; r += SHARE) attend_rows(room, t, keys, values, n, r, SHARE);
        for (; r < t->n_rows; r++) attend_rows(room, t, keys, values, n, r, 1);
    }
    finish_rows(t, &room->queries);
}

const struct picture_kernels PICTURE = {key_bytes, value_bytes, room_bytes, store_key, store_values, attend_picture};
