/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM in BF16 with tiles (AMX). A tile product adds 32 products to each of 16 x 16 sums.
 *
 * Weights are the rows of the first factor, so stored and decoded rows have the same layout. Packed
 * rows of the input are the columns of the second factor, which needs pairs of elements: [blocks of
 * 32 columns of k][one or two tiles][16 pairs of columns][16 rows][2]. */
#include "kernels/cpu/common/amx_tmpl.h"

/* ---- packing ---- */

/* Returns the number of columns of the second factor: two for each row if remainders are packed. */
static int packed_columns_of(const struct packing_args *p)
{
    return p->two_pass ? 2 * p->n : p->n;
}

/* Packs columns first .. first+15 of the second factor, which has the values of all rows, then
 * their remainders, then zeros. Blocks of 32 columns of k are `step` elements apart. */
INLINE void pack_columns(uint16_t *out, const struct packing_args *p, int first, size_t step)
{
    int n = packed_columns_of(p);
    for (size_t k = 0; k < p->padded; k += CPU_K_STEP, out += 2 * step) {
        __m512i r[2][AMX_ROWS];
        for (int i = 0; i < AMX_ROWS; i++) {
            int at = first + i, row = at < p->n ? at : at - p->n;
            __m512i values[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
            if (at < n) bf16_step(values, p, p->x + (size_t)row * p->x_stride, k, at >= p->n);
            r[0][i] = values[0];
            r[1][i] = values[1];
        }
        transpose(r[0]);
        transpose(r[1]);
        memcpy(out, r[0], sizeof(r[0]));
        memcpy(out + step, r[1], sizeof(r[1]));
    }
}

void cpu_pack_gemm_amx(void *out, const struct packing_args *p)
{
    bool wide = packed_columns_of(p) > AMX_ROWS;
    pack_columns(out, p, 0, wide ? 2 * AMX_TILE : AMX_TILE);
    if (wide) pack_columns((uint16_t *)out + AMX_TILE, p, AMX_ROWS, 2 * AMX_TILE);
}

/* ---- matmul ---- */

/* L1_KC columns of k are multiplied with all weights of a panel before the next columns are, so
 * that packed rows stay in the L1 cache. */
enum {
    L1_KC = 512,
    SCALE_STEPS = FP8_BLOCK / AMX_K,
    NR = 2 * AMX_ROWS, /* a pair of strips, whose sums with CPU_AMX_MR rows of x fill four tiles */
    PAIR_SUMS = NR * CPU_AMX_MR
};

static size_t l1_kc_columns(size_t k, size_t k0)
{
    return k - k0 < L1_KC ? k - k0 : L1_KC;
}

/* Packs columns from k0 on of one strip, a step at a time, with zeros beyond the last column. */
INLINE void panel_strip(uint16_t *out, const struct cpu_matrix *w, int64_t row, int n, size_t k0,
                        size_t k, enum dtype dtype, const struct byte_tables *tables)
{
    size_t cols = (size_t)w->tensor.cols, size = dtype_size(dtype), stride = cols * size;
    const uint8_t *in = (const uint8_t *)w->tensor.data + (size_t)row * stride;
    for (size_t i = k0; i < k0 + k; i += CPU_K_STEP, out += 4 * AMX_TILE)
        load_tiles(out, in + i * size, stride, n, dtype, cols - i, tables, 2 * AMX_TILE);
}

/* Decodes columns k0 .. k0+k-1 of a BF12 block; returns false if the block is stored
 * uncompressed. */
static bool bf12_panel_strip(uint16_t *out, const struct cpu_matrix *w, int64_t row, size_t k0,
                             size_t k)
{
    const struct bf12_block *s = bf12_block_at(w->bf12, row);
    uint32_t outlier = 0;
    if (s->n_outliers == BF12_UNCOMPRESSED) return false;
    while (outlier < s->n_outliers && s->outlier[outlier].at < k0 * BF12_ROWS)
        outlier++;
    for (size_t i = k0; i < k0 + k; i += CPU_K_STEP, out += 4 * AMX_TILE) {
        const uint8_t *step = bf12_steps(w->bf12, &w->tensor, row) + i / CPU_K_STEP * BF12_STEP;
        load_bf12_tiles(out, s, step, step + CPU_PREFETCH_BYTES, 2 * AMX_TILE);
        outlier = patch_outlier_tiles(out, s, outlier, i, 2 * AMX_TILE);
    }
    return true;
}

/* Packs a panel in the order in which gemm() reads it: [blocks of k][pairs of strips][32 columns of
 * k][2 strips][16 rows][32]. */
void cpu_pack_panel_amx(void *out, const struct cpu_matrix *w, int64_t row, int n, size_t begin,
                        size_t k)
{
    struct byte_tables tables = fp8_tables_load();
    uint16_t *to = out;
    for (size_t k0 = 0, columns; k0 < k; k0 += columns) {
        columns = l1_kc_columns(k, k0);
        for (int at = 0; at < n; at += AMX_ROWS) {
            int rows = n - at < AMX_ROWS ? n - at : AMX_ROWS;
            uint16_t *strip = to + (size_t)(at / NR) * NR * columns + (size_t)(at % NR) * AMX_K;
            if (w->tensor.dtype == DTYPE_F8_E4M3)
                panel_strip(strip, w, row + at, rows, begin + k0, columns, DTYPE_F8_E4M3, &tables);
            else if (!w->bf12 || !bf12_panel_strip(strip, w, row + at, begin + k0, columns))
                panel_strip(strip, w, row + at, rows, begin + k0, columns, DTYPE_BF16, &tables);
        }
        to += (size_t)((n + NR - 1) / NR) * NR * columns;
    }
}

/* Multiplies a pair of strips with up to 32 packed rows: the sums of the first 16 are in tiles 0
 * and 1, those of the others (`wide`) in tiles 2 and 3. */
#define TILE_STEP(w, x)                                                                         \
    do {                                                                                        \
        _tile_stream_loadd(                                                                     \
            4, w, 64); /* used once, so it should not displace packed rows from the L1 cache */ \
        _tile_loadd(6, x, 64);                                                                  \
        _tile_dpbf16ps(0, 4, 6);                                                                \
        _tile_stream_loadd(5, (w) + AMX_TILE, 64);                                              \
        _tile_dpbf16ps(1, 5, 6);                                                                \
        if (wide) {                                                                             \
            _tile_loadd(7, (x) + AMX_TILE, 64);                                                 \
            _tile_dpbf16ps(2, 4, 7);                                                            \
            _tile_dpbf16ps(3, 5, 7);                                                            \
        }                                                                                       \
    } while (0)

INLINE void store_sum_tiles(float *sums, bool wide)
{
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + 256, 64);
    if (wide) {
        _tile_stored(2, sums + 512, 64);
        _tile_stored(3, sums + 768, 64);
    }
    amx_memory(sums);
}

