/* SPDX-License-Identifier: Apache-2.0 */
/* Reads numbers of config.json and generation_config.json, and checks them once for all
 * families. */
#include "models/text_config.h"

#include <stdio.h>
#include <string.h>

bool config_open(struct config *s, const json_object *parent, const char *key, const char *path,
                 ey_err *e)
{
    s->object = key ? json_member_of_type(parent, key, json_type_object) : parent;
    snprintf(s->what, sizeof(s->what), "%.4095s%s%.60s", path, key ? ": " : "", key ? key : "");
    return s->object || ey_fail(e, EY_BAD_MODEL, "%s: %s is missing or not an object", path, key);
}

const char *config_shown(json_object *value)
{
    return value ? json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN) : "absent";
}

bool config_int(const struct config *s, const char *key, int lo, int hi, int *out, ey_err *e)
{
    int64_t value;
    if (!json_int(s->object, key, lo, hi, &value, s->what, e)) return false;
    *out = (int)value;
    return true;
}

bool config_require(const struct config *s, const char *key, const char *wanted, ey_err *e)
{
    json_object *value = json_member(s->object, key);
    if (!value || (json_object_is_type(value, json_type_string) &&
                   strcmp(json_object_get_string(value), wanted) == 0))
        return true;
    return ey_fail(e, EY_BAD_MODEL, "%s: %s is %.60s; only %s is supported", s->what, key,
                   config_shown(value), wanted);
}

bool config_refuse(const struct config *s, const char *key, ey_err *e)
{
    bool value = false;
    if (!json_optional_bool(s->object, key, &value, s->what, e)) return false;
    return !value ||
           ey_fail(e, EY_BAD_MODEL, "%s: %s is true, which is not supported", s->what, key);
}

bool config_ints(int *out, int *n, int max, const struct config *s, const char *key, int lo, int hi,
                 ey_err *e)
{
    json_object *list = json_member_of_type(s->object, key, json_type_array);
    if (!list) return ey_fail(e, EY_BAD_MODEL, "%s: %s is missing or not a list", s->what, key);
    size_t length = json_object_array_length(list);
    if (length > (size_t)max)
        return ey_fail(e, EY_BAD_MODEL, "%s: %s has %zu entries; at most %d are supported", s->what,
                       key, length, max);
    for (size_t i = 0; i < length; i++) {
        json_object *value = json_object_array_get_idx(list, i);
        int64_t got = json_object_is_type(value, json_type_int) ? json_object_get_int64(value)
                                                                : INT64_MIN;
        if (got < lo || got > hi)
            return ey_fail(e, EY_BAD_MODEL,
                           "%s: entry %zu of %s is %.60s; it must be an integer from %d to %d",
                           s->what, i, key, config_shown(value), lo, hi);
        out[i] = (int)got;
    }
    *n = (int)length;
    return true;
}

static bool check_text_shape(const struct text_shape *t, const char *what, ey_err *e)
{
    if (t->n_heads % t->n_kv_heads)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: num_attention_heads %d is no multiple of num_key_value_heads %d", what,
                       t->n_heads, t->n_kv_heads);
    if (t->head_dim % 2)
        return ey_fail(e, EY_BAD_MODEL, "%s: head_dim %d is odd", what, t->head_dim);
    if ((int64_t)t->n_heads * t->head_dim > EY_MAX_WIDTH)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: num_attention_heads %d times head_dim %d is more than %d", what,
                       t->n_heads, t->head_dim, EY_MAX_WIDTH);
    return true;
}

/* Reads head_dim; the default is hidden_size / num_attention_heads, as in all families but
 * Qwen3. */
static bool config_read_head_dim(struct text_shape *t, const struct config *s, ey_err *e)
{
    if (json_member(s->object, "head_dim"))
        return config_int(s, "head_dim", 2, EY_MAX_HEAD_DIM, &t->head_dim, e);
    t->head_dim = t->hidden / t->n_heads;
    return (t->hidden % t->n_heads == 0 && t->head_dim >= 2 && t->head_dim <= EY_MAX_HEAD_DIM) ||
           ey_fail(e, EY_BAD_MODEL,
                   "%s: hidden_size %d and num_attention_heads %d give no head size from 2 to %d",
                   s->what, t->hidden, t->n_heads, EY_MAX_HEAD_DIM);
}

