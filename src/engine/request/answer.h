/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of an answer: one arena, freed as a whole. */
#ifndef EY_ENGINE_ANSWER_H
#define EY_ENGINE_ANSWER_H

#include "engine/engine_internal.h"
#include "engine/request/thought.h"
#include "engine/sample/logprobs.h"

/* Ids and scores that the decode loop writes, allocated for max_tokens before the loop. */
struct output_tokens {
    int32_t *id;                        /* [max_tokens + 1] including the stop token */
    struct token_logprob *logprob;      /* [max_tokens + 1] if log-probabilities were requested */
    struct token_logprob *top_logprobs; /* [max_tokens + 1, n_top] */
    int n, max_tokens, n_top;
    bool wants_logprobs;
    bool ends_with_stop_id; /* the last id is a stop token */
};

/* Returns the arena that the answer owns, created at the first call; NULL if memory runs out. */
struct arena *answer_arena(ey_answer *answer);
/* Returns the vector or score of an answer that has an arena. */
struct pooled_answer *answer_pooled(ey_answer *answer);
bool output_tokens_open(struct output_tokens *output, struct arena *arena, int max_tokens,
                        int top_logprobs, ey_err *e);
ey_logprob logprob_of(const ey_engine *engine, struct token_logprob s);
/* Fills the answer's thought, text, tokens and log-probabilities from ids and scores. */
bool answer_fill(ey_answer *answer, const ey_engine *engine, const struct output_tokens *output,
                 const struct thought *thought, ey_err *e);
/* Cuts the text off at the first stop string that begins at or after byte `from`. */
void answer_cut_at_stop_string(ey_answer *answer, size_t from, const char *const *stop,
                               size_t n_stop);

#endif
