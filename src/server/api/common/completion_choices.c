/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares the prompts of an exchange and runs its generations. */
#include "server/api/common/completion_choices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/api/common/api_charge.h"
#include "server/api/common/api_dialect.h"

enum { MAX_RUNNING = EY_MAX_REQUEST_CHOICES, MAX_RUNNING_INPUTS = 32, CHOICE_POLL_MS = 10 };

/* ---- errors ---- */

/* Writes the engine's error in vLLM's words, by which clients recognize it. */
static bool fail_too_long(struct api_error *error, ey_engine *engine, const ey_err *e)
{
    api_fail(error, "input_tokens",
             "This model's maximum context length is %d tokens. However, %s. Please reduce "
             "the length of the input prompt or the "
             "number of requested output tokens.",
             ey_engine_describe(engine).max_model_len, e->text);
    error->code = API_ERROR_TOO_LONG;
    return false;
}

bool api_fail_engine(struct api_error *error, ey_engine *engine, const char *param, const ey_err *e)
{
    ey_err within = *e;
    if (e->code == EY_TOO_LONG) return fail_too_long(error, engine, e);
    if (e->code == EY_BAD_IMAGE) ey_fail_within(&within, "Failed to load image");
    api_fail_status(error, ey_code_http_status(e->code), param, within.text);
    if (e->code == EY_BAD_IMAGE) error->code = API_ERROR_IMAGE;
    return false;
}

/* Like vLLM, refuses a request whose prompt and max_tokens exceed the context, unless the dialect
 * clips: clients of other APIs routinely request more tokens than fit. */
static bool check_length(const struct completion_choices *a, const ey_prompt *prompt,
                         struct api_error *error)
{
    int context = ey_engine_describe(a->engine).max_model_len,
        wanted = a->request->request.max_tokens;
    size_t given = ey_prompt_describe(prompt).n_ids;
    if (!a->request->length_given || a->request->dialect->clips ||
        given + (size_t)wanted <= (size_t)context)
        return true;
    return api_fail(error, "input_tokens",
                    "This model's maximum context length is %d tokens. However, you requested %d "
                    "output tokens and your prompt contains %zu "
                    "input tokens, for a total of %zu tokens. Please reduce the length of the "
                    "input prompt or the number of requested "
                    "output tokens. (parameter=input_tokens, value=%zu)",
                    context, wanted, given, given + (size_t)wanted, given);
}

/* ---- prompts ---- */

/* Prepares the prompt, and drops the oldest messages if it is too long and the request permits it.
 * Each attempt drops twice as many as the last, so that a long history is tokenized only a few
 * times. */
static bool prepare_fitting(struct completion_choices *a, struct api_request *whole,
                            ey_request *request, ey_prompt **prompt, ey_err *e)
{
    size_t dropped = 0, now = 0;
    for (size_t wanted = 1;; wanted *= 2) {
        if (ey_prompt_prepare(a->engine, request, prompt, e)) break;
        bool too_long = e->code == EY_TOO_LONG && whole->drops_messages;
        if (!too_long || !(now = api_request_drop_oldest(whole, wanted))) return false;
        request->n_messages = whole->request.n_messages;
        dropped += now;
    }
    if (dropped)
        api_request_note(whole, "the %zu oldest messages did not fit the context and were left out",
                         dropped);
    return true;
}

static void set_prompt(ey_request *request, const struct api_prompt *prompt)
{
    request->text = prompt->text;
    request->n_text = prompt->n_text;
    request->ids = prompt->ids;
    request->n_ids = prompt->n_ids;
    request->parts = prompt->parts;
    request->n_parts = prompt->n_parts;
    request->input = prompt->input;
    request->parse_special_tokens = request->parse_special_tokens || prompt->finished;
}

static void name_prompt(char param[API_PARAM_BYTES], const struct api_request *request, size_t i)
{
    const char *name = request->prompts_name ? request->prompts_name : "prompt";
    if (request->n_prompts > 1)
        snprintf(param, API_PARAM_BYTES, "%s[%zu]", name, i);
    else
        snprintf(param, API_PARAM_BYTES, "%s", name);
}

/* Converts the engine's image index, which counts the query's images and then the input's, to an
 * index into the request's images. */
static void find_input_image(ey_err *e, const struct api_prompt *prompt)
{
    if (e->item_kind != EY_ITEM_IMAGE || e->item < 0) return;
    const size_t i = (size_t)e->item, n_query = prompt->n_query_images;
    e->item = (int)(i < n_query ? prompt->first_query_image + i
                                : prompt->first_image + i - n_query);
}

