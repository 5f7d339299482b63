/* SPDX-License-Identifier: Apache-2.0 */
#include "client/dialects.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text/base64.h"
#include "base/text/json_writer.h"

/* Reads a whole answer or a piece of a stream; returns whether it has text. */
typedef bool read_piece_fn(struct chat_answer *a, const json_object *piece);

/* ---- reading ---- */

static const char *string_of(const json_object *object, const char *name)
{
    json_object *value = object ? json_member_of_type(object, name, json_type_string) : NULL;
    return value ? json_object_get_string(value) : "";
}

static int64_t count_of(const json_object *object, const char *name)
{
    json_object *value = object ? json_member_of_type(object, name, json_type_int) : NULL;
    return value ? json_object_get_int64(value) : 0;
}

static bool is_true(const json_object *object, const char *name)
{
    json_object *value = json_member_of_type(object, name, json_type_boolean);
    return value && json_object_get_boolean(value);
}

static bool add_answer_text(struct chat_answer *a, const json_object *object, const char *name)
{
    const char *text = string_of(object, name);
    return *text && buf_add(&a->choice[0].text, text, strlen(text));
}

static void end_answer(struct chat_answer *a, const char *finish, int64_t prompt,
                       int64_t completion)
{
    snprintf(a->choice[0].finish, sizeof(a->choice[0].finish), "%s", finish);
    a->prompt_tokens = prompt;
    a->completion_tokens = completion;
    a->done = true;
}

/* Appends the texts of all content parts of `object`. */
static bool add_part_texts(struct chat_answer *a, const json_object *object)
{
    json_object *parts = json_member_of_type(object, "content", json_type_array);
    bool has_text = false;
    for (size_t i = 0; parts && i < json_object_array_length(parts); i++)
        has_text |= add_answer_text(a, json_object_array_get_idx(parts, i), "text");
    return has_text;
}

static void end_response(struct chat_answer *a, const json_object *response)
{
    json_object *usage = json_member_of_type(response, "usage", json_type_object);
    end_answer(a, string_of(response, "status"), count_of(usage, "input_tokens"),
               count_of(usage, "output_tokens"));
}

static bool read_whole_response(struct chat_answer *a, const json_object *response)
{
    json_object *items = json_member_of_type(response, "output", json_type_array);
    bool has_text = false;
    for (size_t i = 0; items && i < json_object_array_length(items); i++)
        has_text |= add_part_texts(a, json_object_array_get_idx(items, i));
    end_response(a, response);
    return has_text;
}

static bool read_response_piece(struct chat_answer *a, const json_object *piece)
{
    const char *type = string_of(piece, "type");
    json_object *response = json_member_of_type(piece, "response", json_type_object);
    if (!strcmp(string_of(piece, "object"), "response")) return read_whole_response(a, piece);
    if (!strcmp(type, "response.output_text.delta")) return add_answer_text(a, piece, "delta");
    if (!strcmp(type, "error") || !strcmp(type, "response.failed")) a->failed = true;
    if (response && (!strcmp(type, "response.completed") || !strcmp(type, "response.incomplete")))
        end_response(a, response);
    return false;
}

static void end_message(struct chat_answer *a, const char *stop_reason, const json_object *usage)
{
    end_answer(a, stop_reason,
               count_of(usage, "input_tokens") + count_of(usage, "cache_read_input_tokens"),
               count_of(usage, "output_tokens"));
}

/* Counts and finish reason come one event before the end. */
static bool read_message_piece(struct chat_answer *a, const json_object *piece)
{
    const char *type = string_of(piece, "type");
    json_object *usage = json_member_of_type(piece, "usage", json_type_object);
    json_object *delta = json_member_of_type(piece, "delta", json_type_object);
    if (!strcmp(type, "message")) {
        end_message(a, string_of(piece, "stop_reason"), usage);
        return add_part_texts(a, piece);
    }
    if (!strcmp(type, "content_block_delta")) return add_answer_text(a, delta, "text");
    if (!strcmp(type, "message_delta")) {
        end_message(a, string_of(delta, "stop_reason"), usage);
        a->done = false;
    }
    if (!strcmp(type, "message_stop")) a->done = true;
    if (!strcmp(type, "error")) a->failed = true;
    return false;
}

