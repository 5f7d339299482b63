/* SPDX-License-Identifier: Apache-2.0 */
/* Tool calls in the model's own format: grammars for them, and a parser that splits answers into
 * text and calls.
 *
 * Prompts do not need this: ey_request has the tools, and messages have calls and results. */
#ifndef EYELET_TOOL_CALLS_H
#define EYELET_TOOL_CALLS_H

#include "eyelet/engine.h"
#include "eyelet/grammar.h"

EY_BEGIN_DECLS

/* How a model writes tool calls. Lives as long as the program; models may share one. */
typedef struct tool_call_format ey_tool_format;

/* Returns NULL if the model does not support tools; prompts with tools are then refused. */
EY_API const ey_tool_format *ey_engine_tool_format(const ey_engine *engine);
/* Returns the format's name, for keys of ey_grammar_cache: a static string, "" for NULL. */
EY_API const char *ey_tool_format_name(const ey_tool_format *format);

typedef struct {
    const char *name;
    const char *schema; /* JSON schema of its arguments, or NULL for any object */
} ey_tool;

/* Makes a grammar that accepts a call of one of the n tools, or with `parallel` one or more calls.
 * An error about a tool has item_kind EY_ITEM_TOOL. The caller frees *grammar. */
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

/* Splits one answer into pieces while it is generated. Only one thread at a time may use it. */
typedef struct ey_tool_parser ey_tool_parser;

/* Opens a parser, which the caller frees. With `single`, calls after the first are dropped. */
EY_API bool ey_tool_parser_open(ey_tool_parser **parser, const ey_tool_format *format, bool single,
                                ey_err *err);
/* Sets *parser to NULL; accepts NULL. */
EY_API void ey_tool_parser_free(ey_tool_parser **parser);
/* Adds the answer's next text, which is copied. Returns false when memory is exhausted. */
EY_API bool ey_tool_parser_add(ey_tool_parser *parser, const char *text, size_t n);
/* Ends the text, so that pieces that were held back become certain. */
EY_API void ey_tool_parser_end(ey_tool_parser *parser);
/* Writes the next piece that is certain. Returns false if there is none yet. The piece is valid
 * until the next call with this parser. */
EY_API bool ey_tool_parser_next(ey_tool_parser *parser, ey_answer_piece *piece);

EY_END_DECLS

#endif
