/* SPDX-License-Identifier: Apache-2.0 */
/* Writes answers as the API's JSON. */
#include "server/api/openai_chat/api_reply.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text/json_writer.h"
#include "server/api/openai_chat/openai_dialect.h"

#define FINGERPRINT "eyelet-" EY_VERSION

/* ---- log-probabilities ---- */

static void write_chat_logprobs(struct json_writer *w, const struct api_logprobs *logprobs)
{
    json_open_object(w);
    json_write_key(w, "content");
    json_open_array(w);
    for (size_t i = 0; i < logprobs->n; i++)
        api_write_answer_token(w, &logprobs->tokens[i], true);
    json_close_array(w);
    json_close_object(w);
}

static size_t count_characters(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static bool is_listed_token(const ey_logprob *candidates, size_t n, const char *token)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(candidates[i].token, token) == 0) return true;
    return false;
}

/* Writes {"token": logprob} for the alternatives and the chosen token. Of tokens with the same
 * text, only the likelier is written. */
static void write_top_map(struct json_writer *w, const ey_token_logprobs *at)
{
    json_open_object(w);
    for (size_t k = 0; k < at->n_top; k++) {
        if (is_listed_token(at->top, k, at->top[k].token)) continue;
        json_write_key(w, at->top[k].token);
        api_write_logprob(w, at->top[k].logprob);
    }
    if (!is_listed_token(at->top, at->n_top, at->chosen.token)) {
        json_write_key(w, at->chosen.token);
        api_write_logprob(w, at->chosen.logprob);
    }
    json_close_object(w);
}

static void write_completion_logprobs(struct json_writer *w, const struct api_logprobs *logprobs)
{
    json_open_object(w);
    json_write_key(w, "text_offset");
    json_open_array(w);
    for (size_t i = 0; i < logprobs->n; i++) {
        json_write_uint(w, *logprobs->offset);
        *logprobs->offset += count_characters(logprobs->tokens[i].chosen.token);
    }
    json_close_array(w);
    json_write_key(w, "token_logprobs");
    json_open_array(w);
    for (size_t i = 0; i < logprobs->n; i++)
        api_write_logprob(w, logprobs->tokens[i].chosen.logprob);
    json_close_array(w);
    json_write_key(w, "tokens");
    json_open_array(w);
    for (size_t i = 0; i < logprobs->n; i++)
        json_write_string(w, logprobs->tokens[i].chosen.token);
    json_close_array(w);
    json_write_key(w, "top_logprobs");
    json_open_array(w);
    for (size_t i = 0; i < logprobs->n; i++)
        if (isnan(logprobs->tokens[i].chosen.logprob)) /* the first token of a prompt */
            json_write_null(w);
        else
            write_top_map(w, &logprobs->tokens[i]);
    json_close_array(w);
    json_close_object(w);
}

static void add_logprobs(struct json_writer *w, const struct api_reply *reply,
                         const struct api_logprobs *logprobs)
{
    json_write_key(w, "logprobs");
    if (!logprobs || !logprobs->tokens)
        json_write_null(w);
    else if (reply->kind == API_CHAT)
        write_chat_logprobs(w, logprobs);
    else
        write_completion_logprobs(w, logprobs);
}

static void write_ranked_token(struct json_writer *w, const ey_logprob *token, int64_t rank)
{
    char id[16];
    snprintf(id, sizeof(id), "%d", token->id);
    json_write_key(w, id);
    json_open_object(w);
    json_write_key(w, "logprob");
    api_write_logprob(w, token->logprob);
    json_add_int(w, "rank", rank);
    json_add_string(w, "decoded_token", token->token);
    json_close_object(w);
}

/* As in vLLM: null for the first token; for each other token an object {"ID": {...}} with the token
 * itself and the likeliest alternatives. */
