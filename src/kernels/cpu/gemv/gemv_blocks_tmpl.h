/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV (few rows of x) for weights with scales in groups (block_words_tmpl.h).
 *
 * Eight weight rows are processed at a time, 256 columns of each in turn. Each row has one vector
 * of sums, or one for each load if its lanes have different scales. Then the sums of the eight rows
 * are placed side by side, converted to float and multiplied by their scales.
 *
 * Packed rows are consecutive: [columns] int16, then a step for each row and block, then X_SUMS
 * bytes for each row and block: the sums of 32 columns, in the form that corrects the results for
 * minima, zeros or offsets. */
#ifndef EY_KERNELS_CPU_GEMV_BLOCKS_TMPL_H
#define EY_KERNELS_CPU_GEMV_BLOCKS_TMPL_H

#include "kernels/cpu/common/block_words_tmpl.h"
#include "kernels/cpu/common/int4_tmpl.h"
#include "kernels/cpu/gemv/gemv_streams_tmpl.h"

enum { STREAMS = 8, BLOCKS_MR = 4 };

/* Whether codes are multiplied as bytes, by both digits of x to base 256: the sums are the same,
 * and nothing is widened. This is done for unsigned codes and few rows of x. */
INLINE bool multiplies_bytes(enum dtype dtype, int n)
{
    return !codes_have_signs(dtype) && n <= 2;
}

/* ---- rows of x ---- */

struct packed_x {
    int16_t *words; /* or bytes */
    float *steps;   /* [blocks, n] */
    int8_t *sums;   /* [blocks, n][X_SUMS] */
};

/* X_SUMS: room for a block's sums. Each sub has three digits if minima are multiplied by them, two
 * int16 if they correct for offsets, and four int32 if they correct for zero points. */
enum { MINIMA_DIGITS = 3, X_SUMS = SUBS * 4 * 4 };

INLINE struct packed_x packed_x_at(const void *x, size_t k, int n)
{
    const size_t blocks = (k + BLOCK - 1) / BLOCK;
    struct packed_x p = {.words = (int16_t *)(uintptr_t)x};
    p.steps = (float *)(void *)(p.words + (size_t)n * k);
    p.sums = (int8_t *)(void *)(p.steps + blocks * (size_t)n);
    return p;
}

/* Writes the digits of the sums of subs, [MINIMA_DIGITS][SUBS]. */
INLINE void pack_sums_for_minima(int8_t *out, const int16_t *words)
{
    for (int s = 0; s < SUBS; s++) {
        int sum = sum_of_sub(words + s * SUB);
        for (int i = 0; i < MINIMA_DIGITS; i++)
            out[i * SUBS + s] = take_digit(&sum);
    }
}

/* Writes what corrects the sums of lanes for zero points, [subs, 4]: for Q4_0, whose zero points
 * are always 8, the correction itself; for other types, a pair of digits by which the zero point is
 * multiplied. */
INLINE void pack_sums_for_zeros(int8_t *out, const int16_t *words, enum dtype dtype, int subs)
{
    for (int s = 0; s < subs; s++) {
        const int sum = -sum_of_sub(words + s * SUB);
        const uint32_t lane[4] = {dtype == DTYPE_Q4_0 ? (uint32_t)(8 * sum) : pair_of_digits(sum)};
        memcpy(out + (size_t)s * sizeof(lane), lane, sizeof(lane));
    }
}

/* Writes OFFSET's contribution to the sums, negated, in two words for each sub: one is multiplied
 * by the scale, the other by 1,024 times the scale. A sum of 32 columns is below 2^18. */
enum { OFFSET_STEP = 1024 };
INLINE void pack_offsets(int8_t *out, const int16_t *words)
{
    int16_t pieces[X_SUMS / sizeof(int16_t)] = {0};
    for (int s = 0; s < SUBS; s++) {
        const int offset = -OFFSET * sum_of_sub(words + s * SUB), large = offset / OFFSET_STEP;
        pieces[s] = (int16_t)(offset - large * OFFSET_STEP);
        pieces[SUBS + s] = (int16_t)large;
    }
    memcpy(out, pieces, sizeof(pieces));
}

