/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a generation, lets its reader poll for text, cancel and collect it, and lets the scheduler
 * report progress and the end. */
#include "engine/request/generation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "constrain/constrain.h"
#include "engine/engine_internal.h"

enum {
    MAX_UNREAD_BYTES = 64 << 10, /* text that was not fetched yet */
    UNREAD_FULL_BYTES = MAX_UNREAD_BYTES - 5 * EY_MAX_TOKEN_BYTES - EY_MAX_STOP_BYTES -
                        MAX_HELD_BREAKS, /* leaves room for the text that one more token may add */
    MAX_ABS_BIAS = 100,                  /* as in the OpenAI API */
};

/* ---- start ---- */

static bool check_request(const ey_request *request, const struct engine_devices *devices,
                          ey_err *e)
{
    if (request->max_tokens < 0)
        return ey_fail(e, EY_BAD_REQUEST, "max_tokens is %d; it must be at least 1",
                       request->max_tokens);
    if (request->min_tokens < 0)
        return ey_fail(e, EY_BAD_REQUEST, "min_tokens is %d; it must be at least 0",
                       request->min_tokens);
    if (request->max_tokens > 0 && request->min_tokens > request->max_tokens)
        return ey_fail(e, EY_BAD_REQUEST,
                       "min_tokens is %d; it must be from 0 to max_tokens, which is %d",
                       request->min_tokens, request->max_tokens);
    if (!sampling_check(&request->sampling, e) || !loop_guard_check(&request->loop_guard, e))
        return false;
    if (request->thinking_budget < EY_KEEP_ANSWER)
        return ey_fail(e, EY_BAD_REQUEST, "thinking_budget is %d; it must be at least 1",
                       request->thinking_budget);
    if (request->top_logprobs > EY_MAX_TOP_LOGPROBS)
        return ey_fail(e, EY_BAD_REQUEST, "top_logprobs is %d; at most %d are given",
                       request->top_logprobs, EY_MAX_TOP_LOGPROBS);
    if (request->top_prompt_logprobs < 0 || request->top_prompt_logprobs > EY_MAX_TOP_LOGPROBS)
        return ey_fail(e, EY_BAD_REQUEST, "top_prompt_logprobs is %d; it must be from 0 to %d",
                       request->top_prompt_logprobs, EY_MAX_TOP_LOGPROBS);
    if (request->n_stop_ids > EY_MAX_STOP_IDS)
        return ey_fail(e, EY_BAD_REQUEST, "%zu stop tokens; at most %d are possible",
                       request->n_stop_ids, EY_MAX_STOP_IDS);
    if (request->n_logit_bias > EY_MAX_LOGIT_BIAS)
        return ey_fail(e, EY_BAD_REQUEST, "%zu logit biases; at most %d are possible",
                       request->n_logit_bias, EY_MAX_LOGIT_BIAS);
    for (size_t i = 0; i < request->n_logit_bias; i++) {
        const ey_logit_bias *b = &request->logit_bias[i];
        if (b->id < 0 || b->id >= devices->model.text.vocab_size)
            return ey_fail(e, EY_BAD_REQUEST,
                           "logit_bias has token %d, which is not in the vocabulary of %d", b->id,
                           devices->model.text.vocab_size);
        if (!(b->bias >= -MAX_ABS_BIAS && b->bias <= MAX_ABS_BIAS))
            return ey_fail(e, EY_BAD_REQUEST,
                           "logit_bias is %g for token %d; it must be from %d to %d",
                           (double)b->bias, b->id, -MAX_ABS_BIAS, MAX_ABS_BIAS);
    }
    return true;
}

static void *copy_array(struct arena *arena, const void *from, size_t n, size_t size)
{
    void *to = arena_array(arena, n + 1, size);
    if (to && n) memcpy(to, from, n * size);
    return to;
}

/* Collects the tokens that end an answer, which are forbidden until it has min_tokens tokens. With
 * a grammar, none is forbidden: the matcher decides when the answer may end, and it may allow only
 * a token of stop_ids. Before min_tokens, such a token does not end the answer (emit_token.c). */
static bool collect_ends(ey_generation *gen, const ey_request *request, struct arena *arena,
                         ey_err *e)
{
    const struct model *m = &gen->engine->devices.model;
    gen->min_tokens = request->min_tokens;
    if (!request->min_tokens || request->grammar) return true;
    gen->ends = arena_array(arena, (size_t)m->n_eos + request->n_stop_ids + 1, sizeof(*gen->ends));
    if (!gen->ends) return ey_fail_memory(e, "the answer", arena->used);
    for (int i = 0; i < m->n_eos; i++)
        gen->ends[gen->n_ends++] = m->eos[i];
    for (size_t i = 0; i < request->n_stop_ids; i++)
        if (request->stop_ids[i] >= 0 && request->stop_ids[i] < m->text.vocab_size)
            gen->ends[gen->n_ends++] = request->stop_ids[i];
    return true;
}

