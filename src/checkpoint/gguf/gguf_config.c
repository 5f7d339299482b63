/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the equivalents of the repository's JSON files from metadata. src/models validates the
 * values like those of real JSON files; this file checks only what GGUF represents differently. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/gguf/gguf_internal.h"

const char *gguf_arch_key(char out[GGUF_KEY_BYTES], const struct gguf_arch *a, const char *name)
{
    snprintf(out, GGUF_KEY_BYTES, "%s.%s", a->name, name);
    return out;
}

/* ---- config.json ---- */

/* Metadata keys of integers, and their names in config.json. */
static const struct {
    const char *gguf, *config;
    bool optional;
} integers[] = {
    {"embedding_length", "hidden_size", false},
    {"block_count", "num_hidden_layers", false},
    {"feed_forward_length", "intermediate_size", false},
    {"attention.head_count", "num_attention_heads", false},
    {"attention.key_length", "head_dim", true},
    {"context_length", "max_position_embeddings", false},
    {"attention.sliding_window", "sliding_window", true},
};

static bool put_integers(struct json_maker *j, const struct gguf_model *m, ey_err *e)
{
    char key[GGUF_KEY_BYTES];
    for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++) {
        int64_t value;
        gguf_arch_key(key, m->arch, integers[i].gguf);
        if (integers[i].optional && !gguf_find(gguf_main(m), key)) continue;
        if (!gguf_int(gguf_main(m), key, 0, INT32_MAX, &value, e)) return false;
        json_make_int(j, integers[i].config, value);
    }
    return true;
}

/* Puts the number of KV heads, which defaults to the number of query heads. */
static bool put_kv_heads(struct json_maker *j, const struct gguf_model *m, ey_err *e)
{
    char key[GGUF_KEY_BYTES], heads_key[GGUF_KEY_BYTES];
    int64_t value;
    gguf_arch_key(heads_key, m->arch, "attention.head_count");
    gguf_arch_key(key, m->arch, "attention.head_count_kv");
    if (!gguf_int(gguf_main(m), gguf_find(gguf_main(m), key) ? key : heads_key, 1, INT32_MAX,
                  &value, e))
        return false;
    json_make_int(j, "num_key_value_heads", value);
    return true;
}

static bool put_reals(struct json_maker *j, const struct gguf_model *m, ey_err *e)
{
    char key[GGUF_KEY_BYTES];
    double eps = -1, theta = 10000;
    if (!gguf_optional_real(
            gguf_main(m), gguf_arch_key(key, m->arch, "attention.layer_norm_rms_epsilon"), &eps, e))
        return false;
    if (eps < 0)
        return ey_fail(e, EY_BAD_MODEL, "%s: the key %s is missing or negative",
                       gguf_path(gguf_main(m)), key);
    if (!gguf_optional_real(gguf_main(m), gguf_arch_key(key, m->arch, "rope.freq_base"), &theta, e))
        return false;
    json_make(j, "rms_norm_eps", json_object_new_double(eps));
    json_make(j, "rope_theta", json_object_new_double(theta));
    return true;
}

/* Fails for mixtures of experts, for value heads of another width than key heads, and for RoPE that
 * covers a part of the head. */
static bool check_unsupported(const struct gguf_model *m, ey_err *e)
{
    char key[GGUF_KEY_BYTES];
    int64_t experts = 0, key_length = 0, value_length = 0, rotated = 0;
    const struct gguf *f = gguf_main(m);
    if (!gguf_optional_int(f, gguf_arch_key(key, m->arch, "expert_count"), 0, INT32_MAX, &experts,
                           e))
        return false;
    if (experts)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: %s is %" PRId64 "; mixtures of experts are not supported", gguf_path(f),
                       key, experts);
    if (!gguf_optional_int(f, gguf_arch_key(key, m->arch, "attention.key_length"), 1, INT32_MAX,
                           &key_length, e))
        return false;
    value_length = key_length;
    if (!gguf_optional_int(f, gguf_arch_key(key, m->arch, "attention.value_length"), 1, INT32_MAX,
                           &value_length, e))
        return false;
    if (key_length && value_length != key_length)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: %s is %" PRId64 "; it must equal attention.key_length, %" PRId64,
                       gguf_path(f), key, value_length, key_length);
    if (!key_length) { /* defaults to width / heads */
        int64_t width, heads;
        if (!gguf_int(f, gguf_arch_key(key, m->arch, "embedding_length"), 1, INT32_MAX, &width,
                      e) ||
            !gguf_int(f, gguf_arch_key(key, m->arch, "attention.head_count"), 1, INT32_MAX, &heads,
                      e))
            return false;
        key_length = width / heads;
    }
    rotated = key_length;
    if (!gguf_optional_int(f, gguf_arch_key(key, m->arch, "rope.dimension_count"), 1, INT32_MAX,
                           &rotated, e))
        return false;
    return rotated == key_length ||
           ey_fail(e, EY_BAD_MODEL,
                   "%s: %s is %" PRId64
                   "; eyelet supports only RoPE that covers the whole head (%" PRId64 ")",
                   gguf_path(f), key, rotated, key_length);
}

