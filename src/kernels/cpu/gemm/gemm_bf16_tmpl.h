/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM with BF16 dot products (AVX512-BF16): packing of x and of weight panels. */
#ifndef EY_KERNELS_CPU_GEMM_BF16_TMPL_H
#define EY_KERNELS_CPU_GEMM_BF16_TMPL_H

#include "kernels/cpu/common/bf12_decode_tmpl.h"
#include "kernels/cpu/common/to_bf16_tmpl.h"
#include "kernels/cpu/gemm/gemm_words_tmpl.h"
#include "kernels/cpu/gemv/gemv_streams_tmpl.h"

/* 64 columns of a row as words: BF16 in out[0] and out[1], or, where the weights have scales,
 * float32 in the order in which quantized values are unpacked: first elements in out[0] and out[2],
 * second ones in the others. */
INLINE void x_words(vf out[4], const struct packing_args *p, int row, size_t k)
{
    if (!p->fp8_order) {
        __m512i words[2];
        bf16_step(words, p, p->x + (size_t)row * p->x_stride, k, false);
        memcpy(out, words, sizeof(words));
        return;
    }
    for (size_t i = 0; i < 4; i++)
        out[i] = x_lanes(p, row, k + i * LANES);
    f32_in_fp8_order(out);
}

/* Where weights have scales, a phase of an M-block is the first elements of all words, then the
 * second. */
static void pack_gemm_bf16(void *out, const struct packing_args *p)
{
    const size_t steps = p->padded / 32, size = p->fp8_order ? sizeof(float) : sizeof(uint16_t);
    for (int part = 0; part < n_m_blocks(p->n); part++) {
        const int begin = m_block_begin(p->n, part), n = m_block_begin(p->n, part + 1) - begin;
        float *to = (float *)(void *)((uint8_t *)out + (size_t)begin * p->padded * size);
        for (size_t k = 0; k < p->padded; k += CPU_K_STEP) {
            vf rows[LANES][4] = {{{0}}}, words[LANES];
            for (int b = 0; b < n; b++)
                x_words(rows[b], p, begin + b, k);
            for (size_t i = 0; i < (p->fp8_order ? 4 : 2); i++) {
                for (int b = 0; b < LANES; b++)
                    words[b] = rows[b][i];
                if (p->fp8_order)
                    store_phases(to, words, k / 32 + i / 2 + i % 2 * steps, 2 * steps, n);
                else
                    store_phases(to, words, k / 32 + i, steps, n);
            }
        }
    }
}

/* 64 columns of a weight row from column k on, zeros after its end. */
INLINE void panel_bf16_step(__m512i out[2], const struct cpu_matrix *w, int64_t row, size_t k,
                            const struct byte_tables *tables)
{
    const size_t stride = weight_row_bytes(&w->tensor), size = dtype_size(w->tensor.dtype);
    const uint8_t *in = (const uint8_t *)w->tensor.data + (size_t)row * stride + k * size;
    prefetch_panel(in, stride, CPU_K_STEP * size);
    load_bf16_step(out, w->tensor.dtype, in, tables, (size_t)w->tensor.cols - k);
}

/* What a panel's LANES rows are read from. */
struct panel_rows {
    const struct cpu_matrix *w;
    int64_t row;
    size_t n;                       /* of them that are there */
    const struct bf12_block *strip; /* NULL: they are read where they are stored */
    uint32_t outlier;
    struct int4_row int4[LANES];
    __m512i table[LANES];
    struct byte_tables tables;
};

static void panel_rows_enter(struct panel_rows *r, int64_t row, size_t n, size_t k)
{
    r->row = row;
    r->n = n < LANES ? n : LANES;
    r->strip = NULL;
    r->outlier = 0;
    for (size_t a = 0; a < r->n && r->w->tensor.dtype == DTYPE_INT4; a++) {
        r->int4[a] = int4_row_at(r->w, row + (int64_t)a);
        r->table[a] = _mm512_setzero_si512();
    }
    if (!r->w->bf12 || !r->n || bf12_block_at(r->w->bf12, row)->n_outliers == BF12_UNCOMPRESSED)
        return;
    r->strip = bf12_block_at(r->w->bf12, row);
    while (r->outlier < r->strip->n_outliers && r->strip->outlier[r->outlier].at < k * BF12_ROWS)
        r->outlier++;
}

/* 64 columns of all rows from k on, zeros where there are none. */
INLINE void panel_bf16_values(__m512i (*values)[2], struct panel_rows *r, size_t k)
{
    const struct cpu_matrix *w = r->w;
    const uint8_t *step = r->strip
                              ? bf12_steps(w->bf12, &w->tensor, r->row) + k / CPU_K_STEP * BF12_STEP
                              : NULL;
    for (size_t i = 0; r->strip && i < BF12_STEP; i += 64)
        __builtin_prefetch(step + BF12_PREFETCH_BYTES + i, 0, 2);
    for (size_t a = 0; a < LANES; a++) {
        if (a >= r->n)
            values[a][0] = values[a][1] = _mm512_setzero_si512();
        else if (w->tensor.dtype == DTYPE_INT4)
            int4_step(values[a], &r->int4[a], &r->table[a], (size_t)w->tensor.group_size, k,
                      (size_t)w->tensor.cols - k);
        else if (r->strip)
            bf12_to_words(values[a], r->strip, step, (int)a);
        else
            panel_bf16_step(values[a], w, r->row + (int64_t)a, k, &r->tables);
    }
    if (!r->strip) return;
    const uint32_t next = next_outlier(r->strip, r->outlier, k);
    if (next > r->outlier) patch_outliers(values, r->strip, r->outlier, next, k, 0, (int)r->n);
    r->outlier = next;
}

static void pack_panel_bf16(void *out, const struct cpu_matrix *w, int64_t row, int n, size_t k0,
                            size_t k)
{
    const size_t strips = ((size_t)n + NR - 1) / NR, steps = k / 32;
    struct panel_rows rows = {.w = w, .tables = fp8_tables_load()};
    for (size_t at = 0; at < strips * NR; at += LANES) {
        panel_rows_enter(&rows, row + (int64_t)at, (size_t)n > at ? (size_t)n - at : 0, k0);
        for (size_t c = 0; c < k; c += CPU_K_STEP) {
            __m512i values[LANES][2], column[LANES];
            panel_bf16_values(values, &rows, k0 + c);
            for (size_t i = 0; i < 2; i++) {
                for (size_t a = 0; a < LANES; a++)
                    column[a] = values[a][i];
                transpose(column);
                for (size_t l = 0; l < LANES; l++)
                    _mm512_storeu_si512(
                        (uint32_t *)out +
                            ((phase_of_lane(l) * strips + at / NR) * steps + c / 32 + i) * NR +
                            at % NR,
                        column[l]);
            }
        }
    }
}

static void gemm_bf16(float *sums, const struct gemm_args *b)
{
    gemm_words(sums, b, true);
}

#endif
