/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints converted to the other format and back: equal bytes where both formats have the type,
 * equal values everywhere, and clear refusals of all else. The goldens run converted models. */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/full_disk.h"
#include "checkpoint/gguf/gguf_model.h"
#include "checkpoint/quantized_layouts.h"
#include "convert/gguf_metadata.h"
#include "convert/weight_forms.h"
#include "engine/engine_fixture.h"
#include "models/ckpt_edit.h"
#include "tensor/dequantize.h"
#include "tokenizer/tokenizer.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *path_of(const char *name)
{
    static char paths[8][400];
    static int next;
    char *out = paths[next++ % 8];
    snprintf(out, sizeof(paths[0]), "%s/%s", fixture_dir(), name);
    return out;
}

static const char *in_folder(const char *folder, const char *name)
{
    static char path[EY_MAX_PATH];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static bool try_convert(const char *model, const char *out, bool to_float32,
                        ey_convert_report *report, ey_err *e)
{
    ey_engine_options options = ey_engine_defaults();
    options.model = model;
    options.threads = 2;
    return ey_convert(&options, out, to_float32, report, e);
}

static ey_convert_report convert(const char *model, const char *out, bool to_float32)
{
    ey_convert_report report;
    ey_err e;
    if (!try_convert(model, out, to_float32, &report, &e)) fail_msg("%s: %s", model, e.text);
    return report;
}

static void refuse(const char *model, const char *out, ey_code code, const char *says)
{
    ey_convert_report report;
    ey_err e;
    if (try_convert(model, out, false, &report, &e)) fail_msg("%s: was converted", model);
    if (e.code != code || !strstr(e.text, says)) fail_msg("%s: %d, %s", model, e.code, e.text);
}

static struct checkpoint *open_checkpoint(const char *path)
{
    struct checkpoint *c;
    ey_err e;
    if (!checkpoint_open(&c, path, &e)) fail_msg("%s", e.text);
    return c;
}

/* ---- files that keep their bytes ---- */

static void assert_same_tensors(const char *a, const char *b)
{
    struct checkpoint *was = open_checkpoint(a), *is = open_checkpoint(b);
    assert_int_equal(checkpoint_count(was), checkpoint_count(is));
    for (size_t i = 0; i < checkpoint_count(was); i++) {
        const struct tensor_view *x = checkpoint_at(was, i), *y = checkpoint_find(is, x->name);
        if (!y) fail_msg("%s: %s is missing", b, x->name);
        if (x->dtype != y->dtype || x->n_dims != y->n_dims || x->size != y->size ||
            memcmp(x->shape, y->shape, sizeof(x->shape)) != 0 ||
            memcmp(x->data, y->data, x->size) != 0)
            fail_msg("%s: %s differs", b, x->name);
    }
    checkpoint_close(was);
    checkpoint_close(is);
}

static struct tokenizer *open_tokenizer_of(const char *path)
{
    struct checkpoint *c = open_checkpoint(path);
    struct tokenizer *tok = NULL;
    char file[EY_MAX_PATH];
    ey_err e;
    snprintf(file, sizeof(file), "%s/tokenizer.json", path);
    json_object *root = checkpoint_is_gguf(c) ? checkpoint_tokenizer(c, &e)
                                              : json_parse_file(file, EY_BAD_MODEL, &e);
    if (!root || !tokenizer_open_json(&tok, root, path, &e)) fail_msg("%s", e.text);
    json_object_put(root);
    checkpoint_close(c);
    return tok;
}

static void assert_same_tokenizer(const char *a, const char *b)
{
    static const char *const texts[] = {"Hello, who are you? 12345  \n\n x",
                                        "<|im_start|>user\nna\xc3\xafve caf\x65\xcc\x81<|im_end|>",
                                        "\xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\x91\x8d 3.14"};
    struct tokenizer *was = open_tokenizer_of(a), *is = open_tokenizer_of(b);
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct ids x = {0}, y = {0};
        ey_err e;
        assert_true(tokenizer_encode(was, texts[i], strlen(texts[i]), true, &x, &e));
        assert_true(tokenizer_encode(is, texts[i], strlen(texts[i]), true, &y, &e));
        assert_int_equal(x.n, y.n);
        assert_memory_equal(x.id, y.id, x.n * sizeof(*x.id));
        ids_free(&x);
        ids_free(&y);
    }
    assert_int_equal(tokenizer_bos_id(was), tokenizer_bos_id(is));
    tokenizer_close(was);
    tokenizer_close(is);
}