/* Returns whether the file scales RoPE by a factor, under the current key or the one of 2023. As in
 * llama.cpp, factors of 0 and 1 mean no scaling. */
static bool has_rope_factor(const struct gguf_model *m)
{
    static const char *const names[] = {"rope.scaling.factor", "rope.scale_linear"};
    char key[GGUF_KEY_BYTES];
    double factor = 0;
    for (int i = 0; i < 2; i++)
        if (!gguf_optional_real(gguf_main(m), gguf_arch_key(key, m->arch, names[i]), &factor, NULL))
            return true;
    return factor != 0 && factor != 1;
}

/* Returns the type of RoPE scaling, or "default" if the file has none. As in llama.cpp, a factor
 * without a type means linear scaling. */
static const char *rope_type(const struct gguf_model *m)
{
    char key[GGUF_KEY_BYTES];
    const char *type = gguf_text(gguf_main(m), gguf_arch_key(key, m->arch, "rope.scaling.type"));
    if (!type) return has_rope_factor(m) ? "linear" : "default";
    return strcmp(type, "none") != 0 ? type : "default";
}

/* Copies the type of RoPE scaling to config.json's key. src/models rejects an unsupported type
 * there. */
static void put_rope_scaling(struct json_maker *j, const struct gguf_model *m)
{
    if (strcmp(rope_type(m), "default") == 0) return;
    struct json_maker rope = json_maker_start();
    json_make(&rope, "rope_type", json_object_new_string(rope_type(m)));
    json_make(j, "rope_scaling", rope.object);
    j->ok = j->ok && rope.ok;
}

enum { MROPE_AXES = 3 };

static bool put_section_numbers(struct json_maker *j, const struct gguf_model *m,
                                const int64_t numbers[MROPE_AXES])
{
    struct json_maker rope = json_maker_start();
    json_object *sections = json_object_new_array();
    json_make(&rope, "rope_type", json_object_new_string(rope_type(m)));
    json_make(&rope, "mrope_interleaved", json_object_new_boolean(true));
    json_make(&rope, "mrope_section", sections);
    for (int i = 0; rope.ok && i < MROPE_AXES; i++)
        rope.ok = json_object_array_add(sections, json_object_new_int64(numbers[i])) == 0;
    json_make(j, "rope_scaling", rope.object);
    j->ok = j->ok && rope.ok;
    return true;
}

/* Puts the numbers of rotary pairs for time, height and width (M-RoPE). Ollama's files omit them,
 * so Qwen3-VL's are the default there. */
static bool put_sections(struct json_maker *j, const struct gguf_model *m, ey_err *e)
{
    char key[GGUF_KEY_BYTES];
    int64_t numbers[MROPE_AXES] = {24, 20, 20};
    const struct gguf_value *v = gguf_find(gguf_main(m),
                                           gguf_arch_key(key, m->arch, "rope.dimension_sections"));
    if (!v && m->one_file) return put_section_numbers(j, m, numbers);
    if (!v || v->type != GGUF_ARRAY || !gguf_is_integer(v->element) || v->n < 3 || v->n > 4 ||
        (v->n == 4 && gguf_array_int(v, 3)))
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: %s must be an array of three integers, or of three and a 0",
                       gguf_path(gguf_main(m)), key);
    for (uint64_t i = 0; i < MROPE_AXES; i++)
        numbers[i] = gguf_array_int(v, i);
    return put_section_numbers(j, m, numbers);
}

/* Finds a token's id by its text. Returns -1 if there is none. */
static int64_t token_id(const struct gguf_model *m, const char *wanted)
{
    struct gguf_strings tokens;
    const char *text;
    size_t n;
    if (!gguf_strings_of(gguf_main(m), "tokenizer.ggml.tokens", &tokens, NULL)) return -1;
    for (int64_t id = 0; gguf_next_string(&tokens, &text, &n); id++)
        if (n == strlen(wanted) && memcmp(text, wanted, n) == 0) return id;
    return -1;
}

enum { MAX_ENDS = 8 };
struct end_ids {
    int64_t id[MAX_ENDS];
    size_t n;
};

static void add_end(struct end_ids *ends, int64_t id, int64_t vocab)
{
    for (size_t i = 0; i < ends->n; i++)
        if (ends->id[i] == id) return;
    if (id >= 0 && id < vocab && ends->n < MAX_ENDS) ends->id[ends->n++] = id;
}

/* Puts the ids of the tokens that end an answer: those in the metadata, and end tokens that only
 * the models' repositories list, which are found by their text. */
