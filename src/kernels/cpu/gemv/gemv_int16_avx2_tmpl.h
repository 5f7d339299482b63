/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV (few rows of x) with FP8 weights in int16 (fp8_to_int16_tmpl.h) by vectors of eight whole
 * numbers, and the tables of these; included by a small file for each way of multiplying pairs. A
 * vector has columns of one weight row. Packed rows lie one after the other, as [padded] int16 in
 * the order in which quantized values are unpacked, then as [blocks, LANES] steps. */
#define LANES 8
#include "kernels/cpu/common/simd_tmpl.h"

#define SHARED static
#define NAMED(name) name##_int16
#include "kernels/cpu/gemm/gemm_int16_tmpl.h"
#include "kernels/cpu/gemv/gemv_streams_tmpl.h"

enum { FP8_AT_ONCE = sizeof(int_vector) /* that are unpacked together */ };

/* Places that leave registers for what is decoded. */
#define STREAMS_FOR_INT16(n) ((n) <= 2 ? 4 : 2)

static void pack_gemv_int16_avx2(void *out, const struct packing_args *p)
{
    float *steps = (float *)(void *)((uint16_t *)out + (size_t)p->n * p->padded);
    memset(steps, 0, (p->padded + FP8_BLOCK - 1) / FP8_BLOCK * LANES * sizeof(*steps));
    for (int i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->padded; k += FP8_BLOCK) {
            int_vector words[BLOCK_VECTORS];
            const size_t n = 2 * block_pairs(k, p->padded);
            steps[k / FP8_BLOCK * LANES + (size_t)i] = quantize_block(
                words, p->x + (size_t)i * p->x_stride + k, p->width - k < n ? p->width - k : n,
                X_BLOCK_LENGTH);
            words_in_fp8_order(words);
            memcpy((uint16_t *)out + (size_t)i * p->padded + k, words, n * sizeof(uint16_t));
        }
}

/* Sums of the lanes of up to 8 vectors, side by side; v is used up. */
INLINE int_vector sum_int_lanes(int_vector *v, int count)
{
    UNROLL
    for (int step = 0; step < 2; step++) {
        UNROLL
        for (int i = 0; 2 * i < count; i++)
            v[i] = _mm256_hadd_epi32(v[2 * i], v[2 * i + 1 < count ? 2 * i + 1 : 2 * i]);
        count = (count + 1) / 2;
    }
    const int_vector other = v[count - 1];
    return _mm256_add_epi32(_mm256_permute2x128_si256(v[0], other, 0x20),
                            _mm256_permute2x128_si256(v[0], other, 0x31));
}

/* acc[n, streams] += FP8_AT_ONCE columns from k on. */
INLINE void gemv_int16_step_avx2(int_vector *acc, const uint8_t *const *w,
                                 const struct gemv_args *t, size_t k, int streams, int n,
                                 const struct e4m3_tables *tables)
{
    UNROLL
    for (int a = 0; a < streams; a++) {
        int_vector quantized, wv[2];
        memcpy(&quantized, w[a] + k, sizeof(quantized));
        e4m3_to_int16(wv, quantized, tables);
        UNROLL
        for (int b = 0; b < n; b++) {
            const int_vector *x = (const int_vector *)(const void *)((const uint16_t *)t->x +
                                                                     (size_t)b * t->k + k);
            acc[b * streams + a] = dot_accumulate(dot_accumulate(acc[b * streams + a], wv[0], x[0]),
                                                  wv[1], x[1]);
        }
    }
}

INLINE void gemv_int16_streams_avx2(float *out, size_t out_stride, const struct gemv_args *t,
                                    struct weight_streams p, int n)
{
    enum { MOST_SUMS = 8 };
    const int count = p.n * n;
    const struct e4m3_tables tables = e4m3_tables_load(cpu_fp8_powers(t->weight));
    const float unit = e4m3_int16_scale(cpu_fp8_powers(t->weight)),
                *steps = (const float *)(const void *)((const uint16_t *)t->x + (size_t)n * t->k),
                *scale = t->scale;
    const __m256i row_of_lane = _mm256_srli_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                                                  p.n == 4 ? 2 : 1);
    const uint8_t *w[MAX_WEIGHT_STREAMS];
    vf sums = {0};
    stream_pointers(w, &p, t);
    for (size_t k = 0; k < t->k; steps += LANES, scale++) {
        const size_t end = k + FP8_BLOCK < t->k ? k + FP8_BLOCK : t->k;
        int_vector acc[MOST_SUMS];
        UNROLL
        for (int i = 0; i < count; i++)
            acc[i] = (int_vector){0};
        for (; k < end; k += CPU_K_STEP) {
            prefetch_streams(w, p.n, k, 1);
            gemv_int16_step_avx2(acc, w, t, k, p.n, n, &tables);
            gemv_int16_step_avx2(acc, w, t, k + FP8_AT_ONCE, p.n, n, &tables);
        }
        const vf step = (vf)_mm256_permutevar8x32_ps(_mm256_loadu_ps(steps), row_of_lane);
        sums += int_to_vf(sum_int_lanes(acc, count)) * (step * (*scale * unit));
    }
    for (int i = 0; i < count; i++) {
        const int row = p.row + i % p.n * p.stride;
        if (row < t->n_w) out[(size_t)(i / p.n) * out_stride + (size_t)row] = sums[i];
    }
}

/* All weight rows, in so many places. */
INLINE void gemv_int16_tile_avx2(float *out, size_t out_stride, const struct gemv_args *t, int n)
{
    const int streams = STREAMS_FOR_INT16(n), stride = (t->n_w + streams - 1) / streams;
    for (int row = 0; row < stride; row++)
        gemv_int16_streams_avx2(out, out_stride, t, (struct weight_streams){row, stride, streams},
                                n);
}

static void gemv_int16_avx2(float *out, size_t out_stride, const struct gemv_args *t)
{
#define GEMV_INT16(rows) gemv_int16_tile_avx2(out, out_stride, t, rows)
    FOR_GEMV_ROWS(t->n_x, GEMV_INT16)
}

#define GEMM_INT16                                                                       \
    .scales_sums = true, .gemm_rows = M_TILE_ROWS, .panel_element = sizeof(uint16_t),    \
    .x_element = sizeof(float), .panel_tail = CPU_INT16_PANEL_END, .n_blocks = 1,        \
    .max_panel_bytes = 768 << 10, .whole_k = CPU_INT16_COLUMNS, .kc = CPU_INT16_COLUMNS, \
    .pack_gemm = pack_gemm_int16, .x_offset = x_offset_int16, .gemm = gemm_int16,        \
    .store_gemm = store_gemm_int16, .gemm_sums = gemm_sums_int16
const struct matmul_kernels MATMUL_INT16 = {.gemv_rows = MAX_GEMV_ROWS,
                                            .gemv_max_rows = CPU_GEMV_ROWS,
                                            .pack_gemv = pack_gemv_int16_avx2,
                                            .gemv = gemv_int16_avx2,
                                            .pack_panel = pack_panel_int16,
                                            GEMM_INT16};
const struct matmul_kernels MATMUL_INT16_VISION = {.pack_panel = pack_panel_bf16_int16, GEMM_INT16};
