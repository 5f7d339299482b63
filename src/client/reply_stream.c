/* SPDX-License-Identifier: Apache-2.0 */
/* Parses server-sent events into text, log-probabilities and usage. The server is untrusted: its
 * values are checked against the limits, and values of the wrong type are ignored. */
#include "client/reply_stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"

enum { MAX_TEXT = EY_MAX_CONTEXT * 64, FIRST_LOGPROBS = 64 };

static struct arena *arena_of(const struct reply_stream *r)
{
    return r->answer->owner;
}

bool reply_stream_open(struct reply_stream *r, const ey_request *request, ey_answer *answer,
                       ey_err *e)
{
    *r = (struct reply_stream){.request = request,
                               .answer = answer,
                               .line = buf_with_max(EY_MAX_JSON_BYTES),
                               .text = buf_with_max(MAX_TEXT),
                               .thought = buf_with_max(MAX_TEXT)};
    *answer = (ey_answer){
        .finish_reason = EY_FINISH_STOP, .seed = request->sampling.seed, .stop_id = -1};
    answer->owner = calloc(1, sizeof(struct arena)); /* ey_answer_free frees it */
    r->started = seconds_now();
    return answer->owner || ey_fail_memory(e, "the answer", sizeof(struct arena));
}

void reply_stream_close(struct reply_stream *r)
{
    buf_free(&r->line);
    buf_free(&r->text);
    buf_free(&r->thought);
}

/* ---- events ---- */

static bool send_event(struct reply_stream *r, const ey_event *event)
{
    if (r->request->on_event && !r->request->on_event(r->request->event_user, event))
        r->cancelled = true;
    return !r->cancelled;
}

/* Scales large numbers to thousandths, because the fields of an event are ints. */
bool reply_stream_tell(struct reply_stream *r, ey_phase phase, uint64_t done, uint64_t total)
{
    if (total > 1000) {
        done = done * 1000 / total;
        total = 1000;
    }
    return send_event(
        r, &(ey_event){
               .type = EY_EVENT_PHASE, .phase = phase, .done = (int)done, .total = (int)total});
}

/* ---- members ---- */

static int int_member(const json_object *object, const char *key)
{
    json_object *value = json_member_of_type(object, key, json_type_int);
    int64_t got = value ? json_object_get_int64(value) : 0;
    return got < 0 ? 0 : got > INT32_MAX ? INT32_MAX : (int)got;
}

static size_t array_length(json_object *array)
{
    return array ? json_object_array_length(array) : 0;
}

/* ---- log-probabilities ---- */

/* Reads a token with its log-probability. In this API -9999 stands for minus infinity. */
static bool read_candidate(struct arena *arena, ey_logprob *out, const json_object *from)
{
    json_object *token = json_member_of_type(from, "token", json_type_string),
                *logprob = json_member(from, "logprob");
    double value = logprob ? json_object_get_double(logprob) : -INFINITY;
    const char *text = token ? json_object_get_string(token) : "";
    *out = (ey_logprob){.id = -1,
                        .token = arena_copy_text(arena, text, strlen(text)),
                        .logprob = value <= -9999 ? -INFINITY : (float)value};
    return out->token;
}

static bool read_token_logprobs(struct arena *arena, ey_token_logprobs *out,
                                const json_object *from)
{
    json_object *list = json_member_of_type(from, "top_logprobs", json_type_array);
    size_t n = array_length(list);
    if (n > EY_MAX_TOP_LOGPROBS) n = EY_MAX_TOP_LOGPROBS;
    ey_logprob *top = arena_array(arena, n + 1, sizeof(*top));
    bool ok = top && read_candidate(arena, &out->chosen, from);
    for (size_t i = 0; ok && i < n; i++)
        ok = read_candidate(arena, &top[i], json_object_array_get_idx(list, i));
    out->top = top;
    out->n_top = n;
    return ok;
}