static void plain_models_come_back(void **state)
{
    (void)state;
    static const char *const kinds[] = {"tiny-qwen3-bf16", "tiny-qwen2-bf16", "tiny-gqa4-f16",
                                        "tiny-gqa4-f32", "tiny-untied-bf16"};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        const char *was = ckpt_make(fixture_dir(), kinds[i]);
        char file[300], back[300];
        snprintf(file, sizeof(file), "%s/%s.gguf", fixture_dir(), kinds[i]);
        snprintf(back, sizeof(back), "%s/%s-back", fixture_dir(), kinds[i]);
        ey_convert_report report = convert(was, file, false);
        assert_int_equal(report.n_float32, 0);
        assert_same_tokenizer(was, file);
        /* the other kinds' mmproj files were removed, so the folder has only this model's */
        convert(file, back, false);
        assert_same_tensors(was, back);
        assert_same_tokenizer(was, back);
        char mmproj[300];
        snprintf(mmproj, sizeof(mmproj), "%s/mmproj-%s.gguf", fixture_dir(), kinds[i]);
        unlink(mmproj);
    }
}

/* Both formats pack 8-bit values alike; the BF16 scales are exact in F16. */
static void eight_bits_come_back(void **state)
{
    (void)state;
    const char *was = ckpt_make(fixture_dir(), "tiny-qwen3-w8a16"), *back = path_of("w8-back"),
               *file = path_of("w8.gguf");
    convert(was, file, false);
    convert(file, back, false);
    struct checkpoint *a = open_checkpoint(was), *b = open_checkpoint(back);
    size_t n = 0;
    for (size_t i = 0; i < checkpoint_count(a); i++) {
        const struct tensor_view *x = checkpoint_at(a, i), *y = checkpoint_find(b, x->name);
        assert_non_null(y);
        if (!strstr(x->name, "_packed")) continue;
        assert_int_equal(x->size, y->size);
        assert_memory_equal(x->data, y->data, x->size);
        n++;
    }
    assert_int_equal(n, 21);
    checkpoint_close(a);
    checkpoint_close(b);
    const char *file_again = path_of("w8-again.gguf");
    convert(back, file_again, false);
    assert_same_tensors(file, file_again);
}

/* ---- files that keep their values ---- */

/* Compares the shape of one weight. */
static void assert_same_shape(ey_engine *a, ey_engine *b, int layer)
{
    const struct tensor *x = &a->devices.model.layers[layer].attention.q,
                        *y = &b->devices.model.layers[layer].attention.q;
    assert_int_equal(x->rows, y->rows);
    assert_int_equal(x->cols, y->cols);
}

/* Logits are bit-identical on `ref`, which computes with the dequantized values. */
static void assert_same_answers(const char *was, const char *is, const char *what)
{
    static struct question q;
    ey_engine *a = engine_open(was, "ref", 2, 128), *b = engine_open(is, "ref", 2, 128);
    assert_same_shape(a, b, 0);
    question_simple(&q, 0, "What is this?", 3);
    struct outcome x = outcome_of(a, &q), y = outcome_of(b, &q);
    assert_same_outcome(&x, &y, what);
    outcome_free(&x);
    outcome_free(&y);
    ey_engine_close(&a);
    ey_engine_close(&b);
}

static void other_programs_layouts(void **state)
{
    (void)state;
    const char *awq = ckpt_make(fixture_dir(), "tiny-qwen2-awq"), *out = path_of("awq-packed");
    ey_convert_report report = convert(awq, out, false);
    assert_int_equal(report.n_float32, 0);
    struct checkpoint *c = open_checkpoint(out);
    assert_non_null(checkpoint_find(c, "model.layers.0.mlp.up_proj.weight_zero_point"));
    const json_object *q = json_member(checkpoint_config(c), "quantization_config");
    assert_string_equal(json_object_get_string(json_member(q, "format")), "pack-quantized");
    checkpoint_close(c);
    assert_same_answers(awq, out, "AWQ as compressed-tensors");
}

static void float32_keeps_values(void **state)
{
    (void)state;
    static const char *const kinds[] = {"tiny-qwen2-fp8", "tiny-qwen3-nvfp4"};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        char file[300];
        const char *was = ckpt_make(fixture_dir(), kinds[i]);
        snprintf(file, sizeof(file), "%s/%s-f32.gguf", fixture_dir(), kinds[i]);
        ey_convert_report report = convert(was, file, true);
        assert_true(report.n_float32 > 0);
        assert_non_null(strstr(report.float32_names, "model.layers.0.mlp.down_proj.weight"));
        assert_same_answers(was, file, kinds[i]);
    }
    const char *gptq = ckpt_make(fixture_dir(), "tiny-llama-gptq"), *out = path_of("gptq-f32");
    convert(gptq, out, true);
    assert_same_answers(gptq, out, "GPTQ with columns in another order, as float32");
}