bool config_text(struct text_shape *t, const struct config *s, ey_err *e)
{
    double eps = 0;
    bool ok = config_int(s, "hidden_size", 1, EY_MAX_WIDTH, &t->hidden, e) &&
              config_int(s, "num_hidden_layers", 1, EY_MAX_LAYERS, &t->n_layers, e) &&
              config_int(s, "num_attention_heads", 1, EY_MAX_WIDTH, &t->n_heads, e) &&
              config_int(s, "num_key_value_heads", 1, EY_MAX_WIDTH, &t->n_kv_heads, e) &&
              config_read_head_dim(t, s, e) &&
              config_int(s, "intermediate_size", 1, EY_MAX_WIDTH, &t->mlp, e) &&
              config_int(s, "vocab_size", 1, EY_MAX_VOCAB_SIZE, &t->vocab_size, e) &&
              config_int(s, "max_position_embeddings", 1, 1 << 24, &t->max_position, e) &&
              json_number(s->object, "rms_norm_eps", 0, 1, &eps, s->what, e) &&
              config_refuse(s, "attention_bias", e) && config_require(s, "hidden_act", "silu", e);
    t->norm_eps = (float)eps;
    return ok && check_text_shape(t, s->what, e);
}

/* Whether the member is an object; JSON null counts as absent. */
static bool has_object(const struct config *s, const char *key)
{
    return json_member_of_type(s->object, key, json_type_object) != NULL;
}

bool config_open_rope(struct config *rope, const struct config *s, ey_err *e)
{
    const bool newer = !json_member(s->object, "rope_scaling") && has_object(s, "rope_parameters");
    return config_open(rope, s->object, newer ? "rope_parameters" : "rope_scaling", s->what, e) &&
           config_require(rope, "rope_type", "default", e);
}

bool config_rope_theta(double *theta, const struct config *rope, const struct config *s,
                       double missing, ey_err *e)
{
    const struct config *from = json_member(rope->object, "rope_theta") ? rope : s;
    if (missing > 0 && !json_member(from->object, "rope_theta")) return *theta = missing, true;
    return json_number(from->object, "rope_theta", 1, 1e12, theta, from->what, e);
}

/* Without scaling, rope_scaling is null or absent; transformers 5 writes rope_parameters
 * instead. */
bool config_1d_rope(struct text_shape *t, const struct config *s, double missing_theta, ey_err *e)
{
    struct config rope = *s;
    double turned = 1;
    if (json_member(s->object, "rope_scaling") || json_member(s->object, "rope_parameters")) {
        if (!config_open_rope(&rope, s, e) || !config_require(&rope, "type", "default", e))
            return false;
    }
    return json_optional_number(rope.object, "partial_rotary_factor", 1, 1, &turned, rope.what,
                                e) &&
           json_optional_number(s->object, "partial_rotary_factor", 1, 1, &turned, s->what, e) &&
           config_rope_theta(&t->rope_theta, &rope, s, missing_theta, e);
}

/* Reads tie_word_embeddings; the default is false. */
bool config_tied(bool *tied, const json_object *config, const struct config *text, const char *path,
                 ey_err *e)
{
    *tied = false;
    return json_optional_bool(text->object, "tie_word_embeddings", tied, text->what, e) &&
           json_optional_bool(config, "tie_word_embeddings", tied, path, e);
}

static bool add_eos(struct model *m, json_object *value, const char *what, ey_err *e)
{
    int64_t id = json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : -1;
    if (id < 0 || id >= m->text.vocab_size)
        return ey_fail(e, EY_BAD_MODEL, "%s: eos_token_id %.60s is not an id below vocab_size %d",
                       what, config_shown(value), m->text.vocab_size);
    if (m->n_eos == EY_MAX_EOS - 1)
        return ey_fail(e, EY_BAD_MODEL, "%s: eos_token_id has more than %d values", what,
                       EY_MAX_EOS - 1);
    m->eos[m->n_eos++] = (int)id;
    return true;
}

/* Finds eos_token_id: in generation_config.json, else at the top of config.json, else in
 * text_config. transformers writes the first file from the other two places. Returns NULL if there
 * is none. */
static json_object *find_eos(const json_object *generation, const json_object *config,
                             const struct config *text, const char **what)
{
    const struct {
        const json_object *object;
        const char *what;
    } places[] = {{generation, "generation_config.json"},
                  {config, "config.json"},
                  {text->object, text->what}};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        json_object *value = json_member(places[i].object, "eos_token_id");
        *what = places[i].what;
        if (value) return value;
    }
    return NULL;
}

/* Reads one id or a list of ids. */
bool config_eos(struct model *m, struct checkpoint *ckpt, const struct config *text, ey_err *e)
{
    const json_object *generation;
    const char *what;
    if (!checkpoint_json(ckpt, "generation_config.json", &generation, e)) return false;
    json_object *value = find_eos(generation, checkpoint_config(ckpt), text, &what);
    if (!value) return true; /* model_end_at_turn() adds the end of a turn anyway */
    if (!json_object_is_type(value, json_type_array)) return add_eos(m, value, what, e);
    for (size_t i = 0; i < json_object_array_length(value); i++)
        if (!add_eos(m, json_object_array_get_idx(value, i), what, e)) return false;
    return m->n_eos > 0 || ey_fail(e, EY_BAD_MODEL, "%s: eos_token_id is empty", what);
}
