/* The three JSON files of a Qwen3-VL checkpoint → shapes. Reads the layout of the released files (4.57) and the one
 * that transformers 5 writes. Nothing that the arithmetic depends on has a default: classes changed theirs between
 * releases (spec 1.2). */
#include "models/qwen3vl/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct source {
    const json_object *object;
    char what[EY_MAX_PATH + 128]; /* "DIR/config.json: text_config" */
};

static bool source_init(struct source *s, const json_object *parent, const char *key, const char *path, ey_err *e)
{
    s->object = key ? json_member_of_type(parent, key, json_type_object) : parent;
    snprintf(s->what, sizeof(s->what), "%.4095s%s%.60s", path, key ? ": " : "", key ? key : "");
    return s->object || ey_fail(e, EY_BAD_MODEL, "%s: %s is missing or not an object", path, key);
}

/* A value as the file has it, for errors. */
static const char *shown(json_object *value)
{
    return value ? json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN) : "absent";
}

static bool read_int(const struct source *s, const char *key, int lo, int hi, int *out, ey_err *e)
{
    int64_t value;
    if (!json_int(s->object, key, lo, hi, &value, s->what, e)) return false;
    *out = (int)value;
    return true;
}

/* A key that must have one of the values this program computes; absent is accepted. */
static bool require_text(const struct source *s, const char *key, const char *wanted, ey_err *e)
{
    json_object *value = json_member(s->object, key);
    if (!value || (json_object_is_type(value, json_type_string) && strcmp(json_object_get_string(value), wanted) == 0)) return true;
    return ey_fail(e, EY_BAD_MODEL, "%s: %s is %.60s; only %s is supported", s->what, key, shown(value), wanted);
}

static bool int_list(int *out, int *n, int max, const struct source *s, const char *key, int lo, int hi, ey_err *e)
{
    json_object *list = json_member_of_type(s->object, key, json_type_array);
    if (!list) return ey_fail(e, EY_BAD_MODEL, "%s: %s is missing or not a list", s->what, key);
    size_t length = json_object_array_length(list);
    if (length > (size_t)max) return ey_fail(e, EY_BAD_MODEL, "%s: %s has %zu entries; at most %d are supported", s->what, key, length, max);
    for (size_t i = 0; i < length; i++) {
        json_object *value = json_object_array_get_idx(list, i);
        int64_t got = json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : INT64_MIN;
        if (got < lo || got > hi)
            return ey_fail(e, EY_BAD_MODEL, "%s: entry %zu of %s is %.60s; it must be an integer from %d to %d", s->what, i, key, shown(value), lo, hi);
        out[i] = (int)got;
    }
    *n = (int)length;
    return true;
}

/* H takes frequencies 1, 4, … and W takes 2, 5, …: both must stay inside (spec 3.3). */
static bool check_sections(const struct text_shape *t, const char *what, ey_err *e)
{
    const int *s = t->rope_section;
    int pairs = t->head_dim / 2;
    if (s[0] + s[1] + s[2] == pairs && 3 * s[1] - 2 < pairs && 3 * s[2] - 1 < pairs) return true;
    return ey_fail(e, EY_BAD_MODEL, "%s: mrope_section [%d, %d, %d] does not fit %d rotary frequencies", what, s[0], s[1], s[2], pairs);
}

