/* SPDX-License-Identifier: Apache-2.0 */
/* Names of models and the Hugging Face cache, in a cache of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/limits.h"
#include "checkpoint/hf_cache.h"
#include "temp_dir.h"

#define REPO "models--Qwen--Qwen3-VL-2B-Instruct-FP8"
#define NAME "Qwen/Qwen3-VL-2B-Instruct-FP8"

static char root[256];

static void only_set(const char *variable, const char *value)
{
    static const char *const all[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME",
                                      "XDG_CACHE_HOME", "HOME"};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        unsetenv(all[i]);
    if (variable) setenv(variable, value, 1);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "%s", temp_dir_make());
    only_set("HF_HUB_CACHE", root);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    temp_dir_remove(root);
    return 0;
}

static void make_repository(const char *repository, const char *reference, const char *commit,
                            const char *config)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/snapshots/%s/config.json", repository, commit);
    temp_text(root, path, config);
    snprintf(path, sizeof(path), "%s/snapshots/%s/model.safetensors", repository, commit);
    temp_text(root, path, "12345");
    if (!reference) return;
    snprintf(path, sizeof(path), "%s/refs/%s", repository, reference);
    temp_text(root, path, commit);
}

static void expect_found(const char *name, const char *relative)
{
    char found[EY_MAX_PATH];
    ey_err e = {0};
    bool ok = model_directory_find(found, name, &e);
    if (!ok) print_error("%s\n", e.text);
    assert_true(ok);
    assert_string_equal(found, temp_path(root, relative));
}

static void expect_missing(const char *name, const char *part, const char *other_part)
{
    char found[EY_MAX_PATH];
    ey_err e = {0};
    assert_false(model_directory_find(found, name, &e));
    assert_int_equal(e.code, EY_NOT_FOUND);
    if (!strstr(e.text, part) || !strstr(e.text, other_part)) print_error("%s\n", e.text);
    assert_non_null(strstr(e.text, part));
    assert_non_null(strstr(e.text, other_part));
}

static void revisions(void **state)
{
    (void)state;
    make_repository(REPO, "main", "aaaa1111", "{}");
    make_repository(REPO, "v2", "bbbb2222", "{}");
    temp_text(root, REPO "/refs/newline", "aaaa1111\n");
    temp_text(root, REPO "/refs/broken", "cccc3333");
    temp_text(root, REPO "/refs/climbs", "../../other");
    expect_found(NAME, REPO "/snapshots/aaaa1111");
    expect_found(NAME "@v2", REPO "/snapshots/bbbb2222");
    expect_found(NAME "@newline", REPO "/snapshots/aaaa1111");
    expect_found(NAME "@bbbb2222", REPO "/snapshots/bbbb2222");
    expect_missing(NAME "@v3", "revision v3", "eyelet pull " NAME " --revision v3");
    expect_missing(NAME "@broken", "revision broken", "broken off");
    expect_missing(NAME "@climbs", "revision climbs", "eyelet pull");
}

static void without_a_reference_the_only_snapshot_counts(void **state)
{
    (void)state;
    make_repository(REPO, NULL, "aaaa1111", "{}");
    expect_found(NAME, REPO "/snapshots/aaaa1111");
    make_repository(REPO, NULL, "bbbb2222", "{}");
    expect_missing(NAME, "revision main", "eyelet pull " NAME);
}

static void directories_are_taken_as_they_are(void **state)
{
    (void)state;
    char found[EY_MAX_PATH], here[EY_MAX_PATH];
    assert_non_null(getcwd(here, sizeof(here)));
    temp_text(root, "own/model/config.json", "{}");
    assert_int_equal(chdir(root), 0);
    assert_true(model_directory_find(found, "own/model", NULL));
    assert_string_equal(found, "own/model");
    assert_true(model_directory_find(found, root, NULL));
    assert_int_equal(chdir(here), 0);
}

static void names_that_are_nothing(void **state)
{
    (void)state;
    expect_missing(NAME, NAME " is not a directory and not in the Hugging Face cache (",
                   "eyelet pull " NAME ",");
    expect_missing(NAME, root, "--model");
    expect_missing(NAME "@x", "eyelet pull " NAME " --revision x,", root);
    expect_missing("/no/such", "/no/such", "no such directory");
    expect_missing("./no", "./no", "no such directory");
    expect_missing("~/no", "~/no", "no such directory");
    expect_missing("a/b/c", "a/b/c", "neither");
    expect_missing("a/../b", "a/../b", "neither");
    expect_missing("a/..", "a/..", "neither");
    expect_missing("a/b@../../c", "@../../c", "neither");
    expect_missing("a/b@", "a/b@", "neither");
    expect_missing("a b/c", "a b/c", "neither");
    expect_missing("", "\"\" is neither", "owner/name");
}

static void where_the_cache_is(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *relative;
    } rows[] = {{"HF_HUB_CACHE", ""},
                {"HUGGINGFACE_HUB_CACHE", ""},
                {"HF_HOME", "hub/"},
                {"XDG_CACHE_HOME", "huggingface/hub/"},
                {"HOME", ".cache/huggingface/hub/"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char repository[256], snapshot[300];
        snprintf(repository, sizeof(repository), "%s" REPO, rows[i].relative);
        snprintf(snapshot, sizeof(snapshot), "%s/snapshots/aaaa1111", repository);
        make_repository(repository, "main", "aaaa1111", "{}");
        only_set(rows[i].variable, root);
        expect_found(NAME, snapshot);
        setenv("HOME", root, 1); /* the others go before it; a "~" is it */
        expect_found(NAME, snapshot);
        if (i < 4) setenv(rows[i].variable, "~", 1);
        expect_found(NAME, snapshot);
    }
    only_set(NULL, NULL);
    expect_missing(NAME, "HF_HOME", "--model");
}

