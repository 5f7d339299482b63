/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json files that must be refused, each with its own message, and variants that must
 * open. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "checkpoint/temp_dir.h"
#include "tokenizer/tok_fixture.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The small tokenizer with one member replaced: `path` is "member" or "model.member"; value NULL
 * removes it. `message` must be in the error; NULL: the file opens. */
static const struct {
    const char *path, *value, *message;
} rows[] = {
    {"normalizer", "null", NULL},
    {"normalizer", "{\"type\":\"NFKC\"}", "normalizer is \"NFKC\", which is not supported"},
    {"normalizer",
     "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"_\"},{\"type\":"
     "\"Replace\"}]}",
     "normalizer is \"Sequence of Prepend, Replace\""},
    {"normalizer", "3", "normalizer is \"(no type)\""},
    {"pre_tokenizer", "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}", NULL},
    {"pre_tokenizer", "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}",
     "pre_tokenizer: add_prefix_space is true"},
    {"pre_tokenizer", "{\"type\":\"ByteLevel\",\"use_regex\":false}",
     "ByteLevel without a pattern"},
    {"pre_tokenizer", "null", "pre_tokenizer is \"null\""},
    {"pre_tokenizer", "{\"type\":\"Metaspace\"}", "pre_tokenizer is \"Metaspace\""},
    {"pre_tokenizer",
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true},"
     "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}]}",
     NULL},
    {"pre_tokenizer",
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},{\"type\":\"ByteLevel\"}]}",
     "pre_tokenizer: Digits: individual_digits is false"},
    {"pre_tokenizer",
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Removed\"},{"
     "\"type\":\"ByteLevel\",\"use_regex\":false}]}",
     "Split: behavior is \"Removed\""},
    {"pre_tokenizer",
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\","
     "\"invert\":true},{\"type\":\"ByteLevel\",\"use_regex\":false}]}",
     "Split: invert is true"},
    {"pre_tokenizer",
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\","
     "\"pattern\":{\"String\":\" \"}},{\"type\":\"ByteLevel\",\"use_regex\":false}]}",
     "the pattern of Split has no Regex"},
    {"pre_tokenizer",
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\","
     "\"pattern\":{\"Regex\":\"(a\"}},{\"type\":\"ByteLevel\",\"use_regex\":false}]}",
     "pre_tokenizer pattern: at byte 2"},
    {"pre_tokenizer",
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\","
     "\"pattern\":{\"Regex\":\"\\\\w+\"}},{\"type\":\"ByteLevel\",\"use_regex\":false}]}",
     "\"\\w\" at byte 0 is not supported"},
    {"pre_tokenizer",
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\","
     "\"pattern\":{\"Regex\":\"a\"}},{\"type\":\"ByteLevel\"}]}",
     "use_regex after a Split"},
    {"post_processor", "null", NULL},
    {"post_processor",
     "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\"}},"
     "{\"SpecialToken\":{\"id\":\"<|im_end|>\"}}]}",
     "post_processor is \"TemplateProcessing\""},
    {"post_processor", "{\"type\":\"Sequence\",\"processors\":[{\"type\":\"BertProcessing\"}]}",
     "post_processor is \"Sequence of BertProcessing\""},
    {"post_processor", "{\"type\":\"TemplateProcessing\"}",
     "post_processor is \"TemplateProcessing\""},
    {"decoder", "{\"type\":\"Sequence\"}", "decoder is \"Sequence\""},
    {"decoder", NULL, "decoder is \"null\""},
    {"model", "3", "model is \"(no type)\""},
    {"model", NULL, "model is \"null\""},
    {"model.type", "\"Unigram\"", "model is \"Unigram\", which is not supported (supported: BPE)"},
    {"model.dropout", "0.1", "dropout is 0.1"},
    {"model.byte_fallback", "true", "model: byte_fallback is true"},
    {"model.byte_fallback", "\"no\"", "byte_fallback is \"no\""},
    {"model.end_of_word_suffix", "\"</w>\"", "end_of_word_suffix is \"</w>\""},
    {"model.continuing_subword_prefix", "null", NULL},
    {"model.ignore_merges", "true", NULL},
    {"model.vocab", "[]", "model.vocab is not an object"},
    {"model.vocab", "{}", "no token for the byte 0x00"},
    {"model.vocab", "{\"a\":-1}",
     "model.vocab: \"a\" has id -1; it must be an integer from 0 to 1048575"},
    {"model.vocab", "{\"a\":1048576}", "\"a\" has id 1048576"},
    {"model.vocab", "{\"a\":99999999999999999999}", "\"a\" has id 18446744073709551615"},
    {"model.vocab", "{\"a\":1.5}", "\"a\" has id 1.5"},
    {"model.vocab", "{\"a\":\"1\"}", "\"a\" has id \"1\""},
    {"model.vocab", "{\"\":1}", "model.vocab has an empty token"},
    {"model.vocab", "{\"a\":7,\"b\":7}", "\"b\" has id 7, which is already that of \"a\""},
    {"model.merges", NULL, "model.merges is not an array"},
    {"model.merges", "[\"h e\"]", NULL},
    {"model.merges", "[\"he\"]", "model.merges[0] is \"he\"; it must be"},
    {"model.merges", "[\"h e l\"]", "model.merges[0] is \"h e l\""},
    {"model.merges", "[\" e\"]", "model.merges[0]"},
    {"model.merges", "[[\"h\",\"e\"],[\"h\"]]", "model.merges[1] is [\"h\"]"},
    {"model.merges", "[[\"h\",3]]", "model.merges[0]"},
    {"model.merges", "[3]", "model.merges[0] is 3"},
    {"model.merges", "[\"q he\"]",
     "model.merges[0]: the result of \"q\" and \"he\" is not in model.vocab"},
    {"model.merges", "[\"h ee\"]", "model.merges[0]: \"ee\" is not in model.vocab"},
    {"model.merges", "[[\"h e\",\"e\"]]", "model.merges[0]: \"h e\" is not in model.vocab"},
    {"added_tokens", "[]", NULL},
    {"added_tokens", "null", NULL},
    {"added_tokens", "{}", "added_tokens is not an array"},
    {"added_tokens", "[3]", "added_tokens: id is absent"},
    {"added_tokens", "[{\"id\":300}]", "added_tokens: the token with id 300 has no content"},
    {"added_tokens", "[{\"id\":300,\"content\":\"\"}]", "added_tokens has an empty token"},
    {"added_tokens", "[{\"id\":-3,\"content\":\"x\"}]", "added_tokens: id is -3"},
    {"added_tokens", "[{\"id\":1048576,\"content\":\"x\"}]", "added_tokens: id is 1048576"},
    {"added_tokens", "[{\"id\":1048575,\"content\":\"<x>\"}]", NULL},
    {"added_tokens", "[{\"id\":300,\"content\":\"<x>\",\"special\":1}]",
     "added_tokens: special is 1"},
    {"added_tokens", "[{\"id\":300,\"content\":\"<x>\"},{\"id\":300,\"content\":\"<y>\"}]",
     "\"<y>\" has id 300, which is already that of \"<x>\""},
    {"added_tokens", "[{\"id\":300,\"content\":\"<x>\"},{\"id\":301,\"content\":\"<x>\"}]",
     "added_tokens: \"<x>\" is listed twice"},
    {"added_tokens", "[{\"id\":97,\"content\":\"<x>\"}]",
     "\"<x>\" has id 97, which is already that of \"a\""},
    {"added_tokens", "[{\"id\":260,\"content\":\"hello\"}]", NULL},
    {"added_tokens", "[{\"id\":300,\"content\":\"hello\"}]",
     "\"hello\" has id 300, but model.vocab gives it 260"},
};