#define EIGHT_OF(n) n, n, n, n, n, n, n, n
INLINE int_vector offset_of_block(const int8_t *x, const struct sub_numbers *sub)
{
    static const int16_t step[4 * SUBS] = {EIGHT_OF(1), EIGHT_OF(OFFSET_STEP)};
    const int_vector scales = (int_vector)((words_vector)sub->eight[0] *
                                           (words_vector)load_whole(step));
    return multiply_words(scales, load_whole(x));
}

INLINE void pack_x_lanes(int16_t *out, const int16_t *words, enum dtype dtype, int first, int n)
{
    for (int i = 0; i < LOAD_WORDS; i++)
        for (int t = 0; t < n; t++, out += LANE_WORDS)
            take_lane(out, words, columns_of_lane(dtype, first + t, i));
}

/* Packs the columns that the lower codes are multiplied by, all first digits before all second
 * ones, then those for the upper codes in the same way. */
INLINE void pack_x_digits(int8_t *out, const int8_t (*digits)[BLOCK], enum dtype dtype, int first,
                          int n)
{
    for (int i = 0; i < LOAD_WORDS; i++)
        for (int t = 0; t < n; t++) {
            const struct lane_columns c = columns_of_lane(dtype, first + t, i / 2 * 2);
            for (int b = 0; b < 2 * LANE_WORDS; b++)
                *out++ = digits[i % 2][c.first + b * (c.step / 2)];
        }
}

/* Packs the first `subs` subs of a block, load by load. The last load may have fewer lanes. */
INLINE void pack_x_block(int16_t *out, const int16_t *words, enum dtype dtype, int subs, int n)
{
    int8_t digits[2][BLOCK];
    for (int i = 0; multiplies_bytes(dtype, n) && i < BLOCK; i++) {
        digits[0][i] = (int8_t)(uint8_t)(words[i] & 255);
        digits[1][i] = (int8_t)((words[i] - digits[0][i]) >> 8);
    }
    for (int first = 0; first < subs; first += LOAD_SUBS) {
        const int lanes = subs - first < LOAD_SUBS ? subs - first : LOAD_SUBS;
        int16_t *to = out + first * SUB;
        if (multiplies_bytes(dtype, n))
            pack_x_digits((int8_t *)to, (const int8_t(*)[BLOCK])digits, dtype, first, lanes);
        else
            pack_x_lanes(to, words, dtype, first, lanes);
    }
}

INLINE void pack_gemv_rows(void *out, const struct packing_args *p, enum dtype dtype, int n)
{
    const struct packed_x to = packed_x_at(out, p->padded, n);
    for (size_t k = 0; k < p->padded; k += BLOCK)
        for (int i = 0; i < n; i++) {
            int16_t words[BLOCK];
            const size_t left = p->padded - k < BLOCK ? p->padded - k : BLOCK,
                         at = k / BLOCK * (size_t)n + (size_t)i;
            const int subs = (int)(left / SUB);
            to.steps[at] = quantize_columns(words, p->x + (size_t)i * p->x_stride + k, left);
            pack_x_block(to.words + (size_t)i * p->padded + k, words, dtype, subs, n);
            if (has_minima(dtype))
                pack_sums_for_minima(to.sums + at * X_SUMS, words);
            else if (dtype == DTYPE_IQ4_XS)
                pack_offsets(to.sums + at * X_SUMS, words);
            else if (multiplies_bytes(dtype, n))
                pack_sums_for_zeros(to.sums + at * X_SUMS, words, dtype, subs);
        }
}

INLINE void pack_gemv_blocks(void *out, const struct packing_args *p, enum dtype dtype)
{
    switch (p->n) {
    case 1: pack_gemv_rows(out, p, dtype, 1); break;
    case 2: pack_gemv_rows(out, p, dtype, 2); break;
    default: pack_gemv_rows(out, p, dtype, p->n); break;
    }
}

/* ---- scales of eight rows ---- */

struct row_scales {
    uint16_t half[SUBS][STREAMS]; /* of groups */
    float whole[SUBS][STREAMS];   /* of groups, where they are float32 */
    uint64_t minima[STREAMS];     /* eight bytes each */
};

/* A weight row that is being read. */
struct block_row {
    const uint8_t *data;
    struct int4_row int4;
};

INLINE uint16_t half_bits(const uint8_t *p)
{
    uint16_t bits;
    memcpy(&bits, p, sizeof(bits));
    return bits;
}

/* Return the offsets of the scale and of the scale of minima in a block of a K type. */
INLINE int scale_in_block(enum dtype dtype)
{
    return dtype == DTYPE_Q6_K ? 208 : 0;
}
enum { MINIMA_IN_BLOCK = 2 };

