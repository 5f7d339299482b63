/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV (few rows of x) with stored weights and tiles (AMX). Tiles load only from memory, so FP8
 * rows are unpacked into the L1 cache, a step or two of 64 columns ahead: a load right after
 * the store would stall.
 *
 * A strip of 16 weight rows is read column by column, in 16 streams. Hardware prefetchers follow
 * long streams, one per page, so the rows of a strip are as far apart as possible: the rows between
 * them, of the next strips, continue each stream.
 *
 * Packed rows are [columns of k, in pairs][rows][2], without padding to 16 rows. */
#include "kernels/cpu/common/amx_tmpl.h"

enum {
    STEP_WEIGHTS = AMX_ROWS * CPU_K_STEP,
    MAX_BLOCKS_BESIDE = 4,
    STREAM_PREFETCH_BYTES = 3200,      /* prefetch distance of rows in few streams */
    BF12_STREAM_PREFETCH_BYTES = 3072, /* prefetch distance of BF12 blocks */
    HEAD_LINES = offsetof(struct bf12_block, outlier) / 64 +
                 1 /* lines of a block's header and its first outliers */
};

/* ---- packed rows ---- */

/* Stores pairs of columns of one row, `columns` pairs apart. */
INLINE void spread_step(uint16_t *out, size_t columns, const __m512i values[2])
{
    uint32_t pairs[CPU_K_STEP / 2], *to = (uint32_t *)(void *)out;
    memcpy(pairs, values, sizeof(pairs));
    for (size_t i = 0; i < CPU_K_STEP / 2; i++)
        to[i * columns] = pairs[i];
}

/* Returns how many blocks of a weight row a tile has side by side, if a row is k bytes long and n
 * rows are packed. */
static size_t blocks_beside(size_t k, int n)
{
    size_t most = 1;
    while (most < MAX_BLOCKS_BESIDE && 2 * most * (size_t)n <= AMX_ROWS &&
           k % (2 * most * FP8_BLOCK) == 0)
        most *= 2;
    return most;
}

void cpu_pack_gemv_amx(void *out, const struct packing_args *p, size_t begin, size_t end)
{
    size_t n = (size_t)p->n,
           columns = p->two_pass ? 2 * n : n; /* a row and its remainders take two */
    size_t beside = p->weights_8bit ? blocks_beside(p->width, (int)columns) : 1;
    for (size_t i = 0; i < columns; i++)
        for (size_t k = begin; k < end; k += CPU_K_STEP) {
            size_t block = k / FP8_BLOCK,
                   at = beside > 1 ? block / beside * beside * FP8_BLOCK + k % FP8_BLOCK * beside
                                   : k;
            __m512i values[2];
            bf16_step(values, p, p->x + i % n * p->x_stride, k, i >= n);
            spread_step((uint16_t *)out + at * columns + 2 * (block % beside * columns + i),
                        beside * columns, values);
        }
}

/* ---- weights ---- */

/* A strip: n weight rows from w on, `stride` bytes apart. */
struct weight_strip {
    const uint8_t *w, *next; /* next: the following strip; NULL if unknown */
    size_t stride, row_bytes;
    int n;
    const float *scale[AMX_ROWS]; /* block scales of FP8 rows */
};

/* Returns the distance between the `rows` rows of a strip, in rows, if `left` rows of the tile
 * remain. */
static int rows_apart(int left, int rows)
{
    int apart = 1;
    while (2 * apart * rows <= left)
        apart *= 2;
    return apart;
}

/* Sets up a strip of at most `rows` rows from `row` on. Strips that begin with rows first .. first
 * + apart - 1 are interleaved, and the next strips begin after the last of their rows. */
INLINE void weight_strip_at(struct weight_strip *s, const struct gemv_args *t, int first, int row,
                            int apart, int rows)
{
    int left = (t->n_w - row + apart - 1) / apart,
        next = row + 1 < first + apart ? row + 1 : first + rows * apart;
    s->w = t->w + (size_t)row * t->w_stride;
    s->stride = (size_t)apart * t->w_stride;
    s->row_bytes = t->w_stride;
    s->n = left < rows ? left : rows;
    s->next = next < t->n_w ? t->w + (size_t)next * t->w_stride : t->next;
}

