/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the command line that need no model: the option table, suggestions of names, text for
 * terminals, JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "cli/output/answer_json.h"
#include "cli/options/did_you_mean.h"
#include "cli/options/options.h"
#include "cli/terminal/term.h"

/* ---- options ---- */

struct option_case {
    enum command_bit command;
    const char *arguments; /* separated by spaces */
    const char *error;     /* part of the message; NULL: valid */
};

static bool parse(struct options *o, const struct option_case *c, char *copy, ey_err *e)
{
    char *argv[16] = {NULL};
    int argc = 0;
    strcpy(copy, c->arguments);
    for (char *at = strtok(copy, " "); at; at = strtok(NULL, " "))
        argv[argc++] = at;
    return options_parse(o, c->command, argc, argv, e);
}

static void options_table(void **state)
{
    (void)state;
    static const struct option_case cases[] = {
        {ASK, "", NULL},
        {ASK, "--max-tokens 1", NULL},
        {ASK, "--max-tokens=1048576", NULL},
        {ASK, "--max-tokens 1048577", "from 1 to 1048576, not \"1048577\""},
        {ASK, "--max-tokens 0", "not \"0\""},
        {ASK, "--max-tokens -1", "not \"-1\""},
        {ASK, "--max-tokens 1x", "not \"1x\""},
        {ASK, "--max-tokens +1", "not \"+1\""},
        {ASK, "--max-tokens=", "not \"\""},
        {ASK, "--max-tokens 99999999999999999999", "from 1 to"},
        {ASK, "--max-tokens", "needs a value"},
        {ASK, "--max-tokens --json", "needs a value"},
        {ASK, "--max-toknes 3", "did you mean --max-tokens?"},
        {ASK, "--detial low", "did you mean --detail?"},
        {ASK, "--detail medium", "takes auto|low|high"},
        {ASK, "--detail lo", "takes auto|low|high"},
        {ASK, "--detail low|high", "takes auto|low|high"},
        {ASK, "--cpu-mask avx512", NULL},
        {ASK, "--cpu-mask avx2-novnni", NULL},
        {ASK, "--cpu-mask avxvnni", NULL},
        {ASK, "--cpu-mask avx512vbmi", NULL},
        {ASK, "--cpu-mask avx512bf16", NULL},
        {ASK, "--cpu-mask avx512fp16", NULL},
        {ASK, "--cpu-mask avx51", "takes generic|"},
        {ASK, "--max-pixels native", NULL},
        {ASK, "--max-pixels 1023", "or native"},
        {ASK, "--logprobs 21", "from 0 to 20"},
        {ASK, "--logprobs=abc", "from 0 to 20"},
        {ASK, "--threads 257", "from 1 to 256"},
        {ASK, "--json=yes", "takes no value"},
        {ASK, "-j", "after --"},
        {ASK, "--zzzzzz", "there is no option --zzzzzz"},
        {ASK, "--", NULL},
        {ASK, "-- --json -x", NULL},
        {ASK, "-", NULL},
        {CAPTION, "--logprobs", "not an option of caption, but of ask"},
        {LIST, "--model x", "not an option of list, but of ask"},
        {TOKENIZE, "--parse-special", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct options o;
        ey_err e = {0};
        char copy[256];
        bool ok = parse(&o, &cases[i], copy, &e);
        if (ok != !cases[i].error || (!ok && !strstr(e.text, cases[i].error)))
            fail_msg("%s: %s", cases[i].arguments, ok ? "accepted" : e.text);
        if (!ok) assert_int_equal(ey_code_exit_status(e.code), 2);
        options_free(&o);
    }
}

static void options_values(void **state)
{
    (void)state;
    struct options o;
    ey_err e;
    char copy[256];
    static const struct option_case ask = {
        ASK, "a.png --logprobs b.png --max-tokens 7 --max-tokens=8 --max-pixels native -- --json",
        NULL};
    unsetenv("EYELET_MODEL");
    assert_true(parse(&o, &ask, copy, &e));
    assert_int_equal(o.n_args, 3);
    assert_string_equal(o.args[1], "b.png"); /* not a number, so not the value of --logprobs */
    assert_string_equal(o.args[2], "--json");
    assert_int_equal(o.logprobs, 0);
    assert_int_equal(o.max_tokens, 8);
    assert_int_equal(o.max_pixels, MAX_PIXELS_NATIVE);
    assert_string_equal(o.device, "auto");
    assert_null(o.model);
    assert_false(o.json);
    options_free(&o);

    static const struct option_case caption = {CAPTION, "--model b", NULL};
    setenv("EYELET_MODEL", "a", 1);
    assert_true(parse(&o, &caption, copy, &e));
    assert_string_equal(o.model, "b");
    assert_int_equal(o.max_tokens, 128);
    assert_int_equal(o.logprobs, -1);
    options_free(&o);
    unsetenv("EYELET_MODEL");
}

/* ---- names ---- */

static void nearest_table(void **state)
{
    (void)state;
    static const struct {
        const char *typed, *best;
    } rows[] = {
        {"caption", "caption"},
        {"captoin", "caption"},
        {"cap", "caption"},
        {"tokenise", "tokenize"},
        {"akk", "ask"},
        {"serve", NULL},
        {"", NULL},
        {"a-name-much-longer-than-any-that-there-is-or-will-be", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct did_you_mean nearest = did_you_mean_start(rows[i].typed, strlen(rows[i].typed));
        did_you_mean_add(&nearest, "ask");
        did_you_mean_add(&nearest, "caption");
        did_you_mean_add(&nearest, "tokenize");
        if (rows[i].best ? !nearest.best || strcmp(nearest.best, rows[i].best) != 0
                         : nearest.best != NULL)
            fail_msg("%s: %s", rows[i].typed, nearest.best ? nearest.best : "nothing");
    }
}

/* ---- terminals ---- */

static void terminal_gets_no_control_characters(void **state)
{
    (void)state;
    static const struct {
        const char *text, *terminal;
    } rows[] = {
        {"plain\n\ttext", "plain\n\ttext"},
        {"\x1b[31mred\x07", "[31mred"},
        {"gr\xc3\xbc\xc3\x9f \xe2\x98\x83 \xf0\x9f\x98\x80",
         "gr\xc3\xbc\xc3\x9f \xe2\x98\x83 \xf0\x9f\x98\x80"},
        {"a\xc2\x9b"
         "31mb\x7f\r",
         "a31mb"}, /* C1's CSI, DEL */
        {"a\xff\xc3", "a"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *shown = NULL;
        size_t n = 0;
        struct term t = {.file = open_memstream(&shown, &n), .terminal = true};
        assert_true(term_write(&t, rows[i].text, strlen(rows[i].text)));
        fclose(t.file);
        assert_string_equal(shown, rows[i].terminal);
        free(shown);
    }
}

static void names_are_one_line(void **state)
{
    (void)state;
    struct buf name = buf_with_max(1 << 10);
    term_add_name(&name, "a\nb\x1b[2J\xff \xc3\xbc.png");
    assert_string_equal(name.data, "a\\x0ab\\x1b[2J\\xff \xc3\xbc.png");
    buf_free(&name);
}

static void full_disk_is_an_error_and_a_gone_reader_is_not(void **state)
{
    (void)state;
    struct term t = {.file = fopen("/dev/full", "w")};
    if (!t.file) skip();
    assert_false(term_write(&t, "x", 1));
    assert_true(t.closed);
    assert_false(term_write(&t, "x", 1));
    assert_int_equal(term_finish(&t, 0), 1);
    fclose(t.file);
}

/* ---- JSON ---- */

static void answers_are_json(void **state)
{
    (void)state;
    ey_logprob top[] = {{1, "\"\\", -0.5f, "\"\\", 2}, {2, "\xc3", -1.0f / 0.0f, "\xc3", 1}};
    ey_token_logprobs logprobs[] = {{top[0], top, 2}, {top[1], top, 0}};
    ey_image_usage images[] = {{1, 2, 3, 4, 5, false}, {6, 7, 8, 9, 10, true}};
    ey_answer answer = {.prompt_tokens = 20,
                        .completion_tokens = 2,
                        .image_tokens = 15,
                        .images = images,
                        .n_images = 2,
                        .logprobs = logprobs,
                        .n_logprobs = 2};
    struct buf out = buf_with_max(1 << 16);
    ey_err e;
    struct json_writer w = json_write_to(&out, JSON_SPACED);
    json_open_array(&w);
    answer_write_usage(&w, &answer);
    answer_write_timings(&w, &answer, 1.25);
    answer_write_logprobs(&w, &answer, true);
    json_close_array(&w);
    json_object *value = json_parse(out.data, out.size, "answer", EY_INTERNAL, &e);
    assert_non_null(value);
    assert_non_null(strstr(out.data, "{\"token\": \"\\\"\\\\\", \"logprob\": -0.5, \"top\": [{"));
    assert_non_null(strstr(out.data, "\"logprob\": null"));
    assert_non_null(strstr(
        out.data,
        "{\"width\": 6, \"height\": 7, \"used_width\": 8, \"used_height\": 9, \"tokens\": 10}"));
    json_object_put(value);
    buf_free(&out);
}

/* ps shows no key of these arguments; the options keep it until it is wiped. */
static void keys_leave_the_arguments(void **state)
{
    (void)state;
    char option[] = "--api-key", first[] = "first-key", joined[] = "--api-key=second-key";
    char *argv[] = {option, first, joined, NULL};
    struct options o;
    ey_err e;
    assert_true(options_parse(&o, SERVE, 3, argv, &e));
    assert_true(options_hide_keys(&o, &e));
    assert_string_equal(first, "");
    assert_string_equal(joined, "--api-key=");
    for (size_t i = 0; i < sizeof(first); i++)
        assert_int_equal(first[i], 0);
    assert_int_equal(o.api_keys.n, 2);
    assert_string_equal(o.api_keys.item[0], "first-key");
    assert_string_equal(o.api_keys.item[1], "second-key");
    options_wipe_keys(&o);
    assert_string_equal(o.api_keys.item[0], "");
    options_free(&o);
    char client[] = "--api-key=third-key";
    char *ask[] = {client, NULL};
    assert_true(options_parse(&o, ASK, 1, ask, &e));
    assert_true(options_hide_keys(&o, &e));
    assert_string_equal(client, "--api-key=");
    assert_string_equal(o.api_key, "third-key");
    options_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_table),
        cmocka_unit_test(options_values),
        cmocka_unit_test(nearest_table),
        cmocka_unit_test(terminal_gets_no_control_characters),
        cmocka_unit_test(names_are_one_line),
        cmocka_unit_test(full_disk_is_an_error_and_a_gone_reader_is_not),
        cmocka_unit_test(keys_leave_the_arguments),
        cmocka_unit_test(answers_are_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
