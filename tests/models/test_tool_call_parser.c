/* SPDX-License-Identifier: Apache-2.0 */
/* Tool calls in an answer's text: however it is cut into pieces, content and calls are the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "models/chat/hermes_parser.h"

struct call_case {
    const char *text, *wanted; /* content, with [index name arguments] for calls */
};

#define CALL(json) "<tool_call>\n" json "\n</tool_call>"

static const struct call_case cases[] = {
    {"", ""},
    {"plain text", "plain text"},
    {"a < b <tool and <<tool_call >", "a < b <tool and <<tool_call >"},
    {"ends in white space \n\n", "ends in white space \n\n"},
    {" \n", " \n"},
    {"cut off <tool_ca", "cut off <tool_ca"},
    {CALL("{\"name\": \"f\", \"arguments\": {}}"), "[0 f {}]"},
    {"Let me see.\n\n" CALL("{\"name\": \"f\", \"arguments\": {\"a\": 1}}"),
     "Let me see.[0 f {\"a\": 1}]"},
    {"\n\n" CALL("{\"name\": \"f\", \"arguments\": {}}") "\n", "[0 f {}]"},
    {CALL("{\"name\": \"f\", \"arguments\": {\"x\": [1, {\"y\": \"}\"}], \"z\": "
          "\"\\\"\"}}") "\n" CALL("{\"name\": \"g\", \"arguments\": {}}"),
     "[0 f {\"x\": [1, {\"y\": \"}\"}], \"z\": \"\\\"\"}][1 g {}]"},
    {CALL("{\"name\": \"f\", \"arguments\": {}}") "\nand so on", "[0 f {}]\nand so on"},
    {CALL("{\"arguments\": {\"n\": 123456789012345678901234567890, \"r\": 1.50}, "
          "\"name\": \"f\"}"),
     "[0 f {\"n\": 123456789012345678901234567890, \"r\": 1.50}]"},
    {"<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":{}}}</tool_call>", "[0 f {\"a\":{}}]"},
    {CALL("{\"name\": \"gr\\u00fc\\n\", \"arguments\": {\"k\": \"\xc3\xbc\"}}"),
     "[0 gr\xc3\xbc\n {\"k\": \"\xc3\xbc\"}]"},
    {CALL("{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}"), "[0 f {\"a\": 1}]"},
    {CALL("{\"name\": \"f\", \"arguments\": null}"), "[0 f {}]"},
    {CALL("{\"name\": \"f\"}"), "[0 f {}]"},
    {CALL("{\"name\": \"f\", \"arguments\": \"\"}"), "[0 f {}]"},
    {CALL("{\"note\": [1, \"arguments\"], \"name\": \"f\", \"n\": -1.5e3, \"ok\": "
          "true, \"arguments\" : {\"arguments\": 2} }"),
     "[0 f {\"arguments\": 2}]"},
    {CALL("{\"name\": \"f\", \"arguments\": {\"html\": \"</tool_call> "
          "<tool_call>\"}}") "!",
     "[0 f {\"html\": \"</tool_call> <tool_call>\"}]!"},
    /* the answer ends inside the closing mark */
    {"<tool_call>\n{\"name\": \"f\", \"arguments\": {}}", "[0 f {}]"},
    {"so: <tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool",
     "so: <tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool"},
    {"so: <tool_call>\n{\"name\": \"f\", \"argu", "so: <tool_call>\n{\"name\": \"f\", \"argu"},
    {"so:\n<tool_call>", "so:\n<tool_call>"},
    {"<tool_call></tool_call>", "<tool_call></tool_call>"},
    /* unreadable calls are content, and parsing continues after them */
    {CALL("{\"name\": \"f\", \"arguments\": {}") " x",
     "<tool_call>\n{\"name\": \"f\", \"arguments\": {}\n</tool_call> x"},
    {"hm \n" CALL("not JSON") "\n" CALL("{\"name\": \"g\", \"arguments\": {}}"),
     "hm \n" CALL("not JSON") "[0 g {}]"},
    {CALL("{\"name\": 5, \"arguments\": {}}"), CALL("{\"name\": 5, \"arguments\": {}}")},
    {CALL("{\"name\": \"\", \"arguments\": {}}"), CALL("{\"name\": \"\", \"arguments\": {}}")},
    {CALL("{\"name\": \"f\", \"arguments\": [1]}"), CALL("{\"name\": \"f\", \"arguments\": [1]}")},
    {CALL("[\"f\"]"), CALL("[\"f\"]")},
    {CALL("{\"name\": \"f\", \"arguments\": {}} extra"),
     CALL("{\"name\": \"f\", \"arguments\": {}} extra")},
    {"</tool_call>", "</tool_call>"},
    {"<tool_call><tool_call>{\"name\": \"f\"}</tool_call>",
     "<tool_call><tool_call>{\"name\": \"f\"}</tool_call>"},
};

