/* SPDX-License-Identifier: Apache-2.0 */
/* Implements eyelet/grammar.h. */
#include "eyelet/grammar.h"

#include "constrain/constrain.h"

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

size_t ey_grammar_bytes(const ey_grammar *grammar)
{
    return grammar_bytes(grammar);
}

void ey_grammar_free(ey_grammar **grammar)
{
    grammar_release(grammar);
}
