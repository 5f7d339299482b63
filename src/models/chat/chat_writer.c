/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a request's messages and writes pieces, for all chat formats. */
#include "models/chat/chat_writer.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"

/* ---- writing ---- */

void chat_write_bytes(struct chat_writer *w, const void *text, size_t n)
{
    w->ok = w->ok && prompt_add_text(w->out, text, n, w->e);
}

void chat_write_text(struct chat_writer *w, const char *text)
{
    chat_write_bytes(w, text, strlen(text));
}

void chat_write_special(struct chat_writer *w, const char *content)
{
    w->ok = w->ok && prompt_add_special(w->out, content, w->e);
}

void chat_write_tag(struct chat_writer *w, const char *content)
{
    w->ok = w->ok && prompt_add_tag(w->out, content, w->e);
}

static void chat_write_image(struct chat_writer *w)
{
    if (w->request->add_vision_id) {
        char label[32];
        snprintf(label, sizeof(label), "Picture %d: ", w->out->n_images + 1);
        chat_write_text(w, label);
    }
    w->ok = w->ok && prompt_add_image(w->out, w->e);
}

void chat_write_parts(struct chat_writer *w, const ey_message *message)
{
    for (size_t i = 0; i < message->n_parts; i++) {
        if (message->parts[i].type == EY_PART_IMAGE)
            chat_write_image(w);
        else
            chat_write_bytes(w, message->parts[i].bytes, message->parts[i].n_bytes);
    }
}

bool chat_has_role(const ey_message *message, const char *role)
{
    return !strcmp(message->role, role);
}

bool chat_is_continued(const ey_request *request, size_t at)
{
    return request->continue_answer && at + 1 == request->n_messages;
}

bool chat_is_empty(const ey_message *message)
{
    bool empty = true;
    for (size_t i = 0; i < message->n_parts; i++)
        empty = empty && message->parts[i].n_bytes == 0;
    return empty;
}

/* ---- checks ---- */

static bool known_role(const char *role)
{
    return role && (!strcmp(role, "system") || !strcmp(role, "user") ||
                    !strcmp(role, "assistant") || !strcmp(role, "tool"));
}

static bool chat_check_parts(const ey_message *message, size_t number,
                             const struct chat_rules *rules, ey_err *e)
{
    bool may_have_images = chat_has_role(message, "user") || chat_has_role(message, "tool");
    for (size_t i = 0; i < message->n_parts; i++) {
        const ey_part *part = &message->parts[i];
        if (part->type != EY_PART_TEXT && part->type != EY_PART_IMAGE)
            return ey_fail(e, EY_BAD_REQUEST, "message %zu, part %zu: neither text nor image",
                           number, i + 1);
        if (part->type == EY_PART_IMAGE && !rules->images)
            return ey_fail(e, EY_BAD_REQUEST,
                           "message %zu has an image, and this model reads text only; use a "
                           "Qwen3-VL model for images",
                           number);
        if (part->type == EY_PART_IMAGE && !may_have_images)
            return ey_fail(
                e, EY_BAD_REQUEST,
                "message %zu: a message with role %s cannot have images; put them into a user "
                "message",
                number, message->role);
    }
    return true;
}

static bool chat_check_tool_calls(const ey_message *message, size_t number, ey_err *e)
{
    if (message->n_tool_calls && !chat_has_role(message, "assistant"))
        return ey_fail(e, EY_BAD_REQUEST,
                       "message %zu: tool calls belong to the assistant, not to the %s", number,
                       message->role);
    for (size_t i = 0; i < message->n_tool_calls; i++)
        if (!message->tool_calls[i].name || !message->tool_calls[i].arguments)
            return ey_fail(e, EY_BAD_REQUEST, "message %zu: tool call %zu has no %s", number, i + 1,
                           message->tool_calls[i].name ? "arguments" : "name");
    return true;
}

static bool chat_check_continued(const ey_request *request, ey_err *e)
{
    const ey_message *last = &request->messages[request->n_messages - 1];
    if (!request->continue_answer) return true;
    return (last->role && chat_has_role(last, "assistant") && !last->n_tool_calls) ||
           ey_fail(e, EY_BAD_REQUEST,
                   "only a last message of the assistant, without tool calls, can be continued");
}

bool chat_check(const ey_request *request, const struct chat_rules *rules, ey_err *e)
{
    if (request->n_messages == 0) return ey_fail(e, EY_BAD_REQUEST, "the request has no messages");
    if (request->n_messages > EY_MAX_MESSAGES)
        return ey_fail(e, EY_BAD_REQUEST, "%zu messages are more than the limit of %d",
                       request->n_messages, EY_MAX_MESSAGES);
    if (request->n_tools && !rules->tools)
        return ey_fail(e, EY_BAD_REQUEST,
                       "this model's chat format knows no tools; send the request without them");
    for (size_t i = 0; i < request->n_messages; i++) {
        const ey_message *message = &request->messages[i];
        if (!known_role(message->role))
            return ey_fail(e, EY_BAD_REQUEST,
                           "message %zu: role \"%.60s\" is not system, user, assistant or tool",
                           i + 1, message->role ? message->role : "");
        if (!rules->tools && (message->n_tool_calls || chat_has_role(message, "tool")))
            return ey_fail(e, EY_BAD_REQUEST,
                           "message %zu: this model's chat format knows no tools", i + 1);
        if (!chat_check_parts(message, i + 1, rules, e) ||
            !chat_check_tool_calls(message, i + 1, e))
            return false;
    }
    return chat_check_continued(request, e);
}

/* ---- without a format ---- */

bool chat_write_raw(struct prompt *out, const ey_request *request, bool images, ey_err *e)
{
    *out = prompt_start();
    for (size_t i = 0; i < request->n_parts; i++) {
        const ey_part *part = &request->parts[i];
        if (part->type == EY_PART_IMAGE && !images)
            return ey_fail(e, EY_BAD_REQUEST,
                           "the prompt has an image, and this model reads text only; ask a "
                           "Qwen3-VL model about images");
        bool ok = part->type == EY_PART_IMAGE ? prompt_add_image(out, e)
                                              : prompt_add_text(out, part->bytes, part->n_bytes, e);
        if (!ok) return false;
    }
    return out->n_pieces || ey_fail(e, EY_BAD_REQUEST, "the prompt is empty");
}
