/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV of four-bit weights with few rows of x on the AMX tier, by vectors with the bits of tiles.
 *
 * A tile product adds 32 columns to a sum in this order: products of even columns are added one
 * after the other, from zero, and so are those of odd columns; then their sum is added. Additions
 * are fused with multiplications, and denormals are zero. A BF16 dot product of vectors adds its
 * upper, then its lower product to a sum, with the same roundings, so two of these for each four
 * columns repeat the tile's operations.
 *
 * Lanes are the 16 blocks of 32 columns of a chunk of one weight row. Their sums are transposed for
 * 16 rows at a time and added block by block. */
#include "kernels/cpu/common/amx_tmpl.h"
#include "kernels/cpu/gemv/gemv_streams_tmpl.h"

enum {
    MAX_FEW_COLUMNS = 4, /* packed rows and remainders; tiles are faster for more */
    CHUNK_BLOCKS = 16,
    CHUNK = CHUNK_BLOCKS * AMX_K,
    LINES = CHUNK / 128, /* lines of a row's chunk: a lane of 128 bits is a block */
    DOTS = AMX_K / 4,    /* dot products of the even columns of a block; as many of the odd ones */
    X_CHUNK = 2 * DOTS * LANES, /* words of a chunk of x */
    GROUPS_AT_ONCE = 16
};

static bool is_few(size_t k, size_t columns)
{
    const size_t padded = (k + CHUNK - 1) / CHUNK * CHUNK;
    return columns <= MAX_FEW_COLUMNS && columns * padded <= CPU_AMX_GEMV_MR * k;
}

/* ---- rows of x: [chunk][packed row][DOTS][even, odd][16 blocks] pairs, the first one above ----
 */

/* Returns the lane of a block of a chunk, where the transposition of weights puts it. */
INLINE size_t lane_of_block(size_t block)
{
    return block % 4 * 4 + block / 4;
}

INLINE void spread_block(uint32_t *out, __m512i columns)
{
    static const uint16_t in_dots[2 * AMX_ROWS] = {2,  0,  3,  1,  6,  4,  7,  5,  10, 8,  11,
                                                   9,  14, 12, 15, 13, 18, 16, 19, 17, 22, 20,
                                                   23, 21, 26, 24, 27, 25, 30, 28, 31, 29};
    const __m512i dots = _mm512_permutexvar_epi16(_mm512_loadu_si512(in_dots), columns);
    uint32_t pairs[2 * DOTS];
    memcpy(pairs, &dots, sizeof(pairs));
    for (size_t i = 0; i < 2 * DOTS; i++)
        out[i * LANES] = pairs[i];
}

void cpu_pack_gemv_int4_amx(void *out, const struct packing_args *p, size_t begin, size_t end)
{
    const size_t n = (size_t)p->n, columns = p->two_pass ? 2 * n : n;
    if (!is_few(p->width, columns)) {
        cpu_pack_gemv_amx(out, p, begin, end);
        return;
    }
    for (size_t i = 0; i < columns; i++)
        for (size_t k = begin; k < end; k += CPU_K_STEP) {
            uint32_t *to = (uint32_t *)out + (k / CHUNK * columns + i) * X_CHUNK;
            const size_t block = k % CHUNK / AMX_K;
            __m512i values[2];
            bf16_step(values, p, p->x + i % n * p->x_stride, k, i >= n);
            spread_block(to + lane_of_block(block), values[0]);
            spread_block(to + lane_of_block(block + 1), values[1]);
        }
}

/* ---- groups ---- */

/* Scales and offsets of the current GROUPS_AT_ONCE groups of a row. */
struct few_groups {
    float scale[GROUPS_AT_ONCE], offset[GROUPS_AT_ONCE];
};

INLINE __m512 scales_of_groups(const struct int4_row *r, size_t at, __mmask16 there)
{
    if (r->scale_dtype == DTYPE_F32) return _mm512_maskz_loadu_ps(there, r->scales + 4 * at);
    const __m256i half = _mm256_maskz_loadu_epi16(there, r->scales + 2 * at);
    if (r->scale_dtype == DTYPE_F16) return _mm512_cvtph_ps(half);
    return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
}

/* int4_enter_group() for the groups from `at` on, of which the row has `left`. */
INLINE void enter_few_groups(struct few_groups *g, const struct int4_row *r, size_t at, size_t left)
{
    const __mmask16 there = (__mmask16)(left < GROUPS_AT_ONCE ? (1u << left) - 1 : 0xffff);
    const __m512 scale = scales_of_groups(r, at, there);
    const __m512i word = _mm512_srl_epi32(_mm512_maskz_loadu_epi32(there, r->zeros + at),
                                          _mm_cvtsi32_si128(r->shift)),
                  zero = _mm512_and_si512(word, _mm512_set1_epi32(15));
    _mm512_storeu_ps(g->scale, scale);
    _mm512_storeu_ps(g->offset, -scale * _mm512_cvtepi32_ps(zero));
}

/* The BF16 of all quantized values of four groups, 16 of each, in two tables of bytes. */
struct few_table {
    __m512i low, high;
};

