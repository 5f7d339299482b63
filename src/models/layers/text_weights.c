/* SPDX-License-Identifier: Apache-2.0 */
/* Binds a text model's tensors and makes its rotary table (spec 2.3, 9). */
#include "models/layers/text_weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/quantization_config.h"

/* ---- layers ---- */

struct layer_binder {
    struct tensor_source *s;
    const struct text_tensors *names;
    const struct text_shape *t;
    int layer;
};

#define LAYER_NAME "%slayers.%d.%s"
#define BIND_VECTOR(n, out, width, e, name) \
    bind_vector((n)->s, out, width, e, LAYER_NAME, (n)->names->prefix, (n)->layer, name)
#define BIND_MATRIX(n, out, rows, cols, e, name) \
    bind_matrix((n)->s, out, rows, cols, e, LAYER_NAME, (n)->names->prefix, (n)->layer, name)

static bool bind_fused_layer(struct text_layer_tensors *w, const struct layer_binder *n, ey_err *e)
{
    int q = text_q_width(n->t), kv = text_kv_width(n->t), h = n->t->hidden, mlp = n->t->mlp;
    struct tensor qkv, gate_up;
    return BIND_MATRIX(n, &qkv, q + 2 * (int64_t)kv, h, e, "self_attn.qkv_proj.weight") &&
           matrix_rows(&w->attention.q, &qkv, 0, q, e) &&
           matrix_rows(&w->attention.k, &qkv, q, kv, e) &&
           matrix_rows(&w->attention.v, &qkv, q + kv, kv, e) &&
           BIND_MATRIX(n, &gate_up, 2 * (int64_t)mlp, h, e, "mlp.gate_up_proj.weight") &&
           matrix_rows(&w->mlp.gate, &gate_up, 0, mlp, e) &&
           matrix_rows(&w->mlp.up, &gate_up, mlp, mlp, e);
}

static bool bind_separate_layer(struct text_layer_tensors *w, const struct layer_binder *n,
                                ey_err *e)
{
    int q = text_q_width(n->t), kv = text_kv_width(n->t), h = n->t->hidden;
    return BIND_MATRIX(n, &w->attention.q, q, h, e, "self_attn.q_proj.weight") &&
           BIND_MATRIX(n, &w->attention.k, kv, h, e, "self_attn.k_proj.weight") &&
           BIND_MATRIX(n, &w->attention.v, kv, h, e, "self_attn.v_proj.weight") &&
           BIND_MATRIX(n, &w->mlp.gate, n->t->mlp, h, e, "mlp.gate_proj.weight") &&
           BIND_MATRIX(n, &w->mlp.up, n->t->mlp, h, e, "mlp.up_proj.weight");
}

static bool bind_biases(struct text_layer_tensors *w, const struct layer_binder *n, ey_err *e)
{
    int q = text_q_width(n->t), kv = text_kv_width(n->t);
    return BIND_VECTOR(n, &w->attention.q_bias, q, e, "self_attn.q_proj.bias") &&
           BIND_VECTOR(n, &w->attention.k_bias, kv, e, "self_attn.k_proj.bias") &&
           BIND_VECTOR(n, &w->attention.v_bias, kv, e, "self_attn.v_proj.bias");
}

static bool bind_head_norms(struct text_layer_tensors *w, const struct layer_binder *n, ey_err *e)
{
    return BIND_VECTOR(n, &w->attention.q_norm, n->t->head_dim, e, "self_attn.q_norm.weight") &&
           BIND_VECTOR(n, &w->attention.k_norm, n->t->head_dim, e, "self_attn.k_norm.weight");
}

/* GPTQ writers store zero biases for layers without bias. A nonzero bias is an error, because it
 * would be ignored. */
static bool check_no_bias(const struct layer_binder *n, const char *module, ey_err *e)
{
    char name[SOURCE_MAX_NAME];
    snprintf(name, sizeof(name), LAYER_NAME ".bias", n->names->prefix, n->layer, module);
    const struct tensor_view *t = source_find(n->s, name);
    for (size_t i = 0; t && i < t->size; i++)
        if (t->data[i])
            return ey_fail(e, EY_BAD_MODEL, "%s: tensor %s is a bias that this model does not have",
                           t->file, t->name);
    return true;
}

