/* SPDX-License-Identifier: Apache-2.0 */
/* Llama-2's template: the system message is inside the first user message; whitespace around
 * messages is removed. */
#include <string.h>

#include "base/limits.h"
#include "models/chat/chat_writer.h"
#include "models/llama/llama.h"

/* Whether Python's strip() removes the character. */
static bool is_blank(char c)
{
    return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
}

/* Writes `head` and the message, trimmed as one text. */
static void write_trimmed(struct chat_writer *w, const struct buf *head, const ey_message *message)
{
    struct buf text = buf_with_max(EY_MAX_TEXT_BYTES);
    bool ok = buf_add(&text, head->data, head->size);
    for (size_t i = 0; ok && i < message->n_parts; i++)
        ok = buf_add(&text, message->parts[i].bytes, message->parts[i].n_bytes);
    size_t begin = 0, end = text.size;
    while (begin < end && is_blank(text.data[begin]))
        begin++;
    while (end > begin && is_blank(text.data[end - 1]))
        end--;
    if (ok)
        chat_write_bytes(w, text.data + begin, end - begin);
    else
        w->ok = w->ok && ey_fail(w->e, EY_TOO_LONG, "the messages have more than %d bytes of text",
                                 EY_MAX_TEXT_BYTES);
    buf_free(&text);
}

static bool add_system(struct buf *head, const ey_message *message)
{
    buf_add_text(head, "<<SYS>>\n");
    for (size_t i = 0; i < message->n_parts; i++)
        buf_add(head, message->parts[i].bytes, message->parts[i].n_bytes);
    return buf_add_text(head, "\n<</SYS>>\n\n");
}

static bool check_turns(const ey_request *request, size_t first, ey_err *e)
{
    if (first == request->n_messages)
        return ey_fail(e, EY_BAD_REQUEST, "there is a system message and no user message");
    for (size_t i = first; i < request->n_messages; i++)
        if (!chat_has_role(&request->messages[i], (i - first) % 2 ? "assistant" : "user"))
            return ey_fail(e, EY_BAD_REQUEST,
                           "message %zu has role %s; in Llama-2's chat format user and assistant "
                           "take turns, the user first, after at most one system message",
                           i + 1, request->messages[i].role);
    return true;
}

/* last: the message is the beginning of the answer, so its turn stays open. */
static void llama_write_turn(struct chat_writer *w, struct buf *head, const ey_message *message,
                             bool last)
{
    bool user = chat_has_role(message, "user");
    if (user) chat_write_special(w, "<s>");
    chat_write_text(w, user ? "[INST] " : " ");
    write_trimmed(w, head, message);
    buf_clear(head);
    if (last) return;
    chat_write_text(w, user ? " [/INST]" : " ");
    if (!user) chat_write_special(w, "</s>");
}

bool llama_prompt(struct prompt *out, const ey_request *request, ey_err *e)
{
    static const struct chat_rules rules = {0};
    *out = prompt_start();
    if (!chat_check(request, &rules, e)) return false;
    size_t first = chat_has_role(&request->messages[0], "system");
    if (!check_turns(request, first, e)) return false;
    struct buf head = buf_with_max(EY_MAX_TEXT_BYTES);
    struct chat_writer w = {.out = out, .request = request, .e = e, .ok = true};
    if (first && !add_system(&head, &request->messages[0]))
        w.ok = ey_fail(e, EY_TOO_LONG, "the messages have more than %d bytes of text",
                       EY_MAX_TEXT_BYTES);
    for (size_t i = first; w.ok && i < request->n_messages; i++)
        llama_write_turn(&w, &head, &request->messages[i], chat_is_continued(request, i));
    buf_free(&head);
    return w.ok;
}
