/* SPDX-License-Identifier: Apache-2.0 */
/* The matcher of one answer: masks, ends, combined grammars, and state that answers share. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "constrain/constrain_fixture.h"
#include "constrain/random_walks.h"

static const char person[] = "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": "
                             "\"string\", \"maxLength\": 12}, \"tags\": {\"type\": \"array\","
                             " \"items\": {\"enum\": [\"a\", \"b\"]}, \"maxItems\": 3}, \"next\": "
                             "{\"$ref\": \"#\"}}, \"required\": [\"name\"]}";

static struct matcher *open_ok(struct grammar *g, const struct vocabulary *v)
{
    struct matcher *c = NULL;
    ey_err e;
    if (!matcher_open(&c, g, v, &e)) fail_msg("%s", e.text);
    return c;
}

static bool accepts(struct matcher *c, const char *text)
{
    return matcher_accept_text(c, text, strlen(text));
}

static size_t mask_size(struct matcher *c)
{
    const uint32_t *mask = matcher_mask(c);
    size_t n = 0;
    for (size_t i = 0; i < vocabulary_words(demo_vocabulary()); i++)
        n += (size_t)__builtin_popcount(mask[i]);
    return n;
}

/* ---- ends ---- */

static void an_answer_ends_where_it_may(void **state)
{
    struct grammar *g = schema_ok("{\"type\": [\"integer\", \"object\"], \"properties\": {}}");
    struct matcher *c = open_ok(g, demo_vocabulary());
    (void)state;
    assert_false(matcher_may_end(c));
    assert_true(accepts(c, "12"));
    assert_true(matcher_may_end(c) && !matcher_must_end(c));
    assert_true(mask_size(c) >= 10); /* more digits */
    assert_false(accepts(c, "}"));
    assert_true(matcher_may_end(c));
    matcher_reset(c);
    assert_true(accepts(c, "{}"));
    assert_true(matcher_may_end(c) && matcher_must_end(c));
    assert_int_equal(mask_size(c), 0);
    assert_false(matcher_accept_token(c, 0));
    matcher_close(&c);
    grammar_release(&g);
}

static void refused_tokens_change_nothing(void **state)
{
    struct grammar *g = schema_ok(person);
    struct matcher *c = open_ok(g, demo_vocabulary());
    (void)state;
    assert_true(accepts(c, "{\"name\":\"x\",\"next\":{\"name\":\"y\","));
    assert_false(accepts(c, "\"tags\":[\"a\"]},\"oops\"")); /* fails two levels down */
    assert_false(accepts(c, "\"tags\":[\"a\",\"a\",\"b\",\"a\"]"));
    assert_false(matcher_accept_token(c, -1));
    assert_false(matcher_accept_token(c, 1 << 29));
    assert_true(accepts(c, "\"tags\":[\"a\",\"a\",\"b\"]}}"));
    assert_true(matcher_must_end(c));
    matcher_close(&c);
    grammar_release(&g);
}

/* ---- masks ---- */

static void masks_hold_exactly_what_is_accepted(void **state)
{
    static const char *const places[] = {"",
                                         "{",
                                         "{\"",
                                         "{\"name",
                                         "{\"name\":",
                                         "{\"name\": \"",
                                         "{\"name\":\"abcdefghij",
                                         "{\"name\":\"abcdefghijkl",
                                         "{\"name\":\"\\",
                                         "{\"name\":\"\\u00",
                                         "{\"name\":\"\\ud83d\\",
                                         "{\"name\":\"\xe6\x97",
                                         "{\"name\":\"a\",\"tags\":[\"a\",\"b\"",
                                         "{\"name\":\"a\",\"tags\":[\"a\",\"b\",\"a\"",
                                         "{\"name\":\"a\",\"next\":{\"name\":\"b\"",
                                         "{\"name\":\"a\"}"};
    struct grammar *g = schema_ok(person);
    struct matcher *c = open_ok(g, demo_vocabulary());
    (void)state;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct buf text = buf_with_max(100);
        assert_true(buf_add_text(&text, places[i]));
        matcher_reset(c);
        assert_true(accepts(c, places[i]));
        if (!mask_is_exact(c, demo_tokenizer(), &text))
            fail_msg("the mask behind %s is not exact", places[i]);
        buf_free(&text);
    }
    matcher_close(&c);
    grammar_release(&g);
}

