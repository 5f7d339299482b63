/* SPDX-License-Identifier: Apache-2.0 */
/* From a step's logits to a token. */
#ifndef EY_SAMPLE_ROW_H
#define EY_SAMPLE_ROW_H
#include "engine/request/generation.h"

/* A row of the last step that a token is taken from. */
struct step_row {
    int logits_row; /* which of the step's rows of logits */
    dev x;          /* the step's residual stream … */
    int x_row;      /* … and the row in it */
};
/* The normed hidden state [hidden] that logits are computed from; after the step's end, and where
 * the norm's weights are on the host (host_buffers.rescore_norm). */
void read_normed_row(const ey_engine *engine, float *out, dev x, int row);
/* Samples the next token with the request's parameters and grammar; stores log-probabilities if
 * wanted. */
int32_t sample_row(ey_engine *engine, ey_generation *gen, const struct step_row *row);

/* How likely a token would have been in a row's place. */
struct token_score {
    struct token_logprob token;
    int32_t rank;
};
/* Of token `id`; the `top` likeliest go to out_top. */
struct token_score score_known_token(ey_engine *engine, const struct step_row *row, int32_t id,
                                     int top, struct token_logprob *out_top);

#endif
