/* SPDX-License-Identifier: Apache-2.0 */
/* Llama-2 (spec 9): the plain text model, nothing added. Weights lie in the half-split order of the
 * other families already. */
#include "models/llama/llama.h"

#include "models/layers/text_weights.h"

static bool llama_check_config(struct model *m, const struct config *s, ey_err *e)
{
    (void)m;
    return config_refuse(s, "mlp_bias", e);
}

static bool open_llama(struct model *m, struct checkpoint *ckpt, ey_err *e)
{
    /* Llama-2's own files have no rope_theta; it has been 10,000 in every release of the class. */
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
