/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the most likely token and log-probabilities from logits. */
#include <math.h>

#include "engine/sample/logprobs.h"

int32_t logits_argmax(const float *logits, int n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static double log_sum_exp(const float *logits, int n, float max)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)expf(logits[i] - max);
    return (double)max + log(sum);
}

/* Inserts into out[0..count), sorted descending, of at most `top` entries; returns the new count.
 * Ids come in ascending order, so the lower id stays first among equal logits. */
static int insert_logprob(struct token_logprob *out, int count, int top, int32_t id, float logit)
{
    if (count == top && !(logit > out[count - 1].logprob)) return count;
    int at = count < top ? count++ : top - 1;
    for (; at > 0 && logit > out[at - 1].logprob; at--)
        out[at] = out[at - 1];
    out[at] = (struct token_logprob){id, logit};
    return count;
}

void logits_score(const float *logits, int n, int32_t chosen, int top,
                  struct token_logprob *out_chosen, struct token_logprob *out_top)
{
    double total = log_sum_exp(logits, n, logits[logits_argmax(logits, n)]);
    *out_chosen = (struct token_logprob){chosen, (float)((double)logits[chosen] - total)};
    if (top > n) top = n;
    int count = 0;
    for (int32_t i = 0; top > 0 && i < n; i++)
        count = insert_logprob(out_top, count, top, i, logits[i]);
    for (int i = 0; i < count; i++)
        out_top[i].logprob = (float)((double)out_top[i].logprob - total);
}

int32_t logits_rank(const float *logits, int n, int32_t id)
{
    int32_t before = 0;
    for (int32_t i = 0; i < n; i++)
        before += logits[i] > logits[id] || (logits[i] == logits[id] && i < id);
    return before + 1;
}
