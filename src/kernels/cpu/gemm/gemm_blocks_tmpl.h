/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM (many rows of x) for weights with scales in groups, as int16 (block_words_tmpl.h). Sums of
 * a group are exact, and are added in the order of gemv_blocks_tmpl.h.
 *
 * For each 256 columns a packed tile has [M-block]([pairs of columns, then a pair for each sum of
 * 32 columns][rows of the M-block, 2] int16), then a step for each row. For the same columns a
 * panel has [micro-panel][group]([pairs of the group][NR, 2] int16, then a scale for each weight
 * row); the minima of a micro-panel follow its groups and are stored like a group of eight pairs.
 * The pairs of a sub (32 columns) are in the order of its lanes. */
#ifndef EY_KERNELS_CPU_GEMM_BLOCKS_TMPL_H
#define EY_KERNELS_CPU_GEMM_BLOCKS_TMPL_H

#include "kernels/cpu/gemm/gemm_blocking_tmpl.h"
#include "kernels/cpu/gemv/gemv_blocks_tmpl.h"

enum {
    SUB_PAIRS = SUB / 2,
    BLOCK_PAIRS = BLOCK / 2,
    X_PAIRS = BLOCK_PAIRS + SUBS,
    LANE_PAIRS = LANE_WORDS / 2
};

INLINE size_t pairs_of_block(size_t k, size_t end)
{
    return (end - k < BLOCK ? end - k : BLOCK) / 2;
}

/* ---- rows of x ---- */

/* Returns the offset, in bytes, of the block that begins with column k in a tile of n rows. */
static size_t x_offset_blocks(size_t k, int n)
{
    return k / BLOCK * (size_t)n * (X_PAIRS + 1) * sizeof(uint32_t);
}

/* Writes a row's pairs, then each of its sums as a pair of digits: sum = first + 256 · second.
 * Returns the row's step. */
INLINE float pairs_of_row(uint32_t out[X_PAIRS], const float *x, size_t n, size_t pairs,
                          enum dtype dtype)
{
    int16_t words[BLOCK], lanes[BLOCK];
    const float step = quantize_columns(words, x, n);
    for (int lane = 0; lane < SUBS; lane++)
        for (int i = 0; i < LOAD_WORDS; i++)
            take_lane(lanes + (lane * LOAD_WORDS + i) * LANE_WORDS, words,
                      columns_of_lane(dtype, lane, i));
    memcpy(out, lanes, pairs * sizeof(*out));
    for (int s = 0; s < SUBS; s++) {
        out[pairs + (size_t)s] = pair_of_digits(sum_of_sub(words + s * SUB));
    }
    return step;
}

/* Packs the rows of an M-block as columns. */
INLINE void pack_blocks_m_block(uint32_t *out, float *steps, const struct packing_args *p, size_t k,
                                int begin, int n, enum dtype dtype)
{
    const size_t pairs = pairs_of_block(k, p->padded), all = pairs + SUBS,
                 there = k >= p->width              ? 0
                         : p->width - k < 2 * pairs ? p->width - k
                                                    : 2 * pairs;
    uint32_t rows[LANES][X_PAIRS + LANES] = {{0}};
    for (int b = 0; b < n; b++)
        steps[b] = pairs_of_row(rows[b], p->x + (size_t)(begin + b) * p->x_stride + k, there, pairs,
                                dtype);
    for (size_t i = 0; i < all; i += LANES) {
        vf column[LANES];
        for (int b = 0; b < LANES; b++)
            memcpy(&column[b], &rows[b][i], sizeof(column[b]));
        transpose_floats(column);
        for (size_t l = 0; l < LANES && i + l < all; l++)
            store_first((float *)(void *)(out + (i + l) * (size_t)n), column[l], n);
    }
}

INLINE void pack_gemm_blocks(void *out, const struct packing_args *p, enum dtype dtype)
{
    for (size_t k = 0; k < p->padded; k += BLOCK) {
        const size_t all = pairs_of_block(k, p->padded) + SUBS;
        uint32_t *block = (uint32_t *)(void *)((uint8_t *)out + x_offset_blocks(k, p->n));
        float *steps = (float *)(void *)(block + all * (size_t)p->n);
        for (int m_block = 0; m_block < n_m_blocks(p->n); m_block++) {
            const int begin = m_block_begin(p->n, m_block);
            pack_blocks_m_block(block + (size_t)begin * all, steps + begin, p, k, begin,
                                m_block_begin(p->n, m_block + 1) - begin, dtype);
        }
    }
}

/* ---- panels ---- */

/* The parts of a block of a micro-panel. */
struct panel_shape {
    size_t pairs, group; /* pairs of the block, and of a group */
    bool minima;
};

INLINE struct panel_shape panel_shape_of(const struct tensor *w, size_t k, size_t end)
{
    return (struct panel_shape){pairs_of_block(k, end), scaled_columns(w) / 2,
                                has_minima(w->dtype)};
}

/* Returns the size of a micro-panel's block, in rows of NR words. */
INLINE size_t panel_rows(const struct panel_shape *s)
{
    return s->pairs + s->pairs / s->group + (s->minima ? SUBS + 1 : 0);
}

