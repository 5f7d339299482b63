/* SPDX-License-Identifier: Apache-2.0 */
/* Thinking and the loop guard, with a checkpoint whose template opens a thought and a model that is
 * scripted token by token. */
#include "base/allocations.h"
#include "engine/decode_allocations.h"
#include "engine/engine_fixture.h"
#include "engine/request/loop_guard.h"
#include "engine/swap_ops.h"
#include "models/ckpt_edit.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define TEMPLATE                                                                 \
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content + " \
    "'<|im_end|>\\n' }}{%- endfor %}{%- if add_generation_prompt %}\n    {{- "   \
    "'<|im_start|>assistant\\n<think>\\n' }}\n{%- endif %}\n"

static struct question q;
static ey_engine *thinker, *plain;

static ey_engine *open_thinker(void)
{
    static char dir[400];
    snprintf(dir, sizeof(dir), "%s/thinker", fixture_dir());
    ckpt_copy(ckpt_make(fixture_dir(), "tiny-ragged-fp8"), dir);
    ckpt_write_file(dir, "chat_template.jinja", TEMPLATE, strlen(TEMPLATE));
    return engine_open(dir, "cpu", 1, 4096);
}

/* ---- scripted logits ---- */

static struct memory_ops scripted_memory;
static struct backend_ops scripted;
static const struct backend_ops *real;
static int *script;
static size_t n_script, at_script;
static bool repeats; /* starts again at the end */

static void read_scripted(struct backend *be, float *out, const float *in, size_t n)
{
    real->memory->read_logits(be, out, in, n);
    if (repeats && at_script == n_script) at_script = 0;
    if (at_script < n_script) out[script[at_script++]] = 1e6f;
}

static void script_on(ey_engine *engine)
{
    real = engine->devices.be->ops; /* shared by all CPU engines */
    scripted_memory = *real->memory;
    scripted_memory.read_logits = read_scripted;
    scripted = *real;
    scripted.memory = &scripted_memory;
    swap_ops(engine, &scripted);
}

static void say(const ey_engine *engine, const char *text)
{
    ey_err e;
    free(script);
    if (!ey_tokenize(engine, text, strlen(text), true, &script, &n_script, &e))
        fail_msg("%s", e.text);
    at_script = 0;
    repeats = false;
}

/* ---- events ---- */

struct heard {
    char thought[8192], text[8192];
    size_t n_thought, n_text;
    bool mixed; /* thought after text */
};

static bool hear(void *user, const ey_event *event)
{
    struct heard *h = user;
    if (event->type == EY_EVENT_THOUGHT) {
        h->mixed |= h->n_text > 0;
        memcpy(h->thought + h->n_thought, event->text, event->n_text);
        h->n_thought += event->n_text;
    } else if (event->type == EY_EVENT_TEXT) {
        memcpy(h->text + h->n_text, event->text, event->n_text);
        h->n_text += event->n_text;
    }
    return true;
}

static ey_answer ask_scripted(ey_engine *engine, const char *says, struct heard *heard)
{
    say(engine, says);
    memset(heard, 0, sizeof(*heard));
    q.request.on_event = hear;
    q.request.event_user = heard;
    ey_answer answer = ask(engine, &q);
    assert_false(heard->mixed);
    assert_string_equal(heard->thought, answer.thought);
    assert_string_equal(heard->text, answer.text);
    assert_int_equal(answer.n_thought, strlen(answer.thought));
    assert_int_equal(answer.n_text, strlen(answer.text));
    return answer;
}

static void start_question(int max_tokens)
{
    question_simple(&q, 0, "Why?", max_tokens);
    q.request.ignore_eos = false;
}

/* ---- splitting ---- */