/* Prefetches a fixed distance ahead in each stream. */
INLINE void prefetch_strip(const struct weight_strip *s, size_t at, size_t lines)
{
    const uint8_t *ahead = s->w + at + CPU_PREFETCH_BYTES;
    if (at + CPU_PREFETCH_BYTES >= s->row_bytes) {
        if (!s->next) return;
        ahead = s->next + (at + CPU_PREFETCH_BYTES) % s->row_bytes;
    }
    for (size_t a = 0; a < AMX_ROWS; a++, ahead += s->stride)
        for (size_t i = 0; i < lines; i++)
            __builtin_prefetch(ahead + 64 * i);
}

INLINE void decode_strip_step(uint16_t *out, struct weight_strip *s, size_t k, enum dtype dtype,
                              bool whole, const struct byte_tables *tables)
{
    size_t size = dtype_size(dtype);
    load_tiles(out, s->w + k * size, s->stride, whole ? AMX_ROWS : s->n, dtype, CPU_K_STEP, tables,
               AMX_TILE);
    prefetch_strip(s, k * size, size);
    amx_memory(out);
}

/* ---- matmul ---- */

/* Tile 0 += 64 columns of weights times packed rows; weight rows are `row` bytes apart, the second
 * 32 columns at w + half. */
INLINE void amx_step(const void *w, size_t half, size_t row, const uint16_t *x, int n_x)
{
    const size_t x_row = 4 * (size_t)n_x;
    _tile_loadd(6, x, x_row);
    _tile_loadd(4, w, row);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, x + AMX_K * n_x, x_row);
    _tile_loadd(5, (const uint8_t *)w + half, row);
    _tile_dpbf16ps(0, 5, 7);
}

INLINE void gemv_strip_decoded(const struct gemv_args *t, struct weight_strip *s, enum dtype dtype,
                               bool whole, const struct byte_tables *tables)
{
    uint16_t decoded[2][STEP_WEIGHTS] __attribute__((aligned(64)));
    const uint16_t *x = t->x;
    size_t turn = 0;
    decode_strip_step(decoded[0], s, 0, dtype, whole, tables);
    for (size_t k = CPU_K_STEP; k < t->k; k += CPU_K_STEP, turn ^= 1, x += CPU_K_STEP * t->n_x) {
        decode_strip_step(decoded[turn ^ 1], s, k, dtype, whole, tables);
        amx_step(decoded[turn], AMX_TILE * sizeof(uint16_t), 64, x, t->n_x);
    }
    amx_step(decoded[turn], AMX_TILE * sizeof(uint16_t), 64, x, t->n_x);
}

/* Multiplies 16 stored rows of BF16. */
INLINE void gemv_strip_bf16(const struct gemv_args *t, const struct weight_strip *s)
{
    const uint16_t *x = t->x;
    for (size_t k = 0; k < t->k; k += CPU_K_STEP, x += CPU_K_STEP * t->n_x) {
        prefetch_strip(s, 2 * k, 2);
        amx_step(s->w + 2 * k, 64, s->stride, x, t->n_x);
    }
}

/* Stores the sums of a strip's n rows: sums[row * stride + x] to out[x][row * apart]. */
INLINE void store_strip(float *out, size_t out_stride, const float *sums, int stride, int n_x,
                        int apart, int n)
{
    for (int b = 0; b < n_x; b++)
        for (int a = 0; a < n; a++)
            out[(size_t)b * out_stride + (size_t)(a * apart)] = sums[a * stride + b];
}

/* Multiplies rows of BF16. */
INLINE void gemv_strips(float *out, size_t out_stride, const struct gemv_args *t)
{
    struct byte_tables tables = byte_tables_load(t->dtype);
    struct weight_strip s = {0};
    float sums[AMX_ROWS * AMX_ROWS] __attribute__((aligned(64)));
    for (int first = 0, apart; first < t->n_w; first += AMX_ROWS * apart) {
        apart = rows_apart(t->n_w - first, AMX_ROWS);
        for (int row = first; row < first + apart; row++) {
            weight_strip_at(&s, t, first, row, apart, AMX_ROWS);
            _tile_zero(0);
            if (s.n == AMX_ROWS)
                gemv_strip_bf16(t, &s);
            else
                gemv_strip_decoded(t, &s, DTYPE_BF16, false, &tables);
            _tile_stored(0, sums, 4 * (size_t)t->n_x);
            amx_memory(sums);
            store_strip(out + row, out_stride, sums, t->n_x, t->n_x, apart, s.n);
        }
    }
}

