/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM of four-bit weights with tiles of bytes (AMX), with the same integers as
 * gemv_blocks_tmpl.h: a row of x is quantized to int16 in blocks of 256 columns. Each number is two
 * signed digits to base 256, which are multiplied by codes minus zero points. Sums of a group are
 * exact; they are scaled and added in the order of GEMV.
 *
 * Rows of x are the rows of the first factor, so packed rows are [block][16 rows]([64 columns]
 * [lower, upper digits][16][64]), then a step for each row. Weight rows are the columns of the
 * second factor, in which four columns of a weight row lie side by side: a panel is [block][pair of
 * strips]([64 columns][2 strips][16 sets of 4 columns][16 weight rows][4 columns], then the scales
 * of each group). */
#include "kernels/cpu/common/amx_tmpl.h"

#include "kernels/cpu/common/block_words_tmpl.h"
#include "kernels/cpu/common/int4_tmpl.h"

enum {
    BYTE_K = 64, /* columns of a tile */
    BYTE_TILE = AMX_ROWS * BYTE_K,
    PAIR_ROWS = 2 * AMX_ROWS, /* weight rows of a pair of strips */
    STEP_ROOM = CPU_AMX_MR * sizeof(float),
    PAIR_RESULTS = PAIR_ROWS * CPU_AMX_MR
};

/* Returns the number of columns of the block that begins with column k. */
static size_t block_columns(size_t k, size_t end)
{
    return end - k < BLOCK ? end - k : BLOCK;
}

/* ---- rows of x ---- */

/* Returns the bytes of a block of n packed rows. */
static size_t digits_bytes(size_t columns, int n)
{
    const size_t tiles = (size_t)(n + AMX_ROWS - 1) / AMX_ROWS;
    return tiles * AMX_ROWS * columns * 2 + STEP_ROOM;
}

size_t cpu_x_offset_int4_amx(size_t k0, int n)
{
    return k0 / BLOCK * digits_bytes(BLOCK, n);
}

/* Writes the digits of 64 columns of a row, the lower ones to one tile, the upper to the next. */
INLINE void store_digits(uint8_t *out, const int16_t *words)
{
    const __m512i first = _mm512_loadu_si512(words), second = _mm512_loadu_si512(words + 32),
                  round = _mm512_set1_epi16(128);
    _mm256_storeu_si256((__m256i *)(void *)out, _mm512_cvtepi16_epi8(first));
    _mm256_storeu_si256((__m256i *)(void *)(out + 32), _mm512_cvtepi16_epi8(second));
    out += BYTE_TILE;
    _mm256_storeu_si256((__m256i *)(void *)out,
                        _mm512_cvtepi16_epi8(_mm512_srai_epi16(_mm512_add_epi16(first, round), 8)));
    _mm256_storeu_si256((__m256i *)(void *)(out + 32), _mm512_cvtepi16_epi8(_mm512_srai_epi16(
                                                           _mm512_add_epi16(second, round), 8)));
}

void cpu_pack_gemm_int4_amx(void *out, const struct packing_args *p)
{
    uint8_t *to = out;
    const int rows = (p->n + AMX_ROWS - 1) / AMX_ROWS * AMX_ROWS;
    for (size_t k = 0; k < p->padded; k += BLOCK) {
        const size_t columns = block_columns(k, p->padded),
                     there = k < p->width ? block_columns(k, p->width) : 0,
                     bytes = digits_bytes(columns, p->n);
        float *steps = (float *)(void *)(to + bytes - STEP_ROOM);
        for (int i = 0; i < rows; i++) {
            int16_t words[BLOCK] = {0};
            uint8_t *tile = to + (size_t)(i / AMX_ROWS) * AMX_ROWS * columns * 2 +
                            (size_t)(i % AMX_ROWS) * BYTE_K;
            steps[i] = i < p->n ? quantize_columns(words, p->x + (size_t)i * p->x_stride + k, there)
                                : 0;
            for (size_t c = 0; c < columns; c += BYTE_K)
                store_digits(tile + c * AMX_ROWS * 2, words + c);
        }
        to += bytes;
    }
}

/* ---- panels ---- */

static size_t pair_bytes(size_t columns, size_t group)
{
    return PAIR_ROWS * columns + columns / group * PAIR_ROWS * sizeof(float);
}

INLINE char int4_group_zero(const struct int4_row *r, size_t group)
{
    uint32_t word;
    memcpy(&word, r->zeros + group, sizeof(word));
    return (char)(word >> r->shift & 15);
}