static void special_tokens_are_never_allowed(void **state)
{
    const struct tokenizer *tok = demo_tokenizer();
    struct grammar *g = regex_ok("(.|\\n)*");
    struct matcher *c = open_ok(g, demo_vocabulary());
    (void)state;
    const uint32_t *mask = matcher_mask(c);
    for (int32_t id = 0; id < tokenizer_size(tok); id++)
        if (tokenizer_is_special(tok, id) && (mask_has(mask, id) || matcher_accept_token(c, id)))
            fail_msg("special token %d is allowed", id);
    /* an added token that is not special */
    assert_true(mask_has(mask, tokenizer_added_id(tok, "<think>")));
    matcher_close(&c);
    grammar_release(&g);
}

/* Appends the token ids of a walk; equal ids mean equal masks. */
static void walk_ids(const struct vocabulary *v, struct grammar *g, struct buf *texts)
{
    struct matcher *c = open_ok(g, v);
    struct buf text = buf_with_max(1 << 16);
    uint64_t random = 5;
    for (int i = 0; i < 20; i++) {
        assert_true(random_walk(c, demo_tokenizer(), &random, 30, &text) <= WALK_LONG);
        assert_true(buf_add(texts, text.data ? text.data : "", text.size));
    }
    buf_free(&text);
    matcher_close(&c);
}

static void the_cache_changes_no_mask(void **state)
{
    static const size_t sizes[] = {0, 1, 3, 500};
    struct grammar *g = schema_ok(person);
    struct buf first = buf_with_max(1 << 20);
    (void)state;
    walk_ids(demo_vocabulary(), g, &first);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct vocabulary *v = NULL;
        struct buf other = buf_with_max(1 << 20);
        assert_true(vocabulary_open(&v, demo_tokenizer(), tokenizer_size(demo_tokenizer()),
                                    sizes[i], NULL));
        for (int round = 0; round < 2; round++) { /* with an empty cache, then a warm one */
            buf_clear(&other);
            walk_ids(v, g, &other);
            assert_int_equal(other.size, first.size);
            assert_memory_equal(other.data, first.data, first.size);
        }
        vocabulary_close(&v);
        buf_free(&other);
    }
    buf_free(&first);
    grammar_release(&g);
}

struct walker {
    struct grammar *g;
    const struct vocabulary *v;
    struct buf texts;
};

static void *walk_on_a_thread(void *user)
{
    struct walker *w = user;
    walk_ids(w->v, w->g, &w->texts);
    grammar_release(&w->g);
    return NULL;
}

static void answers_of_several_threads_share_all(void **state)
{
    enum { THREADS = 4 };
    struct walker walkers[THREADS];
    pthread_t threads[THREADS];
    struct vocabulary *v = NULL;
    struct grammar *g = schema_ok(person);
    (void)state;
    assert_true(vocabulary_open(&v, demo_tokenizer(), tokenizer_size(demo_tokenizer()), 2, NULL));
    for (int i = 0; i < THREADS; i++) {
        walkers[i] = (struct walker){
            .g = grammar_retain(g), .v = v, .texts = buf_with_max(1 << 20)};
        assert_int_equal(pthread_create(&threads[i], NULL, walk_on_a_thread, &walkers[i]), 0);
    }
    grammar_release(&g);
    assert_null(g);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_string_equal(walkers[i].texts.data, walkers[0].texts.data);
    }
    for (int i = 0; i < THREADS; i++)
        buf_free(&walkers[i].texts);
    vocabulary_close(&v);
}

