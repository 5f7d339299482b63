/* SPDX-License-Identifier: Apache-2.0 */
/* mkcheckpoint writes checkpoints that open and have the right tensors, independent of the number
 * of threads. Wrong command lines leave no files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/checkpoint.h"
#include "temp_dir.h"

#define PINNED 0x223ae4644d927d11u

static char root[256];

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "%s", temp_dir_make());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    temp_dir_remove(root);
    return 0;
}

/* Returns the exit status; root/said gets the output. */
static int run(const char *arguments, const char *dir)
{
    char command[1024];
    snprintf(command, sizeof(command), MKCHECKPOINT " %s '%s/%s' >'%s/said' 2>&1", arguments, root,
             dir, root);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool said(const char *part)
{
    char *text;
    size_t n;
    assert_true(file_read(&text, &n, temp_path(root, "said"), 1 << 20, NULL));
    bool found = strstr(text, part);
    if (!found) print_error("said: %s", text);
    free(text);
    return found;
}

static struct checkpoint *open_made(const char *arguments, const char *dir)
{
    struct checkpoint *c = NULL;
    ey_err e = {0};
    int status = run(arguments, dir);
    if (status != 0) said("nothing");
    assert_int_equal(status, 0);
    bool ok = checkpoint_open(&c, temp_path(root, dir), &e);
    if (!ok) print_error("%s\n", e.text);
    assert_true(ok);
    return c;
}

/* ---- every kind ---- */

static const struct {
    const char *kind;
    size_t tensors;
    uint64_t bytes; /* 0: not checked */
    const char *tensor;
    enum dtype dtype;
    int64_t rows, cols;
} kinds[] = {
    {"qwen3-vl-2b-bf16", 625, 4255064064, "model.language_model.layers.27.mlp.down_proj.weight",
     DTYPE_BF16, 2048, 6144},
    {"qwen3-vl-4b-bf16", 713, 8875631616, "model.language_model.layers.35.self_attn.o_proj.weight",
     DTYPE_BF16, 2560, 4096},
    {"qwen3-vl-8b-bf16", 750, 17534247392, "model.visual.blocks.26.mlp.linear_fc1.weight",
     DTYPE_BF16, 4304, 1152},
    {"qwen3-vl-2b-fp8", 625 + 196, 2845777920 + 172032,
     "model.language_model.layers.0.mlp.up_proj.weight", DTYPE_F8_E4M3, 6144, 2048},
    {"qwen3-vl-4b-fp8", 713 + 252, 5242315776 + 443520,
     "model.language_model.layers.0.mlp.up_proj.weight_scale_inv", DTYPE_BF16, 76, 20},
    {"qwen3-vl-8b-fp8", 750 + 252, 10588479968 + 847872, "lm_head.weight", DTYPE_BF16, 151936,
     4096},
    {"tiny-gqa4-fp8", 131, 0, "model.language_model.layers.2.self_attn.q_proj.weight",
     DTYPE_F8_E4M3, 1024, 256},
    {"tiny-gqa4-bf16", 110, 0, "model.language_model.layers.2.self_attn.q_proj.weight", DTYPE_BF16,
     1024, 256},
    {"tiny-gqa4-f16", 110, 0, "model.visual.pos_embed.weight", DTYPE_F16, 2304, 128},
    {"tiny-gqa4-f32", 110, 0, "model.visual.pos_embed.weight", DTYPE_F32, 2304, 128},
    {"tiny-ragged-fp8", 131, 0, "model.language_model.layers.1.mlp.gate_proj.weight_scale_inv",
     DTYPE_F32, 3, 2},
    {"tiny-untied-bf16", 122, 0, "lm_head.weight", DTYPE_BF16, 1536, 256},
    {"tiny-head72-bf16", 111, 0, "model.visual.blocks.3.mlp.linear_fc2.weight", DTYPE_BF16, 144,
     272},
    {"tiny-shards-fp8", 132, 0, "model.language_model.layers.0.mlp.down_proj.weight_scale_inv",
     DTYPE_F16, 2, 4},
    {"tiny-old-bf16", 110, 0, "visual.deepstack_merger_list.2.linear_fc2.weight", DTYPE_BF16, 256,
     512},
};

static void check_json_files(struct checkpoint *c)
{
    static const char *const names[] = {"generation_config.json", "preprocessor_config.json",
                                        "video_preprocessor_config.json", "tokenizer.json",
                                        "tokenizer_config.json"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const json_object *value = NULL;
        ey_err e = {0};
        if (!checkpoint_json(c, names[i], &value, &e)) print_error("%s\n", e.text);
        assert_non_null(value);
    }
    assert_non_null(json_member(checkpoint_config(c), "vision_config"));
}

static void every_kind_opens(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        char arguments[128];
        snprintf(arguments, sizeof(arguments), "--sparse --like %s", kinds[i].kind);
        struct checkpoint *c = open_made(arguments, kinds[i].kind);
        const struct tensor_view *t = checkpoint_find(c, kinds[i].tensor);
        assert_non_null(t);
        assert_int_equal(t->dtype, kinds[i].dtype);
        assert_int_equal(t->shape[0], kinds[i].rows);
        assert_int_equal(t->shape[1], kinds[i].cols);
        assert_int_equal(checkpoint_count(c), kinds[i].tensors);
        if (kinds[i].bytes) assert_int_equal(checkpoint_bytes(c), kinds[i].bytes);
        check_json_files(c);
        checkpoint_close(c);
    }
}

