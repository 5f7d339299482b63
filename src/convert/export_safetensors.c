/* SPDX-License-Identifier: Apache-2.0 */
/* Exports to a safetensors directory for transformers, vLLM and the compressed-tensors package. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors_writer.h"
#include "convert/export_plan.h"
#include "convert/output_folder.h"
#include "base/file.h"
#include "convert/small_files.h"

#define SHARD_BYTES ((uint64_t)4 << 30)
enum { MAX_PARTS = 4, MAX_SCHEMES = 16 };

/* A tensor as the file names it. A quantized matrix has several: codes, scales, zero points,
 * shape. */
struct shard_part {
    char name[SOURCE_MAX_NAME + 16];
    enum dtype dtype;
    int64_t shape[EY_MAX_DIMS];
    int n_dims;
    uint64_t offset;
};

struct shard_tensor {
    struct shard_part part[MAX_PARTS];
    int n_parts, shard;
};

/* A config group of config.json: matrices that are quantized in the same way. */
struct scheme {
    enum weight_form form;
    int bits, group;
    bool has_zeros;
};

struct safetensors_export {
    struct export_plan plan;
    struct shard_tensor *tensor; /* [plan.n] */
    int n_shards;
    struct scheme scheme[MAX_SCHEMES];
    int n_schemes;
    struct output_folder out;
};

/* ---- layout of the output ---- */

static void add_shard_part(struct shard_tensor *t, const char *name, const char *suffix,
                           enum dtype dtype, int64_t rows, int64_t cols)
{
    struct shard_part *part = &t->part[t->n_parts++];
    *part = (struct shard_part){.dtype = dtype, .n_dims = cols ? 2 : 1, .shape = {rows, cols}};
    snprintf(part->name, sizeof(part->name), "%s%s", name, suffix);
}

static void add_codes(struct shard_tensor *t, const struct planned_tensor *p)
{
    const int64_t rows = p->stored->shape[0], cols = p->stored->shape[1],
                  groups = cols / p->plan.group;
    const char *name = p->stored->name;
    if (p->plan.form == FORM_MXFP4) {
        add_shard_part(t, name, "_packed", DTYPE_U8, rows, cols / 2);
        add_shard_part(t, name, "_scale", DTYPE_U8, rows, groups);
        return;
    }
    add_shard_part(t, name, "_packed", DTYPE_I32, rows, cols * p->plan.bits / 32);
    add_shard_part(t, name, "_scale", p->plan.dtype, rows, groups);
    if (p->plan.has_zeros)
        add_shard_part(t, name, "_zero_point", DTYPE_I32, (rows * p->plan.bits + 31) / 32, groups);
    add_shard_part(t, name, "_shape", DTYPE_I64, 2, 0);
}

static void describe_parts(struct shard_tensor *t, const struct planned_tensor *p)
{
    if (p->plan.form == FORM_CODES || p->plan.form == FORM_MXFP4) {
        add_codes(t, p);
        return;
    }
    add_shard_part(t, p->stored->name, "", p->plan.dtype, 0, 0);
    t->part[0].n_dims = p->stored->n_dims;
    memcpy(t->part[0].shape, p->stored->shape, sizeof(t->part[0].shape));
}

static bool same_scheme(const struct scheme *s, const struct weight_plan *p)
{
    return s->form == p->form && s->bits == p->bits && s->group == p->group &&
           s->has_zeros == p->has_zeros;
}

/* Finds or adds the scheme of a matrix. Returns -1 if it is plain or there are too many schemes. */
static int scheme_of(struct safetensors_export *x, const struct weight_plan *p)
{
    if (p->form != FORM_CODES && p->form != FORM_MXFP4) return -1;
    for (int i = 0; i < x->n_schemes; i++)
        if (same_scheme(&x->scheme[i], p)) return i;
    if (x->n_schemes == MAX_SCHEMES) return -1;
    x->scheme[x->n_schemes] = (struct scheme){p->form, p->bits, p->group, p->has_zeros};
    return x->n_schemes++;
}

static bool plan_files(struct safetensors_export *x, ey_err *e)
{
    uint64_t used = 0;
    x->tensor = calloc(x->plan.n + 1, sizeof(*x->tensor));
    if (!x->tensor) return ey_fail_memory(e, "the list of tensors", x->plan.n * sizeof(*x->tensor));
    for (size_t i = 0; i < x->plan.n; i++) {
        const struct planned_tensor *p = &x->plan.tensor[i];
        const uint64_t size = p->size[0] + p->size[1] + p->size[2];
        if (used && used + size > SHARD_BYTES) {
            x->n_shards++;
            used = 0;
        }
        used += size;
        describe_parts(&x->tensor[i], p);
        x->tensor[i].shard = x->n_shards;
        if (p->plan.form >= FORM_CODES && p->plan.form <= FORM_MXFP4 && scheme_of(x, &p->plan) < 0)
            return ey_fail(e, EY_BAD_MODEL,
                           "the model's matrices are quantized in more than %d ways", MAX_SCHEMES);
    }
    x->n_shards++;
    return true;
}