static void take_pieces(void *t, struct buf *got)
{
    ey_answer_piece piece;
    while (hermes_parser_next(t, &piece)) {
        if (piece.call)
            buf_printf(got, "[%d %s %.*s]", piece.index, piece.name, (int)piece.n_arguments,
                       piece.arguments);
        else {
            assert_true(piece.n_text > 0);
            buf_add(got, piece.text, piece.n_text);
        }
    }
}

/* Adds text[from..to) from a block that ends there. */
static void add(void *t, const char *text, size_t from, size_t to, struct buf *got)
{
    size_t n = to - from;
    char *exact = malloc(n ? n : 1);
    memcpy(exact, text + from, n);
    assert_true(hermes_parser_add(t, exact, n));
    free(exact);
    take_pieces(t, got);
}

/* Cuts the text at a and b or, if step is not 0, every `step` bytes. */
static void check(const struct call_case *c, size_t a, size_t b, size_t step)
{
    void *t = hermes_parser_open(false);
    struct buf got = buf_with_max(1 << 16);
    size_t n = strlen(c->text);
    buf_add_text(&got, "");
    if (step)
        for (size_t at = 0; at < n; at += step)
            add(t, c->text, at, at + step < n ? at + step : n, &got);
    else {
        add(t, c->text, 0, a, &got);
        add(t, c->text, a, b, &got);
        add(t, c->text, b, n, &got);
    }
    hermes_parser_end(t);
    take_pieces(t, &got);
    if (strcmp(got.data, c->wanted) != 0)
        fail_msg("%s\n  cut at %zu and %zu, step %zu\n  gives  %s\n  wanted %s", c->text, a, b,
                 step, got.data, c->wanted);
    buf_free(&got);
    hermes_parser_close(t);
}

static void every_way_to_cut_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t n = strlen(cases[i].text);
        for (size_t a = 0; a <= n; a++)
            for (size_t b = a; b <= n; b++)
                check(&cases[i], a, b, 0);
        for (size_t step = 1; step < 8; step++)
            check(&cases[i], 0, 0, step);
    }
}

/* Plain text is passed on immediately, except bytes that may begin a call. */
static void text_is_not_held_back(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t given;
    } now[] = {{"word", 4},       {"word ", 4},           {"word <", 4},
               {"word <b", 7},    {"a\n\n<tool_call", 1}, {"1 < 2", 5},
               {"<tool_calx", 10}};
    for (size_t i = 0; i < sizeof(now) / sizeof(now[0]); i++) {
        void *t = hermes_parser_open(false);
        struct buf got = buf_with_max(1 << 10);
        buf_add_text(&got, "");
        add(t, now[i].text, 0, strlen(now[i].text), &got);
        assert_int_equal(got.size, now[i].given);
        buf_free(&got);
        hermes_parser_close(t);
    }
}

static void a_call_is_given_when_it_is_whole(void **state)
{
    (void)state;
    void *t = hermes_parser_open(false);
    ey_answer_piece piece;
    const char *text = CALL("{\"name\": \"f\", \"arguments\": {}}");
    hermes_parser_add(t, text, strlen(text) - 1);
    assert_false(hermes_parser_next(t, &piece));
    hermes_parser_add(t, ">", 1);
    assert_true(hermes_parser_next(t, &piece) && piece.call);
    assert_string_equal(piece.name, "f");
    assert_false(hermes_parser_next(t, &piece));
    hermes_parser_close(t);
}

static void only_the_first_call_where_one_is_wanted(void **state)
{
    (void)state;
    const char *text = "a " CALL("{\"name\": \"f\"}") "\n" CALL("{\"name\": \"g\"}") "\n" CALL(
        "{\"name\": \"h\"}") " z";
    void *t = hermes_parser_open(true);
    struct buf got = buf_with_max(1 << 10);
    add(t, text, 0, strlen(text), &got);
    hermes_parser_end(t);
    take_pieces(t, &got);
    assert_string_equal(got.data, "a[0 f {}] z");
    buf_free(&got);
    hermes_parser_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_to_cut_it),
        cmocka_unit_test(text_is_not_held_back),
        cmocka_unit_test(a_call_is_given_when_it_is_whole),
        cmocka_unit_test(only_the_first_call_where_one_is_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
