/* SPDX-License-Identifier: Apache-2.0 */
/* Products of BF16 vectors; a part of kernels_body.h. */

/* Rows one after the other. */
static void pack_bf16(void *out, const struct packing *p)
{
    for (int i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->padded; k += CPU_K_STEP) {
            __m512i values[2];
            packed_step(values, p, p->x + (size_t)i * p->x_stride, k, false);
            memcpy((uint16_t *)out + (size_t)i * p->padded + k, values, sizeof(values));
        }
}

INLINE vf dot_bf16(vf acc, __m512i w, const uint16_t *x)
{
    return (vf)_mm512_dpbf16_ps((__m512)acc, (__m512bh)w, (__m512bh)_mm512_loadu_si512(x));
}

/* acc[n, places] += columns k .. k + CPU_K_STEP - 1 of the n rows of x times those of `count`
 * weight rows, which are from place `first` on. */
INLINE void few_step(vf *acc, const __m512i (*wv)[2], const struct tile *t, size_t k,
                     const struct places *p, int first, int count, int n)
{
    UNROLL
    for (int b = 0; b < n; b++) {
        const uint16_t *x = (const uint16_t *)t->x + (size_t)b * t->k + k;
        UNROLL
        for (int a = 0; a < count; a++)
            acc[b * p->n + first + a] = dot_bf16(acc[b * p->n + first + a], wv[a][0], x);
        UNROLL
        for (int a = 0; a < count; a++)
            acc[b * p->n + first + a] = dot_bf16(acc[b * p->n + first + a], wv[a][1], x + 32);
    }
}

INLINE void few_rows_bf16(float *out, size_t out_stride, const struct tile *t, struct places p,
                          enum dtype dtype, int n)
{
    vf acc[MOST_PLACES * MOST_FEW];
    size_t size = dtype_size(dtype);
    struct byte_tables tables = byte_tables_load(dtype);
    const uint8_t *w[MOST_PLACES];
    place_pointers(w, &p, t);
    UNROLL
    for (int i = 0; i < p.n * n; i++)
        acc[i] = (vf){0};
    for (size_t k = 0; k < t->k; k += CPU_K_STEP) {
        ask_ahead(w, p.n, k * size, size);
        UNROLL
        for (int first = 0; first < p.n; first += DECODED) {
            __m512i wv[DECODED][2];
            int count = p.n - first < DECODED ? p.n - first : DECODED;
            UNROLL
            for (int a = 0; a < count; a++)
                load_bf16_step(wv[a], dtype, w[first + a] + k * size, &tables, CPU_K_STEP);
            few_step(acc, wv, t, k, &p, first, count, n);
        }
    }
    put_places(out, out_stride, acc, NULL, &p, t, n);
}

INLINE void few_rows_int4_bf16(float *out, size_t out_stride, const struct tile *t, struct places p,
                               enum dtype dtype, int n)
{
    const size_t group = (size_t)t->weight->group;
    struct int4_row w[MOST_PLACES];
    __m512i table[MOST_PLACES];
    vf acc[MOST_PLACES * MOST_FEW];
    (void)dtype;
    UNROLL
    for (int a = 0; a < p.n; a++) {
        w[a] = int4_row_of(t->weight, t->row + place_row(&p, t, a));
        table[a] = _mm512_setzero_si512();
    }
    UNROLL
    for (int i = 0; i < p.n * n; i++)
        acc[i] = (vf){0};
    for (size_t k = 0; k < t->k; k += CPU_K_STEP)
        UNROLL
    for (int a = 0; a < p.n; a++) {
        __m512i wv[1][2];
        if (k % LINE_CODES == 0) ASK_AHEAD(w[a].codes + k / 2);
        int4_step(wv[0], &w[a], &table[a], group, k, CPU_K_STEP);
        few_step(acc, wv, t, k, &p, a, 1, n);
    }
    put_places(out, out_stride, acc, NULL, &p, t, n);
}

/* ---- strips of twelve bits (bf12.h) ---- */

enum { BF12_TOGETHER = DECODED };

static void few_stored(float *out, size_t out_stride, const struct tile *t)
{
    FEW_INSTANCES(few_rows_bf16, DTYPE_BF16)
}

#include "backend/cpu/body_bf12_few.h"

static void few_bf16(float *out, size_t out_stride, const struct tile *t)
{
    switch (t->dtype) {
    case DTYPE_F8_E4M3: FEW_INSTANCES(few_rows_bf16, DTYPE_F8_E4M3) break;
    case DTYPE_I8: FEW_INSTANCES(few_rows_bf16, DTYPE_I8) break;
    case DTYPE_INT4: FEW_INSTANCES(few_rows_int4_bf16, DTYPE_INT4) break;
    default: (t->weight->bf12 ? few_bf12 : few_stored)(out, out_stride, t);
    }
}

/* ---- many rows ---- */

/* 64 columns of a row as words: BF16 in out[0] and out[1], or, where the weights have scales,
 * float32 in the order in which codes are unpacked: first elements in out[0] and out[2], second
 * ones in the others. */
INLINE void row_words(vf out[4], const struct packing *p, int row, size_t k)
{
    if (!p->codes) {
        __m512i words[2];
        packed_step(words, p, p->x + (size_t)row * p->x_stride, k, false);
        memcpy(out, words, sizeof(words));
        return;
    }
    for (size_t i = 0; i < 4; i++)
        out[i] = row_lanes(p, row, k + i * LANES);
    floats_in_order_of_codes(out);
}

