/* SPDX-License-Identifier: Apache-2.0 */
/* Grammars as eyelet.h shows them, and the vocabulary that answers of all grammars share. */
#include <pthread.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "constrain/constrain.h"
#include "engine/engine_internal.h"

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

/* ---- tool calls (spec 1.4) ---- */

static int tool_call_literal(struct grammar_builder *b, const char *s)
{
    return grammar_literal(b, s, strlen(s));
}

static int add_tool_call(struct grammar_builder *b, const ey_tool *tool)
{
    struct buf head = buf_with_max(1 << 16);
    buf_add_text(&head, "<tool_call>\n{\"name\": ");
    json_dump_string(&head, tool->name, strlen(tool->name));
    buf_add_text(&head, ", \"arguments\": ");
    int parts[] = {grammar_literal(b, head.data ? head.data : "", head.size),
                   tool->schema ? grammar_schema(b, tool->schema, strlen(tool->schema))
                                : grammar_json_object(b),
                   tool_call_literal(b, "}\n</tool_call>")};
    buf_free(&head);
    return grammar_sequence(b, parts, 3);
}

bool ey_grammar_of_tool_calls(ey_grammar **grammar, const ey_tool *tools, size_t n, bool parallel,
                              ey_err *e)
{
    int calls[EY_MAX_TOOLS];
    if (n < 1 || n > EY_MAX_TOOLS)
        return ey_fail(e, EY_BAD_REQUEST, "%zu tools; there must be 1 to %d", n, EY_MAX_TOOLS);
    struct grammar_builder *b = grammar_builder_open(e);
    if (!b) return false;
    size_t n_good = 0; /* the first that cannot be */
    for (size_t i = 0; i < n; i++) {
        calls[i] = add_tool_call(b, &tools[i]);
        n_good += calls[i] && n_good == i;
    }
    int whole = grammar_alternatives(b, calls, n);
    if (parallel) {
        for (size_t i = 0; i < n; i++) {
            int next[] = {tool_call_literal(b, "\n"), add_tool_call(b, &tools[i])};
            calls[i] = grammar_sequence(b, next, 2);
        }
        int none = tool_call_literal(b, ""),
            more = grammar_one_or_more(b, grammar_alternatives(b, calls, n)), rest[] = {none, more};
        int parts[] = {whole, grammar_alternatives(b, rest, 2)};
        whole = grammar_sequence(b, parts, 2);
    }
    if (grammar_builder_finish(&b, whole, grammar, e)) return true;
    return n_good < n ? ey_fail_within(e, "tool %zu", n_good) : false;
}

/* ---- the vocabulary ---- */

const struct vocabulary *engine_vocabulary(ey_engine *engine, ey_err *e)
{
    pthread_mutex_lock(&engine->token_lock);
    if (!engine->vocabulary)
        vocabulary_open(&engine->vocabulary, engine->tok, engine->model.text.vocab_size,
                        VOCABULARY_CACHED_MASKS, e);
    const struct vocabulary *v = engine->vocabulary;
    pthread_mutex_unlock(&engine->token_lock);
    return v;
}
