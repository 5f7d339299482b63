/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding ids: only whole characters, wherever tokens are cut. */
#include <string.h>

#include "tokenizer/tok_fixture.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The small tokenizer's first 256 ids are bytes, 300 to 305 are special, 306 is <tool_call>. */
static const struct {
    const char *name;
    size_t n;
    int32_t ids[12];
    const char *text;
} rows[] = {
    {"nothing", 0, {0}, ""},
    {"words", 2, {260, 268}, "hello world"},
    {"a character byte by byte", 4, {0xf0, 0x9f, 0x98, 0x8a}, "\xf0\x9f\x98\x8a"},
    {"a character of a pair and bytes", 3, {287, 0x98, 0x8a}, "\xf0\x9f\x98\x8a"},
    {"special tokens are not seen", 3, {301, 260, 302}, "hello"},
    {"nor do they break a character", 4, {0xe4, 302, 0xbd, 0xa0}, "\xe4\xbd\xa0"},
    {"other added tokens are seen", 2, {306, 307}, "<tool_call></tool_call>"},
    {"an added token breaks a character", 3, {0xe4, 0xbd, 306}, "\xef\xbf\xbd<tool_call>"},
    {"cut at the end", 3, {97, 0xe4, 0xbd}, "a\xef\xbf\xbd"},
    {"no character",
     2,
     {0xff, 97},
     "\xef\xbf\xbd"
     "a"},
    {"two subparts",
     4,
     {0xe4, 0xbd, 0xe4, 97},
     "\xef\xbf\xbd\xef\xbf\xbd"
     "a"},
    {"a surrogate", 3, {0xed, 0xa0, 0x80}, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    {"overlong", 2, {0xc0, 0xaf}, "\xef\xbf\xbd\xef\xbf\xbd"},
    {"a lead byte after three of four", 4, {0xf0, 0x9f, 0x98, 0xc3}, "\xef\xbf\xbd\xef\xbf\xbd"},
    {"ids without a token", 4, {-1, 299, 97, 1 << 30}, "a"},
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ids ids = {.id = (int32_t *)rows[i].ids, .n = rows[i].n};
        struct buf got = decode_ok(small_tokenizer(), &ids);
        if (strcmp(got.data ? got.data : "", rows[i].text))
            fail_msg("%s: \"%s\"", rows[i].name, got.data);
        buf_free(&got);
    }
}

/* After any token, the output is valid UTF-8 and a prefix of the whole text. */
static void test_every_prefix(void **state)
{
    (void)state;
    static const char text[] =
        "a\xc3\xa9\xe4\xbd\xa0\xf0\x9f\x98\x8a hello \xf0\x9f\xa6\x99\xe4\xbd\xa0\xe5\xa5\xbd";
    struct ids ids = encode_ok(small_tokenizer(), text, sizeof(text) - 1, false);
    struct buf out = buf_with_max(4096);
    struct detok d = detok_start(small_tokenizer());
    for (size_t i = 0; i < ids.n; i++) {
        assert_true(detok_push(&d, ids.id[i], &out));
        assert_true(out.size < sizeof(text) && !memcmp(out.data ? out.data : "", text, out.size));
        assert_true((text[out.size] & 0xc0) != 0x80);
    }
    assert_true(detok_finish(&d, &out));
    assert_string_equal(out.data, text);
    ids_free(&ids);
    buf_free(&out);
}

/* Bytes given one at a time decode to the same text as all together. */
static void test_random_bytes_one_by_one(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (int round = 0; round < 2000; round++) {
        int32_t id[24];
        struct ids ids = {.id = id, .n = next_random(&seed) % 24};
        for (size_t i = 0; i < ids.n; i++)
            id[i] = (int32_t) "\xf0\x9f\x98\x8a\xe4\xbd\xa0\xc3\xa9"
                              "a\xff\xed"[next_random(&seed) % 12] &
                    0xff;
        char bytes[24];
        for (size_t i = 0; i < ids.n; i++)
            bytes[i] = (char)id[i];
        struct buf got = decode_ok(small_tokenizer(), &ids);
        struct ids repaired = encode_ok(small_tokenizer(), bytes, ids.n, false);
        struct buf want = decode_ok(small_tokenizer(), &repaired);
        assert_string_equal(got.data ? got.data : "", want.data ? want.data : "");
        ids_free(&repaired);
        buf_free(&got);
        buf_free(&want);
    }
}

static void test_questions_about_tokens(void **state)
{
    (void)state;
    const struct tokenizer *tok = small_tokenizer();
    size_t n;
    assert_int_equal(tokenizer_size(tok), 315);
    assert_int_equal(tokenizer_added_id(tok, "<|im_end|>"), 302);
    assert_int_equal(tokenizer_added_id(tok, "caf\x65\xcc\x81"), 314);
    assert_int_equal(tokenizer_added_id(tok, "hello"), -1);
    assert_int_equal(tokenizer_added_id(tok, "<|im_end|"), -1);
    assert_true(tokenizer_is_special(tok, 302));
    assert_false(tokenizer_is_special(tok, 306));
    assert_false(tokenizer_is_special(tok, 97));
    assert_false(tokenizer_is_special(tok, -1));
    assert_memory_equal(tokenizer_bytes(tok, 286, &n), "\xe4\xbd\xa0", 3);
    assert_int_equal(n, 3);
    assert_memory_equal(tokenizer_bytes(tok, 302, &n), "<|im_end|>", 10);
    assert_int_equal(n, 10);
    assert_non_null(tokenizer_bytes(tok, 299, &n));
    assert_int_equal(n, 0);
    tokenizer_bytes(tok, 315, &n);
    assert_int_equal(n, 0);
}

int run_detok_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_every_prefix),
        cmocka_unit_test(test_random_bytes_one_by_one),
        cmocka_unit_test(test_questions_about_tokens),
    };
    return cmocka_run_group_tests_name("detok", tests, NULL, NULL);
}