static void a_vocabulary_must_have_all_bytes(void **state)
{
    struct vocabulary *v = NULL;
    ey_err e;
    (void)state;
    assert_false(vocabulary_open(&v, demo_tokenizer(), 100, 4, &e));
    assert_int_equal(e.code, EY_BAD_MODEL);
    assert_non_null(strstr(e.text, "no token for the byte 0x"));
    assert_null(v);
}

static void masks_may_be_wider_than_the_tokenizer(void **state)
{
    struct vocabulary *v = NULL;
    struct grammar *g = regex_ok(".*");
    (void)state;
    assert_true(vocabulary_open(&v, demo_tokenizer(), 5000, 4, NULL));
    struct matcher *c = open_ok(g, v);
    const uint32_t *mask = matcher_mask(c);
    assert_int_equal(vocabulary_words(v), 157);
    for (int32_t id = tokenizer_size(demo_tokenizer()); id < 157 * 32; id++)
        assert_false(mask_has(mask, id));
    assert_false(matcher_accept_token(c, 4999));
    matcher_close(&c);
    grammar_release(&g);
    vocabulary_close(&v);
}

/* ---- grammars of parts ---- */

/* Like tools: one call or several, each with arguments of its own schema. */
static void grammars_are_combined(void **state)
{
    static const char *const schemas[] = {"{\"type\": \"object\", \"properties\": {\"city\": "
                                          "{\"type\": \"string\"}}, \"required\": [\"city\"]}",
                                          "{\"type\": \"object\", \"properties\": {}}"};
    static const char *const names[] = {"weather", "weather_now"};
    static const char *const in
        [] = {"<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": "
              "\"Ulm\"}}\n</tool_call>",
              "<tool_call>\n{\"name\": \"weather_now\", \"arguments\": {}}\n</tool_call>",
              "<tool_call>\n{\"name\": \"weather_now\", \"arguments\": {}}\n</tool_call>\n"
              "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"\"}}\n</tool_call>",
              NULL},
      *const out[] = {
          "", "<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>",
          "<tool_call>\n{\"name\": \"weather_now\", \"arguments\": {\"city\": \"\"}}\n</tool_call>",
          "<tool_call>\n{\"name\": \"weather_now\", \"arguments\": {}}\n</tool_call>\n", NULL};
    struct grammar *g = NULL;
    ey_err e;
    int calls[2];
    (void)state;
    struct grammar_builder *b = grammar_builder_open(&e);
    for (int i = 0; i < 2; i++) {
        char begin[80];
        snprintf(begin, sizeof(begin), "<tool_call>\n{\"name\": \"%s\", \"arguments\": ", names[i]);
        int parts[] = {grammar_literal(b, begin, strlen(begin)),
                       grammar_schema(b, schemas[i], strlen(schemas[i])),
                       grammar_literal(b, "}\n</tool_call>", 14)};
        calls[i] = grammar_sequence(b, parts, 3);
    }
    int first = grammar_alternatives(b, calls, 2), more[2];
    for (int i = 0; i < 2; i++) {
        char begin[80];
        snprintf(begin, sizeof(begin),
                 "\n<tool_call>\n{\"name\": \"%s\", \"arguments\": ", names[i]);
        int parts[] = {grammar_literal(b, begin, strlen(begin)),
                       grammar_schema(b, schemas[i], strlen(schemas[i])),
                       grammar_literal(b, "}\n</tool_call>", 14)};
        more[i] = grammar_sequence(b, parts, 3);
    }
    int rest[] = {grammar_literal(b, "", 0),
                  grammar_one_or_more(b, grammar_alternatives(b, more, 2))};
    int all[] = {first, grammar_alternatives(b, rest, 2)};
    if (!grammar_builder_finish(&b, grammar_sequence(b, all, 2), &g, &e)) fail_msg("%s", e.text);
    assert_null(b);
    check_texts(g, "tool calls", in, out);
    grammar_release(&g);
}