INLINE __m512 two_floats(const float *p, size_t apart)
{
    return _mm512_mask_blend_ps(0xff00, _mm512_set1_ps(p[0]), _mm512_set1_ps(p[apart]));
}

/* The same values as those of int4_table(), for groups `apart` from each other. */
INLINE struct few_table few_table_of(const struct few_groups *g, size_t at, size_t apart)
{
    const __m512 first = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7),
                 second = _mm512_setr_ps(8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14,
                                         15);
    const __m512 scale[2] = {two_floats(g->scale + at, apart),
                             two_floats(g->scale + at + 2 * apart, apart)},
                 offset[2] = {two_floats(g->offset + at, apart),
                              two_floats(g->offset + at + 2 * apart, apart)};
    const __m512i byte = _mm512_set1_epi16(0xff);
    const __m512i a = (__m512i)_mm512_cvtne2ps_pbh(_mm512_fmadd_ps(first, scale[1], offset[1]),
                                                   _mm512_fmadd_ps(first, scale[0], offset[0])),
                  b = (__m512i)_mm512_cvtne2ps_pbh(_mm512_fmadd_ps(second, scale[1], offset[1]),
                                                   _mm512_fmadd_ps(second, scale[0], offset[0]));
    return (struct few_table){
        _mm512_packus_epi16(_mm512_and_si512(a, byte), _mm512_and_si512(b, byte)),
        _mm512_packus_epi16(_mm512_srli_epi16(a, 8), _mm512_srli_epi16(b, 8))};
}

/* Looks up indices of 64 values; table i is that of the i-th part of each line. */
INLINE __m512i look_up_parts(const struct few_table *tables, const int parts, __m512i index,
                             bool high)
{
    const int width = 64 / parts;
    __m512i found = _mm512_permutexvar_epi8(index, high ? tables[0].high : tables[0].low);
    UNROLL
    for (int i = 1; i < parts; i++)
        found = _mm512_mask_permutexvar_epi8(found, UINT64_MAX >> (64 - width) << i * width, index,
                                             high ? tables[i].high : tables[i].low);
    return found;
}

/* ---- matmul ---- */

struct few_job {
    const struct gemv_args *t;
    size_t group;
    struct int4_row row[AMX_ROWS];
    struct few_groups groups[AMX_ROWS];
    __m512 sums[MAX_FEW_COLUMNS]; /* a lane for each row of the strip */
};

/* Loads a chunk of a row and sorts its words: lanes of 32 bits are blocks, in out[i] words 2i and
 * then words 2i+1 of each, with the bytes of words swapped. */
INLINE void load_chunk(__m512i out[LINES], const uint8_t *p, size_t bytes, bool whole)
{
    __m512i line[LINES], low[2], high[2];
    UNROLL
    for (size_t i = 0; i < LINES; i++) {
        const size_t left = bytes > 64 * i ? bytes - 64 * i : 0;
        const __mmask64 there = left < 64 ? ((__mmask64)1 << left) - 1 : UINT64_MAX;
        line[i] = load_and_prefetch(whole ? _mm512_loadu_si512(p + 64 * i)
                                          : _mm512_maskz_loadu_epi8(there, p + 64 * i),
                                    p + 64 * i + CPU_PREFETCH_BYTES);
    }
    UNROLL
    for (int i = 0; i < 2; i++) {
        low[i] = _mm512_unpacklo_epi16(line[2 * i], line[2 * i + 1]);
        high[i] = _mm512_unpackhi_epi16(line[2 * i], line[2 * i + 1]);
    }
    out[0] = _mm512_unpacklo_epi32(low[0], low[1]);
    out[1] = _mm512_unpackhi_epi32(low[0], low[1]);
    out[2] = _mm512_unpacklo_epi32(high[0], high[1]);
    out[3] = _mm512_unpackhi_epi32(high[0], high[1]);
}

/* Returns denormals as zeros of their sign. */
INLINE __m512 flushed(__m512 v)
{
    return _mm512_mask_and_ps(v, _mm512_fpclass_ps_mask(v, 0x20), v, _mm512_set1_ps(-0.0f));
}