static json_object *small_json(void)
{
    ey_err e;
    json_object *root = json_parse_file(SMALL_DIR "/tokenizer.json", EY_BAD_MODEL, &e);
    if (!root) fail_msg("%s", e.text);
    return root;
}

static void replace_member(json_object *root, const char *path, const char *value)
{
    bool in_model = !strncmp(path, "model.", 6);
    json_object *object = in_model ? json_member(root, "model") : root;
    const char *key = in_model ? path + 6 : path;
    if (value)
        json_object_object_add(object, key, json_tokener_parse(value));
    else
        json_object_object_del(object, key);
}

static bool open_text(const char *text, size_t n, ey_err *e)
{
    struct tokenizer *tok = NULL;
    bool ok = tokenizer_open_memory(&tok, text, n, "file.json", e);
    assert_true(ok == (tok != NULL));
    tokenizer_close(tok);
    return ok;
}

static void check_row(size_t i)
{
    ey_err e = {0};
    json_object *root = small_json();
    replace_member(root, rows[i].path, rows[i].value);
    const char *text = json_object_to_json_string(root);
    bool ok = open_text(text, strlen(text), &e);
    json_object_put(root);
    if (ok != !rows[i].message)
        fail_msg("%s = %s: %s", rows[i].path, rows[i].value, ok ? "opened" : e.text);
    if (ok) return;
    assert_int_equal(e.code, EY_BAD_MODEL);
    if (!strstr(e.text, rows[i].message) || strncmp(e.text, "file.json: ", 11))
        fail_msg("%s = %s: \"%s\" has no \"%s\"", rows[i].path, rows[i].value, e.text,
                 rows[i].message);
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        check_row(i);
}

