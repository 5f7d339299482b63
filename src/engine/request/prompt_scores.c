/* SPDX-License-Identifier: Apache-2.0 */
/* Stores a prompt's log-probabilities and converts them for the API. */
#include "engine/request/prompt_scores.h"

#include <math.h>

#include "engine/request/answer.h"

bool prompt_scores_open(struct prompt_scores *scores, struct arena *arena, const int32_t *ids,
                        size_t n, int n_top, ey_err *e)
{
    const size_t top = n_top > 0 ? (size_t)n_top : 0;
    *scores = (struct prompt_scores){.n = (int)n, .n_top = (int)top, .n_done = 1};
    scores->token = arena_array(arena, n + 1, sizeof(*scores->token));
    scores->rank = arena_array(arena, n + 1, sizeof(*scores->rank));
    scores->top = arena_array(arena, n * top + 1, sizeof(*scores->top));
    if (!scores->token || !scores->rank || !scores->top)
        return ey_fail_memory(e, "the prompt's log-probabilities",
                              n * (top + 1) * sizeof(*scores->top));
    for (size_t i = 0; i < n; i++)
        scores->token[i] = (struct token_logprob){ids[i], NAN};
    return true;
}

ey_token_logprobs prompt_scores_at(const struct prompt_scores *scores, const ey_engine *engine,
                                   int i, ey_logprob *top)
{
    ey_token_logprobs out = {.chosen = logprob_of(engine, scores->token[i]), .top = top};
    if (!i || i >= scores->n_done) return out;
    for (; out.n_top < (size_t)scores->n_top; out.n_top++)
        top[out.n_top] = logprob_of(engine,
                                    scores->top[(size_t)i * (size_t)scores->n_top + out.n_top]);
    return out;
}

bool prompt_scores_fill_answer(ey_answer *answer, struct arena *arena, const ey_engine *engine,
                               const struct prompt_scores *scores, ey_err *e)
{
    const size_t n = (size_t)scores->n, n_top = (size_t)scores->n_top;
    if (!scores->token) return true;
    answer->prompt_logprobs = arena_array(arena, n + 1, sizeof(*answer->prompt_logprobs));
    ey_logprob *top = arena_array(arena, n * n_top + 1, sizeof(*top));
    if (!answer->prompt_logprobs || !top)
        return ey_fail_memory(e, "the prompt's log-probabilities", n * n_top * sizeof(*top));
    for (size_t i = 0; i < n; i++)
        answer->prompt_logprobs[i] = prompt_scores_at(scores, engine, (int)i, top + i * n_top);
    answer->prompt_ranks = scores->rank;
    answer->n_prompt_logprobs = n;
    return true;
}