/* A block of LANES weight rows, before it is transposed. */
struct block_rows {
    int_vector words[LANES][BLOCK_WORDS];
    float scale[SUBS][LANES], least[LANES]; /* of groups, and of minima */
    uint32_t minima[SUBS][LANES];
};

INLINE float group_scale_of(const struct row_scales *s, int group, const struct tensor *w)
{
    if (w->dtype == DTYPE_INT4 && w->scale_dtype == DTYPE_F32) return s->whole[group][0];
    if (w->dtype == DTYPE_INT4 && w->scale_dtype != DTYPE_F16)
        return bf16_to_f32(s->half[group][0]);
    return f16_to_f32(s->half[group][0]);
}

/* Reads the block of a weight row that begins with column k into row a of *r. The matrix has only
 * `subs` subs of the block. */
INLINE void read_block_row(struct block_rows *r, int a, const struct cpu_matrix *w, int64_t row,
                           size_t k, int subs, enum dtype dtype)
{
    const struct group_shape group = group_shape_of(&w->tensor);
    struct block_row from = {.data = (const uint8_t *)w->tensor.data +
                                     (size_t)row * weight_row_bytes(&w->tensor)};
    const uint8_t *p = from.data + k / BLOCK * block_bytes(dtype);
    struct row_scales s = {0};
    if (dtype == DTYPE_INT4) from.int4 = int4_row_at(w, row);
    const struct sub_numbers sub = enter_block(&s, dtype, &from, p, 0, k, subs, &group);
    prefetch_block(p, block_bytes(dtype));
    for (int load = 0; load * LOAD_SUBS < subs; load++) {
        const int left = subs - load * LOAD_SUBS;
        load_words(r->words[a] + load * LOAD_WORDS, dtype, p, load,
                   left < LOAD_SUBS ? left : LOAD_SUBS, &sub);
    }
    for (int u = 0; !has_sub_scales(dtype) && u < subs; u += group.subs)
        r->scale[u / group.subs][a] = group_scale_of(&s, u, &w->tensor);
    if (has_sub_scales(dtype)) r->scale[0][a] = f16_to_f32(half_bits(p + scale_in_block(dtype)));
    if (!has_minima(dtype)) return;
    r->least[a] = -f16_to_f32(half_bits(p + MINIMA_IN_BLOCK));
    for (int u = 0; u < SUBS; u++) {
        const int least = (int)(s.minima[0] >> (8 * u) & 255);
        r->minima[u][a] = pair_of(least, least * 256);
    }
}

/* Stores the block transposed, as a micro-panel has it: the words of a group, then its scales. */
INLINE void store_block_rows(uint32_t *out, const struct block_rows *r, const struct panel_shape *s)
{
    for (size_t v = 0; v < BLOCK_WORDS && v / LOAD_WORDS * LOAD_SUBS * SUB_PAIRS < s->pairs; v++) {
        vf column[LANES];
        for (int a = 0; a < LANES; a++)
            column[a] = (vf)r->words[a][v];
        transpose_floats(column);
        for (size_t l = 0; l < LANES; l++) {
            const size_t pair = (v / LOAD_WORDS * LOAD_SUBS + l / LANE_PAIRS) * SUB_PAIRS +
                                v % LOAD_WORDS * LANE_PAIRS + l % LANE_PAIRS;
            if (pair < s->pairs)
                memcpy(out + (pair + pair / s->group) * NR, &column[l], sizeof(column[l]));
        }
    }
    for (size_t g = 0; g < s->pairs / s->group; g++)
        memcpy(out + (s->group + (s->group + 1) * g) * NR, r->scale[g], sizeof(r->scale[g]));
    if (!s->minima) return;
    out += (s->pairs + s->pairs / s->group) * NR;
    for (size_t u = 0; u < SUBS; u++)
        memcpy(out + u * NR, r->minima[u], sizeof(r->minima[u]));
    memcpy(out + SUBS * NR, r->least, sizeof(r->least));
}

INLINE void pack_panel_blocks(void *out, const struct cpu_matrix *w, int64_t row, int n, size_t k0,
                              size_t k, enum dtype dtype)
{
    const size_t strips = ((size_t)n + NR - 1) / NR, cols = (size_t)w->tensor.cols;
    uint32_t *block = out;
    for (size_t c = 0; c < k; c += BLOCK) {
        const struct panel_shape shape = panel_shape_of(&w->tensor, c, k);
        const size_t all = panel_rows(&shape) * NR, there = (cols - k0 - c) / SUB;
        for (size_t at = 0; at < strips * NR; at += LANES) {
            struct block_rows rows;
            memset(&rows, 0, sizeof(rows));
            for (size_t a = 0; a < LANES && at + a < (size_t)n; a++)
                read_block_row(&rows, (int)a, w, row + (int64_t)(at + a), k0 + c,
                               there < SUBS ? (int)there : SUBS, dtype);
            store_block_rows(block + at / NR * all + at % NR, &rows, &shape);
        }
        block += strips * all;
    }
}

