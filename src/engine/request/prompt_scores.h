/* SPDX-License-Identifier: Apache-2.0 */
/* Log-probabilities of a prompt's own tokens, allocated before the prompt is computed. */
#ifndef EY_ENGINE_PROMPT_SCORES_H
#define EY_ENGINE_PROMPT_SCORES_H

#include "engine/engine_internal.h"
#include "engine/sample/logprobs.h"

struct prompt_scores {
    struct token_logprob *token; /* [n] the first has no log-probability; NULL if not requested */
    int32_t *rank;               /* [n] */
    struct token_logprob *top;   /* [n, n_top] */
    int n, n_top;
    int n_done; /* scores known so far */
};

/* Allocates the scores of a prompt of ids[n] in the arena. */
bool prompt_scores_open(struct prompt_scores *scores, struct arena *arena, const int32_t *ids,
                        size_t n, int n_top, ey_err *e);
/* Returns the scores of token i; top[n_top] receives the alternatives. */
ey_token_logprobs prompt_scores_at(const struct prompt_scores *scores, const ey_engine *engine,
                                   int i, ey_logprob *top);
bool prompt_scores_fill_answer(ey_answer *answer, struct arena *arena, const ey_engine *engine,
                               const struct prompt_scores *scores, ey_err *e);

/* Whether scores are still missing, so that no row of the prompt may come from a cache. */
static inline bool prompt_scores_pending(const struct prompt_scores *scores)
{
    return scores->n_done < scores->n;
}

#endif
