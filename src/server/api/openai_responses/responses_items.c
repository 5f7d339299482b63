/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the items of an answer: thoughts, messages, calls. */
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_writer.h"
#include "server/api/openai_responses/responses_dialect.h"

static struct json_writer open_output_item(struct buf *items, const char *id, const char *type,
                                           const char *status)
{
    struct json_writer w = json_write_to(items, JSON_COMPACT);
    json_open_object(&w);
    json_add_string(&w, "id", id);
    json_add_string(&w, "type", type);
    json_add_string(&w, "status", status);
    return w;
}

/* ---- thoughts ---- */

/* Clients send encrypted_content back. Thoughts are not secret, so it is base64 of the text. */
static void write_encrypted(struct json_writer *w, const char *text, size_t n)
{
    unsigned char *out = malloc(4 * (n / 3 + 1) + 1);
    if (out) EVP_EncodeBlock(out, (const unsigned char *)text, (int)n);
    json_write_string(w, out ? (const char *)out : NULL);
    free(out);
}

/* With n = 0, as at the item's beginning, the summary is empty. Otherwise it is one part with the
 * whole text, because all clients show summaries. */
void responses_add_thought(struct buf *items, const char *id, const char *text, size_t n,
                           bool encrypted, const char *status)
{
    struct json_writer w = open_output_item(items, id, "reasoning", status);
    json_write_key(&w, "summary");
    json_open_array(&w);
    if (n) {
        json_open_object(&w);
        json_add_string(&w, "type", "summary_text");
        json_write_key(&w, "text");
        json_write_text(&w, text, n);
        json_close_object(&w);
    }
    json_close_array(&w);
    json_write_key(&w, "encrypted_content");
    if (n && encrypted)
        write_encrypted(&w, text, n);
    else
        json_write_null(&w);
    json_close_object(&w);
}

/* ---- messages ---- */

/* With NULL text, as at the item's beginning, the content is empty. */
void responses_add_message(struct buf *items, const char *id, const struct buf *text,
                           const struct buf *logprobs, const char *status)
{
    struct json_writer w = open_output_item(items, id, "message", status);
    json_add_string(&w, "role", "assistant");
    json_write_key(&w, "content");
    json_open_array(&w);
    if (text) responses_write_text_part(&w, text, logprobs);
    json_close_array(&w);
    json_close_object(&w);
}

void responses_write_text_part(struct json_writer *w, const struct buf *text,
                               const struct buf *logprobs)
{
    json_open_object(w);
    json_add_string(w, "type", "output_text");
    json_write_key(w, "text");
    json_write_text(w, text->data ? text->data : "", text->size);
    json_write_key(w, "annotations");
    json_write_raw(w, "[]", 2);
    responses_add_logprobs(w, logprobs);
    json_close_object(w);
}

void responses_add_logprobs(struct json_writer *w, const struct buf *logprobs)
{
    json_write_key(w, "logprobs");
    json_open_array(w);
    if (logprobs && logprobs->size) json_write_raw(w, logprobs->data, logprobs->size);
    json_close_array(w);
}

void responses_write_logprobs(struct buf *out, const struct api_logprobs *logprobs)
{
    if (!logprobs || !logprobs->tokens) return;
    for (size_t i = 0; i < logprobs->n; i++) {
        if (out->size) buf_add_text(out, ",");
        struct json_writer w = json_write_to(out, JSON_COMPACT);
        api_write_answer_token(&w, &logprobs->tokens[i], true);
    }
}

/* ---- calls ---- */

void responses_add_call(struct buf *items, const char *id, const struct api_tool_call *call,
                        bool with_arguments, const char *status)
{
    struct json_writer w = open_output_item(items, id, "function_call", status);
    json_add_string(&w, "call_id", call->id);
    json_add_string(&w, "name", call->name);
    json_write_key(&w, "arguments");
    json_write_text(&w, call->arguments, with_arguments ? call->n_arguments : 0);
    json_close_object(&w);
}
