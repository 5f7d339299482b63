/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of an answer: everything in it dies together. */
#ifndef EY_ENGINE_ANSWER_H
#define EY_ENGINE_ANSWER_H

#include "engine/engine_internal.h"

/* What the decode loop leaves: ids and scores, planned for max_tokens before the loop. */
struct generation {
    int32_t *id;           /* [max_tokens + 1] the stop token included */
    struct scored *chosen; /* [max_tokens + 1], when log-probabilities are wanted */
    struct scored *top;    /* [max_tokens + 1, n_top] */
    int n, max_tokens, n_top;
    bool scored;
    bool stopped; /* the last id is a stop token */
};

/* Arena that the answer owns; NULL: no memory. */
struct arena *answer_arena(ey_answer *answer);
bool generation_open(struct generation *g, struct arena *arena, int max_tokens, int top_logprobs,
                     ey_err *e);
ey_candidate candidate_of(const ey_engine *engine, struct scored s);
/* Turns ids and scores into text, tokens and log-probabilities of the answer. */
bool answer_fill(ey_answer *answer, const ey_engine *engine, const struct generation *g, ey_err *e);
/* The text ends before the first stop text. */
void answer_cut_at_stop(ey_answer *answer, const char *const *stop, size_t n_stop);

#endif