/* ---- BF12 blocks (bf12.h) ---- */

/* Computes the sums [strip][row][n_x] of one or two strips from `row` of the matrix on. Two strips
 * are read in two streams. */
INLINE void gemv_bf12_blocks_amx(float sums[][AMX_ROWS * AMX_ROWS], const struct gemv_args *t,
                                 int64_t row, const int n)
{
    uint16_t decoded[2][2][STEP_WEIGHTS] __attribute__((aligned(64)));
    const struct bf12_block *s = bf12_block_at(t->weight->bf12, row);
    const size_t strip = bf12_block_bytes(&t->weight->tensor);
    const uint8_t *step = bf12_steps(t->weight->bf12, &t->weight->tensor, row), *end = step + strip;
    const uint16_t *x = t->x;
    uint32_t outlier[2] = {0, 0};
    int turn = 0;
    _tile_zero(0);
    _tile_zero(1);
    for (size_t k = 0; k <= t->k; k += CPU_K_STEP, turn ^= 1, step += BF12_STEP) {
        const uint8_t *ahead = step + BF12_STREAM_PREFETCH_BYTES < end
                                   ? step + BF12_STREAM_PREFETCH_BYTES
                                   : step + BF12_STREAM_PREFETCH_BYTES + (size_t)(n - 1) * strip;
        const size_t line = k / CPU_K_STEP; /* line of the next strips' headers */
        if (line < 2 * HEAD_LINES)
            __builtin_prefetch((const char *)(s + n + line / HEAD_LINES) + line % HEAD_LINES * 64);
        if (k) {
            _tile_loadd(6, x, 4 * (size_t)t->n_x);
            _tile_loadd(7, x + AMX_K * t->n_x, 4 * (size_t)t->n_x);
            x += CPU_K_STEP * t->n_x;
        }
        for (int i = 0; i < n; i++) {
            if (k < t->k) {
                load_bf12_tiles(decoded[turn][i], s + i, step + (size_t)i * strip,
                                ahead + (size_t)i * strip, AMX_TILE);
                outlier[i] = patch_outlier_tiles(decoded[turn][i], s + i, outlier[i], k, AMX_TILE);
                amx_memory(decoded);
            }
            if (!k) continue;
            _tile_loadd(4, decoded[turn ^ 1][i], 64);
            _tile_loadd(5, decoded[turn ^ 1][i] + AMX_TILE, 64);
            if (i == 0) {
                _tile_dpbf16ps(0, 4, 6);
                _tile_dpbf16ps(0, 5, 7);
            } else {
                _tile_dpbf16ps(1, 4, 6);
                _tile_dpbf16ps(1, 5, 7);
            }
        }
    }
    _tile_stored(0, sums[0], 4 * (size_t)t->n_x);
    if (n > 1) {
        _tile_stored(1, sums[1], 4 * (size_t)t->n_x);
    }
    amx_memory(sums);
}

/* Multiplies a block that is stored uncompressed. */
static void gemv_uncompressed_amx(float *sums, const struct gemv_args *t, int row, int n)
{
    const struct byte_tables tables = byte_tables_load(DTYPE_BF16);
    struct weight_strip s = {.w = t->w + (size_t)row * t->w_stride,
                             .stride = t->w_stride,
                             .row_bytes = t->w_stride,
                             .n = n};
    _tile_zero(0);
    gemv_strip_decoded(t, &s, DTYPE_BF16, false, &tables);
    _tile_stored(0, sums, 4 * (size_t)t->n_x);
    amx_memory(sums);
}

