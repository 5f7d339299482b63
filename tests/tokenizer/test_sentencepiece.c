/* SPDX-License-Identifier: Apache-2.0 */
/* The tokenizer pipeline of Llama-2 and Phi-3: the reference's ids and texts, refused files, and
 * its rules. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "tokenizer/tok_fixture.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- files of cases ---- */

enum { MAX_IDS = 1024 };

static size_t ids_of(const json_object *row, int32_t *ids)
{
    json_object *list = json_member_of_type(row, "ids", json_type_array);
    assert_non_null(list);
    size_t n = json_object_array_length(list);
    assert_true(n <= MAX_IDS);
    for (size_t i = 0; i < n; i++)
        ids[i] = json_object_get_int(json_object_array_get_idx(list, i));
    return n;
}

static void check_encode(const struct tokenizer *tok, const json_object *row, bool parse_special)
{
    json_object *text = json_member_of_type(row, "text", json_type_string);
    int32_t want[MAX_IDS];
    size_t n = ids_of(row, want);
    struct ids got = encode_ok(tok, json_object_get_string(text),
                               (size_t)json_object_get_string_len(text), parse_special);
    assert_ids(json_object_get_string(text), &got, want, n);
    ids_free(&got);
}

static void check_decode(const struct tokenizer *tok, const json_object *row)
{
    json_object *text = json_member_of_type(row, "text", json_type_string);
    int32_t ids[MAX_IDS];
    struct ids list = {.id = ids, .n = ids_of(row, ids)};
    struct buf got = decode_ok(tok, &list);
    size_t n = (size_t)json_object_get_string_len(text);
    if (got.size != n || memcmp(got.data ? got.data : "", json_object_get_string(text), n))
        fail_msg("%s: decoded to \"%.*s\"", json_object_to_json_string((json_object *)row),
                 (int)got.size, got.data ? got.data : "");
    buf_free(&got);
}

static json_object *cases_of(const char *path)
{
    ey_err e;
    json_object *cases = json_parse_file(path, EY_BAD_MODEL, &e);
    if (!cases) fail_msg("%s", e.text);
    return cases;
}

static void check_real(const struct tokenizer *tok, const char *path)
{
    if (!tok) skip();
    json_object *cases = cases_of(path);
    assert_true(json_object_array_length(cases) > 40);
    for (size_t i = 0; i < json_object_array_length(cases); i++)
        check_encode(tok, json_object_array_get_idx(cases, i), false);
    json_object_put(cases);
}

static void test_llama_cases(void **state)
{
    (void)state;
    check_real(llama_tokenizer(), LLAMA_DIR "/cases.json");
}

static void test_phi3_cases(void **state)
{
    (void)state;
    check_real(phi3_tokenizer(), PHI3_DIR "/cases.json");
}

/* tools/golden/sentencepiece_cases.py */
static void test_committed_cases(void **state)
{
    (void)state;
    json_object *cases = cases_of(SENTENCEPIECE_DIR "/cases.json");
    json_object *encode = json_member_of_type(cases, "encode", json_type_array),
                *decode = json_member_of_type(cases, "decode", json_type_array);
    for (size_t i = 0; i < json_object_array_length(encode); i++)
        check_encode(sentencepiece_tokenizer(), json_object_array_get_idx(encode, i), true);
    for (size_t i = 0; i < json_object_array_length(decode); i++)
        check_decode(sentencepiece_tokenizer(), json_object_array_get_idx(decode, i));
    json_object_put(cases);
}

/* ---- rows of the specification ---- */

struct row {
    const char *text;
    size_t n;
    int32_t ids[64];
};

/* Spec 6.2 (a space before each segment) and 7.4. */
static const struct row llama_rows[] = {
    {"<s>How are you doing?", 7, {1, 1128, 526, 366, 2599, 29973}},
    {"<s>[INST]", 4, {1, 518, 25580, 29962}},
    {"<s>def main():\n\tpass", 7, {1, 822, 1667, 7295, 13, 12, 3364}},
    {"<s>ax\n####\nboo", 7, {1, 4853, 13, 4136, 13, 833, 29877}},
    {" hi", 2, {29871, 7251}},
};

static const struct row phi3_rows[] = {
    {"<|user|>\nHello<|end|>\n<|assistant|>\n", 4, {32010, 15043, 32007, 32001}},
    {"</s> \n Hello", 2, {2, 15043}},
};

static void check_rows(const struct tokenizer *tok, const struct row *rows, size_t n)
{
    if (!tok) skip();
    for (size_t i = 0; i < n; i++) {
        struct ids got = encode_ok(tok, rows[i].text, strlen(rows[i].text), true);
        size_t wanted = 0;
        while (wanted < COUNT(rows[i].ids) && rows[i].ids[wanted])
            wanted++;
        assert_ids(rows[i].text, &got, rows[i].ids, wanted);
        ids_free(&got);
    }
}

static void test_llama_rows(void **state)
{
    (void)state;
    check_rows(llama_tokenizer(), llama_rows, COUNT(llama_rows));
}

static void test_phi3_rows(void **state)
{
    (void)state;
    check_rows(phi3_tokenizer(), phi3_rows, COUNT(phi3_rows));
}

