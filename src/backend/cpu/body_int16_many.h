/* SPDX-License-Identifier: Apache-2.0 */
/* Products of many rows in int16 (body_int16.h), with FP8 weights or, for pictures, with BF16 ones.
 * Block by block of scales the sums are exact, so they are those of few rows in whatever order they
 * come, and blocks are added in theirs.
 *
 * A packed tile is, block by block, [part][pairs of columns][rows of the part, 2] int16, then a
 * step for each row; a panel [block][strip]([pairs of columns][STRIP, 2] int16, then a step for
 * each weight row). Pairs come in the order in which codes are unpacked. */
#include "backend/cpu/body_int16_codes.h"
#include "backend/cpu/body_parts.h"

enum { PICTURE_LENGTH = 80000 /* of a block of a weight row: times BLOCK_LENGTH below 2^31 */ };

INLINE size_t block_pairs(size_t k, size_t padded)
{
    return (padded - k < FP8_BLOCK ? padded - k : FP8_BLOCK) / 2;
}

/* ---- packing ---- */

/* Of the block that begins with column k in a tile of n rows: bytes. */
SHARED size_t NAMED(columns)(size_t k, int n)
{
    return k / FP8_BLOCK * (size_t)n * (FP8_BLOCK * sizeof(uint16_t) + sizeof(float));
}

/* LANES rows' words from column LANES · i on become columns, each of which goes to n places of
 * `out`, `stride` apart. */
INLINE void put_columns(uint32_t *out, size_t stride, whole (*words)[BLOCK_VECTORS], size_t i,
                        int n)
{
    vf column[LANES];
    for (int b = 0; b < LANES; b++)
        column[b] = (vf)words[b][i];
    transpose_floats(column);
    for (size_t l = 0; l < LANES; l++)
        store_some((float *)(void *)(out + l * stride), column[l], n);
}

/* A part's rows become columns. */
static void pack_part(uint32_t *out, float *steps, const struct packing *p, size_t k, int begin,
                      int n)
{
    const size_t pairs = block_pairs(k, p->padded),
                 there = p->width - k < 2 * pairs ? p->width - k : 2 * pairs;
    whole words[LANES][BLOCK_VECTORS];
    memset(words, 0, sizeof(words));
    for (int b = 0; b < n; b++) {
        steps[b] = block_words(words[b], p->x + (size_t)(begin + b) * p->x_stride + k, there,
                               BLOCK_LENGTH);
        words_as_codes_come(words[b]);
    }
    for (size_t i = 0; i < pairs / LANES; i++)
        put_columns(out + i * LANES * (size_t)n, (size_t)n, words, i, n);
}

SHARED void NAMED(pack_block)(void *out, const struct packing *p)
{
    for (size_t k = 0; k < p->padded; k += FP8_BLOCK) {
        const size_t pairs = block_pairs(k, p->padded);
        uint32_t *block = (uint32_t *)(void *)((uint8_t *)out + NAMED(columns)(k, p->n));
        float *steps = (float *)(void *)(block + pairs * (size_t)p->n);
        for (int part = 0; part < n_parts(p->n); part++) {
            const int begin = part_begin(p->n, part);
            pack_part(block + (size_t)begin * pairs, steps + begin, p, k, begin,
                      part_begin(p->n, part + 1) - begin);
        }
    }
}

/* ---- panels ---- */

/* Where LANES rows from `at` on of block k of a panel begin; their steps follow the strip's last
 * pair. */
INLINE uint32_t *panel_place(void *panel, size_t k, size_t pairs, size_t strips, size_t at)
{
    const size_t before = (k / 2 + k / FP8_BLOCK) * strips + at / STRIP * (pairs + 1);
    return (uint32_t *)panel + before * STRIP + at % STRIP;
}