static void thoughts_are_split_from_text(void **state)
{
    static const struct {
        const char *says, *thought, *text;
    } rows[] = {
        {"hm\n</think>\n\nYes.<|im_end|>", "hm", "Yes."},
        {"\n\na\n\nb\n\n</think>Yes\n<|im_end|>", "a\n\nb", "Yes\n"},
        {"<think>\nhm</think>\nNo<|im_end|>", "hm", "No"}, /* opened a second time */
        {"all of it<|im_end|>", "all of it", ""},
        {"</think>\n\nYes<|im_end|>", "", "Yes"},
        {"\n</think>\n\n<|im_end|>", "", ""},
        {"hm</think>a</think>b<|im_end|>", "hm", "a</think>b"},
        {"hm<tool_call>\n{}\n</tool_call><|im_end|>", "hm", "<tool_call>\n{}\n</tool_call>"},
        {"h\xc3\xa9\n</think>\n\xc3\xa9<|im_end|>", "h\xc3\xa9", "\xc3\xa9"},
        {"\n\n\n<|im_end|>", "", ""},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct heard heard;
        start_question(64);
        ey_answer answer = ask_scripted(thinker, rows[i].says, &heard);
        if (strcmp(answer.thought, rows[i].thought) || strcmp(answer.text, rows[i].text))
            fail_msg("%s: \"%s\" and \"%s\"", rows[i].says, answer.thought, answer.text);
        assert_int_equal(answer.finish_reason, EY_FINISH_STOP);
        assert_int_equal(answer.completion_tokens, n_script);
        ey_answer_free(&answer);
    }
}

/* With thinking off, or a template that opens no thought, a thought that the model opens itself
 * still counts as one. */
static void a_thought_may_open_itself(void **state)
{
    (void)state;
    ey_engine *engines[] = {thinker, plain};
    for (size_t i = 0; i < COUNT(engines); i++) {
        struct heard heard;
        start_question(64);
        q.request.thinking = EY_THINKING_OFF;
        ey_answer answer = ask_scripted(engines[i], "<think>\nhm\n</think>\n\nYes<|im_end|>",
                                        &heard);
        assert_string_equal(answer.thought, "hm");
        assert_string_equal(answer.text, "Yes");
        ey_answer_free(&answer);
        answer = ask_scripted(engines[i], "\nYes</think><think>x<|im_end|>", &heard);
        assert_string_equal(answer.thought, "");
        assert_string_equal(answer.text, "\nYes</think><think>x");
        ey_answer_free(&answer);
    }
}

static void raw_prompts_open_no_thought(void **state)
{
    struct heard heard;
    (void)state;
    start_question(64);
    q.request.messages = NULL;
    q.request.n_messages = 0;
    q.request.text = "Why?";
    q.request.n_text = 4;
    ey_answer answer = ask_scripted(thinker, "<think>hm</think>Yes<|im_end|>", &heard);
    assert_string_equal(answer.text, "<think>hm</think>Yes");
    assert_int_equal(answer.thought_tokens, 0);
    ey_answer_free(&answer);
}

static void thinking_needs_a_template(void **state)
{
    ey_answer answer;
    ey_err e;
    (void)state;
    assert_true(ey_engine_describe(thinker).thinks);
    assert_false(ey_engine_describe(plain).thinks);
    start_question(8);
    q.request.thinking = EY_THINKING_ON;
    assert_false(ey_ask(plain, &q.request, &answer, &e));
    assert_int_equal(e.code, EY_BAD_REQUEST);
    ey_answer_free(&answer);
}

/* Stop texts end the text, not the thought; log-probabilities cover the text only. */
static void stop_texts_and_logprobs_are_of_the_text(void **state)
{
    static const char *const stops[] = {"b"};
    struct heard heard;
    (void)state;
    start_question(64);
    q.request.stop = stops;
    q.request.n_stop = 1;
    q.request.top_logprobs = 0;
    ey_answer answer = ask_scripted(thinker, "abc</think>\n\nAb<|im_end|>", &heard);
    assert_string_equal(answer.thought, "abc");
    assert_string_equal(answer.text, "A");
    assert_string_equal(answer.stop_text, "b");
    assert_int_equal(answer.n_logprobs, answer.completion_tokens - answer.thought_tokens);
    ey_answer_free(&answer);
}