/* Returns 64 codes of a row minus their zero points, as bytes; the bytes from `n` on are 0. */
INLINE __m512i codes_less_zeros(const struct int4_row *r, size_t k, size_t n, size_t group)
{
    const __m256i packed = n < BYTE_K ? _mm256_zextsi128_si256(load_lane(r->nibbles + k / 2))
                                      : _mm256_loadu_si256(
                                            (const __m256i *)(const void *)(r->nibbles + k / 2));
    const __m512i words = _mm512_cvtepu8_epi16(packed),
                  codes = _mm512_and_si512(_mm512_or_si512(words, _mm512_slli_epi16(words, 4)),
                                           _mm512_set1_epi8(15));
    const size_t last = n < BYTE_K ? k : k + BYTE_K / 2;
    const __m512i zeros = _mm512_inserti64x4(_mm512_set1_epi8(int4_group_zero(r, k / group)),
                                             _mm256_set1_epi8(int4_group_zero(r, last / group)), 1);
    return _mm512_maskz_sub_epi8(n < BYTE_K ? UINT32_MAX : UINT64_MAX, codes, zeros);
}

/* Packs a block of a strip of 16 weight rows, of which only the first n exist. */
INLINE void pack_byte_strip(uint8_t *out, float *scales, const struct cpu_matrix *w, int64_t row,
                            int n, size_t k, size_t columns)
{
    const size_t group = (size_t)w->tensor.group_size, cols = (size_t)w->tensor.cols;
    struct int4_row r[AMX_ROWS];
    for (int a = 0; a < n; a++)
        r[a] = int4_row_at(w, row + a);
    for (size_t c = 0; c < columns; c += BYTE_K) {
        __m512i codes[AMX_ROWS];
        for (int a = 0; a < AMX_ROWS; a++)
            codes[a] = a < n && k + c < cols ? codes_less_zeros(&r[a], k + c, cols - k - c, group)
                                             : _mm512_setzero_si512();
        for (int a = 0; a < n; a++)
            __builtin_prefetch(r[a].nibbles + (k + c) / 2 + CPU_PREFETCH_BYTES);
        transpose(codes);
        memcpy(out + c * PAIR_ROWS, codes, sizeof(codes));
    }
    for (size_t c = 0; c < columns; c += group, scales += PAIR_ROWS)
        for (int a = 0; a < AMX_ROWS; a++)
            scales[a] = a < n && k + c < cols ? int4_group_scale(&r[a], (k + c) / group) : 0;
}

void cpu_pack_panel_int4_amx(void *out, const struct cpu_matrix *w, int64_t row, int n, size_t k0,
                             size_t k)
{
    const size_t group = (size_t)w->tensor.group_size;
    uint8_t *to = out;
    for (size_t c = 0; c < k; c += BLOCK) {
        const size_t columns = block_columns(c, k);
        for (int at = 0; at < n; at += PAIR_ROWS, to += pair_bytes(columns, group)) {
            float *scales = (float *)(void *)(to + PAIR_ROWS * columns);
            for (int u = 0; u < 2; u++) {
                const int left = n - at - u * AMX_ROWS;
                pack_byte_strip(to + u * BYTE_TILE, scales + u * AMX_ROWS, w,
                                row + at + u * AMX_ROWS,
                                left < 0          ? 0
                                : left < AMX_ROWS ? left
                                                  : AMX_ROWS,
                                k0 + c, columns);
            }
        }
    }
}

/* ---- matmul ---- */

/* The sums of a group: a pair of strips times 16 packed rows, [strip][digit][row of x][16]. They
 * are still to be scaled and added. */
struct byte_sums {
    int32_t of[2][2][AMX_ROWS][AMX_ROWS] __attribute__((aligned(64)));
};

struct pending_group {
    float *to; /* NULL if nothing is pending */
    const struct byte_sums *sums;
    const float *scales, *steps;
};

/* Scales and adds the group's sums for packed rows first .. first+n-1. */
INLINE void add_group_rows(const struct pending_group *p, int first, int n)
{
    if (!p->to) return;
    const __m512 scale[2] = {_mm512_loadu_ps(p->scales), _mm512_loadu_ps(p->scales + AMX_ROWS)};
    for (int i = first; i < first + n; i++)
        for (int u = 0; u < 2; u++) {
            float *to = p->to + i * PAIR_ROWS + u * AMX_ROWS;
            const __m512i upper = _mm512_slli_epi32(_mm512_load_si512(p->sums->of[u][1][i]), 8),
                          sum = _mm512_add_epi32(_mm512_load_si512(p->sums->of[u][0][i]), upper);
            _mm512_storeu_ps(to,
                             _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum),
                                             _mm512_mul_ps(scale[u], _mm512_set1_ps(p->steps[i])),
                                             _mm512_loadu_ps(to)));
        }
}