/* Rounds all scales to powers of two, so that dequantized FP8 and int4 values need few bits. */
static void keep_powers_of_two(const char *from, const char *to, const char *end)
{
    ckpt_copy(from, to);
    struct tensor_list list = tensors_read(to);
    for (size_t i = 0; i < list.n; i++) {
        struct edited_tensor *t = &list.at[i];
        const size_t n = strlen(t->name), m = strlen(end);
        if (n < m || strcmp(t->name + n - m, end) != 0) continue;
        const bool f32 = t->dtype == DTYPE_F32;
        for (size_t at = 0; at < t->size; at += f32 ? 4 : 2) {
            if (f32) t->data[at + 2] &= 0x80;
            t->data[at + (f32 ? 1 : 0)] = 0;
            if (f32)
                t->data[at] = 0;
            else
                t->data[at + 1] &= 0xfc;
        }
    }
    tensors_write(&list, to);
}

static void assert_all_of_type(const char *path, enum dtype type, const char *part)
{
    struct checkpoint *c = open_checkpoint(path);
    size_t n = 0;
    for (size_t i = 0; i < checkpoint_count(c); i++) {
        if (!strstr(checkpoint_at(c, i)->name, part)) continue;
        assert_int_equal(checkpoint_at(c, i)->dtype, type);
        n++;
    }
    assert_true(n > 0);
    checkpoint_close(c);
}

/* If all values are exact in a 16-bit type, a quantized matrix is stored in it, even without
 * --float32. */
static void sixteen_bits_where_they_hold_values(void **state)
{
    (void)state;
    const char *fp8 = path_of("fp8-powers"), *file = path_of("fp8-powers.gguf"),
               *gptq = path_of("gptq-powers"), *folder = path_of("gptq-16");
    keep_powers_of_two(ckpt_make(fixture_dir(), "tiny-qwen2-fp8"), fp8, ".weight_scale_inv");
    ey_convert_report report = convert(fp8, file, false);
    assert_int_equal(report.n_float32, 0);
    assert_all_of_type(file, DTYPE_BF16, "down_proj.weight");
    assert_same_answers(fp8, file, "FP8 as BF16");
    keep_powers_of_two(ckpt_make(fixture_dir(), "tiny-llama-gptq"), gptq, ".scales");
    report = convert(gptq, folder, false);
    assert_int_equal(report.n_float32, 0);
    assert_all_of_type(folder, DTYPE_F16, "down_proj.weight");
    assert_same_answers(gptq, folder, "GPTQ with columns in another order, as F16");
}

static void empty_tensors_come_along(void **state)
{
    (void)state;
    const char *was = path_of("awq-empty"), *out = path_of("awq-empty-packed");
    ckpt_copy(ckpt_make(fixture_dir(), "tiny-qwen2-awq"), was);
    struct tensor_list list = tensors_read(was);
    struct edited_tensor *t = tensors_add(&list, "empty", NULL);
    t->dtype = DTYPE_F16;
    t->n_dims = 2;
    t->shape[0] = 0;
    t->shape[1] = 8;
    tensor_fit(t);
    tensors_write(&list, was);
    convert(was, out, false);
    struct checkpoint *c = open_checkpoint(out);
    const struct tensor_view *empty = checkpoint_find(c, "empty");
    assert_true(empty && empty->size == 0 && empty->shape[0] == 0 && empty->shape[1] == 8);
    checkpoint_close(c);
}

/* Both commands that write a folder copy other files with long names. */
static void long_names_come_along(void **state)
{
    (void)state;
    const char *was = path_of("awq-long"), *out = path_of("awq-long-packed"),
               *plain = path_of("plain-long"), *small = path_of("plain-long-fp8");
    char name[200], path[700];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    ckpt_copy(ckpt_make(fixture_dir(), "tiny-qwen2-awq"), was);
    ckpt_write_file(was, name, "text", 4);
    convert(was, out, false);
    snprintf(path, sizeof(path), "%s/%s", out, name);
    assert_int_equal(access(path, R_OK), 0);
    ckpt_copy(ckpt_make(fixture_dir(), "tiny-gqa4-bf16"), plain);
    ckpt_write_file(plain, name, "text", 4);
    ey_engine_options options = ey_engine_defaults();
    ey_quantize_report report;
    ey_err e;
    options.model = plain;
    options.quantize = "fp8";
    options.threads = 2;
    if (!ey_quantize(&options, small, &report, &e)) fail_msg("%s", e.text);
    snprintf(path, sizeof(path), "%s/%s", small, name);
    assert_int_equal(access(path, R_OK), 0);
}

/* ---- refused files ---- */

static int entries_of(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    while (d && readdir(d))
        n++;
    if (d) closedir(d);
    return n;
}