/* 2 · LANES codes of a weight row from column k on, zeros after its end. */
INLINE whole codes_at(const struct weight *w, int64_t row, size_t k)
{
    uint8_t some[sizeof(whole)] = {0};
    const size_t cols = (size_t)w->cols, n = k >= cols                  ? 0
                                             : cols - k < sizeof(whole) ? cols - k
                                                                        : sizeof(whole);
    const uint8_t *in = (const uint8_t *)w->data + (size_t)row * cols + k;
    whole codes;
    if (n < sizeof(whole))
        in = n ? memcpy(some, in, n) : some;
    else if (k % CPU_K_STEP == 0) {
        __builtin_prefetch(in + CPU_AHEAD);
        __builtin_prefetch(in + LANES * cols, 0, 2);
    } /* too many places for processors to read ahead in */
    memcpy(&codes, in, sizeof(codes));
    return codes;
}

/* A block of a weight row of FP8 as int16. */
INLINE void code_words(whole words[BLOCK_VECTORS], const struct weight *w, int64_t row, size_t k,
                       size_t pairs, const struct code_tables *tables)
{
    for (size_t i = 0; i * LANES < pairs; i += 2)
        codes_to_int16(words + i, codes_at(w, row, k + i * 2 * LANES), tables);
}

/* The same of BF16, whose steps are its own. Returns the step. */
INLINE float bf16_words(whole words[BLOCK_VECTORS], const struct weight *w, int64_t row, size_t k)
{
    const size_t cols = (size_t)w->cols, n = k >= cols              ? 0
                                             : cols - k < FP8_BLOCK ? cols - k
                                                                    : FP8_BLOCK;
    const uint8_t *in = (const uint8_t *)w->data + ((size_t)row * cols + k) * sizeof(uint16_t);
    float x[FP8_BLOCK];
    if (n < FP8_BLOCK)
        weight_floats(x, in, DTYPE_BF16, n);
    else
        for (size_t i = 0; i < FP8_BLOCK; i += LANES)
            store(x + i, load_bf16(in + i * sizeof(uint16_t)));
    const float step = block_words(words, x, n, PICTURE_LENGTH);
    words_as_codes_come(words);
    return step;
}

INLINE void write_panel(void *out, const struct weight *w, int64_t row, int n, size_t k0, size_t k,
                        bool codes)
{
    const size_t strips = ((size_t)n + STRIP - 1) / STRIP;
    const struct code_tables tables = code_tables_load(codes ? cpu_fp8_powers(w) : 0);
    const float unit = codes ? code_unit(cpu_fp8_powers(w)) : 0, *scale = weight_row_scale(w, row);
    for (size_t at = 0; at < strips * STRIP; at += LANES) {
        const size_t there = (size_t)n <= at ? 0 : (size_t)n - at < LANES ? (size_t)n - at : LANES;
        for (size_t c = 0; c < k; c += FP8_BLOCK) {
            const size_t pairs = block_pairs(c, k);
            uint32_t *to = panel_place(out, c, pairs, strips, at);
            whole words[LANES][BLOCK_VECTORS];
            float steps[LANES] = {0};
            for (size_t a = 0; a < LANES; a++) {
                if (a >= there)
                    memset(words[a], 0, sizeof(words[a]));
                else if (codes) {
                    code_words(words[a], w, row + (int64_t)(at + a), k0 + c, pairs, &tables);
                    steps[a] = scale[(k0 + c) / FP8_BLOCK] * unit;
                } else
                    steps[a] = bf16_words(words[a], w, row + (int64_t)(at + a), k0 + c);
            }
            for (size_t i = 0; i < pairs / LANES; i++)
                put_columns(to + i * LANES * STRIP, STRIP, words, i, LANES);
            memcpy(to + pairs * STRIP, steps, sizeof(steps));
        }
    }
}

SHARED void NAMED(panel)(void *out, const struct weight *w, int64_t row, int n, size_t k0, size_t k)
{
    write_panel(out, w, row, n, k0, k, true);
}

SHARED void NAMED(panel_bf16)(void *out, const struct weight *w, int64_t row, int n, size_t k0,
                              size_t k)
{
    write_panel(out, w, row, n, k0, k, false);
}

/* ---- products ---- */

