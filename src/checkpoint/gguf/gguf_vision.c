/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the equivalents of config.json's vision_config and of preprocessor_config.json from
 * Qwen3-VL's vision encoder file (mmproj). */
#include <inttypes.h>
#include <string.h>

#include "checkpoint/gguf/gguf_internal.h"

/* Integers under both names. */
static const struct {
    const char *gguf, *config;
} integers[] = {
    {"clip.vision.block_count", "depth"},
    {"clip.vision.embedding_length", "hidden_size"},
    {"clip.vision.attention.head_count", "num_heads"},
    {"clip.vision.feed_forward_length", "intermediate_size"},
    {"clip.vision.projection_dim", "out_hidden_size"},
    {"clip.vision.patch_size", "patch_size"},
};

static bool fail_mmproj(const struct gguf_model *m, const char *why, ey_err *e)
{
    return ey_fail(e, EY_BAD_MODEL, "%s: the vision encoder of another model than %s: %s",
                   gguf_path(m->vision), gguf_path(gguf_main(m)), why);
}

/* Fails unless the encoder's output matches the text model. */
static bool check_belongs(const struct gguf_model *m, ey_err *e)
{
    char key[GGUF_KEY_BYTES];
    int64_t projected, width, taps = 0;
    if (!gguf_text_is(m->vision, "general.architecture", "clip"))
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: no vision encoder (mmproj): its architecture is not "
                       "clip",
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
    if (projected != width) return fail_mmproj(m, "its features have another width", e);
    return taps == m->n_deepstack ||
           fail_mmproj(m, "it taps another number of layers (DeepStack)", e);
}

/* Reads the DeepStack layers: those whose flag is set. */
static bool read_deepstack(struct gguf_model *m, ey_err *e)
{
    const struct gguf_value *v = gguf_find(m->vision, "clip.vision.is_deepstack_layers");
    m->n_deepstack = 0;
    if (!v) return true;
    if (v->type != GGUF_ARRAY || !gguf_is_integer(v->element) || v->n > EY_MAX_LAYERS)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: clip.vision.is_deepstack_layers must be a list of flags",
                       gguf_path(m->vision));
    for (uint64_t i = 0; i < v->n; i++) {
        if (!gguf_array_int(v, i)) continue;
        if (m->n_deepstack == EY_MAX_DEEPSTACK)
            return ey_fail(e, EY_BAD_MODEL,
                           "%s: clip.vision.is_deepstack_layers has more than %d layers",
                           gguf_path(m->vision), EY_MAX_DEEPSTACK);
        m->deepstack[m->n_deepstack++] = (int)i;
    }
    return true;
}

static void put_list(struct json_maker *j, const char *key, const int *values, int n)
{
    json_object *list = json_object_new_array();
    json_make(j, key, list);
    for (int i = 0; j->ok && i < n; i++)
        j->ok = json_object_array_add(list, json_object_new_int64(values[i])) == 0;
}

/* Fills in image size and position count: the position table has one entry per patch. */
static bool put_positions(struct json_maker *j, const struct gguf_model *m, ey_err *e)
{
    int64_t side, patch;
    if (!gguf_int(m->vision, "clip.vision.image_size", 1, 1 << 16, &side, e) ||
        !gguf_int(m->vision, "clip.vision.patch_size", 1, 1 << 10, &patch, e))
        return false;
    json_make_int(j, "num_position_embeddings", (side / patch) * (side / patch));
    return true;
}

json_object *gguf_vision_config(struct gguf_model *m, ey_err *e)
{
    struct json_maker j = json_maker_start();
    int64_t merge = 2, value;
    bool ok = read_deepstack(m, e) && check_belongs(m, e) &&
              gguf_optional_int(m->vision, "clip.vision.spatial_merge_size", 1, 64, &merge, e) &&
              put_positions(&j, m, e);
    for (size_t i = 0; ok && i < sizeof(integers) / sizeof(integers[0]); i++) {
        ok = gguf_int(m->vision, integers[i].gguf, 1, INT32_MAX, &value, e);
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
static bool put_colors(struct json_maker *j, const struct gguf_model *m, const char *gguf_key,
                       const char *key, ey_err *e)
{
    const struct gguf_value *v = gguf_find(m->vision, gguf_key);
    if (!v || v->type != GGUF_ARRAY || !gguf_is_real(v->element) || v->n != 3)
        return ey_fail(e, EY_BAD_MODEL, "%s: %s is missing or not three numbers",
                       gguf_path(m->vision), gguf_key);
    json_object *list = json_object_new_array();
    json_make(j, key, list);
    for (uint64_t i = 0; j->ok && i < 3; i++)
        j->ok = json_object_array_add(list, json_object_new_double(gguf_array_real(v, i))) == 0;
    return true;
}

json_object *gguf_preprocessor(const struct gguf_model *m, ey_err *e)
{
    enum {
        LEAST_PIXELS = 65536,
        MOST_PIXELS = 16777216
    }; /* as in the model's own preprocessor_config.json */
    struct json_maker j = json_maker_start(), size = json_maker_start();
    int64_t lo = LEAST_PIXELS, hi = MOST_PIXELS, patch = 0, merge = 2;
    const bool ok =
        gguf_optional_int(m->vision, "clip.vision.image_min_pixels", 1, INT64_MAX - 1, &lo, e) &&
        gguf_optional_int(m->vision, "clip.vision.image_max_pixels", 1, INT64_MAX - 1, &hi, e) &&
        gguf_int(m->vision, "clip.vision.patch_size", 1, INT32_MAX, &patch, e) &&
        gguf_optional_int(m->vision, "clip.vision.spatial_merge_size", 1, 64, &merge, e) &&
        put_colors(&j, m, "clip.vision.image_mean", "image_mean", e) &&
        put_colors(&j, m, "clip.vision.image_std", "image_std", e);
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