/* The size of the groups of 4-bit weights. */
struct group_shape {
    int shift;     /* a group is 2^shift columns */
    int subs;      /* of a group */
    uint64_t ones; /* a byte of 1 for each of them */
};

INLINE struct group_shape group_shape_of(const struct tensor *w)
{
    const int subs = (int)(scaled_columns(w) / SUB);
    return (struct group_shape){subs == 4   ? 7
                                : subs == 2 ? 6
                                            : 5,
                                subs, 0x0101010101010101 >> (64 - 8 * subs) % 64};
}

INLINE struct group_shape wide_group_shape(void)
{
    return (struct group_shape){7, 4, 0x01010101};
}

/* Reads the scales of row a, and returns its zeros. */
INLINE struct sub_numbers enter_int4(struct row_scales *s, const struct int4_row *r, int a,
                                     size_t k, int subs, const struct group_shape *g)
{
    uint64_t zeros = 0;
    size_t at = k >> g->shift;
    for (int u = 0; u < subs; u += g->subs, at++) {
        uint32_t word;
        memcpy(&word, r->zeros + at, sizeof(word));
        zeros |= (word >> r->shift & 15) * g->ones << (8 * u);
        if (r->scale_dtype == DTYPE_F32)
            memcpy(&s->whole[u][a], r->scales + at * sizeof(float), sizeof(float));
        else
            s->half[u][a] = half_bits(r->scales + at * sizeof(uint16_t));
    }
    return eight_bytes_as_numbers(zeros);
}

/* Stores the scales of row a in *s, except the float scales of K types. Returns the numbers for
 * load_words(). */
INLINE struct sub_numbers enter_block(struct row_scales *s, enum dtype dtype,
                                      const struct block_row *r, const uint8_t *p, int a, size_t k,
                                      int subs, const struct group_shape *group)
{
    if (has_sub_scales(dtype)) return load_sub_scales(&s->minima[a], dtype, p);
    if (dtype == DTYPE_INT4) return enter_int4(s, &r->int4, a, k, subs, group);
    for (int u = 0; u < subs; u++)
        s->half[u][a] = half_bits(p + (size_t)u * (block_bytes(dtype) / SUBS));
    return (struct sub_numbers){{{0}}};
}

typedef float rows_vf __attribute__((vector_size(STREAMS * 4)));

INLINE rows_vf scales_of_rows(const struct row_scales *s, int group, enum dtype dtype)
{
    const __m128i half = load_lane(s->half[group]);
    if (dtype == DTYPE_F32) return (rows_vf)_mm256_loadu_ps(s->whole[group]);
    if (dtype == DTYPE_F16) return (rows_vf)_mm256_cvtph_ps(half);
    return (rows_vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16);
}

/* ---- sums of eight rows ---- */

INLINE rows_vf ints_to_rows(__m256i v)
{
    return (rows_vf)_mm256_cvtepi32_ps(v);
}

/* Sums up each lane of the eight vectors: out[i] has the sums of lane i, one for each vector. */
INLINE void sum_lanes_of_rows(__m256i out[LOAD_SUBS], const int_vector v[STREAMS])
{
    const int_vector low = add_pairs_64(add_pairs_32(v[0], v[1]), add_pairs_32(v[2], v[3])),
                     high = add_pairs_64(add_pairs_32(v[4], v[5]), add_pairs_32(v[6], v[7]));
#if LANES == 16
    const int_vector first = _mm512_permutex2var_epi64(
                         low, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), high),
                     second = _mm512_permutex2var_epi64(
                         low, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), high);
    out[0] = _mm512_castsi512_si256(first);
    out[1] = _mm512_extracti64x4_epi64(first, 1);
    out[2] = _mm512_castsi512_si256(second);
    out[3] = _mm512_extracti64x4_epi64(second, 1);
#else
    out[0] = _mm256_permute2x128_si256(low, high, 0x20);
    out[1] = _mm256_permute2x128_si256(low, high, 0x31);
#endif
}

INLINE __m256i sum_rows(const int_vector v[STREAMS])
{
    __m256i lane[LOAD_SUBS];
    sum_lanes_of_rows(lane, v);
#if LANES == 16
    lane[0] = _mm256_add_epi32(lane[0], lane[2]);
    lane[1] = _mm256_add_epi32(lane[1], lane[3]);
#endif
    return _mm256_add_epi32(lane[0], lane[1]);
}

