/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV (few rows of x) with FP8 weights in int16 (fp8_to_int16_tmpl.h).
 *
 * A vector holds 32 columns of each of INT16_VECTOR_ROWS weight rows, and a vector of sums those of
 * the same rows: with AVX-512 (two rows) only half as many vectors must be added across lanes at
 * the end of a block. Packed rows are consecutive: [padded] int16 in the order of unpacked
 * quantized values, then [blocks, SUM_VECTORS] steps. */
#ifndef EY_KERNELS_CPU_GEMV_INT16_TMPL_H
#define EY_KERNELS_CPU_GEMV_INT16_TMPL_H

#include "kernels/cpu/common/fp8_to_int16_tmpl.h"
#include "kernels/cpu/gemv/gemv_streams_tmpl.h"

enum {
    INT16_VECTOR_ROWS = LANES / 8,
    INT16_VECTORS_DECODED = LANES / 8, /* vectors decoded into registers */
    INT16_COLUMNS = CPU_K_STEP / 2,    /* columns of a row unpacked together */
    SUM_VECTORS = 8,                   /* vectors that are added up together */
    X_VECTOR = 16                      /* columns that a vector of x holds */
};

/* NR: weight rows whose sums with n rows of x leave enough registers for decoding. */
#define GEMV_INT16_NR(n) (LANES == 16 ? (n) <= 4 ? 8 : 4 : (n) <= 2 ? 4 : 2)

static void pack_gemv_int16(void *out, const struct packing_args *p)
{
    float *steps = (float *)(void *)((uint16_t *)out + (size_t)p->n * p->padded);
    memset(steps, 0,
           (p->padded + FP8_BLOCK - 1) / FP8_BLOCK * SUM_VECTORS *
               sizeof(*steps)); /* unused lanes are multiplied too, which is slow if they hold
                                   denormals */
    for (int i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->padded; k += FP8_BLOCK) {
            int_vector words[BLOCK_VECTORS];
            const size_t n = p->padded - k < FP8_BLOCK ? p->padded - k : FP8_BLOCK;
            steps[k / FP8_BLOCK * SUM_VECTORS + (size_t)i] = quantize_block(
                words, p->x + (size_t)i * p->x_stride + k, p->width - k < n ? p->width - k : n,
                X_BLOCK_LENGTH);
            words_in_gemv_order(words);
            memcpy((uint16_t *)out + (size_t)i * p->padded + k, words, n * sizeof(uint16_t));
        }
}

/* ---- vectors of one weight row, or of two ---- */

#if LANES == 16

/* Sums up each half of up to SUM_VECTORS integer vectors. Returns the sums of the lower halves of
 * the first four, those of their upper halves, then the same of the others. v is overwritten. */
INLINE __m512i sum_int_lanes(__m512i *v, int count)
{
#define PAIR_UP_INTS(first, second)                                               \
    for (int i = 0; 2 * i < count; i++) {                                         \
        const __m512i a = v[2 * i], b = v[2 * i + 1 < count ? 2 * i + 1 : 2 * i]; \
        v[i] = _mm512_add_epi32(first, second);                                   \
    }                                                                             \
    count = (count + 1) / 2;
    PAIR_UP_INTS(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b))
    PAIR_UP_INTS(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b))
    PAIR_UP_INTS(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd))
#undef PAIR_UP_INTS
    return v[0];
}

/* Return the vector among SUM_VECTORS, and the row, to which a lane of the sums belongs. */
INLINE int vector_of_lane(int lane)
{
    return lane / 8 * 4 + lane % 4;
}

INLINE int row_of_lane(int lane)
{
    return lane / 4 % 2;
}

/* Returns the steps of x for the lanes of vectors from `first` on, if a row has 2^shift vectors. */
INLINE vf lane_steps(const float *steps, int first, int shift)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7);
    const __m512i row = _mm512_srli_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(first)),
                                          (unsigned)shift);
    return (vf)_mm512_permutexvar_ps(row, _mm512_castps256_ps512(_mm256_loadu_ps(steps)));
}

INLINE __m512i load_weight_rows(const uint8_t *const *w, size_t k)
{
    return _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)(w[0] + k))),
        _mm256_loadu_si256((const __m256i *)(const void *)(w[1] + k)), 1);
}

INLINE __m512i load_x_vector(const uint16_t *x)
{
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)x));
}

#else

/* Sums the lanes of up to SUM_VECTORS vectors; v is overwritten. */
INLINE __m256i sum_int_lanes(__m256i *v, int count)
{
    UNROLL
    for (int step = 0; step < 2; step++) {
        UNROLL
        for (int i = 0; 2 * i < count; i++)
            v[i] = _mm256_hadd_epi32(v[2 * i], v[2 * i + 1 < count ? 2 * i + 1 : 2 * i]);
        count = (count + 1) / 2;
    }
    const __m256i other = v[count - 1];
    return _mm256_add_epi32(_mm256_permute2x128_si256(v[0], other, 0x20),
                            _mm256_permute2x128_si256(v[0], other, 0x31));
}

INLINE int vector_of_lane(int lane)
{
    return lane;
}

INLINE int row_of_lane(int lane)
{
    (void)lane;
    return 0;
}

INLINE vf lane_steps(const float *steps, int first, int shift)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i row = _mm256_srli_epi32(_mm256_add_epi32(lane, _mm256_set1_epi32(first)), shift);
    return (vf)_mm256_permutevar8x32_ps(_mm256_loadu_ps(steps), row);
}

INLINE __m256i load_weight_rows(const uint8_t *const *w, size_t k)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)(w[0] + k));
}

INLINE __m256i load_x_vector(const uint16_t *x)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)x);
}

#endif

/* ---- matmul ---- */

