/* SPDX-License-Identifier: Apache-2.0 */
/* A family's tool-call format: how prompts show tools, what a call looks like, and how calls are
 * parsed from answers. Engine and server know formats only through this struct. */
#ifndef EY_MODELS_TOOL_CALL_FORMAT_H
#define EY_MODELS_TOOL_CALL_FORMAT_H

#include "eyelet/tool_calls.h"
#include "models/chat/chat_writer.h"

struct tool_call_format {
    const char *name; /* formats with the same name have the same grammar */

    /* Prompt: write the request's tools, an assistant's call, a tool's message. */
    void (*write_tools)(struct chat_writer *w);
    void (*write_call)(struct chat_writer *w, const ey_tool_call *call);
    void (*write_result)(struct chat_writer *w, const ey_message *result);

    /* Grammar: see ey_grammar_of_tool_calls. */
    bool (*grammar)(ey_grammar **grammar, const ey_tool *tools, size_t n, bool parallel, ey_err *e);

    /* Answer: see ey_tool_parser_*; open returns the parser's state, or NULL without memory. */
    void *(*open)(bool single);
    bool (*add)(void *state, const char *text, size_t n);
    void (*end)(void *state);
    bool (*next)(void *state, ey_answer_piece *piece);
    void (*close)(void *state);
};

#endif
