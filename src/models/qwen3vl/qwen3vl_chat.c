/* SPDX-License-Identifier: Apache-2.0 */
/* The official template (spec 7.1): no default system prompt, one system message. The template of
 * the Thinking checkpoints differs only in thoughts. */
#include "models/qwen3vl/qwen3vl_chat.h"

#include "models/chat/chatml.h"
#include "models/chat/hermes.h"

const struct vision_marks qwen3vl_vision_marks = {"<|vision_start|>", "<|image_pad|>",
                                                  "<|vision_end|>"};

bool qwen3vl_prompt(struct prompt *out, const ey_request *request, ey_err *e)
{
    static const struct chatml style = {
        .tools = &hermes_tool_calls, .images = true, .thinks = true};
    return chatml_prompt(out, request, &style, e);
}