/* acc[n, vectors] += INT16_COLUMNS columns from k on of the n rows times those of
 * INT16_VECTORS_DECODED vectors of weight rows, beginning with vector `first`. */
INLINE void gemv_int16_step(int_vector *acc, const int_vector (*wv)[2], const struct gemv_args *t,
                            size_t k, int vectors, int first, int n)
{
    UNROLL
    for (int b = 0; b < n; b++) {
        const uint16_t *x = (const uint16_t *)t->x + (size_t)b * t->k + k;
        UNROLL
        for (int i = 0; i < 2; i++) {
            const int_vector xv = load_x_vector(x + X_VECTOR * i);
            UNROLL
            for (int a = 0; a < INT16_VECTORS_DECODED; a++) {
                int_vector *sum = &acc[b * vectors + first + a];
                *sum = dot_accumulate(*sum, wv[a][i], xv);
            }
        }
    }
}

/* The same for all `vectors` of weight rows. */
INLINE void gemv_int16_columns(int_vector *acc, const uint8_t *const *w, const struct gemv_args *t,
                               size_t k, int vectors, int n, const struct e4m3_tables *tables)
{
    UNROLL
    for (int first = 0; first < vectors; first += INT16_VECTORS_DECODED) {
        int_vector wv[INT16_VECTORS_DECODED][2];
        UNROLL
        for (int a = 0; a < INT16_VECTORS_DECODED; a++)
            e4m3_to_int16(wv[a], load_weight_rows(w + (first + a) * INT16_VECTOR_ROWS, k), tables);
        gemv_int16_step(acc, (const int_vector(*)[2])wv, t, k, vectors, first, n);
    }
}

/* Stores the sums of the vectors from `first` on. There are `all` vectors, `vectors` of them for
 * each row of x. */
INLINE void store_int16_sums(float *out, size_t out_stride, vf sums, int first, int all,
                             int vectors, const struct weight_streams *p, const struct gemv_args *t)
{
    float lanes[LANES];
    store_vf(lanes, sums);
    for (int lane = 0; lane < LANES; lane++) {
        const int v = first + vector_of_lane(lane),
                  a = v % vectors * INT16_VECTOR_ROWS + row_of_lane(lane),
                  row = p->row + a * p->stride;
        if (v < all && row < t->n_w)
            out[(size_t)(v / vectors) * out_stride + (size_t)row] = lanes[lane];
    }
}

INLINE void gemv_int16_streams(float *out, size_t out_stride, const struct gemv_args *t,
                               struct weight_streams p, int n, bool to_l2)
{
    enum { MAX_SUMS = GEMV_MAX_NR * GEMV_MR / INT16_VECTOR_ROWS };
    const int vectors = p.n / INT16_VECTOR_ROWS, all = vectors * n;
    const struct e4m3_tables tables = e4m3_tables_load(cpu_fp8_powers(t->weight));
    const float unit = e4m3_int16_scale(cpu_fp8_powers(t->weight));
    const float *steps = (const float *)(const void *)((const uint16_t *)t->x + (size_t)n * t->k),
                *scale = t->scale;
    vf sums[MAX_SUMS / SUM_VECTORS];
    const uint8_t *w[GEMV_MAX_NR];
    stream_pointers(w, &p, t);
    UNROLL
    for (int i = 0; i < all; i += SUM_VECTORS)
        sums[i / SUM_VECTORS] = (vf){0};
    for (size_t k = 0; k < t->k; steps += SUM_VECTORS, scale++) {
        const size_t end = k + FP8_BLOCK < t->k ? k + FP8_BLOCK : t->k;
        int_vector acc[MAX_SUMS];
        UNROLL
        for (int i = 0; i < all; i++)
            acc[i] = (int_vector){0};
        for (; k < end; k += CPU_K_STEP) {
            prefetch_streams(w, p.n, k, 1, to_l2);
            UNROLL
            for (size_t half = 0; half < 2; half++)
                gemv_int16_columns(acc, w, t, k + half * INT16_COLUMNS, vectors, n, &tables);
        }
        UNROLL
        for (int i = 0; i < all; i += SUM_VECTORS)
            sums[i / SUM_VECTORS] += int_to_vf(sum_int_lanes(
                                         acc + i, all - i < SUM_VECTORS ? all - i : SUM_VECTORS)) *
                                     (lane_steps(steps, i, vectors == 4 ? 2 : 1) * (*scale * unit));
    }
    for (int i = 0; i < all; i += SUM_VECTORS)
        store_int16_sums(out, out_stride, sums[i / SUM_VECTORS], i, all, vectors, &p, t);
}

/* Multiplies all weight rows, in GEMV_INT16_NR(n) streams. */
INLINE void gemv_int16_tile(float *out, size_t out_stride, const struct gemv_args *t, int n,
                            bool to_l2)
{
    const int streams = GEMV_INT16_NR(n), stride = (t->n_w + streams - 1) / streams;
    for (int row = 0; row < stride; row++)
        gemv_int16_streams(out, out_stride, t, (struct weight_streams){row, stride, streams}, n,
                           to_l2);
}

static void gemv_int16(float *out, size_t out_stride, const struct gemv_args *t)
{
#define GEMV_INT16(rows) gemv_int16_tile(out, out_stride, t, rows, false)
    FOR_GEMV_ROWS(t->n_x, GEMV_INT16)
}

#if LANES == 16
/* Prefetches weights into the L2 cache. */
static void gemv_int16_to_l2(float *out, size_t out_stride, const struct gemv_args *t)
{
#define GEMV_INT16_TO_L2(rows) gemv_int16_tile(out, out_stride, t, rows, true)
    FOR_GEMV_ROWS(t->n_x, GEMV_INT16_TO_L2)
}
#endif

#endif
