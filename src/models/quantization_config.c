/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what a checkpoint declares about its quantization. An unsupported method is an error that
 * says what to use instead. The layout of each matrix is recognized by its tensors. */
#include "models/quantization_config.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- the places of a declaration ---- */

/* Members of config.json and other files that may declare the quantization, in order of
 * precedence. */
static const struct {
    const char *within; /* an object of config.json; NULL for its top level */
    const char *key;
} config_places[] = {
    {NULL, "quantization_config"},         {"text_config", "quantization_config"},
    {"llm_config", "quantization_config"}, {"language_config", "quantization_config"},
    {NULL, "compression_config"},
};

static const struct {
    const char *file, *key; /* key: the object in the file; NULL for the whole file */
    const char *method;     /* assumed if the file names none */
} file_places[] = {
    {"hf_quant_config.json", "quantization", "modelopt"},
    {"quantize_config.json", NULL, "gptq"},
    {"quant_config.json", NULL, "awq"},
    {"quantization_config.json", NULL, "auto-round"},
};

/* A declaration and the method that its place implies; q.object is NULL if nothing is declared. */
struct statement {
    struct config q;
    const char *method;
};

static const char *text_member(const json_object *object, const char *key)
{
    json_object *value = json_member_of_type(object, key, json_type_string);
    return value ? json_object_get_string(value) : NULL;
}

static bool open_statement_in_config(struct statement *out, const json_object *config,
                                     const char *path, ey_err *e)
{
    for (size_t i = 0; i < sizeof(config_places) / sizeof(config_places[0]); i++) {
        const char *within = config_places[i].within;
        const json_object *at = within ? json_member_of_type(config, within, json_type_object)
                                       : config;
        if (!json_member(at, config_places[i].key)) continue;
        return config_open(&out->q, at, config_places[i].key, path, e);
    }
    return true;
}

static bool open_statement_in_file(struct statement *out, struct checkpoint *ckpt, ey_err *e)
{
    for (size_t i = 0; i < sizeof(file_places) / sizeof(file_places[0]); i++) {
        const json_object *file;
        char path[EY_MAX_PATH];
        if (!checkpoint_json(ckpt, file_places[i].file, &file, e)) return false;
        if (!file) continue;
        out->method = file_places[i].method;
        return path_join(path, checkpoint_directory(ckpt), file_places[i].file, e) &&
               config_open(&out->q, file, file_places[i].key, path, e);
    }
    return true;
}

/* Infers the method from members if quant_method is absent, as in files of 2024. */
static const char *implied_method(const struct config *q)
{
    const bool groups = json_member(q->object, "config_groups") || json_member(q->object, "format");
    return groups ? "compressed-tensors" : NULL;
}

static bool find_statement(struct statement *out, struct checkpoint *ckpt, const char *path,
                           ey_err *e)
{
    *out = (struct statement){0};
    if (!open_statement_in_config(out, checkpoint_config(ckpt), path, e)) return false;
    if (!out->q.object && !open_statement_in_file(out, ckpt, e)) return false;
    if (!out->q.object) return true;
    const char *said = text_member(out->q.object, "quant_method");
    if (said) out->method = said;
    if (!out->method) out->method = implied_method(&out->q);
    return true;
}

/* ---- refusals ---- */

#define INSTEAD "the BF16 or the official FP8 checkpoint, with --quantize if it is too large"

static bool fail_quantization(const struct config *q, const char *key, const char *instead,
                              ey_err *e)
{
    return ey_fail(e, EY_BAD_MODEL, "%s: %s %.60s is not supported; use %s", q->what, key,
                   config_shown(json_member(q->object, key)), instead);
}

static bool is_one_of(const char *text, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(text, *list) == 0) return true;
    return false;
}

/* Checks that the member is absent or, ignoring case, one of the list. */
static bool config_one_of(const struct config *q, const char *key, const char *const *list,
                          const char *instead, ey_err *e)
{
    if (!json_member(q->object, key)) return true;
    const char *value = text_member(q->object, key);
    char lower[64];
    size_t n = 0;
    for (; value && value[n] && n + 1 < sizeof(lower); n++)
        lower[n] = value[n] >= 'A' && value[n] <= 'Z' ? (char)(value[n] + 'a' - 'A') : value[n];
    lower[n] = '\0';
    return (value && is_one_of(lower, list)) || fail_quantization(q, key, instead, e);
}