INLINE void gemv_bf12_amx(float *out, size_t out_stride, const struct gemv_args *t)
{
    float sums[2][AMX_ROWS * AMX_ROWS] __attribute__((aligned(64)));
    for (int row = 0, n; row < t->n_w; row += n * AMX_ROWS) {
        const struct bf12_block *s = bf12_block_at(t->weight->bf12, t->row + row);
        n = row + AMX_ROWS < t->n_w && s[0].n_outliers != BF12_UNCOMPRESSED &&
                    s[1].n_outliers != BF12_UNCOMPRESSED
                ? 2
                : 1;
        if (n == 2)
            gemv_bf12_blocks_amx(sums, t, t->row + row, 2);
        else if (s->n_outliers != BF12_UNCOMPRESSED)
            gemv_bf12_blocks_amx(sums, t, t->row + row, 1);
        else
            gemv_uncompressed_amx(sums[0], t, row,
                                  t->n_w - row < AMX_ROWS ? t->n_w - row : AMX_ROWS);
        for (int i = 0, left = t->n_w - row; i < n; i++, left -= AMX_ROWS)
            store_strip(out + row + i * AMX_ROWS, out_stride, sums[i], t->n_x, t->n_x, 1,
                        left < AMX_ROWS ? left : AMX_ROWS);
    }
}

/* ---- 8-bit rows: FP8 and int8 ----
 *
 * Memory bandwidth is highest with few long streams, so with few packed rows a tile has fewer
 * weight rows, and several blocks of columns of a row side by side: tile row (j, i) is block j of
 * weight row i, and column (j, x) of the other factor is block j of packed row x. Only products of
 * equal blocks are used. A row of a block is read two lines at a time, in stored order. Blocks
 * are those of FP8's scales; int8 rows, whose scale is applied last, use the same blocks with scale
 * 1. */

enum {
    GROUP_WEIGHTS = AMX_ROWS * FP8_BLOCK,
    GROUP_ROW = FP8_BLOCK, /* elements from one row of the decoded tiles to the next: two tiles have
                              the block's first 64 columns, two more have the other 64 */
    FOLD_LANES = 8
};

/* Results for unusual quantized values (subnormals and NaN), by their low six bits. */
#define UNUSUAL(F) SUBNORMALS(F), [63] = F(0x7fc0)
static const uint8_t unusual_low[64] = {UNUSUAL(LOW_BYTE)}, unusual_high[64] = {UNUSUAL(HIGH_BYTE)};

/* Finds magnitudes below 8, and 127: an affine map takes those, and no others, to 0xee and
 * above. */
INLINE __mmask64 unusual_e4m3(__m512i quantized)
{
    const __m512i ranked = _mm512_gf2p8affine_epi64_epi8(
        quantized, _mm512_set1_epi64(0x0001020408183060), 0xf0);
    return _mm512_cmpgt_epu8_mask(ranked, _mm512_set1_epi8((char)0xed));
}

/* Like fp8_to_bf16(), but for 64 values that are not unusual, and without the byte-permute port:
 * each bit of the BF16 number is an XOR of bits of the e4m3 number. BF16's exponent is e4m3's, e =
 * e3 e2 e1 e0, plus 120: e3, then the inverse of e3 in four bits, then e2 e1 e0. The upper byte has
 * the sign and the exponent without e0; the lower byte begins with e0 and the mantissa. */
INLINE void normal_e4m3_to_bf16(__m512i out[2], __m512i quantized)
{
    const __m512i high = _mm512_gf2p8affine_epi64_epi8(quantized,
                                                       _mm512_set1_epi64(0x1020404040404080), 0x3c);
    const __m512i low = _mm512_gf2p8affine_epi64_epi8(quantized,
                                                      _mm512_set1_epi64(0x0000000001020408), 0);
    out[0] = _mm512_unpacklo_epi8(low, high);
    out[1] = _mm512_unpackhi_epi8(low, high);
}

/* The same for any quantized values. Of normally distributed weights that use the full range, one
 * in ten thousand is unusual. */
static __attribute__((noinline, cold)) void any_e4m3_to_bf16(uint16_t *first, uint16_t *second,
                                                             const uint8_t *p)
{
    const __m512i quantized = _mm512_loadu_si512(p), sign = _mm512_set1_epi8((char)0x80);
    const __mmask64 unusual = unusual_e4m3(quantized);
    __m512i high = _mm512_gf2p8affine_epi64_epi8(quantized, _mm512_set1_epi64(0x1020404040404000),
                                                 0x3c);
    __m512i low = _mm512_gf2p8affine_epi64_epi8(quantized, _mm512_set1_epi64(0x0000000001020408),
                                                0);
    high = _mm512_mask_permutexvar_epi8(high, unusual, quantized, _mm512_loadu_si512(unusual_high));
    low = _mm512_mask_permutexvar_epi8(low, unusual, quantized, _mm512_loadu_si512(unusual_low));
    high = _mm512_ternarylogic_epi64(high, quantized, sign, 0xf8); /* high | (quantized & sign) */
    _mm512_store_si512(first, _mm512_unpacklo_epi8(low, high));
    _mm512_store_si512(second, _mm512_unpackhi_epi8(low, high));
}

