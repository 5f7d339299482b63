/* SPDX-License-Identifier: Apache-2.0 */
/* The text of Qwen's chat formats before and after the tools. */
#ifndef EY_TESTS_MODELS_TOOLS_TEXT_H
#define EY_TESTS_MODELS_TOOLS_TEXT_H

#define TOOLS_HEAD                                                                             \
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are " \
    "provided with function "                                                                  \
    "signatures within <tools></tools> XML tags:\n<tools>\n"
#define TOOLS_TAIL                                                                                 \
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments " \
    "within "                                                                                      \
    "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "  \
    "<args-json-object>}\n"                                                                        \
    "</tool_call><|im_end|>\n"

#endif
