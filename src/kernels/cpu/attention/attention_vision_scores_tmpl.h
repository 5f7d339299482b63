/* SPDX-License-Identifier: Apache-2.0 */
/* Image attention: scores from int16 numbers (int16_tmpl.h), and their softmax. Scores need
 * precision, because softmax amplifies the errors of large ones. With queries and keys in steps of
 * 1/46300 of their lengths a score is off by 9e-6 of |q| |k|; with BF16 it would be 3e-4 (64
 * columns).
 *
 * A block is CPU_KEY_BLOCK patches; its keys are [pairs of columns, CPU_KEY_BLOCK, 2] int16, then a
 * step for each patch. */
#include "kernels/cpu/common/int16_tmpl.h"

enum {
    ROWS_PER_LOAD = LANES == 16 ? 4 : 2, /* queries that share a load of keys */
    KEY_BLOCK_VECTORS = CPU_KEY_BLOCK / LANES,
    VECTORS_AT_ONCE = 4, /* vectors of keys whose sums stay in registers */
    /* Euclidean norm of a query and of a key in steps, before rounding. Its square, which bounds
     * their dot product, is below 2^31. */
    QK_LENGTH = 46300,
    QK_MAX_PAIRS = CPU_VISION_MAX_DIM / 2
};

/* How far scores may exceed the row's maximum, in powers of two, before it is raised: most blocks
 * stay below, and need no maximum across lanes. */
#define MAX_GROWTH 11.5f

INLINE size_t pairs_of(int dim)
{
    return ((size_t)dim + 1) / 2;
}

/* Columns of values, padded to whole vectors. */
INLINE size_t padded_dim(int dim)
{
    return ((size_t)dim + LANES - 1) / LANES * LANES;
}

static size_t vision_key_bytes(int dim)
{
    return pairs_of(dim) * sizeof(uint32_t) + sizeof(float);
}

/* Quantizes in[dim] in steps, with zeros up to a multiple of LANES. Returns the step. */
INLINE float quantize_int16(int16_t *out, const float *in, int dim)
{
    const size_t n = (size_t)dim;
    float per_step, step = quantization_step(&per_step, in, n, QK_LENGTH);
    for (size_t d = 0; d < n; d += LANES) {
        const short_vector part = to_int16((vf)load_padded(in, d, n), per_step);
        memcpy(out + d, &part, sizeof(part));
    }
    return step;
}

static void store_vision_key(void *keys, size_t patch, const float *key, int dim)
{
    const size_t pairs = pairs_of(dim), at = patch % CPU_KEY_BLOCK;
    uint32_t words[QK_MAX_PAIRS],
        *block = (uint32_t *)(void *)((uint8_t *)keys + (patch - at) * vision_key_bytes(dim));
    const float step = quantize_int16((int16_t *)(void *)words, key, dim);
    for (size_t d = 0; d < pairs; d++)
        block[d * CPU_KEY_BLOCK + at] = words[d];
    memcpy(block + pairs * CPU_KEY_BLOCK + at, &step, sizeof(step));
}

/* A tile's queries and online softmax. */
struct vision_queries {
    uint32_t words[CPU_Q_ROWS][QK_MAX_PAIRS];
    float step[CPU_Q_ROWS], max[CPU_Q_ROWS];
    vf sum[CPU_Q_ROWS]; /* sums per lane */
    float *o;           /* [CPU_Q_ROWS, o_stride] not normalized */
    size_t o_stride;
};

/* Initial value of outputs instead of zero, too small to matter: products of small weights alone
 * would be denormal, which Intel's processors compute a hundred times slower. */
#define O_INIT 1e-30f

/* Starts a tile before its first block. The steps of queries include log2(e), so that scores are
 * exponents of two. */
INLINE void start_vision_rows(struct vision_queries *s, float *o, size_t o_stride,
                              const struct vision_attention_tile *t)
{
    const float log2_e = 1.44269504f;
    for (size_t i = 0; i < (size_t)t->n_rows * o_stride; i += LANES)
        store_vf(o + i, splat(O_INIT));
    s->o = o;
    s->o_stride = o_stride;
    for (int r = 0; r < t->n_rows; r++) {
        s->step[r] = log2_e * quantize_int16((int16_t *)(void *)s->words[r],
                                             t->q + (size_t)r * (size_t)t->dim, t->dim);
        s->max[r] = -1e30f;
        s->sum[r] = (vf){0};
    }
}

/* Returns the patches of the block that begins with `key`. */
INLINE int patches_of_block(const struct vision_attention_tile *t, int key)
{
    return t->n_keys - key < CPU_KEY_BLOCK ? t->n_keys - key : CPU_KEY_BLOCK;
}

/* Sets scores from lane n_valid on to a very low value. */
INLINE vf mask_scores(vf scores, int n_valid)
{
#if LANES == 16
    return (vf)_mm512_mask_mov_ps(_mm512_set1_ps(-1e30f),
                                  n_valid >= LANES ? 0xffff
                                  : n_valid > 0    ? (__mmask16)((1u << n_valid) - 1)
                                                   : 0,
                                  (__m512)scores);
#else
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return (vf)_mm256_blendv_ps(
        _mm256_set1_ps(-1e30f), (__m256)scores,
        _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n_valid), lane)));