/* ---- tensors ---- */

static bool fail_write(struct safetensors_export *x, ey_err *e)
{
    return output_fail(&x->out, x->out.name[x->out.n - 1], e);
}

static bool write_shard_tensor(struct safetensors_export *x, const struct safetensors_writer *file,
                               size_t i, ey_err *e)
{
    const struct shard_tensor *t = &x->tensor[i];
    const int64_t *shape = x->plan.tensor[i].stored->shape;
    struct formed_weight f;
    bool ok = export_plan_form(&f, &x->plan, i, e);
    for (int k = 0, part = 0; ok && k < t->n_parts; k++) {
        if (t->part[k].dtype == DTYPE_I64) { /* weight_shape */
            ok = safetensors_write_data(file, shape, 2 * sizeof(*shape), t->part[k].offset);
        } else {
            while (part < FORM_PARTS - 1 && !f.size[part]) /* skip an absent part */
                part++;
            ok = safetensors_write_data(file, f.part[part], f.size[part], t->part[k].offset);
            part++;
        }
        if (!ok) fail_write(x, e);
    }
    formed_weight_free(&f);
    export_progress(&x->plan, i + 1);
    return ok;
}

static bool write_exported_shard(struct safetensors_export *x, int shard, int fd, ey_err *e)
{
    struct safetensors_writer file;
    safetensors_writer_begin(&file, fd);
    for (size_t i = 0; i < x->plan.n; i++)
        for (int k = 0; x->tensor[i].shard == shard && k < x->tensor[i].n_parts; k++) {
            struct shard_part *part = &x->tensor[i].part[k];
            part->offset = safetensors_writer_add(&file, part->name, part->dtype, part->shape,
                                                  part->n_dims);
        }
    if (!safetensors_write_header(&file)) return fail_write(x, e);
    for (size_t i = 0; i < x->plan.n; i++)
        if (x->tensor[i].shard == shard && !write_shard_tensor(x, &file, i, e)) return false;
    return true;
}

static bool write_exported_index(struct safetensors_export *x, ey_err *e)
{
    struct buf b = buf_with_max(EY_MAX_JSON_BYTES);
    if (x->n_shards == 1) return true;
    struct json_writer index = shard_index_open(&b, x->plan.bytes);
    for (size_t i = 0; i < x->plan.n; i++)
        for (int k = 0; k < x->tensor[i].n_parts; k++)
            shard_index_add(&index, x->tensor[i].part[k].name, x->tensor[i].shard, x->n_shards);
    shard_index_close(&index);
    bool ok = b.failed
                  ? ey_fail_memory(e, "the index", 0)
                  : output_file_write(&x->out, "model.safetensors.index.json", b.data, b.size, e);
    buf_free(&b);
    return ok;
}

static bool write_exported_shards(struct safetensors_export *x, ey_err *e)
{
    for (int i = 0; i < x->n_shards; i++) {
        char name[SHARD_NAME_BYTES];
        shard_file_name(name, i, x->n_shards);
        const int fd = output_file_create(&x->out, name, e);
        if (fd < 0) return false;
        ey_err why = {0};
        const bool ok = write_exported_shard(x, i, fd, &why);
        if (!output_file_finish(&x->out, fd, ok, e)) {
            return ok ? false : ey_fail_as(e, &why);
        }
    }
    return write_exported_index(x, e);
}

/* ---- config.json ---- */

static json_object *text_list(const char *one)
{
    json_object *list = json_object_new_array();
    if (one) json_object_array_add(list, json_object_new_string(one));
    return list;
}

static void add_module(json_object *list, const char *name)
{
    json_object_array_add(
        list, json_object_new_string_len(name, (int)(strlen(name) - strlen(".weight"))));
}

static json_object *weight_arguments(const struct scheme *s)
{
    json_object *w = json_object_new_object();
    const bool is_float = s->form == FORM_MXFP4;
    json_object_object_add(w, "num_bits", json_object_new_int(s->bits));
    json_object_object_add(w, "type", json_object_new_string(is_float ? "float" : "int"));
    json_object_object_add(w, "symmetric", json_object_new_boolean(!s->has_zeros));
    json_object_object_add(w, "strategy", json_object_new_string("group"));
    json_object_object_add(w, "group_size", json_object_new_int(s->group));
    json_object_object_add(w, "dynamic", json_object_new_boolean(false));
    if (is_float) json_object_object_add(w, "scale_dtype", json_object_new_string("torch.uint8"));
    return w;
}

static const char *format_of(const struct scheme *s)
{
    return s->form == FORM_MXFP4 ? "mxfp4-pack-quantized" : "pack-quantized";
}