/* rope_theta beside rope_scaling (4.57), or both inside rope_parameters (5.x). */
static bool read_rope(struct text_shape *t, const struct source *text, ey_err *e)
{
    bool newer = json_member_of_type(text->object, "rope_parameters", json_type_object) != NULL;
    struct source rope;
    if (!source_init(&rope, text->object, newer ? "rope_parameters" : "rope_scaling", text->what, e)) return false;
    const struct source *theta = newer ? &rope : text;
    if (!json_number(theta->object, "rope_theta", 1, 1e12, &t->rope_theta, theta->what, e)) return false;
    if (!require_text(&rope, "rope_type", "default", e) || !require_text(&rope, "type", "default", e)) return false;
    bool interleaved = false;
    if (!json_optional_bool(rope.object, "mrope_interleaved", &interleaved, rope.what, e)) return false;
    if (!interleaved) return ey_fail(e, EY_BAD_MODEL, "%s: mrope_interleaved is not true; Qwen3-VL needs it", rope.what);
    int n;
    if (!int_list(t->rope_section, &n, 3, &rope, "mrope_section", 0, EY_MAX_WIDTH, e)) return false;
    if (n != 3) return ey_fail(e, EY_BAD_MODEL, "%s: mrope_section has %d entries, not 3", rope.what, n);
    return check_sections(t, rope.what, e);
}

static bool check_text(const struct text_shape *t, const char *what, ey_err *e)
{
    if (t->n_heads % t->n_kv_heads)
        return ey_fail(e, EY_BAD_MODEL, "%s: num_attention_heads %d is no multiple of num_key_value_heads %d", what, t->n_heads, t->n_kv_heads);
    if (t->head_dim % 2) return ey_fail(e, EY_BAD_MODEL, "%s: head_dim %d is odd", what, t->head_dim);
    if ((int64_t)t->n_heads * t->head_dim > EY_MAX_WIDTH)
        return ey_fail(e, EY_BAD_MODEL, "%s: num_attention_heads %d times head_dim %d is more than %d", what, t->n_heads, t->head_dim, EY_MAX_WIDTH);
    return true;
}

static bool read_text(struct text_shape *t, const struct source *s, ey_err *e)
{
    double eps = 0;
    bool bias = false;
    bool ok = read_int(s, "hidden_size", 1, EY_MAX_WIDTH, &t->hidden, e) &&
              read_int(s, "num_hidden_layers", 1, EY_MAX_LAYERS, &t->n_layers, e) &&
              read_int(s, "num_attention_heads", 1, EY_MAX_WIDTH, &t->n_heads, e) &&
              read_int(s, "num_key_value_heads", 1, EY_MAX_WIDTH, &t->n_kv_heads, e) &&
              read_int(s, "head_dim", 2, EY_MAX_HEAD_DIM, &t->head_dim, e) &&
              read_int(s, "intermediate_size", 1, EY_MAX_WIDTH, &t->mlp, e) &&
              read_int(s, "vocab_size", 1, EY_MAX_VOCABULARY, &t->vocabulary, e) &&
              read_int(s, "max_position_embeddings", 1, 1 << 24, &t->max_position, e) &&
              json_number(s->object, "rms_norm_eps", 0, 1, &eps, s->what, e) &&
              json_optional_bool(s->object, "attention_bias", &bias, s->what, e) &&
              require_text(s, "hidden_act", "silu", e);
    if (!ok) return false;
    if (bias) return ey_fail(e, EY_BAD_MODEL, "%s: attention_bias is true; Qwen3-VL has no such biases", s->what);
    t->norm_eps = (float)eps;
    return check_text(t, s->what, e) && read_rope(t, s, e);
}