/* Returns the sums of minima times the sums of x, one for each of eight rows. */
INLINE __m256i minima_of_rows(const struct row_scales *s, const int8_t *sums)
{
    int_vector total[STREAMS * 2 / LANES];
    UNROLL
    for (int v = 0; v < STREAMS * 2 / LANES; v++) {
        const int_vector minima = load_whole(s->minima + v * (LANES / 2));
        total[v] = (int_vector){0};
        UNROLL
        for (int i = MINIMA_DIGITS; i-- > 0;) {
            int64_t eight;
            memcpy(&eight, sums + i * SUBS, sizeof(eight));
            total[v] = dot_bytes((int_vector)((vi)total[v] << 8), minima, (int_vector){0} + eight);
        }
    }
#if LANES == 16
    return _mm512_cvtepi64_epi32(add_ints(total[0], _mm512_srli_epi64(total[0], 32)));
#else
    return _mm256_permute4x64_epi64(_mm256_hadd_epi32(total[0], total[1]), 0xd8);
#endif
}

/* ---- matmul ---- */

struct blocks_job {
    const struct gemv_args *t;
    bool wide; /* groups of 4-bit weights are WIDE_GROUP columns; known at compile time */
    struct packed_x x;
    struct block_row row[STREAMS];
    rows_vf sums[BLOCKS_MR];
    struct group_shape group;
    enum dtype scales; /* dtype of the scales of int4 groups */
};

enum { WIDE_GROUP = 128, WIDE_SUBS = WIDE_GROUP / SUB };

/* Returns the number of loads whose lanes all belong to one group, or 1 if groups are smaller than
 * a load. */
INLINE int loads_of_sum(const struct blocks_job *j, enum dtype dtype)
{
    return has_sub_scales(dtype) ? LOADS : j->wide ? WIDE_SUBS / LOAD_SUBS : 1;
}

/* Prefetches as many lines as the block at p has, a fixed distance ahead of it. */
INLINE void prefetch_block(const uint8_t *p, size_t bytes)
{
    UNROLL
    for (size_t i = 0; i < bytes / 64; i++)
        prefetch_weights(p + 64 * i, false);
    if (((uintptr_t)p & 63) + bytes % 64 >= 64) prefetch_weights(p + bytes / 64 * 64, false);
}

/* Loads a vector of x, or only its first lanes. */
INLINE int_vector load_x(const void *x, int lanes)
{
#if LANES == 16
    if (lanes < LOAD_SUBS) return _mm512_zextsi256_si512(_mm256_loadu_si256((const __m256i *)x));
#endif
    (void)lanes;
    return load_whole(x);
}

/* Returns vector i of x for a load. */
INLINE int_vector x_of_load(const struct blocks_job *j, int b, size_t k, int load, int lanes, int i)
{
    return load_x(j->x.words + (size_t)b * j->t->k + k +
                      (size_t)(load * LOAD_WORDS * LOAD_SUBS + i * lanes) * LANE_WORDS,
                  lanes);
}

/* Returns the number of sums among which additions alternate: an addition to the same sum would
 * have to wait for the one before. */
INLINE int chains_of(int n)
{
#if LANES == 16 || defined(__AVXVNNI__)
    if (n == 1) return 4;
#endif
    return n <= 2 ? 2 : 1;
}

/* acc[chains][n] += one load of a block of a weight row times the same columns of n rows of x. */
INLINE void multiply_load_words(int_vector *acc, const struct blocks_job *j, enum dtype dtype,
                                const uint8_t *p, const struct sub_numbers *sub, size_t k, int load,
                                int lanes, int n)
{
    int_vector words[LOAD_WORDS];
    if (dtype == DTYPE_IQ4_XS)
        load_offset_words(words, p, load, sub);
    else
        load_words(words, dtype, p, load, lanes, sub);
    UNROLL
    for (int i = 0; i < LOAD_WORDS; i++)
        UNROLL
    for (int b = 0; b < n; b++) {
        int_vector *sum = &acc[i % chains_of(n) * n + b];
        *sum = dot_accumulate(*sum, words[i], x_of_load(j, b, k, load, lanes, i));
    }
}

