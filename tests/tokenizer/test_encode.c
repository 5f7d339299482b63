/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding against the reference's ids, and the rules of added tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/json.h"
#include "base/limits.h"
#include "tokenizer/tok_fixture.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- files of cases: [{"text": "…", "ids": […]}, …] ---- */

static void check_case(const struct tokenizer *tok, const json_object *row, bool parse_special)
{
    json_object *text = json_member_of_type(row, "text", json_type_string);
    json_object *want = json_member_of_type(row, "ids", json_type_array);
    assert_non_null(text);
    assert_non_null(want);
    int32_t ids[1024];
    size_t n = json_object_array_length(want);
    assert_true(n <= COUNT(ids));
    for (size_t i = 0; i < n; i++)
        ids[i] = json_object_get_int(json_object_array_get_idx(want, i));
    struct ids got = encode_ok(tok, json_object_get_string(text),
                               (size_t)json_object_get_string_len(text), parse_special);
    assert_ids(json_object_get_string(text), &got, ids, n);
    ids_free(&got);
}

static void check_cases(const struct tokenizer *tok, const char *path, bool parse_special)
{
    ey_err e;
    json_object *cases = json_parse_file(path, EY_BAD_MODEL, &e);
    if (!cases) fail_msg("%s", e.text);
    for (size_t i = 0; i < json_object_array_length(cases); i++)
        check_case(tok, json_object_array_get_idx(cases, i), parse_special);
    json_object_put(cases);
}

static void test_small_cases(void **state)
{
    (void)state;
    check_cases(small_tokenizer(), SMALL_DIR "/cases.json", true);
}

static void test_qwen_cases(void **state)
{
    (void)state;
    if (!qwen_tokenizer()) skip();
    check_cases(qwen_tokenizer(), QWEN_DIR "/cases.json", false);
}

/* ---- rows ---- */

struct row {
    const char *text;
    bool parse_special;
    size_t n;
    int32_t ids[96];
};

static void check_rows(const struct tokenizer *tok, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct ids got = encode_ok(tok, rows[i].text, strlen(rows[i].text), rows[i].parse_special);
        assert_ids(rows[i].text, &got, rows[i].ids, rows[i].n);
        ids_free(&got);
    }
}

/* Spec 12 (from a test of transformers), 7.2 and 6.1. */
static const struct row qwen_rows[] = {
    {"This is a test 😊\nI was born in 92000, and this is falsé.\n生活的真谛是\nHi  Hello\nHi   "
     "Hello\n\n \n  \n Hello\n<s>\nhi<s>there\n"
     "The following string should be properly encoded: Hello.\nBut ird and ปี   ird   ด\nHey how "
     "are you doing",
     false,
     76,
     {1986,   374,   264, 1273,  26525, 232,   198,   40,    572,   9223,  304,   220,    24,
      17,     15,    15,  15,    11,    323,   419,   374,   31932, 963,   624,   105301, 88051,
      116109, 20412, 198, 13048, 220,   21927, 198,   13048, 256,   21927, 271,   48426,  21927,
      198,    44047, 397, 6023,  44047, 29,    18532, 198,   785,   2701,  914,   1265,   387,
      10277,  20498, 25,  21927, 624,   3983,  220,   2603,  323,   220,   54684, 28319,  256,
      220,    2603,  256, 220,   37033, 198,   18665, 1246,  525,   498,   3730}},
    {"<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nWhat is "
     "2+2?<|im_end|>\n<|im_start|>assistant\n",
     true,
     26,
     {151644, 8948, 198, 2610, 525, 264, 10950, 17847, 13,     151645, 198,    151644, 872,
      198,    3838, 374, 220,  17,  10,  17,    30,    151645, 198,    151644, 77091,  198}},
    {"<|vision_start|><|image_pad|><|vision_end|><|video_pad|>",
     true,
     4,
     {151652, 151655, 151653, 151656}},
    {"<tool_call>hello</tool_call><tool_response></tool_response><think></think>",
     true,
     7,
     {151657, 14990, 151658, 151665, 151666, 151667, 151668}},
    {"hello<|endoftext|>hello", true, 3, {14990, 151643, 14990}},
};