static void refuses_what_would_be_lost(void **state)
{
    (void)state;
    const char *fp8 = ckpt_make(fixture_dir(), "tiny-qwen2-fp8"),
               *gptq = ckpt_make(fixture_dir(), "tiny-llama-gptq"),
               *llama = ckpt_make(fixture_dir(), "tiny-llama-f16"),
               *old = ckpt_make(fixture_dir(), "tiny-old-bf16"),
               *plain = ckpt_make(fixture_dir(), "tiny-qwen3-bf16"),
               *plain_file = path_of("plain.gguf");
    convert(plain, plain_file, false);
    const int before = entries_of(fixture_dir());
    refuse(fp8, path_of("no.gguf"), EY_BAD_REQUEST,
           "down_proj.weight (F8_E4M3): GGUF has no type with 8-bit floating-point values, and "
           "not all of these are exact in BF16 or F16 after scaling");
    refuse(fp8, path_of("no.gguf"), EY_BAD_REQUEST,
           "--float32 writes their exact values as float32");
    refuse(gptq, path_of("no-folder"), EY_BAD_REQUEST, "(act-order)");
    refuse(llama, path_of("no.gguf"), EY_BAD_REQUEST, "GGUF cannot represent the order of merges");
    refuse(old, path_of("no.gguf"), EY_BAD_REQUEST, "has no name in GGUF files of qwen3vl");
    refuse(plain, path_of("no-folder"), EY_BAD_REQUEST, "is already safetensors");
    refuse(plain_file, path_of("no.gguf"), EY_BAD_REQUEST, "is already GGUF");
    refuse(plain, plain_file, EY_BAD_REQUEST, "already exists; give another name");
    refuse(plain_file, fixture_dir(), EY_BAD_REQUEST, "already exists; give another name");
    refuse(plain, "/nowhere/at/all.gguf", EY_IO, "/nowhere/at/all.gguf.part-");
    assert_int_equal(entries_of(fixture_dir()), before); /* nothing is left behind */
}

/* GGUF stores pixel limits in 32 bits. */
static void keeps_limits_of_pixels(void **state)
{
    (void)state;
    const char *wide = path_of("wide"), *file = path_of("wide.gguf");
    int64_t most = 0;
    struct gguf *f;
    ey_err e;
    ckpt_copy(ckpt_make(fixture_dir(), "tiny-untied-bf16"), wide);
    ckpt_set(wide, "preprocessor_config.json", "size.longest_edge", "4294967296");
    refuse(wide, file, EY_BAD_REQUEST,
           "size.longest_edge) is 4294967296; GGUF can store at most 42");
    ckpt_set(wide, "preprocessor_config.json", "max_pixels", "5000000");
    convert(wide, file, false);
    if (!gguf_open(&f, path_of("mmproj-wide.gguf"), &e)) fail_msg("%s", e.text);
    assert_true(gguf_int(f, "clip.vision.image_max_pixels", 1, INT64_MAX - 1, &most, &e));
    assert_int_equal(most, 5000000);
    gguf_close(f);
}

/* A template in its own file overrides tokenizer_config.json's. */
static void keeps_the_template(void **state)
{
    (void)state;
    const char *was = path_of("template"), *out = path_of("template.gguf");
    struct gguf *f;
    ey_err e;
    ckpt_copy(ckpt_make(fixture_dir(), "tiny-qwen3-bf16"), was);
    FILE *file = fopen(path_of("template/chat_template.json"), "w");
    assert_true(file && fputs("{\"chat_template\": \"of its own\"}", file) >= 0);
    assert_int_equal(fclose(file), 0);
    convert(was, out, false);
    if (!gguf_open(&f, out, &e)) fail_msg("%s", e.text);
    assert_string_equal(gguf_text(f, "tokenizer.chat_template"), "of its own");
    gguf_close(f);
    file = fopen(path_of("template/chat_template.jinja"), "w");
    assert_true(file && ftruncate(fileno(file), 2 << 20) == 0);
    assert_int_equal(fclose(file), 0);
    ey_convert_report report;
    assert_false(try_convert(was, path_of("too-large.gguf"), false, &report, &e));
    assert_non_null(strstr(e.text, "chat_template.jinja"));
}

/* A pre-tokenizer without a name in GGUF, and a token flag that GGUF does not store. */
static void refuses_other_tokenizers(void **state)
{
    (void)state;
    const char *plain = ckpt_make(fixture_dir(), "tiny-qwen3-bf16"), *odd = path_of("odd"),
               *strips = path_of("strips");
    ckpt_copy(plain, odd);
    ckpt_set(odd, "tokenizer.json", "pre_tokenizer.pretokenizers",
             "[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{N}{1,3}|\\\\s+|\\\\S\"},"
             "\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\","
             "\"add_prefix_space\":false,\"use_regex\":false}]");
    ey_convert_report report;
    ey_err e;
    assert_false(try_convert(odd, path_of("odd.gguf"), false, &report, &e));
    assert_non_null(strstr(e.text, "GGUF has no name for its pre-tokenizer"));
    const char *nested = path_of("nested");
    ckpt_copy(plain, nested);
    ckpt_set(nested, "tokenizer.json", "pre_tokenizer.pretokenizers",
             "[{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
             "{\"Regex\":\"\\\\p{N}{1,3}|\\\\s+|\\\\S\"},\"behavior\":\"Isolated\",\"invert\":"
             "false}]},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]");
    assert_false(try_convert(nested, path_of("nested.gguf"), false, &report, &e));
    assert_non_null(strstr(e.text, "GGUF has no name for its pre-tokenizer"));
    ckpt_copy(plain, strips);
    json_object *file = json_parse_file(path_of("strips/tokenizer.json"), EY_IO, &e);
    json_object *added = json_member(file, "added_tokens");
    static const char *const flags[] = {"rstrip", "normalized"};
    for (size_t i = 0; i < COUNT(flags); i++) {
        char says[64];
        json_object *token = json_object_array_get_idx(added, 0);
        json_object_object_add(token, flags[i], json_object_new_boolean(true));
        ckpt_set(strips, "tokenizer.json", "added_tokens", json_object_to_json_string(added));
        snprintf(says, sizeof(says), "GGUF cannot represent %s", flags[i]);
        refuse(strips, path_of("strips.gguf"), EY_BAD_REQUEST, says);
        json_object_object_add(token, flags[i], json_object_new_boolean(false));
    }
    json_object_put(file);
}