/* Decodes n lines of 64 quantized values of a row; prefetches as many lines at `ahead`. */
INLINE void decode_lines(uint16_t *out, const uint8_t *w, const uint8_t *ahead, const int n,
                         enum dtype dtype, const struct byte_tables *tables)
{
    __mmask64 unusual = 0;
    for (int i = 0; i < n; i++) {
        const __m512i quantized = load_and_prefetch(_mm512_loadu_si512(w + i * CPU_K_STEP),
                                                    ahead + i * CPU_K_STEP);
        __m512i values[2];
        if (dtype == DTYPE_I8)
            int8_to_bf16(values, quantized, tables);
        else {
            normal_e4m3_to_bf16(values, quantized);
            unusual |= unusual_e4m3(quantized);
        }
        _mm512_store_si512(out + i * CPU_K_STEP, values[0]);
        _mm512_store_si512(out + i * CPU_K_STEP + AMX_K, values[1]);
    }
    if (__builtin_expect(unusual != 0, 0))
        for (int i = 0; i < n; i++)
            any_e4m3_to_bf16(out + i * CPU_K_STEP, out + i * CPU_K_STEP + AMX_K,
                             w + i * CPU_K_STEP);
}

/* Decodes the columns of `beside` blocks of AMX_ROWS / beside weight rows from `at` on; prefetches
 * a fixed distance ahead in every stream. */
INLINE void decode_fp8_group(uint16_t *out, const struct weight_strip *s, size_t at,
                             const int beside, enum dtype dtype, const struct byte_tables *tables)
{
    const int rows = AMX_ROWS / beside;
    const int halves = beside > 1 || at + CPU_K_STEP < s->row_bytes ? 2 : 1;
    const bool last = at + CPU_PREFETCH_BYTES >= s->row_bytes;
    /* In few streams, what follows a row is the stream's next row; what follows the stream's last
     * row begins the next stream, and has already been read. */
    const uint8_t *ahead = beside > 1 ? s->w + STREAM_PREFETCH_BYTES
                           : !last    ? s->w + CPU_PREFETCH_BYTES
                           : s->next  ? s->next + CPU_PREFETCH_BYTES - s->row_bytes
                                      : s->w;
    for (int j = 0; j < beside; j++)
        for (int i = 0; i < rows; i++) {
            const size_t from = at + (size_t)j * FP8_BLOCK + (i < s->n ? (size_t)i * s->stride : 0);
            decode_lines(out + (j * rows + i) * GROUP_ROW, s->w + from, ahead + from, halves, dtype,
                         tables);
        }
    amx_memory(out);
}

/* Adds the sums of a scale block to the totals [row][n_x] and resets them. */
INLINE void fold_sums(float *sums, float scale, int n_x)
{
    float block[AMX_ROWS * AMX_ROWS] __attribute__((aligned(64)));
    const __m512 factor = _mm512_set1_ps(scale);
    _tile_stored(0, block, 4 * (size_t)n_x);
    amx_memory(block);
    for (int i = 0; i < AMX_ROWS * n_x; i += LANES)
        _mm512_store_ps(
            sums + i, _mm512_fmadd_ps(_mm512_load_ps(block + i), factor, _mm512_load_ps(sums + i)));
    _tile_zero(0);
}

/* Adds the sums of scale blocks `at` and `at` + 1, [block, row][block, x], times the scales of each
 * row, to sums[row][FOLD_LANES]. Only the first n_x lanes are added: the others may hold
 * denormals, which take a hundred times as long to add. */