static bool prepare_prompt(struct completion_choices *a, size_t i, struct api_error *error)
{
    ey_request request = a->request->request;
    char param[API_PARAM_BYTES] = "";
    ey_err e;
    if (a->request->n_prompts) {
        name_prompt(param, a->request, i);
        set_prompt(&request, &a->request->prompts[i]);
    }
    if (!prepare_fitting(a, a->request, &request, &a->prompt[i], &e)) {
        if (request.input || request.parts) find_input_image(&e, &a->request->prompts[i]);
        api_image_param(param, a->request, &e);
        return api_fail_engine(error, a->engine, param, &e);
    }
    a->n_prompt_tokens += (int64_t)ey_prompt_describe(a->prompt[i]).n_ids;
    return check_length(a, a->prompt[i], error);
}

bool completion_choices_prepare(struct completion_choices *a, struct server *server,
                                const struct lease *lease, struct api_request *request,
                                double requested_at, struct api_error *error)
{
    size_t n = request->n_prompts ? request->n_prompts : 1, n_choices = n * (size_t)request->n;
    *a = (struct completion_choices){.server = server,
                                     .engine = lease->engine,
                                     .model = lease->model,
                                     .waited_for_load = lease->waited,
                                     .request = request,
                                     .n_prompts = n,
                                     .n_slots = n_choices,
                                     .answers = {.from = request->request.budget},
                                     .requested_at = requested_at};
    a->prompt = calloc(n, sizeof(ey_prompt *)); /* incomplete type: no sizeof(*a->prompt[0]) */
    a->slot = calloc(n_choices, sizeof(*a->slot));
    if (!a->prompt || !a->slot) return api_fail_memory(error);
    for (size_t i = 0; i < n_choices; i++)
        a->slot[i].index = (int)i;
    for (size_t i = 0; i < n && !request->request.pool; i++)
        if (!prepare_prompt(a, i, error)) return false;
    if (!request->request.pool) api_request_drop_prompts(request);
    return true;
}

/* ---- generations ---- */

static bool start_choice(struct completion_choices *a, struct choice_slot *slot, ey_err *e)
{
    size_t n = (size_t)a->request->n, p = (size_t)slot->index / n;
    ey_request request = a->request->request;
    request.sampling.seed += (size_t)slot->index %
                             n; /* the same seed would give n identical answers */
    if (!ey_generation_start(a->engine, a->prompt[p], &request, &slot->generation, e)) return false;
    slot->started = true;
    slot->n_prompt_tokens = ey_prompt_describe(a->prompt[p]).n_ids;
    slot->watch = metrics_watch_start(a->server->metrics, a->model, a->requested_at);
    a->n_started++;
    if ((size_t)slot->index % n == n - 1) ey_prompt_free(&a->prompt[p]);
    return true;
}

/* Starts as many choices as may run. A full queue is not an error once a choice of this exchange
 * has started, nor if the request waited for the model. */
static bool start_choices(struct completion_choices *a, struct api_error *error)
{
    const bool pools = a->request->request.pool;
    const size_t most = pools ? MAX_RUNNING_INPUTS : MAX_RUNNING;
    ey_err e;
    while (a->n_started < a->n_slots && a->n_started - a->n_done < most) {
        if (pools && !a->prompt[a->n_started] && !prepare_prompt(a, a->n_started, error))
            return false;
        if (!start_choice(a, &a->slot[a->n_started], &e))
            return (e.code == EY_BUSY && (a->n_started || a->waited_for_load)) ||
                   api_fail_engine(error, a->engine, "", &e);
    }
    return true;
}

bool completion_choices_start(struct completion_choices *a, struct api_error *error)
{
    return start_choices(a, error);
}

/* Bytes of log-probabilities of n tokens with `candidates` each. */
static uint64_t scores_bytes(size_t n, size_t candidates)
{
    return candidates ? n * (sizeof(ey_token_logprobs) +
                             candidates * (sizeof(ey_logprob) + sizeof(uint64_t)))
                      : 0;
}

/* Bytes of an answer: ids and text of its n tokens, their log-probabilities and those of its
 * prompt, some of which are copied. */
static uint64_t answer_bytes(const struct completion_choices *a, const struct choice_slot *slot,
                             size_t n)
{
    enum { TOKEN_BYTES = 32 };
    const ey_request *request = &a->request->request;
    const size_t top = request->top_logprobs < 0 ? 0 : (size_t)request->top_logprobs + 1,
                 prompt_top = request->prompt_logprobs ? (size_t)request->top_prompt_logprobs + 1
                                                       : 0,
                 n_prompt = slot->n_prompt_tokens;
    return n * TOKEN_BYTES + scores_bytes(n, top) + scores_bytes(n_prompt, prompt_top) +
           (prompt_top ? (n + n_prompt) * sizeof(ey_token_logprobs) : 0);
}

