/* Products in BF16 with tiles (AMX), beside the kernels for AVX-512 with BF16. A tile product adds, to 16 x 16 sums, 32 products each.
 *
 * Weights are the rows of the first factor, so that rows in place and decoded ones are the same; packed rows of the input
 * are the columns of the second, whose layout wants pairs of elements: [32 columns of k][16 pairs][16 rows][2]. One row
 * alone is its own layout. A panel is strips of 16 weight rows, each [32 columns of k][16 rows][32]. */
#define LANES 16
#include "backend/cpu/body_vectors.h"

#include "backend/cpu/body_bf16_rows.h"

enum { AMX_ROWS = 16, AMX_K = 32, AMX_TILE = AMX_ROWS * AMX_K };

/* What is in memory is read or written by a tile instruction next: some compilers do not see that. */
INLINE void amx_memory(const void *p)
{
    __asm__ volatile("" : : "r"(p) : "memory");
}

/* Tiles 0-3 are sums, 4 and 5 weights, 6 and 7 packed rows. */
static void amx_begin(int n_x)
{
    struct {
        uint8_t palette, start, zero[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) config.rows[i] = AMX_ROWS, config.bytes[i] = n_x == 1 && i != 4 && i != 5 ? 4 : 64;
    amx_memory(&config);
    _tile_loadconfig(&config);
}

static void transpose(__m512i r[16])
{
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]), t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]), r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]), r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) { /* quarter l of r[4j + i] is column 4l + i of rows 4j .. 4j+3 */
        __m512i a = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88), b = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        __m512i c = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd), d = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
        t[i] = _mm512_shuffle_i32x4(a, b, 0x88), t[i + 8] = _mm512_shuffle_i32x4(a, b, 0xdd);
        t[i + 4] = _mm512_shuffle_i32x4(c, d, 0x88), t[i + 12] = _mm512_shuffle_i32x4(c, d, 0xdd);
    }
    memcpy(r, t, sizeof(t));
}

/* ---- packing ---- */