static void listing(void **state)
{
    (void)state;
    struct model_listing *list;
    size_t n;
    ey_err e;
    make_repository(
        REPO, "main", "aaaa1111",
        "{\"architectures\": [\"Qwen3VLForConditionalGeneration\"], \"text_config\": "
        "{\"dtype\": \"bfloat16\"}, \"quantization_config\": {\"quant_method\": \"fp8\"}}");
    make_repository("models--Qwen--Qwen2.5-3B", "main", "aaaa1111",
                    "{\"torch_dtype\": \"bfloat16\"}");
    make_repository("models--gpt2", NULL, "aaaa1111", "{\"damaged\"");
    make_repository("datasets--a--b", "main", "aaaa1111", "{}");
    temp_text(root, "models--no--snapshot/refs/main", "aaaa1111");
    temp_text(root, "version.txt", "1");
    assert_true(model_list(&list, &n, &e));
    assert_int_equal(n, 3);
    assert_string_equal(list[0].name, "Qwen/Qwen2.5-3B");
    assert_string_equal(list[0].quantization, "bf16");
    assert_null(list[0].architecture);
    assert_string_equal(list[1].name, NAME);
    assert_string_equal(list[1].quantization, "fp8");
    assert_string_equal(list[1].architecture, "Qwen3VLForConditionalGeneration");
    assert_string_equal(list[1].directory, temp_path(root, REPO "/snapshots/aaaa1111"));
    assert_int_equal(list[1].bytes, 5);
    assert_string_equal(list[2].name, "gpt2");
    assert_null(list[2].quantization);
    model_list_free(list, n);
}

static void an_absent_cache_is_an_empty_list(void **state)
{
    (void)state;
    struct model_listing *list;
    size_t n = 9;
    ey_err e;
    only_set("HF_HUB_CACHE", "/nowhere");
    assert_true(model_list(&list, &n, &e));
    assert_int_equal(n, 0);
    only_set(NULL, NULL);
    assert_true(model_list(&list, &n, &e));
    assert_int_equal(n, 0);
    model_list_free(list, n);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(revisions),
        CASE(without_a_reference_the_only_snapshot_counts),
        CASE(directories_are_taken_as_they_are),
        CASE(names_that_are_nothing),
        CASE(where_the_cache_is),
        CASE(listing),
        CASE(an_absent_cache_is_an_empty_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
