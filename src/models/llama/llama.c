/* SPDX-License-Identifier: Apache-2.0 */
/* Llama (spec 9): the plain text model. As in the other families, rotary pairs are split by halves.
 * Llama-2 has its own chat format; other models of the architecture, such as SmolLM2, mostly use
 * ChatML. */
#include "models/llama/llama.h"

#include "models/chat/chatml.h"
#include "models/layers/text_weights.h"

#define SMOLLM_SYSTEM "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

static bool llama_check_config(struct model *m, const struct config *s, ey_err *e)
{
    (void)m;
    return config_refuse(s, "mlp_bias", e);
}

static bool open_llama(struct model *m, struct checkpoint *ckpt, ey_err *e)
{
    /* Llama-2's files have no rope_theta; every release of the class uses 10,000. */
    static const struct text_family family = {
        .tensors = {.prefix = "model."}, .missing_theta = 10000, .rules = llama_check_config};
    return open_text_only(m, ckpt, &family, e);
}

const struct family family_llama = {
    .architecture = "LlamaForCausalLM",
    .model_type = "llama",
    .open = open_llama,
    .prompt = llama_prompt,
    .tokens = {"<s>", "</s>"},
    .turn_end = "</s>",
    .tail = "",
    .templates = {"390ebb1d3982da87225c2e736099efde9f461dde9edf9d411011f37e0e51c384"},
};

/* ---- ChatML ---- */

static bool smollm_prompt(struct prompt *out, const ey_request *request, ey_err *e)
{
    static const struct chatml style = {.default_system = SMOLLM_SYSTEM, .later_system = true};
    return chatml_prompt(out, request, &style, e);
}

const struct family family_smollm = {
    .architecture = "LlamaForCausalLM",
    .model_type = "llama",
    .template_words = SMOLLM_SYSTEM,
    .open = open_llama,
    .prompt = smollm_prompt,
    .tokens = {"<|im_start|>", "<|im_end|>"},
    .turn_end = "<|im_end|>",
    .default_system = SMOLLM_SYSTEM,
    .tail = "<|im_start|>assistant\n",
    .templates = {"872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788"}, /* SmolLM2 */
};

static bool llama_chatml_prompt(struct prompt *out, const ey_request *request, ey_err *e)
{
    static const struct chatml style = {.later_system = true};
    return chatml_prompt(out, request, &style, e);
}

const struct family family_llama_chatml = {
    .architecture = "LlamaForCausalLM",
    .model_type = "llama",
    .template_words = "<|im_start|>",
    .open = open_llama,
    .prompt = llama_chatml_prompt,
    .tokens = {"<|im_start|>", "<|im_end|>"},
    .turn_end = "<|im_end|>",
    .tail = "<|im_start|>assistant\n",
    .templates = {NULL},
};