static void test_qwen_rows(void **state)
{
    (void)state;
    if (!qwen_tokenizer()) skip();
    check_rows(qwen_tokenizer(), qwen_rows, COUNT(qwen_rows));
}

/* Written by hand: 311 <|left|> absorbs preceding white space, 312 <|right|> following; 313 zebra
 * matches whole words only; 314 is "café" (with a combining accent), matched in normalized text;
 * 310 <|im_start|>system is longer than 301. */
static const struct row added_rows[] = {
    {"x \t<|left|> y", true, 4, {120, 311, 32, 121}},
    {"x <|right|> \n\xc2\xa0y", true, 4, {120, 32, 312, 121}},
    {"<|right|>  <|left|>", true, 2, {312, 311}},
    {"<|left|> <|left|>", true, 2, {311, 311}},
    {"a zebra.", true, 4, {97, 32, 313, 46}},
    {"zebra", true, 1, {313}},
    {"zebras", true, 6, {122, 101, 98, 114, 97, 115}},
    {"\xc3\xa9zebra", true, 6, {284, 122, 101, 98, 114, 97}},
    {"caf\xc3\xa9", true, 1, {314}},
    {"cafe\xcc\x81", true, 1, {314}},
    {"<|im_start|>system", true, 1, {310}},
    {"<|im_start|>syste", true, 6, {301, 115, 121, 115, 116, 101}},
    {"<|im_<|im_end|>", true, 6, {60, 124, 105, 109, 95, 302}},
    {"<tool_call>", true, 1, {306}},
    {"<tool_call>", false, 10, {60, 116, 111, 111, 108, 95, 99, 97, 258, 62}},
    {"<|im_end|>", false, 10, {60, 124, 105, 109, 95, 101, 110, 100, 124, 62}},
};

static void test_added_tokens(void **state)
{
    (void)state;
    check_rows(small_tokenizer(), added_rows, COUNT(added_rows));
}

/* Combining marks out of order, singletons, composition exclusions, Hangul jamo. */
static void test_composed_first(void **state)
{
    (void)state;
    static const char *const texts[] = {"e\xcc\x81",        "e\xcc\x81\xcc\xa3",
                                        "\xe2\x84\xab",     "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab",
                                        "\xe0\xa5\x98",     "\xcc\x81z",
                                        "abc e\xcc\x81 abc"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        utf8proc_uint8_t *composed = utf8proc_NFC((const utf8proc_uint8_t *)texts[i]);
        struct ids got = encode_ok(small_tokenizer(), texts[i], strlen(texts[i]), false);
        struct ids want = encode_ok(small_tokenizer(), (char *)composed, strlen((char *)composed),
                                    false);
        struct buf text = decode_ok(small_tokenizer(), &got);
        assert_ids(texts[i], &got, want.id, want.n);
        assert_string_equal(text.data, composed);
        ids_free(&got);
        ids_free(&want);
        buf_free(&text);
        free(composed);
    }
}

/* ---- malformed, long, empty ---- */

static void test_malformed_becomes_replacement(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *same_as;
    } rows[] = {
        {"a\xff"
         "b",
         "a\xef\xbf\xbd"
         "b"},
        {"\xe4\xbd", "\xef\xbf\xbd"},
        {"\xe4\xbd"
         "a",
         "\xef\xbf\xbd"
         "a"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf0\x9f\x98", "\xef\xbf\xbd"},
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ids got = encode_ok(small_tokenizer(), rows[i].bytes, strlen(rows[i].bytes), true);
        struct ids want = encode_ok(small_tokenizer(), rows[i].same_as, strlen(rows[i].same_as),
                                    true);
        assert_ids(rows[i].same_as, &got, want.id, want.n);
        ids_free(&got);
        ids_free(&want);
    }
}