/* Accepts a bitsandbytes config with plain weights: it asks programs to quantize them while
 * loading. eyelet reads them as stored. */
static bool check_bitsandbytes(const struct config *q, struct checkpoint *ckpt, ey_err *e)
{
    const char *original = text_member(checkpoint_config(ckpt), "_name_or_path");
    for (size_t i = 0; i < checkpoint_count(ckpt); i++) {
        const struct tensor_view *t = checkpoint_at(ckpt, i);
        if (!strstr(t->name, ".quant_state.") && !strstr(t->name, ".SCB")) continue;
        return ey_fail(
            e, EY_BAD_MODEL,
            "%s: bitsandbytes checkpoints are not supported; download the "
            "original%s%.100s and use --quantize int4, or take a compressed-tensors, AWQ "
            "or GPTQ checkpoint",
            q->what, original ? " " : "", original ? original : "");
    }
    return true;
}

/* ---- FP8 ---- */

static bool read_fp8_config(const struct config *q, ey_err *e)
{
    int block[2] = {0, 0}, n = 0;
    if (!config_require(q, "fmt", "e4m3", e)) return false;
    if (!json_member(q->object, "weight_block_size")) return true;
    if (!config_ints(block, &n, 2, q, "weight_block_size", 1, 1 << 20, e)) return false;
    return (n == 2 && block[0] == FP8_BLOCK && block[1] == FP8_BLOCK) ||
           ey_fail(e, EY_BAD_MODEL, "%s: weight_block_size is %.60s; only [%d, %d] is supported",
                   q->what, config_shown(json_member(q->object, "weight_block_size")), FP8_BLOCK,
                   FP8_BLOCK);
}

/* ---- compressed-tensors ---- */

static const char *const tensor_formats[] = {"pack-quantized",
                                             "int-quantized",
                                             "float-quantized",
                                             "naive-quantized",
                                             "nvfp4-pack-quantized",
                                             "mxfp4-pack-quantized",
                                             "mxfp8-quantized",
                                             "mixed-precision",
                                             "dense",
                                             "fakequant",
                                             NULL};

static bool check_tensor_format(const struct config *q, ey_err *e)
{
    const char *format = text_member(q->object, "format");
    const bool mxfp6 = format && strcmp(format, "mxfp6-pack-quantized") == 0,
               sparse = format && (strstr(format, "sparse") || strstr(format, "24"));
    return config_one_of(q, "format", tensor_formats,
                         mxfp6    ? "the FP8 or MXFP8 checkpoint"
                         : sparse ? "a checkpoint without sparsity: W4A16, FP8 or the original"
                                  : "a W4A16, W8A16, FP8, NVFP4 or MXFP4 checkpoint",
                         e);
}

static bool is_empty_member(const struct config *q, const char *key)
{
    json_object *value = json_member(q->object, key);
    return !value ||
           (json_object_is_type(value, json_type_object) && json_object_object_length(value) == 0);
}

static bool check_no_transforms(const struct config *q, ey_err *e)
{
    static const char *const dense[] = {"dense", NULL};
    struct config sparsity;
    if (!is_empty_member(q, "transform_config"))
        return fail_quantization(q, "transform_config", "a checkpoint without transforms", e);
    if (!is_empty_member(q, "moe_sparsity_config"))
        return fail_quantization(q, "moe_sparsity_config", "a checkpoint without sparsity", e);
    if (is_empty_member(q, "sparsity_config")) return true;
    return config_open(&sparsity, q->object, "sparsity_config", q->what, e) &&
           config_one_of(&sparsity, "format", dense, "a checkpoint without sparsity", e);
}

/* Facts collected from all groups. */
struct group_facts {
    unsigned bits;
    bool any_integers, any_symmetric, any_floats, several_sizes;
    int group; /* columns of a group; -1 for a whole row */
};