static void add_prompt_logprobs(struct json_writer *w, const struct api_prompt_logprobs *logprobs)
{
    if (!logprobs || !logprobs->tokens) return;
    json_write_key(w, "prompt_logprobs");
    json_open_array(w);
    for (size_t i = 0; i < logprobs->n; i++) {
        const ey_token_logprobs *at = &logprobs->tokens[i];
        if (!logprobs->ranks[i]) {
            json_write_null(w);
            continue;
        }
        json_open_object(w);
        write_ranked_token(w, &at->chosen, logprobs->ranks[i]);
        for (size_t k = 0; k < at->n_top; k++)
            if (at->top[k].id != at->chosen.id) write_ranked_token(w, &at->top[k], (int64_t)k + 1);
        json_close_object(w);
    }
    json_close_array(w);
}

/* ---- shared by objects and chunks ---- */

/* Writes the members before the first choice. */
static void open_reply(struct json_writer *w, const struct api_reply *reply, const char *object)
{
    json_open_object(w);
    json_add_string(w, "id", reply->id);
    json_add_string(w, "object", object);
    json_add_int(w, "created", reply->created);
    json_add_string(w, "model", reply->model);
    json_add_string(w, "system_fingerprint", FINGERPRINT);
    add_prompt_logprobs(w, reply->prompt_logprobs);
    json_write_key(w, "choices");
    json_open_array(w);
}

/* While the choice continues, `end` is NULL and there is no stop_reason. */
static void add_finish_reason(struct json_writer *w, const struct api_end *end)
{
    if (!end) {
        json_add_null(w, "finish_reason");
        return;
    }
    const bool looped = end->repetition.copies > 0;
    json_add_string(w, "finish_reason",
                    end->called                       ? "tool_calls"
                    : looped && end->repetition_asked ? "repetition"
                                                      : ey_finish_text(end->finish));
    if (looped)
        json_add_string(w, "stop_reason", "repetition_detected");
    else if (end->stop_text)
        json_add_string(w, "stop_reason", end->stop_text);
    else if (end->stop_id >= 0)
        json_add_int(w, "stop_reason", end->stop_id);
    else
        json_add_null(w, "stop_reason");
}

static void add_call_members(struct json_writer *w, const struct api_tool_call *call)
{
    json_add_string(w, "id", call->id);
    json_add_string(w, "type", "function");
    json_write_key(w, "function");
    json_open_object(w);
    json_add_string(w, "name", call->name);
    json_write_key(w, "arguments");
    json_write_text(w, call->arguments, call->n_arguments);
    json_close_object(w);
}

void reply_write_images(struct json_writer *w, const ey_image_usage *images, size_t n)
{
    json_open_array(w);
    for (size_t i = 0; i < n; i++) {
        json_open_object(w);
        json_add_int(w, "width", images[i].width);
        json_add_int(w, "height", images[i].height);
        json_add_int(w, "used_width", images[i].used_width);
        json_add_int(w, "used_height", images[i].used_height);
        json_add_int(w, "tokens", images[i].tokens);
        json_add_bool(w, "cached", images[i].cached);
        json_close_object(w);
    }
    json_close_array(w);
}

static void write_usage(struct json_writer *w, const struct api_usage *usage)
{
    json_open_object(w);
    json_add_int(w, "prompt_tokens", usage->prompt_tokens);
    json_add_int(w, "completion_tokens", usage->completion_tokens);
    json_add_int(w, "total_tokens", usage->prompt_tokens + usage->completion_tokens);
    json_write_key(w, "prompt_tokens_details");
    json_open_object(w);
    json_add_int(w, "cached_tokens", usage->cached_tokens);
    json_write_key(w, "multimodal_tokens");
    json_open_object(w);
    json_add_int(w, "image", usage->image_tokens);
    json_close_object(w);
    json_close_object(w);
    if (usage->thinking_tokens) {
        json_write_key(w, "completion_tokens_details");
        json_open_object(w);
        json_add_int(w, "reasoning_tokens", usage->thinking_tokens);
        json_close_object(w);
    }
    json_write_key(w, "images");
    reply_write_images(w, usage->images, usage->n_images);
    json_close_object(w);
}