INLINE void gemm_strip_pair(float *sums, const uint16_t *w, const uint16_t *x, size_t k, bool wide)
{
    const size_t x_step = wide ? 2 * AMX_TILE : AMX_TILE;
    _tile_loadd(0, sums, 64);
    _tile_loadd(1, sums + 256, 64);
    if (wide) {
        _tile_loadd(2, sums + 512, 64);
        _tile_loadd(3, sums + 768, 64);
    }
    for (size_t i = 0; i < k; i += AMX_K, w += 2 * AMX_TILE, x += x_step)
        TILE_STEP(w, x);
    store_sum_tiles(sums, wide);
}

/* Sums of one scale block, which are still to be scaled and added. */
struct pending_scale {
    float *to; /* NULL if nothing is pending */
    const float *sums;
    float scale;
};

INLINE void add_quarter(const struct pending_scale *p, int quarter, bool wide)
{
    const int n = wide ? PAIR_SUMS / 4 : PAIR_SUMS / 8;
    __m512 scale = _mm512_set1_ps(p->scale);
    if (!p->to) return;
    for (int i = quarter * n; i < (quarter + 1) * n; i += 16)
        _mm512_storeu_ps(p->to + i, _mm512_fmadd_ps(_mm512_load_ps(p->sums + i), scale,
                                                    _mm512_loadu_ps(p->to + i)));
}

