/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/gguf/gguf_arch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct gguf_arch archs[] = {
    {.name = "llama",
     .architecture = "LlamaForCausalLM",
     .model_type = "llama",
     .prefix = "model.",
     .paired_rows = true},
    {.name = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .prefix = "model.",
     .qkv_bias = true,
     .nfc = true},
    {.name = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .model_type = "qwen3",
     .prefix = "model.",
     .head_norms = true,
     .nfc = true},
    {.name = "phi3",
     .architecture = "Phi3ForCausalLM",
     .model_type = "phi3",
     .prefix = "model.",
     .fused = true},
    {.name = "qwen3vl",
     .architecture = "Qwen3VLForConditionalGeneration",
     .model_type = "qwen3_vl",
     .prefix = "model.language_model.",
     .head_norms = true,
     .images = true,
     .nfc = true},
};
enum { ARCHS = sizeof(archs) / sizeof(archs[0]) };

const struct gguf_arch *gguf_arch_of(const struct gguf *file, ey_err *e)
{
    char known[128] = "";
    const struct gguf_value *v = gguf_find(file, "general.architecture");
    for (int i = 0; i < ARCHS; i++) {
        const size_t n = strlen(known);
        if (gguf_text_is(file, "general.architecture", archs[i].name)) return &archs[i];
        snprintf(known + n, sizeof(known) - n, "%s%s", i ? ", " : "", archs[i].name);
    }
    if (!v || v->type != GGUF_STRING)
        ey_fail(e, EY_BAD_MODEL, "%s: general.architecture is missing", gguf_path(file));
    else if (gguf_text_is(file, "general.architecture", "clip"))
        ey_fail(e, EY_BAD_MODEL,
                "%s: this is a vision encoder (mmproj), not a model; give the model's own file",
                gguf_path(file));
    else
        ey_fail(e, EY_BAD_MODEL,
                "%s: the architecture %.*s is not supported in GGUF files (supported: %s)",
                gguf_path(file), (int)(v->n < 60 ? v->n : 60), (const char *)v->data, known);
    return NULL;
}

const struct gguf_arch *gguf_text_arch(const struct gguf_arch *arch)
{
    static const struct gguf_arch qwen3vl_text = {.name = "qwen3vl",
                                                  .architecture = "Qwen3ForCausalLM",
                                                  .model_type = "qwen3",
                                                  .prefix = "model.",
                                                  .head_norms = true,
                                                  .nfc = true};
    return arch->images ? &qwen3vl_text : arch;
}

/* ---- names ---- */

/* Says which architectures have a tensor. */
enum name_use { ANY_ARCH, WITH_BIAS, WITH_HEAD_NORMS, WITH_FUSED, WITHOUT_FUSED };

static const struct {
    const char *gguf, *model;
    enum name_use use;
} layer_names[] = {
    {"attn_norm.weight", "input_layernorm.weight", ANY_ARCH},
    {"attn_q.weight", "self_attn.q_proj.weight", WITHOUT_FUSED},
    {"attn_k.weight", "self_attn.k_proj.weight", WITHOUT_FUSED},
    {"attn_v.weight", "self_attn.v_proj.weight", WITHOUT_FUSED},
    {"attn_q.bias", "self_attn.q_proj.bias", WITH_BIAS},
    {"attn_k.bias", "self_attn.k_proj.bias", WITH_BIAS},
    {"attn_v.bias", "self_attn.v_proj.bias", WITH_BIAS},
    {"attn_qkv.weight", "self_attn.qkv_proj.weight", WITH_FUSED},
    {"attn_q_norm.weight", "self_attn.q_norm.weight", WITH_HEAD_NORMS},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", WITH_HEAD_NORMS},
    {"attn_output.weight", "self_attn.o_proj.weight", ANY_ARCH},
    {"ffn_norm.weight", "post_attention_layernorm.weight", ANY_ARCH},
    {"ffn_gate.weight", "mlp.gate_proj.weight", WITHOUT_FUSED},
    {"ffn_up.weight", "mlp.up_proj.weight", WITHOUT_FUSED},
    {"ffn_up.weight", "mlp.gate_up_proj.weight", WITH_FUSED},
    {"ffn_down.weight", "mlp.down_proj.weight", ANY_ARCH},
};

static bool arch_has(const struct gguf_arch *a, enum name_use use)
{
    switch (use) {
    case WITH_BIAS: return a->qkv_bias;
    case WITH_HEAD_NORMS: return a->head_norms;
    case WITH_FUSED: return a->fused;
    case WITHOUT_FUSED: return !a->fused;
    default: return true;
    }
}

