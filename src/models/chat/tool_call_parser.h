/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen's tool calls in an answer's text → content and calls, as the text comes.
 *
 *     <tool_call>
 *     {"name": "get_weather", "arguments": {"city": "Rome"}}
 *     </tool_call>
 *
 * What is not a call is content and goes through at once, but for what may still become a call's
 * mark and for white space that a call may follow. A call is given when it is whole; one that
 * cannot be read is content, marks and all. */
#ifndef EY_MODELS_TOOL_CALL_PARSER_H
#define EY_MODELS_TOOL_CALL_PARSER_H

#include "base/buf.h"

struct tool_call_parser {
    struct buf text;    /* not given away yet */
    size_t n_taken;     /* bytes of it that were; dropped with the next text */
    size_t json_start;  /* in a call: where its JSON begins; else 0 */
    size_t search_from; /* in a call: its end is not before this */
    int n_calls;
    bool single; /* calls after the first are left out */
    bool ended;
    struct buf name, arguments; /* of the last call given */
};

struct tool_call_event {
    bool call;        /* else content */
    const char *text; /* content */
    size_t n_text;
    int index; /* call: which one, from 0 */
    const char *name;
    const char *arguments; /* JSON text of an object, as the model wrote it */
    size_t n_arguments;
};

struct tool_call_parser tool_call_parser_start(bool single);
void tool_call_parser_free(struct tool_call_parser *t);
/* False: no memory. */
bool tool_call_parser_add(struct tool_call_parser *t, const char *text, size_t n);
/* No more text comes: decides what was held back. */
void tool_call_parser_end(struct tool_call_parser *t);
/* The next piece that is certain; false: there is none yet. It lives until the next call of any
 * function. */
bool tool_call_parser_next(struct tool_call_parser *t, struct tool_call_event *event);

#endif
