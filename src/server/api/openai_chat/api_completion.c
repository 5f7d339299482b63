/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a request, and waiting for its answers where they are not streamed. */
#include "server/api/openai_chat/api_completion.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/api/common/api_fields.h"
#include "server/api/openai_chat/api_routes.h"

enum { WAIT_MS = 100 };

/* ---- the request ---- */

static bool request_abandoned(void *exchange)
{
    return exchange_abandoned(exchange);
}

static struct media_policy media_policy_for(const struct server *server, struct exchange *x)
{
    const struct server_options *o = server->options;
    return (struct media_policy){.domains = o->media_domains,
                                 .n_domains = o->n_media_domains,
                                 .local_path = o->local_media_path,
                                 .gone = request_abandoned,
                                 .user = x,
                                 .budget = server->budget,
                                 .own = exchange_budget_held(x)};
}

static struct api_limits api_limits_for(const struct completion *a,
                                        const struct media_policy *media)
{
    const struct server_options *o = a->server->options;
    struct api_limits limits = {.defaults = ey_request_defaults(),
                                .max_images = o->max_images,
                                .max_pixels = o->max_pixels,
                                .vocab_size = ey_engine_describe(a->engine).vocab_size,
                                .strict = o->strict,
                                .media = media,
                                .grammars = a->server->grammars,
                                .tool_format = ey_engine_tool_format(a->engine)};
    limits.defaults.sampling = ey_model_sampling(a->engine);
    limits.defaults.gone = media->gone;
    limits.defaults.gone_user = media->user;
    return limits;
}

static void add_unknown_fields_warning(const struct completion *a, struct exchange *x)
{
    char warning[EY_MAX_UNKNOWN_FIELD_BYTES + 64];
    if (!a->request.unknown.size) return;
    snprintf(warning, sizeof(warning), "299 eyelet \"unknown fields were ignored: %s\"",
             a->request.unknown.data);
    exchange_add_header(x, "Warning", warning);
}

static bool choose_model(struct completion *a, size_t *model)
{
    char message[768];
    if (server_find_model(a->server, a->request.model, model)) return true;
    server_unknown_model_message(a->server, a->request.model, message, sizeof(message));
    return api_fail_status(&a->error, 404, "model", message);
}

static void choose_seed(struct completion *a)
{
    int64_t seed = a->server->options->seed;
    if (!a->request.seed_given)
        a->request.request.sampling.seed = seed >= 0 ? (uint64_t)seed : ey_random_seed();
}

static bool acquire_model_engine(struct completion *a, struct exchange *x)
{
    size_t model;
    ey_err e;
    if (!choose_model(a, &model)) return false;
    if (!server_acquire_engine(a->server, model, x, &a->lease, &e))
        return api_fail_status(&a->error, ey_code_http_status(e.code), "", e.text);
    a->engine = a->lease.engine;
    return true;
}

static bool read_request(struct completion *a, struct exchange *x)
{
    struct media_policy media = media_policy_for(a->server, x);
    struct api_limits limits = api_limits_for(a, &media);
    if (!api_read(&a->request, &limits, &a->error)) return false;
    exchange_drop_body(x);
    a->request.request.budget_held += exchange_budget_held(x);
    add_unknown_fields_warning(a, x);
    choose_seed(a);
    return true;
}

/* Before a reply is made, whose memory would come to lie behind that of the values and keep malloc
 * from giving it back. What has many small values leaves holes all the same. */
static void drop_parsed(struct completion *a, struct exchange *x)
{
    enum { TRIM_BYTES = 4 << 20 };
    api_request_drop_prompts(&a->request);
    if (a->value_bytes > TRIM_BYTES) malloc_trim(0);
    a->value_bytes = 0;
    exchange_uncharge(x, 0);
}

void completion_fail(struct completion *a, struct exchange *x)
{
    drop_parsed(a, x);
    exchange_fail(x, a->error.status, a->error.type, a->error.param[0] ? a->error.param : NULL,
                  "%s", a->error.message);
}

/* The parser's own copy of the longest string is gone when it is done. */
static bool open_request(struct completion *a, struct exchange *x, enum api_kind kind)
{
    size_t n;
    const char *body = exchange_body(x, &n);
    bool ok = api_open(&a->request, kind, body, n, &a->error);
    a->value_bytes = api_json_bytes(body, n) - 2 * n;
    exchange_uncharge(x, a->value_bytes + n);
    return ok;
}

