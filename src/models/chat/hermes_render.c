/* SPDX-License-Identifier: Apache-2.0 */
/* Writes tools, calls and results into prompts, byte for byte as the Qwen templates do. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text/json_writer.h"
#include "base/limits.h"
#include "models/chat/hermes.h"
#include "models/chat/hermes_parser.h"

static void write_hermes_tool(struct chat_writer *w, const char *text, size_t number)
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

/* <tool_call> in this text becomes a special token, as in the reference, which tokenizes the whole
 * rendered prompt. Tags that a tokenizer lacks (Qwen2.5 has no <tool_response>) are text there. */
static void hermes_write_tools(struct chat_writer *w)
{
    chat_write_text(
        w, "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
           "You are provided with function signatures within <tools></tools> XML tags:\n<tools>");
    for (size_t i = 0; w->ok && i < w->request->n_tools; i++) {
        chat_write_text(w, "\n");
        write_hermes_tool(w, w->request->tools[i], i + 1);
    }
    chat_write_text(w,
                    "\n</tools>\n\nFor each function call, return a json object with function name "
                    "and arguments within ");
    chat_write_tag(w, HERMES_CALL_START);
    chat_write_tag(w, HERMES_CALL_END);
    chat_write_text(w, " XML tags:\n");
    chat_write_tag(w, HERMES_CALL_START);
    chat_write_text(w, "\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n");
    chat_write_tag(w, HERMES_CALL_END);
}

/* Writes JSON text as Python's json.dumps does, and other text as a JSON string. */
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

static void write_hermes_call(struct chat_writer *w, const ey_tool_call *call,
                              void (*write_arguments)(struct chat_writer *w, const char *text))
{
    chat_write_tag(w, HERMES_CALL_START);
    chat_write_text(w, "\n{\"name\": \"");
    chat_write_text(w, call->name);
    chat_write_text(w, "\", \"arguments\": ");
    write_arguments(w, call->arguments);
    chat_write_text(w, "}\n");
    chat_write_tag(w, HERMES_CALL_END);
}

static void hermes_write_call(struct chat_writer *w, const ey_tool_call *call)
{
    write_hermes_call(w, call, chat_write_text);
}

static void hermes_write_dumped_call(struct chat_writer *w, const ey_tool_call *call)
{
    write_hermes_call(w, call, write_dumped);
}

static void hermes_write_result(struct chat_writer *w, const ey_message *result)
{
    chat_write_text(w, "\n");
    chat_write_tag(w, "<tool_response>");
    chat_write_text(w, "\n");
    chat_write_parts(w, result);
    chat_write_text(w, "\n");
    chat_write_tag(w, "</tool_response>");
}

#define HERMES_REST                                                                           \
    .name = "hermes", .write_tools = hermes_write_tools, .write_result = hermes_write_result, \
    .grammar = hermes_grammar, .open = hermes_parser_open, .add = hermes_parser_add,          \
    .end = hermes_parser_end, .next = hermes_parser_next, .close = hermes_parser_close

const struct tool_call_format hermes_tool_calls = {.write_call = hermes_write_call, HERMES_REST};
const struct tool_call_format hermes_dumped_tool_calls = {.write_call = hermes_write_dumped_call,
                                                          HERMES_REST};
