/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar that an answer of tool calls follows (spec 1.4); chatml.c renders them,
 * tool_call_parser.c reads them. */
#ifndef EY_TOOL_CALL_GRAMMAR_H
#define EY_TOOL_CALL_GRAMMAR_H
#include "eyelet.h"

bool tool_call_grammar(ey_grammar **grammar, const ey_tool *tools, size_t n, bool parallel,
                       ey_err *e);

#endif