static bool read_ollama_piece(struct chat_answer *a, const json_object *piece)
{
    json_object *message = json_member_of_type(piece, "message", json_type_object);
    if (json_member(piece, "error")) a->failed = true;
    if (is_true(piece, "done"))
        end_answer(a, string_of(piece, "done_reason"), count_of(piece, "prompt_eval_count"),
                   count_of(piece, "eval_count"));
    return message ? add_answer_text(a, message, "content") : add_answer_text(a, piece, "response");
}

static bool read_llamacpp_piece(struct chat_answer *a, const json_object *piece)
{
    if (json_member(piece, "error")) a->failed = true;
    if (is_true(piece, "stop"))
        end_answer(a, string_of(piece, "stop_type"), count_of(piece, "tokens_evaluated"),
                   count_of(piece, "tokens_predicted"));
    return add_answer_text(a, piece, "content");
}

static const struct {
    const char *name, *path;
    read_piece_fn *read;
    const char *between; /* separator of a stream's pieces */
} dialects[N_DIALECTS] = {
    [DIALECT_CHAT] = {"Chat", "/v1/chat/completions", NULL, "\n\n"},
    [DIALECT_COMPLETIONS] = {"Completions", "/v1/completions", NULL, "\n\n"},
    [DIALECT_RESPONSES] = {"Responses", "/v1/responses", read_response_piece, "\n\n"},
    [DIALECT_MESSAGES] = {"Messages", "/v1/messages", read_message_piece, "\n\n"},
    [DIALECT_OLLAMA_CHAT] = {"Ollama chat", "/api/chat", read_ollama_piece, "\n"},
    [DIALECT_OLLAMA_GENERATE] = {"Ollama generate", "/api/generate", read_ollama_piece, "\n"},
    [DIALECT_LLAMACPP] = {"llama.cpp", "/completion", read_llamacpp_piece, "\n\n"},
};

const char *dialect_name(enum dialect d)
{
    return dialects[d].name;
}

const char *dialect_path(enum dialect d)
{
    return dialects[d].path;
}

static bool read_piece(enum dialect d, struct chat_answer *a, const char *text, size_t n)
{
    ey_err e;
    json_object *piece = json_parse(text, n, "the answer", EY_BAD_REQUEST, &e);
    bool has_text = piece && dialects[d].read(a, piece);
    if (!piece) a->failed = true;
    json_object_put(piece);
    return has_text;
}

void dialect_read_whole(enum dialect d, struct chat_answer *a, const struct buf *body)
{
    if (!dialects[d].read) {
        chat_read_whole(a, body);
        return;
    }
    read_piece(d, a, body->size ? body->data : "", body->size);
    if (!a->done) a->failed = true;
}

/* The JSON of an event or line; NULL if there is none, as in comments. */
static const char *find_json(const char *piece, const char *end)
{
    const char *data = memmem(piece, (size_t)(end - piece), "data:", strlen("data:"));
    if (piece < end && *piece == '{') return piece;
    return data ? data + strlen("data:") : NULL;
}

int dialect_read_stream(enum dialect d, struct chat_answer *a, const struct buf *body)
{
    int n = 0;
    size_t gap = strlen(dialects[d].between);
    if (!dialects[d].read) return chat_read_stream(a, body);
    while (a->read < body->size) {
        const char *piece = body->data + a->read;
        const char *end = memmem(piece, body->size - a->read, dialects[d].between, gap);
        if (!end) break;
        const char *json = find_json(piece, end);
        n += json && read_piece(d, a, json, (size_t)(end - json));
        a->read += (size_t)(end - piece) + gap;
    }
    a->n_texts += n;
    return n;
}

/* ---- writing ---- */

static void add_string(struct buf *out, const char *text)
{
    json_dump_string(out, text, strlen(text));
}

static void add_base64(struct buf *out, const struct question *q)
{
    buf_add_text(out, "\"");
    base64_encode(out, q->image, q->n_image);
    buf_add_text(out, "\"");
}

static void add_data_url(struct buf *out, const struct question *q)
{
    buf_add_text(out, "\"");
    chat_add_data_url(out, q->image_type, q->image, q->n_image);
    buf_add_text(out, "\"");
}

static void add_images(struct buf *out, const char *member, const struct question *q)
{
    if (!q->image) return;
    buf_printf(out, ", \"%s\": [", member);
    add_base64(out, q);
    buf_add_text(out, "]");
}