static bool check_vision(struct vision_shape *v, int table, const struct text_shape *t, const char *what, ey_err *e)
{
    v->position_side = (int)lround(sqrt(table));
    v->head_dim = v->hidden / v->n_heads;
    if (v->position_side * v->position_side != table)
        return ey_fail(e, EY_BAD_MODEL, "%s: num_position_embeddings %d is no square", what, table);
    if (v->hidden % v->n_heads || v->head_dim % 4)
        return ey_fail(e, EY_BAD_MODEL, "%s: hidden_size %d and num_heads %d do not make heads of a multiple of 4", what, v->hidden, v->n_heads);
    if (v->head_dim > EY_MAX_HEAD_DIM)
        return ey_fail(e, EY_BAD_MODEL, "%s: hidden_size %d and num_heads %d make heads of %d; at most %d are supported", what, v->hidden,
                       v->n_heads, v->head_dim, EY_MAX_HEAD_DIM);
    if (v->out_hidden != t->hidden)
        return ey_fail(e, EY_BAD_MODEL, "%s: out_hidden_size %d is not the text model's hidden_size %d", what, v->out_hidden, t->hidden);
    if (v->n_deepstack > t->n_layers)
        return ey_fail(e, EY_BAD_MODEL, "%s: deepstack_visual_indexes has %d entries for a text model of %d layers", what, v->n_deepstack, t->n_layers);
    for (int i = 1; i < v->n_deepstack; i++)
        if (v->deepstack[i] <= v->deepstack[i - 1])
            return ey_fail(e, EY_BAD_MODEL, "%s: deepstack_visual_indexes do not ascend: %d follows %d", what, v->deepstack[i], v->deepstack[i - 1]);
    return true;
}

static bool read_vision(struct vision_shape *v, const struct source *s, const struct text_shape *t, ey_err *e)
{
    int table = 0;
    v->norm_eps = 1e-6f; /* not in the file; the reference's constant (spec 4.5) */
    bool ok = read_int(s, "depth", 1, EY_MAX_LAYERS, &v->depth, e) &&
              read_int(s, "hidden_size", 4, EY_MAX_WIDTH / 4, &v->hidden, e) &&
              read_int(s, "num_heads", 1, EY_MAX_WIDTH / 4, &v->n_heads, e) &&
              read_int(s, "intermediate_size", 1, EY_MAX_WIDTH, &v->mlp, e) &&
              read_int(s, "out_hidden_size", 1, EY_MAX_WIDTH, &v->out_hidden, e) &&
              read_int(s, "in_channels", 3, 3, &v->channels, e) &&
              read_int(s, "patch_size", 2, 32, &v->patch, e) &&
              read_int(s, "temporal_patch_size", 1, 2, &v->temporal, e) &&
              read_int(s, "spatial_merge_size", 1, 4, &v->merge, e) &&
              read_int(s, "num_position_embeddings", 4, EY_MAX_POSITION_TABLE, &table, e) &&
              require_text(s, "hidden_act", "gelu_pytorch_tanh", e) &&
              int_list(v->deepstack, &v->n_deepstack, EY_MAX_DEEPSTACK, s, "deepstack_visual_indexes", 0, v->depth - 1, e);
    return ok && check_vision(v, table, t, s->what, e);
}

/* Four bits in groups, packed by eight: what bind.c looks for; the sizes of groups are those of the tensors. */
static bool check_int4(const struct source *q, ey_err *e)
{
    const json_object *groups = json_member_of_type(q->object, "config_groups", json_type_object);
    if (!require_text(q, "format", "pack-quantized", e)) return false;
    if (!groups) return ey_fail(e, EY_BAD_MODEL, "%s: config_groups is missing or not an object", q->what);
    json_object_object_foreach((json_object *)(uintptr_t)groups, key, group)
    {
        struct source w = {.object = json_member_of_type(group, "weights", json_type_object)};
        int64_t bits = 4;
        snprintf(w.what, sizeof(w.what), "%.4095s: %.60s", q->what, key);
        if (!w.object) return ey_fail(e, EY_BAD_MODEL, "%s: weights is missing or not an object", w.what);
        if (!json_optional_int(w.object, "num_bits", 4, 4, &bits, w.what, e) || !require_text(&w, "type", "int", e) || !require_text(&w, "strategy", "group", e)) return false;
    }
    return true;
}

