/* SPDX-License-Identifier: Apache-2.0 */
/* Implements eyelet/tool_calls.h with the tool-call format of the model's family. */
#include "eyelet/tool_calls.h"

#include <stdlib.h>

#include "base/err.h"
#include "models/chat/tool_call_format.h"

struct ey_tool_parser {
    const struct tool_call_format *format;
    void *state;
};

const char *ey_tool_format_name(const ey_tool_format *format)
{
    return format ? format->name : "";
}

static bool check_format(const ey_tool_format *format, ey_err *e)
{
    return format || ey_fail(e, EY_BAD_REQUEST,
                             "this model's chat format knows no tools; send the request without "
                             "them");
}

bool ey_grammar_of_tool_calls(ey_grammar **grammar, const ey_tool_format *format,
                              const ey_tool *tools, size_t n, bool parallel, ey_err *e)
{
    return check_format(format, e) && format->grammar(grammar, tools, n, parallel, e);
}

bool ey_tool_parser_open(ey_tool_parser **out, const ey_tool_format *format, bool single, ey_err *e)
{
    *out = NULL;
    if (!check_format(format, e)) return false;
    ey_tool_parser *parser = calloc(1, sizeof(*parser));
    if (!parser) return ey_fail_memory(e, "tool calls", sizeof(*parser));
    parser->format = format;
    parser->state = format->open(single);
    *out = parser;
    if (parser->state) return true;
    ey_tool_parser_free(out);
    return ey_fail_memory(e, "tool calls", sizeof(*parser));
}

void ey_tool_parser_free(ey_tool_parser **out)
{
    ey_tool_parser *parser = *out;
    if (parser && parser->state) parser->format->close(parser->state);
    free(parser);
    *out = NULL;
}

bool ey_tool_parser_add(ey_tool_parser *parser, const char *text, size_t n)
{
    return parser->format->add(parser->state, text, n);
}

void ey_tool_parser_end(ey_tool_parser *parser)
{
    parser->format->end(parser->state);
}

bool ey_tool_parser_next(ey_tool_parser *parser, ey_answer_piece *piece)
{
    return parser->format->next(parser->state, piece);
}
