/* A running softmax over blocks of keys; shared by attention of vectors and of tiles. */

enum { KEY_VECTORS = CPU_KEYS / LANES };

/* e^x for x <= 0, relative error below 2e-7: 2^round(x/ln 2) times a polynomial. Below -87, where float32 ends, 0; NaN
 * stays NaN. */
INLINE vf exp_of(vf x)
{
    vi nothing = x < -87.0f;
    x = max_of(splat(-87.0f), x);
    vf shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
    vf r = x - n * 0.693359375f + n * 2.12194440e-4f;
    vf p = splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return (vf)(((vi)p + (__builtin_convertvector(n, vi) << 23)) & ~nothing);
}

/* Turns a row's scores into weights against its new maximum, and scales what it has so far. */
INLINE void soften_row(struct attend_tile *t, int r, float *scores)
{
    for (int j = 0; j < t->from[r]; j++) scores[j] = -1e30f;
    for (int j = t->n_keys[r]; j < CPU_KEYS; j++) scores[j] = -1e30f;
    vf most = load(scores), total = {0};
    for (int u = 1; u < KEY_VECTORS; u++) most = max_of(most, load(scores + (size_t)u * LANES));
    float block_max = lanes_max(most), max = block_max > t->max[r] ? block_max : t->max[r];
    for (int u = 0; u < KEY_VECTORS; u++) {
        vf s = load(scores + (size_t)u * LANES);
        vf p = exp_of(s - max); /* 0 where masked */
        store(scores + (size_t)u * LANES, p);
        total += p;
    }
    float keep = exp_of(splat(t->max[r] - max))[0];
    t->sum[r] = t->sum[r] * keep + lanes_sum(total);
    t->max[r] = max;
    float *o = t->o + (size_t)r * t->o_stride;
    if (keep == 1) return;
    for (size_t d = 0; d < t->o_stride; d += LANES) store(o + d, load(o + d) * keep);
}