/* Merges written as "A B" have the same effect. */
static void test_merges_as_strings(void **state)
{
    (void)state;
    static const char text[] = "  hello   world, the thing\n\n";
    ey_err e;
    struct tokenizer *tok = NULL;
    json_object *root = small_json(), *merges = json_member(json_member(root, "model"), "merges");
    for (size_t i = 0; i < json_object_array_length(merges); i++) {
        json_object *pair = json_object_array_get_idx(merges, i);
        char joined[64];
        snprintf(joined, sizeof(joined), "%s %s",
                 json_object_get_string(json_object_array_get_idx(pair, 0)),
                 json_object_get_string(json_object_array_get_idx(pair, 1)));
        json_object_array_put_idx(merges, i, json_object_new_string(joined));
    }
    const char *json = json_object_to_json_string(root);
    if (!tokenizer_open_memory(&tok, json, strlen(json), "strings", &e)) fail_msg("%s", e.text);
    struct ids want = encode_ok(small_tokenizer(), text, strlen(text), false),
               got = encode_ok(tok, text, strlen(text), false);
    assert_ids("merges as strings", &got, want.id, want.n);
    ids_free(&want);
    ids_free(&got);
    tokenizer_close(tok);
    json_object_put(root);
}

/* Other spellings of the same tokenizer (tools/golden/saved_checkpoints.py checks them). */
static void test_other_spellings(void **state)
{
    (void)state;
    static const char text[] = "  hello   World's, the 12 things\n\n<|im_end|> caf\xc3\xa9";
    static const struct {
        const char *member, *value;
    } same[] = {
        /* SAME_IDS begins */
        {"normalizer", "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}]}"},
        {"normalizer",
         "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Sequence\",\"normalizers\":[{"
         "\"type\":\"NFC\"}]}]}"},
        {"pre_tokenizer",
         "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Sequence\",\"pretokenizers\":"
         "[{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,\"pattern\":{\"Regex\":"
         "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| "
         "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}}]},"
         "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":false,"
         "\"use_regex\":false}]}"},
        {"post_processor",
         "{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
         "\"trim_offsets\":false,\"use_regex\":true}]}"},
        {"post_processor", "{\"type\":\"Sequence\",\"processors\":[]}"},
        {"post_processor",
         "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]"
         ","
         "\"pair\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"Sequence\":{\"id\":\"B\","
         "\"type_id\":1}}],\"special_tokens\":{}}"},
        {"post_processor",
         "{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
         "\"trim_offsets\":false,\"use_regex\":true},{\"type\":\"TemplateProcessing\",\"single\":[{"
         "\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{\"Sequence\":{\"id\":\"A\","
         "\"type_id\":0}}],\"special_tokens\":{}}]}"},
        {"post_processor",
         "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<|endoftext|>\","
         "\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{\"Sequence\":{"
         "\"id\":\"A\",\"type_id\":0}}],\"special_tokens\":{\"<|endoftext|>\":{\"id\":"
         "\"<|endoftext|>\",\"ids\":[300],\"tokens\":[\"<|endoftext|>\"]}}}"},
        {"decoder",
         "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
         "\"trim_offsets\":true,\"use_regex\":true}]}"},
        /* SAME_IDS ends */
    };
    for (size_t i = 0; i < COUNT(same); i++) {
        ey_err e;
        struct tokenizer *tok = NULL;
        json_object *root = small_json();
        replace_member(root, same[i].member, same[i].value);
        const char *json = json_object_to_json_string(root);
        if (!tokenizer_open_memory(&tok, json, strlen(json), "spelling", &e))
            fail_msg("%s = %s: %s", same[i].member, same[i].value, e.text);
        struct ids want = encode_ok(small_tokenizer(), text, strlen(text), true),
                   got = encode_ok(tok, text, strlen(text), true);
        assert_ids(same[i].value, &got, want.id, want.n);
        assert_int_equal(tokenizer_bos_id(tok), strstr(same[i].value, "SpecialToken") ? 300 : -1);
        ids_free(&want);
        ids_free(&got);
        tokenizer_close(tok);
        json_object_put(root);
    }
}

