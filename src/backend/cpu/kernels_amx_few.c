/* Products of a few rows with weights as they lie in the file, with tiles (AMX). FP8 and four-bit rows go through the first-level cache, because
 * tiles are loaded from memory only, a step of 64 columns before they are multiplied: a tile that is loaded right after it was stored would wait.
 *
 * A strip of 16 weight rows is read column by column, 16 places at once. Processors read ahead by themselves in one place of a page, so rows that are
 * shorter than a page share a strip with every second or fourth one only: the rows between them, of the next strip, then follow in each place.
 *
 * Packed rows lie [columns of k, two by two][rows][2]: as narrow as they are few. */
#include "backend/cpu/body_amx.h"

enum { STEP_WEIGHTS = AMX_ROWS * CPU_K_STEP, PAGE = 4096, WAY = 1024 };

/* ---- packed rows ---- */

/* Rows of packed columns: remainders make two of one. */
static size_t columns_of(const struct packing *p)
{
    return (size_t)(p->split ? 2 * p->n : p->n);
}

void cpu_stage_few_amx(float *out, const struct packing *p, size_t begin, size_t end)
{
    size_t columns = columns_of(p);
    for (size_t i = 0; i < columns; i++) {
        const float *x = p->x + i % (size_t)p->n * p->x_stride;
        for (size_t k = begin; k < end; k += CPU_K_STEP)
            for (size_t at = 0; at < CPU_K_STEP; at += 2)
                memcpy(out + (k + at) * columns + 2 * i, x + k + (p->scale ? column_at(at) : at), 2 * sizeof(*x));
    }
}

/* Which of 16 pairs, 16 · i pairs on, are of remainders. */
static void remainder_masks(__mmask16 *masks, size_t columns)
{
    for (size_t i = 0; i < columns; i++) {
        unsigned mask = 0;
        for (size_t pair = 0; pair < 16; pair++) mask |= (unsigned)((16 * i + pair) % columns >= columns / 2) << pair;
        masks[i] = (__mmask16)mask;
    }
}

void cpu_pack_few_amx(void *out, const float *staged, const struct packing *p)
{
    size_t columns = columns_of(p), n = p->padded * columns;
    __mmask16 masks[2 * CPU_AMX_FEW] = {0};
    if (p->split) remainder_masks(masks, columns);
    for (size_t i = 0, turn = 0; i < n; i += 2 * LANES) {
        __m512 factor = _mm512_set1_ps(p->scale ? p->scale[i / (FP8_BLOCK * columns)] : 1);
        __m512 v[2] = {_mm512_mul_ps(_mm512_loadu_ps(staged + i), factor), _mm512_mul_ps(_mm512_loadu_ps(staged + i + LANES), factor)};
        __m512i values = take_part(v);
        if (p->split) values = _mm512_mask_mov_epi32(values, masks[turn], take_part(v)), turn = turn + 1 < columns ? turn + 1 : 0;
        _mm512_storeu_si512((uint16_t *)out + i, values);
    }
}

/* ---- weights ---- */

/* n of the weight rows from w on, every `stride` bytes. */
struct strip {
    const uint8_t *w, *next; /* next: of the strip that comes then; NULL: not known */
    size_t stride, row_bytes;
    int n;
    struct int4_strip int4;
};

/* Rows from one of a strip to the next, when `left` rows are left. */
static int rows_apart(const struct tile *t, int left)
{
    int apart = 1;
    while ((size_t)apart * t->w_stride < PAGE && 2 * apart * AMX_ROWS <= left) apart *= 2;
    return apart;
}

INLINE void strip_of(struct strip *s, const struct tile *t, int row, int apart, enum dtype dtype)
{
    int left = (t->n_w - row + apart - 1) / apart;
    s->w = t->w + (size_t)row * t->w_stride, s->stride = (size_t)apart * t->w_stride, s->row_bytes = t->w_stride;
    s->n = left < AMX_ROWS ? left : AMX_ROWS;
    if (dtype == DTYPE_INT4) int4_strip_of(&s->int4, t->weight, t->row + row, s->n, apart);
}

/* Asks for what is some way on in each place. */
INLINE void ask_ahead(const struct strip *s, size_t at, size_t lines)
{
    const uint8_t *ahead = s->w + at + WAY;
    if (at + WAY >= s->row_bytes) {
        if (!s->next) return;
        ahead = s->next + (at + WAY) % s->row_bytes;
    }
    for (size_t a = 0; a < AMX_ROWS; a++, ahead += s->stride)
        for (size_t i = 0; i < lines; i++) __builtin_prefetch(ahead + 64 * i);
}

