/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a request, starts its answers and, unless they are streamed, waits for them. */
#include "server/api/common/completion.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/json_writer.h"
#include "base/processors.h"
#include "server/api/common/api_charge.h"
#include "server/api/common/api_fields.h"
#include "server/api/common/model_card.h"
#include "server/log.h"

enum { WAIT_MS = 100, KEPT_SPARE_BYTES = 4 << 10 }; /* allowance for JSON members */

/* ---- the request ---- */

static bool request_abandoned(void *exchange)
{
    return exchange_abandoned(exchange);
}

struct media_policy media_policy_for(const struct server *server, struct exchange *x)
{
    const struct server_options *o = server->options;
    return (struct media_policy){.domains = o->media_domains,
                                 .n_domains = o->n_media_domains,
                                 .local_path = o->local_media_path,
                                 .gone = request_abandoned,
                                 .user = x,
                                 .budget = exchange_budget(x),
                                 .own = exchange_budget_held(x)};
}

/* The first token of a pooling model's rendered prompts, or -1. */
static int turn_start_of(const ey_engine *engine)
{
    static const char text[] = "<|im_start|>";
    int *ids = NULL, first = -1;
    size_t n = 0;
    if (ey_engine_task(engine) == EY_TASK_GENERATE) return first;
    if (ey_tokenize(engine, text, strlen(text), true, &ids, &n, NULL) && n == 1) first = ids[0];
    free(ids);
    return first;
}

static struct api_limits api_limits_for(const struct completion *a,
                                        const struct media_policy *media)
{
    const struct server_options *o = a->server->options;
    struct api_limits limits = {.defaults = ey_request_defaults(),
                                .max_images = o->max_images,
                                .max_pixels = o->max_pixels,
                                .vocab_size = ey_engine_describe(a->engine).vocab_size,
                                .max_model_len = ey_engine_describe(a->engine).max_model_len,
                                .task = ey_engine_task(a->engine),
                                .dimensions = ey_engine_dimensions(a->engine),
                                .turn_start = turn_start_of(a->engine),
                                .thinks = ey_engine_describe(a->engine).thinks,
                                .thinking = o->thinking,
                                .keeps_answer = o->thinking_reserve,
                                .effort_budgets = o->effort_budgets,
                                .loop_tokens = o->loop_tokens,
                                .strict = o->strict,
                                .media = media,
                                .grammars = a->server->grammars,
                                .tool_format = ey_engine_tool_format(a->engine)};
    limits.defaults.sampling = ey_model_sampling(a->engine);
    limits.defaults.thinking_end = o->thinking_end;
    limits.defaults.gone = media->gone;
    limits.defaults.gone_user = media->user;
    return limits;
}

static void add_warning(struct exchange *x, const char *what, const struct buf *names)
{
    char warning[EY_MAX_UNKNOWN_FIELD_BYTES + 64];
    if (!names->size) return;
    snprintf(warning, sizeof(warning), "299 eyelet \"%s%s\"", what, names->data);
    exchange_add_header(x, "Warning", warning);
}

/* Warns the client in a header, and the operator in the log: some clients show no headers. */
static void warn_of_unknown_fields(const struct completion *a, struct exchange *x)
{
    static const char what[] = "unknown fields were ignored: ";
    add_warning(x, what, &a->request.unknown);
    if (a->request.unknown.size && !a->server->options->quiet)
        log_line("%s%s", what, a->request.unknown.data);
}

bool completion_find_model(struct completion *a, size_t *model)
{
    char message[768], names[512];
    const struct api_dialect *dialect = a->request.dialect;
    if (server_find_model(a->server, a->request.model, model)) return true;
    server_list_names(a->server, "", names, sizeof(names));
    if (dialect->write_unknown_model)
        dialect->write_unknown_model(message, sizeof(message), a->request.model, names);
    else
        server_unknown_model_message(a->server, a->request.model, message, sizeof(message));
    api_fail_status(&a->error, 404, "model", message);
    a->error.code = API_ERROR_MODEL;
    return false;
}

static void choose_seed(struct completion *a)
{
    int64_t seed = a->server->options->seed;
    if (!a->request.seed_given)
        a->request.request.sampling.seed = seed >= 0 ? (uint64_t)seed : ey_random_seed();
}

