/* SPDX-License-Identifier: Apache-2.0 */
#include "models/chat/chat_thought.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

struct piece_of_text {
    const char *at;
    size_t n;
};

static struct piece_of_text without_breaks_in_front(struct piece_of_text s)
{
    while (s.n && *s.at == '\n') {
        s.at++;
        s.n--;
    }
    return s;
}

static struct piece_of_text without_breaks(struct piece_of_text s)
{
    while (s.n && s.at[s.n - 1] == '\n')
        s.n--;
    return without_breaks_in_front(s);
}

static const char *find_mark(struct piece_of_text text, const char *mark)
{
    return text.n ? memmem(text.at, text.n, mark, strlen(mark)) : NULL;
}

/* Returns the text after the last `mark`, or all of it without a mark. */
static struct piece_of_text behind_last(struct piece_of_text text, const char *mark)
{
    const char *found;
    while ((found = find_mark(text, mark))) {
        const char *behind = found + strlen(mark);
        text.n -= (size_t)(behind - text.at);
        text.at = behind;
    }
    return text;
}

static void split_text(struct thoughtful_message *out)
{
    struct piece_of_text text = {out->part.bytes, out->part.n_bytes};
    const char *end = find_mark(text, THOUGHT_END);
    if (!end) return;
    struct piece_of_text thought = behind_last(
                             (struct piece_of_text){text.at, (size_t)(end - text.at)},
                             THOUGHT_START),
                         said = without_breaks_in_front(behind_last(text, THOUGHT_END));
    out->thought = thought.at;
    out->n_thought = thought.n;
    out->part.bytes = said.at;
    out->part.n_bytes = said.n;
}

/* Joins the parts, because a thought may end in another part than it begins. */
static bool join_parts(struct thoughtful_message *out, const ey_message *message, ey_err *e)
{
    size_t n = 0, at = 0;
    for (size_t i = 0; i < message->n_parts; i++)
        n += message->parts[i].n_bytes;
    out->joined = malloc(n + 1);
    if (!out->joined) return ey_fail_memory(e, "a message's text", n);
    for (size_t i = 0; i < message->n_parts; at += message->parts[i++].n_bytes)
        if (message->parts[i].n_bytes)
            memcpy(out->joined + at, message->parts[i].bytes, message->parts[i].n_bytes);
    out->part.bytes = out->joined;
    out->part.n_bytes = n;
    return true;
}

bool thought_take_apart(struct thoughtful_message *out, const ey_message *message, ey_err *e)
{
    *out = (struct thoughtful_message){
        .said = *message, .thought = message->thought, .n_thought = message->n_thought};
    for (size_t i = 0; i < message->n_parts; i++)
        if (message->parts[i].type != EY_PART_TEXT) return true;
    if (!message->n_parts) return true;
    out->part = message->parts[0];
    if (message->n_parts > 1 && !join_parts(out, message, e)) return false;
    out->said.parts = &out->part;
    out->said.n_parts = 1;
    if (!message->thought) split_text(out);
    return true;
}

void thought_free(struct thoughtful_message *message)
{
    free(message->joined);
}

/* Whether a user message is a tool result that a client rendered itself. */
static bool is_written_result(const ey_message *message)
{
    static const char start[] = "<tool_response>", end[] = "</tool_response>";
    if (message->n_parts != 1 || message->parts[0].type != EY_PART_TEXT) return false;
    const char *text = message->parts[0].bytes;
    size_t n = message->parts[0].n_bytes;
    return n >= strlen(end) && memcmp(text, start, strlen(start)) == 0 &&
           memcmp(text + n - strlen(end), end, strlen(end)) == 0;
}

size_t thought_last_question(const ey_request *request)
{
    for (size_t i = request->n_messages; i-- > 0;)
        if (chat_has_role(&request->messages[i], "user") &&
            !is_written_result(&request->messages[i]))
            return i;
    return request->n_messages - 1;
}

void thought_write(struct chat_writer *w, struct thoughtful_message *message)
{
    struct piece_of_text text = without_breaks(
                             (struct piece_of_text){message->thought, message->n_thought}),
                         said = without_breaks_in_front(
                             (struct piece_of_text){message->part.bytes, message->part.n_bytes});
    message->part.bytes = said.at;
    message->part.n_bytes = said.n;
    chat_write_special(w, THOUGHT_START);
    chat_write_text(w, "\n");
    chat_write_bytes(w, text.at, text.n);
    chat_write_text(w, "\n");
    chat_write_special(w, THOUGHT_END);
    chat_write_text(w, "\n\n");
}
