/* SPDX-License-Identifier: Apache-2.0 */
/* Reads shapes from the three JSON files of a Qwen3-VL checkpoint, in the layout of the released
 * files (4.57) and that of transformers 5. Nothing that affects arithmetic has a default, because
 * the classes' defaults changed between releases (spec 1.2). */
#include "models/qwen3vl/qwen3vl_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* H uses frequencies 1, 4, … and W uses 2, 5, …: both must stay in range (spec 3.3). */
static bool check_sections(const struct text_shape *t, const char *what, ey_err *e)
{
    const int *s = t->rope_section;
    int pairs = t->head_dim / 2;
    if (s[0] + s[1] + s[2] == pairs && 3 * s[1] - 2 < pairs && 3 * s[2] - 1 < pairs) return true;
    return ey_fail(e, EY_BAD_MODEL,
                   "%s: mrope_section [%d, %d, %d] does not fit %d rotary frequencies", what, s[0],
                   s[1], s[2], pairs);
}

/* Reads rope_scaling with rope_theta next to it (4.57), or rope_parameters with both inside
 * (5.x). */
static bool read_rope(struct text_shape *t, const struct config *text, ey_err *e)
{
    struct config rope;
    if (!config_open_rope(&rope, text, e) ||
        !config_rope_theta(&t->rope_theta, &rope, text, 0, e) ||
        !config_require(&rope, "type", "default", e))
        return false;
    bool interleaved = false;
    if (!json_optional_bool(rope.object, "mrope_interleaved", &interleaved, rope.what, e))
        return false;
    if (!interleaved)
        return ey_fail(e, EY_BAD_MODEL, "%s: mrope_interleaved is not true; Qwen3-VL needs it",
                       rope.what);
    int n;
    if (!config_ints(t->rope_section, &n, 3, &rope, "mrope_section", 0, EY_MAX_WIDTH, e))
        return false;
    if (n != 3)
        return ey_fail(e, EY_BAD_MODEL, "%s: mrope_section has %d entries, not 3", rope.what, n);
    return check_sections(t, rope.what, e);
}

/* head_dim has no default: hidden_size / num_attention_heads would be wrong for the 4B. */
static bool read_text_config(struct text_shape *t, const struct config *s, ey_err *e)
{
    int head_dim;
    return config_int(s, "head_dim", 2, EY_MAX_HEAD_DIM, &head_dim, e) && config_text(t, s, e) &&
           read_rope(t, s, e);
}

static bool check_vision_shape(struct vision_shape *v, int table, const struct text_shape *t,
                               const char *what, ey_err *e)
{
    v->position_side = (int)lround(sqrt(table));
    v->head_dim = v->hidden / v->n_heads;
    if (v->position_side * v->position_side != table)
        return ey_fail(e, EY_BAD_MODEL, "%s: num_position_embeddings %d is no square", what, table);
    if (v->hidden % v->n_heads || v->head_dim % 4)
        return ey_fail(
            e, EY_BAD_MODEL,
            "%s: hidden_size %d and num_heads %d give no head size that is a multiple of 4", what,
            v->hidden, v->n_heads);
    if (v->head_dim > EY_MAX_HEAD_DIM)
        return ey_fail(
            e, EY_BAD_MODEL,
            "%s: hidden_size %d and num_heads %d give head size %d; at most %d is supported", what,
            v->hidden, v->n_heads, v->head_dim, EY_MAX_HEAD_DIM);
    if (v->out_hidden != t->hidden)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: out_hidden_size %d is not the text model's hidden_size %d", what,
                       v->out_hidden, t->hidden);
    if (v->n_deepstack > t->n_layers)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: deepstack_visual_indexes has %d entries for a text model of %d layers",
                       what, v->n_deepstack, t->n_layers);
    for (int i = 1; i < v->n_deepstack; i++)
        if (v->deepstack[i] <= v->deepstack[i - 1])
            return ey_fail(e, EY_BAD_MODEL,
                           "%s: deepstack_visual_indexes do not ascend: %d follows %d", what,
                           v->deepstack[i], v->deepstack[i - 1]);
    return true;
}

