/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as the API's JSON. */
#include "server/api/openai_chat/api_reply.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/json.h"
#include "base/utf8.h"

#define FINGERPRINT "eyelet-" EY_VERSION

/* prefix and 32 random hexadecimal digits. */
static void random_id(char out[48], const char *prefix)
{
    unsigned char bytes[16] = {0};
    size_t n = (size_t)snprintf(out, 48, "%s", prefix);
    if (getrandom(bytes, sizeof(bytes), 0) < 0) memset(bytes, 0, sizeof(bytes)); /* only an id */
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(out + n + 2 * i, 3, "%02x", bytes[i]);
}

struct api_reply reply_start(enum api_kind kind, const char *model)
{
    struct api_reply reply = {.kind = kind, .created = (int64_t)time(NULL), .model = model};
    random_id(reply.id, kind == API_CHAT ? "chatcmpl-" : "cmpl-");
    return reply;
}

void reply_call_set_id(struct reply_call *call)
{
    random_id(call->id, "call_");
}

static void add_string(struct buf *out, const char *text)
{
    json_dump_string(out, text, strlen(text));
}

/* ---- log-probabilities ---- */

/* JSON has no infinity; vLLM puts this in its place. Nine digits give back the same float. */
static void add_logprob(struct buf *out, float logprob)
{
    buf_printf(out, "%.9g", logprob > -9999 ? (double)logprob : -9999.0);
}

static void add_token_logprob(struct buf *out, const ey_logprob *candidate)
{
    buf_add_text(out, "\"token\":");
    add_string(out, candidate->token);
    buf_add_text(out, ",\"logprob\":");
    add_logprob(out, candidate->logprob);
    buf_add_text(out, ",\"bytes\":[");
    for (size_t i = 0; candidate->token[i]; i++)
        buf_printf(out, "%s%u", i ? "," : "", (unsigned char)candidate->token[i]);
    buf_add_text(out, "]");
}