static bool check_no_biases(const struct layer_binder *n, ey_err *e)
{
    static const char *const modules[] = {
        "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",     "mlp.down_proj",
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
    const size_t all = sizeof(modules) / sizeof(modules[0]);
    for (size_t i = 0; i < (n->names->qkv_bias ? all - 3 : all); i++)
        if (!check_no_bias(n, modules[i], e)) return false;
    return true;
}

static bool bind_text_layer(struct text_layer_tensors *w, const struct layer_binder *n, ey_err *e)
{
    int h = n->t->hidden;
    w->kind = LAYER_FULL_ATTENTION; /* in all families so far */
    return BIND_VECTOR(n, &w->attention.input_norm, h, e, "input_layernorm.weight") &&
           (n->names->fused ? bind_fused_layer(w, n, e) : bind_separate_layer(w, n, e)) &&
           (!n->names->qkv_bias || bind_biases(w, n, e)) &&
           (!n->names->head_norms || bind_head_norms(w, n, e)) && check_no_biases(n, e) &&
           BIND_MATRIX(n, &w->attention.o, h, text_q_width(n->t), e, "self_attn.o_proj.weight") &&
           BIND_VECTOR(n, &w->mlp.post_norm, h, e, "post_attention_layernorm.weight") &&
           BIND_MATRIX(n, &w->mlp.down, h, n->t->mlp, e, "mlp.down_proj.weight");
}

/* ---- the rest ---- */

/* Binds the tied or stored head (spec 2.4). A stored copy that is bit-identical to the embedding
 * shares its memory. */
static bool bind_lm_head(struct model *m, struct tensor_source *s, const char *embed_name,
                         bool tied, ey_err *e)
{
    const struct tensor_view *stored = source_find(s, "lm_head.weight"),
                             *embed = source_find(s, embed_name);
    bool same = stored && embed && stored->dtype == embed->dtype && stored->size == embed->size &&
                (stored->data == embed->data ||
                 (tied && memcmp(stored->data, embed->data, embed->size) == 0));
    const bool unused = m->task == EY_TASK_EMBED; /* released embedding models may lack it */
    if (same || unused || (tied && !source_has_matrix(s, "lm_head.weight"))) {
        m->head = m->embed;
        return true;
    }
    return bind_matrix(s, &m->head, m->text.vocab_size, m->text.hidden, e, "lm_head.weight");
}

bool bind_text(struct model *m, struct tensor_source *s, const struct text_tensors *names,
               bool tied, ey_err *e)
{
    const struct text_shape *t = &m->text;
    char embed[64];
    snprintf(embed, sizeof(embed), "%sembed_tokens.weight", names->prefix);
    m->layers = arena_array(&m->arena, (size_t)t->n_layers, sizeof(*m->layers));
    if (!m->layers) return ey_fail_memory(e, "layers", (size_t)t->n_layers * sizeof(*m->layers));
    if (!bind_matrix(s, &m->embed, t->vocab_size, t->hidden, e, "%s", embed) ||
        !bind_vector(s, &m->final_norm, t->hidden, e, "%snorm.weight", names->prefix) ||
        !bind_lm_head(m, s, embed, tied, e))
        return false;
    for (int i = 0; i < t->n_layers; i++) {
        struct layer_binder n = {s, names, t, i};
        if (!bind_text_layer(&m->layers[i], &n, e)) return false;
    }
    return true;
}

/* ---- rotary table ---- */

float rope_inverse_frequency(float base, int i, int dim)
{
    float exponent = (float)(2 * i) / (float)dim;
    return 1.0f / powf(base, exponent);
}

bool rope_alloc(struct rope *r, float **frequency, uint8_t **axis, struct arena *arena, int n_pairs,
                ey_err *e)
{
    *frequency = arena_array(arena, (size_t)n_pairs, sizeof(float));
    *axis = arena_alloc(arena, (size_t)n_pairs);
    *r = (struct rope){*frequency, *axis, n_pairs};
    if (!*frequency || !*axis) return ey_fail_memory(e, "rotary tables", (size_t)n_pairs * 5);
    memset(*axis, 0, (size_t)n_pairs);
    return true;
}

bool make_1d_rope(struct model *m, ey_err *e)
{
    const struct text_shape *t = &m->text;
    float *frequency;
    uint8_t *axis;
    if (!rope_alloc(&m->text_rope, &frequency, &axis, &m->arena, t->head_dim / 2, e)) return false;
    for (int i = 0; i < t->head_dim / 2; i++)
        frequency[i] = rope_inverse_frequency((float)t->rope_theta, i, t->head_dim);
    return true;
}

/* ---- a family without images ---- */

bool open_text_only(struct model *m, struct checkpoint *ckpt, const struct text_family *family,
                    ey_err *e)
{
    const json_object *config = checkpoint_config(ckpt);
    static const struct name_alias aliases[] = {
        {"model.", "language_model.model."}, {"lm_head.", "language_model.lm_head."}, {NULL, NULL}};
    struct tensor_source source = {.ckpt = ckpt, .arena = &m->arena, .aliases = aliases};
    char path[EY_MAX_PATH];
    struct config s;
    bool tied;
    m->image_token_id = -1;
    bool ok = checkpoint_json_path(path, ckpt, "config.json", e) &&
              config_read_quantization(&source.quantization, ckpt, path, e) &&
              config_open(&s, config, NULL, path, e) && config_text(&m->text, &s, e) &&
              config_1d_rope(&m->text, &s, family->missing_theta, e) &&
              (!family->rules || family->rules(m, &s, e)) &&
              config_tied(&tied, config, &s, path, e) && config_eos(m, ckpt, &s, e) &&
              bind_text(m, &source, &family->tensors, tied, e) && make_1d_rope(m, e);
    m->weight_bytes = source.bytes;
    return ok;
}