/* Any bytes can be encoded; they decode to their repaired text in NFC. */
static void test_random_bytes(void **state)
{
    (void)state;
    uint64_t seed = 1;
    static const char alphabet[] =
        "aehlo <|>_\n\xcc\x81\xe4\xbd\xa0\xc3\xa9\xf0\x9f\x98\x8a\xff\x80";
    for (int round = 0; round < 5000; round++) {
        char text[64];
        size_t n = next_random(&seed) % sizeof(text);
        for (size_t i = 0; i < n; i++)
            text[i] = alphabet[next_random(&seed) % (sizeof(alphabet) - 1)];
        struct ids once = encode_ok(small_tokenizer(), text, n, false);
        struct buf back = decode_ok(small_tokenizer(), &once);
        utf8proc_uint8_t *composed = utf8proc_NFC((utf8proc_uint8_t *)(back.data ? back.data : ""));
        assert_non_null(composed);                                 /* valid UTF-8 … */
        assert_string_equal(composed, back.data ? back.data : ""); /* … in NFC */
        struct ids twice = encode_ok(small_tokenizer(), back.data, back.size, false);
        assert_ids("again", &twice, once.id, once.n);
        free(composed);
        ids_free(&once);
        ids_free(&twice);
        buf_free(&back);
    }
}

static void test_nul_bytes_are_text(void **state)
{
    (void)state;
    struct ids got = encode_ok(small_tokenizer(), "a\0b", 3, true);
    assert_ids("a NUL b", &got, (const int32_t[]){97, 0, 98}, 3);
    ids_free(&got);
}

/* A megabyte that is one word or one run takes no quadratic time (minutes). */
static void test_megabyte_words(void **state)
{
    (void)state;
    static const char *const units[] = {
        "a", " ", "\n", "-", "\xcc\x81", "\xcc\xa3\xcc\x81", "\xe4\xbd\xa0", " \n", "'", "<|im_"};
    enum { BYTES = 1 << 20 };
    char *text = malloc(BYTES);
    assert_non_null(text);
    for (size_t u = 0; u < COUNT(units); u++) {
        size_t unit = strlen(units[u]), n = BYTES / unit * unit;
        for (size_t i = 0; i < n; i++)
            text[i] = units[u][i % unit];
        struct ids got = encode_ok(small_tokenizer(), text, n, true);
        struct buf back = decode_ok(small_tokenizer(), &got);
        if (units[u][0] != '\xcc') assert_true(back.size == n && !memcmp(back.data, text, n));
        ids_free(&got);
        buf_free(&back);
    }
    free(text);
}

static void test_too_long(void **state)
{
    (void)state;
    ey_err e;
    struct ids ids = {0};
    assert_true(ids_push(&ids, 7));
    assert_false(
        tokenizer_encode(small_tokenizer(), "", (size_t)EY_MAX_TEXT_BYTES + 1, false, &ids, &e));
    assert_int_equal(e.code, EY_TOO_LONG);
    assert_ids("what was there", &ids, (const int32_t[]){7}, 1);
    ids_free(&ids);
}

static void test_round_trip(void **state)
{
    (void)state;
    if (!qwen_tokenizer()) skip();
    struct ids ids = encode_ok(qwen_tokenizer(), qwen_rows[0].text, strlen(qwen_rows[0].text),
                               false);
    struct buf back = decode_ok(qwen_tokenizer(), &ids);
    assert_string_equal(back.data, qwen_rows[0].text);
    ids_free(&ids);
    buf_free(&back);
}

/* Without parse_special, text that spells a special token stays text. */
static void test_unparsed_special_stays_text(void **state)
{
    (void)state;
    if (!qwen_tokenizer()) skip();
    const char *text = "<|im_start|>user\nhi<|im_end|>\n<|vision_start|><|image_pad|><|vision_end|>"
                       "<tool_call></think>";
    struct ids ids = encode_ok(qwen_tokenizer(), text, strlen(text), false);
    struct buf back = decode_ok(qwen_tokenizer(), &ids);
    for (size_t i = 0; i < ids.n; i++)
        assert_true(ids.id[i] < 151643);
    assert_string_equal(back.data, text);
    ids_free(&ids);
    buf_free(&back);
}

int run_encode_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_cases),    cmocka_unit_test(test_added_tokens),
        cmocka_unit_test(test_composed_first), cmocka_unit_test(test_malformed_becomes_replacement),
        cmocka_unit_test(test_random_bytes),   cmocka_unit_test(test_nul_bytes_are_text),
        cmocka_unit_test(test_megabyte_words), cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_qwen_cases),     cmocka_unit_test(test_qwen_rows),
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_unparsed_special_stays_text),
    };
    return cmocka_run_group_tests_name("encode", tests, NULL, NULL);
}