/* Configures the tiles for multiply_bytes_step() with `columns` columns. */
INLINE void configure_bytes(size_t columns)
{
    struct amx_tile_config config = amx_full_tiles();
    for (int i = 4; i < 6; i++)
        config.bytes[i] = (uint16_t)columns;
    for (int i = 6; i < 8; i++)
        config.rows[i] = (uint8_t)(columns / 4);
    amx_load_config(&config);
}

/* Tiles 0 to 3 += one step: both digits of x times both strips. */
INLINE void multiply_bytes_step(const uint8_t *w, const uint8_t *x)
{
    _tile_loadd(4, x, BYTE_K);
    _tile_loadd(6, w, 64);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(5, x + BYTE_TILE, BYTE_K);
    _tile_dpbssd(1, 5, 6);
    _tile_loadd(7, w + BYTE_TILE, 64);
    _tile_dpbssd(2, 4, 7);
    _tile_dpbssd(3, 5, 7);
}

/* Computes a group's sums with tiles while vector instructions scale and add those of the previous
 * group, `last`. */
INLINE void multiply_group(struct pending_group *last, struct byte_sums *buffers, const uint8_t *w,
                           const uint8_t *x, size_t at, size_t group, struct pending_group now)
{
    const size_t step = group < BYTE_K ? group : BYTE_K;
    const int part = (int)(AMX_ROWS * step / group);
    struct byte_sums *sums = last->sums == buffers ? buffers + 1 : buffers;
    int first = 0;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t c = at; c < at + group; c += step, first += part) {
        const size_t tile = c / BYTE_K * 2 * BYTE_TILE, half = c % BYTE_K;
        multiply_bytes_step(w + tile + half * AMX_ROWS, x + tile + half);
        add_group_rows(last, first, part);
    }
    _tile_stored(0, sums->of[0][0], 64);
    _tile_stored(1, sums->of[0][1], 64);
    _tile_stored(2, sums->of[1][0], 64);
    _tile_stored(3, sums->of[1][1], 64);
    amx_memory(sums);
    now.sums = sums;
    *last = now;
}

INLINE void gemm_bytes(float *sums, const struct gemm_args *b, const size_t group)
{
    struct byte_sums buffers[2];
    struct pending_group last = {0};
    const uint8_t *w = b->w, *x = b->x;
    for (size_t k = 0; k < b->k; k += BLOCK) {
        const size_t columns = block_columns(k, b->k), bytes = digits_bytes(columns, b->n_x);
        const float *steps = (const float *)(const void *)(x + bytes - STEP_ROOM);
        for (int row = 0; row < b->n_w; row += PAIR_ROWS, w += pair_bytes(columns, group)) {
            const float *scales = (const float *)(const void *)(w + PAIR_ROWS * columns);
            for (int i = 0; i < b->n_x; i += AMX_ROWS)
                for (size_t c = 0; c < columns; c += group)
                    multiply_group(&last, buffers, w, x + (size_t)i * columns * 2, c, group,
                                   (struct pending_group){
                                       .to = sums + row / PAIR_ROWS * PAIR_RESULTS + i * PAIR_ROWS,
                                       .scales = scales + c / group * PAIR_ROWS,
                                       .steps = steps + i});
        }
        x += bytes;
    }
    add_group_rows(&last, 0, AMX_ROWS);
}

void cpu_gemm_int4_amx(float *sums, const struct gemm_args *b)
{
    if (b->first) memset(sums, 0, cpu_gemm_sums_amx(0) * sizeof(*sums));
    amx_memory(b->w);
    amx_memory(b->x);
    switch (b->weight->tensor.group_size) {
    case 128:
        configure_bytes(BYTE_K);
        gemm_bytes(sums, b, 128);
        break;
    case 64:
        configure_bytes(BYTE_K);
        gemm_bytes(sums, b, 64);
        break;
    default:
        configure_bytes(SUB);
        gemm_bytes(sums, b, SUB);
        break;
    }
    _tile_release();
}

void cpu_store_gemm_int4_amx(float *out, size_t out_stride, const float *sums, int n_w, int first,
                             int n)
{
    for (int row = 0; row < n_w; row += PAIR_ROWS)
        for (int i = 0; i < n; i++)
            memcpy(out + (size_t)i * out_stride + row,
                   sums + row / PAIR_ROWS * PAIR_RESULTS + (first + i) * PAIR_ROWS,
                   PAIR_ROWS * sizeof(float));
}