void reply_write_ids(struct json_writer *w, const int *ids, size_t n)
{
    json_open_array(w);
    for (size_t i = 0; i < n; i++)
        json_write_int(w, ids[i]);
    json_close_array(w);
}

/* ---- whole objects ---- */

struct json_writer reply_open(struct buf *out, const struct api_reply *reply)
{
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    open_reply(&w, reply, reply->kind == API_CHAT ? "chat.completion" : "text_completion");
    return w;
}

/* Writes the thought under both names that clients read. */
static void add_thinking(struct json_writer *w, const char *text, size_t n)
{
    json_write_key(w, "reasoning_content");
    json_write_text(w, text, n);
    json_write_key(w, "reasoning");
    json_write_text(w, text, n);
}

/* Content is null if the answer has only calls. */
static void write_chat_message(struct json_writer *w, const struct api_choice *choice)
{
    json_open_object(w);
    json_add_string(w, "role", "assistant");
    json_write_key(w, "content");
    if (choice->n_calls && !choice->n_text)
        json_write_null(w);
    else
        json_write_text(w, choice->text, choice->n_text);
    json_add_null(w, "refusal");
    if (choice->n_thinking) add_thinking(w, choice->thinking, choice->n_thinking);
    if (choice->n_calls) {
        json_write_key(w, "tool_calls");
        json_open_array(w);
        for (size_t i = 0; i < choice->n_calls; i++) {
            json_open_object(w);
            add_call_members(w, &choice->calls[i]);
            json_close_object(w);
        }
        json_close_array(w);
    }
    json_close_object(w);
}

void reply_add_choice(struct json_writer *w, const struct api_reply *reply,
                      const struct api_choice *choice)
{
    json_open_object(w);
    json_add_int(w, "index", choice->index);
    if (reply->kind == API_CHAT) {
        json_write_key(w, "message");
        write_chat_message(w, choice);
    } else {
        json_write_key(w, "text");
        json_write_text(w, choice->text, choice->n_text);
    }
    add_logprobs(w, reply, &choice->logprobs);
    if (reply->kind == API_COMPLETION) add_prompt_logprobs(w, &choice->prompt_logprobs);
    add_finish_reason(w, &choice->end);
    json_close_object(w);
}

void reply_close(struct json_writer *w, const struct api_usage *usage)
{
    json_close_array(w);
    api_add_repetition(w, &usage->repetition);
    json_write_key(w, "usage");
    write_usage(w, usage);
    if (usage->decode_s > 0) {
        json_write_key(w, "timings");
        json_open_object(w);
        json_add_fixed(w, "vision_s", usage->vision_s, 4);
        json_add_fixed(w, "prefill_s", usage->prefill_s, 4);
        json_add_fixed(w, "decode_s", usage->decode_s, 4);
        json_close_object(w);
    }
    json_close_object(w);
}

/* ---- chunks ---- */

static struct json_writer open_sse_event(struct buf *out, const struct api_reply *reply)
{
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    buf_add_text(out, "data: ");
    open_reply(&w, reply, reply->kind == API_CHAT ? "chat.completion.chunk" : "text_completion");
    return w;
}

/* Begins a chunk with one choice; the caller writes the choice's new part. */
static struct json_writer open_chunk(struct buf *out, const struct api_reply *reply, int index)
{
    struct json_writer w = open_sse_event(out, reply);
    json_open_object(&w);
    json_add_int(&w, "index", index);
    return w;
}

