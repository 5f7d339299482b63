/* SPDX-License-Identifier: Apache-2.0 */
/* The prompts on which models were trained, and the library's reading of answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "eyelet/grammar.h"
#include "eyelet/tasks.h"

static void detect_asks_as_the_cookbook_does(void **state)
{
    (void)state;
    char *prompt;
    ey_err e;
    assert_true(ey_detect_prompt(&prompt, "car, 50%s", &e));
    assert_string_equal(prompt, "Locate every instance that belongs to the following categories: "
                                "'car, 50%s'. Report bbox coordinates in JSON format.");
    ey_free(prompt);
}

static void the_pattern_of_answers_compiles(void **state)
{
    (void)state;
    ey_grammar *grammar;
    ey_err e;
    const char *pattern = ey_detect_pattern();
    assert_true(ey_grammar_of_regex(&grammar, pattern, strlen(pattern), &e));
    ey_grammar_free(&grammar);
}

static void extract_names_fields(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *prompt;
    } rows[] = {
        {"{\"type\": \"object\", \"properties\": {\"total\": {\"type\": \"number\", "
         "\"description\": \"the sum\"}, \"items\": {\"type\": \"array\", \"items\": "
         "{\"properties\": {\"name\": {}}}}}}",
         "Extract the data in the image as JSON with these fields: total (the sum), items (name)."},
        {"{}", "Extract the data in the image as JSON."},
        {"true", "Extract the data in the image as JSON."},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *prompt;
        ey_err e;
        if (!ey_extract_prompt(&prompt, rows[i].schema, strlen(rows[i].schema), &e))
            fail_msg("%s: %s", rows[i].schema, e.text);
        assert_string_equal(prompt, rows[i].prompt);
        ey_free(prompt);
    }
}

static void a_schema_that_is_no_json_is_refused(void **state)
{
    (void)state;
    char *prompt;
    ey_err e;
    assert_false(ey_extract_prompt(&prompt, "{\"a\"", 4, &e));
    assert_int_equal(e.code, EY_BAD_REQUEST);
    assert_null(prompt);
}

static void boxes_in_pixels(void **state)
{
    (void)state;
    const ey_box box = {0, 250, 500, 1000, "car"};
    int pixels[4];
    ey_box_to_pixels(&box, 640, 200, pixels);
    assert_int_equal(pixels[0], 0);
    assert_int_equal(pixels[1], 50);
    assert_int_equal(pixels[2], 320);
    assert_int_equal(pixels[3], 200);
}

static void unclear_answers_are_quoted(void **state)
{
    (void)state;
    static const char text[] = "I see a car.";
    ey_box_list list;
    ey_err e;
    assert_true(ey_boxes_read(&list, text, sizeof(text) - 1, &e));
    assert_false(ey_boxes_check(&list, text, sizeof(text) - 1, &e));
    assert_non_null(strstr(e.text, "\"I see a car.\""));
    ey_boxes_free(&list);
    ey_boxes_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(detect_asks_as_the_cookbook_does),
        cmocka_unit_test(the_pattern_of_answers_compiles),
        cmocka_unit_test(extract_names_fields),
        cmocka_unit_test(a_schema_that_is_no_json_is_refused),
        cmocka_unit_test(boxes_in_pixels),
        cmocka_unit_test(unclear_answers_are_quoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
