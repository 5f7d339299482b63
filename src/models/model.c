/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a checkpoint's family, and does what all families share: defaults, checks, placing. */
#include "models/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hugepages.h"
#include "checkpoint/repack.h"
#include "convert/quantize.h"
#include "models/pooling/pooling_task.h"
#include "checkpoint/template_file.h"

/* Families recognized by their chat template come before others of the same architecture. */
static const struct family *const families[] = {
    &family_qwen3vl, &family_qwen2,        &family_qwen3, &family_phi3,
    &family_smollm,  &family_llama_chatml, &family_llama};
enum { N_FAMILIES = sizeof(families) / sizeof(families[0]) };

static bool is_told_by_template(const struct family *f, struct checkpoint *ckpt)
{
    return !f->template_words || template_file_has(ckpt, f->template_words);
}

static const struct family *family_by_architecture(const char *name, struct checkpoint *ckpt)
{
    for (int i = 0; i < N_FAMILIES; i++)
        if (strcmp(families[i]->architecture, name) == 0 && is_told_by_template(families[i], ckpt))
            return families[i];
    return NULL;
}

static const struct family *family_by_model_type(const char *name, struct checkpoint *ckpt)
{
    for (int i = 0; i < N_FAMILIES; i++)
        if (strcmp(families[i]->model_type, name) == 0 && is_told_by_template(families[i], ckpt))
            return families[i];
    return NULL;
}

/* Returns architectures[0], or `architectures` itself if it is a string, or NULL if it is
 * missing. */
static const char *config_architecture(const json_object *config)
{
    json_object *list = json_member(config, "architectures");
    json_object *first = json_object_is_type(list, json_type_array) &&
                                 json_object_array_length(list)
                             ? json_object_array_get_idx(list, 0)
                             : list;
    return json_object_is_type(first, json_type_string) ? json_object_get_string(first) : NULL;
}

static bool fail_family(const char *dir, const char *what, const char *name, ey_err *e)
{
    char known[256] = "";
    for (int i = 0; i < N_FAMILIES; i++) {
        size_t n = strlen(known);
        if (families[i]->template_words) continue;
        snprintf(known + n, sizeof(known) - n, "%s%s", i ? ", " : "", families[i]->architecture);
    }
    return ey_fail(e, EY_BAD_MODEL,
                   "%s/config.json: the %s %.100s is not supported; eyelet runs %s", dir, what,
                   name, known);
}

/* Finds the family by architecture or, if no architecture is given, by model_type, by which
 * transformers always finds it. */
static bool find_family(struct model *model, struct checkpoint *ckpt, ey_err *e)
{
    const json_object *config = checkpoint_config(ckpt);
    const char *dir = checkpoint_directory(ckpt), *name = config_architecture(config);
    if (name) {
        model->family = family_by_architecture(name, ckpt);
        return model->family || fail_family(dir, "architecture", name, e);
    }
    json_object *type = json_member_of_type(config, "model_type", json_type_string);
    if (!type)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s/config.json: neither architectures nor model_type names a model", dir);
    name = json_object_get_string(type);
    model->family = family_by_model_type(name, ckpt);
    return model->family || fail_family(dir, "model_type", name, e);
}

void model_remark(struct model *model, const char *fmt, ...)
{
    struct remarks *r = &model->remarks;
    char text[REMARK_BYTES];
    ey_err shown;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    ey_fail(&shown, EY_BAD_MODEL, "%s", text); /* escapes unprintable bytes */
    if (r->n < MAX_REMARKS)
        snprintf(r->text[r->n++], REMARK_BYTES, "%.*s", REMARK_BYTES - 1, shown.text);
}

/* ---- the recommended sampling ---- */

#define GENERATION_FILE "generation_config.json"

/* Reads a recommended number. An unusable number is ignored with a remark. */
static double recommended_number(struct model *model, const json_object *file, const char *key,
                                 double lo, double hi, double missing)
{
    double value = missing;
    ey_err e;
    if (json_optional_number(file, key, lo, hi, &value, GENERATION_FILE, &e)) return value;
    model_remark(model, "%s; it is ignored", e.text);
    return missing;
}

/* Reads top_k; -1 means all tokens, as in vLLM and llama.cpp. */
static int recommended_top_k(struct model *model, const json_object *file)
{
    int64_t value = 0;
    ey_err e;
    if (!json_optional_int(file, "top_k", -1, EY_MAX_VOCAB_SIZE, &value, GENERATION_FILE, &e)) {
        model_remark(model, "%s; it is ignored", e.text);
        return 0;
    }
    return value > 0 ? (int)value : 0;
}