static void add_chat_logprobs(struct buf *out, const struct reply_logprobs *logprobs)
{
    buf_add_text(out, "{\"content\":[");
    for (size_t i = 0; i < logprobs->n; i++) {
        const ey_token_logprobs *at = &logprobs->tokens[i];
        buf_add_text(out, i ? ",{" : "{");
        add_token_logprob(out, &at->chosen);
        buf_add_text(out, ",\"top_logprobs\":[");
        for (size_t k = 0; k < at->n_top; k++) {
            buf_add_text(out, k ? ",{" : "{");
            add_token_logprob(out, &at->top[k]);
            buf_add_text(out, "}");
        }
        buf_add_text(out, "]}");
    }
    buf_add_text(out, "]}");
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

/* {"token": logprob}, the chosen one too; of tokens that look the same the likelier. */
static void add_top_map(struct buf *out, const ey_token_logprobs *at)
{
    const char *separator = "{";
    for (size_t k = 0; k < at->n_top; k++) {
        if (is_listed_token(at->top, k, at->top[k].token)) continue;
        buf_add_text(out, separator);
        add_string(out, at->top[k].token);
        buf_add_text(out, ":");
        add_logprob(out, at->top[k].logprob);
        separator = ",";
    }
    if (!is_listed_token(at->top, at->n_top, at->chosen.token)) {
        buf_add_text(out, separator);
        add_string(out, at->chosen.token);
        buf_add_text(out, ":");
        add_logprob(out, at->chosen.logprob);
    }
    buf_add_text(out, "}");
}

static void add_completion_logprobs(struct buf *out, const struct reply_logprobs *logprobs)
{
    buf_add_text(out, "{\"text_offset\":[");
    for (size_t i = 0; i < logprobs->n; i++) {
        buf_printf(out, "%s%zu", i ? "," : "", *logprobs->offset);
        *logprobs->offset += count_characters(logprobs->tokens[i].chosen.token);
    }
    buf_add_text(out, "],\"token_logprobs\":[");
    for (size_t i = 0; i < logprobs->n; i++) {
        if (i) buf_add_text(out, ",");
        add_logprob(out, logprobs->tokens[i].chosen.logprob);
    }
    buf_add_text(out, "],\"tokens\":[");
    for (size_t i = 0; i < logprobs->n; i++) {
        if (i) buf_add_text(out, ",");
        add_string(out, logprobs->tokens[i].chosen.token);
    }
    buf_add_text(out, "],\"top_logprobs\":[");
    for (size_t i = 0; i < logprobs->n; i++) {
        if (i) buf_add_text(out, ",");
        add_top_map(out, &logprobs->tokens[i]);
    }
    buf_add_text(out, "]}");
}

/* The member "logprobs". */
static void add_logprobs_member(struct buf *out, const struct api_reply *reply,
                                const struct reply_logprobs *logprobs)
{
    buf_add_text(out, ",\"logprobs\":");
    if (!logprobs || !logprobs->tokens)
        buf_add_text(out, "null");
    else if (reply->kind == API_CHAT)
        add_chat_logprobs(out, logprobs);
    else
        add_completion_logprobs(out, logprobs);
}

/* ---- pieces that objects and chunks share ---- */

static void add_reply_head(struct buf *out, const struct api_reply *reply, const char *object)
{
    buf_printf(out,
               "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":", reply->id,
               object, reply->created);
    add_string(out, reply->model);
    buf_add_text(out, ",\"system_fingerprint\":\"" FINGERPRINT "\",\"choices\":[");
}

/* The members "finish_reason" and "stop_reason"; NULL: it goes on. */
static void add_finish_reason(struct buf *out, const struct reply_end *end)
{
    if (!end) {
        buf_add_text(out, ",\"finish_reason\":null");
        return;
    }
    buf_printf(out, ",\"finish_reason\":\"%s\",\"stop_reason\":",
               end->called ? "tool_calls" : ey_finish_text(end->finish));
    if (end->stop_text)
        add_string(out, end->stop_text);
    else if (end->stop_id >= 0)
        buf_printf(out, "%d", end->stop_id);
    else
        buf_add_text(out, "null");
}

static void add_call_members(struct buf *out, const struct reply_call *call)
{
    buf_printf(out, "\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", call->id);
    add_string(out, call->name);
    buf_add_text(out, ",\"arguments\":");
    json_dump_string(out, call->arguments, call->n_arguments);
    buf_add_text(out, "}}");
}

void reply_add_images(struct buf *out, const ey_image_usage *images, size_t n)
{
    buf_add_text(out, "[");
    for (size_t i = 0; i < n; i++)
        buf_printf(out,
                   "%s{\"width\":%d,\"height\":%d,\"used_width\":%d,\"used_height\":%d,\"tokens\":%"
                   "d,\"cached\":%s}",
                   i ? "," : "", images[i].width, images[i].height, images[i].used_width,
                   images[i].used_height, images[i].tokens, images[i].cached ? "true" : "false");
    buf_add_text(out, "]");
}

static void add_usage(struct buf *out, const struct api_usage *usage)
{
    buf_printf(out,
               "{\"prompt_tokens\":%" PRId64 ",\"completion_tokens\":%" PRId64
               ",\"total_tokens\":%" PRId64,
               usage->prompt_tokens, usage->completion_tokens,
               usage->prompt_tokens + usage->completion_tokens);
    buf_printf(out,
               ",\"prompt_tokens_details\":{\"cached_tokens\":%d,\"multimodal_tokens\":{\"image\":%"
               "d}},\"images\":",
               usage->cached_tokens, usage->image_tokens);
    reply_add_images(out, usage->images, usage->n_images);
    buf_add_text(out, "}");
}

void reply_add_ids(struct buf *out, const int *ids, size_t n)
{
    char digits[16];
    buf_add_text(out, "[");
    for (size_t i = 0; i < n; i++)
        buf_add(out, digits, (size_t)snprintf(digits, sizeof(digits), i ? ",%d" : "%d", ids[i]));
    buf_add_text(out, "]");
}

/* ---- whole objects ---- */

void reply_open(struct buf *out, const struct api_reply *reply)
{
    add_reply_head(out, reply, reply->kind == API_CHAT ? "chat.completion" : "text_completion");
}

/* Content is null where all of it was calls. */
static void add_message(struct buf *out, const struct reply_choice *choice)
{
    buf_add_text(out, ",\"message\":{\"role\":\"assistant\",\"content\":");
    if (choice->n_calls && !choice->n_text)
        buf_add_text(out, "null");
    else
        json_dump_string(out, choice->text, choice->n_text);
    buf_add_text(out, ",\"refusal\":null");
    for (size_t i = 0; i < choice->n_calls; i++) {
        buf_add_text(out, i ? ",{" : ",\"tool_calls\":[{");
        add_call_members(out, &choice->calls[i]);
    }
    buf_add_text(out, choice->n_calls ? "]}" : "}");
}

void reply_add_choice(struct buf *out, const struct api_reply *reply,
                      const struct reply_choice *choice)
{
    bool first = out->size && out->data[out->size - 1] == '[';
    buf_printf(out, "%s{\"index\":%d", first ? "" : ",", choice->index);
    if (reply->kind == API_CHAT) {
        add_message(out, choice);
    } else {
        buf_add_text(out, ",\"text\":");
        json_dump_string(out, choice->text, choice->n_text);
    }
    add_logprobs_member(out, reply, &choice->logprobs);
    add_finish_reason(out, &choice->end);
    buf_add_text(out, "}");
}

void reply_close(struct buf *out, const struct api_usage *usage)
{
    buf_add_text(out, "],\"usage\":");
    add_usage(out, usage);
    if (usage->decode_s > 0)
        buf_printf(out, ",\"timings\":{\"vision_s\":%.4f,\"prefill_s\":%.4f,\"decode_s\":%.4f}",
                   usage->vision_s, usage->prefill_s, usage->decode_s);
    buf_add_text(out, "}");
}

/* ---- chunks ---- */

static void open_sse_event(struct buf *out, const struct api_reply *reply)
{
    buf_add_text(out, "data: ");
    add_reply_head(out, reply,
                   reply->kind == API_CHAT ? "chat.completion.chunk" : "text_completion");
}

static void open_chunk(struct buf *out, const struct api_reply *reply, int index)
{
    open_sse_event(out, reply);
    buf_printf(out, "{\"index\":%d,", index);
}

static void close_chunk(struct buf *out)
{
    buf_add_text(out, "}]}\n\n");
}

void reply_chunk_role(struct buf *out, const struct api_reply *reply, int index)
{
    if (reply->kind != API_CHAT) return;
    open_chunk(out, reply, index);
    buf_add_text(out, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}");
    add_logprobs_member(out, reply, NULL);
    add_finish_reason(out, NULL);
    close_chunk(out);
}

void reply_chunk_text(struct buf *out, const struct api_reply *reply, int index, const char *text,
                      size_t n, const struct reply_logprobs *logprobs)
{
    open_chunk(out, reply, index);
    buf_add_text(out, reply->kind == API_CHAT ? "\"delta\":{\"content\":" : "\"text\":");
    json_dump_string(out, text, n);
    if (reply->kind == API_CHAT) buf_add_text(out, "}");
    add_logprobs_member(out, reply, logprobs);
    add_finish_reason(out, NULL);
    close_chunk(out);
}

void reply_chunk_call(struct buf *out, const struct api_reply *reply, int index, int call_index,
                      const struct reply_call *call)
{
    open_chunk(out, reply, index);
    buf_printf(out, "\"delta\":{\"tool_calls\":[{\"index\":%d,", call_index);
    add_call_members(out, call);
    buf_add_text(out, "]}");
    add_logprobs_member(out, reply, NULL);
    add_finish_reason(out, NULL);
    close_chunk(out);
}

void reply_chunk_end(struct buf *out, const struct api_reply *reply, int index,
                     const struct reply_end *end, const struct reply_logprobs *logprobs)
{
    open_chunk(out, reply, index);
    buf_add_text(out, reply->kind == API_CHAT ? "\"delta\":{}" : "\"text\":\"\"");
    add_logprobs_member(out, reply, logprobs);
    add_finish_reason(out, end);
    close_chunk(out);
}

void reply_chunk_usage(struct buf *out, const struct api_reply *reply,
                       const struct api_usage *usage)
{
    open_sse_event(out, reply);
    reply_close(out, usage);
    buf_add_text(out, "\n\n");
}

void reply_done(struct buf *out)
{
    buf_add_text(out, "data: [DONE]\n\n");
}

void reply_chunk_error(struct buf *out, const struct api_error *error)
{
    buf_add_text(out, "data: {\"error\":{\"message\":");
    add_string(out, error->message);
    buf_add_text(out, ",\"type\":");
    add_string(out, error->type);
    buf_printf(out, ",\"param\":null,\"code\":%d}}\n\n", error->status);
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
