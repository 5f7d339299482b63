/* SPDX-License-Identifier: Apache-2.0 */
/* A tool-call format of no real model: "!name {...};" and nothing else in the answer. It checks
 * that callers depend on no particular format. */
#ifndef EY_TESTS_TOY_TOOL_CALLS_H
#define EY_TESTS_TOY_TOOL_CALLS_H

#include "models/chat/tool_call_format.h"

extern const struct tool_call_format toy_tool_calls;

#endif
