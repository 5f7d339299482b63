/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of an answer: everything in it dies together. */
#ifndef EY_ENGINE_ANSWER_H
#define EY_ENGINE_ANSWER_H

#include "engine/engine_internal.h"
#include "engine/request/thought.h"
#include "engine/sample/logprobs.h"

/* What the decode loop leaves: ids and scores, planned for max_tokens before the loop. */
struct output_tokens {
    int32_t *id;                        /* [max_tokens + 1] the stop token included */
    struct token_logprob *logprob;      /* [max_tokens + 1], when log-probabilities are wanted */
    struct token_logprob *top_logprobs; /* [max_tokens + 1, n_top] */
    int n, max_tokens, n_top;
    bool wants_logprobs;
    bool ends_with_stop_id; /* the last id is a stop token */
};

/* Arena that the answer owns; NULL: no memory. */
struct arena *answer_arena(ey_answer *answer);
/* Its vector or score, of an answer with an arena. */
struct pooled_answer *answer_pooled(ey_answer *answer);
bool output_tokens_open(struct output_tokens *output, struct arena *arena, int max_tokens,
                        int top_logprobs, ey_err *e);
ey_logprob logprob_of(const ey_engine *engine, struct token_logprob s);
/* Turns ids and scores into thought, text, tokens and log-probabilities of the answer. */
bool answer_fill(ey_answer *answer, const ey_engine *engine, const struct output_tokens *output,
                 const struct thought *thought, ey_err *e);
/* The text ends before the first stop text at or after byte `from`. */
void answer_cut_at_stop_string(ey_answer *answer, size_t from, const char *const *stop,
                               size_t n_stop);

#endif
