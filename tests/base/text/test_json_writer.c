/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON writer: its three styles, and json-c reads back all that it writes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/text/json_writer.h"
#include "base/utf8.h"

static json_object *parse_back(const struct buf *text)
{
    ey_err e;
    json_object *value = json_parse(text->data, text->size, "what was written", EY_INTERNAL, &e);
    if (!value) fail_msg("%s: %s", e.text, text->data);
    return value;
}

/* ---- styles ---- */

#define COMPACT_SAMPLE \
    "{\"a\":-1,\"none\":{},\"list\":[true,[],{\"b\":null,\"c\":\"d\"},null],\"e\":0.50}"

static void write_sample(struct json_writer *w)
{
    json_open_object(w);
    json_add_int(w, "a", -1);
    json_write_key(w, "none");
    json_open_object(w);
    json_close_object(w);
    json_write_key(w, "list");
    json_open_array(w);
    json_write_bool(w, true);
    json_open_array(w);
    json_close_array(w);
    json_open_object(w);
    json_add_null(w, "b");
    json_add_string(w, "c", "d");
    json_close_object(w);
    json_write_null(w);
    json_close_array(w);
    json_add_fixed(w, "e", 0.5, 2);
    json_close_object(w);
}

/* Styles two and three match Python's json.dumps(value) and json.dumps(value, indent=2), except
 * that floats keep trailing zeros. */
static void three_styles(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        [JSON_COMPACT] = COMPACT_SAMPLE,
        [JSON_SPACED] = "{\"a\": -1, \"none\": {}, \"list\": [true, [], {\"b\": null, \"c\": "
                        "\"d\"}, null], \"e\": 0.50}",
        [JSON_INDENTED] = "{\n  \"a\": -1,\n  \"none\": {},\n  \"list\": [\n    true,\n    [],\n"
                          "    {\n      \"b\": null,\n      \"c\": \"d\"\n    },\n    null\n  ],\n"
                          "  \"e\": 0.50\n}"};
    for (enum json_style style = JSON_COMPACT; style <= JSON_INDENTED; style++) {
        struct buf out = buf_with_max(1 << 12);
        struct json_writer w = json_write_to(&out, style);
        write_sample(&w);
        assert_string_equal(out.data, wanted[style]);
        json_object_put(parse_back(&out));
        buf_free(&out);
    }
}

/* A writer continues after its buffer was sent and emptied. */
static void items_follow_an_emptied_buffer(void **state)
{
    (void)state;
    struct buf out = buf_with_max(64);
    struct json_writer w = json_write_to(&out, JSON_SPACED);
    json_open_array(&w);
    json_write_int(&w, 1);
    buf_clear(&out);
    json_write_int(&w, 2);
    json_close_array(&w);
    assert_string_equal(out.data, ", 2]");
    buf_free(&out);
}

/* ---- strings ---- */

static void expect_text_back(const char *text, size_t n, const char *wanted, size_t n_wanted)
{
    struct buf out = buf_with_max(1 << 16);
    struct json_writer w = json_write_to(&out, JSON_COMPACT);
    json_open_object(&w);
    json_write_key(&w, "s");
    json_write_text(&w, text, n);
    json_close_object(&w);
    json_object *value = parse_back(&out), *member = json_member(value, "s");
    assert_int_equal(json_object_get_string_len(member), n_wanted);
    assert_memory_equal(json_object_get_string(member), wanted, n_wanted);
    json_object_put(value);
    buf_free(&out);
}

static void every_character_comes_back(void **state)
{
    (void)state;
    char text[3 * 4];
    for (uint32_t cp = 0; cp < 0x110000; cp += cp < 0x3000 ? 1 : 251) {
        if (cp >= 0xd800 && cp < 0xe000) continue;
        size_t n = 0; /* twice, then before a plain letter */
        n += (size_t)utf8_encode(cp, text + n);
        n += (size_t)utf8_encode(cp, text + n);
        text[n++] = 'z';
        expect_text_back(text, n, text, n);
    }
}

