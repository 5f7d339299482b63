/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen3 (spec 9, 3.1): the text model of Qwen3-VL with one-dimensional positions. Thinking is not
 * switched here: the prompt is that of the Instruct models. */
#include "models/chat/chatml.h"
#include "models/chat/hermes.h"
#include "models/layers/text_weights.h"

static bool qwen3_check_config(struct model *m, const struct config *s, ey_err *e)
{
    int head_dim; /* no default: it is not hidden_size / num_attention_heads */
    (void)m;
    return config_int(s, "head_dim", 2, EY_MAX_HEAD_DIM, &head_dim, e) &&
           config_refuse(s, "use_sliding_window", e);
}

static bool open_qwen3(struct model *m, struct checkpoint *ckpt, ey_err *e)
{
    static const struct text_family family = {.tensors = {.prefix = "model.", .head_norms = true},
                                              .rules = qwen3_check_config};
    return open_text_only(m, ckpt, &family, e);
}

static bool qwen3_prompt(struct prompt *out, const ey_request *request, ey_err *e)
{
    static const struct chatml style = {.later_system = true, .tools = &hermes_tool_calls};
    return chatml_prompt(out, request, &style, e);
}

const struct family family_qwen3 = {
    .architecture = "Qwen3ForCausalLM",
    .model_type = "qwen3",
    .open = open_qwen3,
    .prompt = qwen3_prompt,
    .tool_calls = &hermes_tool_calls,
    .tokens = {"<|im_start|>", "<|im_end|>"},
    .turn_end = "<|im_end|>",
    .tail = "<|im_start|>assistant\n",
    .templates =
        {"40c21f34cf67d8c760ef72f8ad3ae5afad514299d4b06e91dd9a8d705af7b541"}, /* Instruct */
};