static bool recommends_sampling(struct model *model, const json_object *file)
{
    bool sample = false;
    ey_err e;
    if (json_optional_bool(file, "do_sample", &sample, GENERATION_FILE, &e)) return sample;
    model_remark(model, "%s; it is ignored", e.text);
    return false;
}

/* Reads the sampling defaults of generation_config.json. Without the file or with do_sample false,
 * decoding is greedy and the other numbers are ignored, as in transformers. */
static bool read_default_sampling(struct model *model, struct checkpoint *ckpt, ey_err *e)
{
    const json_object *file;
    ey_sampling *out = &model->sampling;
    *out = (ey_sampling){.top_p = 1, .repetition_penalty = 1};
    if (!checkpoint_json(ckpt, GENERATION_FILE, &file, e)) return false;
    if (!file) return true;
    out->repetition_penalty = (float)recommended_number(model, file, "repetition_penalty", 1e-3,
                                                        100, 1);
    if (!recommends_sampling(model, file)) return true;
    out->temperature = (float)recommended_number(model, file, "temperature", 0, 100, 1);
    out->top_k = recommended_top_k(model, file);
    out->top_p = (float)recommended_number(model, file, "top_p", 0, 1, 1);
    out->min_p = (float)recommended_number(model, file, "min_p", 0, 1, 0);
    return true;
}

/* Whether the matrix has scales for groups of columns, which not all kernels take. */
static bool is_grouped(const struct tensor *w)
{
    return w->group_size != 0;
}

static bool any_grouped(const struct tensor *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_grouped(&w[i])) return true;
    return false;
}

static bool has_grouped_vision(struct model *m)
{
    struct vision_tensors *vision = &m->vision_tensors;
    bool found = any_grouped(&vision->position, 1) || any_grouped(TENSORS_OF(vision->patch));
    for (int i = 0; i < m->vision.depth; i++)
        found = found || any_grouped(TENSORS_OF(vision->blocks[i]));
    for (int i = -1; i < m->vision.n_deepstack; i++) {
        const struct merger_tensors *merger = i < 0 ? &vision->merger : &vision->deepstack[i];
        found = found || is_grouped(&merger->fc1.w) || is_grouped(&merger->fc2.w);
    }
    return found;
}

/* Adds up the bytes of weights with a recipe, and sets int4 and reordered for the backend. */
static void note_weights(struct model *m, const struct tensor *w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        m->int4 = m->int4 || is_grouped(&w[i]) || w[i].row_scale || dtype_is_gguf(w[i].dtype);
        m->reordered = m->reordered || w[i].place;
        if (!w[i].recipe) continue;
        const size_t bytes = quantized_bytes(&w[i]);
        m->quantized_bytes += bytes;
        if (bytes > m->max_quantized_bytes) m->max_quantized_bytes = bytes;
    }
}

static void note_vision_weights(struct model *m)
{
    struct vision_tensors *vision = &m->vision_tensors;
    for (int i = 0; i < m->vision.depth; i++)
        note_weights(m, TENSORS_OF(vision->blocks[i]));
    for (int i = -1; i < m->vision.n_deepstack; i++) {
        const struct merger_tensors *merger = i < 0 ? &vision->merger : &vision->deepstack[i];
        note_weights(m, &merger->fc1.w, 1);
        note_weights(m, &merger->fc2.w, 1);
    }
}

/* Checks that only the text layers and the head have matrices with groups of columns, because the
 * kernels of other parts don't read groups. Then adds up the weights by note_weights(). */
static bool check_quantized_weights(struct model *m, const char *dir, ey_err *e)
{
    if (is_grouped(&m->embed) || has_grouped_vision(m))
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: the embedding or the vision encoder has weights quantized in groups of "
                       "columns; only the text model's layers and its head may have them",
                       dir);
    if (m->head.place)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: the head has groups of columns in another order (act-order), which "
                       "only the text model's layers may have",
                       dir);
    for (int i = 0; i < m->text.n_layers; i++) {
        note_weights(m, TENSORS_OF(m->layers[i].attention));
        note_weights(m, TENSORS_OF(m->layers[i].mlp));
    }
    if (m->head.data != m->embed.data || dtype_is_gguf(m->head.dtype)) note_weights(m, &m->head, 1);
    note_vision_weights(m);
    return true;
}