static void note_group_size(struct group_facts *out, int group)
{
    out->several_sizes = out->several_sizes || (out->any_integers && group != out->group);
    out->group = group;
}

static bool read_strategy(int *out, const struct config *w, ey_err *e)
{
    static const char *const strategies[] = {"tensor", "channel",      "group",
                                             "block",  "tensor_group", NULL};
    int64_t group = 0;
    const char *strategy = text_member(w->object, "strategy");
    if (!config_one_of(w, "strategy", strategies, INSTEAD, e) ||
        !json_optional_int(w->object, "group_size", -1, EY_MAX_WIDTH, &group, w->what, e))
        return false;
    *out = group > 0 ? (int)group : -1;
    return !strategy || strcasecmp(strategy, "group") != 0 || group > 0 ||
           ey_fail(e, EY_BAD_MODEL, "%s: group_size is %d; it must be positive", w->what,
                   (int)group);
}

static bool read_group_weights(struct group_facts *out, const struct config *w, ey_err *e)
{
    static const char *const types[] = {"int", "float", NULL};
    int64_t bits = 8;
    int group;
    bool symmetric = true;
    const char *type = text_member(w->object, "type");
    if (!json_optional_int(w->object, "num_bits", 1, 8, &bits, w->what, e) ||
        !config_one_of(w, "type", types, INSTEAD, e) ||
        !json_optional_bool(w->object, "symmetric", &symmetric, w->what, e) ||
        !read_strategy(&group, w, e))
        return false;
    out->any_floats = out->any_floats || (type && strcasecmp(type, "float") == 0);
    if (type && strcasecmp(type, "float") == 0)
        return bits == 4 || bits == 8 ||
               fail_quantization(w, "num_bits", "the FP8, NVFP4 or MXFP4 checkpoint", e);
    out->bits |= 1u << bits;
    note_group_size(out, group);
    out->any_integers = true;
    out->any_symmetric = out->any_symmetric || symmetric;
    return true;
}

/* Reads a preset such as "W4A16": integers of that many bits, symmetric unless the name has
 * "_ASYM". Other presets are not integers. */
static void read_preset(struct group_facts *out, const char *name)
{
    int bits = 8;
    const bool integers = strcmp(name, "INT8") == 0 ||
                          (sscanf(name, "W%1dA", &bits) == 1 && bits >= 1 && bits <= 8);
    if (!integers) return;
    out->bits |= 1u << bits;
    out->several_sizes = true; /* a preset's group size depends on the library's release */
    out->any_integers = true;
    out->any_symmetric = out->any_symmetric || strstr(name, "_ASYM") == NULL;
}

static bool read_group(struct group_facts *out, const struct config *q, const char *name,
                       const json_object *group, ey_err *e)
{
    struct config s = {.object = group}, w;
    if (json_object_is_type(group, json_type_array)) {
        read_preset(out, name);
        return true;
    }
    snprintf(s.what, sizeof(s.what), "%.4095s: %.60s", q->what, name);
    if (!check_tensor_format(&s, e)) return false;
    if (json_object_is_type(group, json_type_object) && !json_member(group, "weights"))
        return json_member(group, "targets") ||
               ey_fail(e, EY_BAD_MODEL, "%s: weights is missing or not an object", s.what);
    return config_open(&w, group, "weights", s.what, e) && read_group_weights(out, &w, e);
}

static bool read_compressed_tensors(struct quantization *out, const struct config *q, ey_err *e)
{
    struct group_facts facts = {0};
    const json_object *groups = json_member_of_type(q->object, "config_groups", json_type_object);
    if (!check_tensor_format(q, e) || !check_no_transforms(q, e)) return false;
    if (!groups)
        return ey_fail(e, EY_BAD_MODEL, "%s: config_groups is missing or not an object", q->what);
    json_object_object_foreach((json_object *)(uintptr_t)groups, name, group)
    {
        if (!read_group(&facts, q, name, group, e)) return false;
    }
    const char *format = text_member(q->object, "format");
    if (facts.any_floats && !facts.any_integers && format &&
        (strcasecmp(format, "pack-quantized") == 0 || strcasecmp(format, "int-quantized") == 0))
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: format %s stores integers, but all groups have type float", q->what,
                       format);
    out->bits = facts.bits;
    out->group = facts.several_sizes ? 0 : facts.group;
    out->symmetric = facts.any_symmetric;
    out->asymmetric = facts.any_integers && !facts.any_symmetric;
    return true;
}

