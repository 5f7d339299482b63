/* Products of many rows with FP8 weights in int16 (body_int16_codes.h). Block by block of scales the sums are exact, so they are those of few rows (body_int16_few.h) in whatever order they come, and
 * blocks are added in theirs.
 *
 * A packed tile is, block by block, [part][pairs of columns][rows of the part, 2] int16, then a step for each row; a panel [block][strip][pairs of columns][STRIP, 2] int16. */
#define LANES 16
#include "backend/cpu/body_vectors.h"

#include "backend/cpu/body_int16_codes.h"
#include "backend/cpu/body_parts.h"

static size_t block_pairs(size_t k, size_t padded)
{
    return (padded - k < FP8_BLOCK ? padded - k : FP8_BLOCK) / 2;
}

/* ---- packing ---- */

/* Of the block that begins with column k in a tile of n rows: bytes. */
size_t cpu_columns_int16(size_t k, int n)
{
    return k / FP8_BLOCK * (size_t)n * (FP8_BLOCK * sizeof(uint16_t) + sizeof(float));
}

/* A part's rows become columns. */
static void pack_part(uint32_t *out, float *steps, const struct packing *p, size_t k, int begin, int n)
{
    const size_t pairs = block_pairs(k, p->padded);
    __m512i words[LANES][4], column[LANES];
    memset(words, 0, sizeof(words));
    for (int b = 0; b < n; b++) {
        steps[b] = block_words(words[b], p->x + (size_t)(begin + b) * p->x_stride + k, p->width - k < 2 * pairs ? p->width - k : 2 * pairs);
        for (int v = 0; v < 4; v++) words[b][v] = even_before_odd(words[b][v]);
        for (int v = 0; v < 4; v += 2) {
            const __m512i even = _mm512_shuffle_i64x2(words[b][v], words[b][v + 1], 0x44);
            words[b][v + 1] = _mm512_shuffle_i64x2(words[b][v], words[b][v + 1], 0xee), words[b][v] = even;
        }
    }
    for (size_t i = 0; i < pairs / LANES; i++) {
        for (int b = 0; b < LANES; b++) column[b] = words[b][i];
        transpose(column);
        for (size_t l = 0; l < LANES; l++) _mm512_mask_storeu_epi32(out + (i * LANES + l) * (size_t)n, (__mmask16)((1u << n) - 1), column[l]);
    }
}

void cpu_pack_block_int16(void *out, const struct packing *p)
{
    for (size_t k = 0; k < p->padded; k += FP8_BLOCK) {
        const size_t pairs = block_pairs(k, p->padded);
        uint32_t *block = (uint32_t *)(void *)((uint8_t *)out + cpu_columns_int16(k, p->n));
        float *steps = (float *)(void *)(block + pairs * (size_t)p->n);
        for (int part = 0; part < n_parts(p->n); part++) {
            const int begin = part_begin(p->n, part);
            pack_part(block + (size_t)begin * pairs, steps + begin, p, k, begin, part_begin(p->n, part + 1) - begin);
        }
    }
}

/* ---- panels ---- */

/* 64 codes of a weight row from column k on, zeros after its end. */
static __m512i codes_at(const struct weight *w, int64_t row, size_t k)
{
    const size_t cols = (size_t)w->cols, n = cols - k < CPU_K_STEP ? cols - k : CPU_K_STEP;
    const uint8_t *in = (const uint8_t *)w->data + (size_t)row * cols + k;
    if (n < CPU_K_STEP) return _mm512_maskz_loadu_epi8(((__mmask64)1 << n) - 1, in);
    __builtin_prefetch(in + CPU_AHEAD), __builtin_prefetch(in + LANES * cols, 0, 2); /* too many places for processors to read ahead in */
    return _mm512_loadu_si512(in);
}

void cpu_panel_int16(void *out, const struct weight *w, int64_t row, int n, size_t k0, size_t k)
{
    const size_t strips = ((size_t)n + STRIP_ROWS - 1) / STRIP_ROWS;
    const struct code_tables tables = code_tables_load(cpu_fp8_powers(w));
    for (size_t at = 0; at < strips * STRIP_ROWS; at += LANES) {
        const size_t there = (size_t)n <= at ? 0 : (size_t)n - at < LANES ? (size_t)n - at : LANES;
        for (size_t c = 0; c < k; c += CPU_K_STEP) {
            const size_t block = c / FP8_BLOCK * FP8_BLOCK, pairs = block_pairs(block, k);
            uint32_t *to = (uint32_t *)out + (block / 2 * strips + at / STRIP_ROWS * pairs + (c - block) / 2) * STRIP_ROWS + at % STRIP_ROWS;
            __m512i values[LANES][2], column[LANES];
            for (size_t a = 0; a < LANES; a++) {
                const __m512i codes = a < there ? codes_at(w, row + (int64_t)(at + a), k0 + c) : _mm512_setzero_si512();
                codes_to_int16(values[a], codes, &tables);
            }
            for (size_t i = 0; i < 2; i++) {
                for (size_t a = 0; a < LANES; a++) column[a] = values[a][i];
                transpose(column);
                for (size_t l = 0; l < LANES; l++) _mm512_storeu_si512(to + (i * LANES + l) * STRIP_ROWS, column[l]);
            }
        }
    }
}

