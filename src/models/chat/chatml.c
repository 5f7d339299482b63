/* SPDX-License-Identifier: Apache-2.0 */
/* ChatML as the Qwen templates write it, byte for byte. Where a template would drop something
 * without a word (an image in a system message, tool calls of a user, an unknown role) this is an
 * error instead; only later system messages are left out where the template leaves them out, as
 * clients that follow it expect. */
#include "models/chat/chatml.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "models/chat/chat_writer.h"

#define IM_START "<|im_start|>"
#define IM_END "<|im_end|>"
#define CALL_START "<tool_call>"
#define CALL_END "</tool_call>"
#define RESPONSE_START "<tool_response>"
#define RESPONSE_END "</tool_response>"

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

/* ---- tools ---- */

static void write_tool(struct chat_writer *w, const char *text, size_t number)
{
    char what[32];
    snprintf(what, sizeof(what), "tool %zu", number);
    json_object *tool = json_parse(text, strlen(text), what, EY_BAD_REQUEST, w->e);
    struct buf dump = buf_with_max(EY_MAX_TEXT_BYTES);
    if (!tool)
        w->ok = false;
    else if (!json_object_is_type(tool, json_type_object))
        w->ok = ey_fail(w->e, EY_BAD_REQUEST, "%s is not a JSON object", what);
    else if (!json_dump(&dump, tool))
        w->ok = ey_fail_memory(w->e, what, strlen(text));
    else
        chat_write_bytes(w, dump.data, dump.size);
    if (!w->ok) ey_fail_item(w->e, EY_ITEM_TOOL, number - 1, NULL);
    buf_free(&dump);
    json_object_put(tool);
}

/* The tokens <tool_call> in this text are tokens for the reference too: it tokenises the rendered
 * whole. */
static void write_tools(struct chat_writer *w)
{
    chat_write_text(
        w, "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
           "You are provided with function signatures within <tools></tools> XML tags:\n<tools>");
    for (size_t i = 0; w->ok && i < w->request->n_tools; i++) {
        chat_write_text(w, "\n");
        write_tool(w, w->request->tools[i], i + 1);
    }
    chat_write_text(w,
                    "\n</tools>\n\nFor each function call, return a json object with function name "
                    "and arguments within ");
    chat_write_special(w, CALL_START);
    chat_write_special(w, CALL_END);
    chat_write_text(w, " XML tags:\n");
    chat_write_special(w, CALL_START);
    chat_write_text(w, "\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n");
    chat_write_special(w, CALL_END);
}

/* Text that is JSON as Python dumps it, other text as a string of JSON. */
static void write_dumped(struct chat_writer *w, const char *text)
{
    ey_err ignored;
    struct buf dump = buf_with_max(EY_MAX_TEXT_BYTES);
    json_object *value = json_parse(text, strlen(text), "arguments", EY_BAD_REQUEST, &ignored);
    bool ok = value ? json_dump(&dump, value) : json_dump_string(&dump, text, strlen(text));
    if (!ok)
        w->ok = w->ok && ey_fail_memory(w->e, "arguments", strlen(text));
    else
        chat_write_bytes(w, dump.data, dump.size);
    buf_free(&dump);
    json_object_put(value);
}

static void write_tool_call(struct chat_writer *w, const ey_tool_call *call,
                            const struct chatml *style)
{
    chat_write_special(w, CALL_START);
    chat_write_text(w, "\n{\"name\": \"");
    chat_write_text(w, call->name);
    chat_write_text(w, "\", \"arguments\": ");
    if (style->dump_arguments)
        write_dumped(w, call->arguments);
    else
        chat_write_text(w, call->arguments);
    chat_write_text(w, "}\n");
    chat_write_special(w, CALL_END);
}

/* ---- turns ---- */

/* The system turn at the beginning: the first message when it is the system's, else the format's
 * own words, and the tools. */
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
    if (tools) write_tools(w);
    end_turn(w);
}

static void write_assistant(struct chat_writer *w, const ey_message *message,
                            const struct chatml *style)
{
    bool empty = chat_is_empty(message);
    start_turn(w, "assistant");
    chat_write_parts(w, message);
    for (size_t i = 0; i < message->n_tool_calls; i++) {
        if (i || !empty) chat_write_text(w, "\n");
        write_tool_call(w, &message->tool_calls[i], style);
    }
    end_turn(w);
}

static bool is_tool(const ey_request *request, size_t at)
{
    return at < request->n_messages && chat_has_role(&request->messages[at], "tool");
}

/* Tool results in a row share one user turn. */
static void write_tool_result(struct chat_writer *w, size_t at)
{
    if (at == 0 || !is_tool(w->request, at - 1)) {
        chat_write_special(w, IM_START);
        chat_write_text(w, "user");
    }
    chat_write_text(w, "\n");
    chat_write_special(w, RESPONSE_START);
    chat_write_text(w, "\n");
    chat_write_parts(w, &w->request->messages[at]);
    chat_write_text(w, "\n");
    chat_write_special(w, RESPONSE_END);
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
        write_assistant(w, message, style);
    } else if (chat_has_role(message, "tool")) {
        write_tool_result(w, at);
    }
}

bool chatml_prompt(struct prompt *out, const ey_request *request, const struct chatml *style,
                   ey_err *e)
{
    const struct chat_rules rules = {.images = style->images, .tools = true};
    *out = prompt_start();
    if (!chat_check(request, &rules, e)) return false;
    struct chat_writer w = {.out = out, .request = request, .e = e, .ok = true};
    write_system(&w, style);
    for (size_t i = 0; w.ok && i < request->n_messages; i++)
        write_message(&w, i, style);
    start_turn(&w, "assistant");
    return w.ok;
}