/* Block FP8 and four bits; which tensors have them is decided tensor by tensor (spec 2.5). */
static bool check_quantization(const json_object *config, const char *path, ey_err *e)
{
    if (!json_member(config, "quantization_config")) return true;
    struct source q;
    if (!source_init(&q, config, "quantization_config", path, e)) return false;
    json_object *method = json_member_of_type(q.object, "quant_method", json_type_string);
    if (method && strcmp(json_object_get_string(method), "compressed-tensors") == 0) return check_int4(&q, e);
    if (!method || strcmp(json_object_get_string(method), "fp8") != 0)
        return ey_fail(e, EY_BAD_MODEL, "%s: quant_method %.40s is not supported; use the BF16 or the official FP8 checkpoint, and --quantize", q.what,
                       method ? json_object_get_string(method) : "(none)");
    if (!require_text(&q, "fmt", "e4m3", e)) return false;
    int block[2] = {0, 0}, n = 0;
    if (!int_list(block, &n, 2, &q, "weight_block_size", 1, 1 << 20, e)) return false;
    if (n == 2 && block[0] == FP8_BLOCK && block[1] == FP8_BLOCK) return true;
    return ey_fail(e, EY_BAD_MODEL, "%s: weight_block_size is %.60s; only [%d, %d] is supported", q.what,
                   shown(json_member(q.object, "weight_block_size")), FP8_BLOCK, FP8_BLOCK);
}

/* Top level wins, else text_config (spec 1.1); absent in both: false. */
static bool read_tied(bool *tied, const json_object *config, const struct source *text, const char *path, ey_err *e)
{
    *tied = false;
    return json_optional_bool(text->object, "tie_word_embeddings", tied, text->what, e) &&
           json_optional_bool(config, "tie_word_embeddings", tied, path, e);
}

static bool add_eos(struct model *m, json_object *value, const char *what, ey_err *e)
{
    int64_t id = json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : -1;
    if (id < 0 || id >= m->text.vocabulary)
        return ey_fail(e, EY_BAD_MODEL, "%s: eos_token_id %.60s is not an id below vocab_size %d", what, shown(value), m->text.vocabulary);
    if (m->n_eos == EY_MAX_EOS) return ey_fail(e, EY_BAD_MODEL, "%s: more than %d eos_token_id", what, EY_MAX_EOS);
    m->eos[m->n_eos++] = (int)id;
    return true;
}

/* One id or a list, from generation_config.json, else text_config. */
static bool read_eos(struct model *m, struct checkpoint *ckpt, const struct source *text, ey_err *e)
{
    const json_object *generation;
    if (!checkpoint_json(ckpt, "generation_config.json", &generation, e)) return false;
    json_object *value = json_member(generation, "eos_token_id");
    const char *what = value ? "generation_config.json" : text->what;
    if (!value) value = json_member(text->object, "eos_token_id");
    if (!value) return ey_fail(e, EY_BAD_MODEL, "%s: no eos_token_id here or in generation_config.json; answers would never end", what);
    if (!json_object_is_type(value, json_type_array)) return add_eos(m, value, what, e);
    for (size_t i = 0; i < json_object_array_length(value); i++)
        if (!add_eos(m, json_object_array_get_idx(value, i), what, e)) return false;
    return m->n_eos > 0 || ey_fail(e, EY_BAD_MODEL, "%s: eos_token_id is empty", what);
}

static bool read_triple(float out[3], const struct source *s, const char *key, double lo, ey_err *e)
{
    json_object *list = json_member_of_type(s->object, key, json_type_array);
    bool ok = list && json_object_array_length(list) == 3;
    for (int i = 0; ok && i < 3; i++) {
        json_object *value = json_object_array_get_idx(list, (size_t)i);
        bool number = json_object_is_type(value, json_type_double) || json_object_is_type(value, json_type_int);
        double v = number ? json_object_get_double(value) : NAN;
        ok = v >= lo && v <= 1e3;
        out[i] = (float)v;
    }
    return ok || ey_fail(e, EY_BAD_MODEL, "%s: %s is %.60s; it must be a list of three numbers from %g to 1000", s->what, key,
                         shown(json_member(s->object, key)), lo);
}

