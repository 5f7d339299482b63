/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON reader: accepted texts with their values, refused ones with the position of the error.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text/json_reader.h"

/* Copies the text to its own block, so that a sanitizer sees reads past its end. */
static json_object *read_copy(struct json_reading *reading, const char *text, size_t n)
{
    char *copy = malloc(n ? n : 1);
    memcpy(copy, text, n);
    json_object *value = json_read(reading, copy, n);
    free(copy);
    return value;
}

static void values(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"0", "0"},
        {"-0", "0"},
        {" 12\n", "12"},
        {"-7", "-7"},
        {"9223372036854775807", "9223372036854775807"},
        {"9223372036854775808", "9223372036854775808"},
        {"18446744073709551615", "18446744073709551615"},
        {"99999999999999999999", "18446744073709551615"},
        {"-99999999999999999999", "-9223372036854775808"},
        {"1.50", "1.50"},
        {"1e-7", "1e-7"},
        {"-0.25E+2", "-0.25E+2"},
        {"NaN", "NaN"},
        {"-Infinity", "-Infinity"},
        {"true", "true"},
        {"false", "false"},
        {"\"\"", "\"\""},
        {"\"a\nb\"", "\"a\\nb\""},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\\"\\\\/\\b\\f\\n\\r\\t\""},
        {"\"\\u00e9\\u20AC\\ud83d\\ude00\"", "\"é€😀\""},
        {"\"\\ud83d\"", "\"\xef\xbf\xbd\""},
        {"\"\\ude00x\"", "\"\xef\xbf\xbdx\""},
        {"\"\\ud83d\\u0041\"", "\"\xef\xbf\xbd"
                               "A\""},
        {"\"a\\u0000b\"", "\"a\\u0000b\""},
        {"[]", "[]"},
        {" [ 1 , [ null , {} ] ] ", "[1,[null,{}]]"},
        {"{\"b\":1,\"a\":{\"\\u0063\":[2]},\"b\":3}", "{\"b\":3,\"a\":{\"c\":[2]}}"},
        {"{\"\":null}", "{\"\":null}"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct json_reading reading;
        json_object *value = read_copy(&reading, rows[i][0], strlen(rows[i][0]));
        if (reading.problem) fail_msg("%s: %s", rows[i][0], reading.problem);
        const char *back = json_object_to_json_string_ext(
            value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
        assert_string_equal(back, rows[i][1]);
        assert_int_equal(reading.end, strlen(rows[i][0]));
        json_object_put(value);
    }
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n, end; /* n 0: up to the NUL */
        const char *says;
    } rows[] = {
        {"", 0, 0, "middle of a value"},
        {"{", 0, 1, "middle of a value"},
        {"[1,", 0, 3, "middle of a value"},
        {"\"a", 0, 2, "middle of a value"},
        {"\"a\\", 0, 3, "middle of a value"},
        {"-", 0, 1, "middle of a value"},
        {"[1,]", 0, 3, "a value"},
        {"[1 2]", 0, 3, "a comma or ]"},
        {"{\"a\":1,}", 0, 7, "a name"},
        {"{\"a\" 1}", 0, 5, "a colon"},
        {"{\"a\":1 \"b\":2}", 0, 7, "a comma or }"},
        {"{'a':1}", 0, 1, "a name in double quotes"},
        {"{a:1}", 0, 1, "a name in double quotes"},
        {"{\"a\\u0000\":1}", 0, 10, "NUL"},
        {"\"\\x\"", 0, 4, "escape"},
        {"\"\\u12g4\"", 0, 8, "escape"},
        {"\"\\u12\"", 0, 6, "escape"},
        {"\"a\0\"", 4, 2, "NUL"},
        {"\0", 1, 0, "a value"},
        {"1.", 0, 2, "middle of a value"},
        {"[1.]", 0, 3, "a digit"},
        {"[1e+]", 0, 4, "a digit"},
        {"nul", 0, 0, "a value"},
        {"+1", 0, 0, "a value"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct json_reading reading;
        assert_null(
            read_copy(&reading, rows[i].text, rows[i].n ? rows[i].n : strlen(rows[i].text)));
        if (!reading.problem || !strstr(reading.problem, rows[i].says) ||
            reading.end != rows[i].end)
            fail_msg("row %zu: %s at %zu", i, reading.problem, reading.end);
        assert_false(reading.no_memory);
    }
}

/* The reader stops after the value; the rest is the caller's. */
static void rest(void **state)
{
    (void)state;
    static const char *const rows[] = {"1 2", "[] x", "01", "nullx"};
    static const size_t ends[] = {2, 3, 1, 4};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct json_reading reading;
        json_object_put(read_copy(&reading, rows[i], strlen(rows[i])));
        assert_null(reading.problem);
        assert_int_equal(reading.end, ends[i]);
    }
}

static void nesting(void **state)
{
    (void)state;
    enum { MOST = 63 };
    for (int depth = MOST; depth <= MOST + 1; depth++) {
        char text[2 * MOST + 3];
        struct json_reading reading;
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        json_object *value = read_copy(&reading, text, 2 * (size_t)depth);
        assert_int_equal(value != NULL, depth == MOST);
        json_object_put(value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(refusals),
                                       cmocka_unit_test(rest), cmocka_unit_test(nesting)};
    return cmocka_run_group_tests_name("json reader", tests, NULL, NULL);
}
