/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the equivalents of config.json's vision_config and of preprocessor_config.json from the
 * metadata of Qwen3-VL's vision encoder. The encoder has a file of its own (mmproj) or, in Ollama's
 * layout, is in the model's file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/gguf/gguf_internal.h"

/* Metadata keys of integers, and their names in vision_config. */
static const struct {
    const char *gguf, *config;
} integers[] = {
    {"block_count", "depth"},
    {"embedding_length", "hidden_size"},
    {"attention.head_count", "num_heads"},
    {"patch_size", "patch_size"},
};

/* Writes the key "clip.vision.NAME", or "ARCH.vision.NAME" in Ollama's layout, and returns it. */
static const char *vision_key(char out[GGUF_KEY_BYTES], const struct gguf_model *m,
                              const char *name)
{
    snprintf(out, GGUF_KEY_BYTES, "%s.vision.%s", m->one_file ? m->arch->name : "clip", name);
    return out;
}

static bool vision_int(const struct gguf_model *m, const char *name, int64_t hi, int64_t *out,
                       ey_err *e)
{
    char key[GGUF_KEY_BYTES];
    return gguf_int(m->vision, vision_key(key, m, name), 1, hi, out, e);
}

static bool vision_optional_int(const struct gguf_model *m, const char *name, int64_t hi,
                                int64_t *out, ey_err *e)
{
    char key[GGUF_KEY_BYTES];
    return gguf_optional_int(m->vision, vision_key(key, m, name), 1, hi, out, e);
}

static bool fail_mmproj(const struct gguf_model *m, const char *why, ey_err *e)
{
    return ey_fail(e, EY_BAD_MODEL, "%s: the vision encoder does not fit %s: %s",
                   gguf_path(m->vision), gguf_path(gguf_main(m)), why);
}

/* Fails unless the encoder's output matches the text model. */
static bool check_belongs(const struct gguf_model *m, ey_err *e)
{
    char key[GGUF_KEY_BYTES];
    int64_t projected, width, taps = 0;
    if (!gguf_text_is(m->vision, "general.architecture", "clip"))
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: this is not a vision encoder (mmproj): its architecture is not clip",
                       gguf_path(m->vision));
    if (!gguf_text_is(m->vision, "clip.projector_type", "qwen3vl_merger") &&
        !gguf_text_is(m->vision, "clip.vision.projector_type", "qwen3vl_merger"))
        return fail_mmproj(m, "its projector_type is not qwen3vl_merger", e);
    if (!gguf_int(m->vision, "clip.vision.projection_dim", 1, INT32_MAX, &projected, e) ||
        !gguf_int(gguf_main(m), gguf_arch_key(key, m->arch, "embedding_length"), 1, INT32_MAX,
                  &width, e) ||
        !gguf_optional_int(gguf_main(m), gguf_arch_key(key, m->arch, "n_deepstack_layers"), 0,
                           EY_MAX_DEEPSTACK, &taps, e))
        return false;
    if (projected != width)
        return fail_mmproj(m, "its projection_dim is not the text model's embedding_length", e);
    return taps == m->n_deepstack || fail_mmproj(m, "the numbers of DeepStack layers differ", e);
}

static bool fail_deepstack(const struct gguf_model *m, const char *key, ey_err *e)
{
    return ey_fail(e, EY_BAD_MODEL, "%s: %s must name at most %d layers below %d",
                   gguf_path(m->vision), key, EY_MAX_DEEPSTACK, EY_MAX_LAYERS);
}

/* Reads which layers are DeepStack layers. llama.cpp stores a flag for each layer, Ollama a list of
 * layer numbers. */
static bool read_deepstack(struct gguf_model *m, ey_err *e)
{
    char key[GGUF_KEY_BYTES];
    const struct gguf_value *v = gguf_find(
        m->vision,
        vision_key(key, m, m->one_file ? "deepstack_visual_indexes" : "is_deepstack_layers"));
    m->n_deepstack = 0;
    if (!v) return true;
    if (v->type != GGUF_ARRAY || !gguf_is_integer(v->element) || v->n > EY_MAX_LAYERS)
        return fail_deepstack(m, key, e);
    for (uint64_t i = 0; i < v->n; i++) {
        const int64_t value = gguf_array_int(v, i), layer = m->one_file ? value : (int64_t)i;
        if (!m->one_file && !value) continue;
        if (m->n_deepstack == EY_MAX_DEEPSTACK || layer < 0 || layer >= EY_MAX_LAYERS)
            return fail_deepstack(m, key, e);
        m->deepstack[m->n_deepstack++] = (int)layer;
    }
    return true;
}

bool gguf_vision_fits(struct gguf_model *m)
{
    return read_deepstack(m, NULL) && check_belongs(m, NULL);
}

static void put_list(struct json_maker *j, const char *key, const int *values, int n)
{
    json_object *list = json_object_new_array();
    json_make(j, key, list);
    for (int i = 0; j->ok && i < n; i++)
        j->ok = json_object_array_add(list, json_object_new_int64(values[i])) == 0;
}

/* Puts the size of the position table, which has an entry for each patch of a square image. */
static bool put_positions(struct json_maker *j, const struct gguf_model *m, ey_err *e)
{
    int64_t side, patch;
    if (!vision_int(m, "image_size", 1 << 16, &side, e) ||
        !vision_int(m, "patch_size", 1 << 10, &patch, e))
        return false;
    json_make_int(j, "num_position_embeddings", (side / patch) * (side / patch));
    return true;
}

