/* SPDX-License-Identifier: Apache-2.0 */
/* Writes answers: one object, or a line for each piece. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text/json_writer.h"
#include "server/api/ollama/ollama_dialect.h"

/* ---- common members ---- */

void ollama_write_time(char out[40], int64_t seconds, long microseconds)
{
    time_t at = (time_t)seconds;
    struct tm utc;
    char text[32];
    gmtime_r(&at, &utc);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(out, 40, "%.20s.%06uZ", text, (unsigned)microseconds % 1000000u);
}

static struct json_writer open_object(struct buf *out, const struct api_reply *reply)
{
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    struct timespec now = {0};
    char time_text[40];
    clock_gettime(CLOCK_REALTIME, &now);
    ollama_write_time(time_text, now.tv_sec, now.tv_nsec / 1000);
    json_open_object(&w);
    json_add_string(&w, "model", reply->request->model);
    json_add_string(&w, "created_at", time_text);
    return w;
}

/* Ollama's arguments are an object. Arguments that are not JSON are written as a string. */
static void write_arguments(struct json_writer *w, const struct api_tool_call *call)
{
    ey_err e;
    json_object *parsed = json_parse(call->arguments, call->n_arguments, "arguments",
                                     EY_BAD_REQUEST, &e);
    if (parsed)
        json_write_raw(w, call->arguments, call->n_arguments);
    else
        json_write_text(w, call->arguments, call->n_arguments);
    json_object_put(parsed);
}

static void write_ollama_calls(struct json_writer *w, const struct api_tool_call *calls, size_t n,
                               int first)
{
    json_write_key(w, "tool_calls");
    json_open_array(w);
    for (size_t i = 0; i < n; i++) {
        json_open_object(w);
        json_add_string(w, "id", calls[i].id);
        json_write_key(w, "function");
        json_open_object(w);
        json_add_int(w, "index", first + (int)i);
        json_add_string(w, "name", calls[i].name);
        json_write_key(w, "arguments");
        write_arguments(w, &calls[i]);
        json_close_object(w);
        json_close_object(w);
    }
    json_close_array(w);
}

/* A new part of the answer. Its text is written even if it is empty, because clients require it. */
struct answer_piece {
    const char *text, *thinking;
    size_t n_text, n_thinking;
    const struct api_tool_call *calls;
    size_t n_calls;
    int first_call;
};

static void add_piece_members(struct json_writer *w, const char *key,
                              const struct answer_piece *piece)
{
    json_write_key(w, key);
    json_write_text(w, piece->text ? piece->text : "", piece->n_text);
    if (piece->n_thinking) {
        json_write_key(w, "thinking");
        json_write_text(w, piece->thinking, piece->n_thinking);
    }
    if (piece->n_calls) write_ollama_calls(w, piece->calls, piece->n_calls, piece->first_call);
}

static void add_answer_piece(struct json_writer *w, const struct api_reply *reply,
                             const struct answer_piece *piece)
{
    if (reply->kind == OLLAMA_GENERATE) {
        add_piece_members(w, "response", piece);
        return;
    }
    json_write_key(w, "message");
    json_open_object(w);
    json_add_string(w, "role", "assistant");
    add_piece_members(w, "content", piece);
    json_close_object(w);
}

/* ---- log-probabilities ---- */

static void add_ollama_logprobs(struct json_writer *w, const struct api_logprobs *logprobs)
{
    if (!logprobs || !logprobs->tokens || !logprobs->n) return;
    json_write_key(w, "logprobs");
    json_open_array(w);
    for (size_t i = 0; i < logprobs->n; i++)
        api_write_answer_token(w, &logprobs->tokens[i], false);
    json_close_array(w);
}

/* ---- the end ---- */

static void add_nanoseconds(struct json_writer *w, const char *key, double seconds)
{
    json_add_int(w, key, seconds > 0 ? (int64_t)llround(seconds * 1e9) : 0);
}

static void add_used_images(struct json_writer *w, const struct api_usage *usage)
{
    json_write_key(w, "usage");
    json_open_object(w);
    json_write_key(w, "images");
    json_open_array(w);
    for (size_t i = 0; i < usage->n_images; i++) {
        json_open_object(w);
        json_add_int(w, "width", usage->images[i].width);
        json_add_int(w, "height", usage->images[i].height);
        json_add_int(w, "tokens", usage->images[i].tokens);
        json_add_bool(w, "cached", usage->images[i].cached);
        json_close_object(w);
    }
    json_close_array(w);
    json_close_object(w);
}