/* Lists the targets of a scheme: "Linear" if it is the only one, else its layers. */
static json_object *targets_of(const struct safetensors_export *x, int scheme)
{
    if (x->n_schemes == 1) return text_list("Linear");
    json_object *list = json_object_new_array();
    for (size_t i = 0; i < x->plan.n; i++)
        if (same_scheme(&x->scheme[scheme], &x->plan.tensor[i].plan))
            add_module(list, x->plan.tensor[i].stored->name);
    return list;
}

/* Lists the linear layers that are not quantized. */
static json_object *plain_modules(const struct safetensors_export *x)
{
    json_object *list = text_list("lm_head");
    for (size_t i = 0; i < x->plan.n; i++) {
        const struct planned_tensor *t = &x->plan.tensor[i];
        const char *name = t->stored->name;
        const size_t n = strlen(name);
        if (t->stored->n_dims != 2 || t->plan.form == FORM_CODES || t->plan.form == FORM_MXFP4 ||
            strstr(name, "embed") || strstr(name, "lm_head") || n < 7 ||
            strcmp(name + n - 7, ".weight") != 0)
            continue;
        add_module(list, name);
    }
    return list;
}

static json_object *quantization_config(const struct safetensors_export *x)
{
    json_object *q = json_object_new_object(), *groups = json_object_new_object();
    const char *format = format_of(&x->scheme[0]);
    for (int i = 0; i < x->n_schemes; i++) {
        char name[32];
        json_object *group = json_object_new_object();
        snprintf(name, sizeof(name), "group_%d", i);
        json_object_object_add(group, "targets", targets_of(x, i));
        json_object_object_add(group, "weights", weight_arguments(&x->scheme[i]));
        json_object_object_add(group, "input_activations", NULL);
        json_object_object_add(group, "output_activations", NULL);
        json_object_object_add(group, "format", json_object_new_string(format_of(&x->scheme[i])));
        json_object_object_add(groups, name, group);
        if (strcmp(format, format_of(&x->scheme[i])) != 0) format = "mixed-precision";
    }
    json_object_object_add(q, "quant_method", json_object_new_string("compressed-tensors"));
    json_object_object_add(q, "format", json_object_new_string(format));
    json_object_object_add(q, "quantization_status", json_object_new_string("compressed"));
    json_object_object_add(q, "config_groups", groups);
    json_object_object_add(q, "ignore", plain_modules(x));
    json_object_object_add(q, "kv_cache_scheme", NULL);
    return q;
}

static const char *torch_type(enum dtype type)
{
    return type == DTYPE_BF16 ? "bfloat16" : type == DTYPE_F16 ? "float16" : "float32";
}