/* Ends a chunk; NULL for `end` means that the choice continues. */
static void close_chunk(struct json_writer *w, const struct api_reply *reply,
                        const struct api_logprobs *logprobs, const struct api_end *end)
{
    add_logprobs(w, reply, logprobs);
    add_finish_reason(w, end);
    json_close_object(w);
    json_close_array(w);
    if (end) api_add_repetition(w, &end->repetition);
    json_close_object(w);
    buf_add_text(w->out, "\n\n");
}

/* A completion's text is in the choice itself, a chat's in its delta. */
static void add_new_text(struct json_writer *w, const struct api_reply *reply, const char *text,
                         size_t n)
{
    if (reply->kind == API_CHAT) {
        json_write_key(w, "delta");
        json_open_object(w);
        json_write_key(w, "content");
        json_write_text(w, text, n);
        json_close_object(w);
    } else {
        json_write_key(w, "text");
        json_write_text(w, text, n);
    }
}

void reply_chunk_role(struct buf *out, const struct api_reply *reply, int index)
{
    if (reply->kind != API_CHAT) return;
    struct json_writer w = open_chunk(out, reply, index);
    json_write_key(&w, "delta");
    json_open_object(&w);
    json_add_string(&w, "role", "assistant");
    json_add_string(&w, "content", "");
    json_close_object(&w);
    close_chunk(&w, reply, NULL, NULL);
}

void reply_chunk_thinking(struct buf *out, const struct api_reply *reply, int index,
                          const char *text, size_t n)
{
    struct json_writer w = open_chunk(out, reply, index);
    json_write_key(&w, "delta");
    json_open_object(&w);
    add_thinking(&w, text, n);
    json_close_object(&w);
    close_chunk(&w, reply, NULL, NULL);
}

void reply_chunk_text(struct buf *out, const struct api_reply *reply, int index, const char *text,
                      size_t n, const struct api_logprobs *logprobs)
{
    struct json_writer w = open_chunk(out, reply, index);
    add_new_text(&w, reply, text, n);
    close_chunk(&w, reply, logprobs, NULL);
}

void reply_chunk_call(struct buf *out, const struct api_reply *reply, int index, int call_index,
                      const struct api_tool_call *call)
{
    struct json_writer w = open_chunk(out, reply, index);
    json_write_key(&w, "delta");
    json_open_object(&w);
    json_write_key(&w, "tool_calls");
    json_open_array(&w);
    json_open_object(&w);
    json_add_int(&w, "index", call_index);
    add_call_members(&w, call);
    json_close_object(&w);
    json_close_array(&w);
    json_close_object(&w);
    close_chunk(&w, reply, NULL, NULL);
}

void reply_chunk_end(struct buf *out, const struct api_reply *reply, int index,
                     const struct api_end *end, const struct api_logprobs *logprobs)
{
    struct json_writer w = open_chunk(out, reply, index);
    if (reply->kind == API_CHAT) {
        json_write_key(&w, "delta");
        json_open_object(&w);
        json_close_object(&w);
    } else {
        json_add_string(&w, "text", "");
    }
    close_chunk(&w, reply, logprobs, end);
}

void reply_chunk_usage(struct buf *out, const struct api_reply *reply,
                       const struct api_usage *usage)
{
    struct json_writer w = open_sse_event(out, reply);
    reply_close(&w, usage);
    buf_add_text(out, "\n\n");
}

void reply_done(struct buf *out)
{
    buf_add_text(out, "data: [DONE]\n\n");
}

void reply_chunk_error(struct buf *out, const struct api_error *error)
{
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    buf_add_text(out, "data: ");
    json_open_object(&w);
    json_write_key(&w, "error");
    json_open_object(&w);
    json_add_string(&w, "message", error->message);
    json_add_string(&w, "type", error->type);
    json_add_null(&w, "param");
    json_add_int(&w, "code", error->status);
    json_close_object(&w);
    json_close_object(&w);
    buf_add_text(out, "\n\n");
}

void reply_comment(struct buf *out, const char *fmt, ...)
{
    char text[128];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    buf_printf(out, ": %s\n\n", text);
}