/* Of rows whose weights have scales a pass of a part is first elements of all words, then second
 * ones. */
static void pack_block_bf16(void *out, const struct packing *p)
{
    const size_t steps = p->padded / 32, size = p->codes ? sizeof(float) : sizeof(uint16_t);
    for (int part = 0; part < n_parts(p->n); part++) {
        const int begin = part_begin(p->n, part), n = part_begin(p->n, part + 1) - begin;
        float *to = (float *)(void *)((uint8_t *)out + (size_t)begin * p->padded * size);
        for (size_t k = 0; k < p->padded; k += CPU_K_STEP) {
            vf rows[LANES][4] = {{{0}}}, words[LANES];
            for (int b = 0; b < n; b++)
                row_words(rows[b], p, begin + b, k);
            for (size_t i = 0; i < (p->codes ? 4 : 2); i++) {
                for (int b = 0; b < LANES; b++)
                    words[b] = rows[b][i];
                if (p->codes)
                    put_step(to, words, k / 32 + i / 2 + i % 2 * steps, 2 * steps, n);
                else
                    put_step(to, words, k / 32 + i, steps, n);
            }
        }
    }
}

/* 64 columns of a weight row from column k on, zeros after its end. */
INLINE void panel_step(__m512i out[2], const struct weight *w, int64_t row, size_t k,
                       const struct byte_tables *tables)
{
    const size_t stride = weight_row_bytes(w), size = dtype_size(w->dtype);
    const uint8_t *in = (const uint8_t *)w->data + (size_t)row * stride + k * size;
    ask_for_panel(in, stride, CPU_K_STEP * size);
    load_bf16_step(out, w->dtype, in, tables, (size_t)w->cols - k);
}

/* What a panel's LANES rows are read from. */
struct panel_rows {
    const struct weight *w;
    int64_t row;
    size_t n;                       /* of them that are there */
    const struct bf12_strip *strip; /* NULL: they are read where they are stored */
    uint32_t odd;
    struct int4_row int4[LANES];
    __m512i table[LANES];
    struct byte_tables tables;
};

static void panel_rows_enter(struct panel_rows *r, int64_t row, size_t n, size_t k)
{
    r->row = row;
    r->n = n < LANES ? n : LANES;
    r->strip = NULL;
    r->odd = 0;
    for (size_t a = 0; a < r->n && r->w->dtype == DTYPE_INT4; a++) {
        r->int4[a] = int4_row_of(r->w, row + (int64_t)a);
        r->table[a] = _mm512_setzero_si512();
    }
    if (!r->w->bf12 || !r->n || bf12_strip_at(r->w, row)->n_odd == BF12_AS_STORED) return;
    r->strip = bf12_strip_at(r->w, row);
    while (r->odd < r->strip->n_odd && r->strip->odd[r->odd].at < k * BF12_ROWS)
        r->odd++;
}

/* 64 columns of all rows from k on, zeros where there are none. */
INLINE void panel_values(__m512i (*values)[2], struct panel_rows *r, size_t k)
{
    const struct weight *w = r->w;
    const uint8_t *step = r->strip ? bf12_steps(w, r->row) + k / CPU_K_STEP * BF12_STEP : NULL;
    for (size_t i = 0; r->strip && i < BF12_STEP; i += 64)
        __builtin_prefetch(step + BF12_AHEAD + i, 0, 2);
    for (size_t a = 0; a < LANES; a++) {
        if (a >= r->n)
            values[a][0] = values[a][1] = _mm512_setzero_si512();
        else if (w->dtype == DTYPE_INT4)
            int4_step(values[a], &r->int4[a], &r->table[a], (size_t)w->group, k,
                      (size_t)w->cols - k);
        else if (r->strip)
            bf12_words(values[a], r->strip, step, (int)a);
        else
            panel_step(values[a], w, r->row + (int64_t)a, k, &r->tables);
    }
    if (!r->strip) return;
    const uint32_t next = odd_after(r->strip, r->odd, k);
    if (next > r->odd) put_odd_words(values, r->strip, r->odd, next, k, 0, (int)r->n);
    r->odd = next;
}

static void panel_block_bf16(void *out, const struct weight *w, int64_t row, int n, size_t k0,
                             size_t k)
{
    const size_t strips = ((size_t)n + STRIP - 1) / STRIP, steps = k / 32;
    struct panel_rows rows = {.w = w, .tables = fp8_tables_load()};
    for (size_t at = 0; at < strips * STRIP; at += LANES) {
        panel_rows_enter(&rows, row + (int64_t)at, (size_t)n > at ? (size_t)n - at : 0, k0);
        for (size_t c = 0; c < k; c += CPU_K_STEP) {
            __m512i values[LANES][2], column[LANES];
            panel_values(values, &rows, k0 + c);
            for (size_t i = 0; i < 2; i++) {
                for (size_t a = 0; a < LANES; a++)
                    column[a] = values[a][i];
                transpose(column);
                for (size_t l = 0; l < LANES; l++)
                    _mm512_storeu_si512(
                        (uint32_t *)out +
                            ((pass_of(l) * strips + at / STRIP) * steps + c / 32 + i) * STRIP +
                            at % STRIP,
                        column[l]);
            }
        }
    }
}

static void multiply_block_bf16(float *sums, const struct block *b)
{
    multiply_block_of(sums, b, true);
}
