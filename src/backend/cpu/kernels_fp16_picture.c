/* A picture's attention with values in FP16 (body_fp16.h says what is lost); scores come from int16 (body_picture.h).
 *
 * A block's values are [CPU_KEYS, dim rounded up to HALVES] FP16, then a factor for each patch, because every value is brought into FP16's range by a power of two of its own. */
#define GROWTH 5.75f /* weights stay below 2^5.75, times values below 2^VALUE_LIMIT: 64 of them are below 65504, where FP16 ends */
#include "backend/cpu/body_fp16.h"

#include "backend/cpu/body_picture.h"

enum {
    VALUE_LIMIT = 3, /* log2 */
    ROWS = 8,        /* queries that share a load of values */
    WIDTH = 2        /* with so many vectors of them */
};

INLINE size_t padded_dim(int dim)
{
    return ((size_t)dim + HALVES - 1) / HALVES * HALVES;
}

static size_t value_bytes(int dim)
{
    return padded_dim(dim) * sizeof(uint16_t) + sizeof(float);
}

/* The factors of a block of values. */
INLINE const float *block_factors(const void *block, int dim)
{
    return (const float *)(const void *)((const uint16_t *)block + CPU_KEYS * padded_dim(dim));
}

static void store_values(void *values, size_t patch, const float *in, size_t stride, int n, int dim)
{
    for (size_t i = patch; i < patch + (size_t)n; i++, in += stride) {
        uint16_t *block = (uint16_t *)(void *)((uint8_t *)values + i / CPU_KEYS * CPU_KEYS * value_bytes(dim)), *out = block + i % CPU_KEYS * padded_dim(dim);
        const struct packing p = {.x = in, .width = (size_t)dim};
        const int exponent = exponent_for(largest_of(in, p.width), VALUE_LIMIT);
        for (size_t d = 0; d < padded_dim(dim); d += LANES)
            _mm256_storeu_si256((__m256i *)(void *)(out + d), halves_of(row_floats(&p, 0, d) * power_of_two(exponent)));
        ((float *)(void *)(block + CPU_KEYS * padded_dim(dim)))[i % CPU_KEYS] = power_of_two(-exponent);
    }
}

/* ---- a tile ---- */

struct room {
    float o[CPU_Q_ROWS * (CPU_PICTURE_DIM + HALVES)];
    uint16_t weights[ROWS][CPU_KEYS];
    struct queries queries;
} __attribute__((aligned(64)));

static size_t room_bytes(void)
{
    return sizeof(struct room);
}

INLINE void add_value(__m512h acc[WIDTH], const __m512h v[WIDTH], const uint16_t *weight, int width)
{
    __asm__("vfmadd231ph %2%{1to32%}, %1, %0" : "+v"(acc[0]) : "v"(v[0]), "m"(*weight));
    if (width > 1) __asm__("vfmadd231ph %2%{1to32%}, %1, %0" : "+v"(acc[1]) : "v"(v[1]), "m"(*weight));
}

/* o[rows] += the weights of n patches times `width` vectors of their values, `stride` apart, times `factor`. TERMS patches are added in FP16, then those sums. */
INLINE void add_values(float *o, const uint16_t *v, size_t stride, int n, const uint16_t (*weights)[CPU_KEYS], float factor, int rows, int width)
{
    __m512h before[ROWS][WIDTH];
    for (int j = 0; j < n;) {
        const int from = j, end = j + TERMS < n ? j + TERMS : n;
        __m512h acc[ROWS][WIDTH];
        UNROLL
        for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = _mm512_setzero_ph();
        for (; j < end; j++, v += stride) {
            const __m512h row[WIDTH] = {load_halves(v), width > 1 ? load_halves(v + HALVES) : _mm512_setzero_ph()};
            UNROLL
            for (int r = 0; r < rows; r++) add_value(acc[r], row, &weights[r][j], width);
        }
        if (from) {
            UNROLL
            for (int i = 0; i < WIDTH * rows; i++) acc[i / WIDTH][i % WIDTH] = _mm512_add_ph(acc[i / WIDTH][i % WIDTH], before[i / WIDTH][i % WIDTH]);
        }
        UNROLL
        for (int i = 0; i < WIDTH * rows; i++) before[i / WIDTH][i % WIDTH] = acc[i / WIDTH][i % WIDTH];
    }
    for (int r = 0; r < rows; r++, o += stride)
        for (int u = 0; u < 2 * width; u++)
            store(o + u * LANES, load(o + u * LANES) + (vf)_mm512_cvtxph_ps((__m256h)_mm256_loadu_si256((const __m256i *)(const void *)before[r] + u)) * factor);
}

/* A block's values, whose factors are at most `largest` and here divided by it. */
struct value_block {
    const uint16_t *v;
    vf factors[KEY_VECTORS];
    float largest;
    int n; /* of its patches that there are */
};

static void value_block_of(struct value_block *b, const void *values, int dim, int n)
{
    const float *factors = block_factors(values, dim);
    b->v = values, b->largest = 0, b->n = n;
    for (int j = 0; j < n; j++) b->largest = factors[j] > b->largest ? factors[j] : b->largest;
    for (size_t u = 0; u < KEY_VECTORS; u++) b->factors[u] = load(factors + u * LANES) * (1 / b->largest);
}

/* Queries first .. first+rows-1 against a block. */
INLINE void attend_rows(struct room *room, const struct picture_tile *t, const void *keys, const struct value_block *b, int first, int rows)
{
    const size_t padded = padded_dim(t->dim);
    const int share = rows < SHARE ? rows : SHARE;
    for (int r = 0; r < rows; r += share) {
        vf scores[SHARE][KEY_VECTORS];
        score_rows(scores, &room->queries, keys, t->dim, b->n, first + r, share);
        for (int i = 0; i < share; i++) {
            soften_row(&room->queries, first + r + i, scores[i]);
            for (size_t u = 0; u < KEY_VECTORS; u++) _mm256_store_si256((__m256i *)(void *)(room->weights[r + i] + u * LANES), halves_of(scores[i][u] * b->factors[u]));
        }
    }
    for (size_t d = 0; d < padded; d += WIDTH * HALVES) {
        float *o = room->o + (size_t)first * padded + d;
        if (padded - d > HALVES) add_values(o, b->v + d, padded, b->n, room->weights, b->largest, rows, 2);
        else add_values(o, b->v + d, padded, b->n, room->weights, b->largest, rows, 1);
    }
}

static void attend_block(struct room *room, const struct picture_tile *t, const void *keys, const struct value_block *b)
{
    int r = 0;
    for (; r + ROWS <= t->n_rows; r += ROWS) attend_rows(room, t, keys, b, r, ROWS);
    for (; r + 2 <= t->n_rows; r += 2) attend_rows(room, t, keys, b, r, 2);
    for (; r < t->n_rows; r++) attend_rows(room, t, keys, b, r, 1);
}

static void attend_picture(const struct picture_tile *t, void *scratch)
{
    struct room *room = scratch;
    start_rows(&room->queries, room->o, padded_dim(t->dim), t);
    for (int key = 0; key < t->n_keys; key += CPU_KEYS) {
        struct value_block b;
        value_block_of(&b, (const uint8_t *)t->values + (size_t)key * value_bytes(t->dim), t->dim, patches_of_block(t, key));
        attend_block(room, t, (const uint8_t *)t->keys + (size_t)key * key_bytes(t->dim), &b);
    }
    finish_rows(t, &room->queries);
}

const struct picture_kernels cpu_picture_fp16 = {key_bytes, value_bytes, room_bytes, store_key, store_values, attend_picture};
