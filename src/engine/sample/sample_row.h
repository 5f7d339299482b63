/* SPDX-License-Identifier: Apache-2.0 */
/* Samples a token from a step's logits. */
#ifndef EY_SAMPLE_ROW_H
#define EY_SAMPLE_ROW_H
#include "engine/request/generation.h"

/* A row of the last step from which a token is sampled. */
struct step_row {
    int logits_row; /* index among the step's rows of logits */
    dev x;          /* the step's residual stream */
    int x_row;      /* the row in it */
};
/* Computes the normed hidden state out[hidden] from which logits are computed. Call it after the
 * step; the norm's weights must be on the host (host_buffers.rescore_norm). */
void read_normed_row(const ey_engine *engine, float *out, dev x, int row);
/* Returns the next token, sampled with the request's parameters and grammar; stores its
 * log-probabilities if they were requested. */
int32_t sample_row(ey_engine *engine, ey_generation *gen, const struct step_row *row);

/* The probability of a known token at a row's position. */
struct token_score {
    struct token_logprob token;
    int32_t rank;
};
/* Scores token `id`; out_top receives the `top` most likely tokens. */
struct token_score score_known_token(ey_engine *engine, const struct step_row *row, int32_t id,
                                     int top, struct token_logprob *out_top);

#endif
