/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM (many rows of x) in int16 (int16_tmpl.h), with FP8 weights or, for images, BF16 ones. Sums
 * of a scale block are exact in any order, and blocks are added in the order of GEMV, so both give
 * the same bits.
 *
 * A packed tile is, block by block, [M-block][pairs of columns][rows of the M-block, 2] int16, then
 * a step for each row. A panel is [block][micro-panel]([pairs of columns][NR, 2] int16, then a step
 * for each weight row). Pairs have the order of unpacked quantized values. */
#ifndef EY_KERNELS_CPU_GEMM_INT16_TMPL_H
#define EY_KERNELS_CPU_GEMM_INT16_TMPL_H

#include "kernels/cpu/common/fp8_to_int16_tmpl.h"
#include "kernels/cpu/gemm/gemm_blocking_tmpl.h"

/* Largest Euclidean norm of a block of BF16 weights, in steps. Times X_BLOCK_LENGTH, the norm of a
 * block of x, it is below 2^31. */
enum { W_BLOCK_LENGTH = 80000 };

INLINE size_t block_pairs(size_t k, size_t padded)
{
    return (padded - k < FP8_BLOCK ? padded - k : FP8_BLOCK) / 2;
}

/* ---- packing ---- */

/* Returns the byte offset of the block that begins with column k in a tile of n rows. */
static size_t x_offset_int16(size_t k, int n)
{
    return k / FP8_BLOCK * (size_t)n * (FP8_BLOCK * sizeof(uint16_t) + sizeof(float));
}

/* Transposes vector i of each of LANES rows, and stores the first n words of each resulting column
 * in `out`, columns `stride` apart. */
INLINE void store_int16_columns(uint32_t *out, size_t stride, int_vector (*words)[BLOCK_VECTORS],
                                size_t i, int n)
{
    vf column[LANES];
    for (int b = 0; b < LANES; b++)
        column[b] = (vf)words[b][i];
    transpose_floats(column);
    for (size_t l = 0; l < LANES; l++)
        store_first((float *)(void *)(out + l * stride), column[l], n);
}

/* Packs an M-block: its rows become columns. */
static void pack_int16_m_block(uint32_t *out, float *steps, const struct packing_args *p, size_t k,
                               int begin, int n)
{
    const size_t pairs = block_pairs(k, p->padded),
                 there = p->width - k < 2 * pairs ? p->width - k : 2 * pairs;
    int_vector words[LANES][BLOCK_VECTORS];
    memset(words, 0, sizeof(words));
    for (int b = 0; b < n; b++) {
        steps[b] = quantize_block(words[b], p->x + (size_t)(begin + b) * p->x_stride + k, there,
                                  X_BLOCK_LENGTH);
        words_in_fp8_order(words[b]);
    }
    for (size_t i = 0; i < pairs / LANES; i++)
        store_int16_columns(out + i * LANES * (size_t)n, (size_t)n, words, i, n);
}

static void pack_gemm_int16(void *out, const struct packing_args *p)
{
    for (size_t k = 0; k < p->padded; k += FP8_BLOCK) {
        const size_t pairs = block_pairs(k, p->padded);
        uint32_t *block = (uint32_t *)(void *)((uint8_t *)out + x_offset_int16(k, p->n));
        float *steps = (float *)(void *)(block + pairs * (size_t)p->n);
        for (int m_block = 0; m_block < n_m_blocks(p->n); m_block++) {
            const int begin = m_block_begin(p->n, m_block);
            pack_int16_m_block(block + (size_t)begin * pairs, steps + begin, p, k, begin,
                               m_block_begin(p->n, m_block + 1) - begin);
        }
    }
}

/* ---- panels ---- */

/* Returns the address of LANES rows from `at` on in the panel's block that begins with column k.
 * Their steps follow the strip's last pair. */
INLINE uint32_t *panel_words_at(void *panel, size_t k, size_t pairs, size_t strips, size_t at)
{
    const size_t before = (k / 2 + k / FP8_BLOCK) * strips + at / NR * (pairs + 1);
    return (uint32_t *)panel + before * NR + at % NR;
}

