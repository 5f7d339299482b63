/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen2 and Qwen2.5 (spec 7.2, 9): biases on queries, keys and values, no q and k norms, a default
 * system prompt. */
#include "models/chat/chatml.h"
#include "models/chat/hermes.h"
#include "models/layers/text_weights.h"

#define DEFAULT_SYSTEM "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."

/* config.json gives a sliding window, but these models do not use it. */
static bool qwen2_check_config(struct model *m, const struct config *s, ey_err *e)
{
    (void)m;
    return config_refuse(s, "use_sliding_window", e);
}

static bool open_qwen2(struct model *m, struct checkpoint *ckpt, ey_err *e)
{
    static const struct text_family family = {.tensors = {.prefix = "model.", .qkv_bias = true},
                                              .rules = qwen2_check_config};
    return open_text_only(m, ckpt, &family, e);
}

static bool qwen2_prompt(struct prompt *out, const ey_request *request, ey_err *e)
{
    static const struct chatml style = {
        .default_system = DEFAULT_SYSTEM, .later_system = true, .tools = &hermes_dumped_tool_calls};
    return chatml_prompt(out, request, &style, e);
}

const struct family family_qwen2 = {
    .architecture = "Qwen2ForCausalLM",
    .model_type = "qwen2",
    .open = open_qwen2,
    .prompt = qwen2_prompt,
    .tool_calls = &hermes_dumped_tool_calls,
    .tokens = {"<|im_start|>", "<|im_end|>"},
    .turn_end = "<|im_end|>",
    .default_system = DEFAULT_SYSTEM,
    .tail = "<|im_start|>assistant\n",
    .templates =
        {"cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f",  /* Qwen2.5 */
         "44d5f08f3f72b837eaad09f13a54c1f9f4eb58d75240334548b7fd52a5437fa5"}, /* and its 1M */
};