static bool put_mmproj_sizes(struct json_maker *j, const struct gguf_model *m, ey_err *e)
{
    int64_t inner, projected;
    if (!put_positions(j, m, e) || !vision_int(m, "feed_forward_length", INT32_MAX, &inner, e) ||
        !vision_int(m, "projection_dim", INT32_MAX, &projected, e))
        return false;
    json_make_int(j, "intermediate_size", inner);
    json_make_int(j, "out_hidden_size", projected);
    return true;
}

/* Puts the number of rows of a matrix. */
static bool put_rows(struct json_maker *j, const struct gguf_model *m, const char *key,
                     const char *tensor, ey_err *e)
{
    const struct tensor_view *t = gguf_model_find(m, tensor);
    if (!t || t->n_dims != 2)
        return ey_fail(e, EY_BAD_MODEL, "%s: tensor %s is missing or not a matrix",
                       gguf_path(m->vision), tensor);
    json_make_int(j, key, t->shape[0]);
    return true;
}

/* Puts sizes for which Ollama's files have no keys. They follow from the shapes of tensors. */
static bool put_ollama_sizes(struct json_maker *j, const struct gguf_model *m, ey_err *e)
{
    char key[GGUF_KEY_BYTES];
    int64_t width;
    if (!gguf_int(gguf_main(m), gguf_arch_key(key, m->arch, "embedding_length"), 1, INT32_MAX,
                  &width, e))
        return false;
    json_make_int(j, "out_hidden_size", width);
    return put_rows(j, m, "num_position_embeddings", "v.pos_embed.weight", e) &&
           put_rows(j, m, "intermediate_size", "v.blk.0.mlp.linear_fc1.weight", e);
}

json_object *gguf_vision_config(struct gguf_model *m, ey_err *e)
{
    struct json_maker j = json_maker_start();
    int64_t merge = 2, value;
    bool ok = read_deepstack(m, e) && (m->one_file || check_belongs(m, e)) &&
              vision_optional_int(m, "spatial_merge_size", 64, &merge, e) &&
              (m->one_file ? put_ollama_sizes(&j, m, e) : put_mmproj_sizes(&j, m, e));
    for (size_t i = 0; ok && i < sizeof(integers) / sizeof(integers[0]); i++) {
        ok = vision_int(m, integers[i].gguf, INT32_MAX, &value, e);
        if (ok) json_make_int(&j, integers[i].config, value);
    }
    json_make_int(&j, "spatial_merge_size", merge);
    json_make_int(&j, "temporal_patch_size", 2);
    json_make_int(&j, "in_channels", 3);
    json_make(&j, "hidden_act", json_object_new_string("gelu_pytorch_tanh"));
    put_list(&j, "deepstack_visual_indexes", m->deepstack, m->n_deepstack);
    if (!ok) return json_object_put(j.object), NULL;
    return json_made(&j, e);
}

/* ---- preprocessor_config.json ---- */

/* Copies three numbers, one per color channel. */
static bool put_colors(struct json_maker *j, const struct gguf_model *m, const char *key, ey_err *e)
{
    char gguf_key[GGUF_KEY_BYTES];
    const struct gguf_value *v = gguf_find(m->vision, vision_key(gguf_key, m, key));
    if (!v || v->type != GGUF_ARRAY || !gguf_is_real(v->element) || v->n != 3)
        return ey_fail(e, EY_BAD_MODEL, "%s: %s must be an array of three floats",
                       gguf_path(m->vision), gguf_key);
    json_object *list = json_object_new_array();
    json_make(j, key, list);
    for (uint64_t i = 0; j->ok && i < 3; i++)
        j->ok = json_object_array_add(list, json_object_new_double(gguf_array_real(v, i))) == 0;
    return true;
}

json_object *gguf_preprocessor(const struct gguf_model *m, ey_err *e)
{
    /* The defaults are those of the repository's preprocessor_config.json. */
    enum { LEAST_PIXELS = 65536, MOST_PIXELS = 16777216 };
    struct json_maker j = json_maker_start(), size = json_maker_start();
    int64_t lo = LEAST_PIXELS, hi = MOST_PIXELS, patch = 0, merge = 2;
    const char *least = m->one_file ? "shortest_edge" : "image_min_pixels",
               *most = m->one_file ? "longest_edge" : "image_max_pixels";
    const bool ok = vision_optional_int(m, least, INT64_MAX - 1, &lo, e) &&
                    vision_optional_int(m, most, INT64_MAX - 1, &hi, e) &&
                    vision_int(m, "patch_size", INT32_MAX, &patch, e) &&
                    vision_optional_int(m, "spatial_merge_size", 64, &merge, e) &&
                    put_colors(&j, m, "image_mean", e) && put_colors(&j, m, "image_std", e);
    json_make_int(&size, "shortest_edge", lo);
    json_make_int(&size, "longest_edge", hi);
    json_make(&j, "size", size.object);
    j.ok = j.ok && size.ok;
    json_make_int(&j, "patch_size", patch);
    json_make_int(&j, "merge_size", merge);
    json_make_int(&j, "temporal_patch_size", 2);
    if (!ok) return json_object_put(j.object), NULL;
    return json_made(&j, e);
}
