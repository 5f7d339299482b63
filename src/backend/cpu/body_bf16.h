/* Products of BF16 vectors; a part of kernels_body.h. */
#include "backend/cpu/body_bf16_rows.h"

enum { BF16_X_ROWS = 4 };

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

static void int4_panel_bf16(uint16_t *out, const struct weight *w, int64_t row, int n, size_t padded)
{
    for (int a = 0; a < n; a++) {
        struct int4_row r = int4_row_of(w, row + a);
        __m512i table = _mm512_setzero_si512(), values[2];
        for (size_t k = 0; k < padded; k += CPU_K_STEP) {
            int4_step(values, &r, &table, (size_t)w->group, k, (size_t)w->cols - k);
            memcpy(out + (size_t)a * padded + k, values, sizeof(values));
        }
    }
}

static void panel_bf16(void *out, const struct weight *w, int64_t row, int n, size_t padded)
{
    size_t cols = (size_t)w->cols, size = dtype_size(w->dtype);
    struct fp8_tables tables = fp8_tables_load();
    if (w->dtype == DTYPE_INT4) {
        int4_panel_bf16(out, w, row, n, padded);
        return;
    }
    for (int a = 0; a < n; a++) {
        const uint8_t *in = (const uint8_t *)w->data + ((size_t)row + (size_t)a) * cols * size;
        for (size_t k = 0; k < padded; k += CPU_K_STEP) {
            __m512i values[2];
            load_bf16_step(values, w->dtype, in + k * size, &tables, cols - k);
            memcpy((uint16_t *)out + (size_t)a * padded + k, values, sizeof(values));
        }
    }
}

INLINE vf dot_bf16(vf acc, __m512i w, const uint16_t *x)
{
    return (vf)_mm512_dpbf16_ps((__m512)acc, (__m512bh)w, (__m512bh)_mm512_loadu_si512(x));
}

/* acc[n, places] += columns k .. k + CPU_K_STEP - 1 of the n rows of x times those of `count` weight rows, which are from place `first` on. */
INLINE void few_step(vf *acc, const __m512i (*wv)[2], const struct tile *t, size_t k, const struct places *p, int first, int count, int n)
{
    UNROLL
    for (int b = 0; b < n; b++) {
        const uint16_t *x = (const uint16_t *)t->x + (size_t)b * t->k + k;
        UNROLL
        for (int a = 0; a < count; a++) acc[b * p->n + first + a] = dot_bf16(acc[b * p->n + first + a], wv[a][0], x);
        UNROLL
        for (int a = 0; a < count; a++) acc[b * p->n + first + a] = dot_bf16(acc[b * p->n + first + a], wv[a][1], x + 32);
    }
}

INLINE void few_rows_bf16(float *out, size_t out_stride, const struct tile *t, struct places p, enum dtype dtype, int n)
{
    vf acc[MOST_PLACES * MOST_FEW];
    size_t size = dtype_size(dtype);
    struct fp8_tables tables = byte_tables_load(dtype);
    const uint8_t *w[MOST_PLACES];
    place_pointers(w, &p, t);
    UNROLL
    for (int i = 0; i < p.n * n; i++) acc[i] = (vf){0};
    for (size_t k = 0; k < t->k; k += CPU_K_STEP) {
        ask_ahead(w, p.n, k * size, size);
        UNROLL
        for (int first = 0; first < p.n; first += DECODED) {
            __m512i wv[DECODED][2];
            int count = p.n - first < DECODED ? p.n - first : DECODED;
            UNROLL
            for (int a = 0; a < count; a++) load_bf16_step(wv[a], dtype, w[first + a] + k * size, &tables, CPU_K_STEP);
            few_step(acc, wv, t, k, &p, first, count, n);
        }
    }
    put_places(out, out_stride, acc, NULL, &p, t, n);
}

INLINE void few_rows_int4_bf16(float *out, size_t out_stride, const struct tile *t, struct places p, enum dtype dtype, int n)
{
    const size_t group = (size_t)t->weight->group;
    struct int4_row w[MOST_PLACES];
    __m512i table[MOST_PLACES];
    vf acc[MOST_PLACES * MOST_FEW];
    (void)dtype;
    UNROLL
    for (int a = 0; a < p.n; a++) w[a] = int4_row_of(t->weight, t->row + place_row(&p, t, a)), table[a] = _mm512_setzero_si512();
    UNROLL
    for (int i = 0; i < p.n * n; i++) acc[i] = (vf){0};
    for (size_t k = 0; k < t->k; k += CPU_K_STEP)
        UNROLL
        for (int a = 0; a < p.n; a++) {
            __m512i wv[1][2];
            if (k % LINE_CODES == 0) __builtin_prefetch(w[a].codes + k / 2 + AHEAD);
            int4_step(wv[0], &w[a], &table[a], group, k, CPU_K_STEP);
            few_step(acc, wv, t, k, &p, a, 1, n);
        }
    put_places(out, out_stride, acc, NULL, &p, t, n);
}

static void few_bf16(float *out, size_t out_stride, const struct tile *t)
{
    switch (t->dtype) {
    case DTYPE_F8_E4M3: FEW_INSTANCES(few_rows_bf16, DTYPE_F8_E4M3) break;
    case DTYPE_I8: FEW_INSTANCES(few_rows_bf16, DTYPE_I8) break;
    case DTYPE_INT4: FEW_INSTANCES(few_rows_int4_bf16, DTYPE_INT4) break;
    default: FEW_INSTANCES(few_rows_bf16, DTYPE_BF16) break;
    }
}

INLINE void multiply_rows_bf16(float *out, size_t out_stride, const struct tile *t, int row, int n)
{
    vf acc[BF16_X_ROWS * W_ROWS];
    W_POINTERS(uint8_t, w, t, row);
    for (int i = 0; i < n * W_ROWS; i++) acc[i] = (vf){0};
    for (size_t k = 0; k < t->k; k += 32) {
        __m512i wv[W_ROWS];
        for (int a = 0; a < W_ROWS; a++) wv[a] = _mm512_loadu_si512(w[a] + 2 * k);
        for (int b = 0; b < n; b++) {
            const uint16_t *x = (const uint16_t *)t->x + (size_t)b * t->k + k;
            for (int a = 0; a < W_ROWS; a++) acc[b * W_ROWS + a] = dot_bf16(acc[b * W_ROWS + a], wv[a], x);
        }
    }
    vf sums = lanes_sums(acc, n * W_ROWS);
    put_sums(out + row, out_stride, sums, W_ROWS, n);
}

static void multiply_bf16(float *out, size_t out_stride, const struct tile *t)
{
    for (int row = 0; row < t->n_w; row += W_ROWS) switch (t->n_x) {
        case 1: multiply_rows_bf16(out, out_stride, t, row, 1); break;
        case 2: multiply_rows_bf16(out, out_stride, t, row, 2); break;
        case 3: multiply_rows_bf16(out, out_stride, t, row, 3); break;
        default: multiply_rows_bf16(out, out_stride, t, row, 4); break;
        }
}
