/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint directory: a single file, shards with an index, and each way in which the index can
 * be wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "checkpoint/checkpoint.h"
#include "temp_dir.h"

#define INDEX "model.safetensors.index.json"
#define ONE(name) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}"

static void expect_failure(const char *dir, ey_code code, const char *const parts[3])
{
    struct checkpoint *c = NULL;
    ey_err e = {0};
    bool ok = checkpoint_open(&c, dir, &e);
    if (ok) checkpoint_close(c);
    assert_false(ok);
    for (int i = 0; i < 3 && parts[i]; i++) {
        if (!strstr(e.text, parts[i])) print_error("\"%s\" lacks \"%s\"\n", e.text, parts[i]);
        assert_non_null(strstr(e.text, parts[i]));
    }
    assert_int_equal(e.code, code);
}

static void malformed_indexes(void **state)
{
    (void)state;
    static const struct {
        const char *index;
        const char *parts[3];
    } rows[] = {
        {"[", {INDEX, "not valid JSON"}},
        {"[]", {INDEX, "not a JSON object"}},
        {"{}", {INDEX, "weight_map"}},
        {"{\"weight_map\":[]}", {INDEX, "weight_map"}},
        {"{\"weight_map\":{\"a\":1}}", {INDEX, "tensor a", "its file is 1"}},
        {"{\"weight_map\":{\"a\":null}}", {INDEX, "tensor a", "null"}},
        {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}",
         {INDEX, "tensor a", "../one.safetensors"}},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", {INDEX, "tensor a", "/etc/passwd"}},
        {"{\"weight_map\":{\"a\":\"sub/one.safetensors\"}}",
         {INDEX, "tensor a", "sub/one.safetensors"}},
        {"{\"weight_map\":{\"a\":\"..\"}}", {INDEX, "tensor a", "\"..\""}},
        {"{\"weight_map\":{\"a\":\"\"}}", {INDEX, "tensor a", "\"\""}},
        {"{\"weight_map\":{\"a\":\"three.safetensors\"}}",
         {"three.safetensors", "tensor a", "no such file"}},
        {"{\"weight_map\":{\"a\":\"config.json\"}}", {"config.json"}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *dir = temp_dir_make();
        temp_text(dir, "config.json", "{}");
        temp_text(dir, INDEX, rows[i].index);
        temp_safetensors(dir, "one.safetensors", ONE("a"), 3);
        expect_failure(dir, EY_BAD_MODEL, rows[i].parts);
        temp_dir_remove(dir);
    }
}

static void incomplete_directories(void **state)
{
    (void)state;
    const char *dir = temp_dir_make();
    expect_failure(temp_path(dir, "absent"), EY_NOT_FOUND,
                   (const char *const[3]){"absent", "no such directory"});
    expect_failure(dir, EY_NOT_FOUND, (const char *const[3]){dir, "config.json"});
    temp_text(dir, "config.json", "{}");
    expect_failure(dir, EY_NOT_FOUND, (const char *const[3]){dir, "model.safetensors"});
    temp_link(dir, "model.safetensors", "blobs/gone"); /* an interrupted download */
    expect_failure(dir, EY_NOT_FOUND, (const char *const[3]){dir, "incomplete"});
    temp_text(dir, "config.json", "{\"a\": ");
    expect_failure(dir, EY_BAD_MODEL, (const char *const[3]){"config.json", "not valid JSON"});
    temp_text(dir, "config.json", "3");
    expect_failure(dir, EY_BAD_MODEL, (const char *const[3]){"config.json", "not a JSON object"});
    temp_dir_remove(dir);
}

static void single_file_through_a_link(void **state)
{
    (void)state;
    const char *dir = temp_dir_make();
    struct checkpoint *c;
    ey_err e;
    temp_safetensors(dir, "blobs/1234", ONE("a"), 3);
    temp_text(dir, "config.json", "{\"model_type\": \"x\"}");
    temp_link(dir, "model.safetensors", "blobs/1234");
    assert_true(checkpoint_open(&c, temp_path(dir, "/"), &e));
    assert_string_equal(checkpoint_directory(c), dir);
    assert_int_equal(checkpoint_count(c), 1);
    assert_int_equal(checkpoint_bytes(c), 3);
    assert_int_equal(checkpoint_find(c, "a")->data[2], 7);
    assert_null(checkpoint_find(c, "b"));
    assert_non_null(json_member(checkpoint_config(c), "model_type"));
    checkpoint_close(c);
    temp_dir_remove(dir);
}

static void shards_make_one_sorted_table(void **state)
{
    (void)state;
    const char *dir = temp_dir_make();
    struct checkpoint *c;
    ey_err e;
    temp_text(dir, "config.json", "{}");
    temp_safetensors(dir, "one.safetensors", ONE("z"), 3);
    temp_safetensors(dir, "two.safetensors",
                     "{\"a\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                     "\"not in the index\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[4,5]}}",
                     5);
    temp_text(dir, INDEX,
              "{\"metadata\":{\"total_size\":7},\"weight_map\":{\"z\":\"one.safetensors\",\"a\":"
              "\"two.safetensors\"}}");
    assert_true(checkpoint_open(&c, dir, &e));
    assert_int_equal(checkpoint_count(c), 3);
    assert_int_equal(checkpoint_bytes(c), 8);
    assert_string_equal(checkpoint_at(c, 0)->name, "a");
    assert_string_equal(checkpoint_at(c, 2)->name, "z");
    assert_null(checkpoint_at(c, 3));
    assert_non_null(checkpoint_find(c, "not in the index"));
    assert_non_null(strstr(checkpoint_find(c, "a")->file, "two.safetensors"));
    checkpoint_close(c);
    checkpoint_close(NULL);
    temp_dir_remove(dir);
}