/* Rows first .. first+15 of values and then remainders, zeros after them. */
INLINE void pack_columns(uint16_t *out, const struct packing *p, int first)
{
    int n = p->split ? 2 * p->n : p->n;
    for (size_t k = 0; k < p->padded; k += CPU_K_STEP) {
        __m512i r[2][AMX_ROWS];
        for (int i = 0; i < AMX_ROWS; i++) {
            int at = first + i, row = at < p->n ? at : at - p->n;
            __m512i values[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
            if (at < n) packed_step(values, p, p->x + (size_t)row * p->x_stride, k, at >= p->n);
            r[0][i] = values[0], r[1][i] = values[1];
        }
        transpose(r[0]), transpose(r[1]);
        memcpy(out + k * AMX_ROWS, r, sizeof(r));
    }
}

void cpu_pack_amx(void *out, const struct packing *p)
{
    int n = p->split ? 2 * p->n : p->n;
    if (n == 1) {
        for (size_t k = 0; k < p->padded; k += CPU_K_STEP) {
            __m512i values[2];
            packed_step(values, p, p->x, k, false);
            memcpy((uint16_t *)out + k, values, sizeof(values));
        }
        return;
    }
    for (int first = 0; first < n; first += AMX_ROWS) pack_columns((uint16_t *)out + (size_t)first * p->padded, p, first);
}

/* 64 columns of n <= 16 rows, of which `cols` may be there only, as two tiles. */
INLINE void load_tiles(uint16_t *out, const uint8_t *w, size_t stride, int n, enum dtype dtype, size_t cols, const struct fp8_tables *t)
{
    for (int a = 0; a < n; a++) {
        __m512i values[2];
        load_bf16_step(values, dtype, w + (size_t)a * stride, t, cols);
        _mm512_storeu_si512(out + a * AMX_K, values[0]);
        _mm512_storeu_si512(out + AMX_TILE + a * AMX_K, values[1]);
    }
}

void cpu_panel_amx(void *out, const struct weight *w, int64_t row, int n, size_t padded)
{
    size_t cols = (size_t)w->cols, stride = cols * dtype_size(w->dtype);
    struct fp8_tables tables = fp8_tables_load();
    for (int at = 0; at < n; at += AMX_ROWS) {
        int rows = n - at < AMX_ROWS ? n - at : AMX_ROWS;
        const uint8_t *in = (const uint8_t *)w->data + ((size_t)row + (size_t)at) * stride;
        uint16_t *strip = (uint16_t *)out + (size_t)at * padded;
        for (size_t k = 0; k < padded; k += CPU_K_STEP) {
            if (w->dtype == DTYPE_F8_E4M3) load_tiles(strip + k * AMX_ROWS, in + k, stride, rows, DTYPE_F8_E4M3, cols - k, &tables);
            else load_tiles(strip + k * AMX_ROWS, in + 2 * k, stride, rows, DTYPE_BF16, cols - k, &tables);
        }
    }
}

/* ---- products ---- */

/* Sums of 16 weight rows with packed rows first .. , to out[x][w]. */
#define PUT_TILE(tile, out, out_stride, n_x, first)                                                                    \
    do {                                                                                                               \
        __m512i put[AMX_ROWS];                                                                                         \
        if ((n_x) == 1) {                                                                                              \
            _tile_stored(tile, out, sizeof(float));                                                                    \
        } else {                                                                                                       \
            _tile_stored(tile, put, sizeof(put[0]));                                                                   \
            amx_memory(put);                                                                                           \
            transpose(put);                                                                                            \
            for (int b = 0; b < AMX_ROWS && (first) + b < (n_x); b++)                                                  \
                _mm512_storeu_si512((out) + (size_t)((first) + b) * (out_stride), put[b]);                             \
        }                                                                                                              \
    } while (0)

/* One or two strips with up to 16, or up to 32 packed rows. */
INLINE void multiply_strips(float *out, size_t out_stride, const struct tile *t, const uint16_t *w, bool two, bool wide)
{
    const uint16_t *x = t->x, *w1 = w + t->k * AMX_ROWS, *x1 = x + t->k * AMX_ROWS;
    size_t x_step = t->n_x == 1 ? AMX_K : AMX_TILE, x_row = t->n_x == 1 ? 4 : 64;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    amx_memory(x);
    for (size_t k = 0; k < t->k; k += AMX_K, w += AMX_TILE, w1 += AMX_TILE, x += x_step, x1 += x_step) {
        _tile_loadd(4, w, 64);
        _tile_loadd(6, x, x_row);
        _tile_dpbf16ps(0, 4, 6);
        if (two) {
            _tile_loadd(5, w1, 64);
            _tile_dpbf16ps(1, 5, 6);
        }
        if (wide) {
            _tile_loadd(7, x1, x_row);
            _tile_dpbf16ps(2, 4, 7);
        }
        if (two && wide) _tile_dpbf16ps(3, 5, 7);
    }
    PUT_TILE(0, out, out_stride, t->n_x, 0);
    if (two) PUT_TILE(1, out + AMX_ROWS, out_stride, t->n_x, 0);
    if (wide) PUT_TILE(2, out, out_stride, t->n_x, AMX_ROWS);
    if (two && wide) PUT_TILE(3, out + AMX_ROWS, out_stride, t->n_x, AMX_ROWS);
}

void cpu_multiply_amx(float *out, size_t out_stride, const struct tile *t)
{
    bool wide = t->n_x > AMX_ROWS;
    amx_begin(t->n_x);
    for (int row = 0; row < t->n_w; row += 2 * AMX_ROWS) {
        const uint16_t *w = (const uint16_t *)(const void *)t->w + (size_t)row * t->k;
        bool two = row + AMX_ROWS < t->n_w;
        if (two && wide) multiply_strips(out + row, out_stride, t, w, true, true);
        else if (two) multiply_strips(out + row, out_stride, t, w, true, false);
        else if (wide) multiply_strips(out + row, out_stride, t, w, false, true);
        else multiply_strips(out + row, out_stride, t, w, false, false);
    }
    _tile_release();
}

/* Asks for what the rows of a strip, and then those of the next, have some way on. */
INLINE void prefetch_strip(const uint8_t *w, size_t stride, size_t at, size_t lines)
{
    enum { WAY = 512 };
    const uint8_t *ahead = w + (at + WAY < stride ? at + WAY : at + WAY + (AMX_ROWS - 1) * stride);
    for (size_t a = 0; a < AMX_ROWS; a++, ahead += stride)
        for (size_t i = 0; i < lines; i++) __builtin_prefetch(ahead + 64 * i);
}

/* 16 rows of BF16 as they lie. */
INLINE void few_plain(const struct tile *t, const uint8_t *w, size_t x_step, size_t x_row)
{
    const uint16_t *x = t->x;
    for (size_t k = 0; k < t->k; k += CPU_K_STEP, x += 2 * x_step) {
        prefetch_strip(w, t->w_stride, 2 * k, 2);
        _tile_loadd(6, x, x_row);
        _tile_loadd(7, x + x_step, x_row);
        _tile_loadd(4, w + 2 * k, t->w_stride);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, w + 2 * (k + AMX_K), t->w_stride);
        _tile_dpbf16ps(0, 5, 7);
    }
}

