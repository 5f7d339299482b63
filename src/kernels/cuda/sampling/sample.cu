/* SPDX-License-Identifier: Apache-2.0 */
/* Samples the next token on the GPU, so that the next step can start before the host has seen the
 * logits, and copies a step's inputs and outputs. The host samples too, and its token is final: if
 * exp rounds differently here, a step is lost, but the answer is the same. */
#include "kernels/cuda/sampling/sample_launch.h"
#include "kernels/cuda/common/ptx.cuh"

EY_KERNEL(copy_words, struct copy_words_args, COPY_WORDS_THREADS, 1)
{
    wait_for_previous();
    let_next_start();
    for (int i = (int)threadIdx.x; i < a.n; i += COPY_WORDS_THREADS)
        a.to[i] = a.from[i];
}

/* Returns a uniform number in [0, 1) from seed and step (splitmix64), as the sampler does. */
EY_DEVICE double sample_uniform(uint64_t seed, uint64_t step)
{
    uint64_t z = seed + (step + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* Returns how many logits remain after top_k (ties with the k-th kept), top_p and min_p. */
EY_DEVICE int n_kept_logits(const double *weight, const float *score, int n,
                            const struct sample_params *d)
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

EY_DEVICE int sample_index(const double *weight, int n, const struct sample_params *d)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += weight[i];
    double left = sample_uniform(d->seed, d->step) * sum;
    int i = 0;
    while (i + 1 < n && left >= weight[i])
        left -= weight[i++];
    return i;
}

EY_KERNEL(sample_tokens, struct sample_args, 32, 1)
{
    __shared__ double weight[TOPK];
    __shared__ float score[TOPK];
    int row = (int)blockIdx.x, lane = lane_index();
    wait_for_previous();
    let_next_start();
    const struct topk_logit *best = a.best + row * TOPK;
    const struct sample_params *d = a.params + row;
    bool warm = d->temperature > 0;
    for (int i = lane; i < TOPK; i += 32) {
        score[i] = warm ? best[i].logit / d->temperature : 0;
        weight[i] = warm ? exp((double)(score[i] - best[0].logit / d->temperature)) : 0;
    }
    __syncwarp();
    if (lane) return;
    int n = 0;
    while (n < TOPK && best[n].id >= 0)
        n++;
    int chosen = warm ? sample_index(weight, n_kept_logits(weight, score, n, d), d) : 0;
    a.token[row] = a.sampled[row] = best[chosen].id < 0 ? 0 : best[chosen].id;
}
