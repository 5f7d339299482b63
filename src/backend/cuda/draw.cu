/* SPDX-License-Identifier: Apache-2.0 */
/* Between two steps: their inputs and results on their way, and the next token, drawn on the card,
 * so that the step after can start before the host has seen it. The host draws too, and what it
 * draws counts: a different rounding of exp here costs a step, no answer. */
#include "backend/cuda/draw_shape.h"
#include "backend/cuda/ptx.cuh"

EY_KERNEL(copy_words, struct words_args, WORDS_BLOCK, 1)
{
    wait_for_previous();
    let_next_start();
    for (int i = (int)threadIdx.x; i < a.n; i += WORDS_BLOCK)
        a.to[i] = a.from[i];
}

/* As the sampler's: uniform in [0, 1) from seed and step (splitmix64). */
EY_DEVICE double uniform(uint64_t seed, uint64_t step)
{
    uint64_t z = seed + (step + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* How many candidates stay after top_k (ties of the k-th kept), top_p and min_p. */
EY_DEVICE int kept(const double *weight, const float *score, int n, const struct drawing *d)
{
    int most = 0, count = 0;
    double total = 0, before = 0;
    while (most < n && (most < d->top_k || !(score[most] < score[most - 1])))
        total += weight[most++];
    for (; count < most; before += weight[count++])
        if (count && (before / total >= (double)d->top_p || weight[count] < (double)d->min_p))
            break;
    return count;
}

EY_DEVICE int drawn(const double *weight, int n, const struct drawing *d)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += weight[i];
    double left = uniform(d->seed, d->step) * sum;
    int i = 0;
    while (i + 1 < n && left >= weight[i])
        left -= weight[i++];
    return i;
}

EY_KERNEL(draw_tokens, struct draw_args, 32, 1)
{
    __shared__ double weight[CANDIDATES];
    __shared__ float score[CANDIDATES];
    int row = (int)blockIdx.x, lane = lane_index();
    wait_for_previous();
    let_next_start();
    const struct candidate *best = a.best + row * CANDIDATES;
    const struct drawing *d = a.drawing + row;
    bool warm = d->temperature > 0;
    for (int i = lane; i < CANDIDATES; i += 32) {
        score[i] = warm ? best[i].logit / d->temperature : 0;
        weight[i] = warm ? exp((double)(score[i] - best[0].logit / d->temperature)) : 0;
    }
    __syncwarp();
    if (lane) return;
    int n = 0;
    while (n < CANDIDATES && best[n].id >= 0)
        n++;
    int chosen = warm ? drawn(weight, kept(weight, score, n, d), d) : 0;
    a.token[row] = a.drawn[row] = best[chosen].id < 0 ? 0 : best[chosen].id;
}