/* How much following white space a marker absorbs (rstrip). */
static void test_swallowed(void **state)
{
    (void)state;
    const struct tokenizer *tok = sentencepiece_tokenizer();
    int32_t user = tokenizer_added_id(tok, "<|user|>"),
            end = tokenizer_added_id(tok, "<|endoftext|>");
    assert_true(user > 0 && end > 0);
    assert_int_equal(tokenizer_rstrip_length(tok, user, "\n \xe3\x80\x80x ", 6), 5);
    assert_int_equal(tokenizer_rstrip_length(tok, user, "\n", 1), 1);
    assert_int_equal(tokenizer_rstrip_length(tok, user, "x\n", 2), 0);
    assert_int_equal(tokenizer_rstrip_length(tok, end, "\n", 1), 0);
    assert_int_equal(tokenizer_rstrip_length(tok, 400, "\n", 1), 0);
}

/* The first token of a raw prompt. */
static void test_start(void **state)
{
    (void)state;
    assert_int_equal(tokenizer_bos_id(sentencepiece_tokenizer()), 1);
    assert_int_equal(tokenizer_bos_id(small_tokenizer()), -1);
}

/* Any text is preserved, except that U+2581 becomes a space. Long ones use the heap. */
static void test_round_trip(void **state)
{
    (void)state;
    uint64_t seed = 7;
    static const char *const parts[] = {
        " ", "  ",  "\n", "hello", " hello", "the", "\xc3\xa9", "\xe4\xbd\xa0", "\xf0\x9f\x98\x8a",
        "x", "<s>", "1",  ".",     "\t"};
    for (int round = 0; round < 200; round++) {
        struct buf text = buf_with_max(1 << 16);
        for (uint32_t n = next_random(&seed) % 60; n; n--)
            buf_add_text(&text, parts[next_random(&seed) % COUNT(parts)]);
        struct ids ids = encode_ok(sentencepiece_tokenizer(), text.data ? text.data : "", text.size,
                                   false);
        struct buf got = decode_ok(sentencepiece_tokenizer(), &ids);
        assert_int_equal(got.size, text.size);
        assert_true(!text.size || !memcmp(got.data, text.data, text.size));
        buf_free(&text);
        buf_free(&got);
        ids_free(&ids);
    }
}

/* ---- files ---- */

static const struct {
    const char *path, *value, *message; /* NULL: opens */
} files[] = {
    {"post_processor", "null", NULL},
    {"post_processor", "{\"type\":\"ByteLevel\"}", "post_processor is \"ByteLevel\""},
    {"post_processor",
     "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\"}}]}", NULL},
    {"post_processor",
     "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<x>\"}}]}",
     "post_processor: \"<x>\" is not in added_tokens"},
    {"pre_tokenizer", "{\"type\":\"Metaspace\"}", "pre_tokenizer is \"Metaspace\""},
    {"decoder", "{\"type\":\"ByteLevel\"}", "decoder is \"ByteLevel\""},
    {"decoder",
     "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]}",
     "decoder is \"Sequence of ByteFallback, Fuse\""},
    {"decoder", "{\"type\":\"Sequence\"}", "decoder is \"Sequence\""},
    {"normalizer",
     "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"_\"},{\"type\":"
     "\"Replace\"}]}",
     "normalizer is \"Sequence of Prepend, Replace\""},
    {"normalizer", "{\"type\":\"Sequence\",\"normalizers\":[]}", "pre_tokenizer is \"null\""},
    {"model.byte_fallback", "false", "model: byte_fallback is false"},
    {"model.byte_fallback", NULL, "model: byte_fallback is false"},
    {"model.vocab", "{\"a\":0}", "no token for the byte 0x00"},
    {"model.merges", "[]", NULL},
    {"model.merges",
     "[[\"h\","
     "\"\xe2\x96\x81\xe2\x96\x81\xe2\x96\x81\xe2\x96\x81\xe2\x96\x81\xe2\x96\x81\xe2\x96\x81\"]]",
     "model.merges[0]"},
    {"model.merges", "[[\"<0x41>\",\"B\"]]", "model.merges[0]"},
};

static void check_file(size_t i)
{
    ey_err e = {0};
    struct tokenizer *tok = NULL;
    json_object *root = cases_of(SENTENCEPIECE_DIR "/tokenizer.json");
    bool in_model = !strncmp(files[i].path, "model.", 6);
    json_object *object = in_model ? json_member(root, "model") : root;
    const char *key = in_model ? files[i].path + 6 : files[i].path;
    if (files[i].value)
        json_object_object_add(object, key, json_tokener_parse(files[i].value));
    else
        json_object_object_del(object, key);
    const char *text = json_object_to_json_string(root);
    bool ok = tokenizer_open_memory(&tok, text, strlen(text), "file.json", &e);
    tokenizer_close(tok);
    json_object_put(root);
    if (ok != !files[i].message)
        fail_msg("%s = %s: %s", files[i].path, files[i].value, ok ? "opened" : e.text);
    if (!ok && (!strstr(e.text, files[i].message) || strncmp(e.text, "file.json: ", 11)))
        fail_msg("%s = %s: \"%s\" has no \"%s\"", files[i].path, files[i].value, e.text,
                 files[i].message);
}

static void test_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(files); i++)
        check_file(i);
}

int run_sentencepiece_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_cases),     cmocka_unit_test(test_phi3_cases),
        cmocka_unit_test(test_committed_cases), cmocka_unit_test(test_llama_rows),
        cmocka_unit_test(test_phi3_rows),       cmocka_unit_test(test_swallowed),
        cmocka_unit_test(test_start),           cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests_name("sentencepiece", tests, NULL, NULL);
}
