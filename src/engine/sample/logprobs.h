/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the most likely token and log-probabilities from raw logits. */
#ifndef EY_LOGPROBS_H
#define EY_LOGPROBS_H
#include <stdint.h>

struct token_logprob {
    int32_t id;
    float logprob;
};

/* Returns the id of the largest logit, the lower id among equals. */
int32_t logits_argmax(const float *logits, int n);
/* Computes the log-probabilities of `chosen` and of the `top` best tokens, descending, the lower id
 * first among equals. Allocates nothing. */
void logits_score(const float *logits, int n, int32_t chosen, int top,
                  struct token_logprob *out_chosen, struct token_logprob *out_top);
/* Returns the rank of an id in that order, from 1. */
int32_t logits_rank(const float *logits, int n, int32_t id);

#endif