bool model_open(struct model *model, struct checkpoint *ckpt, const char *task, ey_err *e)
{
    *model = (struct model){0};
    if (!find_family(model, ckpt, e) ||
        !pooling_task_find(&model->task, ckpt, task, model->family->pools, e))
        return false;
    if (model->family->open(model, ckpt, e) &&
        check_quantized_weights(model, checkpoint_directory(ckpt), e) &&
        read_default_sampling(model, ckpt, e))
        return true;
    model_close(model);
    return false;
}

void model_close(struct model *model)
{
    arena_free(&model->arena);
    *model = (struct model){0};
}

bool model_is_eos(const struct model *model, int id)
{
    for (int i = 0; i < model->n_eos; i++)
        if (model->eos[i] == id) return true;
    return false;
}

static bool has_tokens(const struct tokenizer *tok, const char *const *needed, ey_err *e)
{
    for (; *needed; needed++)
        if (tokenizer_added_id(tok, *needed) < 0)
            return ey_fail(e, EY_BAD_MODEL,
                           "tokenizer.json lacks the token %s that the chat format needs", *needed);
    return true;
}

bool model_check_tokenizer(const struct model *model, const struct tokenizer *tok, ey_err *e)
{
    if (tokenizer_size(tok) > model->text.vocab_size)
        return ey_fail(e, EY_BAD_MODEL,
                       "tokenizer.json has token %d but the model's vocabulary ends at %d; they "
                       "belong to different models",
                       tokenizer_size(tok) - 1, model->text.vocab_size - 1);
    const struct vision_marks *v = model->family->vision_marks;
    const char *const marks[] = {v ? v->start : NULL, v ? v->pad : NULL, v ? v->end : NULL, NULL};
    if (!has_tokens(tok, model->family->tokens, e) || !has_tokens(tok, marks, e)) return false;
    if (v && model->image_token_id >= 0 && model->image_token_id != tokenizer_added_id(tok, v->pad))
        return ey_fail(e, EY_BAD_MODEL,
                       "config.json says image_token_id %d, but in tokenizer.json %s is %d; they "
                       "belong to different models",
                       (int)model->image_token_id, v->pad, tokenizer_added_id(tok, v->pad));
    return true;
}

void model_end_at_turn(struct model *model, const struct tokenizer *tok)
{
    int id = (int)tokenizer_added_id(tok, model->family->turn_end);
    if (id >= 0 && !model_is_eos(model, id)) model->eos[model->n_eos++] = id;
}

static bool place_weights(struct backend *be, struct placed **out, const struct tensor *first,
                          size_t n, enum weight_role role, enum placement placement, ey_err *e)
{
    for (size_t i = 0; i < n; i++)
        if (first[i].data && !be->ops->memory->place(be, &out[i], &first[i], role, placement, e))
            return false;
    return true;
}

/* Places each tensor of `in` and stores the result in the same member of `out`. */
#define PLACE_WEIGHTS(be, out, in, role, placement, e) \
    place_weights(be, (struct placed **)&(out), TENSORS_OF(in), role, placement, e)

static bool place_merger(struct backend *be, struct merger *out, struct merger_tensors *in,
                         enum placement placement, ey_err *e)
{
    out->norm_grouped = in->norm_grouped;
    return PLACE_WEIGHTS(be, out->norm, in->norm, ROLE_VISION, placement, e) &&
           PLACE_WEIGHTS(be, out->fc1, in->fc1, ROLE_VISION, placement, e) &&
           PLACE_WEIGHTS(be, out->fc2, in->fc2, ROLE_VISION, placement, e);
}

static size_t resident_bytes(const struct backend *be, const struct tensor *first, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        if (first[i].data) bytes += be->ops->memory->weight_bytes(be, &first[i], PLACE_RESIDENT);
    return bytes;
}

static size_t merger_bytes(const struct backend *be, const struct merger_tensors *m)
{
    return resident_bytes(be, TENSORS_OF(m->norm)) + resident_bytes(be, TENSORS_OF(m->fc1)) +
           resident_bytes(be, TENSORS_OF(m->fc2));
}