static void malformed_bytes_become_u_fffd(void **state)
{
    (void)state;
    expect_text_back("a\xff\"\xc3", 4, "a\xef\xbf\xbd\"\xef\xbf\xbd", 8);
    expect_text_back("\xe4\xbd"
                     "b",
                     3,
                     "\xef\xbf\xbd"
                     "b",
                     4);
    expect_text_back("\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 9);
}

/* RFC 8259, section 7: required escapes, in the two-character form if there is one. */
static void escapes_are_short(void **state)
{
    (void)state;
    struct buf out = buf_with_max(256);
    json_dump_string(&out, "\"\\/\b\f\n\r\t\x01\x1f\x7f", 11);
    assert_string_equal(out.data, "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"");
    buf_free(&out);
}

static void keys_are_escaped_too(void **state)
{
    (void)state;
    struct buf out = buf_with_max(256);
    struct json_writer w = json_write_to(&out, JSON_COMPACT);
    json_open_object(&w);
    json_add_int(&w, "a\"\n", 1);
    json_close_object(&w);
    assert_string_equal(out.data, "{\"a\\\"\\n\":1}");
    buf_free(&out);
}

/* ---- other values ---- */

static void numbers(void **state)
{
    (void)state;
    struct buf out = buf_with_max(1 << 10);
    struct json_writer w = json_write_to(&out, JSON_COMPACT);
    json_open_array(&w);
    json_write_int(&w, INT64_MIN);
    json_write_int(&w, INT64_MAX);
    json_write_int(&w, 0);
    json_write_uint(&w, UINT64_MAX);
    json_write_fixed(&w, 2.0 / 3, 4);
    json_write_fixed(&w, 1e15, 0);
    json_write_fixed(&w, (double)NAN, 3);
    json_write_digits(&w, (double)INFINITY, 9);
    json_write_digits(&w, 0.1, 17);
    json_close_array(&w);
    assert_string_equal(out.data, "[-9223372036854775808,9223372036854775807,0,"
                                  "18446744073709551615,0.6667,1000000000000000,null,null,"
                                  "0.10000000000000001]");
    json_object_put(parse_back(&out));
    buf_free(&out);
}

static void doubles_come_back(void **state)
{
    (void)state;
    for (int i = 0; i < 2000; i++) {
        struct buf out = buf_with_max(128);
        struct json_writer w = json_write_to(&out, JSON_COMPACT);
        double value = ldexp(1 + i / 1999.0, i - 1000) * (i & 1 ? -1 : 1);
        json_open_array(&w);
        json_write_digits(&w, value, 17);
        json_close_array(&w);
        json_object *list = parse_back(&out);
        assert_true(json_object_get_double(json_object_array_get_idx(list, 0)) == value);
        json_object_put(list);
        buf_free(&out);
    }
}

static void raw_json_and_data_urls(void **state)
{
    (void)state;
    struct buf out = buf_with_max(256);
    struct json_writer w = json_write_to(&out, JSON_SPACED);
    json_open_array(&w);
    json_write_raw(&w, "{\"x\":1}", 7);
    json_write_data_url(&w, "image/png", "foob", 4);
    json_write_string(&w, NULL);
    json_close_array(&w);
    assert_string_equal(out.data, "[{\"x\":1}, \"data:image/png;base64,Zm9vYg==\", null]");
    buf_free(&out);
}

/* Values parsed by json-c are written as json-c writes them. */
static void parsed_values_are_written_again(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":[1,-2.50,1e3,true,null,{\"\":\"\\n\"}],\"b\":{},\"c\":[]}";
    struct buf out = buf_with_max(256);
    struct json_writer w = json_write_to(&out, JSON_COMPACT);
    ey_err e;
    json_object *value = json_parse(text, strlen(text), "text", EY_INTERNAL, &e);
    json_write_value(&w, value);
    assert_string_equal(out.data, text);
    json_object_put(value);
    buf_free(&out);
}

static void a_full_buffer_fails_and_stays_failed(void **state)
{
    (void)state;
    const size_t whole = strlen(COMPACT_SAMPLE);
    for (size_t max = 0; max < whole + 3; max++) {
        struct buf out = buf_with_max(max);
        struct json_writer w = json_write_to(&out, JSON_COMPACT);
        write_sample(&w);
        assert_true(out.failed == (max < whole));
        buf_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_styles),
        cmocka_unit_test(items_follow_an_emptied_buffer),
        cmocka_unit_test(every_character_comes_back),
        cmocka_unit_test(malformed_bytes_become_u_fffd),
        cmocka_unit_test(escapes_are_short),
        cmocka_unit_test(keys_are_escaped_too),
        cmocka_unit_test(numbers),
        cmocka_unit_test(doubles_come_back),
        cmocka_unit_test(raw_json_and_data_urls),
        cmocka_unit_test(parsed_values_are_written_again),
        cmocka_unit_test(a_full_buffer_fails_and_stays_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