INLINE void decode_step(uint16_t *out, struct strip *s, size_t k, enum dtype dtype, bool whole, const struct fp8_tables *tables)
{
    size_t size = dtype_size(dtype);
    if (dtype == DTYPE_INT4) load_int4_tiles(out, &s->int4, k, CPU_K_STEP);
    else load_tiles(out, s->w + k * size, s->stride, whole ? AMX_ROWS : s->n, dtype, CPU_K_STEP, tables);
    if (dtype != DTYPE_INT4) ask_ahead(s, k * size, size);
    else if (k % (2 * CPU_K_STEP) == 0) ask_ahead(s, k / 2, 1);
    amx_memory(out);
}

/* ---- products ---- */

/* Tile 0 += 64 columns of weights, `row` bytes from row to row, the second 32 at w + half, times packed rows. */
INLINE void multiply_step(const void *w, size_t half, size_t row, const uint16_t *x, int n_x)
{
    const size_t x_row = 4 * (size_t)n_x;
    _tile_loadd(6, x, x_row);
    _tile_loadd(4, w, row);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, x + AMX_K * n_x, x_row);
    _tile_loadd(5, (const uint8_t *)w + half, row);
    _tile_dpbf16ps(0, 5, 7);
}

INLINE void few_decoded(const struct tile *t, struct strip *s, enum dtype dtype, bool whole, const struct fp8_tables *tables)
{
    uint16_t decoded[2][STEP_WEIGHTS] __attribute__((aligned(64)));
    const uint16_t *x = t->x;
    size_t turn = 0;
    decode_step(decoded[0], s, 0, dtype, whole, tables);
    for (size_t k = CPU_K_STEP; k < t->k; k += CPU_K_STEP, turn ^= 1, x += CPU_K_STEP * t->n_x) {
        decode_step(decoded[turn ^ 1], s, k, dtype, whole, tables);
        multiply_step(decoded[turn], AMX_TILE * sizeof(uint16_t), 64, x, t->n_x);
    }
    multiply_step(decoded[turn], AMX_TILE * sizeof(uint16_t), 64, x, t->n_x);
}

/* 16 rows of BF16 as they lie. */
INLINE void few_plain(const struct tile *t, const struct strip *s)
{
    const uint16_t *x = t->x;
    for (size_t k = 0; k < t->k; k += CPU_K_STEP, x += CPU_K_STEP * t->n_x) {
        ask_ahead(s, 2 * k, 2);
        multiply_step(s->w + 2 * k, 64, s->stride, x, t->n_x);
    }
}

/* The sums of a strip, to out[x][rows, `apart` from each other]. */
INLINE void put_strip(float *out, size_t out_stride, int n_x, int apart, int n)
{
    float sums[AMX_ROWS][AMX_ROWS] __attribute__((aligned(64)));
    _tile_stored(0, sums, sizeof(sums[0]));
    amx_memory(sums);
    for (int b = 0; b < n_x; b++)
        for (int a = 0; a < n; a++) out[(size_t)b * out_stride + (size_t)(a * apart)] = sums[a][b];
}

void cpu_few_amx(float *out, size_t out_stride, const struct tile *t)
{
    struct fp8_tables tables = fp8_tables_load();
    struct strip s;
    amx_begin(t->n_x, 0xc1);
    for (int first = 0, apart; first < t->n_w; first += AMX_ROWS * apart) {
        apart = rows_apart(t, t->n_w - first);
        for (int row = first; row < first + apart; row++) {
            int next = row + 1 < first + apart ? row + 1 : first + AMX_ROWS * apart;
            strip_of(&s, t, row, apart, t->dtype);
            s.next = next < t->n_w ? t->w + (size_t)next * t->w_stride : t->next;
            _tile_zero(0);
            if (t->dtype == DTYPE_F8_E4M3 && s.n == AMX_ROWS) few_decoded(t, &s, DTYPE_F8_E4M3, true, &tables);
            else if (t->dtype == DTYPE_F8_E4M3) few_decoded(t, &s, DTYPE_F8_E4M3, false, &tables);
            else if (t->dtype == DTYPE_INT4) few_decoded(t, &s, DTYPE_INT4, false, &tables);
            else if (s.n == AMX_ROWS) few_plain(t, &s);
            else few_decoded(t, &s, DTYPE_BF16, false, &tables);
            put_strip(out + row, out_stride, t->n_x, apart, s.n);
        }
    }
    _tile_release();
}