/* Computes the sums of each block of row a's chunk with n packed rows. */
INLINE void multiply_chunk(__m512i (*sums)[AMX_ROWS], const struct few_job *j, int a, size_t k,
                           bool whole, const int parts, const int n)
{
    const size_t groups = (size_t)(LINES * parts);
    const __m512i nibble = _mm512_set1_epi8(15), of_line = _mm512_set1_epi64(0x3030202010100000);
    const uint32_t *x = (const uint32_t *)j->t->x + k / CHUNK * (size_t)n * X_CHUNK;
    struct few_table tables[4];
    __m512i words[LINES];
    __m512 sum[MAX_FEW_COLUMNS][2];
    UNROLL
    for (int i = 0; i < parts; i++)
        tables[i] = few_table_of(&j->groups[a], k / CHUNK * groups % GROUPS_AT_ONCE + (size_t)i,
                                 (size_t)parts);
    load_chunk(words, j->row[a].nibbles + k / 2, (j->t->k - k) / 2, whole);
    UNROLL
    for (int b = 0; b < n; b++)
        sum[b][0] = sum[b][1] = _mm512_setzero_ps();
    UNROLL
    for (int i = 0; i < LINES; i++)
        UNROLL
    for (int odd = 0; odd < 2; odd++) {
        const __m512i swapped = odd ? _mm512_shldi_epi16(words[i], words[i], 4)
                                    : _mm512_shldi_epi16(words[i], words[i], 8),
                      index = _mm512_ternarylogic_epi32(swapped, nibble, of_line, 0xea);
        const __m512i low = look_up_parts(tables, parts, index, false),
                      high = look_up_parts(tables, parts, index, true);
        const __m512i first = _mm512_unpacklo_epi8(low, high),
                      second = _mm512_unpackhi_epi8(low, high);
        UNROLL
        for (int b = 0; b < n; b++) {
            const uint32_t *at = x + b * X_CHUNK + (4 * i + odd) * LANES;
            sum[b][odd] = _mm512_dpbf16_ps(sum[b][odd], (__m512bh)first,
                                           (__m512bh)_mm512_loadu_si512(at));
            sum[b][odd] = _mm512_dpbf16_ps(sum[b][odd], (__m512bh)second,
                                           (__m512bh)_mm512_loadu_si512(at + 2 * LANES));
        }
    }
    UNROLL
    for (int b = 0; b < n; b++)
        sums[b][a] = (__m512i)flushed(_mm512_add_ps(sum[b][0], sum[b][1]));
}

/* Adds the first `blocks` blocks of 16 rows, which are [row][lane]. */
INLINE __m512 add_blocks(__m512 sum, __m512i of_rows[AMX_ROWS], const size_t blocks)
{
    transpose(of_rows);
    for (size_t i = 0; i < blocks; i++)
        sum = flushed(_mm512_add_ps(sum, (__m512)of_rows[lane_of_block(i)]));
    return sum;
}

INLINE void multiply_strip_chunk(struct few_job *j, size_t k, bool whole, const int parts,
                                 const int n)
{
    const size_t at = k / j->group, groups = j->t->k / j->group;
    __m512i sums[MAX_FEW_COLUMNS][AMX_ROWS];
    if (at % GROUPS_AT_ONCE == 0)
        for (int a = 0; a < AMX_ROWS; a++)
            enter_few_groups(&j->groups[a], &j->row[a], at, groups - at);
    for (int a = 0; a < AMX_ROWS; a++)
        multiply_chunk(sums, j, a, k, whole, parts, n);
    for (int b = 0; b < n; b++)
        j->sums[b] = whole ? add_blocks(j->sums[b], sums[b], CHUNK_BLOCKS)
                           : add_blocks(j->sums[b], sums[b], (j->t->k - k) / AMX_K);
}

INLINE void gemv_few_strip(float *out, size_t out_stride, const struct gemv_args *t,
                           struct weight_streams p, const int parts, const int n)
{
    struct few_job j = {.t = t, .group = (size_t)t->weight->tensor.group_size};
    size_t k = 0;
    for (int a = 0; a < AMX_ROWS; a++)
        j.row[a] = int4_row_at(t->weight, t->row + stream_row(&p, t, a));
    for (; k + CHUNK <= t->k; k += CHUNK)
        multiply_strip_chunk(&j, k, true, parts, n);
    if (k < t->k) multiply_strip_chunk(&j, k, false, parts, n);
    for (int b = 0; b < n; b++)
        for (int a = 0; a < AMX_ROWS && p.row + a * p.stride < t->n_w; a++)
            out[(size_t)b * out_stride + (size_t)(p.row + a * p.stride)] = j.sums[b][a];
}

/* parts: groups of 128 columns */
INLINE void gemv_few_parts(float *out, size_t out_stride, const struct gemv_args *t,
                           const int parts, const int n)
{
    const int stride = (t->n_w + AMX_ROWS - 1) / AMX_ROWS;
    for (int row = 0; row < stride; row++)
        gemv_few_strip(out, out_stride, t, (struct weight_streams){row, stride, AMX_ROWS}, parts,
                       n);
}

INLINE void gemv_few(float *out, size_t out_stride, const struct gemv_args *t, const int n)
{
    switch (t->weight->tensor.group_size) {
    case 128: gemv_few_parts(out, out_stride, t, 1, n); break;
    case 64: gemv_few_parts(out, out_stride, t, 2, n); break;
    default: gemv_few_parts(out, out_stride, t, 4, n); break;
    }
}

void cpu_gemv_int4_amx(float *out, size_t out_stride, const struct gemv_args *t)
{
    if (!is_few(t->k, (size_t)t->n_x)) {
        cpu_gemv_amx(out, out_stride, t);
        return;
    }
    switch (t->n_x) {
    case 1: gemv_few(out, out_stride, t, 1); break;
    case 2: gemv_few(out, out_stride, t, 2); break;
    case 3: gemv_few(out, out_stride, t, 3); break;
    default: gemv_few(out, out_stride, t, MAX_FEW_COLUMNS); break;
    }
}