/* ---- matmul ---- */

/* acc[n][2] += two columns of a strip times those of n rows. */
INLINE void gemm_blocks_pair(int_vector (*acc)[2], const uint32_t *w, const uint32_t *x, int n)
{
    const int_vector *strip = (const int_vector *)(const void *)w, w0 = strip[0], w1 = strip[1];
    UNROLL
    for (int b = 0; b < n; b++) {
        acc[b][0] = dot_accumulate_pair(acc[b][0], w0, x + b);
        acc[b][1] = dot_accumulate_pair(acc[b][1], w1, x + b);
    }
}

/* sums[n][NR] += acc times the scales at w and steps of x. */
INLINE void add_scaled_sums(float *sums, int_vector (*acc)[2], const uint32_t *w,
                            const float *steps, int n)
{
    UNROLL
    for (int u = 0; u < 2; u++) {
        const vf scale = load_vf((const float *)(const void *)w + u * LANES);
        UNROLL
        for (int b = 0; b < n; b++) {
            float *to = sums + b * NR + u * LANES;
            store_vf(to, load_vf(to) + int_to_vf(acc[b][u]) * (scale * steps[b]));
            acc[b][u] = (int_vector){0};
        }
    }
}

/* sums[n][NR] += a block of a micro-panel times the same block of n packed rows. */
INLINE void gemm_blocks_m_block(float *sums, const uint32_t *w, const uint32_t *x,
                                const float *steps, const struct panel_shape *s, int n,
                                struct gemm_prefetch next)
{
    int_vector acc[MR][2];
    UNROLL
    for (int b = 0; b < n; b++)
        acc[b][0] = acc[b][1] = (int_vector){0};
    for (size_t left = s->pairs; left; left -= s->group, w += NR) {
        for (const uint32_t *end = x + s->group * (size_t)n; x < end;
             x += 2 * n, w += 2 * NR, next.from[0] += next.step[0], next.from[1] += next.step[1]) {
            __builtin_prefetch(next.from[0]);
            __builtin_prefetch(next.from[1]);
            gemm_blocks_pair(acc, w, x, n);
            gemm_blocks_pair(acc, w + NR, x + n, n);
        }
        add_scaled_sums(sums, acc, w, steps, n);
    }
    if (!s->minima) return;
    for (int u = 0; u < SUBS; u++, w += NR, x += n)
        gemm_blocks_pair(acc, w, x, n);
    add_scaled_sums(sums, acc, w, steps, n);
}

static void gemm_blocks_m_block_of(float *sums, const uint32_t *w, const uint32_t *x,
                                   const float *steps, const struct panel_shape *s, int n,
                                   struct gemm_prefetch next)
{
#define GEMM_BLOCKS(rows) gemm_blocks_m_block(sums, w, x, steps, s, rows, next)
    FOR_MR(n, GEMM_BLOCKS)
}

static void gemm_blocks(float *sums, const struct gemm_args *b)
{
    const size_t strips = ((size_t)b->n_w + NR - 1) / NR, n = (size_t)b->n_x,
                 m_blocks = (size_t)n_m_blocks(b->n_x);
    const uint32_t *w = b->w, *x = b->x;
    for (size_t strip = 0; b->first && strip < strips; strip++)
        memset(sums + strip * M_TILE_ROWS * NR, 0, n * NR * sizeof(float));
    for (size_t k = 0; k < b->k; k += BLOCK) {
        const struct panel_shape shape = panel_shape_of(&b->weight->tensor, k, b->k);
        const size_t x_pairs = shape.pairs + SUBS, all = panel_rows(&shape) * NR;
        const float *steps = (const float *)(const void *)(x + x_pairs * n);
        /* prefetches a share of the next block's rows and of the next micro-panel */
        struct gemm_prefetch next = {
            {(const char *)(x + (x_pairs + 1) * n), NULL},
            {2 * n * sizeof(uint32_t) / (strips * m_blocks), 2 * NR * sizeof(uint32_t) / m_blocks}};
        for (size_t strip = 0; strip < strips; strip++, w += all) {
            next.from[1] = (const char *)(w + all);
            for (size_t m_block = 0; m_block < m_blocks; m_block++) {
                const int first = m_block_begin(b->n_x, (int)m_block),
                          rows = m_block_begin(b->n_x, (int)m_block + 1) - first;
                gemm_blocks_m_block_of(sums + (strip * M_TILE_ROWS + (size_t)first) * NR, w,
                                       x + (size_t)first * x_pairs, steps + first, &shape, rows,
                                       next);
                next.from[0] += shape.pairs / 2 * next.step[0];
                next.from[1] += shape.pairs / 2 * next.step[1];
            }
        }
        x += (x_pairs + 1) * n;
    }
}

static void store_gemm_blocks(float *out, size_t out_stride, const float *sums, int n_w, int first,
                              int n)
{
    store_gemm_tile(out, out_stride, sums, n_w, first, n);
}

static size_t gemm_sums_blocks(size_t width)
{
    (void)width;
    return TILE_SUMS;
}

#endif
