/* SPDX-License-Identifier: Apache-2.0 */
/* A tool-call format that no model has: "!name {...};" and nothing else in the answer. What works
 * with it knows no format by heart. */
#ifndef EY_TESTS_TOY_TOOL_CALLS_H
#define EY_TESTS_TOY_TOOL_CALLS_H

#include "models/chat/tool_call_format.h"

extern const struct tool_call_format toy_tool_calls;

#endif