/* Copies everything the request points to: the caller may free it before the answer ends. */
static bool copy_request(ey_generation *gen, const ey_request *request, ey_err *e)
{
    struct arena *arena = answer_arena(&gen->answer);
    if (!arena) return ey_fail_memory(e, "the answer", sizeof(*arena));
    gen->sampling = request->sampling;
    gen->ignore_eos = request->ignore_eos;
    gen->no_prefix_cache = request->no_prefix_cache;
    gen->stop = arena_array(arena, request->n_stop + 1, sizeof(*gen->stop));
    gen->n_stop = request->n_stop;
    gen->stop_ids = copy_array(arena, request->stop_ids, request->n_stop_ids,
                               sizeof(*gen->stop_ids));
    gen->n_stop_ids = request->n_stop_ids;
    gen->bias = copy_array(arena, request->logit_bias, request->n_logit_bias, sizeof(*gen->bias));
    gen->n_bias = request->n_logit_bias;
    gen->answer.images = copy_array(arena, gen->prompt->usage, gen->prompt->n_images,
                                    sizeof(*gen->answer.images));
    gen->image_entry = arena_array(arena, gen->prompt->n_images + 1, sizeof(*gen->image_entry));
    if (!gen->stop || !gen->stop_ids || !gen->bias || !gen->answer.images || !gen->image_entry)
        return ey_fail_memory(e, "the answer", arena->used);
    if (!collect_ends(gen, request, arena, e)) return false;
    for (size_t i = 0; i < request->n_stop; i++) {
        gen->stop[i] = request->stop[i]
                           ? arena_copy_text(arena, request->stop[i], strlen(request->stop[i]))
                           : NULL;
        if (request->stop[i] && !gen->stop[i])
            return ey_fail_memory(e, "stop texts", strlen(request->stop[i]));
    }
    return true;
}

static bool open_text_buffers(ey_generation *gen, ey_err *e)
{
    gen->token_text = buf_with_max(EY_MAX_TOKEN_BYTES * 4);
    gen->unread_text = buf_with_max(MAX_UNREAD_BYTES + 64);
    gen->event_text = buf_with_max(MAX_UNREAD_BYTES + 64);
    return (buf_reserve(&gen->token_text, EY_MAX_TOKEN_BYTES * 3) &&
            buf_reserve(&gen->unread_text, MAX_UNREAD_BYTES) &&
            buf_reserve(&gen->event_text, MAX_UNREAD_BYTES)) ||
           ey_fail_memory(e, "the answer's text", 2 * MAX_UNREAD_BYTES);
}

static bool open_matcher(ey_generation *gen, ey_grammar *grammar, ey_err *e)
{
    if (!grammar) return true;
    const struct vocabulary *v = engine_vocabulary(gen->engine, e);
    return v && matcher_open(&gen->matcher, grammar, v, e);
}

/* Returns the most tokens that a thought may have; 0 means no limit. */
static int thinking_budget(const ey_request *request, int max_tokens)
{
    int kept = max_tokens / 4 < EY_MAX_KEPT_TOKENS ? max_tokens / 4 : EY_MAX_KEPT_TOKENS;
    return request->thinking_budget == EY_KEEP_ANSWER ? max_tokens - kept
                                                      : request->thinking_budget;
}

static bool open_thought(ey_generation *gen, const ey_request *request, ey_err *e)
{
    const struct thought_rules rules = {.possible = gen->prompt->is_turn,
                                        .opened = gen->prompt->opens_thought,
                                        .constrained = request->grammar,
                                        .end = request->thinking_end};
    if (!thought_open(&gen->thought, gen->engine->devices.tok, &rules, e)) return false;
    gen->thought.budget = thinking_budget(request, gen->output.max_tokens);
    return loop_guard_open(&gen->loop_guard, &request->loop_guard, answer_arena(&gen->answer)) ||
           ey_fail_memory(e, "the answer", (size_t)request->loop_guard.max_pattern * 4);
}

static bool open_prompt_scores(ey_generation *gen, const ey_request *request, ey_err *e)
{
    return !request->prompt_logprobs ||
           prompt_scores_open(&gen->prompt_scores, answer_arena(&gen->answer), gen->prompt->ids.id,
                              gen->prompt->ids.n, request->top_prompt_logprobs, e);
}