bool completion_lease(struct completion *a, struct exchange *x)
{
    size_t model;
    ey_err e;
    if (!completion_find_model(a, &model)) return false;
    double asked = seconds_now();
    if (!server_acquire_engine(a->server, model, x, &a->lease, &e))
        return api_fail_status(&a->error, ey_code_http_status(e.code), "", e.text);
    a->engine = a->lease.engine;
    a->reply.load_seconds = seconds_now() - asked;
    return true;
}

static bool read_request(struct completion *a, struct exchange *x)
{
    struct media_policy media = media_policy_for(a->server, x);
    struct api_limits limits = api_limits_for(a, &media);
    if (!api_read(&a->request, &limits, &a->error)) return false;
    exchange_drop_body(x);
    a->request.request.budget = exchange_budget(x);
    a->request.request.budget_held += exchange_budget_held(x);
    warn_of_unknown_fields(a, x);
    choose_seed(a);
    return true;
}

/* Frees the parsed request before the reply is allocated: otherwise the reply could lie behind it
 * in the heap and keep malloc from returning the memory. Many small values leave holes
 * nevertheless, which malloc_trim() returns. */
static void drop_parsed(struct completion *a, struct exchange *x)
{
    enum { TRIM_BYTES = 4 << 20 };
    api_request_drop_prompts(&a->request);
    if (a->value_bytes > TRIM_BYTES) malloc_trim(0);
    a->value_bytes = 0;
    a->request.request.budget_held = a->request.kept_bytes;
    exchange_uncharge(x, a->request.kept_bytes);
}

void completion_fail(struct completion *a, struct exchange *x)
{
    drop_parsed(a, x);
    exchange_send_error(x, &a->error);
}

/* Parses the request, then gives back the charge for the parser's copy of the longest string. */
static bool open_request(struct completion *a, struct exchange *x,
                         const struct api_dialect *dialect)
{
    enum { LARGE_BODY = 256 << 10 };
    size_t n;
    const char *body = exchange_body(x, &n);
    const bool large = n > LARGE_BODY;
    ey_err e;
    if (large && !compute_turn_take(&e)) return api_fail_status(&a->error, 499, "", e.text);
    bool ok = api_open(&a->request, dialect, body, n, &a->error);
    if (large) compute_turn_give();
    a->value_bytes = api_json_bytes(body, n) - 2 * n;
    exchange_uncharge(x, a->value_bytes + n + a->kept_bytes);
    return ok;
}

static bool open_reply_state(struct completion *a, struct exchange *x)
{
    const struct api_dialect *dialect = a->request.dialect;
    struct api_reply reply = api_reply_start(dialect, "");
    reply.request = &a->request;
    reply.requested_at = exchange_started(x);
    reply.state = dialect->state_bytes ? calloc(1, dialect->state_bytes) : NULL;
    a->reply = reply;
    return reply.state || !dialect->state_bytes || api_fail_memory(&a->error);
}

struct completion *completion_parse(struct server *server, struct exchange *x,
                                    const struct api_dialect *dialect)
{
    struct completion *a = calloc(1, sizeof(*a));
    size_t n;
    if (!a) {
        exchange_fail(x, 503, NULL, NULL, "no memory for the request; send it again later");
        return NULL;
    }
    const char *body = exchange_body(x, &n);
    a->kept_bytes = dialect->keeps_request ? n + KEPT_SPARE_BYTES : 0;
    if (!exchange_charge(x, api_json_bytes(body, n) + a->kept_bytes)) return free(a), NULL;
    a->server = server;
    if (open_request(a, x, dialect) && open_reply_state(a, x)) return a;
    completion_fail(a, x);
    completion_close(a);
    return NULL;
}

bool completion_read(struct completion *a, struct exchange *x)
{
    if (completion_lease(a, x) && read_request(a, x)) {
        a->reply.model = server_model_name(a->server, a->lease.model);
        return true;
    }
    completion_fail(a, x);
    completion_close(a);
    return false;
}

