/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of <tool_call> blocks whose arguments follow each tool's JSON schema. */
#include "models/chat/hermes.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/text/json_writer.h"
#include "base/limits.h"
#include "constrain/constrain.h"

static int tool_call_literal(struct grammar_builder *b, const char *s)
{
    return grammar_literal(b, s, strlen(s));
}

static int add_tool_call(struct grammar_builder *b, const ey_tool *tool)
{
    struct buf head = buf_with_max(EY_MAX_SCHEMA_BYTES);
    buf_add_text(&head, HERMES_CALL_START "\n{\"name\": ");
    json_dump_string(&head, tool->name, strlen(tool->name));
    buf_add_text(&head, ", \"arguments\": ");
    int parts[] = {head.failed ? 0 : grammar_literal(b, head.data, head.size),
                   tool->schema ? grammar_schema(b, tool->schema, strlen(tool->schema))
                                : grammar_json_object(b),
                   tool_call_literal(b, "}\n" HERMES_CALL_END)};
    buf_free(&head);
    return grammar_sequence(b, parts, 3);
}

static bool fail_hermes_tool(ey_err *e, size_t at)
{
    char name[32];
    snprintf(name, sizeof(name), "tool %zu", at + 1);
    ey_fail_within(e, "%s", name);
    return ey_fail_item(e, EY_ITEM_TOOL, at, name);
}

bool hermes_grammar(ey_grammar **grammar, const ey_tool *tools, size_t n, bool parallel, ey_err *e)
{
    int calls[EY_MAX_TOOLS];
    if (n < 1 || n > EY_MAX_TOOLS)
        return ey_fail(e, EY_BAD_REQUEST, "%zu tools; there must be 1 to %d", n, EY_MAX_TOOLS);
    struct grammar_builder *b = grammar_builder_open(e);
    if (!b) return false;
    size_t n_good = 0; /* index of the first tool that is invalid */
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
    return n_good < n ? fail_hermes_tool(e, n_good) : false;
}
