/* SPDX-License-Identifier: Apache-2.0 */
/* Grammars as eyelet.h offers them. */

#include "constrain/constrain.h"
#include "models/chat/tool_call_grammar.h"

bool ey_grammar_of_schema(ey_grammar **grammar, const char *json, size_t n, ey_err *e)
{
    return grammar_of_schema(grammar, json, n, e);
}

bool ey_grammar_of_json_object(ey_grammar **grammar, ey_err *e)
{
    return grammar_of_json_object(grammar, e);
}

bool ey_grammar_of_regex(ey_grammar **grammar, const char *pattern, size_t n, ey_err *e)
{
    return grammar_of_regex(grammar, pattern, n, e);
}

bool ey_grammar_of_choices(ey_grammar **grammar, const char *const *choices, size_t n, ey_err *e)
{
    return grammar_of_choices(grammar, choices, n, e);
}

void ey_grammar_free(ey_grammar **grammar)
{
    grammar_release(grammar);
}

bool ey_grammar_of_tool_calls(ey_grammar **grammar, const ey_tool *tools, size_t n, bool parallel,
                              ey_err *e)
{
    return tool_call_grammar(grammar, tools, n, parallel, e);
}
