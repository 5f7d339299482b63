/* SPDX-License-Identifier: Apache-2.0 */
/* Writes answers: one message, or the events of a stream that builds it block by block. */
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/text/json_writer.h"
#include "server/api/anthropic/anthropic_dialect.h"

/* ---- the message ---- */

static void add_message_head(struct json_writer *w, const struct api_reply *reply)
{
    json_add_string(w, "id", reply->id);
    json_add_string(w, "type", "message");
    json_add_string(w, "role", "assistant");
    json_add_string(w, "model", reply->request->model);
}

/* If an answer was cut off before it had max_tokens tokens, it filled the context or repeated
 * itself. The API has no stop reason for repetition, so max_tokens is reported. */
static const char *stop_reason_of(const struct api_reply *reply, const struct api_end *end,
                                  const struct api_usage *usage)
{
    const ey_request *request = &reply->request->request;
    const bool has_room = usage->completion_tokens < request->max_tokens;
    if (end->finish == EY_FINISH_LENGTH)
        return has_room && !end->repetition.copies ? "model_context_window_exceeded" : "max_tokens";
    return end->stop_text ? "stop_sequence" : end->called ? "tool_use" : "end_turn";
}

static void add_stop_members(struct json_writer *w, const struct api_reply *reply,
                             const struct api_end *end, const struct api_usage *usage)
{
    json_add_string(w, "stop_reason", end ? stop_reason_of(reply, end, usage) : NULL);
    json_add_string(w, "stop_sequence", end ? end->stop_text : NULL);
    json_add_null(w, "stop_details");
    json_add_null(w, "container");
}

static void add_output_details(struct json_writer *w, int64_t thinking_tokens)
{
    json_write_key(w, "output_tokens_details");
    if (!thinking_tokens) {
        json_write_null(w);
        return;
    }
    json_open_object(w);
    json_add_int(w, "thinking_tokens", thinking_tokens);
    json_close_object(w);
}

/* input_tokens excludes the cached prompt tokens, which cache_read_input_tokens counts. */
static void add_message_usage(struct json_writer *w, const struct api_usage *usage, bool whole)
{
    json_write_key(w, "usage");
    json_open_object(w);
    json_add_int(w, "input_tokens", usage->prompt_tokens - usage->cached_tokens);
    json_add_int(w, "cache_creation_input_tokens", 0);
    json_add_int(w, "cache_read_input_tokens", usage->cached_tokens);
    if (whole) json_add_null(w, "cache_creation");
    json_add_int(w, "output_tokens", usage->completion_tokens);
    add_output_details(w, usage->thinking_tokens);
    json_add_null(w, "server_tool_use");
    if (whole) {
        json_add_string(w, "service_tier", "standard");
        json_add_null(w, "inference_geo");
    }
    json_close_object(w);
}

/* ---- blocks ---- */

