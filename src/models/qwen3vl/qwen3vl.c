/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen3-VL: binds a checkpoint's tensors (spec 2.3, 2.4) and makes the rotary tables. NOTES.md
 * lists what is easy to get wrong. */
#include <stdio.h>

#include "models/qwen3vl/qwen3vl_chat.h"
#include "models/qwen3vl/qwen3vl_config.h"
#include "models/chat/hermes.h"
#include "models/layers/text_weights.h"

static const struct name_alias aliases[] = {
    {"model.visual.", "visual."},
    {"model.visual.", "vision_tower."},
    {"model.language_model.", "model."},
    {"model.language_model.", "language_model.model."},
    {"lm_head.", "language_model.lm_head."},
    {NULL, NULL},
};

static const struct text_tensors text_tensors = {.prefix = "model.language_model.",
                                                 .head_norms = true};

#define BLOCK "model.visual.blocks.%d."

static bool bind_block(struct vision_block_tensors *w, struct tensor_source *s,
                       const struct vision_shape *v, int i, ey_err *e)
{
    int h = v->hidden;
    return bind_vector(s, &w->norm1.w, h, e, BLOCK "norm1.weight", i) &&
           bind_vector(s, &w->norm1.b, h, e, BLOCK "norm1.bias", i) &&
           bind_vector(s, &w->norm2.w, h, e, BLOCK "norm2.weight", i) &&
           bind_vector(s, &w->norm2.b, h, e, BLOCK "norm2.bias", i) &&
           bind_matrix(s, &w->qkv.w, 3 * h, h, e, BLOCK "attn.qkv.weight", i) &&
           bind_vector(s, &w->qkv.b, 3 * h, e, BLOCK "attn.qkv.bias", i) &&
           bind_matrix(s, &w->proj.w, h, h, e, BLOCK "attn.proj.weight", i) &&
           bind_vector(s, &w->proj.b, h, e, BLOCK "attn.proj.bias", i) &&
           bind_matrix(s, &w->fc1.w, v->mlp, h, e, BLOCK "mlp.linear_fc1.weight", i) &&
           bind_vector(s, &w->fc1.b, v->mlp, e, BLOCK "mlp.linear_fc1.bias", i) &&
           bind_matrix(s, &w->fc2.w, h, v->mlp, e, BLOCK "mlp.linear_fc2.weight", i) &&
           bind_vector(s, &w->fc2.b, h, e, BLOCK "mlp.linear_fc2.bias", i);
}

/* `name` is "merger" or "deepstack_merger_list.K". */
static bool bind_merger(struct merger_tensors *w, struct tensor_source *s,
                        const struct vision_shape *v, const char *name, bool grouped, ey_err *e)
{
    int wide = vision_group(v) * v->hidden, normed = grouped ? wide : v->hidden;
    w->norm_grouped = grouped;
    return bind_vector(s, &w->norm.w, normed, e, "model.visual.%s.norm.weight", name) &&
           bind_vector(s, &w->norm.b, normed, e, "model.visual.%s.norm.bias", name) &&
           bind_matrix(s, &w->fc1.w, wide, wide, e, "model.visual.%s.linear_fc1.weight", name) &&
           bind_vector(s, &w->fc1.b, wide, e, "model.visual.%s.linear_fc1.bias", name) &&
           bind_matrix(s, &w->fc2.w, v->out_hidden, wide, e, "model.visual.%s.linear_fc2.weight",
                       name) &&
           bind_vector(s, &w->fc2.b, v->out_hidden, e, "model.visual.%s.linear_fc2.bias", name);
}

static bool bind_vision(struct model *m, struct tensor_source *s, ey_err *e)
{
    const struct vision_shape *v = &m->vision;
    struct vision_tensors *w = &m->vision_tensors;
    w->blocks = arena_array(&m->arena, (size_t)v->depth, sizeof(*w->blocks));
    if (!w->blocks)
        return ey_fail_memory(e, "vision blocks", (size_t)v->depth * sizeof(*w->blocks));
    int64_t patch[5] = {v->hidden, v->channels, v->temporal, v->patch, v->patch};
    if (!source_plain(s, &w->patch.w, "model.visual.patch_embed.proj.weight", patch, 5, e) ||
        !bind_vector(s, &w->patch.b, v->hidden, e, "model.visual.patch_embed.proj.bias") ||
        !bind_matrix(s, &w->position, (int64_t)v->position_side * v->position_side, v->hidden, e,
                     "model.visual.pos_embed.weight"))
        return false;
    for (int i = 0; i < v->depth; i++)
        if (!bind_block(&w->blocks[i], s, v, i, e)) return false;
    if (!bind_merger(&w->merger, s, v, "merger", false, e)) return false;
    for (int i = 0; i < v->n_deepstack; i++) {
        char name[40];
        snprintf(name, sizeof(name), "deepstack_merger_list.%d", i);
        if (!bind_merger(&w->deepstack[i], s, v, name, true, e)) return false;
    }
    return true;
}

/* Makes the interleaved M-RoPE table: axes T H W T H W … while H and W last, then T (spec 3.3). */
static bool make_text_rope(struct model *m, ey_err *e)
{
    const struct text_shape *t = &m->text;
    float *frequency;
    uint8_t *axis;
    if (!rope_alloc(&m->text_rope, &frequency, &axis, &m->arena, t->head_dim / 2, e)) return false;
    for (int i = 0; i < t->head_dim / 2; i++) {
        int phase = i % 3;
        frequency[i] = rope_inverse_frequency((float)t->rope_theta, i, t->head_dim);
        axis[i] = phase && i < 3 * t->rope_section[phase] ? (uint8_t)phase : 0;
    }
    return true;
}

/* Makes the vision rotary table: the first half of the pairs uses the patch's row, the second half
 * its column, with the same frequencies (spec 4.4). */
static bool make_vision_rope(struct model *m, ey_err *e)
{
    int pairs = m->vision.head_dim / 2, half = pairs / 2;
    float *frequency;
    uint8_t *axis;
    if (!rope_alloc(&m->vision_rope, &frequency, &axis, &m->arena, pairs, e)) return false;
    for (int i = 0; i < pairs; i++) {
        frequency[i] = rope_inverse_frequency(10000.0f, i % half, pairs);
        axis[i] = i < half ? 0 : 1;
    }
    return true;
}

static bool open_qwen3vl(struct model *m, struct checkpoint *ckpt, ey_err *e)
{
    struct tensor_source source = {.ckpt = ckpt, .arena = &m->arena, .aliases = aliases};
    bool tied;
    bool ok = qwen3vl_config_read(m, &tied, &source.quantization, ckpt, e) &&
              bind_text(m, &source, &text_tensors, tied, e) && bind_vision(m, &source, e) &&
              make_text_rope(m, e) && make_vision_rope(m, e);
    m->weight_bytes = source.bytes;
    return ok;
}

const struct family family_qwen3vl = {
    .architecture = "Qwen3VLForConditionalGeneration",
    .model_type = "qwen3_vl",
    .open = open_qwen3vl,
    .prompt = qwen3vl_prompt,
    .tool_calls = &hermes_tool_calls,
    .tokens = {"<|im_start|>", "<|im_end|>"},
    .turn_end = "<|im_end|>",
    .tail = "<|im_start|>assistant\n",
    .templates =
        {"3636d0f0bd6bef02654cdffdc447b79cb2cef8ab02cc75267345946291a489e4"}, /* Instruct */
    .thinking_tail = "<|im_start|>assistant\n<think>\n",
    .vision_marks = &qwen3vl_vision_marks,
    .pools = true,
};