static void grammars_begin_after_the_thought(void **state)
{
    struct heard heard;
    ey_grammar *digits;
    ey_err e;
    (void)state;
    assert_true(ey_grammar_of_regex(&digits, "[0-9]{3}", 8, &e));
    start_question(64);
    q.request.grammar = digits;
    ey_answer answer = ask_scripted(thinker, "abc</think>427", &heard);
    assert_string_equal(answer.thought, "abc");
    assert_string_equal(answer.text, "427");
    assert_int_equal(answer.finish_reason, EY_FINISH_STOP);
    ey_answer_free(&answer);
    /* the grammar has no tool calls, so the thought ends there */
    answer = ask_scripted(thinker, "a<tool_call>427", &heard);
    assert_string_equal(answer.thought, "a");
    assert_string_equal(answer.text, "427");
    ey_answer_free(&answer);
    /* an end token before the grammar has begun */
    answer = ask_scripted(thinker, "a<|im_end|>427", &heard);
    assert_string_equal(answer.thought, "a");
    assert_string_equal(answer.text, "427");
    assert_int_equal(answer.stop_id, -1);
    ey_answer_free(&answer);
    q.request.thinking = EY_THINKING_OFF;
    answer = ask_scripted(thinker, "427", &heard);
    assert_string_equal(answer.thought, "");
    assert_string_equal(answer.text, "427");
    ey_answer_free(&answer);
    ey_grammar_free(&digits);
}

/* ---- budgets ---- */

static void a_budget_ends_the_thought(void **state)
{
    struct heard heard;
    (void)state;
    start_question(64);
    q.request.thinking_budget = 3;
    ey_answer answer = ask_scripted(thinker, "123Yes<|im_end|>", &heard);
    assert_string_equal(answer.thought, "123");
    assert_string_equal(answer.text, "Yes");
    assert_int_equal(answer.completion_tokens, answer.n_tokens + 1);
    assert_int_equal(answer.tokens[4], tokenizer_added_id(thinker->devices.tok, "</think>"));
    ey_answer_free(&answer);
}

/* thinking_end may have words; those before </think> belong to the thought. */
static void a_budget_may_end_with_words(void **state)
{
    static const char *const bad[] = {"", "no mark", "</think>a</think>"};
    struct heard heard;
    ey_err e;
    (void)state;
    start_question(64);
    q.request.thinking_budget = 3;
    q.request.thinking_end = "\nEnough.\n</think>\n\n";
    ey_answer answer = ask_scripted(thinker, "123Yes<|im_end|>", &heard);
    assert_string_equal(answer.thought, "123\nEnough.");
    assert_string_equal(answer.text, "Yes");
    assert_int_equal(answer.completion_tokens, answer.n_tokens + 1);
    /* Yes, and the end token */
    assert_int_equal(answer.completion_tokens - answer.thought_tokens, 2);
    ey_answer_free(&answer);
    for (size_t i = 0; i < COUNT(bad); i++) {
        q.request.thinking_end = bad[i];
        assert_false(ey_ask(thinker, &q.request, &answer, &e));
        assert_int_equal(e.code, EY_BAD_REQUEST);
        assert_non_null(strstr(e.text, "</think> once"));
    }
}

/* NFC makes two characters of each, so a short text becomes too many tokens. */
static void a_text_may_grow_when_it_is_normalized(void **state)
{
    static const char note[] = "\xf0\x9d\x85\x9e"; /* U+1D15E */
    struct buf end = buf_with_max(EY_MAX_THINKING_END);
    ey_answer answer;
    ey_err e;
    (void)state;
    while (end.size + strlen(note) + strlen("</think>") < EY_MAX_THINKING_END)
        buf_add_text(&end, note);
    buf_add_text(&end, "</think>");
    start_question(64);
    q.request.thinking_budget = 3;
    q.request.thinking_end = end.data;
    assert_false(ey_ask(thinker, &q.request, &answer, &e));
    assert_int_equal(e.code, EY_BAD_REQUEST);
    assert_non_null(strstr(e.text, "tokens; shorten it"));
    buf_free(&end);
}

/* An answer that continues an assistant message opens no thought. */
static void continued_answers_open_no_thought(void **state)
{
    struct heard heard;
    (void)state;
    start_question(64);
    q.request.thinking = EY_THINKING_ON;
    question_turn(&q, "assistant");
    question_text(&q, "Be");
    q.request.continue_answer = true;
    ey_answer answer = ask_scripted(thinker, "cause</think>d<|im_end|>", &heard);
    assert_string_equal(answer.thought, "");
    assert_int_equal(answer.thought_tokens, 0);
    assert_int_equal(strncmp(answer.text, "cause", 5), 0);
    ey_answer_free(&answer);
}

