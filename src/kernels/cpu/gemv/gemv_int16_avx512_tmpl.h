/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV (few rows of x) with FP8 weights in int16 (fp8_to_int16_tmpl.h). A
 * vector holds 32 columns of each of two weight rows, and so does a vector of their sums: half as
 * many have to be added across lanes at the end of a block. Packed rows lie one after the other, as
 * [padded] int16 in the order in which quantized values are unpacked, then as [blocks,
 * MAX_GEMV_ROWS] steps.
 */
#include "kernels/cpu/common/fp8_to_int16_tmpl.h"
#include "kernels/cpu/gemv/gemv_streams_tmpl.h"

enum { HALF_STEP = CPU_K_STEP / 2, SUM_VECTORS = 8 /* vectors that are added up together */ };

/* Pairs of weight rows that leave registers for what is decoded. */
#define PAIRS(n) ((n) <= 4 ? 4 : 2)

static void pack_gemv_int16_avx512(void *out, const struct packing_args *p)
{
    float *steps = (float *)(void *)((uint16_t *)out + (size_t)p->n * p->padded);
    memset(steps, 0,
           (p->padded + FP8_BLOCK - 1) / FP8_BLOCK * MAX_GEMV_ROWS *
               sizeof(*steps)); /* lanes nobody wants are multiplied, too, and slow where they hold
                                   denormals */
    for (int i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->padded; k += FP8_BLOCK) {
            __m512i words[4];
            const size_t n = p->padded - k < FP8_BLOCK ? p->padded - k : FP8_BLOCK;
            steps[k / FP8_BLOCK * MAX_GEMV_ROWS + (size_t)i] = quantize_block(
                words, p->x + (size_t)i * p->x_stride + k, p->width - k < n ? p->width - k : n,
                X_BLOCK_LENGTH);
            for (int v = 0; v < 4; v++)
                words[v] = even_before_odd(words[v]);
            memcpy((uint16_t *)out + (size_t)i * p->padded + k, words, n * sizeof(uint16_t));
        }
}

/* Sums of the halves of up to 8 vectors of whole numbers, side by side: of the lower halves of the
 * first four, of their upper ones, then of the others. v is used up. */
INLINE __m512i sums_of_halves(__m512i *v, int count)
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

INLINE __m512i broadcast_half(const uint16_t *x)
{
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)x));
}

/* acc[n, pairs] += 32 columns from k on of the n rows times those of `count` pairs of weight rows,
 * from pair `first` on. */
INLINE void gemv_int16_step_avx512(__m512i *acc, const __m512i (*wv)[2], const struct gemv_args *t,
                                   size_t k, int pairs, int first, int count, int n)
{
    UNROLL
    for (int b = 0; b < n; b++) {
        const uint16_t *x = (const uint16_t *)t->x + (size_t)b * t->k + k;
        UNROLL
        for (int i = 0; i < 2; i++) {
            const __m512i xv = broadcast_half(x + 16 * i);
            UNROLL
            for (int a = 0; a < count; a++)
                acc[b * pairs + first + a] = dot_accumulate(acc[b * pairs + first + a], wv[a][i],
                                                            xv);
        }
    }
}

/* Lane `lane` of the sums of vectors 8 · at .. is of this vector. */
INLINE int vector_of_lane(int at, int lane)
{
    return at * SUM_VECTORS + lane / 8 * 4 + lane % 4;
}

/* Scales of the sums of vectors 8 · at and following. */
INLINE __m512 block_scales(const float *steps, float scale, int pairs, int at)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7);
    const __m512i row = _mm512_srli_epi32(
        _mm512_add_epi32(lane, _mm512_set1_epi32(at * SUM_VECTORS)), pairs == 4 ? 2 : 1);
    return _mm512_mul_ps(_mm512_permutexvar_ps(row, _mm512_castps256_ps512(_mm256_loadu_ps(steps))),
                         _mm512_set1_ps(scale));
}