static bool generation_init(ey_generation *gen, const ey_request *request, ey_err *e)
{
    int max_new_tokens = gen->engine->limits.max_model_len - (int)gen->prompt->ids.n,
        wanted = request->max_tokens;
    gen->answer.n_images = gen->prompt->n_images;
    gen->answer.prompt_tokens = (int)gen->prompt->ids.n;
    gen->answer.image_tokens = gen->prompt->image_tokens;
    gen->answer.seed = request->sampling.seed;
    gen->answer.stop_id = -1;
    gen->detok = detok_start(gen->engine->devices.tok);
    return check_request(request, &gen->engine->devices, e) &&
           stop_matcher_open(&gen->stop_matcher, request->stop, request->n_stop, e) &&
           copy_request(gen, request, e) &&
           output_tokens_open(&gen->output, answer_arena(&gen->answer),
                              gen->prompt->pools                      ? 0
                              : wanted > 0 && wanted < max_new_tokens ? wanted
                                                                      : max_new_tokens,
                              request->top_logprobs, e) &&
           open_prompt_scores(gen, request, e) && open_thought(gen, request, e) &&
           (gen->prompt->pools
                ? pooled_open(&gen->pooled, &gen->answer, request, &gen->engine->devices.model, e)
                : open_text_buffers(gen, e)) &&
           open_matcher(gen, request->grammar, e);
}

static void generation_free(ey_generation *gen)
{
    ey_prompt_free(&gen->prompt);
    buf_free(&gen->token_text);
    buf_free(&gen->unread_text);
    buf_free(&gen->event_text);
    stop_matcher_close(&gen->stop_matcher);
    matcher_close(&gen->matcher);
    ey_answer_free(&gen->answer);
    pthread_cond_destroy(&gen->changed);
    free(gen);
}

/* Called under the lock. Requests that will run immediately don't count as waiting. */
static bool queue_generation(ey_engine *engine, ey_generation *gen, ey_err *e)
{
    if (engine->scheduler.closing) return ey_fail(e, EY_BUSY, "the engine is being closed");
    if (engine->scheduler.queue.n >=
        engine->limits.max_num_queued + engine->limits.max_num_seqs - engine->scheduler.n_running)
        return ey_fail(
            e, EY_BUSY,
            "queue full: %d requests wait already (--max-num-queued-reqs); try again later",
            engine->scheduler.queue.n);
    request_queue_push(&engine->scheduler.queue, gen);
    pthread_cond_signal(&engine->scheduler.work_ready);
    return true;
}

bool ey_generation_start(ey_engine *engine, ey_prompt *prompt, const ey_request *given,
                         ey_generation **out, ey_err *e)
{
    ey_request request;
    *out = NULL;
    if (!request_read(&request, given, e)) return false;
    ey_generation *gen = calloc(1, sizeof(*gen));
    if (!gen) return ey_fail_memory(e, "the answer", sizeof(*gen));
    gen->engine = engine;
    gen->prompt = prompt;
    gen->phase = EY_PHASE_QUEUE;
    gen->start_time = seconds_now();
    prompt_ref(prompt);
    cond_init_monotonic(&gen->changed);
    bool ok = pooled_check_answer(prompt->pools, engine->devices.model.task, e) &&
              generation_init(gen, &request, e);
    gen->stop_matcher.stop = gen->stop;
    if (ok) {
        pthread_mutex_lock(&engine->scheduler.lock);
        ok = queue_generation(engine, gen, e);
        pthread_mutex_unlock(&engine->scheduler.lock);
    }
    if (ok)
        *out = gen;
    else
        generation_free(gen);
    return ok;
}

/* ---- the caller's side ---- */

static void mark_fetched(ey_generation *gen)
{
    if (gen->unread_since > 0) pthread_cond_signal(&gen->engine->scheduler.work_ready);
    gen->unread_tokens = 0;
    gen->unread_since = 0;
}

/* Takes the unread text. The end of a thought and the beginning of the text become two events. */
static void fetch_text(ey_generation *gen, ey_event *event)
{
    size_t left = gen->event_left, n_thought = gen->unread_thought;
    gen->event_left = 0;
    if (left) {
        event->type = EY_EVENT_TEXT;
        event->text = gen->event_text.data + gen->event_text.size - left;
        event->n_text = left;
        return;
    }
    struct buf spare = gen->event_text;
    gen->event_text = gen->unread_text;
    gen->unread_text = spare;
    buf_clear(&gen->unread_text);
    gen->unread_thought = 0;
    event->type = n_thought ? EY_EVENT_THOUGHT : EY_EVENT_TEXT;
    event->text = gen->event_text.data;
    event->n_text = n_thought ? n_thought : gen->event_text.size;
    gen->event_left = gen->event_text.size - event->n_text;
}

