/* SPDX-License-Identifier: Apache-2.0 */
/* The Hermes format of tool calls, which the Qwen models write (spec 7.1, 7.2):
 *
 *     <tool_call>
 *     {"name": "get_weather", "arguments": {"city": "Rome"}}
 *     </tool_call> */
#ifndef EY_MODELS_HERMES_H
#define EY_MODELS_HERMES_H

#include "models/chat/tool_call_format.h"

#define HERMES_CALL_START "<tool_call>"
#define HERMES_CALL_END "</tool_call>"

/* The two differ in a call's arguments in prompts: as given, or as Python's json.dumps writes
 * them. */
extern const struct tool_call_format hermes_tool_calls, hermes_dumped_tool_calls;

/* Compiles the grammar of an answer that consists of calls (spec 1.4). */
bool hermes_grammar(ey_grammar **grammar, const ey_tool *tools, size_t n, bool parallel, ey_err *e);

#endif