/* A normalizer and a merge rule that readers would not infer from the pre-tokenizer's name. */
static void refuses_other_normalizers(void **state)
{
    (void)state;
    const char *plain = ckpt_make(fixture_dir(), "tiny-qwen3-bf16"), *raw = path_of("raw"),
               *whole = path_of("whole");
    ckpt_copy(plain, raw);
    ckpt_set(raw, "tokenizer.json", "normalizer", "null");
    refuse(raw, path_of("raw.gguf"), EY_BAD_REQUEST, "GGUF cannot represent the normalizer");
    ckpt_copy(plain, whole);
    ckpt_set(whole, "tokenizer.json", "model.ignore_merges", "true");
    refuse(whole, path_of("whole.gguf"), EY_BAD_REQUEST, "GGUF cannot represent ignore_merges");
}

/* Files that describe the old quantization are left out. */
static void small_files_come_along(void **state)
{
    (void)state;
    static const char *const kept[] = {"video_preprocessor_config.json", "generation_config.json",
                                       "config_sentence_transformers.json"},
                             *const left[] = {"quantize_config.json", "quant_config.json"};
    const char *was = path_of("awq-files"), *out = path_of("awq-files-packed");
    ckpt_copy(ckpt_make(fixture_dir(), "tiny-qwen2-awq"), was);
    for (size_t i = 0; i < COUNT(kept); i++)
        ckpt_write_file(was, kept[i], "{}", 2);
    for (size_t i = 0; i < COUNT(left); i++)
        ckpt_write_file(was, left[i], "{}", 2);
    convert(was, out, false);
    for (size_t i = 0; i < COUNT(kept); i++)
        if (!path_is_file(in_folder(out, kept[i]))) fail_msg("%s is missing", kept[i]);
    for (size_t i = 0; i < COUNT(left); i++)
        if (path_is_file(in_folder(out, left[i]))) fail_msg("%s was copied", left[i]);
}

/* ---- metadata ---- */

static float real_of(const struct gguf *f, const char *key)
{
    double value = -1;
    ey_err e;
    if (!gguf_optional_real(f, key, &value, &e)) fail_msg("%s", e.text);
    return (float)value;
}

/* If a temperature is missing, transformers samples with 1. A repetition penalty applies without
 * sampling, too. */
static void keeps_the_sampling(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        float temperature, top_p, penalty; /* -1: absent */
    } rows[] = {
        {"{\"do_sample\": true, \"top_p\": 0.5}", 1, 0.5f, -1},
        {"{\"do_sample\": true, \"temperature\": 0.25}", 0.25f, -1, -1},
        {"{\"do_sample\": true, \"temperature\": \"hot\"}", 1, -1, -1},
        {"{\"do_sample\": false, \"temperature\": 0.25, \"repetition_penalty\": 1.5}", -1, -1,
         1.5f},
        {"{}", -1, -1, -1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *was = path_of("sampling"), *file;
        char name[64];
        struct gguf *f;
        ey_err e;
        snprintf(name, sizeof(name), "sampling-%zu.gguf", i);
        ckpt_copy(ckpt_make(fixture_dir(), "tiny-qwen3-bf16"), was);
        ckpt_write_file(was, "generation_config.json", rows[i].json, strlen(rows[i].json));
        file = path_of(name);
        convert(was, file, false);
        if (!gguf_open(&f, file, &e)) fail_msg("%s", e.text);
        assert_true(real_of(f, "general.sampling.temp") == rows[i].temperature);
        assert_true(real_of(f, "general.sampling.top_p") == rows[i].top_p);
        assert_true(real_of(f, "general.sampling.penalty_repeat") == rows[i].penalty);
        gguf_close(f);
    }
}