/* ---- values ---- */

static void assert_same_tensors(const struct checkpoint *a, const struct checkpoint *b)
{
    assert_int_equal(checkpoint_count(a), checkpoint_count(b));
    for (size_t i = 0; i < checkpoint_count(a); i++) {
        const struct tensor_view *x = checkpoint_at(a, i), *y = checkpoint_find(b, x->name);
        assert_non_null(y);
        assert_memory_equal(x->data, y->data, x->size);
    }
}

static void threads_and_shards_change_no_value(void **state)
{
    (void)state;
    struct checkpoint *one = open_made("--like tiny-ragged-fp8 --seed 5 --threads 1", "one");
    struct checkpoint *many = open_made("--like tiny-ragged-fp8 --seed 5 --threads 9 --shards 5",
                                        "many");
    struct checkpoint *other = open_made("--like tiny-ragged-fp8 --seed 6", "other");
    assert_same_tensors(one, many);
    const struct tensor_view *a = checkpoint_at(one, 0), *b = checkpoint_at(other, 0);
    assert_memory_not_equal(a->data, b->data, a->size);
    checkpoint_close(one);
    checkpoint_close(many);
    checkpoint_close(other);
}

/* The bytes are part of the contract: every machine, compiler and version writes the same. FNV-1a
 * of all tensors. */
static void values_are_pinned(void **state)
{
    (void)state;
    struct checkpoint *c = open_made("--like tiny-gqa4-fp8 --seed 1", "pinned");
    uint64_t hash = FNV1A_64_START;
    for (size_t i = 0; i < checkpoint_count(c); i++) {
        const struct tensor_view *t = checkpoint_at(c, i);
        hash = fnv1a_64(hash, t->data, t->size);
    }
    if (hash != PINNED) print_error("0x%llx\n", (unsigned long long)hash);
    assert_true(hash == PINNED);
    checkpoint_close(c);
}

static void fp8_codes_fill_their_range(void **state)
{
    (void)state;
    struct checkpoint *c = open_made("--like tiny-gqa4-fp8", "codes");
    const struct tensor_view *t = checkpoint_find(
        c, "model.language_model.layers.0.self_attn.q_proj.weight");
    size_t seen[256] = {0}, distinct = 0, subnormal = 0;
    for (size_t i = 0; i < t->size; i++)
        distinct += seen[t->data[i]]++ == 0;
    assert_int_equal(seen[0x7F] + seen[0xFF], 0); /* NaN */
    assert_true(seen[0x7E] + seen[0xFE] > 0);     /* ±448 */
    for (int code = 1; code < 8; code++)
        subnormal += seen[code] + seen[0x80 + code];
    assert_true(subnormal > 0);
    assert_true(distinct > 235);
    checkpoint_close(c);
}

static void a_stored_tied_head_is_the_embedding(void **state)
{
    (void)state;
    struct checkpoint *c = open_made("--like tiny-shards-fp8", "tied");
    const struct tensor_view *head = checkpoint_find(c, "lm_head.weight");
    const struct tensor_view *embedding = checkpoint_find(
        c, "model.language_model.embed_tokens.weight");
    assert_memory_equal(head->data, embedding->data, head->size);
    assert_string_not_equal(head->file, embedding->file);
    checkpoint_close(c);
}

/* ---- mistakes ---- */

static void mistakes_leave_nothing_behind(void **state)
{
    (void)state;
    temp_text(root, "full/file", "x");
    temp_text(root, "bad.json", "{\"model\": {\"vocab\": {}}}");
    char with_tokenizer[512];
    snprintf(with_tokenizer, sizeof(with_tokenizer), "--like tiny-old-bf16 --tokenizer %s/bad.json",
             root);
    const struct {
        const char *arguments, *dir, *part;
    } rows[] = {
        {"--like no-such", "new", "no-such: no such kind"},
        {"", "new", "--like KIND is missing"},
        {"--like tiny-old-bf16 --seed -1", "new", "--seed -1"},
        {"--like tiny-old-bf16 --shards 0", "new", "--shards 0"},
        {"--like tiny-old-bf16 two", "new", "one directory"},
        {"--like tiny-old-bf16", "full", "not empty"},
        {"--like tiny-old-bf16", "no/such", "the directory cannot be created"},
        {"--like tiny-old-bf16 --tokenizer /nowhere", "new", "/nowhere"},
        {with_tokenizer, "new", "<|endoftext|>"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_not_equal(run(rows[i].arguments, rows[i].dir), 0);
        assert_true(said(rows[i].part));
        assert_false(path_is_directory(temp_path(root, "new")));
    }
    assert_true(path_is_file(temp_path(root, "full/file")));
}

/* A file size limit stands in for a full disk. */
static void a_write_that_fails_is_undone(void **state)
{
    (void)state;
    char command[1024];
    snprintf(command, sizeof(command),
             "ulimit -f 4000; " MKCHECKPOINT " --like tiny-old-bf16 %s/new >%s/said 2>&1", root,
             root);
    assert_int_not_equal(system(command), 0);
    assert_true(said("model.safetensors"));
    assert_false(path_is_directory(temp_path(root, "new")));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(every_kind_opens),
        CASE(threads_and_shards_change_no_value),
        CASE(values_are_pinned),
        CASE(fp8_codes_fill_their_range),
        CASE(a_stored_tied_head_is_the_embedding),
        CASE(mistakes_leave_nothing_behind),
        CASE(a_write_that_fails_is_undone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
