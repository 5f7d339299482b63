/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/gguf_metadata.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/template_file.h"

static void put_gguf_text(struct gguf_writer *w, const char *key, const char *text)
{
    gguf_put_text(w, key, text, strlen(text));
}

static int64_t number_of(const json_object *object, const char *key, int64_t missing)
{
    json_object *value = json_member(object, key);
    return json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : missing;
}

/* ---- the text model ---- */

/* Writes the model's name: that of its directory, or of its repository for a snapshot in the cache.
 */
static void model_name(char out[256], const struct checkpoint *ckpt)
{
    char path[EY_MAX_PATH];
    snprintf(path, sizeof(path), "%s", checkpoint_directory(ckpt));
    char *snapshot = strstr(path, "/snapshots/");
    if (snapshot) *snapshot = 0;
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    const char *repository = strncmp(name, "models--", 8) == 0 ? strstr(name + 8, "--") : NULL;
    snprintf(out, 256, "%.255s", repository ? repository + 2 : name);
}

/* Keys prefixed with the architecture's name. */
struct arch_keys {
    struct gguf_writer *w;
    const char *arch;
};

static const char *arch_key(char out[128], const struct arch_keys *k, const char *name)
{
    snprintf(out, 128, "%s.%s", k->arch, name);
    return out;
}

static void put_arch_u32(const struct arch_keys *k, const char *name, int64_t value)
{
    char key[128];
    gguf_put_u32(k->w, arch_key(key, k, name), (uint32_t)value);
}

static void put_arch_f32(const struct arch_keys *k, const char *name, float value)
{
    char key[128];
    gguf_put_f32(k->w, arch_key(key, k, name), value);
}

static void put_rope_sections(const struct arch_keys *k, const struct text_shape *t)
{
    char key[128];
    gguf_put_array(k->w, arch_key(key, k, "rope.dimension_sections"), GGUF_I32, 4);
    for (int i = 0; i < 3; i++)
        gguf_add_u32(k->w, (uint32_t)t->rope_section[i]);
    gguf_add_u32(k->w, 0);
}

static void put_shape(const struct arch_keys *k, const struct convert_source *source)
{
    const struct text_shape *t = source->text;
    const json_object *config = checkpoint_config(source->ckpt),
                      *text = json_member(config, "text_config");
    put_arch_u32(k, "block_count", t->n_layers);
    put_arch_u32(k, "context_length",
                 number_of(text ? text : config, "max_position_embeddings", t->max_position));
    put_arch_u32(k, "embedding_length", t->hidden);
    put_arch_u32(k, "feed_forward_length", t->mlp);
    put_arch_u32(k, "attention.head_count", t->n_heads);
    put_arch_u32(k, "attention.head_count_kv", t->n_kv_heads);
    put_arch_u32(k, "attention.key_length", t->head_dim);
    put_arch_u32(k, "attention.value_length", t->head_dim);
    put_arch_u32(k, "rope.dimension_count", t->head_dim);
    put_arch_u32(k, "vocab_size", t->vocab_size);
    put_arch_f32(k, "attention.layer_norm_rms_epsilon", t->norm_eps);
    put_arch_f32(k, "rope.freq_base", (float)t->rope_theta);
    if (t->window) put_arch_u32(k, "attention.sliding_window", t->window);
    if (!source->vision->depth) return;
    put_rope_sections(k, t);
    put_arch_u32(k, "n_deepstack_layers", source->vision->n_deepstack);
}

#define TEMPERATURE_KEY "general.sampling.temp"

/* Writes a parameter of sampling, if it is a number. Returns whether it is. */
static bool put_sampling_real(struct gguf_writer *w, const json_object *file, const char *name,
                              const char *key)
{
    json_object *value = json_member(file, name);
    if (!json_object_is_type(value, json_type_double) && !json_object_is_type(value, json_type_int))
        return false;
    gguf_put_f32(w, key, (float)json_object_get_double(value));
    return true;
}

/* Writes generation_config.json's sampling parameters as src/models reads them: the repetition
 * penalty applies even if do_sample is false, and the temperature defaults to 1 if it is true. */
static bool put_sampling(struct gguf_writer *w, struct checkpoint *ckpt, ey_err *e)
{
    const json_object *file;
    if (!checkpoint_json(ckpt, "generation_config.json", &file, e)) return false;
    put_sampling_real(w, file, "repetition_penalty", "general.sampling.penalty_repeat");
    json_object *samples = json_member_of_type(file, "do_sample", json_type_boolean);
    if (!samples || !json_object_get_boolean(samples)) return true;
    if (!put_sampling_real(w, file, "temperature", TEMPERATURE_KEY))
        gguf_put_f32(w, TEMPERATURE_KEY, 1);
    put_sampling_real(w, file, "top_p", "general.sampling.top_p");
    put_sampling_real(w, file, "min_p", "general.sampling.min_p");
    const int64_t top_k = number_of(file, "top_k", 0);
    if (top_k > 0) gguf_put_u32(w, "general.sampling.top_k", (uint32_t)top_k);
    return true;
}