/* Adds the products of codes below 16 and a digit of x to the sums. */
INLINE int_vector dot_codes(int_vector sum, const int_vector codes[2], int_vector x0, int_vector x1)
{
#if LANES == 16 || defined(__AVXVNNI__)
    return dot_bytes(dot_bytes(sum, codes[0], x0), codes[1], x1);
#else
    return add_word_pairs(
        sum, _mm256_add_epi16(multiply_bytes(codes[0], x0), multiply_bytes(codes[1], x1)));
#endif
}

/* Like multiply_load_words(), for codes as bytes: acc[digits][n]. */
INLINE void multiply_load_bytes(int_vector *acc, const struct blocks_job *j, enum dtype dtype,
                                const uint8_t *p, const struct sub_numbers *sub, size_t k, int load,
                                int lanes, int n)
{
    int_vector codes[2];
    load_codes(codes, dtype, p, load, lanes);
    const int_vector numbers[2] = {numbers_of_load(dtype, sub, load, 0),
                                   numbers_of_load(dtype, sub, load, 1)};
    UNROLL
    for (int b = 0; b < n; b++)
        UNROLL
    for (int digit = 0; digit < 2; digit++) {
        const int_vector x0 = x_of_load(j, b, k, load, lanes, digit),
                         x1 = x_of_load(j, b, k, load, lanes, 2 + digit);
        int_vector *sum = &acc[digit * n + b];
        if (has_sub_scales(dtype)) {
            *sum = dot_accumulate(*sum, multiply_bytes(codes[0], x0), numbers[0]);
            *sum = dot_accumulate(*sum, multiply_bytes(codes[1], x1), numbers[1]);
        } else
            *sum = dot_codes(*sum, codes, x0, x1);
    }
}

/* Returns the sums plus the correction for the zeros or offsets of a load. */
INLINE int_vector add_zeros(int_vector sum, const struct blocks_job *j, enum dtype dtype,
                            const struct sub_numbers *sub, size_t k, int load, int lanes, int b,
                            int n)
{
    const int8_t *sums = j->x.sums + (k / BLOCK * (size_t)n + (size_t)b) * X_SUMS;
    if (dtype == DTYPE_IQ4_XS) return load ? sum : offset_of_block(sums, sub);
    if (has_sub_scales(dtype) || !multiplies_bytes(dtype, n)) return sum;
    const int_vector x = load_x(sums + load * LOAD_SUBS * 16, lanes);
    if (dtype == DTYPE_Q4_0) return add_ints(sum, x);
    return dot_accumulate(sum, numbers_as_pairs(sub->eight[0], load * LOAD_SUBS), x);
}

/* Converts the float16 at byte `at` of the block of each row. The vector of them is assembled in a
 * register, because loading a vector that was just stored in pieces is slow. */
INLINE rows_vf half_of_rows(const struct blocks_job *j, enum dtype dtype, size_t k, int at)
{
    const size_t from = k / BLOCK * block_bytes(dtype) + (size_t)at;
    __m128i halves = _mm_setzero_si128();
#define INSERT_HALF(a) \
    halves = _mm_insert_epi16(halves, (int16_t)half_bits(j->row[a].data + from), a);
    INSERT_HALF(0)
    INSERT_HALF(1)
    INSERT_HALF(2)
    INSERT_HALF(3)
    INSERT_HALF(4)
    INSERT_HALF(5)
    INSERT_HALF(6)
    INSERT_HALF(7)
    return (rows_vf)_mm256_cvtph_ps(halves);
}

/* Adds the sums of a block of a K type: one for each row, times its scale, less the sum of minima.
 */
INLINE void add_block_sums(struct blocks_job *j, enum dtype dtype, const struct row_scales *s,
                           const int_vector (*acc)[LOADS][STREAMS], size_t k, int n)
{
    const rows_vf scale = half_of_rows(j, dtype, k, scale_in_block(dtype));
    for (int b = 0; b < n; b++) {
        const size_t at = k / BLOCK * (size_t)n + (size_t)b;
        const float step = j->x.steps[at];
        j->sums[b] += ints_to_rows(sum_rows(acc[b][0])) * (scale * step);
        if (has_minima(dtype))
            j->sums[b] += ints_to_rows(minima_of_rows(s, j->x.sums + at * X_SUMS)) *
                          (-half_of_rows(j, dtype, k, MINIMA_IN_BLOCK) * step);
    }
}

