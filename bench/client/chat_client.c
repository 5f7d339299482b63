/* SPDX-License-Identifier: Apache-2.0 */
/* A client of the OpenAI API. */
#include "client/chat_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text/json_writer.h"
#include "base/text/base64.h"

enum { MAX_TEXT = 16 << 20 };

bool chat_add_data_url(struct buf *out, const char *type, const void *bytes, size_t n)
{
    return buf_printf(out, "data:%s;base64,", type) && base64_encode(out, bytes, n);
}

void chat_post(struct buf *out, const struct wire_target *to, const char *path, const char *body,
               size_t n)
{
    buf_printf(out,
               "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: "
               "%zu\r\n\r\n",
               path, to->host, n);
    buf_add(out, body, n);
}

void chat_get(struct buf *out, const struct wire_target *to, const char *path)
{
    buf_printf(out, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, to->host);
}

struct chat_answer chat_answer_make(void)
{
    struct chat_answer a = {
        .prompt_tokens = -1, .completion_tokens = -1, .choices = buf_with_max(MAX_TEXT)};
    for (int i = 0; i < CHAT_MAX_CHOICES; i++)
        a.choice[i].text = buf_with_max(MAX_TEXT);
    return a;
}

void chat_answer_clear(struct chat_answer *a)
{
    for (int i = 0; i < CHAT_MAX_CHOICES; i++) {
        buf_clear(&a->choice[i].text);
        a->choice[i].finish[0] = 0;
    }
    buf_clear(&a->choices);
    a->prompt_tokens = a->completion_tokens = -1;
    a->read = 0;
    a->n_texts = 0;
    a->done = a->failed = false;
}

void chat_answer_free(struct chat_answer *a)
{
    for (int i = 0; i < CHAT_MAX_CHOICES; i++)
        buf_free(&a->choice[i].text);
    buf_free(&a->choices);
}

static void read_usage(struct chat_answer *a, const json_object *usage)
{
    json_object *prompt = json_member(usage, "prompt_tokens"),
                *completion = json_member(usage, "completion_tokens");
    if (prompt) a->prompt_tokens = json_object_get_int64(prompt);
    if (completion) a->completion_tokens = json_object_get_int64(completion);
}

/* Reads a choice of an answer or a chunk; returns whether it has text. */
static bool read_choice(struct chat_answer *a, const json_object *choice)
{
    json_object *index = json_member(choice, "index"), *part = json_member(choice, "delta");
    json_object *finish = json_member(choice, "finish_reason");
    if (!part) part = json_member(choice, "message");
    json_object *text = part ? json_member(part, "content") : json_member(choice, "text");
    int at = index ? json_object_get_int(index) : -1;
    if (at < 0 || at >= CHAT_MAX_CHOICES) return a->failed = true, false;
    if (finish)
        snprintf(a->choice[at].finish, sizeof(a->choice[at].finish), "%s",
                 json_object_get_string(finish));
    if (!text || !json_object_get_string_len(text)) return false;
    return buf_add(&a->choice[at].text, json_object_get_string(text),
                   (size_t)json_object_get_string_len(text));
}

/* Reads an answer or a chunk; returns whether it has text. */
static bool read_object(struct chat_answer *a, const char *text, size_t n, bool whole)
{
    bool has_text = false;
    ey_err e;
    json_object *object = json_parse(text, n, "the answer", EY_BAD_REQUEST, &e);
    json_object *choices = object ? json_member_of_type(object, "choices", json_type_array) : NULL;
    if (!choices) a->failed = true;
    for (size_t i = 0; choices && i < json_object_array_length(choices); i++)
        has_text |= read_choice(a, json_object_array_get_idx(choices, i));
    if (object) read_usage(a, json_member(object, "usage"));
    if (choices && whole) json_dump(&a->choices, choices);
    json_object_put(object);
    return has_text;
}

void chat_read_whole(struct chat_answer *a, const struct buf *body)
{
    read_object(a, body->size ? body->data : "", body->size, true);
    a->done = !a->failed;
}

/* Reads one event of a stream; returns whether it has text. Comments are skipped. */
static bool read_event(struct chat_answer *a, const char *event, size_t n)
{
    static const char data[] = "data:";
    if (n < strlen(data) || memcmp(event, data, strlen(data)) != 0) return false;
    event += strlen(data);
    n -= strlen(data);
    while (n && *event == ' ') {
        event++;
        n--;
    }
    if (n == 6 && memcmp(event, "[DONE]", 6) == 0) return a->done = true, false;
    return read_object(a, event, n, false);
}

int chat_read_stream(struct chat_answer *a, const struct buf *body)
{
    int n = 0;
    while (a->read < body->size) {
        const char *event = body->data + a->read,
                   *end = memmem(event, body->size - a->read, "\n\n", 2);
        if (!end) break;
        n += read_event(a, event, (size_t)(end - event));
        a->read += (size_t)(end - event) + 2;
    }
    a->n_texts += n;
    return n;
}
