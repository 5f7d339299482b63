/* SPDX-License-Identifier: Apache-2.0 */
/* ChatML as the Qwen templates write it, byte for byte. What a template would drop silently (an
 * image in a system message, tool calls of a user, an unknown role) is an error here. Only later
 * system messages are left out if the template leaves them out, since clients rely on that. */
#include "models/chat/chatml.h"

#include "models/chat/chat_thought.h"

#define IM_START "<|im_start|>"
#define IM_END "<|im_end|>"

static void start_turn(struct chat_writer *w, const char *role)
{
    chat_write_special(w, IM_START);
    chat_write_text(w, role);
    chat_write_text(w, "\n");
}

static void end_turn(struct chat_writer *w)
{
    chat_write_special(w, IM_END);
    chat_write_text(w, "\n");
}

/* ---- turns ---- */

/* Writes the system turn: the first message if it is the system's, otherwise the format's default,
 * and the tools. */
static void write_system(struct chat_writer *w, const struct chatml *style)
{
    const ey_message *first = &w->request->messages[0];
    bool from_message = chat_has_role(first, "system"), tools = w->request->n_tools > 0;
    bool words = from_message || style->default_system;
    if (!words && !tools) return;
    start_turn(w, "system");
    if (from_message)
        chat_write_parts(w, first);
    else if (words)
        chat_write_text(w, style->default_system);
    if (words && tools) chat_write_text(w, "\n\n");
    if (tools) style->tools->write_tools(w);
    end_turn(w);
}

/* Whether the turn is written with a thought. After the last question, turns keep their thoughts,
 * and the last message gets an empty thought if it has none. Earlier turns lose theirs. */
static bool keeps_thought(const ey_request *request, size_t at,
                          const struct thoughtful_message *message)
{
    return at > thought_last_question(request) &&
           (message->n_thought || at + 1 == request->n_messages);
}

static void write_calls(struct chat_writer *w, const ey_message *message,
                        const struct chatml *style)
{
    bool empty = chat_is_empty(message);
    for (size_t i = 0; i < message->n_tool_calls; i++) {
        if (i || !empty) chat_write_text(w, "\n");
        style->tools->write_call(w, &message->tool_calls[i]);
    }
}

static void write_assistant(struct chat_writer *w, size_t at, const struct chatml *style)
{
    const bool thinks = style->thinks && w->request->thinking != EY_THINKING_AUTO;
    struct thoughtful_message apart = {.said = w->request->messages[at]};
    if (thinks && !thought_take_apart(&apart, &w->request->messages[at], w->e)) {
        w->ok = false;
        return;
    }
    start_turn(w, "assistant");
    if (thinks && keeps_thought(w->request, at, &apart)) thought_write(w, &apart);
    chat_write_parts(w, &apart.said);
    write_calls(w, &apart.said, style);
    thought_free(&apart);
    if (!chat_is_continued(w->request, at)) end_turn(w);
}

/* Writes the start of the answer; an empty thought keeps a thinking checkpoint from thinking. */
static void write_answer_start(struct chat_writer *w, const struct chatml *style)
{
    start_turn(w, "assistant");
    if (!style->thinks || w->request->thinking == EY_THINKING_AUTO) return;
    chat_write_special(w, THOUGHT_START);
    chat_write_text(w, w->request->thinking == EY_THINKING_ON ? "\n" : "\n\n");
    if (w->request->thinking == EY_THINKING_ON) return;
    chat_write_special(w, THOUGHT_END);
    chat_write_text(w, "\n\n");
}

static bool is_tool(const ey_request *request, size_t at)
{
    return at < request->n_messages && chat_has_role(&request->messages[at], "tool");
}

/* Writes a tool result; consecutive results share one user turn. */
static void write_tool_result(struct chat_writer *w, size_t at, const struct chatml *style)
{
    if (at == 0 || !is_tool(w->request, at - 1)) {
        chat_write_special(w, IM_START);
        chat_write_text(w, "user");
    }
    style->tools->write_result(w, &w->request->messages[at]);
    if (!is_tool(w->request, at + 1)) end_turn(w);
}

static void write_message(struct chat_writer *w, size_t at, const struct chatml *style)
{
    const ey_message *message = &w->request->messages[at];
    bool later_system = style->later_system && at > 0 && chat_has_role(message, "system");
    if (chat_has_role(message, "user") || later_system) {
        start_turn(w, message->role);
        chat_write_parts(w, message);
        end_turn(w);
    } else if (chat_has_role(message, "assistant")) {
        write_assistant(w, at, style);
    } else if (chat_has_role(message, "tool")) {
        write_tool_result(w, at, style);
    }
}

bool chatml_prompt(struct prompt *out, const ey_request *request, const struct chatml *style,
                   ey_err *e)
{
    const struct chat_rules rules = {.images = style->images, .tools = style->tools != NULL};
    *out = prompt_start();
    if (!chat_check(request, &rules, e)) return false;
    struct chat_writer w = {.out = out, .request = request, .e = e, .ok = true};
    write_system(&w, style);
    for (size_t i = 0; w.ok && i < request->n_messages; i++)
        write_message(&w, i, style);
    if (!request->continue_answer) write_answer_start(&w, style);
    return w.ok;
}