/* acc[n][2] += two columns of a strip times those of n rows. */
INLINE void multiply_pair(whole (*acc)[2], const uint32_t *w, const uint32_t *x, int n)
{
    const whole *strip = (const whole *)(const void *)w, w0 = strip[0], w1 = strip[1];
    UNROLL
    for (int b = 0; b < n; b++) {
        acc[b][0] = with_products_of_pair(acc[b][0], w0, x + b);
        acc[b][1] = with_products_of_pair(acc[b][1], w1, x + b);
    }
}

/* sums[n][STRIP] += a block of a strip of weight rows with n packed rows. */
INLINE void multiply_part(float *sums, const uint32_t *w, const uint32_t *x, const float *steps,
                          size_t pairs, int n, struct ahead next)
{
    whole acc[PART_ROWS][2];
    UNROLL
    for (int b = 0; b < n; b++)
        acc[b][0] = acc[b][1] = (whole){0};
    for (const uint32_t *end = x + pairs * (size_t)n; x < end;
         x += 2 * n, w += 2 * STRIP, next.from[0] += next.step[0], next.from[1] += next.step[1]) {
        __builtin_prefetch(next.from[0]);
        __builtin_prefetch(next.from[1]);
        multiply_pair(acc, w, x, n);
        multiply_pair(acc, w + STRIP, x + n, n);
    }
    UNROLL
    for (int u = 0; u < 2; u++) {
        const vf step = load((const float *)(const void *)w + u * LANES);
        UNROLL
        for (int b = 0; b < n; b++) {
            float *to = sums + b * STRIP + u * LANES;
            store(to, load(to) + whole_floats(acc[b][u]) * (step * steps[b]));
        }
    }
}

static void multiply_rows(float *sums, const uint32_t *w, const uint32_t *x, const float *steps,
                          size_t pairs, int n, struct ahead next){
#define MULTIPLY_PART(rows) multiply_part(sums, w, x, steps, pairs, rows, next)
    FOR_ROWS_OF_PART(n, MULTIPLY_PART)}

SHARED void NAMED(multiply)(float *sums, const struct block *b)
{
    const size_t strips = ((size_t)b->n_w + STRIP - 1) / STRIP, n = (size_t)b->n_x,
                 parts = (size_t)n_parts(b->n_x);
    const uint32_t *w = b->w, *x = b->x;
    for (size_t strip = 0; b->first && strip < strips; strip++)
        memset(sums + strip * BLOCK_ROWS * STRIP, 0, n * STRIP * sizeof(float));
    for (size_t k = 0, pairs; k < b->k; k += 2 * pairs, x += (pairs + 1) * n) {
        pairs = block_pairs(k, b->k);
        const float *steps = (const float *)(const void *)(x + pairs * n);
        /* what is asked for: a share of the next block's rows, and of the next strip */
        struct ahead next = {
            {(const char *)(x + (pairs + 1) * n), NULL},
            {2 * n * sizeof(uint32_t) / (strips * parts), 2 * STRIP * sizeof(uint32_t) / parts}};
        for (size_t strip = 0; strip < strips; strip++, w += (pairs + 1) * STRIP) {
            next.from[1] = (const char *)(w + (pairs + 1) * STRIP);
            for (size_t part = 0; part < parts; part++) {
                const int first = part_begin(b->n_x, (int)part),
                          rows = part_begin(b->n_x, (int)part + 1) - first;
                multiply_rows(sums + (strip * BLOCK_ROWS + (size_t)first) * STRIP, w,
                              x + (size_t)first * pairs, steps + first, pairs, rows, next);
                next.from[0] += pairs / 2 * next.step[0];
                next.from[1] += pairs / 2 * next.step[1];
            }
        }
    }
}

SHARED void NAMED(put)(float *out, size_t out_stride, const float *sums, int n_w, int first, int n)
{
    put_block(out, out_stride, sums, n_w, first, n);
}

SHARED size_t NAMED(sums)(size_t width)
{
    (void)width;
    return TILE_SUMS;
}