/* ---- products ---- */

/* acc[n][2] += two columns of a strip times those of n rows. */
INLINE void multiply_step(__m512i (*acc)[2], const uint32_t *w, const uint32_t *x, int n)
{
    const __m512i w0 = _mm512_loadu_si512(w), w1 = _mm512_loadu_si512(w + LANES);
    UNROLL
    for (int b = 0; b < n; b++) acc[b][0] = with_products_of_pair(acc[b][0], w0, x + b), acc[b][1] = with_products_of_pair(acc[b][1], w1, x + b);
}

/* What a part's sums with a strip are multiplied with. */
struct strip {
    const float *steps;
    float scale;
    bool first; /* there are none yet */
};

/* sums[n][STRIP] += a block of a strip of weight rows with n packed rows; they begin where it is the first one. */
INLINE void multiply_part(float *sums, const uint32_t *w, const uint32_t *x, size_t pairs, int n, const struct strip *s, struct ahead next, bool first)
{
    __m512i acc[PART_ROWS][2];
    UNROLL
    for (int b = 0; b < n; b++) acc[b][0] = acc[b][1] = _mm512_setzero_si512();
    for (const uint32_t *end = x + pairs * (size_t)n; x < end; x += 2 * n, w += 2 * STRIP_ROWS, next.from[0] += next.step[0], next.from[1] += next.step[1]) {
        __builtin_prefetch(next.from[0]), __builtin_prefetch(next.from[1]);
        multiply_step(acc, w, x, n);
        multiply_step(acc, w + STRIP_ROWS, x + n, n);
    }
    UNROLL
    for (int b = 0; b < n; b++) {
        const __m512 scale = _mm512_set1_ps(s->steps[b] * s->scale);
        for (int u = 0; u < 2; u++) {
            float *to = sums + b * STRIP_ROWS + u * LANES;
            _mm512_storeu_ps(to, _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[b][u]), scale, first ? _mm512_setzero_ps() : _mm512_loadu_ps(to)));
        }
    }
}

static void multiply_rows(float *sums, const uint32_t *w, const uint32_t *x, size_t pairs, int n, const struct strip *s, struct ahead next)
{
#define MULTIPLY_FIRST(rows) multiply_part(sums, w, x, pairs, rows, s, next, true)
#define MULTIPLY_PART(rows) multiply_part(sums, w, x, pairs, rows, s, next, false)
    if (s->first) FOR_ROWS_OF_PART(n, MULTIPLY_FIRST)
    else FOR_ROWS_OF_PART(n, MULTIPLY_PART)
}

void cpu_multiply_int16(float *sums, const struct block *b)
{
    const size_t strips = ((size_t)b->n_w + STRIP_ROWS - 1) / STRIP_ROWS, n = (size_t)b->n_x, parts = (size_t)n_parts(b->n_x);
    const float unit = code_unit(cpu_fp8_powers(b->weight));
    const uint32_t *w = b->w, *x = b->x;
    for (size_t k = 0, pairs; k < b->k; k += 2 * pairs, x += (pairs + 1) * n) {
        pairs = block_pairs(k, b->k);
        const float *steps = (const float *)(const void *)(x + pairs * n);
        /* what is asked for: a share of the next block's rows, and of the next strip */
        struct ahead next = {{(const char *)(x + (pairs + 1) * n), NULL}, {2 * n * sizeof(uint32_t) / (strips * parts), 2 * STRIP_ROWS * sizeof(uint32_t) / parts}};
        for (size_t strip = 0; strip < strips; strip++, w += pairs * STRIP_ROWS) {
            next.from[1] = (const char *)(w + pairs * STRIP_ROWS);
            for (size_t part = 0; part < parts; part++) {
                const int first = part_begin(b->n_x, (int)part), rows = part_begin(b->n_x, (int)part + 1) - first;
                const struct strip s = {steps + first, b->scale[k / FP8_BLOCK] * unit, b->first && !k};
                multiply_rows(sums + (strip * BLOCK_ROWS + (size_t)first) * STRIP_ROWS, w, x + (size_t)first * pairs, pairs, rows, &s, next);
                next.from[0] += pairs / 2 * next.step[0], next.from[1] += pairs / 2 * next.step[1];
            }
        }
    }
}

void cpu_put_int16(float *out, size_t out_stride, const float *sums, int n_w, int first, int n)
{
    put_block(out, out_stride, sums, n_w, first, n);
}

size_t cpu_sums_int16(size_t width)
{
    (void)width;
    return TILE_SUMS;
}