/* Members of the wrong type, in a file that no tokenizer has opened. */
static void names_damaged_tokenizers(void **state)
{
    (void)state;
    static const struct {
        const char *member, *value, *message; /* NULL: converts */
    } rows[] = {
        {"model.merges", "{}", NULL},
        {"post_processor", "{\"processors\":{\"a\":1}}", NULL},
        {"added_tokens", "{}", NULL},
        {"model.merges", "[[null,\"a\"]]", "merge 0 is not a pair of tokens"},
        {"added_tokens", "[{\"id\":3,\"content\":7}]", "the text of added token 3 is not a string"},
        {"added_tokens", "[{\"id\":-3,\"content\":\"x\"}]", "id -3 is not in the vocabulary"},
    };
    const char *odd = path_of("damaged-tokenizer");
    for (size_t i = 0; i < COUNT(rows); i++) {
        ey_convert_report report;
        ey_err e = {0};
        char file[64];
        snprintf(file, sizeof(file), "damaged-%zu.gguf", i);
        ckpt_copy(ckpt_make(fixture_dir(), "tiny-qwen3-bf16"), odd);
        ckpt_set(odd, "tokenizer.json", rows[i].member, rows[i].value);
        const bool ok = try_convert(odd, path_of(file), false, &report, &e);
        if (!ok && rows[i].message && !strstr(e.text, rows[i].message)) fail_msg("%s", e.text);
        assert_true(!ok || !rows[i].message);
    }
}

/* ---- forms of one matrix ---- */

enum { ROWS = 11, COLS = 128, GROUP = 32 };

static struct {
    uint8_t codes[ROWS * COLS];
    uint16_t scales[ROWS * COLS / GROUP];
    uint32_t zeros[(ROWS + 7) / 8 * COLS / GROUP];
    uint8_t byte_zeros[ROWS * COLS / GROUP];
} made;

