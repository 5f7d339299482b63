/* SPDX-License-Identifier: Apache-2.0 */
/* The reported differences of chat templates. Each row was rendered by transformers 5.24's
 * apply_chat_template: rows without a difference give the built-in prompt for the user message
 * "hi", others do not (tools/golden/saved_checkpoints.py checks them). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "models/chat/template_check.h"

#define TURNS \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
#define TAIL "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
#define QWEN "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
#define NO_SYSTEM "default system prompt: it has none, eyelet's is \"" QWEN "\""

static const char chatml[] =
    "<|im_start|>system\nx<|im_end|>\n<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n"
    "<tool_call>\n{\"name\": \"x\", \"arguments\": {}}\n</tool_call><|im_end|>\n" QWEN;

static const struct row {
    const char *template, *says; /* "": no difference */
    bool qwen2;                  /* else a format without a default system prompt */
} rows[] = {
    /* rows begin */
    {TURNS TAIL, "", false},
    {"{%- for m in messages %}\n    {{- '<|im_start|>' + m['role'] + '\\n' + m['content'] + "
     "'<|im_end|>' + '\\n' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- "
     "'<|im_start|>assistant\\n' }}\n{%- endif %}\n",
     "", false},
    {TURNS "{{ '<|im_start|>assistant\\n' if add_generation_prompt }}", "", false},
    {"{% for m in messages %}\n  {# a comment: You are nobody. #}\n  {% if loop.first and m.role "
     "== 'a role of no model' %}\n    {{ raise_exception('This cannot be.') }}\n  {% endif %}\n"
     "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\n"
     "{% if add_generation_prompt %}\n<|im_start|>assistant\n{% endif %}\n",
     "", false},
    {"{% if messages[0].role != 'system' %}<|im_start|>system\nAnswer in capital "
     "letters.<|im_end|>\n{% endif %}" TURNS TAIL,
     "default system prompt \"Answer in capital letters.\"", false},
    {"{% set system_message = \"You are Ada's bot.\" %}{{ '<|im_start|>system\\n' ~ system_message "
     "~ '<|im_end|>\\n' }}" TURNS TAIL,
     "default system prompt \"You are Ada's bot.\"", false},
    {"<|im_start|>system\n\xe4\xbd\xa0\xe6\x98\xaf\xe5\x8a\xa9\xe6\x89\x8b<|im_end|>\n" TURNS TAIL,
     "default system prompt \"\xe4\xbd\xa0\xe6\x98\xaf\xe5\x8a\xa9\xe6\x89\x8b\"", false},
    {"{% if messages[0].role != 'system' %}<|im_start|>system\n" QWEN
     "<|im_end|>\n{% endif %}" TURNS TAIL,
     "", true},
    {TURNS TAIL, NO_SYSTEM, true},
    {"{% if messages[0].role != 'system' %}<|im_start|>system\nYou are Smol.<|im_end|>\n"
     "{% endif %}" TURNS TAIL,
     "default system prompt \"You are Smol.\"", true},
    {TURNS "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}",
     "thinking; generation prompt \"<|im_start|>assistant\\n<think>\\n\"", false},
    {TURNS "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% if enable_thinking is "
           "not defined %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}",
     "thinking", false},
    {TURNS "{% if add_generation_prompt %}<|im_start|>assistant\nSure: {% endif %}",
     "generation prompt \"<|im_start|>assistant\\nSure: \"; other words \"Sure:\"", false},
    {TURNS, "generation prompt: it has none", false},
    {"{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content }}"
     "<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant"
     "<|end_header_id|>\n\n{% endif %}",
     "generation prompt \"<|start_header_id|>assistant<|end_header_id|>\\n\\n\"; markers such as "
     "\"<|start_header_id|>\"",
     false},
    {"{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'user' %}Question: "
     "{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}" TAIL,
     "other words \"Question:\"", false},
    /* rows end */
};

static void differences(void **state)
{
    (void)state;
    struct buf written = buf_with_max(1 << 16);
    buf_add_text(&written, chatml);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct built_in_format format = {&written, rows[i].qwen2 ? QWEN : NULL,
                                               "<|im_start|>assistant\n", false};
        struct buf out = buf_with_max(4096);
        assert_true(
            template_differences(&out, rows[i].template, strlen(rows[i].template), &format));
        if (strcmp(out.data ? out.data : "", rows[i].says) != 0)
            fail_msg("row %zu says: %s\nnot: %s", i, out.data ? out.data : "", rows[i].says);
        buf_free(&out);
    }
    buf_free(&written);
}

/* Every prefix of a template is parsed to its end. */
static void broken_templates(void **state)
{
    (void)state;
    struct buf written = buf_with_max(1 << 16);
    buf_add_text(&written, chatml);
    const struct built_in_format format = {&written, NULL, "", false};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t n = 0; n < strlen(rows[i].template); n++) {
            struct buf out = buf_with_max(4096);
            assert_true(template_differences(&out, rows[i].template, n, &format));
            buf_free(&out);
        }
    buf_free(&written);
}

/* If an expression has the variable twice, the text before it belongs to the tail only once: the
 * tail is never longer than the template. */
static void variables_that_occur_twice(void **state)
{
    (void)state;
    static const char tail[] = "a tail of more bytes than the name has, and than twice the name";
    struct buf written = buf_with_max(16), out = buf_with_max(4096), template = buf_with_max(4096);
    const struct built_in_format format = {&written, NULL, tail, false};
    buf_printf(&template, "{{ '%s' if add_generation_prompt and add_generation_prompt }}", tail);
    assert_true(template_differences(&out, template.data, template.size, &format));
    assert_null(strstr(out.data ? out.data : "", "generation prompt \""));
    buf_free(&written);
    buf_free(&out);
    buf_free(&template);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(differences),
                                       cmocka_unit_test(broken_templates),
                                       cmocka_unit_test(variables_that_occur_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