/* 10 of 40 tokens are kept for the answer. */
static void a_quarter_is_kept(void **state)
{
    struct heard heard;
    (void)state;
    start_question(40);
    q.request.thinking_budget = EY_KEEP_ANSWER;
    say(thinker, "a");
    repeats = true;
    memset(&heard, 0, sizeof(heard));
    q.request.on_event = hear;
    q.request.event_user = &heard;
    ey_answer answer = ask(thinker, &q);
    assert_int_equal(answer.n_thought, 30);
    assert_int_equal(answer.completion_tokens, 40);
    assert_int_equal(answer.finish_reason, EY_FINISH_LENGTH);
    assert_true(answer.n_text > 0 && answer.n_text <= 10);
    ey_answer_free(&answer);
}

/* A forced token consumes no random number, so the tokens after it are drawn as without it. */
static void forced_tokens_are_not_drawn(void **state)
{
    (void)state;
    struct sampler a = {.answer_count = calloc(4, sizeof(int32_t))};
    sampler_record(&a, 1);
    sampler_record_forced(&a, 2);
    assert_int_equal(a.n_drawn, 1);
    assert_int_equal(a.answer_count[2], 1);
    free(a.answer_count);
}

/* ---- loops ---- */

static ey_repetition guard_all(const ey_loop_guard *rule, const int32_t *ids, int n, int *at)
{
    struct arena arena = {0};
    struct loop_guard g;
    ey_repetition found = {0};
    assert_true(loop_guard_open(&g, rule, &arena));
    loop_guard_begin(&g, 0);
    for (*at = 1; *at <= n; ++*at) {
        found = loop_guard_add(&g, ids, *at);
        if (found.copies) break;
    }
    arena_free(&arena);
    return found;
}

/* Whether the ids repeat, by the definition and without counters. */
static bool repeats_at(const ey_loop_guard *rule, const int32_t *ids, int n, int *pattern)
{
    for (int p = rule->min_pattern ? rule->min_pattern : 1; p <= rule->max_pattern; p++) {
        int same = 0;
        while (n - 1 - same - p >= 0 && ids[n - 1 - same] == ids[n - 1 - same - p])
            same++;
        *pattern = p;
        if (n > p && same + p >= rule->min_count * p && same + p >= rule->min_tokens) return true;
    }
    return false;
}

static void loops_are_found_as_defined(void **state)
{
    (void)state;
    uint32_t noise = 1;
    for (int round = 0; round < 400; round++) {
        int32_t ids[200];
        int at, pattern = 0, n;
        const ey_loop_guard rule = {.min_pattern = round % 4,
                                    .max_pattern = 4 + round % 13,
                                    .min_count = 2 + round % 5,
                                    .min_tokens = round % 3 * 20};
        const int period = 1 + round % 17;
        for (int i = 0; i < 200; i++) {
            noise = noise * 1664525u + 1013904223u;
            ids[i] = i >= 100 ? ids[i - period] : (int32_t)(noise >> 30);
        }
        ey_repetition found = guard_all(&rule, ids, 200, &at);
        for (n = 1; n <= 200; n++)
            if (repeats_at(&rule, ids, n, &pattern)) break;
        assert_int_equal(at, n);
        if (n > 200) continue;
        assert_int_equal(found.pattern_tokens, pattern);
        assert_true(found.copies >= rule.min_count);
    }
}

/* The cautious rule fires at 1,024 equal tokens, 86 rows of 12 or 8 paragraphs of 300. */
static void the_cautious_rule_is_late(void **state)
{
    static int32_t ids[4096];
    static const int rows[][2] = {{1, 1024}, {12, 1024}, {300, 2400}, {512, 4096}};
    const ey_loop_guard rule = ey_loop_guard_cautious(1024);
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int at;
        for (int k = 0; k < 4096; k++)
            ids[k] = k % rows[i][0];
        ey_repetition found = guard_all(&rule, ids, 4096, &at);
        assert_int_equal(at, rows[i][1]);
        assert_int_equal(found.pattern_tokens, rows[i][0]);
        assert_int_equal(found.copies, rows[i][1] / rows[i][0]);
    }
    for (int k = 0; k < 4096; k++)
        ids[k] = k % 513;
    int at;
    assert_int_equal(guard_all(&rule, ids, 4096, &at).copies, 0);
}

