/* SPDX-License-Identifier: Apache-2.0 */
/* Phi-3-mini-4k (spec 9): fused weights, a sliding window, heads of 96. */
#include "models/phi3/phi3.h"

#include "models/layers/text_weights.h"

static bool read_window(struct model *m, const struct config *s, ey_err *e)
{
    return !json_member(s->object, "sliding_window") ||
           config_int(s, "sliding_window", 1, 1 << 24, &m->text.window, e);
}

static bool open_phi3(struct model *m, struct checkpoint *ckpt, ey_err *e)
{
    static const struct text_family family = {.tensors = {.prefix = "model.", .fused = true},
                                              .rules = read_window};
    return open_text_only(m, ckpt, &family, e);
}

const struct family family_phi3 = {
    .architecture = "Phi3ForCausalLM",
    .model_type = "phi3",
    .open = open_phi3,
    .prompt = phi3_prompt,
    .tokens = {"<|system|>", "<|user|>", "<|assistant|>", "<|end|>"},
    .turn_end = "<|end|>",
    .tail = "<|assistant|>\n",
    .templates =
        {"93d7bfd74b1ee92c7380c3762a35793967cc30bf341cc51ddea5a74bea687f27"}, /* July 2024 */
};