/* Adds the sums of wide groups: one for each row and group. */
INLINE void add_wide_sums(struct blocks_job *j, const struct row_scales *s,
                          const int_vector (*acc)[LOADS][STREAMS], size_t k, int subs, int n)
{
    for (int b = 0; b < n; b++)
        for (int g = 0; g * WIDE_SUBS < subs; g++)
            j->sums[b] += ints_to_rows(sum_rows(acc[b][g])) *
                          (scales_of_rows(s, g * WIDE_SUBS, j->scales) *
                           j->x.steps[k / BLOCK * (size_t)n + (size_t)b]);
}

/* Adds the sums of types whose groups are one or several subs. */
INLINE void add_group_sums(struct blocks_job *j, enum dtype dtype, const struct row_scales *s,
                           const int_vector (*acc)[LOADS][STREAMS], size_t k, int subs, int n)
{
    const int per_group = dtype == DTYPE_INT4 ? j->group.subs : 1;
    const enum dtype scales = dtype == DTYPE_INT4 ? j->scales : DTYPE_F16;
    for (int b = 0; b < n; b++) {
        const float step = j->x.steps[k / BLOCK * (size_t)n + (size_t)b];
        __m256i whole = _mm256_setzero_si256();
        for (int load = 0; load * LOAD_SUBS < subs; load++) {
            __m256i lane[LOAD_SUBS];
            sum_lanes_of_rows(lane, acc[b][load]);
            UNROLL
            for (int t = 0; t < LOAD_SUBS; t++) {
                const int u = load * LOAD_SUBS + t;
                whole = _mm256_add_epi32(whole, lane[t]);
                if (((u + 1) & (per_group - 1)) || u >= subs) continue;
                j->sums[b] += ints_to_rows(whole) *
                              (scales_of_rows(s, u + 1 - per_group, scales) * step);
                whole = _mm256_setzero_si256();
            }
        }
    }
}

/* Returns the sum of the partial sums for row b of x. */
INLINE int_vector joined_sums(const int_vector *sums, enum dtype dtype, int b, int n)
{
    if (multiplies_bytes(dtype, n)) return add_ints(sums[b], (int_vector)((vi)sums[n + b] << 8));
    int_vector sum = sums[b];
    UNROLL
    for (int i = 1; i < chains_of(n); i++)
        sum = add_ints(sum, sums[i * n + b]);
    return sum;
}

/* Whether the scales of all rows are read before the products. IQ4_XS's take long to unpack, and
 * products that wait for them would hold up those of other rows. */
INLINE bool scales_come_first(enum dtype dtype)
{
    return dtype == DTYPE_IQ4_XS;
}

INLINE const uint8_t *block_of_row(const struct blocks_job *j, enum dtype dtype, int a, size_t k)
{
    return j->row[a].data + k / BLOCK * block_bytes(dtype);
}

INLINE struct sub_numbers enter_row(struct row_scales *s, const struct blocks_job *j,
                                    enum dtype dtype, int a, size_t k, int subs)
{
    return enter_block(s, dtype, &j->row[a], block_of_row(j, dtype, a, k), a, k, subs, &j->group);
}

/* Multiplies the first `subs` subs of the block of row a that begins with column k. found: its
 * scales, if they come first. */
INLINE void multiply_row(int_vector (*acc)[LOADS][STREAMS], struct row_scales *s,
                         const struct sub_numbers *found, const struct blocks_job *j,
                         enum dtype dtype, int a, size_t k, int subs, int n)
{
    const uint8_t *p = block_of_row(j, dtype, a, k);
    const struct sub_numbers sub = scales_come_first(dtype) ? *found
                                                            : enter_row(s, j, dtype, a, k, subs);
    const int run = loads_of_sum(j, dtype);
    int_vector sums[BLOCKS_MR];
    prefetch_block(p, block_bytes(dtype));
    UNROLL
    for (int load = 0; load < LOADS; load++) {
        const int left = subs - load * LOAD_SUBS, lanes = left < LOAD_SUBS ? left : LOAD_SUBS;
        if (left <= 0) break;
        UNROLL
        for (int i = 0; i < BLOCKS_MR; i++)
            if (load % run == 0) sums[i] = (int_vector){0};
        UNROLL
        for (int b = 0; b < n; b++)
            sums[b] = add_zeros(sums[b], j, dtype, &sub, k, load, lanes, b, n);
        if (multiplies_bytes(dtype, n))
            multiply_load_bytes(sums, j, dtype, p, &sub, k, load, lanes, n);
        else
            multiply_load_words(sums, j, dtype, p, &sub, k, load, lanes, n);
        if ((load + 1) % run) continue;
        UNROLL
        for (int b = 0; b < n; b++)
            acc[b][load / run][a] = joined_sums(sums, dtype, b, n);
    }
}