/* Loads 2 · LANES quantized values of a weight row from k on, with zeros after its end. */
INLINE int_vector load_fp8_padded(const struct cpu_matrix *w, int64_t row, size_t k)
{
    uint8_t some[sizeof(int_vector)] = {0};
    const size_t cols = (size_t)w->tensor.cols, n = k >= cols ? 0
                                                    : cols - k < sizeof(int_vector)
                                                        ? cols - k
                                                        : sizeof(int_vector);
    const uint8_t *in = (const uint8_t *)w->tensor.data + (size_t)row * cols + k;
    int_vector quantized;
    if (n < sizeof(int_vector))
        in = n ? memcpy(some, in, n) : some;
    else if (k % CPU_K_STEP == 0) {
        /* Hardware prefetchers do not follow this many streams. */
        __builtin_prefetch(in + CPU_PREFETCH_BYTES);
        __builtin_prefetch(in + LANES * cols, 0, 2);
    }
    memcpy(&quantized, in, sizeof(quantized));
    return quantized;
}

/* Converts a block of an FP8 weight row to int16. */
INLINE void fp8_block_words(int_vector words[BLOCK_VECTORS], const struct cpu_matrix *w,
                            int64_t row, size_t k, size_t pairs, const struct e4m3_tables *tables)
{
    for (size_t i = 0; i * LANES < pairs; i += 2)
        e4m3_to_int16(words + i, load_fp8_padded(w, row, k + i * 2 * LANES), tables);
}

/* Converts a block of a BF16 weight row, which has its own step. Returns the step. */
INLINE float bf16_block_words(int_vector words[BLOCK_VECTORS], const struct cpu_matrix *w,
                              int64_t row, size_t k)
{
    const size_t cols = (size_t)w->tensor.cols, n = k >= cols              ? 0
                                                    : cols - k < FP8_BLOCK ? cols - k
                                                                           : FP8_BLOCK;
    const uint8_t *in = (const uint8_t *)w->tensor.data +
                        ((size_t)row * cols + k) * sizeof(uint16_t);
    float x[FP8_BLOCK];
    if (n < FP8_BLOCK)
        elements_to_f32(x, in, DTYPE_BF16, n);
    else
        for (size_t i = 0; i < FP8_BLOCK; i += LANES)
            store_vf(x + i, load_bf16(in + i * sizeof(uint16_t)));
    const float step = quantize_block(words, x, n, W_BLOCK_LENGTH);
    words_in_fp8_order(words);
    return step;
}

INLINE void pack_any_panel(void *out, const struct cpu_matrix *w, int64_t row, int n, size_t k0,
                           size_t k, bool quantized)
{
    const size_t strips = ((size_t)n + NR - 1) / NR;
    const struct e4m3_tables tables = e4m3_tables_load(quantized ? cpu_fp8_powers(w) : 0);
    const float unit = quantized ? e4m3_int16_scale(cpu_fp8_powers(w)) : 0,
                *scale = weight_row_scale(&w->tensor, row);
    for (size_t at = 0; at < strips * NR; at += LANES) {
        const size_t there = (size_t)n <= at ? 0 : (size_t)n - at < LANES ? (size_t)n - at : LANES;
        for (size_t c = 0; c < k; c += FP8_BLOCK) {
            const size_t pairs = block_pairs(c, k);
            uint32_t *to = panel_words_at(out, c, pairs, strips, at);
            int_vector words[LANES][BLOCK_VECTORS];
            float steps[LANES] = {0};
            for (size_t a = 0; a < LANES; a++) {
                if (a >= there)
                    memset(words[a], 0, sizeof(words[a]));
                else if (quantized) {
                    fp8_block_words(words[a], w, row + (int64_t)(at + a), k0 + c, pairs, &tables);
                    steps[a] = scale[(k0 + c) / FP8_BLOCK] * unit;
                } else
                    steps[a] = bf16_block_words(words[a], w, row + (int64_t)(at + a), k0 + c);
            }
            for (size_t i = 0; i < pairs / LANES; i++)
                store_int16_columns(to + i * LANES * NR, NR, words, i, LANES);
            memcpy(to + pairs * NR, steps, sizeof(steps));
        }
    }
}

static void pack_panel_int16(void *out, const struct cpu_matrix *w, int64_t row, int n, size_t k0,
                             size_t k)
{
    pack_any_panel(out, w, row, n, k0, k, true);
}

static void pack_panel_bf16_as_int16(void *out, const struct cpu_matrix *w, int64_t row, int n,
                                     size_t k0, size_t k)
{
    pack_any_panel(out, w, row, n, k0, k, false);
}

