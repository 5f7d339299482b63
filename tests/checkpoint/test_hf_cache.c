/* SPDX-License-Identifier: Apache-2.0 */
/* Model names and the Hugging Face cache, in a temporary cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/limits.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf/gguf_files.h"
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
    expect_missing(NAME "@broken", "revision broken", "interrupted");
    expect_missing(NAME "@climbs", "revision climbs", "eyelet pull");
}

/* A short name finds the FP8 repository, else the BF16 one. */
static void short_names(void **state)
{
    (void)state;
    expect_missing("qwen3-vl:2b-thinking", "qwen3-vl:2b-thinking", "");
    make_repository("models--Qwen--Qwen3-VL-2B-Thinking", "main", "0123", "{}");
    expect_found("qwen3-vl:2b-thinking", "models--Qwen--Qwen3-VL-2B-Thinking/snapshots/0123");
    make_repository("models--Qwen--Qwen3-VL-2B-Thinking-FP8", "main", "4567", "{}");
    expect_found("Qwen3-VL:2B-thinking", "models--Qwen--Qwen3-VL-2B-Thinking-FP8/snapshots/4567");
}

static void without_a_reference_the_only_snapshot_counts(void **state)
{
    (void)state;
    make_repository(REPO, NULL, "aaaa1111", "{}");
    expect_found(NAME, REPO "/snapshots/aaaa1111");
    make_repository(REPO, NULL, "bbbb2222", "{}");
    expect_missing(NAME, "revision main", "eyelet pull " NAME);
}

static void directories_need_no_cache(void **state)
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

static void unknown_names_are_errors(void **state)
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
        setenv("HOME", root, 1); /* the other variables override HOME, and "~" in them means it */
        expect_found(NAME, snapshot);
        if (i < 4) setenv(rows[i].variable, "~", 1);
        expect_found(NAME, snapshot);
    }
    only_set(NULL, NULL);
    expect_missing(NAME, "HF_HOME", "--model");
    char *endless = calloc(1, EY_MAX_PATH + 1);
    memset(endless, 'a', EY_MAX_PATH);
    only_set("HF_HOME", endless);
    setenv("HOME", root, 1);
    expect_missing(NAME, "from HF_HOME", "is longer than");
    free(endless);
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

/* ---- GGUF files ---- */

#define SEED "tests/fuzz/corpus/gguf/byte-level.gguf"

/* Links to a valid file. */
static void link_gguf(const char *relative)
{
    char here[EY_MAX_PATH], target[EY_MAX_PATH + sizeof(SEED) + 1];
    assert_non_null(getcwd(here, sizeof(here)));
    snprintf(target, sizeof(target), "%s/%s", here, SEED);
    temp_link(root, relative, target);
}

#define GGUF_REPO "models--Org--Small-GGUF"
#define SNAPSHOT GGUF_REPO "/snapshots/aaaa1111/"

static void gguf_files_by_tags(void **state)
{
    (void)state;
    temp_text(root, GGUF_REPO "/refs/main", "aaaa1111");
    link_gguf(SNAPSHOT "Small-BF16.gguf");
    link_gguf(SNAPSHOT "Small-Q4_K_M.gguf");
    link_gguf(SNAPSHOT "Small-Q4_K_M_L.gguf");
    link_gguf(SNAPSHOT "Small-Q8_0-00001-of-00002.gguf");
    link_gguf(SNAPSHOT "Small-Q8_0-00002-of-00002.gguf");
    link_gguf(SNAPSHOT "mmproj-F16.gguf");
    expect_found("Org/Small-GGUF", SNAPSHOT "Small-Q4_K_M.gguf");
    expect_found("Org/Small-GGUF:q4_k_m", SNAPSHOT "Small-Q4_K_M.gguf");
    expect_found("hf.co/Org/Small-GGUF:Q8_0@aaaa1111", SNAPSHOT "Small-Q8_0-00001-of-00002.gguf");
    expect_found("Org/Small-GGUF:BF16", SNAPSHOT "Small-BF16.gguf");
    expect_missing("Org/Small-GGUF:F16", "no GGUF file has the tag F16",
                   "the tags are: BF16, Q4_K_M, Q4_K_M_L, Q8_0");
    expect_missing("Org/Small-GGUF:Q4_K", "has the tag Q4_K;", "the tags are:");
    expect_missing("Org/Absent:Q4_K_M", "not in the Hugging Face cache",
                   "eyelet pull Org/Absent:Q4_K_M");
}

static bool count_file(void *n, const char *path)
{
    (void)path;
    ++*(int *)n;
    return true;
}