/* Fails if chat_template.jinja cannot be read, because the GGUF file would then get another one. */
static bool put_template(struct gguf_writer *w, struct checkpoint *ckpt, ey_err *e)
{
    struct template_file t = {0};
    if (template_file_find(&t, ckpt)) gguf_put_text(w, "tokenizer.chat_template", t.text, t.n);
    free(t.text);
    return t.error.code == EY_OK || ey_fail(e, t.error.code, "%s", t.error.text);
}

bool gguf_put_model(struct gguf_writer *w, const struct convert_source *source,
                    const struct gguf_arch *arch, uint32_t file_type, ey_err *e)
{
    const struct arch_keys keys = {w, arch->name};
    char name[256];
    model_name(name, source->ckpt);
    put_gguf_text(w, "general.architecture", arch->name);
    put_gguf_text(w, "general.type", "model");
    put_gguf_text(w, "general.name", name);
    gguf_put_u32(w, "general.file_type", file_type);
    gguf_put_u32(w, "general.quantization_version", 2);
    put_shape(&keys, source);
    return put_template(w, source->ckpt, e) && put_sampling(w, source->ckpt, e);
}

/* ---- the vision encoder ---- */

static bool put_gguf_colors(struct gguf_writer *w, const json_object *images, const char *from,
                            const char *key, ey_err *e)
{
    json_object *list = json_member_of_type(images, from, json_type_array);
    if (!list || json_object_array_length(list) != 3)
        return ey_fail(e, EY_BAD_MODEL,
                       "preprocessor_config.json: %s must be an array of three numbers", from);
    gguf_put_array(w, key, GGUF_F32, 3);
    for (size_t i = 0; i < 3; i++)
        gguf_add_f32(w, (float)json_object_get_double(json_object_array_get_idx(list, i)));
    return true;
}

/* Writes a limit on the number of pixels, from the member `name`, or from size.EDGE if that is
 * absent. */
static bool put_gguf_pixels(struct gguf_writer *w, const json_object *images, const char *name,
                            const char *edge, ey_err *e)
{
    char key[64];
    const int64_t in_size = number_of(json_member(images, "size"), edge, 0),
                  pixels = number_of(images, name, in_size);
    if (pixels > UINT32_MAX)
        return ey_fail(e, EY_BAD_REQUEST,
                       "preprocessor_config.json: %s (or size.%s) is %" PRId64
                       "; GGUF can store at most %" PRIu32,
                       name, edge, pixels, UINT32_MAX);
    snprintf(key, sizeof(key), "clip.vision.image_%s", name);
    if (pixels > 0) gguf_put_u32(w, key, (uint32_t)pixels);
    return true;
}

bool gguf_put_vision(struct gguf_writer *w, const struct convert_source *source, ey_err *e)
{
    const struct vision_shape *v = source->vision;
    const json_object *images;
    if (!checkpoint_json(source->ckpt, "preprocessor_config.json", &images, e)) return false;
    put_gguf_text(w, "general.architecture", "clip");
    put_gguf_text(w, "general.type", "mmproj");
    gguf_put_u32(w, "general.quantization_version", 2);
    gguf_put_bool(w, "clip.has_vision_encoder", true);
    put_gguf_text(w, "clip.projector_type", "qwen3vl_merger");
    gguf_put_bool(w, "clip.use_gelu", true);
    gguf_put_u32(w, "clip.vision.image_size", (uint32_t)(v->position_side * v->patch));
    gguf_put_u32(w, "clip.vision.patch_size", (uint32_t)v->patch);
    gguf_put_u32(w, "clip.vision.embedding_length", (uint32_t)v->hidden);
    gguf_put_u32(w, "clip.vision.feed_forward_length", (uint32_t)v->mlp);
    gguf_put_u32(w, "clip.vision.block_count", (uint32_t)v->depth);
    gguf_put_u32(w, "clip.vision.attention.head_count", (uint32_t)v->n_heads);
    gguf_put_u32(w, "clip.vision.projection_dim", (uint32_t)v->out_hidden);
    gguf_put_u32(w, "clip.vision.spatial_merge_size", (uint32_t)v->merge);
    gguf_put_f32(w, "clip.vision.attention.layer_norm_epsilon", v->norm_eps);
    gguf_put_array(w, "clip.vision.is_deepstack_layers", GGUF_BOOL, (size_t)v->depth);
    for (int i = 0, k = 0; i < v->depth; i++) {
        const bool tapped = k < v->n_deepstack && v->deepstack[k] == i;
        gguf_add_bool(w, tapped);
        k += tapped;
    }
    return put_gguf_pixels(w, images, "min_pixels", "shortest_edge", e) &&
           put_gguf_pixels(w, images, "max_pixels", "longest_edge", e) &&
           put_gguf_colors(w, images, "image_mean", "clip.vision.image_mean", e) &&
           put_gguf_colors(w, images, "image_std", "clip.vision.image_std", e);
}