static void begin_chat(struct buf *out, const struct question *q)
{
    buf_add_text(out, "{\"messages\": [{\"role\": \"user\", \"content\": [");
    if (q->image) {
        buf_add_text(out, "{\"type\": \"image_url\", \"image_url\": {\"url\": ");
        add_data_url(out, q);
        buf_add_text(out, "}}, ");
    }
    buf_add_text(out, "{\"type\": \"text\", \"text\": ");
    add_string(out, q->text);
    buf_printf(out, "}]}], \"temperature\": 0, \"max_tokens\": %d", q->max_tokens);
}

static void begin_completions(struct buf *out, const struct question *q)
{
    buf_add_text(out, "{\"prompt\": ");
    add_string(out, q->text);
    buf_printf(out, ", \"temperature\": 0, \"max_tokens\": %d", q->max_tokens);
}

static void begin_responses(struct buf *out, const struct question *q)
{
    buf_add_text(out, "{\"input\": [{\"role\": \"user\", \"content\": [");
    if (q->image) {
        buf_add_text(out, "{\"type\": \"input_image\", \"image_url\": ");
        add_data_url(out, q);
        buf_add_text(out, "}, ");
    }
    buf_add_text(out, "{\"type\": \"input_text\", \"text\": ");
    add_string(out, q->text);
    buf_printf(out, "}]}], \"temperature\": 0, \"max_output_tokens\": %d", q->max_tokens);
}

static void begin_messages(struct buf *out, const struct question *q)
{
    buf_add_text(out, "{\"messages\": [{\"role\": \"user\", \"content\": [");
    if (q->image) {
        buf_printf(out,
                   "{\"type\": \"image\", \"source\": {\"type\": \"base64\", \"media_type\": "
                   "\"%s\", \"data\": ",
                   q->image_type);
        add_base64(out, q);
        buf_add_text(out, "}}, ");
    }
    buf_add_text(out, "{\"type\": \"text\", \"text\": ");
    add_string(out, q->text);
    buf_printf(out, "}]}], \"temperature\": 0, \"max_tokens\": %d", q->max_tokens);
}

static void add_ollama_options(struct buf *out, const struct question *q)
{
    buf_printf(out, ", \"options\": {\"temperature\": 0, \"num_predict\": %d}", q->max_tokens);
}

static void begin_ollama_chat(struct buf *out, const struct question *q)
{
    buf_add_text(out, "{\"messages\": [{\"role\": \"user\", \"content\": ");
    add_string(out, q->text);
    add_images(out, "images", q);
    buf_add_text(out, "}]");
    add_ollama_options(out, q);
}

static void begin_ollama_generate(struct buf *out, const struct question *q)
{
    buf_add_text(out, "{\"prompt\": ");
    add_string(out, q->text);
    add_images(out, "images", q);
    add_ollama_options(out, q);
}

static void begin_llamacpp(struct buf *out, const struct question *q)
{
    buf_add_text(out, q->image ? "{\"prompt\": {\"prompt_string\": " : "{\"prompt\": ");
    add_string(out, q->text);
    add_images(out, "multimodal_data", q);
    buf_printf(out, "%s, \"temperature\": 0, \"n_predict\": %d", q->image ? "}" : "",
               q->max_tokens);
}

void dialect_begin_body(struct buf *out, enum dialect d, const struct question *q)
{
    static void (*const begin[N_DIALECTS])(struct buf *, const struct question *) = {
        [DIALECT_CHAT] = begin_chat,
        [DIALECT_COMPLETIONS] = begin_completions,
        [DIALECT_RESPONSES] = begin_responses,
        [DIALECT_MESSAGES] = begin_messages,
        [DIALECT_OLLAMA_CHAT] = begin_ollama_chat,
        [DIALECT_OLLAMA_GENERATE] = begin_ollama_generate,
        [DIALECT_LLAMACPP] = begin_llamacpp,
    };
    begin[d](out, q);
}

void dialect_end_body(struct buf *out, enum dialect d, const char *model, bool stream)
{
    bool may_count = d == DIALECT_CHAT || d == DIALECT_COMPLETIONS;
    if (model) {
        buf_add_text(out, ", \"model\": ");
        add_string(out, model);
    }
    buf_printf(out, ", \"stream\": %s", stream ? "true" : "false");
    if (stream && may_count) buf_add_text(out, ", \"stream_options\": {\"include_usage\": true}");
    buf_add_text(out, "}");
}