/* Appends an element. If the array moves, the old one is freed with the answer. */
static ey_token_logprobs *next_token_logprobs(struct reply_stream *r)
{
    ey_answer *a = r->answer;
    if (a->n_logprobs == r->logprob_capacity) {
        size_t capacity = r->logprob_capacity ? 2 * r->logprob_capacity : FIRST_LOGPROBS;
        ey_token_logprobs *larger = arena_array(arena_of(r), capacity, sizeof(*larger));
        if (!larger) return NULL;
        if (a->n_logprobs) memcpy(larger, a->logprobs, a->n_logprobs * sizeof(*larger));
        a->logprobs = larger;
        r->logprob_capacity = capacity;
    }
    return &a->logprobs[a->n_logprobs++];
}

static bool read_choice_logprobs(struct reply_stream *r, const json_object *choice, ey_err *e)
{
    json_object *list = json_member_of_type(json_member(choice, "logprobs"), "content",
                                            json_type_array);
    size_t n = array_length(list);
    if (n > EY_MAX_CONTEXT - r->answer->n_logprobs)
        return ey_fail(e, EY_IO, "the server's answer has more than %d tokens", EY_MAX_CONTEXT);
    for (size_t i = 0; i < n; i++) {
        ey_token_logprobs *logprobs = next_token_logprobs(r);
        if (!logprobs ||
            !read_token_logprobs(arena_of(r), logprobs, json_object_array_get_idx(list, i)))
            return ey_fail_memory(e, "log-probabilities",
                                  r->answer->n_logprobs * sizeof(*logprobs));
    }
    return true;
}

/* ---- text ---- */

/* Adds a piece of the answer or of its thought. */
static bool add_delta_text(struct reply_stream *r, const json_object *piece, struct buf *to,
                           int event, ey_err *e)
{
    size_t n = json_object_is_type(piece, json_type_string)
                   ? (size_t)json_object_get_string_len(piece)
                   : 0;
    if (!n) return true;
    const char *text = json_object_get_string((json_object *)(uintptr_t)piece);
    if (memchr(text, 0, n))
        return ey_fail(e, EY_IO, "the server's answer is not text: it contains a NUL byte");
    if (!buf_add(to, text, n))
        return ey_fail(e, EY_IO,
                       "the server's answer is longer than %d bytes, or there is no memory for it",
                       MAX_TEXT);
    if (r->first_token_at == 0) r->first_token_at = seconds_now();
    send_event(
        r, &(ey_event){
               .type = event, .text = text, .n_text = n, .n_tokens = (int)r->answer->n_logprobs});
    return true;
}

/* Reads the thought, which servers send under one of two names or under both. */
static bool read_delta(struct reply_stream *r, const json_object *choice, ey_err *e)
{
    const json_object *delta = json_member(choice, "delta"),
                      *thought = json_member(delta, "reasoning_content");
    if (!json_object_is_type(thought, json_type_string)) thought = json_member(delta, "reasoning");
    return add_delta_text(r, thought, &r->thought, EY_EVENT_THOUGHT, e) &&
           add_delta_text(r, json_member(delta, "content"), &r->text, EY_EVENT_TEXT, e);
}

static void read_finish_reason(struct reply_stream *r, const json_object *choice)
{
    json_object *reason = json_member_of_type(choice, "finish_reason", json_type_string);
    if (!reason) return;
    r->finished = true;
    if (strcmp(json_object_get_string(reason), ey_finish_text(EY_FINISH_LENGTH)) == 0)
        r->answer->finish_reason = EY_FINISH_LENGTH;
}

/* ---- usage ---- */

static bool read_images(struct reply_stream *r, const json_object *usage, ey_err *e)
{
    json_object *list = json_member_of_type(usage, "images", json_type_array);
    size_t n = array_length(list);
    if (n > EY_MAX_IMAGES)
        return ey_fail(e, EY_IO,
                       "the server reports the usage of %zu images, more than a request can have",
                       n);
    ey_image_usage *images = arena_array(arena_of(r), n + 1, sizeof(*images));
    if (!images) return ey_fail_memory(e, "the answer", n * sizeof(*images));
    for (size_t i = 0; i < n; i++) {
        const json_object *image = json_object_array_get_idx(list, i);
        json_object *cached = json_member_of_type(image, "cached", json_type_boolean);
        images[i] = (ey_image_usage){.width = int_member(image, "width"),
                                     .height = int_member(image, "height"),
                                     .used_width = int_member(image, "used_width"),
                                     .used_height = int_member(image, "used_height"),
                                     .tokens = int_member(image, "tokens"),
                                     .cached = cached && json_object_get_boolean(cached)};
    }
    r->answer->images = images;
    r->answer->n_images = n;
    return true;
}

