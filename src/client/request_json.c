/* SPDX-License-Identifier: Apache-2.0 */
/* Converts an ey_request to JSON. Images are sent unchanged, as data: URLs. */
#include "client/request_json.h"

#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "base/text/json_writer.h"

/* ---- images ---- */

static bool has_magic(const ey_part *part, size_t at, const char *magic, size_t n)
{
    return part->n_bytes >= at + n && memcmp((const char *)part->bytes + at, magic, n) == 0;
}

/* Other servers rely on the media type; eyelet inspects the bytes. */
const char *request_media_type(const ey_part *part)
{
    if (has_magic(part, 0, "\xff\xd8\xff", 3)) return "image/jpeg";
    if (has_magic(part, 0, "\x89PNG", 4)) return "image/png";
    if (has_magic(part, 0, "GIF8", 4)) return "image/gif";
    if (has_magic(part, 8, "WEBP", 4)) return "image/webp";
    if (has_magic(part, 0, "II", 2) || has_magic(part, 0, "MM", 2)) return "image/tiff";
    if (has_magic(part, 0, "BM", 2)) return "image/bmp";
    if (has_magic(part, 0, "P", 1)) return "image/x-portable-anymap";
    if (has_magic(part, 4, "ftypavi", 7)) return "image/avif";
    if (has_magic(part, 4, "ftyp", 4)) return "image/heic";
    return "application/octet-stream";
}

static void write_image_part(struct json_writer *w, const ey_part *part)
{
    static const char *const details[] = {[EY_DETAIL_AUTO] = "auto",
                                          [EY_DETAIL_LOW] = "low",
                                          [EY_DETAIL_HIGH] = "high",
                                          [EY_DETAIL_NATIVE] = "original"};
    json_open_object(w);
    json_add_string(w, "type", "image_url");
    json_write_key(w, "image_url");
    json_open_object(w);
    json_add_string(w, "detail", details[part->detail]);
    json_write_key(w, "url");
    json_write_data_url(w, request_media_type(part), part->bytes, part->n_bytes);
    json_close_object(w);
    json_close_object(w);
}

/* Adds the pixel limit. The API has one for all images of a request, like the command line. */
static void add_pixels(struct json_writer *w, const ey_request *request)
{
    uint64_t pixels = 0;
    for (size_t m = 0; m < request->n_messages; m++)
        for (size_t i = 0; i < request->messages[m].n_parts; i++) {
            const ey_part *part = &request->messages[m].parts[i];
            if (part->type != EY_PART_IMAGE) continue;
            if (part->max_pixels)
                pixels = part->max_pixels;
            else if (part->detail == EY_DETAIL_NATIVE)
                pixels = EY_MAX_IMAGE_PIXELS; /* above any checkpoint's own limit */
        }
    if (!pixels) return;
    json_write_key(w, "mm_processor_kwargs");
    json_open_object(w);
    json_add_uint(w, "max_pixels", pixels);
    json_close_object(w);
}

/* ---- messages ---- */

static void write_text_part(struct json_writer *w, const ey_part *part)
{
    json_open_object(w);
    json_add_string(w, "type", "text");
    json_write_key(w, "text");
    json_write_text(w, part->bytes, part->n_bytes);
    json_close_object(w);
}

/* Writes a single text as a string, because some servers accept nothing else from an assistant. */
static void write_content(struct json_writer *w, const ey_message *message)
{
    if (message->n_parts == 1 && message->parts[0].type == EY_PART_TEXT) {
        json_write_text(w, message->parts[0].bytes, message->parts[0].n_bytes);
        return;
    }
    json_open_array(w);
    for (size_t i = 0; i < message->n_parts; i++)
        if (message->parts[i].type == EY_PART_IMAGE)
            write_image_part(w, &message->parts[i]);
        else
            write_text_part(w, &message->parts[i]);
    json_close_array(w);
}

static void add_messages(struct json_writer *w, const ey_request *request)
{
    json_write_key(w, "messages");
    json_open_array(w);
    for (size_t i = 0; i < request->n_messages; i++) {
        json_open_object(w);
        json_add_string(w, "role", request->messages[i].role);
        json_write_key(w, "content");
        write_content(w, &request->messages[i]);
        json_close_object(w);
    }
    json_close_array(w);
}

/* ---- sampling and format ---- */

static void add_given(struct json_writer *w, const char *name, float value)
{
    if (!isnan(value)) json_add_digits(w, name, (double)value, 9);
}