static void rules_are_checked(void **state)
{
    static const ey_loop_guard bad[] = {
        {.max_pattern = -1},
        {.max_pattern = 2049, .min_count = 2},
        {.min_pattern = 5, .max_pattern = 4, .min_count = 2},
        {.min_pattern = -1, .max_pattern = 4, .min_count = 2},
        {.max_pattern = 4, .min_count = 1},
        {.max_pattern = 4, .min_count = 1000001},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        ey_answer answer;
        ey_err e;
        start_question(8);
        q.request.loop_guard = bad[i];
        assert_false(ey_ask(plain, &q.request, &answer, &e));
        assert_int_equal(e.code, EY_BAD_REQUEST);
        ey_answer_free(&answer);
    }
}

/* A loop in a thought ends the thought; the text is counted separately. */
static void a_loop_ends_thought_and_text(void **state)
{
    struct heard heard;
    (void)state;
    start_question(200);
    q.request.loop_guard = (ey_loop_guard){.max_pattern = 8, .min_count = 4, .min_tokens = 12};
    say(thinker, "12");
    repeats = true;
    memset(&heard, 0, sizeof(heard));
    q.request.on_event = hear;
    q.request.event_user = &heard;
    ey_answer answer = ask(thinker, &q);
    assert_string_equal(answer.thought, "121212121212");
    assert_string_equal(answer.text, "121212121212");
    assert_string_equal(heard.text, answer.text);
    assert_int_equal(answer.finish_reason, EY_FINISH_LENGTH);
    assert_int_equal(answer.repetition.pattern_tokens, 2);
    assert_int_equal(answer.repetition.copies, 6);
    ey_answer_free(&answer);
}

/* ---- memory ---- */

static bool hear_thought_too(void *user, const ey_event *event)
{
    ey_event same = *event;
    if (same.type == EY_EVENT_THOUGHT) same.type = EY_EVENT_TEXT;
    return decode_allocations_hear(user, &same);
}

static void thinking_allocates_nothing(void **state)
{
    struct decode_allocations heard = {0};
    (void)state;
    thinker->limits.max_unread = 1;
    start_question(120);
    q.request.thinking_budget = 40;
    q.request.loop_guard = ey_loop_guard_cautious(1024);
    say(thinker, "a\nb");
    repeats = true;
    q.request.on_event = hear_thought_too;
    q.request.event_user = &heard;
    ey_answer answer = ask(thinker, &q);
    allocations_stop();
    assert_true(heard.n_texts >= 20);
    assert_int_equal(heard.n, 0);
    ey_answer_free(&answer);
}

static int open_engines(void **state)
{
    if (engine_fixture_open(state)) return 1;
    thinker = open_thinker();
    plain = engine_open("tiny-ragged-fp8", "cpu", 1, 512);
    script_on(thinker);
    swap_ops(plain, &scripted);
    return 0;
}

static int close_engines(void **state)
{
    free(script);
    ey_engine_close(&thinker);
    ey_engine_close(&plain);
    return engine_fixture_close(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thoughts_are_split_from_text),
        cmocka_unit_test(a_thought_may_open_itself),
        cmocka_unit_test(raw_prompts_open_no_thought),
        cmocka_unit_test(thinking_needs_a_template),
        cmocka_unit_test(stop_texts_and_logprobs_are_of_the_text),
        cmocka_unit_test(grammars_begin_after_the_thought),
        cmocka_unit_test(a_budget_ends_the_thought),
        cmocka_unit_test(a_budget_may_end_with_words),
        cmocka_unit_test(a_text_may_grow_when_it_is_normalized),
        cmocka_unit_test(continued_answers_open_no_thought),
        cmocka_unit_test(a_quarter_is_kept),
        cmocka_unit_test(forced_tokens_are_not_drawn),
        cmocka_unit_test(loops_are_found_as_defined),
        cmocka_unit_test(the_cautious_rule_is_late),
        cmocka_unit_test(rules_are_checked),
        cmocka_unit_test(a_loop_ends_thought_and_text),
        cmocka_unit_test(thinking_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, open_engines, close_engines);
}