/* Tiles work on one scale block while vectors add the sums of the previous one. */
INLINE void gemm_strip_pair_scaled(struct pending_scale *last, float (*buffer)[PAIR_SUMS],
                                   float *sums, const uint16_t *w, const uint16_t *x, size_t k,
                                   const float *scale, bool wide)
{
    const size_t x_step = wide ? 2 * AMX_TILE : AMX_TILE;
    for (size_t k0 = 0; k0 < k; k0 += FP8_BLOCK) {
        float *now = last->sums == buffer[0] ? buffer[1] : buffer[0];
        size_t steps = k - k0 < FP8_BLOCK ? (k - k0) / AMX_K : SCALE_STEPS;
        _tile_zero(0);
        _tile_zero(1);
        if (wide) {
            _tile_zero(2);
            _tile_zero(3);
        }
        for (size_t i = 0; i < SCALE_STEPS; i++) {
            if (i < steps) TILE_STEP(w, x);
            if (i < steps) {
                w += 2 * AMX_TILE;
                x += x_step;
            }
            add_quarter(last, (int)i, wide);
        }
        store_sum_tiles(now, wide);
        *last = (struct pending_scale){sums, now, scale[k0 / FP8_BLOCK]};
    }
}

INLINE void gemm_panel_amx(float *sums, const struct gemm_args *b, bool wide)
{
    float buffer[2][PAIR_SUMS] __attribute__((aligned(64)));
    struct pending_scale last = {NULL, NULL, 0};
    const uint16_t *w = b->w, *x = b->x;
    for (size_t k0 = 0, k; k0 < b->k; k0 += k) {
        k = l1_kc_columns(b->k, k0);
        for (int row = 0; row < b->n_w; row += NR, w += NR * k) {
            float *to = sums + (size_t)(row / NR) * PAIR_SUMS;
            if (b->scale)
                gemm_strip_pair_scaled(&last, buffer, to, w, x, k, b->scale + k0 / FP8_BLOCK, wide);
            else
                gemm_strip_pair(to, w, x, k, wide);
        }
        x += k * (wide ? 2 * AMX_ROWS : AMX_ROWS);
    }
    for (int i = 0; i < SCALE_STEPS; i++)
        add_quarter(&last, i, wide);
}

size_t cpu_x_offset_amx(size_t k0, int n)
{
    return k0 * (n > CPU_N_ALIGN ? 2 * CPU_N_ALIGN : CPU_N_ALIGN) * sizeof(uint16_t);
}

size_t cpu_gemm_sums_amx(size_t width)
{
    (void)width;
    return CPU_N_BLOCK * CPU_AMX_MR;
}

void cpu_gemm_amx(float *sums, const struct gemm_args *b)
{
    if (b->first) memset(sums, 0, cpu_gemm_sums_amx(0) * sizeof(*sums));
    amx_memory(b->w);
    amx_memory(b->x);
    amx_memory(sums);
    amx_configure(0, 0);
    if (b->n_x > AMX_ROWS)
        gemm_panel_amx(sums, b, true);
    else
        gemm_panel_amx(sums, b, false);
    _tile_release();
}

void cpu_store_gemm_amx(float *out, size_t out_stride, const float *sums, int n_w, int first,
                        int n_x)
{
    (void)first; /* stores all rows of a tile */
    for (int row = 0; row < n_w; row += AMX_ROWS)
        for (int at = 0; at < n_x; at += AMX_ROWS) {
            const float *tile = sums + row / NR * PAIR_SUMS + at / AMX_ROWS * 512 +
                                row % NR * AMX_ROWS;
            store_amx_tile(out + (size_t)at * out_stride + row, out_stride,
                           (const float(*)[AMX_ROWS])tile,
                           n_x - at < AMX_ROWS ? n_x - at : AMX_ROWS);
        }
}
