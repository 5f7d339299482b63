/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for a vector or a score: their checks, the memory of the result, and the truncation of
 * prompts that are too long. */
#include "engine/request/pooled.h"

#include <string.h>

#include "engine/engine_internal.h"
#include "engine/request/answer.h"

ey_task ey_engine_task(const ey_engine *engine)
{
    return engine->devices.model.task;
}

int ey_engine_dimensions(const ey_engine *engine)
{
    return engine->devices.model.text.hidden;
}

/* ---- requests ---- */

bool pooled_check_task(const ey_request *request, ey_task task, ey_err *e)
{
    if (!request->pool && request->input)
        return ey_fail(e, EY_BAD_REQUEST, "`input` is only for requests with `pool`");
    return task != EY_TASK_GENERATE || !request->pool ||
           ey_fail(
               e, EY_BAD_REQUEST,
               "this model generates text; it makes no vectors or scores: use a Qwen3-VL-Embedding "
               "or -Reranker checkpoint");
}

bool pooled_check_answer(bool pools, ey_task task, ey_err *e)
{
    if (pools == (task != EY_TASK_GENERATE)) return true;
    return ey_fail(e, EY_BAD_REQUEST, "this model %s and does not answer",
                   task == EY_TASK_EMBED ? "makes embeddings" : "scores documents");
}

static bool check_dimensions(int dimensions, int all, ey_err *e)
{
    return !dimensions || (dimensions >= EY_MIN_DIMENSIONS && dimensions <= all) ||
           (dimensions == all) ||
           ey_fail(e, EY_BAD_REQUEST, "dimensions is %d; it must be from %d to %d", dimensions,
                   EY_MIN_DIMENSIONS, all);
}

bool pooled_open(struct pooled_answer **out, ey_answer *answer, const ey_request *request,
                 const struct model *model, ey_err *e)
{
    const int hidden = model->text.hidden;
    struct pooled_answer *pooled = answer_pooled(answer);
    if (!check_dimensions(request->dimensions, hidden, e)) return false;
    if (request->prompt_logprobs)
        return ey_fail(e, EY_BAD_REQUEST, "a vector or a score has no log-probabilities");
    pooled->vector = arena_array(answer_arena(answer), (size_t)hidden, sizeof(float));
    if (!pooled->vector) return ey_fail_memory(e, "the vector", (size_t)hidden * sizeof(float));
    pooled->n = (size_t)(request->dimensions ? request->dimensions : hidden);
    pooled->raw = request->raw_vector;
    pooled->scores = model->task == EY_TASK_RERANK;
    *out = pooled;
    return true;
}

ey_pooled ey_answer_pooled(const ey_answer *const_answer)
{
    ey_answer answer = *const_answer;
    const struct pooled_answer *pooled = answer.owner ? answer_pooled(&answer) : NULL;
    if (!pooled || !pooled->done) return (ey_pooled){0};
    if (pooled->scores) return (ey_pooled){.score = pooled->score};
    return (ey_pooled){.vector = pooled->vector, .n_vector = pooled->n};
}

/* ---- prompts that are too long ---- */

static int prompt_limit(const ey_engine *engine, const ey_request *request)
{
    const int context = engine->limits.max_model_len - 1, given = request->max_prompt_tokens;
    return given > 0 && given < context ? given : context;
}

/* Returns the number of tokens from the last end of a turn to the prompt's end, which truncation
 * must keep; 0 if no turn ends. */
static size_t closing_tokens(const ey_prompt *p, int32_t turn_end)
{
    for (size_t i = p->ids.n; i-- > 0;)
        if (p->ids.id[i] == turn_end) return p->ids.n - i;
    return 0;
}

/* Returns how many tokens just before row `end` are ordinary, not special ones. */
static size_t ordinary_before(const ey_prompt *p, const struct tokenizer *tok, size_t end)
{
    size_t n = 0;
    while (n < end && !tokenizer_is_special(tok, p->ids.id[end - n - 1]))
        n++;
    return n;
}

static bool fail_long_prompt(const ey_prompt *p, int limit, ey_err *e)
{
    return ey_fail(e, EY_TOO_LONG, "the input has %zu tokens; at most %d are possible", p->ids.n,
                   limit);
}

bool pooled_fit_prompt(ey_prompt *p, const ey_engine *engine, const ey_request *request, ey_err *e)
{
    const struct engine_devices *devices = &engine->devices;
    const int limit = prompt_limit(engine, request);
    const int32_t turn_end = tokenizer_added_id(devices->tok, devices->model.family->turn_end);
    if (p->ids.n <= (size_t)limit) return true;
    const size_t closing = closing_tokens(p, turn_end), end = p->ids.n - closing,
                 excess = p->ids.n - (size_t)limit;
    if (!request->truncate || ordinary_before(p, devices->tok, end) < excess)
        return fail_long_prompt(p, limit, e);
    memmove(p->ids.id + end - excess, p->ids.id + end, closing * sizeof(*p->ids.id));
    p->ids.n -= excess;
    for (size_t i = 0; i < p->n_images; i++)
        if (p->images[i].span.first >= end) p->images[i].span.first -= excess;
    return true;
}