struct completion *completion_open(struct server *server, struct exchange *x, enum api_kind kind)
{
    struct completion *a = calloc(1, sizeof(*a));
    size_t n;
    if (!a) {
        exchange_fail(x, 503, NULL, NULL, "no memory for the request; send it again later");
        return NULL;
    }
    const char *body = exchange_body(x, &n);
    if (!exchange_charge(x, api_json_bytes(body, n))) return free(a), NULL;
    a->server = server;
    if (open_request(a, x, kind) && acquire_model_engine(a, x) && read_request(a, x)) {
        a->reply = reply_start(kind, server_model_name(server, a->lease.model));
        return a;
    }
    completion_fail(a, x);
    completion_close(a);
    return NULL;
}

void completion_close(struct completion *a)
{
    completion_choices_close(&a->choices, a->hung_up);
    api_request_free(&a->request);
    for (size_t i = 0; i < a->n_echo; i++)
        free(a->echo[i].bytes);
    free(a->echo);
    server_release_engine(a->server, &a->lease);
    free(a);
}

bool completion_may_continue(struct completion *a)
{
    return !server_is_ending(a->server) ||
           api_fail_status(&a->error, 503, "", "the server is shutting down");
}

/* ---- prompts that come back ---- */

static bool copy_prompt(struct echo_text *out, ey_engine *engine, const struct api_prompt *prompt,
                        ey_err *e)
{
    if (!prompt->text)
        return ey_detokenize(engine, prompt->ids, prompt->n_ids, &out->bytes, &out->n, e);
    out->bytes = malloc(prompt->n_text + 1);
    out->n = prompt->n_text;
    if (!out->bytes) return ey_fail_memory(e, "the prompt", prompt->n_text);
    memcpy(out->bytes, prompt->text, prompt->n_text);
    return true;
}

/* Before the request's prompts are dropped. */
static bool copy_echo_prompts(struct completion *a)
{
    size_t n = a->request.echo ? a->request.n_prompts : 0;
    ey_err e;
    if (!n) return true;
    a->echo = calloc(n, sizeof(*a->echo));
    if (!a->echo) return api_fail_memory(&a->error);
    a->n_echo = n;
    for (size_t i = 0; i < n; i++)
        if (!copy_prompt(&a->echo[i], a->engine, &a->request.prompts[i], &e))
            return api_fail_engine(&a->error, a->engine, "prompt", &e);
    return true;
}

struct echo_text completion_echo(const struct completion *a, int index)
{
    size_t prompt = (size_t)index / (size_t)a->request.n;
    return prompt < a->n_echo ? a->echo[prompt] : (struct echo_text){0};
}

/* ---- an answer as a choice ---- */

/* A model's own stop token is no reason that a client has given. */
static bool is_requested_stop_id(const ey_request *request, int id)
{
    for (size_t i = 0; i < request->n_stop_ids; i++)
        if (request->stop_ids[i] == id) return true;
    return false;
}

struct reply_end completion_finish(const struct completion *a, const ey_answer *answer, int n_calls)
{
    bool requested = is_requested_stop_id(&a->request.request, answer->stop_id);
    return (struct reply_end){.finish = answer->finish_reason,
                              .called = n_calls && answer->finish_reason == EY_FINISH_STOP,
                              .stop_text = answer->stop_text,
                              .stop_id = requested ? answer->stop_id : -1};
}

/* The text taken apart. */
struct parsed_answer {
    struct buf text;
    struct arena memory;
    struct reply_call call[EY_MAX_TOOL_CALLS];
    size_t n_calls;
};

static bool add_parsed_call(struct parsed_answer *out, const ey_answer_piece *piece)
{
    if (out->n_calls == EY_MAX_TOOL_CALLS) return true;
    struct reply_call *call = &out->call[out->n_calls++];
    call->name = arena_copy_text(&out->memory, piece->name, strlen(piece->name));
    call->arguments = arena_copy_text(&out->memory, piece->arguments, piece->n_arguments);
    call->n_arguments = piece->n_arguments;
    reply_call_set_id(call);
    return call->name && call->arguments;
}