static void folders_of_gguf_files(void **state)
{
    (void)state;
    char found[EY_MAX_PATH];
    ey_err e;
    link_gguf("own/m-Q4_0.gguf");
    snprintf(found, sizeof(found), "%s", temp_path(root, "own"));
    expect_found(found, "own/m-Q4_0.gguf");
    link_gguf("own/m-Q8_0.gguf");
    assert_false(model_directory_find(found, temp_path(root, "own"), &e));
    assert_non_null(strstr(e.text, "several GGUF files; give the path of one (tags: Q4_0, Q8_0)"));
    expect_found(temp_path(root, "own/m-Q8_0.gguf"), "own/m-Q8_0.gguf");
    for (int i = 0; i < 1100; i++) {
        char name[32];
        snprintf(name, sizeof(name), "many/m-%d.gguf", i);
        link_gguf(name);
    }
    int n = 0;
    assert_true(gguf_each_file(temp_path(root, "many"), count_file, &n));
    assert_int_equal(n, 1100);
}

#define DIGEST "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void write_manifest(const char *relative, const char *digest, const char *kind, int size)
{
    char text[512];
    snprintf(text, sizeof(text),
             "{\"layers\":[{\"mediaType\":\"application/vnd.ollama.image.%s\",\"digest\":\"%s\","
             "\"size\":%d},{\"mediaType\":\"application/vnd.ollama.image.license\"}]}",
             kind, digest, size);
    temp_text(root, relative, text);
}

/* Opens a manifest and returns the error message, "" on success. */
static const char *opening(const char *relative)
{
    static ey_err e;
    struct checkpoint *c = NULL;
    if (checkpoint_open(&c, temp_path(root, relative), &e)) e.text[0] = 0;
    checkpoint_close(c);
    return e.text;
}

#define STORE_LIBRARY "manifests/registry.ollama.ai/library/"
#define LIBRARY "ollama/" STORE_LIBRARY

static void ollama_and_lm_studio(void **state)
{
    (void)state;
    struct model_listing *list;
    size_t n;
    ey_err e;
    char ollama[EY_MAX_PATH];
    snprintf(ollama, sizeof(ollama), "%s", temp_path(root, "ollama"));
    setenv("OLLAMA_MODELS", ollama, 1);
    setenv("HOME", root, 1);
    link_gguf("ollama/blobs/sha256-" DIGEST);
    write_manifest(LIBRARY "small/4b", "sha256:" DIGEST, "model", 24480);
    write_manifest(LIBRARY "small/latest", "sha256-" DIGEST, "model", 24481);
    write_manifest(LIBRARY "small/out", "sha256:../../../../etc/passwd", "model", 3);
    write_manifest(LIBRARY "small/lora", "sha256:" DIGEST, "adapter", 24480);
    write_manifest("ollama/manifests/hf.co/Org/Other/Q4_0", "sha256:" DIGEST, "model", 24480);
    link_gguf(".lmstudio/models/pub/Small/Small-Q4_0.gguf");
    expect_found("small:4b", LIBRARY "small/4b");
    expect_found("small", LIBRARY "small/latest");
    expect_found("hf.co/Org/Other:Q4_0", "ollama/manifests/hf.co/Org/Other/Q4_0");
    expect_found("pub/Small:q4_0", ".lmstudio/models/pub/Small/Small-Q4_0.gguf");
    expect_missing("small:8b", "Ollama or LM Studio", "eyelet pull downloads");
    expect_missing("../small:4b", "", "");
    assert_string_equal(opening(LIBRARY "small/4b"), "");
    link_gguf("manifests/store/blobs/sha256-" DIGEST); /* a store below a folder of that name */
    write_manifest("manifests/store/" STORE_LIBRARY "manifests/4b", "sha256:" DIGEST, "model",
                   24480);
    assert_string_equal(opening("manifests/store/" STORE_LIBRARY "manifests/4b"), "");
    link_gguf("manifests/own/small.gguf"); /* a GGUF file, though its folder is named manifests */
    assert_string_equal(opening("manifests/own/small.gguf"), "");
    assert_non_null(
        strstr(opening(LIBRARY "small/latest"), "has 24480 bytes, but the manifest says 24481"));
    assert_non_null(strstr(opening(LIBRARY "small/out"), "is not the digest of a blob"));
    assert_non_null(
        strstr(opening(LIBRARY "small/lora"), "models with an adapter are not supported"));
    assert_true(model_list(&list, &n, &e));
    assert_int_equal(n, 6);
    assert_string_equal(list[0].name, "hf.co/Org/Other:Q4_0");
    assert_string_equal(list[1].name, "pub/Small:Q4_0");
    assert_string_equal(list[1].architecture, "LlamaForCausalLM");
    assert_string_equal(list[1].quantization, "Q4_0");
    assert_int_equal(list[1].bytes, 24480);
    assert_string_equal(list[2].name, "small:4b");
    model_list_free(list, n);
    unsetenv("OLLAMA_MODELS");
    unsetenv("HOME");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(revisions),
        CASE(short_names),
        CASE(without_a_reference_the_only_snapshot_counts),
        CASE(directories_need_no_cache),
        CASE(unknown_names_are_errors),
        CASE(where_the_cache_is),
        CASE(listing),
        CASE(an_absent_cache_is_an_empty_list),
        CASE(gguf_files_by_tags),
        CASE(folders_of_gguf_files),
        CASE(ollama_and_lm_studio),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