static void add_ollama_end(struct json_writer *w, const struct api_reply *reply, ey_finish finish,
                           const struct api_usage *usage)
{
    json_add_bool(w, "done", true);
    json_add_string(w, "done_reason", finish == EY_FINISH_LENGTH ? "length" : "stop");
    add_nanoseconds(w, "total_duration", seconds_now() - reply->requested_at);
    add_nanoseconds(w, "load_duration", reply->load_seconds);
    json_add_int(w, "prompt_eval_count", usage->prompt_tokens);
    add_nanoseconds(w, "prompt_eval_duration", usage->vision_s + usage->prefill_s);
    json_add_int(w, "eval_count", usage->completion_tokens);
    add_nanoseconds(w, "eval_duration", usage->decode_s);
    if (usage->n_images) add_used_images(w, usage);
    api_add_repetition(w, &usage->repetition);
    if (reply->request->notes.size) {
        json_write_key(w, "warnings");
        json_open_array(w);
        json_write_string(w, reply->request->notes.data);
        json_close_array(w);
    }
    json_close_object(w);
}

void ollama_write_whole(struct buf *out, struct api_reply *reply, const struct api_choice *choices,
                        size_t n, const struct api_usage *usage)
{
    const struct api_choice *choice = choices; /* exactly one */
    struct answer_piece piece = {.text = choice->text,
                                 .n_text = choice->n_text,
                                 .thinking = choice->thinking,
                                 .n_thinking = choice->n_thinking,
                                 .calls = choice->calls,
                                 .n_calls = choice->n_calls};
    struct json_writer w = open_object(out, reply);
    (void)n;
    add_answer_piece(&w, reply, &piece);
    add_ollama_logprobs(&w, &choice->logprobs);
    add_ollama_end(&w, reply, choice->end.finish, usage);
}

void ollama_write_load(struct buf *out, const struct api_reply *reply, const char *reason)
{
    struct json_writer w = open_object(out, reply);
    add_answer_piece(&w, reply, &(struct answer_piece){.text = ""});
    json_add_bool(&w, "done", true);
    json_add_string(&w, "done_reason", reason);
    json_close_object(&w);
}

/* ---- a stream's lines ---- */

static void write_answer_line(struct buf *out, const struct api_reply *reply,
                              const struct answer_piece *piece, const struct api_logprobs *logprobs)
{
    struct json_writer w = open_object(out, reply);
    add_answer_piece(&w, reply, piece);
    json_add_bool(&w, "done", false);
    add_ollama_logprobs(&w, logprobs);
    json_close_object(&w);
    buf_add_text(out, "\n");
}

static void write_last_line(struct buf *out, const struct api_reply *reply,
                            const struct api_usage *usage)
{
    const struct ollama_state *state = reply->state;
    struct json_writer w = open_object(out, reply);
    add_answer_piece(&w, reply, &(struct answer_piece){.text = ""});
    add_ollama_end(&w, reply, state->finish, usage);
    buf_add_text(out, "\n");
}

static void write_end_event(struct buf *out, struct api_reply *reply, const struct api_event *event)
{
    struct ollama_state *state = reply->state;
    state->finish = event->end->finish;
    if (event->logprobs) /* logprobs of tokens without text */
        write_answer_line(out, reply, &(struct answer_piece){.text = ""}, event->logprobs);
}

void ollama_write_event(struct buf *out, struct api_reply *reply, const struct api_event *event)
{
    struct answer_piece piece = {.text = event->text, .n_text = event->n_text};
    switch (event->type) {
    case API_EVENT_OPEN:
    case API_EVENT_START: break;
    case API_EVENT_TEXT: write_answer_line(out, reply, &piece, event->logprobs); break;
    case API_EVENT_THINKING:
        piece = (struct answer_piece){.thinking = event->text, .n_thinking = event->n_text};
        write_answer_line(out, reply, &piece, NULL);
        break;
    case API_EVENT_CALL:
        piece = (struct answer_piece){
            .calls = event->call, .n_calls = 1, .first_call = event->call_index};
        write_answer_line(out, reply, &piece, NULL);
        break;
    case API_EVENT_END: write_end_event(out, reply, event); break;
    case API_EVENT_FINISH: write_last_line(out, reply, event->usage); break;
    case API_EVENT_ERROR:
        write_ollama_error(out, event->error);
        buf_add_text(out, "\n");
        break;
    case API_EVENT_SILENCE: /* an empty piece, which does no harm in any client */
        write_answer_line(out, reply, &(struct answer_piece){.text = ""}, NULL);
        break;
    }
}

/* ---- errors ---- */

void ollama_write_unknown_model(char *out, size_t size, const char *asked, const char *names)
{
    snprintf(out, size, "model '%.200s' not found, try pulling it first (served here: %s)", asked,
             names);
}

/* Clients recognize these errors by Ollama's own messages. */
static const char *ollama_error_text(const struct api_error *error)
{
    if (error->code == API_ERROR_TOO_LONG) return "the input length exceeds the context length";
    if (error->status == 401) return "unauthorized";
    return api_error_text(error);
}

int write_ollama_error(struct buf *out, const struct api_error *error)
{
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    json_open_object(&w);
    json_add_string(&w, "error", ollama_error_text(error));
    json_close_object(&w);
    return error->status == 422 ? 400 : error->status;
}