static bool split_tool_calls(struct parsed_answer *out, const struct completion *a,
                             const ey_answer *answer)
{
    ey_tool_parser *tools;
    ey_answer_piece piece;
    if (!ey_tool_parser_open(&tools, ey_engine_tool_format(a->engine), a->request.single_call,
                             NULL))
        return false;
    bool ok = ey_tool_parser_add(tools, answer->text, answer->n_text);
    ey_tool_parser_end(tools);
    while (ok && ey_tool_parser_next(tools, &piece))
        ok = piece.call ? add_parsed_call(out, &piece)
                        : buf_add(&out->text, piece.text, piece.n_text);
    ey_tool_parser_free(&tools);
    return ok;
}

static bool parse_answer(struct parsed_answer *out, const struct completion *a,
                         const struct choice_slot *slot)
{
    struct echo_text echo = completion_echo(a, slot->index);
    out->text = buf_with_max(EY_MAX_RESPONSE_BYTES);
    if (!buf_add(&out->text, echo.bytes ? echo.bytes : "", echo.n)) return false;
    if (a->request.tools_given) return split_tool_calls(out, a, &slot->answer);
    return buf_add(&out->text, slot->answer.text, slot->answer.n_text);
}

static bool add_choice(struct json_writer *w, const struct completion *a,
                       const struct choice_slot *slot)
{
    struct parsed_answer *parsed = calloc(1, sizeof(*parsed));
    size_t offset = 0;
    bool ok = parsed && parse_answer(parsed, a, slot);
    if (ok) {
        struct reply_choice choice = {
            .index = slot->index,
            .text = parsed->text.data,
            .n_text = parsed->text.size,
            .calls = parsed->call,
            .n_calls = parsed->n_calls,
            .end = completion_finish(a, &slot->answer, (int)parsed->n_calls)};
        choice.logprobs = (struct reply_logprobs){slot->answer.logprobs, slot->answer.n_logprobs,
                                                  &offset};
        reply_add_choice(w, &a->reply, &choice);
    }
    if (parsed) {
        buf_free(&parsed->text);
        arena_free(&parsed->memory);
    }
    free(parsed);
    return ok;
}

/* ---- waiting ---- */

static bool wait_for_all(struct completion *a, struct exchange *x)
{
    double last_check = 0;
    while (a->choices.n_done < a->choices.n_slots) {
        struct choice_slot *slot;
        ey_event event;
        if (!completion_may_continue(a) ||
            !completion_choices_next(&a->choices, WAIT_MS, &slot, &event, &a->error))
            return false;
        if (seconds_now() - last_check < WAIT_MS / 1e3) continue;
        last_check = seconds_now();
        a->hung_up = exchange_hung_up(x);
        if (a->hung_up) return api_fail_status(&a->error, 499, "", "the client has left");
    }
    return true;
}

static void reply_whole(struct completion *a, struct exchange *x)
{
    struct buf out = buf_with_max(EY_MAX_RESPONSE_BYTES);
    struct api_usage usage;
    bool ok = true;
    struct json_writer w = reply_open(&out, &a->reply);
    for (size_t i = 0; ok && i < a->choices.n_slots; i++)
        ok = add_choice(&w, a, &a->choices.slot[i]);
    completion_choices_usage(&a->choices, &usage);
    reply_close(&w, &usage);
    if (ok)
        exchange_reply(x, 200, "application/json", &out);
    else
        exchange_fail(x, 503, NULL, NULL, "no memory for the reply");
    buf_free(&out);
}

/* ---- routes ---- */

/* What was read of the request is not needed any more then. */
static bool prepare_choices(struct completion *a, struct exchange *x)
{
    bool ok = completion_choices_prepare(&a->choices, a->server, &a->lease, &a->request,
                                         exchange_started(x), &a->error);
    if (ok) drop_parsed(a, x);
    return ok;
}

static void run_completion(struct server *server, struct exchange *x, enum api_kind kind)
{
    struct completion *a = completion_open(server, x, kind);
    if (!a) return;
    if (!copy_echo_prompts(a) || !prepare_choices(a, x) ||
        !completion_choices_start(&a->choices, &a->error)) {
        completion_may_continue(a); /* decoding may have been ended because the server is */
        completion_fail(a, x);
    } else if (a->request.stream) {
        completion_stream(a, x);
        return; /* it is the stream's now */
    } else if (wait_for_all(a, x)) {
        reply_whole(a, x);
    } else {
        completion_fail(a, x);
    }
    completion_close(a);
}

void route_chat_completions(struct server *server, struct exchange *x)
{
    run_completion(server, x, API_CHAT);
}

void route_completions(struct server *server, struct exchange *x)
{
    run_completion(server, x, API_COMPLETION);
}