/* Takes the next event under the lock. Returns false if there is none. */
static bool fetch_event(ey_generation *gen, ey_event *event)
{
    *event = (ey_event){.type = EY_EVENT_NONE,
                        .phase = gen->phase,
                        .done = gen->done,
                        .total = gen->total ? gen->total : 1,
                        .n_tokens = gen->n_tokens};
    gen->event_text_first = gen->thought.text_first;
    if (gen->event_left || gen->unread_text.size) {
        fetch_text(gen, event);
    } else if (gen->state == GENERATION_DONE) {
        event->type = EY_EVENT_DONE;
    } else if (gen->phase_changed) {
        event->type = EY_EVENT_PHASE;
        gen->phase_changed = false;
    } else {
        return false;
    }
    mark_fetched(gen);
    return true;
}

void ey_generation_next(ey_generation *gen, int timeout_ms, ey_event *event)
{
    struct timespec end = deadline_after(timeout_ms / 1e3);
    int status = 0;
    pthread_mutex_lock(&gen->engine->scheduler.lock);
    while (!fetch_event(gen, event) && status != ETIMEDOUT)
        status = pthread_cond_timedwait(&gen->changed, &gen->engine->scheduler.lock, &end);
    pthread_mutex_unlock(&gen->engine->scheduler.lock);
}

ey_token_logprobs ey_generation_logprobs(const ey_generation *gen, int i, ey_logprob *top)
{
    const struct output_tokens *output = &gen->output;
    ey_token_logprobs out = {.top = top};
    if (!output->wants_logprobs || i < 0) return out;
    out.chosen.id = -1;
    if (i < gen->event_text_first) return out;
    out.chosen = logprob_of(gen->engine, output->logprob[i]);
    for (out.n_top = 0; out.n_top < (size_t)output->n_top; out.n_top++)
        top[out.n_top] = logprob_of(
            gen->engine, output->top_logprobs[(size_t)i * (size_t)output->n_top + out.n_top]);
    return out;
}

ey_token_logprobs ey_generation_prompt_logprobs(const ey_generation *gen, int i, ey_logprob *top)
{
    if (i < 0 || i >= gen->prompt_scores.n) return (ey_token_logprobs){.chosen.id = -1};
    return prompt_scores_at(&gen->prompt_scores, gen->engine, i, top);
}

void ey_generation_cancel(ey_generation *gen)
{
    pthread_mutex_lock(&gen->engine->scheduler.lock);
    gen->cancelled = true;
    pthread_cond_signal(&gen->engine->scheduler.work_ready);
    pthread_mutex_unlock(&gen->engine->scheduler.lock);
}

bool ey_generation_collect(ey_generation **out, ey_answer *answer, ey_err *e)
{
    ey_generation *gen = *out;
    ey_event event;
    do
        ey_generation_next(gen, 1000, &event);
    while (event.type != EY_EVENT_DONE);
    bool ok = !gen->failed;
    if (!ok && e) *e = gen->error;
    ok = ok && answer_fill(&gen->answer, gen->engine, &gen->output, &gen->thought, e) &&
         prompt_scores_fill_answer(&gen->answer, answer_arena(&gen->answer), gen->engine,
                                   &gen->prompt_scores, e);
    if (ok) answer_cut_at_stop_string(&gen->answer, gen->n_unstoppable, gen->stop, gen->n_stop);
    *answer = gen->answer;
    gen->answer = (ey_answer){0};
    generation_free(gen);
    *out = NULL;
    return ok;
}

/* ---- the scheduler's side ---- */

bool generation_is_unread_full(const ey_generation *gen)
{
    return gen->unread_text.size > UNREAD_FULL_BYTES ||
           gen->unread_tokens >= gen->engine->limits.max_unread;
}

void generation_progress(ey_generation *gen, ey_phase phase, int done, int total)
{
    gen->phase = phase;
    gen->done = done;
    gen->total = total;
    gen->phase_changed = true;
    pthread_cond_signal(&gen->changed);
}

static ey_finish finish_reason(const ey_generation *gen)
{
    if (gen->pooled) return gen->pooled->done ? EY_FINISH_STOP : EY_FINISH_CANCELLED;
    if (gen->output.ends_with_stop_id || gen->stop_matcher.stopped || gen->grammar_complete)
        return EY_FINISH_STOP;
    return gen->answer.repetition.copies || gen->output.n == gen->output.max_tokens
               ? EY_FINISH_LENGTH
               : EY_FINISH_CANCELLED;
}

void generation_end(ey_generation *gen, const ey_err *error)
{
    double now = seconds_now();
    gen->answer.finish_reason = finish_reason(gen);
    if (gen->first_token_time > 0) gen->answer.decode_seconds = now - gen->first_token_time;
    gen->state = GENERATION_DONE;
    if (error) {
        gen->failed = true;
        gen->error = *error;
    }
    pthread_cond_signal(&gen->changed);
}
