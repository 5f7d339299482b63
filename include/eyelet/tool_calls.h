/* SPDX-License-Identifier: Apache-2.0 */
/* Tool calls in the model's own format: what an answer must look like to be one, and answers taken
 * apart into text and calls.
 *
 * Prompts need nothing of this: ey_request has the tools, messages have calls and results. */
#ifndef EYELET_TOOL_CALLS_H
#define EYELET_TOOL_CALLS_H

#include "eyelet/engine.h"
#include "eyelet/grammar.h"

EY_BEGIN_DECLS

/* How a model writes tool calls. Lives as long as the program; models may share one. */
typedef struct tool_call_format ey_tool_format;

/* NULL: the model knows no tools, and a prompt that has some is refused. */
EY_API const ey_tool_format *ey_engine_tool_format(const ey_engine *engine);
/* Names the format in the keys of ey_grammar_cache; a static string, "" for NULL. */
EY_API const char *ey_tool_format_name(const ey_tool_format *format);

typedef struct {
    const char *name;
    const char *schema; /* JSON schema of its arguments; NULL: any object */
} ey_tool;

/* A call of one of the n tools; with `parallel`, one or more calls. An error about one of them has
 * EY_ITEM_TOOL. The caller frees *grammar. */
EY_API bool ey_grammar_of_tool_calls(ey_grammar **grammar, const ey_tool_format *format,
                                     const ey_tool *tools, size_t n, bool parallel, ey_err *err);

/* A piece of an answer: text, or a call. */
typedef struct {
    bool call;
    const char *text; /* text: [n_text] */
    size_t n_text;
    int index;             /* call: which one, from 0 */
    const char *name;      /* call */
    const char *arguments; /* call: JSON of an object [n_arguments], as the model wrote it */
    size_t n_arguments;
} ey_answer_piece;

/* Takes one answer apart as it comes. For one thread at a time. */
typedef struct ey_tool_parser ey_tool_parser;

/* With `single`, calls after the first are left out. The caller frees *parser. */
EY_API bool ey_tool_parser_open(ey_tool_parser **parser, const ey_tool_format *format, bool single,
                                ey_err *err);
/* Sets *parser to NULL; accepts NULL. */
EY_API void ey_tool_parser_free(ey_tool_parser **parser);
/* Adds the answer's next text, which is copied. Returns false when memory is exhausted. */
EY_API bool ey_tool_parser_add(ey_tool_parser *parser, const char *text, size_t n);
/* No more text comes: decides what was held back. */
EY_API void ey_tool_parser_end(ey_tool_parser *parser);
/* The next piece that is certain; returns false if there is none yet. The piece is valid until the
 * next call with this parser. */
EY_API bool ey_tool_parser_next(ey_tool_parser *parser, ey_answer_piece *piece);

EY_END_DECLS

#endif