/* ---- matmul ---- */

/* acc[n][2] += two columns of a strip times those of n rows. */
INLINE void gemm_int16_pair(int_vector (*acc)[2], const uint32_t *w, const uint32_t *x, int n)
{
    const int_vector *strip = (const int_vector *)(const void *)w, w0 = strip[0], w1 = strip[1];
    UNROLL
    for (int b = 0; b < n; b++) {
        acc[b][0] = dot_accumulate_pair(acc[b][0], w0, x + b);
        acc[b][1] = dot_accumulate_pair(acc[b][1], w1, x + b);
    }
}

/* sums[n][NR] += a scale block of a micro-panel times the same block of n packed rows. */
INLINE void gemm_int16_m_block(float *sums, const uint32_t *w, const uint32_t *x,
                               const float *steps, size_t pairs, int n, struct gemm_prefetch next)
{
    int_vector acc[MR][2];
    UNROLL
    for (int b = 0; b < n; b++)
        acc[b][0] = acc[b][1] = (int_vector){0};
    for (const uint32_t *end = x + pairs * (size_t)n; x < end;
         x += 2 * n, w += 2 * NR, next.from[0] += next.step[0], next.from[1] += next.step[1]) {
        __builtin_prefetch(next.from[0]);
        __builtin_prefetch(next.from[1]);
        gemm_int16_pair(acc, w, x, n);
        gemm_int16_pair(acc, w + NR, x + n, n);
    }
    UNROLL
    for (int u = 0; u < 2; u++) {
        const vf step = load_vf((const float *)(const void *)w + u * LANES);
        UNROLL
        for (int b = 0; b < n; b++) {
            float *to = sums + b * NR + u * LANES;
            store_vf(to, load_vf(to) + int_to_vf(acc[b][u]) * (step * steps[b]));
        }
    }
}

static void gemm_int16_m_block_of(float *sums, const uint32_t *w, const uint32_t *x,
                                  const float *steps, size_t pairs, int n,
                                  struct gemm_prefetch next)
{
#define GEMM_M_BLOCK(rows) gemm_int16_m_block(sums, w, x, steps, pairs, rows, next)
    FOR_MR(n, GEMM_M_BLOCK)
}

static void gemm_int16(float *sums, const struct gemm_args *b)
{
    const size_t strips = ((size_t)b->n_w + NR - 1) / NR, n = (size_t)b->n_x,
                 m_blocks = (size_t)n_m_blocks(b->n_x);
    const uint32_t *w = b->w, *x = b->x;
    for (size_t strip = 0; b->first && strip < strips; strip++)
        memset(sums + strip * M_TILE_ROWS * NR, 0, n * NR * sizeof(float));
    for (size_t k = 0, pairs; k < b->k; k += 2 * pairs, x += (pairs + 1) * n) {
        pairs = block_pairs(k, b->k);
        const float *steps = (const float *)(const void *)(x + pairs * n);
        /* prefetches a share of the next block's rows and of the next micro-panel */
        struct gemm_prefetch next = {
            {(const char *)(x + (pairs + 1) * n), NULL},
            {2 * n * sizeof(uint32_t) / (strips * m_blocks), 2 * NR * sizeof(uint32_t) / m_blocks}};
        for (size_t strip = 0; strip < strips; strip++, w += (pairs + 1) * NR) {
            next.from[1] = (const char *)(w + (pairs + 1) * NR);
            for (size_t m_block = 0; m_block < m_blocks; m_block++) {
                const int first = m_block_begin(b->n_x, (int)m_block),
                          rows = m_block_begin(b->n_x, (int)m_block + 1) - first;
                gemm_int16_m_block_of(sums + (strip * M_TILE_ROWS + (size_t)first) * NR, w,
                                      x + (size_t)first * pairs, steps + first, pairs, rows, next);
                next.from[0] += pairs / 2 * next.step[0];
                next.from[1] += pairs / 2 * next.step[1];
            }
        }
    }
}

static void store_gemm_int16(float *out, size_t out_stride, const float *sums, int n_w, int first,
                             int n)
{
    store_gemm_tile(out, out_stride, sums, n_w, first, n);
}

static size_t gemm_sums_int16(size_t width)
{
    (void)width;
    return TILE_SUMS;
}

#endif