size_t model_streamed_group_bytes(const struct model *model, const struct backend *be)
{
    const struct vision_tensors *v = &model->vision_tensors;
    size_t max_bytes = model->vision.depth ? merger_bytes(be, &v->merger) : 0, bytes;
    for (int i = 0; i < model->vision.depth; i++)
        if ((bytes = resident_bytes(be, TENSORS_OF(v->blocks[i]))) > max_bytes) max_bytes = bytes;
    for (int i = 0; i < model->vision.n_deepstack; i++)
        if ((bytes = merger_bytes(be, &v->deepstack[i])) > max_bytes) max_bytes = bytes;
    return max_bytes;
}

/* A streamed vision model has one group per block and per merger. */
static bool place_vision_model(struct model *model, struct backend *be, enum placement placement,
                               ey_err *e)
{
    struct vision_tensors *in = &model->vision_tensors;
    struct vision_weights *out = &model->placed.vision;
    size_t group = placement == PLACE_STREAMED && be->ops->memory->open_group
                       ? model_streamed_group_bytes(model, be)
                       : 0;
    out->blocks = arena_array(&model->arena, (size_t)model->vision.depth, sizeof(*out->blocks));
    if (!out->blocks) return ey_fail_memory(e, "the vision encoder's blocks", 0);
    bool ok = PLACE_WEIGHTS(be, out->patch, in->patch, ROLE_VISION, PLACE_RESIDENT, e) &&
              PLACE_WEIGHTS(be, out->position, in->position, ROLE_VISION, PLACE_RESIDENT, e);
    for (int i = 0; ok && i < model->vision.depth; i++)
        ok = (!group || be->ops->memory->open_group(be, group, e)) &&
             PLACE_WEIGHTS(be, out->blocks[i], in->blocks[i], ROLE_VISION, placement, e);
    for (int i = 0; ok && i < model->vision.n_deepstack; i++)
        ok = (!group || be->ops->memory->open_group(be, group, e)) &&
             place_merger(be, &out->deepstack[i], &in->deepstack[i], placement, e);
    return ok && (!group || be->ops->memory->open_group(be, group, e)) &&
           place_merger(be, &out->merger, &in->merger, placement, e);
}

/* ---- quantized while loading ---- */

struct on_load_quantizer {
    struct model *model;
    struct backend *be;
    struct pool *pool;
    void *staging; /* [max_quantized_bytes]; NULL if the backend uses quantized weights in place */
};

static bool make_weight(struct tensor *out, void *memory, const struct tensor *w, struct pool *pool,
                        int layer, ey_err *e)
{
    const struct weight_recipe *recipe = w->recipe;
    if (recipe->stored) {
        if (!repack_weight(out, memory, w, pool, e)) return false;
        file_map_release_pages(recipe->stored->codes->data, recipe->stored->codes->size);
        return true;
    }
    if (!quantize_weight(out, memory, w, pool))
        return ey_fail(e, EY_BAD_MODEL, "layer %d: a weight is not finite and cannot be quantized",
                       layer);
    file_map_release_pages(recipe->source.data, weight_data_bytes(&recipe->source));
    return true;
}

static bool make_and_place(const struct on_load_quantizer *m, struct placed **out,
                           const struct tensor *w, enum weight_role role, int layer, ey_err *e)
{
    struct tensor made;
    void *memory = m->staging ? m->staging : arena_alloc(&m->model->arena, quantized_bytes(w));
    if (!memory) return ey_fail_memory(e, "quantized weights", quantized_bytes(w));
    if (!m->staging) hugepages_advise(memory, quantized_bytes(w));
    if (!make_weight(&made, memory, w, m->pool, layer, e)) return false;
    made.recipe = w->recipe;
    return m->be->ops->memory->place(m->be, out, &made, role, PLACE_RESIDENT, e);
}

static bool place_layer_weights(const struct on_load_quantizer *m, struct placed **out,
                                const struct tensor *w, size_t n, enum weight_role role, int layer,
                                ey_err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (!w[i].data) continue;
        if (!(w[i].recipe ? make_and_place(m, &out[i], &w[i], role, layer, e)
                          : place_weights(m->be, &out[i], &w[i], 1, role, PLACE_RESIDENT, e)))
            return false;
    }
    return true;
}

/* Places each tensor of a layer's `in` and stores the result in `out`. */
#define PLACE_LAYER(m, out, in, role, layer, e) \
    place_layer_weights(m, (struct placed **)&(out), TENSORS_OF(in), role, layer, e)

