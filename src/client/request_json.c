/* SPDX-License-Identifier: Apache-2.0 */
/* ey_request → JSON. Images are sent unchanged, as data: URLs. */
#include "client/request_json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/text/base64.h"

/* ---- images ---- */

static bool has_magic(const ey_part *part, size_t at, const char *magic, size_t n)
{
    return part->n_bytes >= at + n && memcmp((const char *)part->bytes + at, magic, n) == 0;
}

/* eyelet looks at the bytes itself; other servers may not. */
static const char *media_type(const ey_part *part)
{
    if (has_magic(part, 0, "\xff\xd8\xff", 3)) return "image/jpeg";
    if (has_magic(part, 0, "\x89PNG", 4)) return "image/png";
    if (has_magic(part, 0, "GIF8", 4)) return "image/gif";
    if (has_magic(part, 8, "WEBP", 4)) return "image/webp";
    if (has_magic(part, 4, "ftypavi", 7)) return "image/avif";
    if (has_magic(part, 4, "ftyp", 4)) return "image/heic";
    return "application/octet-stream";
}

static void add_image_url_part(struct buf *out, const ey_part *part)
{
    static const char *const details[] = {[EY_DETAIL_AUTO] = "auto",
                                          [EY_DETAIL_LOW] = "low",
                                          [EY_DETAIL_HIGH] = "high",
                                          [EY_DETAIL_NATIVE] = "high"};
    buf_printf(out,
               "{\"type\":\"image_url\",\"image_url\":{\"detail\":\"%s\",\"url\":\"data:%s;base64,",
               details[part->detail], media_type(part));
    base64_encode(out, part->bytes, part->n_bytes);
    buf_add_text(out, "\"}}");
}

/* A budget in pixels is one of the whole request in this API, and so it is on the command line. */
static void add_pixels(struct buf *out, const ey_request *request)
{
    uint64_t pixels = 0;
    for (size_t m = 0; m < request->n_messages; m++)
        for (size_t i = 0; i < request->messages[m].n_parts; i++) {
            const ey_part *part = &request->messages[m].parts[i];
            if (part->type != EY_PART_IMAGE) continue;
            if (part->max_pixels)
                pixels = part->max_pixels;
            else if (part->detail == EY_DETAIL_NATIVE)
                pixels = EY_MAX_IMAGE_PIXELS; /* the checkpoint's own is below it */
        }
    if (pixels) buf_printf(out, ",\"mm_processor_kwargs\":{\"max_pixels\":%" PRIu64 "}", pixels);
}

/* ---- messages ---- */

static void add_text_part(struct buf *out, const ey_part *part)
{
    buf_add_text(out, "{\"type\":\"text\",\"text\":");
    json_dump_string(out, part->bytes, part->n_bytes);
    buf_add_text(out, "}");
}

/* One text is a string: some servers take nothing else of an assistant. */
static void add_content(struct buf *out, const ey_message *message)
{
    if (message->n_parts == 1 && message->parts[0].type == EY_PART_TEXT) {
        json_dump_string(out, message->parts[0].bytes, message->parts[0].n_bytes);
        return;
    }
    buf_add_text(out, "[");
    for (size_t i = 0; i < message->n_parts; i++) {
        if (i) buf_add_text(out, ",");
        if (message->parts[i].type == EY_PART_IMAGE)
            add_image_url_part(out, &message->parts[i]);
        else
            add_text_part(out, &message->parts[i]);
    }
    buf_add_text(out, "]");
}

static void add_messages(struct buf *out, const ey_request *request)
{
    buf_add_text(out, ",\"messages\":[");
    for (size_t i = 0; i < request->n_messages; i++) {
        buf_printf(out, "%s{\"role\":\"%s\",\"content\":", i ? "," : "", request->messages[i].role);
        add_content(out, &request->messages[i]);
        buf_add_text(out, "}");
    }
    buf_add_text(out, "]");
}

/* ---- how it is to be answered ---- */

static void add_number(struct buf *out, const char *name, float value)
{
    if (!isnan(value)) buf_printf(out, ",\"%s\":%.9g", name, (double)value);
}

static void add_sampling(struct buf *out, const ey_sampling *s)
{
    add_number(out, "temperature", s->temperature);
    add_number(out, "top_p", s->top_p);
    add_number(out, "min_p", s->min_p);
    add_number(out, "repetition_penalty", s->repetition_penalty);
    add_number(out, "presence_penalty", s->presence_penalty);
    add_number(out, "frequency_penalty", s->frequency_penalty);
    if (s->top_k >= 0) buf_printf(out, ",\"top_k\":%d", s->top_k);
    buf_printf(out, ",\"seed\":%" PRIu64, s->seed);
}

static void add_stops(struct buf *out, const ey_request *request)
{
    for (size_t i = 0; i < request->n_stop; i++) {
        buf_add_text(out, i ? "," : ",\"stop\":[");
        json_dump_string(out, request->stop[i], strlen(request->stop[i]));
    }
    if (request->n_stop) buf_add_text(out, "]");
}

/* As vLLM spells it; of a schema, as OpenAI does. */
static void add_response_format(struct buf *out, const struct remote_response_format *format)
{
    if (format->schema)
        buf_printf(out,
                   ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":"
                   "\"answer\",\"strict\":true,\"schema\":%s}}",
                   format->schema);
    if (format->regex) {
        buf_add_text(out, ",\"structured_outputs\":{\"regex\":");
        json_dump_string(out, format->regex, strlen(format->regex));
        buf_add_text(out, "}");
    }
    for (size_t i = 0; i < format->n_choices; i++) {
        buf_add_text(out, i ? "," : ",\"structured_outputs\":{\"choice\":[");
        json_dump_string(out, format->choices[i], strlen(format->choices[i]));
    }
    if (format->n_choices) buf_add_text(out, "]}");
}

bool request_json(struct buf *out, const ey_request *request,
                  const struct remote_response_format *format, const char *model, int max_tokens,
                  ey_err *e)
{
    buf_add_text(out, "{\"model\":");
    json_dump_string(out, model, strlen(model));
    buf_add_text(out, ",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    if (max_tokens > 0) buf_printf(out, ",\"max_tokens\":%d", max_tokens);
    if (request->top_logprobs >= 0)
        buf_printf(out, ",\"logprobs\":true,\"top_logprobs\":%d", request->top_logprobs);
    add_sampling(out, &request->sampling);
    add_stops(out, request);
    if (format) add_response_format(out, format);
    add_pixels(out, request);
    add_messages(out, request);
    return buf_add_text(out, "}") ||
           ey_fail(e, EY_TOO_LONG,
                   "the images are too large together: a request has at most %zu bytes", out->max);
}