static void parts_of_other_kinds(void **state)
{
    static const char *const in[] = {"x{}12.", "x{\"a\":1}345.", "y", NULL}, *const out[] = {
                                                                                 "x{}1.", "x{}",
                                                                                 "xy", "", NULL};
    struct grammar *g = NULL;
    ey_err e;
    (void)state;
    struct grammar_builder *b = grammar_builder_open(&e);
    int parts[] = {grammar_literal(b, "x", 1), grammar_json_object(b),
                   grammar_regex(b, "[0-9]{2,3}", 10), grammar_literal(b, ".", 1)};
    int either[] = {grammar_sequence(b, parts, 4), grammar_literal(b, "y", 1)};
    if (!grammar_builder_finish(&b, grammar_alternatives(b, either, 2), &g, &e))
        fail_msg("%s", e.text);
    check_texts(g, "parts", in, out);
    grammar_release(&g);
}

/* Only the next character shows the end of a number, so numbers are unrolled in place. */
static void numbers_may_precede_digits(void **state)
{
    static const char *const in[] = {"1234", "12034", NULL}, *const out[] = {"34", "123", "03",
                                                                             NULL};
    struct grammar *g = NULL;
    ey_err e;
    (void)state;
    struct grammar_builder *b = grammar_builder_open(&e);
    int parts[] = {grammar_schema(b, "{\"type\": \"integer\"}", 19), grammar_literal(b, "34", 2)};
    if (!grammar_builder_finish(&b, grammar_sequence(b, parts, 2), &g, &e)) fail_msg("%s", e.text);
    check_texts(g, "number and digits", in, out);
    grammar_release(&g);
}

static void invalid_combinations_are_errors(void **state)
{
    struct grammar *g = NULL;
    ey_err e;
    (void)state;
    struct grammar_builder *b = grammar_builder_open(&e);
    int part = grammar_literal(b, "a", 1), twice[] = {part, part};
    assert_int_equal(grammar_sequence(b, twice, 2), 0);
    assert_int_equal(grammar_literal(b, "b", 1), 0); /* after a failure all calls fail */
    assert_false(grammar_builder_finish(&b, part, &g, &e));
    assert_non_null(strstr(e.text, "used twice"));

    b = grammar_builder_open(&e);
    int either[] = {grammar_literal(b, "{\"a\"", 4), grammar_json_object(b)};
    assert_false(grammar_builder_finish(&b, grammar_alternatives(b, either, 2), &g, &e));
    assert_non_null(strstr(e.text, "two alternatives begin with '{'"));

    b = grammar_builder_open(&e);
    int schema = grammar_schema(b, "{\"type\": 5}", 11);
    assert_int_equal(schema, 0);
    assert_false(grammar_builder_finish(&b, grammar_sequence(b, &schema, 1), &g, &e));
    assert_non_null(strstr(e.text, "#/type"));

    b = grammar_builder_open(&e);
    assert_false(grammar_builder_finish(&b, grammar_literal(b, "\xff", 1), &g, &e));
    assert_non_null(strstr(e.text, "not UTF-8"));
    b = NULL;
    assert_false(grammar_builder_finish(&b, 0, &g, &e));
}

int run_matcher_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_ends_where_it_may),
        cmocka_unit_test(refused_tokens_change_nothing),
        cmocka_unit_test(masks_hold_exactly_what_is_accepted),
        cmocka_unit_test(special_tokens_are_never_allowed),
        cmocka_unit_test(the_cache_changes_no_mask),
        cmocka_unit_test(answers_of_several_threads_share_all),
        cmocka_unit_test(a_vocabulary_must_have_all_bytes),
        cmocka_unit_test(masks_may_be_wider_than_the_tokenizer),
        cmocka_unit_test(grammars_are_combined),
        cmocka_unit_test(parts_of_other_kinds),
        cmocka_unit_test(numbers_may_precede_digits),
        cmocka_unit_test(invalid_combinations_are_errors),
    };
    return cmocka_run_group_tests_name("places", tests, NULL, NULL);
}