/* Clients drop thinking blocks without a signature, so a hash of the text serves as one. */
static void sign_thoughts(char out[33], const char *text, size_t n)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)text, n, digest);
    for (size_t i = 0; i < 16; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

static bool omits_thoughts(const struct api_reply *reply)
{
    const struct anthropic_request *own = reply->request->own;
    return own->omits_thoughts;
}

static void add_thoughts(struct json_writer *w, const char *text, size_t n, const char *signature)
{
    json_open_object(w);
    json_add_string(w, "type", "thinking");
    json_write_key(w, "thinking");
    json_write_text(w, text, n);
    json_add_string(w, "signature", signature);
    json_close_object(w);
}

static void add_text_block(struct json_writer *w, const char *text, size_t n)
{
    json_open_object(w);
    json_add_string(w, "type", "text");
    json_write_key(w, "text");
    json_write_text(w, text, n);
    json_close_object(w);
}

/* Writes the arguments as an object. Arguments that are not a JSON object become the text of a
 * member "input". */
static void write_input(struct json_writer *w, const struct api_tool_call *call)
{
    ey_err e;
    json_object *parsed = json_parse(call->arguments, call->n_arguments, "input", EY_BAD_REQUEST,
                                     &e);
    if (json_object_is_type(parsed, json_type_object)) {
        json_write_raw(w, call->arguments, call->n_arguments);
    } else {
        json_open_object(w);
        json_write_key(w, "input");
        json_write_text(w, call->arguments, call->n_arguments);
        json_close_object(w);
    }
    json_object_put(parsed);
}

/* In a stream, `input` is empty here because the arguments follow in an event of their own. */
static void add_tool_use(struct json_writer *w, const struct api_tool_call *call, bool with_input)
{
    json_open_object(w);
    json_add_string(w, "type", "tool_use");
    json_add_string(w, "id", call->id);
    json_add_string(w, "name", call->name);
    json_write_key(w, "input");
    if (with_input)
        write_input(w, call);
    else
        json_write_raw(w, "{}", 2);
    json_close_object(w);
}

void anthropic_write_whole(struct buf *out, struct api_reply *reply,
                           const struct api_choice *choices, size_t n,
                           const struct api_usage *usage)
{
    const struct api_choice *choice = choices; /* exactly one */
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    char signature[33];
    (void)n;
    json_open_object(&w);
    add_message_head(&w, reply);
    json_write_key(&w, "content");
    json_open_array(&w);
    if (choice->n_thinking) {
        sign_thoughts(signature, choice->thinking, choice->n_thinking);
        add_thoughts(&w, choice->thinking, omits_thoughts(reply) ? 0 : choice->n_thinking,
                     signature);
    }
    if (choice->n_text) add_text_block(&w, choice->text, choice->n_text);
    for (size_t i = 0; i < choice->n_calls; i++)
        add_tool_use(&w, &choice->calls[i], true);
    json_close_array(&w);
    add_stop_members(&w, reply, &choice->end, usage);
    add_message_usage(&w, usage, true);
    json_close_object(&w);
}

/* ---- events ---- */

static struct json_writer open_message_event(struct buf *out, const char *name)
{
    buf_printf(out, "event: %s\ndata: ", name);
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    json_open_object(&w);
    json_add_string(&w, "type", name);
    return w;
}

static void close_message_event(struct json_writer *w)
{
    json_close_object(w);
    buf_add_text(w->out, "\n\n");
}

static void write_ping(struct buf *out)
{
    struct json_writer w = open_message_event(out, "ping");
    close_message_event(&w);
}

static void write_message_start(struct buf *out, const struct api_reply *reply)
{
    struct json_writer w = open_message_event(out, "message_start");
    json_write_key(&w, "message");
    json_open_object(&w);
    add_message_head(&w, reply);
    json_write_key(&w, "content");
    json_write_raw(&w, "[]", 2);
    add_stop_members(&w, reply, NULL, NULL);
    add_message_usage(&w, &(struct api_usage){.prompt_tokens = reply->prompt_tokens}, true);
    json_close_object(&w);
    close_message_event(&w);
    write_ping(out);
}

/* Begins an event of the current block. If `key` is not NULL, it is the event's last member, whose
 * value the caller must write. */
static struct json_writer open_block_event(struct buf *out, const struct anthropic_state *state,
                                           const char *name, const char *key)
{
    struct json_writer w = open_message_event(out, name);
    json_add_int(&w, "index", state->index);
    if (key) json_write_key(&w, key);
    return w;
}

static void write_block_delta(struct buf *out, const struct anthropic_state *state,
                              const char *type, const char *key, const char *text, size_t n)
{
    struct json_writer w = open_block_event(out, state, "content_block_delta", "delta");
    json_open_object(&w);
    json_add_string(&w, "type", type);
    json_write_key(&w, key);
    json_write_text(&w, text, n);
    json_close_object(&w);
    close_message_event(&w);
}

static void write_block_stop(struct buf *out, struct anthropic_state *state)
{
    struct json_writer w = open_block_event(out, state, "content_block_stop", NULL);
    close_message_event(&w);
    state->open = ANTHROPIC_CLOSED;
    state->index++;
}

static void close_block(struct buf *out, struct anthropic_state *state)
{
    char signature[33];
    if (state->open == ANTHROPIC_CLOSED) return;
    if (state->open == ANTHROPIC_THINKING) {
        sign_thoughts(signature, state->thinking.data, state->thinking.size);
        write_block_delta(out, state, "signature_delta", "signature", signature, 32);
    }
    write_block_stop(out, state);
}

static void write_thinking_piece(struct buf *out, const struct api_reply *reply, const char *text,
                                 size_t n)
{
    struct anthropic_state *state = reply->state;
    if (!n) return;
    if (state->open != ANTHROPIC_THINKING) {
        close_block(out, state);
        struct json_writer w = open_block_event(out, state, "content_block_start", "content_block");
        add_thoughts(&w, "", 0, "");
        close_message_event(&w);
        state->open = ANTHROPIC_THINKING;
        buf_free(&state->thinking);
        state->thinking = buf_with_max(EY_MAX_RESPONSE_BYTES);
    }
    if (!buf_add(&state->thinking, text, n)) buf_fail(out);
    if (!omits_thoughts(reply))
        write_block_delta(out, state, "thinking_delta", "thinking", text, n);
}

/* White space after a call does not begin a text block. */
static void write_text_piece(struct buf *out, struct anthropic_state *state, const char *text,
                             size_t n)
{
    if (!n || (state->open != ANTHROPIC_TEXT && state->called && api_text_is_white(text, n)))
        return;
    if (state->open != ANTHROPIC_TEXT) {
        close_block(out, state);
        struct json_writer w = open_block_event(out, state, "content_block_start", "content_block");
        add_text_block(&w, "", 0);
        close_message_event(&w);
        state->open = ANTHROPIC_TEXT;
    }
    write_block_delta(out, state, "text_delta", "text", text, n);
}

static void write_call_block(struct buf *out, struct anthropic_state *state,
                             const struct api_tool_call *call)
{
    struct buf input = buf_with_max(EY_MAX_RESPONSE_BYTES);
    struct json_writer input_writer = json_write_to(&input, JSON_COMPACT);
    write_input(&input_writer, call);
    close_block(out, state);
    state->called = true;
    struct json_writer w = open_block_event(out, state, "content_block_start", "content_block");
    add_tool_use(&w, call, false);
    close_message_event(&w);
    write_block_delta(out, state, "input_json_delta", "partial_json", input.data, input.size);
    write_block_stop(out, state);
    if (input.failed) buf_fail(out);
    buf_free(&input);
}

static void write_message_end(struct buf *out, const struct api_reply *reply,
                              const struct api_usage *usage)
{
    const struct anthropic_state *state = reply->state;
    struct json_writer w = open_message_event(out, "message_delta");
    json_write_key(&w, "delta");
    json_open_object(&w);
    add_stop_members(&w, reply, &state->end, usage);
    json_close_object(&w);
    add_message_usage(&w, usage, false);
    close_message_event(&w);
    w = open_message_event(out, "message_stop");
    close_message_event(&w);
}

void anthropic_write_event(struct buf *out, struct api_reply *reply, const struct api_event *event)
{
    struct anthropic_state *state = reply->state;
    switch (event->type) {
    case API_EVENT_OPEN: write_message_start(out, reply); break;
    case API_EVENT_START: break;
    case API_EVENT_THINKING: write_thinking_piece(out, reply, event->text, event->n_text); break;
    case API_EVENT_TEXT: write_text_piece(out, state, event->text, event->n_text); break;
    case API_EVENT_CALL: write_call_block(out, state, event->call); break;
    case API_EVENT_END:
        close_block(out, state);
        state->end = *event->end;
        break;
    case API_EVENT_FINISH: write_message_end(out, reply, event->usage); break;
    case API_EVENT_ERROR:
        buf_add_text(out, "event: error\ndata: ");
        write_anthropic_error(out, event->error);
        buf_add_text(out, "\n\n");
        break;
    case API_EVENT_SILENCE: write_ping(out); break;
    }
}

void anthropic_close_state(void *state)
{
    struct anthropic_state *s = state;
    buf_free(&s->thinking);
}

/* ---- errors ---- */

void anthropic_write_unknown_model(char *out, size_t size, const char *asked, const char *names)
{
    snprintf(out, size,
             "model: %.200s is not served here (served: %s); the server's option "
             "--served-model-name gives a model more names",
             asked, names);
}

static const char *anthropic_error_type(int status)
{
    switch (status) {
    case 401: return "authentication_error";
    case 403:
    case 421: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503:
    case 529: return "overloaded_error";
    case 504: return "timeout_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
    }
}

/* Claude Code recognizes the error by this wording, and then shortens its history. */
static void write_too_long(char *out, size_t size, const struct api_error *error)
{
    size_t given;
    int most;
    const char *at = strstr(error->message, "the prompt has ");
    bool tokens = at && sscanf(at, "the prompt has %zu tokens", &given) == 1 &&
                  strstr(at, " tokens;") &&
                  sscanf(error->message, "This model's maximum context length is %d", &most) == 1;
    if (tokens)
        snprintf(out, size, "prompt is too long: %zu tokens > %d maximum", given, most);
    else
        snprintf(out, size, "prompt is too long: %.600s", error->message);
}

int write_anthropic_error(struct buf *out, const struct api_error *error)
{
    char too_long[sizeof(error->message) + 64];
    const char *message = api_error_text(error);
    if (error->code == API_ERROR_TOO_LONG)
        write_too_long(too_long, sizeof(too_long), error), message = too_long;
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    json_open_object(&w);
    json_add_string(&w, "type", "error");
    json_write_key(&w, "error");
    json_open_object(&w);
    json_add_string(&w, "type", anthropic_error_type(error->status));
    json_add_string(&w, "message", message);
    json_close_object(&w);
    json_close_object(&w);
    return error->status == 503                           ? 529
           : error->status == 422 || error->status == 501 ? 400
                                                          : error->status;
}
