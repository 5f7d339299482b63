/* SPDX-License-Identifier: Apache-2.0 */
/* A running softmax over blocks of keys; shared by attention of vectors and of tiles. */

enum { KEY_BLOCK_VECTORS = CPU_KEY_BLOCK / LANES };

/* p · 2^n where x is at least -87 or NaN, else 0. n is in the low bits of `shifted`. */
INLINE vf scale_by_power(vf p, vf shifted, vf x)
{
    vi scaled = (vi)p + ((vi)shifted << 23);
#if LANES == 16
    return (vf)_mm512_maskz_mov_epi32(
        _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-87), _CMP_NLT_UQ), (__m512i)scaled);
#else
    return (vf)(scaled & ~(vi)(x < -87.0f));
#endif
}

/* e^x for x <= 88, relative error below 2e-7: 2^n, n = round(x/ln 2), times the polynomial of
 * degree 6 with the least relative error up to ln(2)/2. 1 for 0; below -87, where float32 ends, 0;
 * NaN stays NaN. */
INLINE vf exp_vf(vf x)
{
    vf near = max_vf(splat(-87.0f), x), shifted = near * 1.44269504f + 12582912.0f,
       n = shifted - 12582912.0f;
    vf r = near - n * 0.693359375f + n * 2.12194440e-4f;
    vf p = splat(1.38436072e-3f);
    p = p * r + 8.37419555e-3f;
    p = p * r + 4.16680053e-2f;
    p = p * r + 1.66664302e-1f;
    p = p * r + 0.49999994f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return scale_by_power(p, shifted, x);
}

/* How far scores may be above the row's maximum before that is raised: most blocks do not, and then
 * nothing waits for a look across lanes. */
#define MAX_GROWTH 8.0f

/* What the row has so far becomes relative to a new maximum. */
static __attribute__((noinline)) void rescale_row(struct attention_tile *t, int r, float max)
{
    float factor = exp_vf(splat(t->max[r] - max))[0], *o = t->o + (size_t)r * t->o_stride;
    t->max[r] = max;
    t->sum[r] *= factor;
    for (size_t d = 0; d < t->o_stride; d += LANES)
        store_vf(o + d, load_vf(o + d) * factor);
}

/* Turns a row's scores into weights against its maximum. */
INLINE void softmax_row(struct attention_tile *t, int r, float *scores)
{
    for (int j = 0; j < t->first_key[r]; j++)
        scores[j] = -1e30f;
    for (int j = t->end_key[r]; j < CPU_KEY_BLOCK; j++)
        scores[j] = -1e30f;
    vf block_max = load_vf(scores), total = {0};
    for (size_t u = 1; u < KEY_BLOCK_VECTORS; u++)
        block_max = max_vf(block_max, load_vf(scores + u * LANES));
    if (any_above(block_max, t->max[r] + MAX_GROWTH)) rescale_row(t, r, max_lane(block_max));
    for (size_t u = 0; u < KEY_BLOCK_VECTORS; u++) {
        vf p = exp_vf(load_vf(scores + u * LANES) - t->max[r]); /* 0 where masked */
        store_vf(scores + u * LANES, p);
        total += p;
    }
    t->sum[r] += sum_lanes(total);
}
