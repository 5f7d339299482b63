/* SPDX-License-Identifier: Apache-2.0 */
/* base64 against RFC 4648 in both directions; errors name the position. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text/base64.h"

/* RFC 4648, section 10. */
static void the_vectors_of_rfc_4648(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"", ""},
                                          {"f", "Zg=="},
                                          {"fo", "Zm8="},
                                          {"foo", "Zm9v"},
                                          {"foob", "Zm9vYg=="},
                                          {"fooba", "Zm9vYmE="},
                                          {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf out = buf_with_max(64);
        uint8_t back[16];
        size_t n, at;
        assert_true(base64_encode(&out, rows[i][0], strlen(rows[i][0])));
        assert_string_equal(out.data, rows[i][1]);
        assert_true(base64_decode(back, &n, rows[i][1], strlen(rows[i][1]), &at));
        assert_int_equal(n, strlen(rows[i][0]));
        assert_memory_equal(back, rows[i][0], n);
        buf_free(&out);
    }
}

static void every_length_comes_back(void **state)
{
    (void)state;
    uint8_t bytes[300], *back = malloc(base64_decode_room(400));
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 167 + 13);
    for (size_t n = 0; n <= sizeof(bytes); n++) {
        struct buf out = buf_with_max(512);
        size_t got, at;
        assert_true(base64_encode(&out, bytes, n));
        assert_int_equal(out.size, (n + 2) / 3 * 4);
        assert_true(base64_decode(back, &got, out.data, out.size, &at));
        assert_int_equal(got, n);
        assert_memory_equal(back, bytes, n);
        buf_free(&out);
    }
    free(back);
}

static void blanks_and_escapes_are_read(void **state)
{
    (void)state;
    static const char text[] = "Zm\r\n9v%59%6d F y";
    uint8_t back[32];
    size_t n, at;
    assert_true(base64_decode(back, &n, text, strlen(text), &at));
    assert_int_equal(n, 6);
    assert_memory_equal(back, "foobar", 6);
}

static void errors_have_positions(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t at;
    } rows[] = {{"Zg", 2},   {"Zg=", 3},      {"Zg==Zg==", 4}, {"=", 0},     {"Z===", 1},
                {"Zm9-", 3}, {"Zm9vYm\n", 7}, {"Zm%3", 2},     {"Zm%zz", 2}, {"Zm9v\xc3\xa4", 4}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t back[32];
        size_t n, at = 99;
        assert_false(base64_decode(back, &n, rows[i].text, strlen(rows[i].text), &at));
        assert_int_equal(at, rows[i].at);
    }
}

static void encoding_stops_at_the_maximum(void **state)
{
    (void)state;
    struct buf out = buf_with_max(8);
    assert_true(base64_encode(&out, "foobar", 6));
    assert_false(base64_encode(&out, "f", 1));
    assert_true(out.failed);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_of_rfc_4648),       cmocka_unit_test(every_length_comes_back),
        cmocka_unit_test(blanks_and_escapes_are_read),   cmocka_unit_test(errors_have_positions),
        cmocka_unit_test(encoding_stops_at_the_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