static bool place_attention(const struct on_load_quantizer *m, struct attention *out,
                            struct attention_tensors *in, int layer, ey_err *e)
{
    return PLACE_LAYER(m, out->input_norm, in->input_norm, ROLE_TEXT, layer, e) &&
           PLACE_LAYER(m, out->q, in->q, ROLE_ATTENTION, layer, e) &&
           PLACE_LAYER(m, out->k, in->k, ROLE_ATTENTION, layer, e) &&
           PLACE_LAYER(m, out->v, in->v, ROLE_ATTENTION, layer, e) &&
           PLACE_LAYER(m, out->q_bias, in->q_bias, ROLE_TEXT, layer, e) &&
           PLACE_LAYER(m, out->k_bias, in->k_bias, ROLE_TEXT, layer, e) &&
           PLACE_LAYER(m, out->v_bias, in->v_bias, ROLE_TEXT, layer, e) &&
           PLACE_LAYER(m, out->q_norm, in->q_norm, ROLE_TEXT, layer, e) &&
           PLACE_LAYER(m, out->k_norm, in->k_norm, ROLE_TEXT, layer, e) &&
           PLACE_LAYER(m, out->o, in->o, ROLE_TEXT, layer, e);
}

static bool place_text_layer(const struct on_load_quantizer *m, int layer, ey_err *e)
{
    struct text_layer_tensors *in = &m->model->layers[layer];
    struct text_layer *out = &m->model->placed.layers[layer];
    out->kind = in->kind;
    return place_attention(m, &out->attention, &in->attention, layer, e) &&
           PLACE_LAYER(m, out->mlp, in->mlp, ROLE_TEXT, layer, e);
}

static bool open_quantizer(struct on_load_quantizer *m, struct model *model, struct backend *be,
                           struct pool *pool, ey_err *e)
{
    *m = (struct on_load_quantizer){model, be, pool, NULL};
    if (!be->ops->device || !model->max_quantized_bytes) return true;
    m->staging = aligned_alloc(64, model->max_quantized_bytes);
    return m->staging ||
           ey_fail_memory(e, "the buffer of quantized weights", model->max_quantized_bytes);
}

static bool place_text_layers(struct model *model, struct backend *be, struct pool *pool, int begin,
                              int end, ey_err *e)
{
    struct on_load_quantizer m;
    bool ok = open_quantizer(&m, model, be, pool, e);
    for (int i = begin; ok && i < end; i++)
        ok = place_text_layer(&m, i, e);
    free(m.staging);
    return ok;
}

static bool place_head(struct model *model, struct backend *be, struct pool *pool,
                       enum placement placement, ey_err *e)
{
    struct on_load_quantizer m;
    if (!model->head.recipe)
        return PLACE_WEIGHTS(be, model->placed.head, model->head, ROLE_HEAD, placement, e);
    const bool ok = open_quantizer(&m, model, be, pool, e) &&
                    make_and_place(&m, &model->placed.head, &model->head, ROLE_HEAD,
                                   model->text.n_layers, e);
    free(m.staging);
    return ok;
}

bool model_place(struct model *model, struct backend *be, struct backend *vision_be,
                 struct backend *cpu, const struct placements *where, struct pool *pool, ey_err *e)
{
    struct placed_model *out = &model->placed;
    const bool embeds_on_cpu = where->range[0].on_cpu;
    /* device memory holds a tied matrix only once */
    const bool tied = be->ops->device && model->head.data == model->embed.data &&
                      where->embed == where->lm_head && !embeds_on_cpu;
    out->layers = arena_array(&model->arena, (size_t)model->text.n_layers, sizeof(*out->layers));
    if (!out->layers) return ey_fail_memory(e, "the text model's layers", 0);
    bool ok = PLACE_WEIGHTS(embeds_on_cpu ? cpu : be, out->embed, model->embed, ROLE_EMBED,
                            where->embed, e) &&
              (tied || place_head(model, be, pool, where->lm_head, e)) &&
              PLACE_WEIGHTS(be, out->final_norm, model->final_norm, ROLE_TEXT, PLACE_RESIDENT, e);
    if (tied) out->head = out->embed;
    for (int i = 0; ok && i < where->n_ranges; i++) {
        const struct placed_range *r = &where->range[i];
        ok = place_text_layers(model, r->on_cpu ? cpu : be, pool, r->first, r->end, e);
    }
    return ok && (!model->vision.depth || place_vision_model(model, vision_be, where->vision, e));
}

int model_layers_of_kind(const struct model *model, enum layer_kind kind, int first, int end)
{
    int n = 0;
    for (int i = first; i < end; i++)
        n += model->layers[i].kind == kind;
    return n;
}
