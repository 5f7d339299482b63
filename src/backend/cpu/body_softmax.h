/* SPDX-License-Identifier: Apache-2.0 */
/* A running softmax over blocks of keys; shared by attention of vectors and of tiles. */

enum { KEY_VECTORS = CPU_KEYS / LANES };

/* p · 2^n where x is at least -87 or NaN, else 0. n is in the low bits of `shifted`. */
INLINE vf times_power(vf p, vf shifted, vf x)
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
INLINE vf exp_of(vf x)
{
    vf near = max_of(splat(-87.0f), x), shifted = near * 1.44269504f + 12582912.0f,
       n = shifted - 12582912.0f;
    vf r = near - n * 0.693359375f + n * 2.12194440e-4f;
    vf p = splat(1.38436072e-3f);
    p = p * r + 8.37419555e-3f;
    p = p * r + 4.16680053e-2f;
    p = p * r + 1.66664302e-1f;
    p = p * r + 0.49999994f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return times_power(p, shifted, x);
}

/* How far scores may be above the row's maximum before that is raised: most blocks do not, and then
 * nothing waits for a look across lanes. */
#define GROWTH 8.0f

/* What the row has so far becomes relative to a new maximum. */
static __attribute__((noinline)) void raise_max(struct attend_tile *t, int r, float max)
{
    float keep = exp_of(splat(t->max[r] - max))[0], *o = t->o + (size_t)r * t->o_stride;
    t->max[r] = max;
    t->sum[r] *= keep;
    for (size_t d = 0; d < t->o_stride; d += LANES)
        store(o + d, load(o + d) * keep);
}

/* Turns a row's scores into weights against its maximum. */
INLINE void soften_row(struct attend_tile *t, int r, float *scores)
{
    for (int j = 0; j < t->from[r]; j++)
        scores[j] = -1e30f;
    for (int j = t->n_keys[r]; j < CPU_KEYS; j++)
        scores[j] = -1e30f;
    vf most = load(scores), total = {0};
    for (size_t u = 1; u < KEY_VECTORS; u++)
        most = max_of(most, load(scores + u * LANES));
    if (any_above(most, t->max[r] + GROWTH)) raise_max(t, r, lanes_max(most));
    for (size_t u = 0; u < KEY_VECTORS; u++) {
        vf p = exp_of(load(scores + u * LANES) - t->max[r]); /* 0 where masked */
        store(scores + u * LANES, p);
        total += p;
    }
    t->sum[r] += lanes_sum(total);
}