static void add_sampling(struct json_writer *w, const ey_sampling *s)
{
    add_given(w, "temperature", s->temperature);
    add_given(w, "top_p", s->top_p);
    add_given(w, "min_p", s->min_p);
    add_given(w, "repetition_penalty", s->repetition_penalty);
    add_given(w, "presence_penalty", s->presence_penalty);
    add_given(w, "frequency_penalty", s->frequency_penalty);
    if (s->top_k >= 0) json_add_int(w, "top_k", s->top_k);
    json_add_uint(w, "seed", s->seed);
}

static void add_strings(struct json_writer *w, const char *key, const char *const *texts, size_t n)
{
    json_write_key(w, key);
    json_open_array(w);
    for (size_t i = 0; i < n; i++)
        json_write_string(w, texts[i]);
    json_close_array(w);
}

/* Adds the guard as vLLM's repetition_detection, extended by eyelet's min_tokens. */
static void add_loop_guard(struct json_writer *w, const ey_loop_guard *guard)
{
    json_write_key(w, "repetition_detection");
    json_open_object(w);
    json_add_int(w, "max_pattern_size", guard->max_pattern);
    if (guard->max_pattern) {
        json_add_int(w, "min_pattern_size", guard->min_pattern);
        json_add_int(w, "min_count", guard->min_count);
        json_add_int(w, "min_tokens", guard->min_tokens);
    }
    json_close_object(w);
}

static void add_schema(struct json_writer *w, const char *schema)
{
    json_write_key(w, "response_format");
    json_open_object(w);
    json_add_string(w, "type", "json_schema");
    json_write_key(w, "json_schema");
    json_open_object(w);
    json_add_string(w, "name", "answer");
    json_add_bool(w, "strict", true);
    json_write_key(w, "schema");
    json_write_raw(w, schema, strlen(schema));
    json_close_object(w);
    json_close_object(w);
}

/* Adds the format in vLLM's spelling, and a schema in OpenAI's. */
static void add_response_format(struct json_writer *w, const struct remote_response_format *format)
{
    if (format->schema) add_schema(w, format->schema);
    if (!format->regex && !format->n_choices) return;
    json_write_key(w, "structured_outputs");
    json_open_object(w);
    if (format->regex) json_add_string(w, "regex", format->regex);
    if (format->n_choices) add_strings(w, "choice", format->choices, format->n_choices);
    json_close_object(w);
}

/* Adds whether the model is to think. If it is, part of max_tokens is kept for the answer, as
 * without a server. */
static void add_asked_thinking(struct json_writer *w, const ey_request *request, int max_tokens)
{
    const int kept = max_tokens / 4 < EY_MAX_KEPT_TOKENS ? max_tokens / 4 : EY_MAX_KEPT_TOKENS;
    if (request->thinking == EY_THINKING_AUTO) return;
    json_write_key(w, "chat_template_kwargs");
    json_open_object(w);
    json_add_bool(w, "enable_thinking", request->thinking == EY_THINKING_ON);
    json_close_object(w);
    if (request->thinking == EY_THINKING_ON && request->thinking_budget == EY_KEEP_ANSWER &&
        max_tokens > 0)
        json_add_int(w, "thinking_token_budget", max_tokens - kept);
}

bool request_json(struct buf *out, const ey_request *request,
                  const struct remote_response_format *format,
                  const struct request_settings *settings, ey_err *e)
{
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    json_open_object(&w);
    json_add_string(&w, "model", settings->model);
    json_add_bool(&w, "stream", true);
    json_write_key(&w, "stream_options");
    json_open_object(&w);
    json_add_bool(&w, "include_usage", true);
    json_close_object(&w);
    if (settings->max_tokens > 0) json_add_int(&w, "max_tokens", settings->max_tokens);
    if (request->top_logprobs >= 0) {
        json_add_bool(&w, "logprobs", true);
        json_add_int(&w, "top_logprobs", request->top_logprobs);
    }
    add_sampling(&w, &request->sampling);
    if (request->n_stop) add_strings(&w, "stop", request->stop, request->n_stop);
    add_asked_thinking(&w, request, settings->max_tokens);
    if (settings->loop_guard) add_loop_guard(&w, settings->loop_guard);
    if (format) add_response_format(&w, format);
    add_pixels(&w, request);
    add_messages(&w, request);
    json_close_object(&w);
    return !out->failed ||
           ey_fail(e, EY_TOO_LONG,
                   "the images together are too large: a request has at most %zu bytes", out->max);
}
