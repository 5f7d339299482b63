/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a request, and waiting for its answers where they are not streamed. */
#include "server/answering.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/api_fields.h"
#include "server/routes_api.h"
#include "server/tool_calls.h"

enum { WAIT_MS = 100 };

/* ---- the request
 * --------------------------------------------------------------------------------- */

static bool hung_up(void *exchange)
{
    return exchange_hung_up(exchange);
}

static struct media_policy policy_for(const struct server *server, struct exchange *x)
{
    const struct server_options *o = server->options;
    return (struct media_policy){.domains = o->media_domains,
                                 .n_domains = o->n_media_domains,
                                 .local_path = o->local_media_path,
                                 .gone = hung_up,
                                 .user = x,
                                 .budget = server->budget};
}

static struct api_limits limits_for(const struct answering *a, const struct media_policy *media)
{
    const struct server_options *o = a->server->options;
    struct api_limits limits = {.defaults = ey_request_defaults(),
                                .max_images = o->max_images,
                                .max_pixels = o->max_pixels,
                                .vocabulary = ey_engine_describe(a->engine).vocabulary,
                                .strict = o->strict,
                                .media = media,
                                .grammars = a->server->grammars};
    limits.defaults.sampling = ey_model_sampling(a->engine);
    return limits;
}

static void name_unknown_fields(const struct answering *a, struct exchange *x)
{
    char warning[EY_MAX_UNKNOWN_BYTES + 64];
    if (!a->request.unknown.size) return;
    snprintf(warning, sizeof(warning), "299 eyelet \"unknown fields were ignored: %s\"",
             a->request.unknown.data);
    exchange_add_header(x, "Warning", warning);
}

static bool choose_model(struct answering *a, size_t *model)
{
    char message[768];
    if (server_find_model(a->server, a->request.model, model)) return true;
    server_name_models(a->server, a->request.model, message, sizeof(message));
    return api_fail_status(&a->error, 404, "model", message);
}

static void choose_seed(struct answering *a)
{
    int64_t seed = a->server->options->seed;
    if (!a->request.seed_given)
        a->request.request.sampling.seed = seed >= 0 ? (uint64_t)seed : ey_random_seed();
}

static bool borrow(struct answering *a, struct exchange *x)
{
    size_t model;
    ey_err e;
    if (!choose_model(a, &model)) return false;
    if (!server_borrow(a->server, model, x, &a->loan, &e))
        return api_fail_status(&a->error, ey_code_http_status(e.code), "", e.text);
    a->engine = a->loan.engine;
    return true;
}

static bool read_request(struct answering *a, struct exchange *x)
{
    struct media_policy media = policy_for(a->server, x);
    struct api_limits limits = limits_for(a, &media);
    if (!api_read(&a->request, &limits, &a->error)) return false;
    exchange_drop_body(x);
    name_unknown_fields(a, x);
    choose_seed(a);
    return true;
}

void answering_fail(struct answering *a, struct exchange *x)
{
    exchange_fail(x, a->error.status, a->error.type, a->error.param[0] ? a->error.param : NULL,
                  "%s", a->error.message);
}

struct answering *answering_open(struct server *server, struct exchange *x, enum api_kind kind)
{
    struct answering *a = calloc(1, sizeof(*a));
    size_t n;
    if (!a) {
        exchange_fail(x, 503, NULL, NULL, "no memory for the request; send it again later");
        return NULL;
    }
    const char *body = exchange_body(x, &n);
    a->server = server;
    if (api_open(&a->request, kind, body, n, &a->error) && borrow(a, x) && read_request(a, x)) {
        a->reply = reply_start(kind, server_model_name(server, a->loan.model));
        return a;
    }
    answering_fail(a, x);
    answering_close(a);
    return NULL;
}

void answering_close(struct answering *a)
{
    answers_close(&a->answers, a->hung_up);
    api_request_free(&a->request);
    for (size_t i = 0; i < a->n_echo; i++)
        free(a->echo[i].bytes);
    free(a->echo);
    server_return(a->server, &a->loan);
    free(a);
}

bool answering_may_go_on(struct answering *a)
{
    return !server_ending(a->server) ||
           api_fail_status(&a->error, 503, "", "the server is shutting down");
}

/* ---- prompts that come back
 * ---------------------------------------------------------------------- */