static bool read_vision_config(struct vision_shape *v, const struct config *s,
                               const struct text_shape *t, ey_err *e)
{
    int table = 0;
    v->norm_eps = 1e-6f; /* not in the file; a constant of the reference (spec 4.5) */
    bool ok = config_int(s, "depth", 1, EY_MAX_LAYERS, &v->depth, e) &&
              config_int(s, "hidden_size", 4, EY_MAX_WIDTH / 4, &v->hidden, e) &&
              config_int(s, "num_heads", 1, EY_MAX_WIDTH / 4, &v->n_heads, e) &&
              config_int(s, "intermediate_size", 1, EY_MAX_WIDTH, &v->mlp, e) &&
              config_int(s, "out_hidden_size", 1, EY_MAX_WIDTH, &v->out_hidden, e) &&
              config_int(s, "in_channels", 3, 3, &v->channels, e) &&
              config_int(s, "patch_size", 2, 32, &v->patch, e) &&
              config_int(s, "temporal_patch_size", 1, 2, &v->temporal, e) &&
              config_int(s, "spatial_merge_size", 1, 4, &v->merge, e) &&
              config_int(s, "num_position_embeddings", 4, EY_MAX_POSITION_TABLE, &table, e) &&
              config_require(s, "hidden_act", "gelu_pytorch_tanh", e) &&
              config_ints(v->deepstack, &v->n_deepstack, EY_MAX_DEEPSTACK, s,
                          "deepstack_visual_indexes", 0, v->depth - 1, e);
    return ok && check_vision_shape(v, table, t, s->what, e);
}

static bool read_triple(float out[3], const struct config *s, const char *key, double lo, ey_err *e)
{
    json_object *list = json_member_of_type(s->object, key, json_type_array);
    bool ok = list && json_object_array_length(list) == 3;
    for (int i = 0; ok && i < 3; i++) {
        json_object *value = json_object_array_get_idx(list, (size_t)i);
        bool number = json_object_is_type(value, json_type_double) ||
                      json_object_is_type(value, json_type_int);
        double v = number ? json_object_get_double(value) : NAN;
        ok = v >= lo && v <= 1e3;
        out[i] = (float)v;
    }
    return ok || ey_fail(e, EY_BAD_MODEL,
                         "%s: %s is %.60s; it must be a list of three numbers from %g to 1000",
                         s->what, key, config_shown(json_member(s->object, key)), lo);
}

static bool same_as_config(const struct config *s, const char *key, int wanted, ey_err *e)
{
    int value;
    if (!config_int(s, key, 1, 64, &value, e)) return false;
    return value == wanted || ey_fail(e, EY_BAD_MODEL, "%s: %s is %d, config.json says %d", s->what,
                                      key, value, wanted);
}

/* Reads the pixel budgets longest_edge and shortest_edge (spec 1.6); max_pixels and min_pixels
 * override them. */
static bool read_pixel_budget(struct patch_spec *p, const struct config *s, ey_err *e)
{
    const int64_t most = (int64_t)1 << 40;
    json_object *size = json_member_of_type(s->object, "size", json_type_object);
    int64_t lo = 0, hi = 0;
    bool ok = json_optional_int(size, "shortest_edge", 1, most, &lo, s->what, e) &&
              json_optional_int(size, "longest_edge", 1, most, &hi, s->what, e) &&
              json_optional_int(s->object, "min_pixels", 1, most, &lo, s->what, e) &&
              json_optional_int(s->object, "max_pixels", 1, most, &hi, s->what, e);
    if (!ok) return false;
    if (lo < 1 || hi < lo)
        return ey_fail(
            e, EY_BAD_MODEL,
            "%s: size.shortest_edge and size.longest_edge give no budget of pixels (%lld to %lld)",
            s->what, (long long)lo, (long long)hi);
    p->min_pixels = (uint64_t)lo;
    p->max_pixels = (uint64_t)hi;
    return true;
}