/* The older files without tokenizer.json: transformers' ids, and which tokens are special. */
static void check_files(const char *directory)
{
    char path[300];
    ey_err e;
    struct tokenizer *tok = NULL;
    if (!tokenizer_open(&tok, directory, &e)) fail_msg("%s", e.text);
    snprintf(path, sizeof(path), "%s/cases.json", directory);
    json_object *root = json_parse_file(path, EY_BAD_MODEL, &e), *list = json_member(root, "cases"),
                *special = json_member(root, "special");
    assert_true(json_object_array_length(list) > 10 && json_object_array_length(special) > 0);
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        json_object *row = json_object_array_get_idx(list, i), *text = json_member(row, "text"),
                    *ids = json_member(row, "ids");
        int32_t want[100];
        size_t n = json_object_array_length(ids);
        for (size_t k = 0; k < n && k < 100; k++)
            want[k] = json_object_get_int(json_object_array_get_idx(ids, k));
        struct ids got = encode_ok(tok, json_object_get_string(text),
                                   (size_t)json_object_get_string_len(text), true);
        assert_ids(json_object_get_string(text), &got, want, n);
        ids_free(&got);
    }
    size_t found = 0;
    for (int32_t id = 0; id < tokenizer_size(tok); id++)
        found += tokenizer_is_special(tok, id);
    assert_int_equal(found, json_object_array_length(special));
    for (size_t i = 0; i < found; i++)
        assert_true(
            tokenizer_is_special(tok, json_object_get_int(json_object_array_get_idx(special, i))));
    json_object_put(root);
    tokenizer_close(tok);
}

static void test_vocab_and_merges(void **state)
{
    (void)state;
    check_files("tests/tokenizer/data/files");
    check_files("tests/tokenizer/data/files-older");
    check_files("tests/tokenizer/data/files-gpt2");
}

/* ignore_merges: a piece that is a token becomes that token ("the" is one, but no merges lead to
 * it). */
static void test_ignore_merges(void **state)
{
    (void)state;
    ey_err e;
    struct tokenizer *tok = NULL;
    json_object *root = small_json();
    replace_member(root, "model.ignore_merges", "true");
    const char *json = json_object_to_json_string(root);
    if (!tokenizer_open_memory(&tok, json, strlen(json), "ignore_merges", &e))
        fail_msg("%s", e.text);
    struct ids got = encode_ok(tok, "thethex", 7, false), whole = encode_ok(tok, "the", 3, false);
    assert_ids("thethex", &got, (const int32_t[]){116, 257, 116, 257, 120}, 5);
    assert_ids("the", &whole, (const int32_t[]){272}, 1);
    ids_free(&got);
    ids_free(&whole);
    tokenizer_close(tok);
    json_object_put(root);
}

static void test_token_length(void **state)
{
    (void)state;
    enum { LONG = EY_MAX_TOKEN_BYTES + 1 };
    for (int n = LONG - 1; n <= LONG; n++) {
        ey_err e;
        char name[LONG + 1];
        json_object *root = small_json();
        memset(name, 'q', (size_t)n);
        name[n] = 0;
        json_object_object_add(json_member(json_member(root, "model"), "vocab"), name,
                               json_object_new_int(290));
        const char *json = json_object_to_json_string(root);
        assert_true(open_text(json, strlen(json), &e) == (n < LONG));
        if (n == LONG) assert_non_null(strstr(e.text, "has 4097 bytes; the limit is 4096"));
        json_object_put(root);
    }
}

static void test_no_json(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "{", "[]", "null", "{\"model\":{}} x", "{\"model\":\xff}"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        ey_err e = {0};
        assert_false(open_text(texts[i], strlen(texts[i]), &e));
        assert_int_equal(e.code, EY_BAD_MODEL);
        assert_true(!strncmp(e.text, "file.json: ", 11));
    }
}

static void test_git_lfs_pointer(void **state)
{
    (void)state;
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n"
                                  "oid sha256:00\nsize 11422654\n";
    static const char *const files[] = {"tokenizer.json", "merges.txt"};
    for (size_t i = 0; i < COUNT(files); i++) {
        const char *dir = temp_dir_make();
        ey_err e = {0};
        struct tokenizer *tok = NULL;
        temp_text(dir, files[i], pointer);
        if (i) temp_text(dir, "vocab.json", "{\"a\": 0}");
        assert_false(tokenizer_open(&tok, dir, &e));
        assert_non_null(strstr(e.text, files[i]));
        assert_non_null(
            strstr(e.text, "a Git LFS pointer in place of the file; run `git lfs pull`"));
        temp_dir_remove(dir);
    }
}

static void test_no_file(void **state)
{
    (void)state;
    ey_err e = {0};
    struct tokenizer *tok = NULL;
    assert_false(tokenizer_open(&tok, "tests/tokenizer/data/nowhere", &e));
    assert_null(tok);
    assert_non_null(strstr(e.text, "nowhere/tokenizer.json"));
}

int run_load_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_merges_as_strings),
        cmocka_unit_test(test_ignore_merges),
        cmocka_unit_test(test_token_length),
        cmocka_unit_test(test_no_json),
        cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_other_spellings),
        cmocka_unit_test(test_git_lfs_pointer),
        cmocka_unit_test(test_vocab_and_merges),
    };
    return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
