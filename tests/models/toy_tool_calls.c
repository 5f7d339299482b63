/* SPDX-License-Identifier: Apache-2.0 */
#include "models/toy_tool_calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "constrain/constrain.h"

static void toy_write_tools(struct chat_writer *w)
{
    for (size_t i = 0; i < w->request->n_tools; i++) {
        chat_write_text(w, "may call ");
        chat_write_text(w, w->request->tools[i]);
    }
}

static void toy_write_call(struct chat_writer *w, const ey_tool_call *call)
{
    chat_write_text(w, "!");
    chat_write_text(w, call->name);
    chat_write_text(w, " ");
    chat_write_text(w, call->arguments);
    chat_write_text(w, ";");
}

static void toy_write_result(struct chat_writer *w, const ey_message *result)
{
    chat_write_text(w, "=");
    chat_write_parts(w, result);
}

/* Calls of the first tool without arguments. */
static bool toy_grammar(ey_grammar **grammar, const ey_tool *tools, size_t n, bool parallel,
                        ey_err *e)
{
    struct buf call = buf_with_max(1 << 10);
    (void)n;
    (void)parallel;
    buf_printf(&call, "!%s {};", tools[0].name);
    const char *choices[] = {call.data};
    bool ok = grammar_of_choices(grammar, choices, 1, e);
    buf_free(&call);
    return ok;
}

struct toy_parser {
    struct buf text;
    bool ended, given;
};

static void *toy_open(bool single)
{
    struct toy_parser *t = calloc(1, sizeof(*t));
    (void)single;
    if (t) t->text = buf_with_max(1 << 16);
    return t;
}

static bool toy_add(void *state, const char *text, size_t n)
{
    struct toy_parser *t = state;
    return buf_add(&t->text, text, n);
}

static void toy_end(void *state)
{
    struct toy_parser *t = state;
    t->ended = true;
}

static bool toy_next(void *state, ey_answer_piece *piece)
{
    struct toy_parser *t = state;
    if (!t->ended || t->given || !t->text.size) return false;
    t->given = true;
    char *space = strchr(t->text.data, ' '), *end = strchr(t->text.data, ';');
    *piece = (ey_answer_piece){.text = t->text.data, .n_text = t->text.size};
    if (t->text.data[0] != '!' || !space || !end) return true;
    *space = 0;
    *piece = (ey_answer_piece){.call = true,
                               .name = t->text.data + 1,
                               .arguments = space + 1,
                               .n_arguments = (size_t)(end - space) - 1};
    return true;
}

static void toy_close(void *state)
{
    struct toy_parser *t = state;
    buf_free(&t->text);
    free(t);
}

const struct tool_call_format toy_tool_calls = {.name = "toy",
                                                .write_tools = toy_write_tools,
                                                .write_call = toy_write_call,
                                                .write_result = toy_write_result,
                                                .grammar = toy_grammar,
                                                .open = toy_open,
                                                .add = toy_add,
                                                .end = toy_end,
                                                .next = toy_next,
                                                .close = toy_close};