static bool same_as_config(const struct source *s, const char *key, int wanted, ey_err *e)
{
    int value;
    if (!read_int(s, key, 1, 64, &value, e)) return false;
    return value == wanted || ey_fail(e, EY_BAD_MODEL, "%s: %s is %d, config.json says %d", s->what, key, value, wanted);
}

/* Pixel budgets are called longest_edge and shortest_edge (spec 1.6); max_pixels and min_pixels override. */
static bool read_budget(struct patch_spec *p, const struct source *s, ey_err *e)
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
        return ey_fail(e, EY_BAD_MODEL, "%s: size.shortest_edge and size.longest_edge give no budget of pixels (%lld to %lld)", s->what,
                       (long long)lo, (long long)hi);
    p->min_pixels = (uint64_t)lo, p->max_pixels = (uint64_t)hi;
    return true;
}

/* Steps that the reference could be told to leave out or do otherwise; eyelet does them one way (spec 1.6). */
static bool check_steps(const struct source *s, ey_err *e)
{
    static const char *const steps[] = {"do_resize", "do_rescale", "do_normalize", "do_convert_rgb"};
    int64_t resample = 3; /* bicubic */
    double factor = 1.0 / 255;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        bool done = true;
        if (!json_optional_bool(s->object, steps[i], &done, s->what, e)) return false;
        if (!done) return ey_fail(e, EY_BAD_MODEL, "%s: %s is false; only true is supported", s->what, steps[i]);
    }
    return json_optional_int(s->object, "resample", 3, 3, &resample, s->what, e) &&
           json_optional_number(s->object, "rescale_factor", factor - 1e-9, factor + 1e-9, &factor, s->what, e);
}

/* preprocessor_config.json, or the image_processor member of processor_config.json that transformers 5 writes. */
static bool read_preprocessor(struct model *m, struct checkpoint *ckpt, ey_err *e)
{
    struct patch_spec *p = &m->patch_spec;
    struct source s;
    char path[EY_MAX_PATH];
    const char *name = "preprocessor_config.json", *key = NULL;
    const json_object *file;
    if (!checkpoint_json(ckpt, name, &file, e)) return false;
    if (!file) {
        name = "processor_config.json", key = "image_processor";
        if (!checkpoint_json(ckpt, name, &file, e)) return false;
    }
    if (!file)
        return ey_fail(e, EY_BAD_MODEL, "%s: preprocessor_config.json is missing; take it from the model's repository", checkpoint_directory(ckpt));
    if (!path_join(path, checkpoint_directory(ckpt), name, e) || !source_init(&s, file, key, path, e)) return false;
    p->patch = m->vision.patch, p->temporal = m->vision.temporal, p->merge = m->vision.merge;
    return same_as_config(&s, "patch_size", p->patch, e) && same_as_config(&s, "temporal_patch_size", p->temporal, e) &&
           same_as_config(&s, "merge_size", p->merge, e) && read_triple(p->mean, &s, "image_mean", 0, e) &&
           read_triple(p->std, &s, "image_std", 1e-6, e) && check_steps(&s, e) && read_budget(p, &s, e);
}

bool qwen3vl_config_read(struct model *m, bool *tied, struct checkpoint *ckpt, ey_err *e)
{
    const json_object *config = checkpoint_config(ckpt);
    char path[EY_MAX_PATH];
    struct source text, vision;
    m->image_token = -1;
    return path_join(path, checkpoint_directory(ckpt), "config.json", e) &&
           check_quantization(config, path, e) &&
           source_init(&text, config, "text_config", path, e) && read_text(&m->text, &text, e) &&
           source_init(&vision, config, "vision_config", path, e) && read_vision(&m->vision, &vision, &m->text, e) &&
           json_optional_int(config, "image_token_id", 0, m->text.vocabulary - 1, &m->image_token, path, e) &&
           read_tied(tied, config, &text, path, e) && read_eos(m, ckpt, &text, e) && read_preprocessor(m, ckpt, e);
}
