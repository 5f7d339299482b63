/* SPDX-License-Identifier: Apache-2.0 */
/* Raw logits -> the most likely token and log-probabilities. */
#ifndef EY_LOGPROBS_H
#define EY_LOGPROBS_H
#include <stdint.h>

struct token_logprob {
    int32_t id;
    float logprob;
};

/* The largest logit's id; the lower one among equals. */
int32_t logits_argmax(const float *logits, int n);
/* Log-probabilities of `chosen` and of the `top` best, descending, the lower id first among equals.
 * Allocates nothing. */
void logits_score(const float *logits, int n, int32_t chosen, int top,
                  struct token_logprob *out_chosen, struct token_logprob *out_top);
/* The place of an id among all, from 1 on, in that order. */
int32_t logits_rank(const float *logits, int n, int32_t id);

#endif