INLINE void multiply_block(struct blocks_job *j, enum dtype dtype, size_t k, int subs, int n)
{
    int_vector acc[BLOCKS_MR][LOADS][STREAMS];
    struct row_scales s;
    struct sub_numbers found[STREAMS];
    for (int a = 0; scales_come_first(dtype) && a < STREAMS; a++)
        found[a] = enter_row(&s, j, dtype, a, k, subs);
    for (int a = 0; a < STREAMS; a++)
        multiply_row(acc, &s, &found[a], j, dtype, a, k, subs, n);
    if (has_sub_scales(dtype))
        add_block_sums(j, dtype, &s, (const int_vector(*)[LOADS][STREAMS])acc, k, n);
    else if (j->wide)
        add_wide_sums(j, &s, (const int_vector(*)[LOADS][STREAMS])acc, k, subs, n);
    else
        add_group_sums(j, dtype, &s, (const int_vector(*)[LOADS][STREAMS])acc, k, subs, n);
}

INLINE void enter_rows(struct blocks_job *j, const struct weight_streams *p, enum dtype dtype)
{
    for (int a = 0; a < STREAMS; a++) {
        const int row = stream_row(p, j->t, a);
        j->row[a].data = j->t->w + (size_t)row * j->t->w_stride;
        if (dtype == DTYPE_INT4) j->row[a].int4 = int4_row_at(j->t->weight, j->t->row + row);
    }
}

INLINE void gemv_blocks_rows(float *out, size_t out_stride, const struct gemv_args *t,
                             struct weight_streams p, enum dtype dtype, bool wide, int n)
{
    struct blocks_job j = {.t = t,
                           .wide = wide,
                           .x = packed_x_at(t->x, t->k, n),
                           .group = wide ? wide_group_shape() : group_shape_of(&t->weight->tensor),
                           .scales = t->weight->tensor.scale_dtype};
    size_t k = 0;
    enter_rows(&j, &p, dtype);
    for (int b = 0; b < n; b++)
        j.sums[b] = (rows_vf){0};
    for (; k + BLOCK <= t->k; k += BLOCK)
        multiply_block(&j, dtype, k, SUBS, n);
    if (!has_sub_scales(dtype) && k < t->k)
        multiply_block(&j, dtype, k, (int)((t->k - k) / SUB), n);
    for (int b = 0; b < n; b++)
        for (int a = 0; a < STREAMS && p.row + a * p.stride < t->n_w; a++)
            out[(size_t)b * out_stride + (size_t)(p.row + a * p.stride)] = j.sums[b][a];
}

INLINE void gemv_blocks_of(float *out, size_t out_stride, const struct gemv_args *t,
                           enum dtype dtype, bool wide, int n)
{
    const int stride = (t->n_w + STREAMS - 1) / STREAMS;
    for (int row = 0; row < stride; row++)
        gemv_blocks_rows(out, out_stride, t, (struct weight_streams){row, stride, STREAMS}, dtype,
                         wide, n);
}

INLINE void gemv_blocks_in(float *out, size_t out_stride, const struct gemv_args *t,
                           enum dtype dtype, bool wide)
{
    switch (t->n_x) {
    case 1: gemv_blocks_of(out, out_stride, t, dtype, wide, 1); break;
    case 2: gemv_blocks_of(out, out_stride, t, dtype, wide, 2); break;
    case 3: gemv_blocks_of(out, out_stride, t, dtype, wide, 3); break;
    default: gemv_blocks_of(out, out_stride, t, dtype, wide, 4); break;
    }
}

INLINE void gemv_blocks(float *out, size_t out_stride, const struct gemv_args *t, enum dtype dtype)
{
    if (dtype == DTYPE_INT4 && t->weight->tensor.group_size == WIDE_GROUP)
        gemv_blocks_in(out, out_stride, t, dtype, true);
    else
        gemv_blocks_in(out, out_stride, t, dtype, false);
}

#endif