/* Checks that no step is configured differently from what eyelet implements (spec 1.6). */
static bool check_steps(const struct config *s, ey_err *e)
{
    static const char *const steps[] = {"do_resize", "do_rescale", "do_normalize",
                                        "do_convert_rgb"};
    int64_t resample = 3; /* bicubic */
    double factor = 1.0 / 255;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        bool done = true;
        if (!json_optional_bool(s->object, steps[i], &done, s->what, e)) return false;
        if (!done)
            return ey_fail(e, EY_BAD_MODEL, "%s: %s is false; only true is supported", s->what,
                           steps[i]);
    }
    return json_optional_int(s->object, "resample", 3, 3, &resample, s->what, e) &&
           json_optional_number(s->object, "rescale_factor", factor - 1e-9, factor + 1e-9, &factor,
                                s->what, e);
}

/* Opens processor_config.json if it has an image_processor, as transformers does, else
 * preprocessor_config.json. */
static bool open_preprocessor(struct config *s, struct checkpoint *ckpt, ey_err *e)
{
    static const char *const newer = "processor_config.json", *const older =
                                                                  "preprocessor_config.json";
    const char *dir = checkpoint_directory(ckpt);
    const json_object *file;
    char path[EY_MAX_PATH];
    if (!checkpoint_json(ckpt, newer, &file, e)) return false;
    if (json_member_of_type(file, "image_processor", json_type_object))
        return checkpoint_json_path(path, ckpt, newer, e) &&
               config_open(s, file, "image_processor", path, e);
    if (!checkpoint_json(ckpt, older, &file, e)) return false;
    if (file)
        return checkpoint_json_path(path, ckpt, older, e) && config_open(s, file, NULL, path, e);
    return ey_fail(e, EY_BAD_MODEL, "%s: %s is missing; take it from the model's repository", dir,
                   older);
}

static bool read_preprocessor(struct model *m, struct checkpoint *ckpt, ey_err *e)
{
    struct patch_spec *p = &m->patch_spec;
    struct config s;
    if (!open_preprocessor(&s, ckpt, e)) return false;
    p->patch = m->vision.patch;
    p->temporal = m->vision.temporal;
    p->merge = m->vision.merge;
    return same_as_config(&s, "patch_size", p->patch, e) &&
           same_as_config(&s, "temporal_patch_size", p->temporal, e) &&
           same_as_config(&s, "merge_size", p->merge, e) &&
           read_triple(p->mean, &s, "image_mean", 0, e) &&
           read_triple(p->std, &s, "image_std", 1e-6, e) && check_steps(&s, e) &&
           read_pixel_budget(p, &s, e);
}

bool qwen3vl_config_read(struct model *m, bool *tied, struct quantization *quantization,
                         struct checkpoint *ckpt, ey_err *e)
{
    const json_object *config = checkpoint_config(ckpt);
    char path[EY_MAX_PATH];
    struct config text, vision;
    m->image_token_id = -1;
    return checkpoint_json_path(path, ckpt, "config.json", e) &&
           config_read_quantization(quantization, ckpt, path, e) &&
           config_open(&text, config, "text_config", path, e) &&
           read_text_config(&m->text, &text, e) &&
           config_open(&vision, config, "vision_config", path, e) &&
           read_vision_config(&m->vision, &vision, &m->text, e) &&
           json_optional_int(config, "image_token_id", 0, m->text.vocab_size - 1,
                             &m->image_token_id, path, e) &&
           config_tied(tied, config, &text, path, e) && config_eos(m, ckpt, &text, e) &&
           read_preprocessor(m, ckpt, e);
}