/* Charges an answer of n tokens before it is collected; small ones are free. */
static bool charge_answer(struct completion_choices *a, const struct choice_slot *slot, size_t n,
                          struct api_error *error)
{
    enum { FREE_BYTES = 32 << 10 };
    uint64_t bytes = answer_bytes(a, slot, n);
    return bytes <= FREE_BYTES || api_charge_take(&a->answers, bytes, &a->request->request, error);
}

/* Collects a finished answer. Here a cancelled answer means that the engine is closing, because
 * nobody else cancels an answer before it is collected. */
static bool collect_choice(struct completion_choices *a, struct choice_slot *slot, size_t n_tokens,
                           struct api_error *error)
{
    ey_err e;
    if (!charge_answer(a, slot, n_tokens, error)) return false;
    bool ok = ey_generation_collect(&slot->generation, &slot->answer, &e);
    if (ok && slot->answer.finish_reason == EY_FINISH_CANCELLED)
        ok = ey_fail(&e, EY_BUSY, "the server stopped this answer");
    metrics_watch_end(&slot->watch, ok ? &slot->answer : NULL, false);
    slot->done = true;
    a->n_done++;
    return ok || api_fail_engine(error, a->engine, "", &e);
}

/* Polls each running choice once. Returns the one with an event, or NULL. */
static struct choice_slot *poll_choices(struct completion_choices *a, int timeout_ms,
                                        ey_event *event)
{
    for (size_t k = 0; k < a->n_started; k++) {
        struct choice_slot *slot = &a->slot[(a->next_polled + k) % a->n_started];
        if (slot->done) continue;
        ey_generation_next(slot->generation, timeout_ms, event);
        timeout_ms = 0; /* choices advance together, so wait only for the first */
        if (event->type == EY_EVENT_NONE) continue;
        a->next_polled = (a->next_polled + k + 1) % a->n_started;
        return slot;
    }
    return NULL;
}

/* Sleeps while other requests fill the queue and no choice of this exchange runs. */
static void wait_for_queue(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

bool completion_choices_next(struct completion_choices *a, int timeout_ms,
                             struct choice_slot **slot, ey_event *event, struct api_error *error)
{
    *slot = NULL;
    if (!start_choices(a, error)) return false;
    size_t running = a->n_started - a->n_done;
    if (!running) wait_for_queue(timeout_ms);
    if (running > 1) {
        *slot = poll_choices(a, 0, event);
        timeout_ms = timeout_ms < CHOICE_POLL_MS ? timeout_ms : CHOICE_POLL_MS;
    }
    if (!*slot) *slot = poll_choices(a, timeout_ms, event);
    if (!*slot) return true;
    if (event->type == EY_EVENT_TEXT || event->type == EY_EVENT_THOUGHT)
        metrics_watch_tokens(&(*slot)->watch, event->n_tokens);
    return event->type != EY_EVENT_DONE || collect_choice(a, *slot, (size_t)event->n_tokens, error);
}

void completion_choices_close(struct completion_choices *a, bool hung_up)
{
    for (size_t i = 0; i < a->n_started; i++)
        if (!a->slot[i].done) ey_generation_cancel(a->slot[i].generation);
    for (size_t i = 0; i < a->n_started; i++) {
        struct choice_slot *slot = &a->slot[i];
        if (!slot->done) {
            bool ok = ey_generation_collect(&slot->generation, &slot->answer, NULL);
            metrics_watch_end(&slot->watch, ok ? &slot->answer : NULL, hung_up);
        }
        ey_answer_free(&slot->answer);
    }
    for (size_t i = 0; a->prompt && i < a->n_prompts; i++)
        ey_prompt_free(&a->prompt[i]);
    free(a->prompt);
    free(a->slot);
    api_charge_keep(&a->answers, 0);
    *a = (struct completion_choices){0};
}

void completion_choices_usage(const struct completion_choices *a, struct api_usage *out)
{
    *out = (struct api_usage){0};
    for (size_t i = 0; i < a->n_slots; i++) {
        const ey_answer *answer = &a->slot[i].answer;
        out->completion_tokens += answer->completion_tokens;
        out->thinking_tokens += answer->thought_tokens;
        if (!out->repetition.copies) out->repetition = answer->repetition;
        if (i % (size_t)a->request->n) continue;
        out->prompt_tokens += answer->prompt_tokens;
        out->cached_tokens += answer->cached_tokens;
        out->image_tokens += answer->image_tokens;
        out->images = answer->images;
        out->n_images = answer->n_images; /* reported only for chats, which have one prompt */
        if (i == 0) {
            out->vision_s = answer->vision_seconds;
            out->prefill_s = answer->prefill_seconds;
            out->decode_s = answer->decode_seconds;
        }
    }
}
