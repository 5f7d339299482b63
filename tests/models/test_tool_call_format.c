/* SPDX-License-Identifier: Apache-2.0 */
/* Prompts, grammars and answers follow the family's tool-call format, whatever it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "models/chat/chatml.h"
#include "models/chat/hermes.h"
#include "models/model.h"
#include "models/toy_tool_calls.h"

/* ---- prompts ---- */

static const char tool_text[] = "{\"name\":\"f\"}";

/* A chat with all fields of tools. */
static ey_request tool_chat(void)
{
    static const char *const tools[] = {tool_text};
    static const ey_tool_call call = {"f", "{}"};
    static const ey_part question = {.bytes = "hi", .n_bytes = 2},
                         result = {.bytes = "7", .n_bytes = 1};
    static const ey_message messages[] = {
        {.role = "user", .parts = &question, .n_parts = 1},
        {.role = "assistant", .tool_calls = &call, .n_tool_calls = 1},
        {.role = "tool", .parts = &result, .n_parts = 1},
    };
    return (ey_request){.messages = messages, .n_messages = 3, .tools = tools, .n_tools = 1};
}

static void prompts_are_written_in_the_format(void **state)
{
    (void)state;
    const struct chatml style = {.tools = &toy_tool_calls};
    ey_request request = tool_chat();
    struct prompt prompt;
    struct buf text = buf_with_max(1 << 12);
    ey_err e;
    if (!chatml_prompt(&prompt, &request, &style, &e)) fail_msg("%s", e.text);
    assert_true(prompt_text(&prompt, NULL, &text));
    assert_string_equal(text.data, "<|im_start|>system\nmay call {\"name\":\"f\"}<|im_end|>\n"
                                   "<|im_start|>user\nhi<|im_end|>\n"
                                   "<|im_start|>assistant\n!f {};<|im_end|>\n"
                                   "<|im_start|>user=7<|im_end|>\n"
                                   "<|im_start|>assistant\n");
    buf_free(&text);
    prompt_free(&prompt);
}

static void no_format_means_no_tools(void **state)
{
    (void)state;
    const struct chatml style = {0};
    ey_request request = tool_chat();
    struct prompt prompt;
    ey_err e;
    assert_false(chatml_prompt(&prompt, &request, &style, &e));
    assert_int_equal(e.code, EY_BAD_REQUEST);
    assert_string_equal(e.text,
                        "this model's chat format knows no tools; send the request without them");
    prompt_free(&prompt);
}

/* Families support tools exactly if they have a format. */
static void families_take_tools_if_they_have_a_format(void **state)
{
    (void)state;
    static const struct {
        const struct family *family;
        const struct tool_call_format *format;
    } rows[] = {
        {&family_qwen3vl, &hermes_tool_calls},
        {&family_qwen3, &hermes_tool_calls},
        {&family_qwen2, &hermes_dumped_tool_calls},
        {&family_phi3, NULL},
        {&family_llama, NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ey_request request = tool_chat();
        struct prompt prompt;
        ey_err e;
        bool taken = rows[i].family->prompt(&prompt, &request, &e);
        prompt_free(&prompt);
        assert_ptr_equal(rows[i].family->tool_calls, rows[i].format);
        assert_int_equal(taken, rows[i].format != NULL);
        if (!taken) assert_non_null(strstr(e.text, "knows no tools"));
    }
}

/* ---- grammars ---- */

static void grammars_come_from_the_format(void **state)
{
    (void)state;
    const ey_tool tools[] = {{"f", NULL}, {"g", "{\"not\": {}}"}};
    ey_grammar *grammar = NULL;
    ey_err e;
    assert_true(ey_grammar_of_tool_calls(&grammar, &toy_tool_calls, tools, 2, true, &e));
    ey_grammar_free(&grammar);
    assert_true(ey_grammar_of_tool_calls(&grammar, &hermes_tool_calls, tools, 1, true, &e));
    ey_grammar_free(&grammar);
    /* toy has no schemas; Hermes refuses the second tool's schema and names the tool */
    assert_false(ey_grammar_of_tool_calls(&grammar, &hermes_tool_calls, tools, 2, true, &e));
    assert_int_equal(e.item_kind, EY_ITEM_TOOL);
    assert_int_equal(e.item, 1);
    assert_memory_equal(e.text, "tool 2: ", 8); /* numbered as in prompts */
    assert_int_equal(e.detail, 8);
    static char name[300001];
    memset(name, 'f', sizeof(name) - 1);
    const ey_tool endless = {name, NULL};
    assert_false(ey_grammar_of_tool_calls(&grammar, &hermes_tool_calls, &endless, 1, false, &e));
    assert_false(ey_grammar_of_tool_calls(&grammar, NULL, tools, 1, true, &e));
    assert_int_equal(e.code, EY_BAD_REQUEST);
    assert_string_equal(e.text,
                        "this model's chat format knows no tools; send the request without them");
}

static void formats_of_other_grammars_have_other_names(void **state)
{
    (void)state;
    assert_string_equal(ey_tool_format_name(&toy_tool_calls), "toy");
    assert_string_equal(ey_tool_format_name(&hermes_tool_calls), "hermes");
    assert_string_equal(ey_tool_format_name(&hermes_dumped_tool_calls), "hermes");
    assert_string_equal(ey_tool_format_name(NULL), "");
}

/* ---- answers ---- */

/* The pieces of the answer: text, and "[0 name arguments]" for a call. */
static void check_answer(const struct tool_call_format *format, const char *answer,
                         const char *wanted)
{
    ey_tool_parser *parser;
    ey_answer_piece piece;
    ey_err e;
    struct buf got = buf_with_max(1 << 12);
    if (!ey_tool_parser_open(&parser, format, false, &e)) fail_msg("%s", e.text);
    assert_true(ey_tool_parser_add(parser, answer, strlen(answer)));
    ey_tool_parser_end(parser);
    while (ey_tool_parser_next(parser, &piece))
        if (piece.call)
            buf_printf(&got, "[%d %s %.*s]", piece.index, piece.name, (int)piece.n_arguments,
                       piece.arguments);
        else
            buf_add(&got, piece.text, piece.n_text);
    assert_string_equal(got.data, wanted);
    buf_free(&got);
    ey_tool_parser_free(&parser);
    assert_null(parser);
    ey_tool_parser_free(&parser);
}

static void answers_are_read_in_the_format(void **state)
{
    (void)state;
    static const char hermes[] = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
    check_answer(&toy_tool_calls, "!f {};", "[0 f {}]");
    check_answer(&toy_tool_calls, hermes, hermes);
    check_answer(&hermes_tool_calls, hermes, "[0 f {}]");
    check_answer(&hermes_dumped_tool_calls, hermes, "[0 f {}]");
    check_answer(&hermes_tool_calls, "!f {};", "!f {};");
}

static void no_format_reads_no_answer(void **state)
{
    (void)state;
    ey_tool_parser *parser;
    ey_err e;
    assert_false(ey_tool_parser_open(&parser, NULL, false, &e));
    assert_null(parser);
    assert_int_equal(e.code, EY_BAD_REQUEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_are_written_in_the_format),
        cmocka_unit_test(no_format_means_no_tools),
        cmocka_unit_test(families_take_tools_if_they_have_a_format),
        cmocka_unit_test(grammars_come_from_the_format),
        cmocka_unit_test(formats_of_other_grammars_have_other_names),
        cmocka_unit_test(answers_are_read_in_the_format),
        cmocka_unit_test(no_format_reads_no_answer),
    };
    return cmocka_run_group_tests_name("tool call format", tests, NULL, NULL);
}