#endif
}

/* Computes the scores of VECTORS_AT_ONCE vectors of patches from vector `begin` on. */
INLINE void vision_score_vectors(vf (*scores)[KEY_BLOCK_VECTORS], const struct vision_queries *s,
                                 const uint32_t *keys, size_t pairs, int first, int rows, int begin)
{
    int_vector acc[ROWS_PER_LOAD][VECTORS_AT_ONCE];
    const uint32_t *key = keys + begin * LANES;
    UNROLL
    for (int i = 0; i < VECTORS_AT_ONCE * rows; i++)
        acc[i / VECTORS_AT_ONCE][i % VECTORS_AT_ONCE] = (int_vector){0};
    for (size_t d = 0; d < pairs; d++, key += CPU_KEY_BLOCK) {
        int_vector k[VECTORS_AT_ONCE];
        UNROLL
        for (int u = 0; u < VECTORS_AT_ONCE; u++)
            memcpy(&k[u], key + u * LANES, sizeof(k[u]));
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
        for (int u = 0; u < VECTORS_AT_ONCE; u++)
            acc[r][u] = dot_accumulate_pair(acc[r][u], k[u], &s->words[first + r][d]);
    }
    UNROLL
    for (int u = 0; u < VECTORS_AT_ONCE; u++) {
        const vf step = load_vf((const float *)(const void *)(keys + pairs * CPU_KEY_BLOCK) +
                                (begin + u) * LANES);
        UNROLL
        for (int r = 0; r < rows; r++)
            scores[r][begin + u] = int_to_vf(acc[r][u]) * (step * s->step[first + r]);
    }
}

/* Computes scores[rows] of queries first .. against a block of n patches; missing patches get a
 * very low score. */
INLINE void vision_scores(vf (*scores)[KEY_BLOCK_VECTORS], const struct vision_queries *s,
                          const void *block, int dim, int n, int first, int rows)
{
    UNROLL
    for (int begin = 0; begin < KEY_BLOCK_VECTORS; begin += VECTORS_AT_ONCE)
        vision_score_vectors(scores, s, block, pairs_of(dim), first, rows, begin);
    if (n == CPU_KEY_BLOCK) return;
    UNROLL
    for (int i = 0; i < rows * KEY_BLOCK_VECTORS; i++)
        scores[i / KEY_BLOCK_VECTORS][i % KEY_BLOCK_VECTORS] = mask_scores(
            scores[i / KEY_BLOCK_VECTORS][i % KEY_BLOCK_VECTORS],
            n - i % KEY_BLOCK_VECTORS * LANES);
}

/* 2^x for x below 126, relative error at most 4e-6 (weights are rounded to fewer bits): 2^n, n the
 * nearest integer, times the polynomial of degree 4 through the Chebyshev points of -1/2 .. 1/2.
 * x below -100 counts as -100, so that small products with a weight stay above 2^-126, where
 * float32 becomes denormal. NaN stays NaN. */
INLINE vf exp2_vf(vf x)
{
    const vf near = max_vf(splat(-100.0f), x), shifted = near + 12582912.0f,
             r = near - (shifted - 12582912.0f);
    vf p = splat(9.666368515e-3f);
    p = p * r + 5.592197584e-2f;
    p = p * r + 2.402234904e-1f;
    p = p * r + 6.931210452e-1f;
    p = p * r + 1.0f;
    return (vf)((vi)p + ((vi)shifted << 23)); /* n is in the low bits of `shifted` */
}

/* Rescales the row's sums so far to a new maximum. */
static __attribute__((noinline)) void rescale_vision_row(struct vision_queries *s, int r, float max)
{
    const float factor = exp2_vf(splat(s->max[r] - max))[0];
    float *o = s->o + (size_t)r * s->o_stride;
    s->max[r] = max;
    s->sum[r] *= factor;
    for (size_t d = 0; d < s->o_stride; d += LANES)
        store_vf(o + d, load_vf(o + d) * factor + O_INIT);
}

/* Turns a row's scores into weights against its maximum. */
INLINE void softmax_vision_row(struct vision_queries *s, int r, vf scores[KEY_BLOCK_VECTORS])
{
    vf block_max = scores[0], total = s->sum[r];
    UNROLL
    for (int u = 1; u < KEY_BLOCK_VECTORS; u++)
        block_max = max_vf(block_max, scores[u]);
    if (any_above(block_max, s->max[r] + MAX_GROWTH)) {
        rescale_vision_row(s, r, max_lane(block_max));
        total = s->sum[r];
    }
    UNROLL
    for (int u = 0; u < KEY_BLOCK_VECTORS; u++)
        total += scores[u] = exp2_vf(scores[u] - s->max[r]);
    s->sum[r] = total;
}

INLINE void finish_vision_rows(const struct vision_attention_tile *t,
                               const struct vision_queries *s)
{
    for (int r = 0; r < t->n_rows; r++) {
        const float sum = sum_lanes(s->sum[r]);
        for (int d = 0; d < t->dim; d++)
            t->o[(size_t)r * t->o_stride + (size_t)d] = s->o[(size_t)r * s->o_stride + (size_t)d] /
                                                        sum;
    }
}
