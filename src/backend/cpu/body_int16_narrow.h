/* SPDX-License-Identifier: Apache-2.0 */
/* Products of few rows with FP8 weights in int16 (body_int16_codes.h) by vectors of eight whole
 * numbers, and the tables of these; included by a small file for each way of multiplying pairs. A
 * vector has columns of one weight row. Packed rows lie one after the other, as [padded] int16 in
 * the order in which codes are unpacked, then as [blocks, LANES] steps. */
#define LANES 8
#include "backend/cpu/body_vectors.h"

#define SHARED static
#define NAMED(name) name##_int16
#include "backend/cpu/body_int16_many.h"
#include "backend/cpu/body_places.h"

enum { CODES = sizeof(whole) /* that are unpacked together */ };

/* Places that leave registers for what is decoded. */
#define PLACES_INT16(n) ((n) <= 2 ? 4 : 2)

static void pack_int16(void *out, const struct packing *p)
{
    float *steps = (float *)(void *)((uint16_t *)out + (size_t)p->n * p->padded);
    memset(steps, 0, (p->padded + FP8_BLOCK - 1) / FP8_BLOCK * LANES * sizeof(*steps));
    for (int i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->padded; k += FP8_BLOCK) {
            whole words[BLOCK_VECTORS];
            const size_t n = 2 * block_pairs(k, p->padded);
            steps[k / FP8_BLOCK * LANES + (size_t)i] = block_words(
                words, p->x + (size_t)i * p->x_stride + k, p->width - k < n ? p->width - k : n,
                BLOCK_LENGTH);
            words_as_codes_come(words);
            memcpy((uint16_t *)out + (size_t)i * p->padded + k, words, n * sizeof(uint16_t));
        }
}

/* Sums of the lanes of up to 8 vectors, side by side; v is used up. */
INLINE whole whole_sums(whole *v, int count)
{
    UNROLL
    for (int step = 0; step < 2; step++) {
        UNROLL
        for (int i = 0; 2 * i < count; i++)
            v[i] = _mm256_hadd_epi32(v[2 * i], v[2 * i + 1 < count ? 2 * i + 1 : 2 * i]);
        count = (count + 1) / 2;
    }
    const whole other = v[count - 1];
    return _mm256_add_epi32(_mm256_permute2x128_si256(v[0], other, 0x20),
                            _mm256_permute2x128_si256(v[0], other, 0x31));
}

/* acc[n, places] += CODES columns from k on. */
INLINE void few_step(whole *acc, const uint8_t *const *w, const struct tile *t, size_t k,
                     int places, int n, const struct code_tables *tables)
{
    UNROLL
    for (int a = 0; a < places; a++) {
        whole codes, wv[2];
        memcpy(&codes, w[a] + k, sizeof(codes));
        codes_to_int16(wv, codes, tables);
        UNROLL
        for (int b = 0; b < n; b++) {
            const whole *x = (const whole *)(const void *)((const uint16_t *)t->x +
                                                           (size_t)b * t->k + k);
            acc[b * places + a] = with_products(with_products(acc[b * places + a], wv[0], x[0]),
                                                wv[1], x[1]);
        }
    }
}

INLINE void few_rows_int16(float *out, size_t out_stride, const struct tile *t, struct places p,
                           int n)
{
    enum { MOST_SUMS = 8 };
    const int count = p.n * n;
    const struct code_tables tables = code_tables_load(cpu_fp8_powers(t->weight));
    const float unit = code_unit(cpu_fp8_powers(t->weight)),
                *steps = (const float *)(const void *)((const uint16_t *)t->x + (size_t)n * t->k),
                *scale = t->scale;
    const __m256i row_of_lane = _mm256_srli_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                                                  p.n == 4 ? 2 : 1);
    const uint8_t *w[MOST_PLACES];
    vf sums = {0};
    place_pointers(w, &p, t);
    for (size_t k = 0; k < t->k; steps += LANES, scale++) {
        const size_t end = k + FP8_BLOCK < t->k ? k + FP8_BLOCK : t->k;
        whole acc[MOST_SUMS];
        UNROLL
        for (int i = 0; i < count; i++)
            acc[i] = (whole){0};
        for (; k < end; k += CPU_K_STEP) {
            ask_ahead(w, p.n, k, 1);
            few_step(acc, w, t, k, p.n, n, &tables);
            few_step(acc, w, t, k + CODES, p.n, n, &tables);
        }
        const vf step = (vf)_mm256_permutevar8x32_ps(_mm256_loadu_ps(steps), row_of_lane);
        sums += whole_floats(whole_sums(acc, count)) * (step * (*scale * unit));
    }
    for (int i = 0; i < count; i++) {
        const int row = p.row + i % p.n * p.apart;
        if (row < t->n_w) out[(size_t)(i / p.n) * out_stride + (size_t)row] = sums[i];
    }
}

/* All weight rows, in so many places. */
INLINE void few_rows_of_tile(float *out, size_t out_stride, const struct tile *t, int n)
{
    const int places = PLACES_INT16(n), apart = (t->n_w + places - 1) / places;
    for (int row = 0; row < apart; row++)
        few_rows_int16(out, out_stride, t, (struct places){row, apart, places}, n);
}

static void few_int16(float *out, size_t out_stride, const struct tile *t)
{
#define FEW_INT16(rows) few_rows_of_tile(out, out_stride, t, rows)
    FOR_FEW_ROWS(t->n_x, FEW_INT16)
}

#define MANY                                                                                    \
    .once = true, .x_rows = BLOCK_ROWS, .element = sizeof(uint16_t),                            \
    .tile_element = sizeof(float), .panel_end = CPU_INT16_PANEL_END, .slabs = 1,                \
    .panels = 768 << 10, .whole = CPU_INT16_COLUMNS, .part = CPU_INT16_COLUMNS,                 \
    .pack_block = pack_block_int16, .columns = columns_int16, .multiply_block = multiply_int16, \
    .put_block = put_int16, .block_sums = sums_int16
const struct products PRODUCTS = {.most_few = MOST_FEW,
                                  .few_rows = CPU_FEW,
                                  .pack = pack_int16,
                                  .few = few_int16,
                                  .panel_block = panel_int16,
                                  MANY};
const struct products PRODUCTS_OF_PICTURES = {.panel_block = panel_bf16_int16, MANY};
