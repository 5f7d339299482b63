/* A picture's attention with values and their weights in BF16 (AVX512-BF16: 32 products an instruction); scores come from int16 (body_picture.h).
 *
 * A block's values are [CPU_KEYS / 2, dim rounded up to LANES, 2] BF16: two patches side by side, as products take them. Of an odd number of patches the last one's neighbour is zero. */
#define LANES 16
#include "backend/cpu/body_vectors.h"

#include "backend/cpu/body_picture.h"

enum { WIDTH = 4 }; /* vectors of values that queries share a load of */

INLINE size_t padded_dim(int dim)
{
    return ((size_t)dim + LANES - 1) / LANES * LANES;
}

static size_t value_bytes(int dim)
{
    return padded_dim(dim) * sizeof(uint16_t);
}

/* 16 numbers from `d` on as BF16, in words; zeros after their end. */
INLINE __m512i value_words(const float *in, size_t d, size_t dim)
{
    return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(numbers_at(in, d, dim)));
}

static void store_values(void *values, size_t patch, const float *in, size_t stride, int n, int dim)
{
    const size_t padded = padded_dim(dim);
    for (size_t i = patch; i < patch + (size_t)n; i++, in += stride) {
        uint32_t *pair = (uint32_t *)values + i / 2 * padded; /* pairs of a head lie one after the other */
        for (size_t d = 0; d < padded; d += LANES) {
            const __m512i words = value_words(in, d, (size_t)dim);
            _mm512_storeu_si512(pair + d, i % 2 ? _mm512_or_si512(_mm512_loadu_si512(pair + d), _mm512_slli_epi32(words, 16)) : words);
        }
    }
}

/* ---- a tile ---- */

struct room {
    float o[CPU_Q_ROWS * (CPU_PICTURE_DIM + LANES)];
    uint32_t weights[SHARE][CPU_KEYS / 2]; /* of pairs of patches */
    struct queries queries;
} __attribute__((aligned(64)));

static size_t room_bytes(void)
{
    return sizeof(struct room);
}

/* o[rows] += the weights of so many pairs of patches times `width` vectors of their values, `stride` apart. */
INLINE void add_values(float *o, size_t o_stride, const uint32_t *v, size_t stride, const uint32_t (*weights)[CPU_KEYS / 2], int pairs, int rows, int width)
{
    vf acc[SHARE][WIDTH];
    UNROLL
    for (int i = 0; i < width * rows; i++) acc[i / width][i % width] = load(o + (size_t)(i / width) * o_stride + i % width * LANES);
    for (int j = 0; j < pairs; j++, v += stride) {
        __m512i row[WIDTH];
        UNROLL
        for (int u = 0; u < width; u++) row[u] = _mm512_loadu_si512(v + u * LANES);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const __m512bh weight = (__m512bh)_mm512_set1_epi32((int)weights[r][j]);
            UNROLL
            for (int u = 0; u < width; u++) acc[r][u] = (vf)_mm512_dpbf16_ps((__m512)acc[r][u], (__m512bh)row[u], weight);
        }
    }
    UNROLL
    for (int i = 0; i < width * rows; i++) store(o + (size_t)(i / width) * o_stride + i % width * LANES, acc[i / width][i % width]);
}

/* Queries first .. first+rows-1 against a block of n patches. */
INLINE void attend_rows(struct room *room, const struct picture_tile *t, const void *keys, const uint32_t *values, int n, int first, int rows)
{
    const size_t padded = padded_dim(t->dim);
    const int pairs = (n + 1) / 2;
    vf scores[SHARE][KEY_VECTORS];
    score_rows(scores, &room->queries, keys, t->dim, n, first, rows);
    UNROLL
    for (int r = 0; r < rows; r++) {
        soften_row(&room->queries, first + r, scores[r]);
        UNROLL
        for (int u = 0; u < KEY_VECTORS; u += 2) _mm512_storeu_si512(room->weights[r] + u / 2 * LANES, (__m512i)_mm512_cvtne2ps_pbh((__m512)scores[r][u + 1], (__m512)scores[r][u]));
    }
    for (size_t d = 0; d < padded; d += WIDTH * LANES) {
        float *o = room->o + (size_t)first * padded + d;
        switch (padded - d) {
        case LANES: add_values(o, padded, values + d, padded, room->weights, pairs, rows, 1); break;
        case 2 * LANES: add_values(o, padded, values + d, padded, room->weights, pairs, rows, 2); break;
        case 3 * LANES: add_values(o, padded, values + d, padded, room->weights, pairs, rows, 3); break;
        default: add_values(o, padded, values + d, padded, room->weights, pairs, rows, WIDTH);
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
        const uint32_t *values = (const uint32_t *)t->values + (size_t)key / 2 * padded;
        const int n = patches_of_block(t, key);
        int r = 0;
        for (; r + SHARE <= t->n_rows; r += SHARE) attend_rows(room, t, keys, values, n, r, SHARE);
        for (; r < t->n_rows; r++) attend_rows(room, t, keys, values, n, r, 1);
    }
    finish_rows(t, &room->queries);
}

const struct picture_kernels cpu_picture_bf16 = {key_bytes, value_bytes, room_bytes, store_key, store_values, attend_picture};