INLINE void fold_two(float *sums, const float *block, const float *const *scale, size_t at, int n_x)
{
    const int rows = AMX_ROWS / 2, row = 2 * n_x;
    const __mmask8 wanted = (__mmask8)((1 << n_x) - 1);
    for (int j = 0; j < 2; j++)
        for (int i = 0; i < rows; i++) {
            const float *from = block + (j * rows + i) * row + j * n_x;
            float *to = sums + i * FOLD_LANES;
            _mm256_store_ps(to, _mm256_fmadd_ps(_mm256_maskz_loadu_ps(wanted, from),
                                                _mm256_set1_ps(scale[i][at + (size_t)j]),
                                                _mm256_load_ps(to)));
        }
}

/* Loads four floats of each of four rows. */
INLINE __m512 four_by_four(const float *a, const float *b, const float *c, const float *d)
{
    const __m512 first = _mm512_insertf32x4(_mm512_castps128_ps512(_mm_loadu_ps(a)),
                                            _mm_loadu_ps(b), 1);
    return _mm512_insertf32x4(_mm512_insertf32x4(first, _mm_loadu_ps(c), 2), _mm_loadu_ps(d), 3);
}

/* Folds block j, a constant. With one packed row a single load takes the four rows. */
#define FOLD_BLOCK(j)                                                                              \
    do {                                                                                           \
        const float *from = block + (j) * (4 * row + n_x);                                         \
        const __m512 all = n_x == 1                                                                \
                               ? _mm512_permute_ps(_mm512_load_ps(block + (j)*AMX_ROWS), (j)*0x55) \
                               : four_by_four(from, from + row, from + 2 * row, from + 3 * row);   \
        total = _mm512_mask3_fmadd_ps(all, _mm512_permute_ps(factors, (j)*0x55), total, wanted);   \
    } while (0)

/* Like fold_two() for four blocks, but returns the sums added to total[row][4 rows of x]. */
INLINE __m512 fold_four(__m512 total, const float *block, const float *const *scale, size_t at,
                        int n_x)
{
    const int row = 4 * n_x;
    const __mmask16 wanted = (__mmask16)(((1 << n_x) - 1) * 0x1111);
    const __m512 factors = four_by_four(scale[0] + at, scale[1] + at, scale[2] + at, scale[3] + at);
    FOLD_BLOCK(0);
    FOLD_BLOCK(1);
    FOLD_BLOCK(2);
    FOLD_BLOCK(3);
    return total;
}

INLINE __m512 fold_beside(__m512 total, float *sums, const float *block, const float *const *scale,
                          size_t at, int n_x, const int beside)
{
    if (beside == 4 && n_x == 1) return fold_four(total, block, scale, at, 1);
    if (beside == 4) return fold_four(total, block, scale, at, n_x);
    fold_two(sums, block, scale, at, n_x);
    return total;
}

/* Stores sums as [row][4] for four blocks side by side, [row][FOLD_LANES] for two, [row][n_x] for
 * one. With two or four, the products of an iteration are folded in the next one, when they have
 * reached the cache. */
INLINE void gemv_8bit_strip(float *sums, const struct gemv_args *t, const struct weight_strip *s,
                            const int beside, enum dtype dtype, const struct byte_tables *tables)
{
    const size_t blocks = dtype == DTYPE_I8 ? 0 : 1; /* distance between block scales */
    uint16_t decoded[2][GROUP_WEIGHTS] __attribute__((aligned(64)));
    float block[AMX_ROWS * AMX_ROWS] __attribute__((aligned(64)));
    const int columns = beside * t->n_x;
    const uint16_t *x = t->x;
    const size_t group = (size_t)beside * FP8_BLOCK, row = GROUP_ROW * sizeof(uint16_t);
    __m512 total = _mm512_setzero_ps();
    int turn = 0;
    decode_fp8_group(decoded[0], s, 0, beside, dtype, tables);
    for (size_t k = 0; k < t->k; k += group, turn ^= 1, x += FP8_BLOCK * columns) {
        if (k + group < t->k)
            decode_fp8_group(decoded[turn ^ 1], s, k + group, beside, dtype, tables);
        if (beside > 1 && k)
            total = fold_beside(total, sums, block, s->scale, (k - group) / FP8_BLOCK * blocks,
                                t->n_x, beside);
        amx_step(decoded[turn], AMX_K * sizeof(uint16_t), row, x, columns);
        if (beside > 1 || k + CPU_K_STEP < t->k)
            amx_step(decoded[turn] + CPU_K_STEP, AMX_K * sizeof(uint16_t), row,
                     x + CPU_K_STEP * columns, columns);
        if (beside == 1) {
            fold_sums(sums, s->scale[0][k / FP8_BLOCK * blocks], t->n_x);
            continue;
        }
        _tile_stored(0, block, 4 * (size_t)columns);
        amx_memory(block);
        _tile_zero(0);
    }
    if (beside > 1)
        total = fold_beside(total, sums, block, s->scale, (t->k - group) / FP8_BLOCK * blocks,
                            t->n_x, beside);
    if (beside == 4) _mm512_store_ps(sums, total);
}