/* Of vectors 8 · at and following, `vectors` in total. */
INLINE void store_int16_sums(float *out, size_t out_stride, __m512 sums, int at, int vectors,
                             const struct weight_streams *p, const struct gemv_args *t)
{
    float all[LANES];
    _mm512_storeu_ps(all, sums);
    for (int lane = 0; lane < LANES; lane++) {
        const int pairs = p->n / 2, v = vector_of_lane(at, lane),
                  row = p->row + (v % pairs * 2 + lane / 4 % 2) * p->stride;
        if (v < vectors && row < t->n_w)
            out[(size_t)(v / pairs) * out_stride + (size_t)row] = all[lane];
    }
}

/* 32 columns of two weight rows. */
INLINE __m512i load_two_rows(const uint8_t *first, const uint8_t *second)
{
    return _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)first)),
        _mm256_loadu_si256((const __m256i *)(const void *)second), 1);
}

INLINE void gemv_int16_streams_avx512(float *out, size_t out_stride, const struct gemv_args *t,
                                      struct weight_streams p, int n)
{
    enum {
        MOST_SUMS = MAX_WEIGHT_STREAMS * MAX_GEMV_ROWS / 2,
        TOGETHER = 2 /* pairs whose weights are in registers */
    };
    const int pairs = p.n / 2, vectors = pairs * n;
    const struct e4m3_tables tables = e4m3_tables_load(cpu_fp8_powers(t->weight));
    const float unit = e4m3_int16_scale(cpu_fp8_powers(t->weight));
    const float *steps = (const float *)(const void *)((const uint16_t *)t->x + (size_t)n * t->k),
                *scale = t->scale;
    __m512 sums[MOST_SUMS / SUM_VECTORS];
    const uint8_t *w[MAX_WEIGHT_STREAMS];
    stream_pointers(w, &p, t);
    UNROLL
    for (int i = 0; i * SUM_VECTORS < vectors; i++)
        sums[i] = _mm512_setzero_ps();
    for (size_t k = 0; k < t->k; steps += MAX_GEMV_ROWS, scale++) {
        const size_t end = k + FP8_BLOCK < t->k ? k + FP8_BLOCK : t->k;
        __m512i acc[MOST_SUMS];
        UNROLL
        for (int i = 0; i < vectors; i++)
            acc[i] = _mm512_setzero_si512();
        for (; k < end; k += CPU_K_STEP) {
            prefetch_streams(w, p.n, k, 1);
            UNROLL
            for (int half = 0; half < 2; half++) {
                const size_t at = k + (size_t)half * HALF_STEP;
                UNROLL
                for (int first = 0; first < pairs; first += TOGETHER) {
                    __m512i wv[TOGETHER][2];
                    UNROLL
                    for (int a = 0; a < TOGETHER; a++)
                        e4m3_to_int16(
                            wv[a],
                            load_two_rows(w[2 * (first + a)] + at, w[2 * (first + a) + 1] + at),
                            &tables);
                    gemv_int16_step_avx512(acc, (const __m512i(*)[2])wv, t, at, pairs, first,
                                           TOGETHER, n);
                }
            }
        }
        UNROLL
        for (int i = 0; i * SUM_VECTORS < vectors; i++)
            sums[i] = _mm512_fmadd_ps(
                _mm512_cvtepi32_ps(
                    sums_of_halves(acc + i * SUM_VECTORS, vectors - i * SUM_VECTORS < SUM_VECTORS
                                                              ? vectors - i * SUM_VECTORS
                                                              : SUM_VECTORS)),
                block_scales(steps, *scale * unit, pairs, i), sums[i]);
    }
    for (int i = 0; i * SUM_VECTORS < vectors; i++)
        store_int16_sums(out, out_stride, sums[i], i, vectors, &p, t);
}

/* All weight rows, in so many places. */
INLINE void gemv_int16_tile_avx512(float *out, size_t out_stride, const struct gemv_args *t, int n)
{
    const int streams = 2 * PAIRS(n), stride = (t->n_w + streams - 1) / streams;
    for (int row = 0; row < stride; row++)
        gemv_int16_streams_avx512(out, out_stride, t, (struct weight_streams){row, stride, streams},
                                  n);
}

static void gemv_int16_avx512(float *out, size_t out_stride, const struct gemv_args *t)
{
#define GEMV_INT16(rows) gemv_int16_tile_avx512(out, out_stride, t, rows)
    FOR_GEMV_ROWS(t->n_x, GEMV_INT16)
}