/* n <= 16 rows that are decoded, or copied because they are too few, a step before they are multiplied: a tile that
 * is loaded right after it was stored would wait. */
INLINE void few_decoded(const struct tile *t, const uint8_t *w, int n, enum dtype dtype, const struct fp8_tables *tables, size_t x_step, size_t x_row)
{
    uint16_t decoded[2][2 * AMX_TILE] __attribute__((aligned(64)));
    const uint16_t *x = t->x;
    size_t size = dtype_size(dtype);
    load_tiles(decoded[0], w, t->w_stride, n, dtype, CPU_K_STEP, tables);
    for (size_t k = 0; k < t->k; k += CPU_K_STEP, x += 2 * x_step) {
        const uint16_t *now = decoded[k / CPU_K_STEP % 2];
        amx_memory(now);
        _tile_loadd(6, x, x_row);
        _tile_loadd(7, x + x_step, x_row);
        _tile_loadd(4, now, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, now + AMX_TILE, 64);
        _tile_dpbf16ps(0, 5, 7);
        if (n == AMX_ROWS) prefetch_strip(w, t->w_stride, k * size, size);
        if (k + CPU_K_STEP < t->k)
            load_tiles(decoded[k / CPU_K_STEP % 2 ^ 1], w + (k + CPU_K_STEP) * size, t->w_stride, n, dtype, CPU_K_STEP, tables);
    }
}

void cpu_few_amx(float *out, size_t out_stride, const struct tile *t)
{
    struct fp8_tables tables = fp8_tables_load();
    size_t x_step = t->n_x == 1 ? AMX_K : AMX_TILE, x_row = t->n_x == 1 ? 4 : 64;
    amx_begin(t->n_x);
    for (int row = 0; row < t->n_w; row += AMX_ROWS) {
        const uint8_t *w = t->w + (size_t)row * t->w_stride;
        int n = t->n_w - row < AMX_ROWS ? t->n_w - row : AMX_ROWS;
        _tile_zero(0);
        if (t->dtype == DTYPE_F8_E4M3 && n == AMX_ROWS) few_decoded(t, w, AMX_ROWS, DTYPE_F8_E4M3, &tables, x_step, x_row);
        else if (t->dtype == DTYPE_F8_E4M3) few_decoded(t, w, n, DTYPE_F8_E4M3, &tables, x_step, x_row);
        else if (n == AMX_ROWS) few_plain(t, w, x_step, x_row);
        else few_decoded(t, w, n, DTYPE_BF16, &tables, x_step, x_row);
        PUT_TILE(0, out + row, out_stride, t->n_x, 0);
    }
    _tile_release();
}