static bool copy_prompt(struct text *out, ey_engine *engine, const struct api_prompt *prompt,
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
static bool keep_prompts(struct answering *a)
{
    size_t n = a->request.echo ? a->request.n_prompts : 0;
    ey_err e;
    if (!n) return true;
    a->echo = calloc(n, sizeof(*a->echo));
    if (!a->echo) return api_fail_memory(&a->error);
    a->n_echo = n;
    for (size_t i = 0; i < n; i++)
        if (!copy_prompt(&a->echo[i], a->engine, &a->request.prompts[i], &e))
            return answers_fail(&a->error, a->engine, "prompt", &e);
    return true;
}

struct text answering_echo(const struct answering *a, int index)
{
    size_t prompt = (size_t)index / (size_t)a->request.n;
    return prompt < a->n_echo ? a->echo[prompt] : (struct text){0};
}

/* ---- an answer as a choice
 * ----------------------------------------------------------------------- */

/* A model's own stop token is no reason that a client has given. */
static bool is_stop_of_request(const ey_request *request, int id)
{
    for (size_t i = 0; i < request->n_stop_ids; i++)
        if (request->stop_ids[i] == id) return true;
    return false;
}

struct reply_end answering_end(const struct answering *a, const ey_answer *answer, int n_calls)
{
    bool called = n_calls && strcmp(answer->finish_reason, "stop") == 0;
    return (struct reply_end){
        called ? "tool_calls" : answer->finish_reason, answer->stop_text,
        is_stop_of_request(&a->request.request, answer->stop_id) ? answer->stop_id : -1};
}

/* What tool_calls made of the text. */
struct spoken {
    struct buf text;
    struct arena memory;
    struct reply_call call[EY_MAX_TOOL_CALLS];
    size_t n_calls;
};

static bool add_call(struct spoken *out, const struct tool_event *event)
{
    if (out->n_calls == EY_MAX_TOOL_CALLS) return true;
    struct reply_call *call = &out->call[out->n_calls++];
    call->name = arena_copy_text(&out->memory, event->name, strlen(event->name));
    call->arguments = arena_copy_text(&out->memory, event->arguments, event->n_arguments);
    call->n_arguments = event->n_arguments;
    reply_call_name(call);
    return call->name && call->arguments;
}

static bool take_apart(struct spoken *out, const struct answering *a, const ey_answer *answer)
{
    struct tool_calls tools = tool_calls_start(a->request.single_call);
    struct tool_event event;
    bool ok = tool_calls_add(&tools, answer->text, answer->n_text);
    tool_calls_end(&tools);
    while (ok && tool_calls_next(&tools, &event))
        ok = event.call ? add_call(out, &event) : buf_add(&out->text, event.text, event.n_text);
    tool_calls_free(&tools);
    return ok;
}

static bool speak(struct spoken *out, const struct answering *a, const struct answer_slot *slot)
{
    struct text echo = answering_echo(a, slot->index);
    out->text = buf_with_max(EY_MAX_REPLY_BYTES);
    if (!buf_add(&out->text, echo.bytes ? echo.bytes : "", echo.n)) return false;
    if (a->request.tools_given) return take_apart(out, a, &slot->answer);
    return buf_add(&out->text, slot->answer.text, slot->answer.n_text);
}

static bool add_choice(struct buf *out, const struct answering *a, const struct answer_slot *slot)
{
    struct spoken *said = calloc(1, sizeof(*said));
    size_t offset = 0;
    bool ok = said && speak(said, a, slot);
    if (ok) {
        struct reply_choice choice = {.index = slot->index,
                                      .text = said->text.data,
                                      .n_text = said->text.size,
                                      .calls = said->call,
                                      .n_calls = said->n_calls,
                                      .end = answering_end(a, &slot->answer, (int)said->n_calls)};
        choice.scores = (struct reply_scores){slot->answer.logprobs, slot->answer.n_logprobs,
                                              &offset};
        reply_add_choice(out, &a->reply, &choice);
    }
    if (said) {
        buf_free(&said->text);
        arena_free(&said->memory);
    }
    free(said);
    return ok;
}

/* ---- waiting
 * ------------------------------------------------------------------------------------- */

static bool wait_for_all(struct answering *a, struct exchange *x)
{
    double asked = 0;
    while (a->answers.n_over < a->answers.n_slots) {
        struct answer_slot *slot;
        ey_event event;
        if (!answering_may_go_on(a) ||
            !answers_next(&a->answers, WAIT_MS, &slot, &event, &a->error))
            return false;
        if (seconds_now() - asked < WAIT_MS / 1e3) continue;
        asked = seconds_now();
        a->hung_up = exchange_hung_up(x);
        if (a->hung_up) return api_fail_status(&a->error, 499, "", "the client has left");
    }
    return true;
}

static void reply_whole(struct answering *a, struct exchange *x)
{
    struct buf out = buf_with_max(EY_MAX_REPLY_BYTES);
    struct reply_usage usage;
    bool ok = true;
    reply_open(&out, &a->reply);
    for (size_t i = 0; ok && i < a->answers.n_slots; i++)
        ok = add_choice(&out, a, &a->answers.slot[i]);
    answers_usage(&a->answers, &usage);
    reply_close(&out, &usage);
    if (ok)
        exchange_reply(x, 200, "application/json", &out);
    else
        exchange_fail(x, 503, NULL, NULL, "no memory for the reply");
    buf_free(&out);
}

/* ---- routes
 * -------------------------------------------------------------------------------------- */

static void answer(struct server *server, struct exchange *x, enum api_kind kind)
{
    struct answering *a = answering_open(server, x, kind);
    if (!a) return;
    if (!keep_prompts(a) ||
        !answers_prepare(&a->answers, server, &a->loan, &a->request, exchange_started(x),
                         &a->error) ||
        !answers_start(&a->answers, &a->error)) {
        answering_fail(a, x);
    } else if (a->request.stream) {
        answer_stream(a, x);
        return; /* it is the stream's now */
    } else if (wait_for_all(a, x)) {
        reply_whole(a, x);
    } else {
        answering_fail(a, x);
    }
    answering_close(a);
}

void route_chat_completions(struct server *server, struct exchange *x)
{
    answer(server, x, API_CHAT);
}

void route_completions(struct server *server, struct exchange *x)
{
    answer(server, x, API_COMPLETION);
}
