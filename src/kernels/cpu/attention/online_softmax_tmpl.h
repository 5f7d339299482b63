/* SPDX-License-Identifier: Apache-2.0 */
/* Online softmax over blocks of keys: shared by causal attention with vectors and with tiles. */
#ifndef EY_KERNELS_CPU_ONLINE_SOFTMAX_TMPL_H
#define EY_KERNELS_CPU_ONLINE_SOFTMAX_TMPL_H

#include "kernels/cpu/common/exp_tmpl.h"

enum { KEY_BLOCK_VECTORS = CPU_KEY_BLOCK / LANES };

/* How far scores may exceed the row's maximum before it is raised: most blocks stay below, and need
 * no maximum across lanes. */
#define MAX_GROWTH 8.0f

/* Rescales the row's sums so far to a new maximum. */
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

#endif