static bool read_usage(struct reply_stream *r, const json_object *chunk, ey_err *e)
{
    json_object *usage = json_member_of_type(chunk, "usage", json_type_object);
    json_object *details = json_member_of_type(usage, "prompt_tokens_details", json_type_object);
    if (!usage) return true;
    r->answer->prompt_tokens = int_member(usage, "prompt_tokens");
    r->answer->completion_tokens = int_member(usage, "completion_tokens");
    r->answer->cached_tokens = int_member(details, "cached_tokens");
    r->answer->image_tokens = int_member(json_member(details, "multimodal_tokens"), "image");
    return read_images(r, usage, e);
}

/* ---- a chunk ---- */

static bool fail_stream_error(json_object *error, ey_err *e)
{
    json_object *message = json_member_of_type(error, "message", json_type_string);
    return ey_fail(e, EY_IO, "the server stopped the answer: %s",
                   message ? json_object_get_string(message) : "it gives no reason");
}

static bool read_chunk(struct reply_stream *r, const char *text, size_t n, ey_err *e)
{
    json_object *chunk = json_parse(text, n, "the server's answer", EY_IO, e);
    if (!chunk) return false;
    json_object *error = json_member(chunk, "error"),
                *choices = json_member_of_type(chunk, "choices", json_type_array);
    json_object *choice = array_length(choices) ? json_object_array_get_idx(choices, 0) : NULL;
    bool ok = error ? fail_stream_error(error, e)
                    : read_choice_logprobs(r, choice, e) && read_delta(r, choice, e) &&
                          read_usage(r, chunk, e);
    if (ok) read_finish_reason(r, choice);
    json_object_put(chunk);
    return ok;
}

/* Reads a line of the stream. Each event has one line of data; other fields and comments are
 * ignored. */
static bool read_sse_line(struct reply_stream *r, ey_err *e)
{
    const char *text = r->line.data;
    size_t n = r->line.size;
    while (n && text[n - 1] == '\r')
        n--;
    if (n < 5 || memcmp(text, "data:", 5) != 0 || r->done) return true;
    text += 5;
    n -= 5;
    while (n && *text == ' ') {
        text++;
        n--;
    }
    if (n == 6 && memcmp(text, "[DONE]", 6) == 0) return r->done = true;
    return read_chunk(r, text, n, e);
}

bool reply_stream_take(struct reply_stream *r, const char *bytes, size_t n, ey_err *e)
{
    while (n) {
        const char *end = memchr(bytes, '\n', n);
        size_t piece = end ? (size_t)(end - bytes) : n;
        if (!buf_add(&r->line, bytes, piece))
            return ey_fail(e, EY_IO, "the server's answer has a line longer than %d bytes",
                           EY_MAX_JSON_BYTES);
        if (!end) return true;
        if (!read_sse_line(r, e)) return false;
        if (r->cancelled) return ey_fail(e, EY_CANCELLED, "cancelled");
        buf_clear(&r->line);
        bytes = end + 1;
        n -= piece + 1;
    }
    return true;
}

bool reply_stream_finish(struct reply_stream *r, ey_err *e)
{
    ey_answer *a = r->answer;
    double end = seconds_now(), first = r->first_token_at == 0 ? end : r->first_token_at;
    if (r->cancelled)
        a->finish_reason = EY_FINISH_CANCELLED;
    else if (!r->finished)
        return ey_fail(e, EY_IO, "the server's answer is incomplete; has the server stopped?");
    a->text = arena_copy_text(arena_of(r), r->text.data ? r->text.data : "", r->text.size);
    a->n_text = r->text.size;
    a->thought = arena_copy_text(arena_of(r), r->thought.data ? r->thought.data : "",
                                 r->thought.size);
    a->n_thought = r->thought.size;
    a->prefill_seconds = first - r->started;
    a->decode_seconds = end - first;
    return (a->text && a->thought) ||
           ey_fail_memory(e, "the answer's text", r->text.size + r->thought.size);
}