struct completion *completion_open(struct server *server, struct exchange *x,
                                   const struct api_dialect *dialect)
{
    struct completion *a = completion_parse(server, x, dialect);
    return a && completion_read(a, x) ? a : NULL;
}

void completion_close(struct completion *a)
{
    const struct api_dialect *dialect = a->request.dialect;
    completion_choices_close(&a->choices, a->hung_up);
    if (a->reply.state && dialect->close_state) dialect->close_state(a->reply.state);
    free(a->reply.state);
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

bool completion_prepare_prompt(struct completion *a, ey_prompt **prompt)
{
    char param[API_PARAM_BYTES] = "";
    ey_err e;
    if (ey_prompt_prepare(a->engine, &a->request.request, prompt, &e)) return true;
    api_image_param(param, &a->request, &e);
    return api_fail_engine(&a->error, a->engine, param, &e);
}

bool completion_reply_input_tokens(struct completion *a, struct exchange *x, const char *object)
{
    enum { MAX_COUNT_BYTES = 256 };
    struct buf out = buf_with_max(MAX_COUNT_BYTES);
    ey_prompt *prompt;
    if (!completion_prepare_prompt(a, &prompt)) return false;
    struct json_writer w = json_write_to(&out, JSON_COMPACT);
    json_open_object(&w);
    if (object) json_add_string(&w, "object", object);
    json_add_uint(&w, "input_tokens", ey_prompt_describe(prompt).n_ids);
    json_close_object(&w);
    ey_prompt_free(&prompt);
    exchange_reply(x, 200, "application/json", &out);
    buf_free(&out);
    return true;
}

/* ---- echo ---- */

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

/* Copies the prompts to return, before they are dropped. */
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

/* ---- choices ---- */

/* Whether the client gave this stop token; a model's own stop token is not reported. */
static bool is_requested_stop_id(const ey_request *request, int id)
{
    for (size_t i = 0; i < request->n_stop_ids; i++)
        if (request->stop_ids[i] == id) return true;
    return false;
}

struct api_end completion_finish(const struct completion *a, const ey_answer *answer, int n_calls)
{
    bool requested = is_requested_stop_id(&a->request.request, answer->stop_id);
    return (struct api_end){.finish = answer->finish_reason,
                            .called = n_calls && answer->finish_reason == EY_FINISH_STOP,
                            .stop_text = answer->stop_text,
                            .stop_id = requested ? answer->stop_id : -1,
                            .repetition = answer->repetition,
                            .repetition_asked = a->request.loops_asked};
}

/* An answer parsed into content and calls; with an echo, also the joined log-probabilities of
 * prompt and answer. */
struct parsed_answer {
    struct buf text;
    ey_token_logprobs *echoed; /* [n_echoed] */
    size_t n_echoed;
    struct arena memory;
    struct api_tool_call *call; /* [n_calls] */
    size_t n_calls, max_calls;
};

static bool grow_calls(struct parsed_answer *out)
{
    size_t max = out->max_calls ? 2 * out->max_calls : 4;
    struct api_tool_call *grown = realloc(out->call, max * sizeof(*grown));
    if (!grown) return false;
    out->call = grown;
    out->max_calls = max;
    return true;
}

static bool add_parsed_call(struct parsed_answer *out, const struct completion *a,
                            const ey_answer_piece *piece)
{
    if (out->n_calls == EY_MAX_TOOL_CALLS) return true;
    if (out->n_calls == out->max_calls && !grow_calls(out)) return false;
    struct api_tool_call *call = &out->call[out->n_calls++];
    call->name = arena_copy_text(&out->memory, piece->name, strlen(piece->name));
    call->arguments = arena_copy_text(&out->memory, piece->arguments, piece->n_arguments);
    call->n_arguments = piece->n_arguments;
    api_random_id(call->id, a->request.dialect->call_prefix);
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
        ok = piece.call ? add_parsed_call(out, a, &piece)
                        : buf_add(&out->text, piece.text, piece.n_text);
    ey_tool_parser_free(&tools);
    return ok;
}

void completion_trim_alternatives(const struct completion *a, ey_token_logprobs *tokens, size_t n)
{
    const size_t most = (size_t)a->request.request.top_logprobs;
    for (size_t i = 0; i < n; i++)
        if (tokens[i].n_top > most) tokens[i].n_top = most;
}

static bool join_echoed_logprobs(struct parsed_answer *out, const struct completion *a,
                                 const ey_answer *answer)
{
    const size_t n_prompt = answer->n_prompt_logprobs,
                 n = a->request.only_echo ? 0 : answer->n_logprobs;
    if (!a->request.echo || !answer->logprobs || !answer->prompt_logprobs) return true;
    out->echoed = calloc(n_prompt + n, sizeof(*out->echoed));
    if (!out->echoed) return false;
    out->n_echoed = n_prompt + n;
    memcpy(out->echoed, answer->prompt_logprobs, n_prompt * sizeof(*out->echoed));
    memcpy(out->echoed + n_prompt, answer->logprobs, n * sizeof(*out->echoed));
    completion_trim_alternatives(a, out->echoed, n_prompt);
    return true;
}

static bool parse_answer(struct parsed_answer *out, const struct completion *a,
                         const struct choice_slot *slot)
{
    struct echo_text echo = completion_echo(a, slot->index);
    out->text = buf_with_max(EY_MAX_RESPONSE_BYTES);
    if (!buf_add(&out->text, echo.bytes ? echo.bytes : "", echo.n) ||
        !join_echoed_logprobs(out, a, &slot->answer))
        return false;
    if (a->request.only_echo) return true;
    if (a->request.tools_given) return split_tool_calls(out, a, &slot->answer);
    return buf_add(&out->text, slot->answer.text, slot->answer.n_text);
}

static void free_parsed_answers(struct parsed_answer *parsed, size_t n)
{
    for (size_t i = 0; parsed && i < n; i++) {
        buf_free(&parsed[i].text);
        free(parsed[i].echoed);
        arena_free(&parsed[i].memory);
        free(parsed[i].call);
    }
    free(parsed);
}

static struct api_prompt_logprobs prompt_logprobs_of(const ey_answer *answer)
{
    return (struct api_prompt_logprobs){answer->prompt_logprobs, answer->prompt_ranks,
                                        answer->n_prompt_logprobs};
}

static struct api_usage usage_of_answer(const ey_answer *answer)
{
    return (struct api_usage){.prompt_tokens = answer->prompt_tokens,
                              .completion_tokens = answer->completion_tokens,
                              .cached_tokens = answer->cached_tokens,
                              .image_tokens = answer->image_tokens,
                              .vision_s = answer->vision_seconds,
                              .prefill_s = answer->prefill_seconds,
                              .decode_s = answer->decode_seconds,
                              .thinking_tokens = answer->thought_tokens};
}

static struct api_choice choice_of_answer(const struct completion *a,
                                          const struct choice_slot *slot,
                                          const struct parsed_answer *parsed, size_t *offset)
{
    const ey_answer *answer = &slot->answer;
    struct api_logprobs logprobs = {answer->logprobs, answer->n_logprobs, offset};
    if (parsed->echoed) logprobs = (struct api_logprobs){parsed->echoed, parsed->n_echoed, offset};
    return (struct api_choice){.index = slot->index,
                               .thinking = answer->thought,
                               .n_thinking = a->request.hides_thinking ? 0 : answer->n_thought,
                               .text = parsed->text.data,
                               .n_text = parsed->text.size,
                               .calls = parsed->call,
                               .n_calls = parsed->n_calls,
                               .logprobs = logprobs,
                               .pooled = ey_answer_pooled(answer),
                               .end = completion_finish(a, answer, (int)parsed->n_calls),
                               .usage = usage_of_answer(answer),
                               .prompt_logprobs = prompt_logprobs_of(answer)};
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

/* Upper bound of the reply's text, plus the parsed copies of the answers. */
static uint64_t whole_reply_bytes(const struct completion *a)
{
    enum { AROUND = 4 << 10, COPIES = 3 };
    uint64_t bytes = AROUND + a->request.kept_bytes;
    uint64_t copies = 1 + (uint64_t)a->request.dialect->more_copies;
    for (size_t i = 0; i < a->choices.n_slots; i++) {
        const ey_answer *answer = &a->choices.slot[i].answer;
        struct echo_text echo = completion_echo(a, a->choices.slot[i].index);
        struct api_choice choice = {.thinking = answer->thought,
                                    .n_thinking = answer->n_thought,
                                    .text = answer->text,
                                    .n_text = answer->n_text,
                                    .pooled = ey_answer_pooled(answer),
                                    .logprobs = {answer->logprobs, answer->n_logprobs, NULL},
                                    .prompt_logprobs = prompt_logprobs_of(answer)};
        if (echo.n) { /* the prompt's log-probabilities are written twice */
            const struct api_logprobs echoed = {answer->prompt_logprobs, answer->n_prompt_logprobs,
                                                NULL};
            bytes += api_logprobs_bytes(&echoed);
        }
        bytes += copies * api_choice_bytes(&choice) + api_json_text_bytes(echo.bytes, echo.n) +
                 COPIES * (answer->n_text + echo.n);
    }
    return bytes;
}

/* Charges the reply until the client has read it; small ones are free. On an error, answers the
 * exchange and returns false. */
static bool charge_reply(struct exchange *x, uint64_t bytes)
{
    enum { FREE_BYTES = 64 << 10 };
    return bytes <= FREE_BYTES || exchange_charge(x, bytes);
}

/* Fails if memory runs out. */
static bool write_whole_reply(struct completion *a, struct buf *out)
{
    size_t n = a->choices.n_slots;
    struct parsed_answer *parsed = calloc(n, sizeof(*parsed));
    struct api_choice *choices = calloc(n, sizeof(*choices));
    size_t *offsets = calloc(n, sizeof(*offsets));
    struct api_usage usage;
    bool ok = parsed && choices && offsets;
    for (size_t i = 0; ok && i < n; i++) {
        const struct choice_slot *slot = &a->choices.slot[i];
        ok = parse_answer(&parsed[i], a, slot);
        if (ok) choices[i] = choice_of_answer(a, slot, &parsed[i], &offsets[i]);
    }
    completion_choices_usage(&a->choices, &usage);
    if (ok) a->request.dialect->write_whole(out, &a->reply, choices, n, &usage);
    free(offsets);
    free(choices);
    free_parsed_answers(parsed, n);
    return ok;
}

static void reply_whole(struct completion *a, struct exchange *x)
{
    struct buf out = buf_with_max(EY_MAX_RESPONSE_BYTES);
    if (!charge_reply(x, whole_reply_bytes(a))) return;
    bool ok = write_whole_reply(a, &out);
    exchange_uncharge(x, out.size);
    if (ok)
        exchange_reply(x, 200, a->request.dialect->json_type, &out);
    else
        exchange_fail(x, 503, NULL, NULL, "no memory for the reply");
    buf_free(&out);
}

/* ---- request to reply ---- */

/* Prepares the choices and frees the parsed request. A pooling request is kept, because each of its
 * inputs is prepared only when it starts, and the reply may return the inputs. */
static bool prepare_choices(struct completion *a, struct exchange *x)
{
    bool ok = completion_choices_prepare(&a->choices, a->server, &a->lease, &a->request,
                                         exchange_started(x), &a->error);
    a->reply.prompt_tokens = a->choices.n_prompt_tokens;
    add_warning(x, "", &a->request.notes);
    if (ok && !a->request.request.pool) drop_parsed(a, x);
    return ok;
}

void completion_answer(struct completion *a, struct exchange *x)
{
    if (!copy_echo_prompts(a) || !prepare_choices(a, x) ||
        !completion_choices_start(&a->choices, &a->error)) {
        completion_may_continue(a); /* replaces the error if the server is shutting down */
        completion_fail(a, x);
    } else if (a->request.stream) {
        completion_stream(a, x);
        return; /* owned by the stream now */
    } else if (wait_for_all(a, x)) {
        reply_whole(a, x);
    } else {
        completion_fail(a, x);
    }
    completion_close(a);
}

void completion_run(struct server *server, struct exchange *x, const struct api_dialect *dialect)
{
    struct completion *a = completion_open(server, x, dialect);
    if (a) completion_answer(a, x);
}