static unsigned next_number(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Scales of both signs, including subnormal ones. */
static struct tensor made_matrix(enum dtype dtype, int zero)
{
    static const uint16_t halves[] = {0x2c00, 0xac00, 0x0001, 0x83ff, 0x3555, 0x7bff, 0x0400, 0x0};
    unsigned seed = 3;
    memset(&made, 0, sizeof(made));
    for (size_t i = 0; i < sizeof(made.codes); i++)
        made.codes[i] = (uint8_t)next_number(&seed);
    for (size_t i = 0; i < COUNT(made.scales); i++) {
        made.scales[i] = halves[next_number(&seed) % COUNT(halves)];
        made.byte_zeros[i] = (uint8_t)zero;
    }
    for (size_t i = 0; i < COUNT(made.zeros); i++)
        for (int k = 0; k < 8; k++)
            made.zeros[i] |= (uint32_t)zero << 4 * k;
    struct tensor w = {.data = made.codes,
                       .dtype = dtype,
                       .rows = ROWS,
                       .cols = COLS,
                       .group_size = GROUP,
                       .scale_dtype = DTYPE_F16,
                       .group_scale = made.scales,
                       .signed_scales = true};
    w.group_zero = dtype == DTYPE_INT4 ? (const void *)made.zeros : made.byte_zeros;
    return w;
}

static void form_and_compare(const struct tensor *w, enum dtype type)
{
    struct weight_plan plan = plan_for_gguf(w, true);
    struct formed_weight f;
    float was[COLS], is[COLS];
    bool differs;
    if (plan.why_lossy) fail_msg("%s", plan.why_lossy);
    assert_int_equal(plan.dtype, type);
    assert_true(form_weight(&f, w, &plan, &differs));
    const struct tensor blocks = {.data = f.part[0],
                                  .dtype = type,
                                  .rows = w->rows,
                                  .cols = w->cols,
                                  .factor = f.factor != 0 ? &f.factor : NULL};
    for (int64_t row = 0; row < w->rows; row++) {
        dequantize_columns(was, w, row, 0, COLS);
        dequantize_columns(is, &blocks, row, 0, COLS);
        for (int c = 0; c < COLS; c++)
            assert_true(was[c] == is[c]);
    }
    /* and back */
    plan = plan_for_safetensors(&blocks, DTYPE_BF16, true);
    struct formed_weight back;
    if (!plan.why_lossy && plan.form != FORM_NARROWED) {
        assert_true(form_weight(&back, &blocks, &plan, &differs));
        assert_memory_equal(back.part[0], w->data, back.size[0]);
        assert_memory_equal(back.part[1], w->group_scale, back.size[1]);
        formed_weight_free(&back);
    }
    formed_weight_free(&f);
}

static void forms_of_integers(void **state)
{
    (void)state;
    struct tensor w = made_matrix(DTYPE_INT4, 8);
    form_and_compare(&w, DTYPE_Q4_0);
    w = made_matrix(DTYPE_UINT8, 128);
    form_and_compare(&w, DTYPE_Q8_0);
    w = made_matrix(DTYPE_INT4, 4); /* 4 x 0.5 is exact in F16, but the largest scale overflows */
    assert_non_null(plan_for_gguf(&w, true).why_lossy);
    for (size_t i = 0; i < COUNT(made.scales); i++)
        if (made.scales[i] == 0x7bff) made.scales[i] = 0x2c00;
    form_and_compare(&w, DTYPE_Q4_1);
    w = made_matrix(DTYPE_INT4, 7); /* 7 times a scale of 11 bits is not exact */
    assert_non_null(plan_for_gguf(&w, true).why_lossy);
    w = made_matrix(DTYPE_UINT8, 127);
    assert_non_null(strstr(plan_for_gguf(&w, true).why_lossy, "no 8-bit type with zero points"));
    w = made_matrix(DTYPE_INT4, 8);
    w.scale_dtype = DTYPE_BF16; /* BF16 has a wider range */
    made.scales[0] = 0x7e00;
    assert_non_null(strstr(plan_for_gguf(&w, true).why_lossy, "not exact in F16"));
    w = made_matrix(DTYPE_INT4, 8);
    w.group_size = 16;
    assert_non_null(plan_for_gguf(&w, true).why_lossy);
}

static void forms_of_fp4(void **state)
{
    (void)state;
    static uint8_t scales[ROWS * COLS / 16];
    struct tensor w = made_matrix(DTYPE_FP4, 0);
    for (size_t i = 0; i < COUNT(scales); i++)
        scales[i] = (uint8_t)(60 + i % 60);
    w.group_scale = scales;
    w.group_zero = NULL;
    w.scale_dtype = DTYPE_F8_E8M0;
    form_and_compare(&w, DTYPE_GGUF_MXFP4);
    w.scale_dtype = DTYPE_F8_E4M3;
    w.group_size = 16;
    w.multiplier = 0.0123f;
    form_and_compare(&w, DTYPE_GGUF_NVFP4);
    w.multiplier = 0;
    w.divisor = 1024; /* dividing by a power of two equals multiplying by its inverse */
    form_and_compare(&w, DTYPE_GGUF_NVFP4);
    w.divisor = 1000;
    assert_non_null(strstr(plan_for_gguf(&w, true).why_lossy, "it divides by its global scale"));
}

/* GGUF stores vectors as F32; they become 16-bit again if that is exact, else stay F32. */
static void vectors_narrow(void **state)
{
    (void)state;
    float values[4] = {1, -0.5f, 0x1.02p-3f, 3e38f};
    const struct tensor w = {.data = values, .dtype = DTYPE_F32, .rows = 1, .cols = 4};
    assert_int_equal(plan_for_safetensors(&w, DTYPE_F32, false).form, FORM_AS_STORED);
    values[3] = 3.0f;
    assert_int_equal(plan_for_safetensors(&w, DTYPE_BF16, false).form, FORM_NARROWED);
    assert_int_equal(plan_for_safetensors(&w, DTYPE_F16, false).form, FORM_NARROWED);
    values[3] = 0x1p-24f;
    assert_int_equal(plan_for_safetensors(&w, DTYPE_F16, false).form, FORM_NARROWED);
    values[3] = 0x1p-25f;
    assert_int_equal(plan_for_safetensors(&w, DTYPE_F16, false).form, FORM_AS_STORED);
    values[3] = 65536;
    assert_int_equal(plan_for_safetensors(&w, DTYPE_F16, false).form, FORM_AS_STORED);
    values[3] = 1.001f;
    assert_int_equal(plan_for_safetensors(&w, DTYPE_BF16, false).form, FORM_AS_STORED);
}

/* Wherever the disk gets full, no file is left. */
static void a_full_disk(void **state)
{
    (void)state;
    const char *plain = ckpt_make(fixture_dir(), "tiny-qwen3-w8a16"), *file = path_of("full.gguf"),
               *folder = path_of("full-folder"), *good = path_of("not-full.gguf");
    convert(plain, good, false);
    const int before = entries_of(fixture_dir());
    for (int to_file = 0; to_file < 2; to_file++)
        for (uint64_t room = 0; room < 2500000; room += room / 2 + 1000) {
            ey_convert_report report;
            ey_err e = {0};
            full_disk_start(room, false);
            const char *from = to_file ? plain : good, *to = to_file ? file : folder;
            const bool ok = try_convert(from, to, false, &report, &e);
            full_disk_stop();
            full_disk_start(room, false);
            assert_false(try_convert(from, to, false, &report, NULL)); /* e may be NULL */
            full_disk_stop();
            if (ok || e.code != EY_IO || !strstr(e.text, "the disk is full"))
                fail_msg("room %llu: %s", (unsigned long long)room, ok ? "(none)" : e.text);
            assert_int_equal(entries_of(fixture_dir()), before);
        }
    convert(plain, file, false);
    assert_same_tensors(file, good);
}

/* The mmproj of another model is refused, at conversion and at loading. */
static void names_the_mmproj_of_another_model(void **state)
{
    (void)state;
    struct gguf_model *m;
    ey_err e;
    const char *narrow = path_of("narrow.gguf"), *other = path_of("other.gguf"),
               *text = path_of("text.gguf");
    char mmproj[400];
    convert(ckpt_make(fixture_dir(), "tiny-ragged-fp8"), narrow, true);
    convert(ckpt_make(fixture_dir(), "tiny-untied-bf16"), other, false);
    convert(ckpt_make(fixture_dir(), "tiny-qwen3-bf16"), text, false);
    snprintf(mmproj, sizeof(mmproj), "%s/mmproj-narrow.gguf", fixture_dir());
    assert_true(gguf_model_open(&m, narrow, mmproj, &e));
    gguf_model_close(m);
    for (int i = 0; i < 2; i++) { /* selects the matching file of the folder */
        if (!gguf_model_open(&m, i ? other : narrow, NULL, &e)) fail_msg("%s", e.text);
        gguf_model_close(m);
    }
    assert_false(gguf_model_open(&m, other, mmproj, &e));
    if (!strstr(e.text, "the vision encoder does not fit") ||
        !strstr(e.text, "its projection_dim is not"))
        fail_msg("%s", e.text);
    assert_false(gguf_model_open(&m, text, mmproj, &e));
    assert_non_null(strstr(e.text, "a text-only model cannot use"));
    assert_false(gguf_model_open(&m, other, text, &e));
    assert_non_null(strstr(e.text, "its architecture is not clip"));
}

/* ---- a SentencePiece vocabulary ---- */

static json_object *pieces_with(const char *merges)
{
    struct buf text = buf_with_max(4096);
    buf_printf(&text,
               "{\"model\":{\"byte_fallback\":true,\"vocab\":{},\"merges\":[%s]},"
               "\"added_tokens\":[]}",
               merges);
    json_object *out = json_tokener_parse(text.data);
    buf_free(&text);
    assert_non_null(out);
    return out;
}

#define BLANK "\xe2\x96\x81"
#define PAIR_LAST ",\"" BLANK " " BLANK "\""

/* Merges may change their order only if they make the same token, or if they make runs of blanks
 * and come before the pair of blanks. */
static void orders_of_merges(void **state)
{
    (void)state;
    static const struct {
        const char *was, *is;
        bool agree;
    } rows[] = {
        {"\"a b\",\"ab c\",\"a bc\"", "\"a b\",\"a bc\",\"ab c\"", true},
        {"\"a b\",\"c d\"", "\"c d\",\"a b\"", false},
        {"\"a b\"", "\"a b\",\"c d\"", false},
        {"\"a b\",\"" BLANK BLANK " " BLANK "\",\"" BLANK BLANK BLANK " " BLANK "\"" PAIR_LAST,
         "\"a b\",\"" BLANK BLANK BLANK " " BLANK "\",\"" BLANK BLANK " " BLANK "\"" PAIR_LAST,
         true},
        {"\"a b\",\"" BLANK BLANK " " BLANK "\"" PAIR_LAST,
         "\"a b\"" PAIR_LAST ",\"" BLANK BLANK " " BLANK "\"", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        json_object *was = pieces_with(rows[i].was), *is = pieces_with(rows[i].is);
        ey_err e;
        assert_int_equal(tokenizers_agree(was, is, "m", &e), rows[i].agree);
        if (!rows[i].agree) assert_non_null(strstr(e.text, "the order of merges"));
        json_object_put(was);
        json_object_put(is);
    }
}

static void sentencepiece_comes_back(void **state)
{
    (void)state;
    const char *seed = "tests/fuzz/corpus/gguf/sentencepiece.gguf", *folder = path_of("pieces"),
               *file = path_of("pieces.gguf");
    convert(seed, folder, true);
    assert_same_tokenizer(seed, folder);
    convert(folder, file, true);
    assert_same_tokenizer(seed, file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_of_integers),
        cmocka_unit_test(forms_of_fp4),
        cmocka_unit_test(vectors_narrow),
        cmocka_unit_test(plain_models_come_back),
        cmocka_unit_test(eight_bits_come_back),
        cmocka_unit_test(other_programs_layouts),
        cmocka_unit_test(float32_keeps_values),
        cmocka_unit_test(sixteen_bits_where_they_hold_values),
        cmocka_unit_test(empty_tensors_come_along),
        cmocka_unit_test(long_names_come_along),
        cmocka_unit_test(refuses_what_would_be_lost),
        cmocka_unit_test(small_files_come_along),
        cmocka_unit_test(keeps_the_sampling),
        cmocka_unit_test(keeps_the_template),
        cmocka_unit_test(refuses_other_tokenizers),
        cmocka_unit_test(refuses_other_normalizers),
        cmocka_unit_test(names_damaged_tokenizers),
        cmocka_unit_test(a_full_disk),
        cmocka_unit_test(names_the_mmproj_of_another_model),
        cmocka_unit_test(keeps_limits_of_pixels),
        cmocka_unit_test(orders_of_merges),
        cmocka_unit_test(sentencepiece_comes_back),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