static bool put_eos(struct json_maker *j, const struct gguf_model *m, int64_t vocab, ey_err *e)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"},
                             *const texts[] = {"<|im_end|>", "<|endoftext|>", "<|eot_id|>",
                                               "<|end|>", "</s>"};
    struct end_ids ends = {.n = 0};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        int64_t id = -1;
        if (!gguf_optional_int(gguf_main(m), keys[i], 0, vocab - 1, &id, e)) return false;
        add_end(&ends, id, vocab);
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        add_end(&ends, token_id(m, texts[i]), vocab);
    if (!ends.n) return true;
    json_object *list = json_object_new_array();
    json_make(j, "eos_token_id", list);
    for (size_t i = 0; j->ok && i < ends.n; i++)
        j->ok = json_object_array_add(list, json_object_new_int64(ends.id[i])) == 0;
    return true;
}

/* Fills in the text model's config. */
static bool put_text(struct json_maker *j, const struct gguf_model *m, ey_err *e)
{
    const struct tensor_view *embed = gguf_model_find(m, "token_embd.weight");
    if (!embed || embed->n_dims != 2)
        return ey_fail(e, EY_BAD_MODEL, "%s: tensor token_embd.weight is missing or not a matrix",
                       gguf_path(gguf_main(m)));
    json_make_int(j, "vocab_size", embed->shape[0]);
    json_make(j, "hidden_act", json_object_new_string("silu"));
    json_make(j, "tie_word_embeddings",
              json_object_new_boolean(!gguf_model_find(m, "output.weight")));
    return put_integers(j, m, e) && put_kv_heads(j, m, e) && put_reals(j, m, e) &&
           put_eos(j, m, embed->shape[0], e);
}

static void put_names(struct json_maker *j, const struct gguf_arch *a)
{
    json_object *list = json_object_new_array();
    json_make(j, "model_type", json_object_new_string(a->model_type));
    json_make(j, "architectures", list);
    j->ok = j->ok && json_object_array_add(list, json_object_new_string(a->architecture)) == 0;
}

/* Fills in text_config and vision_config for a model with images. */
static bool put_both_models(struct json_maker *j, struct gguf_model *m, ey_err *e)
{
    struct json_maker text = json_maker_start();
    const int64_t pad = token_id(m, "<|image_pad|>");
    const bool ok = put_text(&text, m, e) && put_sections(&text, m, e);
    json_make(j, "text_config", text.object);
    j->ok = j->ok && text.ok;
    if (pad >= 0) json_make_int(j, "image_token_id", pad);
    json_object *vision = ok ? gguf_vision_config(m, e) : NULL;
    if (vision) json_make(j, "vision_config", vision);
    return vision != NULL;
}

static bool make_config(struct gguf_model *m, ey_err *e)
{
    struct json_maker j = json_maker_start();
    bool ok = check_unsupported(m, e);
    put_names(&j, m->arch);
    if (ok && m->vision) {
        ok = put_both_models(&j, m, e);
    } else if (ok) {
        put_rope_scaling(&j, m);
        ok = put_text(&j, m, e);
    }
    if (!ok) return json_object_put(j.object), false;
    m->config = json_made(&j, e);
    return m->config != NULL;
}

/* ---- generation_config.json and others ---- */

/* Makes the equivalent of generation_config.json from the sampling parameters that newer files
 * have. */
static bool make_generation(struct gguf_model *m, ey_err *e)
{
    static const char *const names[][2] = {
        {"general.sampling.temp", "temperature"},
        {"general.sampling.top_p", "top_p"},
        {"general.sampling.min_p", "min_p"},
        {"general.sampling.penalty_repeat", "repetition_penalty"}};
    struct json_maker j = json_maker_start();
    const struct gguf *f = gguf_main(m);
    int64_t top_k = 0;
    bool ok = gguf_optional_int(f, "general.sampling.top_k", INT32_MIN, INT32_MAX, &top_k, e),
         any = false;
    for (size_t i = 0; ok && i < sizeof(names) / sizeof(names[0]); i++) {
        double value = 0;
        ok = gguf_optional_real(f, names[i][0], &value, e);
        if (!ok || !gguf_find(f, names[i][0])) continue;
        json_make(&j, names[i][1], json_object_new_double(value));
        any = any || i == 0;
    }
    if (top_k) json_make_int(&j, "top_k", top_k);
    json_make(&j, "do_sample", json_object_new_boolean(any));
    if (!ok) return json_object_put(j.object), false;
    m->generation = json_made(&j, e);
    return m->generation != NULL;
}

static bool make_tokenizer_config(struct gguf_model *m, ey_err *e)
{
    static const char key[] = "tokenizer.chat_template";
    const char *template = gguf_text(gguf_main(m), key);
    if (!template && gguf_find(gguf_main(m), key))
        return ey_fail(e, EY_BAD_MODEL, "%s: %s must be a UTF-8 string without a NUL",
                       gguf_path(gguf_main(m)), key);
    struct json_maker j = json_maker_start();
    if (template) json_make(&j, "chat_template", json_object_new_string(template));
    m->tokenizer_config = json_made(&j, e);
    return m->tokenizer_config != NULL;
}

bool gguf_make_configs(struct gguf_model *m, ey_err *e)
{
    return make_config(m, e) && make_generation(m, e) && make_tokenizer_config(m, e);
}
