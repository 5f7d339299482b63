/* SPDX-License-Identifier: Apache-2.0 */
/* The table of short names against the repositories on Hugging Face. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text/short_names.h"

static void names_and_repositories(void **state)
{
    static const struct {
        const char *name, *wanted[SHORT_NAME_REPOSITORIES];
    } cases[] = {
        {"qwen3-vl:2b", {"Qwen/Qwen3-VL-2B-Instruct-FP8", "Qwen/Qwen3-VL-2B-Instruct"}},
        {"qwen3-vl:4b-instruct", {"Qwen/Qwen3-VL-4B-Instruct-FP8", "Qwen/Qwen3-VL-4B-Instruct"}},
        {"Qwen3-VL:8B-Thinking", {"Qwen/Qwen3-VL-8B-Thinking-FP8", "Qwen/Qwen3-VL-8B-Thinking"}},
        {"qwen3-vl:2b-fp8", {"Qwen/Qwen3-VL-2B-Instruct-FP8", NULL}},
        {"qwen3-vl:2b-thinking-bf16", {"Qwen/Qwen3-VL-2B-Thinking", NULL}},
        {"qwen3-vl:32b-instruct-q8_0", {"Qwen/Qwen3-VL-32B-Instruct-FP8", NULL}},
        {"qwen3-vl", {NULL, NULL}},
        {"qwen3-vl:", {NULL, NULL}},
        {"qwen3-vl:3b", {NULL, NULL}},
        {"qwen3-vl:2b-q4_K_M", {NULL, NULL}},
        {"qwen3-vl:2b-fp8-instruct", {NULL, NULL}},
        {"", {NULL, NULL}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char got[SHORT_NAME_REPOSITORIES][SHORT_NAME_BYTES];
        size_t n = short_name_find(cases[i].name, got), wanted = 0;
        while (wanted < SHORT_NAME_REPOSITORIES && cases[i].wanted[wanted])
            wanted++;
        if (n != wanted) fail_msg("%s: %zu repositories", cases[i].name, n);
        for (size_t k = 0; k < n; k++)
            assert_string_equal(got[k], cases[i].wanted[k]);
    }
}

static void the_shortest_name(void **state)
{
    char name[SHORT_NAME_BYTES];
    (void)state;
    assert_true(short_name_of(name, "Qwen/Qwen3-VL-4B-Instruct-FP8"));
    assert_string_equal(name, "qwen3-vl:4b");
    assert_true(short_name_of(name, "Qwen/Qwen3-VL-4B-Instruct"));
    assert_string_equal(name, "qwen3-vl:4b");
    assert_true(short_name_of(name, "Qwen/Qwen3-VL-2B-Thinking"));
    assert_string_equal(name, "qwen3-vl:2b-thinking");
    assert_false(short_name_of(name, "Qwen/Qwen3-VL-2B"));
    assert_false(short_name_of(name, "models/demo"));
}

static bool is_second(void *user, const char *name)
{
    int *calls = user;
    snprintf((char *)user + sizeof(int), SHORT_NAME_BYTES, "%s", name);
    return ++*calls == 2;
}

static void a_family(void **state)
{
    struct {
        int calls;
        char name[SHORT_NAME_BYTES];
    } seen = {0};
    (void)state;
    assert_true(short_name_each("QWEN3-vl", is_second, &seen));
    assert_string_equal(seen.name, "qwen3-vl:4b"); /* 8b is first in the table */
    assert_false(short_name_each("llama3", is_second, &seen));
    assert_int_equal(seen.calls, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_and_repositories),
                                       cmocka_unit_test(the_shortest_name),
                                       cmocka_unit_test(a_family)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