const char *gguf_after_number(const char *name, const char *prefix, int *number)
{
    const size_t n = strlen(prefix);
    if (strncmp(name, prefix, n) != 0 || name[n] < '0' || name[n] > '9') return NULL;
    char *end;
    const long value = strtol(name + n, &end, 10);
    if (*end != '.' || value < 0 || value >= EY_MAX_LAYERS) return NULL;
    *number = (int)value;
    return end + 1;
}

/* Returns whether `name` is the global scale of an NVFP4 weight, as "attn_q.scale" is that of
 * "attn_q.weight". */
static bool is_scale_of(const char *name, const char *weight)
{
    const size_t stem = strlen(weight) - strlen(".weight");
    return strcmp(weight + stem, ".weight") == 0 && strncmp(name, weight, stem) == 0 &&
           strcmp(name + stem, ".scale") == 0;
}

static bool layer_name(char out[GGUF_NAME_BYTES], const struct gguf_arch *a, const char *rest,
                       int layer)
{
    for (size_t i = 0; i < sizeof(layer_names) / sizeof(layer_names[0]); i++) {
        if (!arch_has(a, layer_names[i].use)) continue;
        const bool scale = is_scale_of(rest, layer_names[i].gguf);
        if (!scale && strcmp(rest, layer_names[i].gguf) != 0) continue;
        snprintf(out, GGUF_NAME_BYTES, "%slayers.%d.%s%s", a->prefix, layer, layer_names[i].model,
                 scale ? ".factor" : "");
        return true;
    }
    return false;
}

bool gguf_model_name(char out[GGUF_NAME_BYTES], const struct gguf_arch *a, const char *name)
{
    static const char *const outer[][2] = {{"token_embd.weight", "embed_tokens.weight"},
                                           {"output_norm.weight", "norm.weight"}};
    int layer;
    const char *rest = gguf_after_number(name, "blk.", &layer);
    if (rest) return layer_name(out, a, rest, layer);
    for (int i = 0; i < 2; i++) {
        const bool scale = is_scale_of(name, outer[i][0]);
        if (!scale && strcmp(name, outer[i][0]) != 0) continue;
        snprintf(out, GGUF_NAME_BYTES, "%s%s%s", a->prefix, outer[i][1], scale ? ".factor" : "");
        return true;
    }
    const bool scale = is_scale_of(name, "output.weight");
    if (!scale && strcmp(name, "output.weight") != 0) return false;
    snprintf(out, GGUF_NAME_BYTES, "lm_head.weight%s", scale ? ".factor" : "");
    return true;
}

/* ---- vision encoder ---- */

static const char *const vision_outer[][2] = {
    {"v.patch_embd.bias", "patch_embed.proj.bias"}, {"v.position_embd.weight", "pos_embed.weight"},
    {"v.post_ln.weight", "merger.norm.weight"},     {"v.post_ln.bias", "merger.norm.bias"},
    {"mm.0.weight", "merger.linear_fc1.weight"},    {"mm.0.bias", "merger.linear_fc1.bias"},
    {"mm.2.weight", "merger.linear_fc2.weight"},    {"mm.2.bias", "merger.linear_fc2.bias"},
};
/* Stems of a block's and a DeepStack merger's tensors; ".weight" and ".bias" follow. */
static const char *const vision_block[][2] = {{"ln1", "norm1"},
                                              {"ln2", "norm2"},
                                              {"attn_qkv", "attn.qkv"},
                                              {"attn_out", "attn.proj"},
                                              {"ffn_up", "mlp.linear_fc1"},
                                              {"ffn_down", "mlp.linear_fc2"}};
static const char *const vision_deepstack[][2] = {
    {"norm", "norm"}, {"fc1", "linear_fc1"}, {"fc2", "linear_fc2"}};

bool gguf_vision_part(char out[GGUF_NAME_BYTES], const char *folder, const char *rest,
                      const char *const (*names)[2], size_t n)
{
    const char *dot = strrchr(rest, '.');
    if (!dot || (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0)) return false;
    for (size_t i = 0; i < n; i++) {
        const size_t length = strlen(names[i][0]);
        if ((size_t)(dot - rest) != length || strncmp(rest, names[i][0], length) != 0) continue;
        snprintf(out, GGUF_NAME_BYTES, "model.visual.%s%s%s", folder, names[i][1], dot);
        return true;
    }
    return false;
}