static bool write_json(struct safetensors_export *x, const char *name, const json_object *value,
                       ey_err *e)
{
    const char *text = json_object_to_json_string_ext(
        (json_object *)(uintptr_t)value,
        JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
    return text ? output_file_write(&x->out, name, text, strlen(text), e)
                : ey_fail_memory(e, name, 0);
}

static bool write_exported_config(struct safetensors_export *x, ey_err *e)
{
    json_object *config = NULL;
    const json_object *old = checkpoint_config(x->plan.source->ckpt);
    if (json_object_deep_copy((json_object *)(uintptr_t)old, &config, NULL) != 0)
        return ey_fail_memory(e, "config.json", 0);
    json_object_object_del(config, "quantization_config");
    if (!json_member(config, "torch_dtype") && !json_member(config, "dtype"))
        json_object_object_add(config, "torch_dtype",
                               json_object_new_string(torch_type(x->plan.main_type)));
    if (x->n_schemes) json_object_object_add(config, "quantization_config", quantization_config(x));
    const bool ok = write_json(x, "config.json", config, e);
    json_object_put(config);
    return ok;
}

/* ---- the other files ---- */

/* Returns the text of the added token with this id, or NULL if there is none. */
static const char *added_token(const json_object *tokenizer, int64_t id)
{
    json_object *added = json_member_of_type(tokenizer, "added_tokens", json_type_array);
    for (size_t i = 0; added && i < json_object_array_length(added); i++) {
        json_object *entry = json_object_array_get_idx(added, i), *own = json_member(entry, "id");
        if (own && json_object_get_int64(own) == id)
            return json_object_get_string(json_member(entry, "content"));
    }
    return NULL;
}

/* Writes tokenizer_config.json with the members that transformers needs and GGUF lacks. */
static bool write_tokenizer_config(struct safetensors_export *x, const json_object *tokenizer,
                                   ey_err *e)
{
    struct checkpoint *ckpt = x->plan.source->ckpt;
    const json_object *old, *config = checkpoint_config(ckpt),
                            *text = json_member(config, "text_config");
    json_object *copy = NULL, *ends = json_member(text ? text : config, "eos_token_id");
    if (!checkpoint_json(ckpt, "tokenizer_config.json", &old, e)) return false;
    if (json_object_deep_copy((json_object *)(uintptr_t)old, &copy, NULL) != 0)
        return ey_fail_memory(e, "tokenizer_config.json", 0);
    json_object *first = json_object_is_type(ends, json_type_array)
                             ? json_object_array_get_idx(ends, 0)
                             : ends;
    const char *end = first ? added_token(tokenizer, json_object_get_int64(first)) : NULL;
    json_object_object_add(copy, "tokenizer_class",
                           json_object_new_string("PreTrainedTokenizerFast"));
    if (end) json_object_object_add(copy, "eos_token", json_object_new_string(end));
    const bool ok = write_json(x, "tokenizer_config.json", copy, e);
    json_object_put(copy);
    return ok;
}

/* Copies added tokens into the vocabulary unless their ids directly follow its ids. The tokenizers
 * package ignores the ids of tokens outside the vocabulary and numbers them from its end. */
static bool add_to_vocabulary(json_object *tokenizer, ey_err *e)
{
    json_object *vocab = json_member(json_member(tokenizer, "model"), "vocab"),
                *added = json_member(tokenizer, "added_tokens");
    const int64_t n = json_object_object_length(vocab);
    bool follow = true, ok = true;
    for (size_t i = 0; i < json_object_array_length(added); i++)
        follow = follow && json_object_get_int64(json_member(json_object_array_get_idx(added, i),
                                                             "id")) == n + (int64_t)i;
    for (size_t i = 0; !follow && ok && i < json_object_array_length(added); i++) {
        json_object *entry = json_object_array_get_idx(added, i),
                    *id = json_object_get(json_member(entry, "id"));
        ok = json_object_object_add(vocab, json_object_get_string(json_member(entry, "content")),
                                    id) == 0;
        if (!ok) json_object_put(id);
    }
    return ok || ey_fail_memory(e, "tokenizer.json", 0);
}

/* Writes the JSON files of a GGUF source from its metadata. */
static bool write_gguf_files(struct safetensors_export *x, ey_err *e)
{
    static const char *const names[] = {"generation_config.json", "preprocessor_config.json"};
    struct checkpoint *ckpt = x->plan.source->ckpt;
    json_object *tokenizer = checkpoint_tokenizer(ckpt, e);
    if (!tokenizer) return false;
    json_object_object_add(tokenizer, "version", json_object_new_string("1.0"));
    bool ok = add_to_vocabulary(tokenizer, e) && write_json(x, "tokenizer.json", tokenizer, e) &&
              write_tokenizer_config(x, tokenizer, e);
    json_object_put(tokenizer);
    for (size_t i = 0; ok && i < sizeof(names) / sizeof(names[0]); i++) {
        const json_object *value;
        ok = checkpoint_json(ckpt, names[i], &value, e) &&
             (!value || write_json(x, names[i], value, e));
    }
    return ok;
}

static bool write_small_file(void *user, const char *name, const char *bytes, size_t n, ey_err *e)
{
    struct safetensors_export *x = user;
    return output_file_write(&x->out, name, bytes, n, e);
}

/* ---- export ---- */

/* Returns whether the matrices have the layout of AutoAWQ or GPTQ. */
static bool has_foreign_codes(const struct checkpoint *ckpt)
{
    for (size_t i = 0; i < checkpoint_count(ckpt); i++)
        if (name_ends_with(checkpoint_at(ckpt, i)->name, ".qweight")) return true;
    return false;
}

static bool check_source(const struct convert_source *source, ey_err *e)
{
    return checkpoint_is_gguf(source->ckpt) || has_foreign_codes(source->ckpt) ||
           ey_fail(e, EY_BAD_REQUEST,
                   "%.400s is already safetensors in a layout that transformers and vLLM read; "
                   "to convert it to GGUF, give an output that ends with .gguf",
                   checkpoint_directory(source->ckpt));
}

bool convert_to_safetensors(const struct convert_source *source, const char *out,
                            ey_convert_report *report, ey_err *e)
{
    struct safetensors_export x = {.n_shards = 0};
    bool ok =
        check_source(source, e) &&
        export_plan_make(&x.plan, source, EXPORT_SAFETENSORS, report, e) && plan_files(&x, e) &&
        output_folder_open(&x.out, out, x.plan.bytes, e) && write_exported_shards(&x, e) &&
        (checkpoint_is_gguf(source->ckpt)
             ? write_gguf_files(&x, e)
             : small_files_each(checkpoint_directory(source->ckpt), write_small_file, &x, e)) &&
        write_exported_config(&x, e) && output_folder_commit(&x.out, out, e);
    output_folder_close(&x.out);
    export_plan_free(&x.plan);
    free(x.tensor);
    return ok;
}