/* Only the index is wrong: transformers loads these directories, and so does eyelet. */
static void stale_indexes(void **state)
{
    (void)state;
    static const struct {
        const char *what, *index;
        bool single; /* whether model.safetensors exists and has every tensor */
    } rows[] = {
        {"shards that are gone", "{\"weight_map\":{\"a\":\"gone.safetensors\"}}", true},
        {"not even an index", "[", true},
        {"shards swapped", "{\"weight_map\":{\"a\":\"two.safetensors\",\"b\":\"one.safetensors\"}}",
         false},
        {"a tensor that is nowhere",
         "{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"two.safetensors\","
         "\"tied\":\"two.safetensors\"}}",
         false},
        {"a tensor forgotten",
         "{\"weight_map\":{\"b\":\"two.safetensors\",\"x\":\"one.safetensors\"}}", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *dir = temp_dir_make();
        struct checkpoint *c;
        ey_err e;
        temp_text(dir, "config.json", "{}");
        temp_text(dir, INDEX, rows[i].index);
        if (rows[i].single)
            temp_safetensors(dir, "model.safetensors",
                             "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                             "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[3,6]}}",
                             6);
        else {
            temp_safetensors(dir, "one.safetensors", ONE("a"), 3);
            temp_safetensors(dir, "two.safetensors", ONE("b"), 3);
        }
        if (!checkpoint_open(&c, dir, &e)) fail_msg("%s: %s", rows[i].what, e.text);
        assert_int_equal(checkpoint_count(c), 2);
        assert_int_equal(checkpoint_bytes(c), 6);
        assert_true(checkpoint_find(c, "a") && checkpoint_find(c, "b"));
        checkpoint_close(c);
        temp_dir_remove(dir);
    }
}

/* If two shards have a tensor, the index selects one. */
static void a_tensor_in_two_shards(void **state)
{
    (void)state;
    static const char *const files[] = {"one.safetensors", "two.safetensors"};
    for (int i = 0; i < 2; i++) {
        const char *dir = temp_dir_make();
        char index[200];
        struct checkpoint *c;
        ey_err e;
        temp_text(dir, "config.json", "{}");
        for (int k = 0; k < 2; k++)
            temp_safetensors(dir, files[k], ONE("a"), 3);
        snprintf(index, sizeof(index),
                 "{\"weight_map\":{\"a\":\"%s\",\"x\":\"one.safetensors\","
                 "\"y\":\"two.safetensors\"}}",
                 files[i]);
        temp_text(dir, INDEX, index);
        assert_true(checkpoint_open(&c, dir, &e));
        assert_int_equal(checkpoint_count(c), 1);
        assert_int_equal(checkpoint_bytes(c), 3);
        assert_non_null(strstr(checkpoint_find(c, "a")->file, files[i]));
        checkpoint_close(c);
        temp_dir_remove(dir);
    }
}

/* `git clone` without LFS leaves these in place of large files. */
static void git_lfs_pointers(void **state)
{
    (void)state;
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n"
                                  "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2c"
                                  "a24d17e2393\nsize 4932307584\n";
    static const char *const files[] = {"model.safetensors", "config.json", INDEX};
    for (size_t i = 0; i < 3; i++) {
        const char *dir = temp_dir_make();
        temp_text(dir, "config.json", "{}");
        temp_text(dir, files[i], pointer);
        expect_failure(dir, EY_BAD_MODEL,
                       (const char *const[3]){files[i], "a Git LFS pointer", "git lfs pull"});
        temp_dir_remove(dir);
    }
}

static void other_json_files(void **state)
{
    (void)state;
    const char *dir = temp_dir_make();
    struct checkpoint *c;
    const json_object *value, *again;
    ey_err e;
    temp_text(dir, "config.json", "{}");
    temp_safetensors(dir, "model.safetensors", ONE("a"), 3);
    temp_text(dir, "good.json", "{\"k\": 5}");
    temp_text(dir, "bad.json", "{\"k\": }");
    assert_true(checkpoint_open(&c, dir, &e));
    assert_true(checkpoint_json(c, "good.json", &value, &e));
    assert_int_equal(json_object_get_int(json_member(value, "k")), 5);
    assert_true(checkpoint_json(c, "good.json", &again, &e));
    assert_ptr_equal(value, again);
    assert_true(checkpoint_json(c, "absent.json", &value, &e));
    assert_null(value);
    assert_false(checkpoint_json(c, "bad.json", &value, &e));
    assert_int_equal(e.code, EY_BAD_MODEL);
    assert_non_null(strstr(e.text, "bad.json"));
    checkpoint_close(c);
    temp_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_indexes),
        cmocka_unit_test(incomplete_directories),
        cmocka_unit_test(single_file_through_a_link),
        cmocka_unit_test(shards_make_one_sorted_table),
        cmocka_unit_test(stale_indexes),
        cmocka_unit_test(a_tensor_in_two_shards),
        cmocka_unit_test(git_lfs_pointers),
        cmocka_unit_test(other_json_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