/* Sets the scales of rows `apart` from each other, beginning with row `row` of the tile. */
INLINE void strip_scales(struct weight_strip *s, const struct gemv_args *t, int row, int apart)
{
    static const float ones[MAX_BLOCKS_BESIDE] = {1, 1, 1, 1};
    for (int i = 0; i < AMX_ROWS; i++)
        s->scale[i] = ones;
    if (t->weight->tensor.scale)
        for (int i = 0; i < AMX_ROWS; i++)
            s->scale[i] = weight_row_scale(&t->weight->tensor,
                                           t->row + row + (i < s->n ? i * apart : 0));
}

INLINE void gemv_8bit_beside(float *out, size_t out_stride, const struct gemv_args *t,
                             const int beside, enum dtype dtype)
{
    const struct byte_tables tables = byte_tables_load(dtype);
    const int rows = AMX_ROWS / beside;
    float sums[AMX_ROWS * AMX_ROWS] __attribute__((aligned(64)));
    struct weight_strip s;
    for (int first = 0, apart; first < t->n_w; first += rows * apart) {
        apart = rows_apart(t->n_w - first, rows);
        for (int row = first; row < first + apart; row++) {
            weight_strip_at(&s, t, first, row, apart, rows);
            strip_scales(&s, t, row, apart);
            _tile_zero(0);
            memset(sums, 0, sizeof(sums));
            gemv_8bit_strip(sums, t, &s, beside, dtype, &tables);
            store_strip(out + row, out_stride, sums,
                        beside == 4   ? 4
                        : beside == 2 ? FOLD_LANES
                                      : t->n_x,
                        t->n_x, apart, s.n);
        }
    }
}

/* Multiplies weight rows, one scale block of rows after the other. */
INLINE void gemv_8bit_blocks(float *out, size_t out_stride, const struct gemv_args *t,
                             enum dtype dtype)
{
    struct gemv_args part = *t;
    for (int row = 0; row < t->n_w; row += part.n_w) {
        const int block = FP8_BLOCK - (int)(part.row % FP8_BLOCK), left = t->n_w - row;
        part.n_w = left < block ? left : block;
        part.next = part.n_w < left ? part.w + (size_t)part.n_w * part.w_stride : t->next;
        gemv_8bit_beside(out + row, out_stride, &part, 1, dtype);
        part.w += (size_t)part.n_w * part.w_stride;
        part.row += part.n_w;
    }
}

INLINE void gemv_8bit(float *out, size_t out_stride, const struct gemv_args *t, const size_t beside,
                      enum dtype dtype)
{
    if (beside == 4)
        gemv_8bit_beside(out, out_stride, t, 4, dtype);
    else if (beside == 2)
        gemv_8bit_beside(out, out_stride, t, 2, dtype);
    else
        gemv_8bit_blocks(out, out_stride, t, dtype);
}

void cpu_gemv_amx(float *out, size_t out_stride, const struct gemv_args *t)
{
    const bool bytes = t->dtype == DTYPE_F8_E4M3 || t->dtype == DTYPE_I8;
    const size_t beside = bytes ? blocks_beside(t->k, t->n_x) : 1;
    amx_configure((int)beside * t->n_x, 0xc3);
    if (t->weight->bf12)
        gemv_bf12_amx(out, out_stride, t);
    else if (t->dtype == DTYPE_F8_E4M3)
        gemv_8bit(out, out_stride, t, beside, DTYPE_F8_E4M3);
    else if (t->dtype == DTYPE_I8)
        gemv_8bit(out, out_stride, t, beside, DTYPE_I8);
    else
        gemv_strips(out, out_stride, t);
    _tile_release();
}