/* ---- AutoAWQ ---- */

static bool read_awq_config(struct quantization *out, const struct config *q, ey_err *e)
{
    static const char *const versions[] = {"gemm", "gemv", "exllama", NULL}, *const backends[] = {
                                                                                 "autoawq", NULL};
    int64_t bits = 4, group = 0;
    bool zeros = true;
    const char *version = text_member(q->object, "version");
    if (!json_optional_int(q->object, "bits", 4, 4, &bits, q->what, e) ||
        !json_optional_int(q->object, "w_bit", 4, 4, &bits, q->what, e) ||
        !json_optional_int(q->object, "q_group_size", -1, EY_MAX_WIDTH, &group, q->what, e) ||
        !json_optional_int(q->object, "group_size", -1, EY_MAX_WIDTH, &group, q->what, e) ||
        !json_optional_bool(q->object, "zero_point", &zeros, q->what, e) ||
        !config_one_of(q, "version", versions, "an AutoAWQ checkpoint of version gemm", e) ||
        !config_one_of(q, "backend", backends, "a checkpoint of AutoAWQ", e))
        return false;
    const bool rows = version && strcasecmp(version, "gemv") == 0;
    out->bits = 1u << 4;
    out->group = (int)group;
    out->qweight = rows ? QWEIGHT_AWQ_ROWS : QWEIGHT_AWQ;
    out->symmetric = !zeros;
    out->asymmetric = zeros && json_member(q->object, "zero_point");
    return true;
}

/* ---- GPTQ ---- */

static bool read_gptq_bits(struct quantization *out, const struct config *q, ey_err *e)
{
    int64_t bits = 0;
    if (!json_optional_int(q->object, "bits", 2, 8, &bits, q->what, e)) return false;
    if (bits > 4 && bits < 8)
        return fail_quantization(q, "bits", "a checkpoint of 2, 3, 4 or 8 bits", e);
    int64_t group = 0;
    if (!json_optional_int(q->object, "group_size", -1, EY_MAX_WIDTH, &group, q->what, e))
        return false;
    /* rules for single modules may override bits and group size; then only the shapes tell them */
    const bool rules = !is_empty_member(q, "dynamic") || !is_empty_member(q, "extra_config");
    out->bits = bits && !rules ? 1u << bits : 1u << 2 | 1u << 3 | 1u << 4 | 1u << 8;
    out->group = rules ? 0 : (int)group;
    return true;
}

static bool read_gptq_config(struct quantization *out, const struct config *q, ey_err *e)
{
    static const char *const formats[] = {"gptq", "gptq_v2", "gptq_p", NULL}, *const words[] = {
                                                                                  "int32", NULL};
    const char *key = json_member(q->object, "checkpoint_format") ? "checkpoint_format" : "format",
               *format = text_member(q->object, key);
    const char instead[] = "a checkpoint in the format gptq or gptq_v2";
    if (!config_one_of(q, key, formats, instead, e) ||
        !config_one_of(q, "pack_dtype", words, "a checkpoint packed into int32", e) ||
        !read_gptq_bits(out, q, e) ||
        !json_optional_bool(q->object, "sym", &out->symmetric, q->what, e))
        return false;
    bool marlin = false;
    if (!json_optional_bool(q->object, "is_marlin_format", &marlin, q->what, e)) return false;
    if (marlin) return fail_quantization(q, "is_marlin_format", instead, e);
    if (format && strcasecmp(format, "gptq_p") == 0 && (out->bits & 1u << 3))
        return fail_quantization(q, key, instead, e); /* its 3-bit layout differs */
    out->qweight = QWEIGHT_GPTQ;
    out->zeros_less_one = !format || strcasecmp(format, "gptq") == 0;
    return true;
}

/* ---- AutoRound ---- */