bool gguf_vision_name(char out[GGUF_NAME_BYTES], const char *name, const int *deepstack, int n)
{
    char folder[64];
    int number;
    const char *rest = gguf_after_number(name, "v.blk.", &number);
    if (rest) {
        snprintf(folder, sizeof(folder), "blocks.%d.", number);
        return gguf_vision_part(out, folder, rest, vision_block,
                                sizeof(vision_block) / sizeof(vision_block[0]));
    }
    rest = gguf_after_number(name, "v.deepstack.", &number);
    for (int i = 0; rest && i < n; i++)
        if (deepstack[i] == number) {
            snprintf(folder, sizeof(folder), "deepstack_merger_list.%d.", i);
            return gguf_vision_part(out, folder, rest, vision_deepstack,
                                    sizeof(vision_deepstack) / sizeof(vision_deepstack[0]));
        }
    for (size_t i = 0; i < sizeof(vision_outer) / sizeof(vision_outer[0]); i++)
        if (strcmp(name, vision_outer[i][0]) == 0) {
            snprintf(out, GGUF_NAME_BYTES, "model.visual.%s", vision_outer[i][1]);
            return true;
        }
    return false;
}

/* ---- from the repository's names ---- */

const struct gguf_arch *gguf_arch_of_model(const char *model_type)
{
    for (int i = 0; i < ARCHS; i++)
        if (strcmp(archs[i].model_type, model_type) == 0) return &archs[i];
    return NULL;
}

bool gguf_file_name(char out[GGUF_NAME_BYTES], const struct gguf_arch *a, const char *name)
{
    const size_t n = strlen(a->prefix);
    int layer;
    if (strcmp(name, "lm_head.weight") == 0)
        return snprintf(out, GGUF_NAME_BYTES, "output.weight") > 0;
    if (strncmp(name, a->prefix, n) != 0) return false;
    name += n;
    if (strcmp(name, "embed_tokens.weight") == 0)
        return snprintf(out, GGUF_NAME_BYTES, "token_embd.weight") > 0;
    if (strcmp(name, "norm.weight") == 0)
        return snprintf(out, GGUF_NAME_BYTES, "output_norm.weight") > 0;
    const char *rest = gguf_after_number(name, "layers.", &layer);
    for (size_t i = 0; rest && i < sizeof(layer_names) / sizeof(layer_names[0]); i++)
        if (arch_has(a, layer_names[i].use) && strcmp(rest, layer_names[i].model) == 0)
            return snprintf(out, GGUF_NAME_BYTES, "blk.%d.%s", layer, layer_names[i].gguf) > 0;
    return false;
}

/* Writes the GGUF name for `rest` = "STEM.weight" or "STEM.bias". Returns false if the list does
 * not have the stem. */
static bool vision_part_name(char out[GGUF_NAME_BYTES], const char *folder, int number,
                             const char *rest, const char *const (*names)[2], size_t n)
{
    const char *dot = strrchr(rest, '.');
    for (size_t i = 0; dot && i < n; i++) {
        const size_t length = strlen(names[i][1]);
        if ((size_t)(dot - rest) != length || strncmp(rest, names[i][1], length) != 0) continue;
        snprintf(out, GGUF_NAME_BYTES, "v.%s.%d.%s%s", folder, number, names[i][0], dot);
        return true;
    }
    return false;
}

bool gguf_vision_file_name(char out[GGUF_NAME_BYTES], const char *name, const int *deepstack, int n)
{
    static const char prefix[] = "model.visual.";
    int number;
    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0) return false;
    name += sizeof(prefix) - 1;
    const char *rest = gguf_after_number(name, "blocks.", &number);
    if (rest)
        return vision_part_name(out, "blk", number, rest, vision_block,
                                sizeof(vision_block) / sizeof(vision_block[0]));
    rest = gguf_after_number(name, "deepstack_merger_list.", &number);
    if (rest)
        return number < n &&
               vision_part_name(out, "deepstack", deepstack[number], rest, vision_deepstack,
                                sizeof(vision_deepstack) / sizeof(vision_deepstack[0]));
    for (size_t i = 0; i < sizeof(vision_outer) / sizeof(vision_outer[0]); i++)
        if (strcmp(name, vision_outer[i][1]) == 0)
            return snprintf(out, GGUF_NAME_BYTES, "%s", vision_outer[i][0]) > 0;
    return false;
}
