/* SPDX-License-Identifier: Apache-2.0 */
/* What a family brings for tools: how prompts have them, what a call looks like, and how calls are
 * found in answers. Engine and server know no format but by this. */
#ifndef EY_MODELS_TOOL_CALL_FORMAT_H
#define EY_MODELS_TOOL_CALL_FORMAT_H

#include "eyelet/tool_calls.h"
#include "models/chat/chat_writer.h"

struct tool_call_format {
    const char *name; /* formats of one name have one grammar */

    /* Prompt: the request's tools, a call of the assistant's, a message of the tool's. */
    void (*write_tools)(struct chat_writer *w);
    void (*write_call)(struct chat_writer *w, const ey_tool_call *call);
    void (*write_result)(struct chat_writer *w, const ey_message *result);

    /* Grammar: as ey_grammar_of_tool_calls. */
    bool (*grammar)(ey_grammar **grammar, const ey_tool *tools, size_t n, bool parallel, ey_err *e);

    /* Answer: as ey_tool_parser_*, with a state that open makes (NULL: no memory). */
    void *(*open)(bool single);
    bool (*add)(void *state, const char *text, size_t n);
    void (*end)(void *state);
    bool (*next)(void *state, ey_answer_piece *piece);
    void (*close)(void *state);
};

#endif