static bool read_auto_round(struct quantization *out, const struct config *q, ey_err *e)
{
    static const char *const packings[] = {"auto_round",
                                           "auto_round:auto_gptq",
                                           "auto_round:auto_awq",
                                           "auto_round:exllamav2",
                                           "auto_round:gptqmodel",
                                           "auto_round:fp8",
                                           "auto_round:fp8_static",
                                           "auto_round:nv_fp",
                                           "auto_round:nv_fp4",
                                           "auto_round:nv_fp4_with_static_gs",
                                           "auto_round:mx_fp",
                                           "auto_round:mx_fp4",
                                           "auto_round:mx_fp8",
                                           "auto_round:llm_compressor",
                                           "auto_round:fake",
                                           NULL},
                             *const types[] = {"int",    "fp",     "nv_fp",
                                               "mx_fp",  "nv_fp4", "fp8",
                                               "mx_fp4", "mx_fp8", "nv_fp4_with_static_gs",
                                               NULL};
    const char *key = json_member(q->object, "packing_format") ? "packing_format" : "backend",
               *packing = text_member(q->object, key);
    if (!config_one_of(q, key, packings, "a checkpoint packed as auto_gptq or auto_awq", e) ||
        !config_one_of(q, "data_type", types, "a checkpoint with data_type int, fp8 or nv_fp", e) ||
        !read_gptq_bits(out, q, e) ||
        !json_optional_bool(q->object, "sym", &out->symmetric, q->what, e))
        return false;
    const bool awq = packing && strcasecmp(packing, "auto_round:auto_awq") == 0;
    out->qweight = awq ? QWEIGHT_AWQ : QWEIGHT_GPTQ;
    out->zeros_less_one = packing && strcasecmp(packing, "auto_round:auto_gptq") == 0;
    return true;
}

/* ---- ModelOpt ---- */

static bool read_modelopt(const struct config *q, ey_err *e)
{
    static const char *const algorithms[] = {"fp8",
                                             "fp8_per_channel_per_token",
                                             "fp8_pb_wo",
                                             "fp8_pb_real",
                                             "nvfp4",
                                             "w4a16_nvfp4",
                                             "w4a8_nvfp4_fp8",
                                             "mxfp8",
                                             "mxfp4",
                                             "w4a8_mxfp4_fp8",
                                             "w8a8_sq_per_channel",
                                             "w8a16",
                                             "mixed_precision",
                                             NULL};
    return config_one_of(q, "quant_algo", algorithms,
                         "the FP8 or NVFP4 checkpoint without AWQ or SVD", e);
}

/* ---- any ---- */

bool config_read_quantization(struct quantization *out, struct checkpoint *ckpt, const char *path,
                              ey_err *e)
{
    struct statement s;
    *out = (struct quantization){0};
    if (!find_statement(&s, ckpt, path, e)) return false;
    if (!s.q.object) return true;
    const char *method = s.method ? s.method : "";
    if (strcmp(method, "compressed-tensors") == 0) return read_compressed_tensors(out, &s.q, e);
    if (strcmp(method, "fp8") == 0) return read_fp8_config(&s.q, e);
    if (strcmp(method, "fbgemm_fp8") == 0) return true;
    if (strcmp(method, "awq") == 0) return read_awq_config(out, &s.q, e);
    if (strcmp(method, "gptq") == 0) return read_gptq_config(out, &s.q, e);
    if (strcmp(method, "auto-round") == 0 || strcmp(method, "intel/auto-round") == 0)
        return read_auto_round(out, &s.q, e);
    if (strncmp(method, "modelopt", strlen("modelopt")) == 0) return read_modelopt(&s.q, e);
    if (strcmp(method, "bitsandbytes") == 0) return check_bitsandbytes(&s.q, ckpt, e);
    json_object *shown = json_member(s.q.object, "quant_method");
    return ey_fail(
        e, EY_BAD_MODEL,
        "%s: quant_method %.40s is not supported; use a compressed-tensors, AWQ, GPTQ or "
        "FP8 checkpoint, or the BF16 one, with --quantize if it is too large",
        s.q.what, shown ? config_shown(shown) : "(none)");
}
