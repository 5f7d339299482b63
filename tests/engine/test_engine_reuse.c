/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of 64 tokens and image features that a request reuses from earlier ones give the same bits
 * as computing them. */
#include "engine/engine_fixture.h"
#include "engine/op_hooks.h"

/* Images (0 ends the list), then text, in one user turn. */
static void build(struct question *q, const unsigned *seeds, const char *text, int max_tokens)
{
    question_start(q, max_tokens);
    question_turn(q, "user");
    for (; *seeds; seeds++)
        question_part(q, test_image(90 + (int)*seeds, 64, *seeds));
    question_text(q, text);
    q->request.no_prefix_cache = false;
}

/* The cached tokens of a prompt whose blocks are all known; the last token is always computed. */
static int most_cached(const ey_answer *answer)
{
    return (answer->prompt_tokens - 1) / KV_BLOCK * KV_BLOCK;
}

static void same_bits_and_fewer_encoder_runs(void **state)
{
    (void)state;
    /* all rows run in this order on one engine */
    static const char question[] =
        "What is this? Answer in a few words, and say how sure you are of it.";
    static const struct {
        unsigned seeds[4];
        const char *text;
        int max_tokens, encoder_runs;
    } rows[] = {
        {{1}, question, 8, 1},
        {{1}, question, 8, 0},
        {{1}, "What colour is it?", 8, 0},
        {{1, 2}, "And which is larger?", 3, 1},
        {{1, 3}, "And which is larger?", 3, 1},
        {{3, 1}, "And which is larger?", 3, 0},
        {{3}, "x", 1, 0},
        {{0}, "no image at all", 5, 0},
        {{0}, "no image at all", 1, 0},
        {{4}, "no image at all", 1, 1},
        {{2, 2}, "They are equal, are they not?", 100, 0}, /* the answer fills blocks, too */
    };
    static const char *const devices[] = {ENGINE_DEVICES};
    for (size_t d = 0; d < N_ENGINE_DEVICES; d++) {
        ey_engine *fresh = engine_open("tiny-gqa4-fp8", devices[d], 2, 1024),
                  *kept = engine_open("tiny-gqa4-fp8", devices[d], 2, 1024);
        hooks_on(kept);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            static struct question q;
            build(&q, rows[i].seeds, rows[i].text, rows[i].max_tokens);
            hooks_reset(NULL, NULL);
            struct outcome b = outcome_of(kept, &q);
            assert_int_equal(hooks_count(OP_ENCODER), rows[i].encoder_runs);
            ey_answer answer = ask(kept, &q); /* again, with everything cached */
            assert_int_equal(answer.cached_tokens, most_cached(&answer));
            assert_int_equal(hooks_count(OP_ENCODER), rows[i].encoder_runs);
            for (size_t k = 0; k < answer.n_images; k++)
                assert_true(answer.images[k].cached);
            ey_answer_free(&answer);
            q.request.no_prefix_cache = true;
            struct outcome a = outcome_of(fresh, &q);
            char what[64];
            snprintf(what, sizeof(what), "%s, row %zu", devices[d], i);
            assert_same_outcome(&a, &b, what);
            outcome_free(&a);
            outcome_free(&b);
        }
        assert_at_rest(kept);
        ey_engine_close(&fresh);
        ey_engine_close(&kept);
    }
}

/* With no_prefix_cache, nothing is reused. */
static void fresh_computes_all(void **state)
{
    (void)state;
    ey_engine *engine = engine_open("tiny-gqa4-fp8", "cpu", 2, 1024);
    static struct question q;
    const unsigned two[] = {1, 2, 0};
    hooks_on(engine);
    build(&q, two, "What is this? A few words more, so that there is a whole block of them.", 4);
    struct outcome first = outcome_of(engine, &q);
    assert_int_equal(hooks_count(OP_ENCODER), 2);
    q.request.no_prefix_cache = true;
    ey_answer answer = ask(engine, &q);
    assert_int_equal(answer.cached_tokens, 0);
    assert_false(answer.images[0].cached || answer.images[1].cached);
    assert_int_equal(hooks_count(OP_ENCODER), 4);
    struct outcome second = outcome_of(engine, &q);
    assert_same_outcome(&first, &second, "fresh");
    ey_answer_free(&answer);
    outcome_free(&first);
    outcome_free(&second);
    ey_engine_close(&engine);
}

static void a_conversation_reuses_its_turns(void **state)
{
    (void)state;
    ey_engine *engine = engine_open("tiny-gqa4-fp8", "cpu", 2, 1024);
    static struct question q;
    const unsigned one[] = {1, 0};
    hooks_on(engine);
    build(&q, one,
          "What is this? It may help to know that the image was made up from numbers, and is of "
          "nothing that there is.",
          6);
    ey_answer first = ask(engine, &q);
    assert_true(first.prompt_tokens > KV_BLOCK);
    question_turn(&q, "assistant");
    question_text(&q, first.text);
    question_turn(&q, "user");
    question_text(&q, "Are you sure?");
    hooks_reset(NULL, NULL);
    ey_answer second = ask(engine, &q);
    assert_int_equal(hooks_count(OP_ENCODER), 0);
    assert_int_equal(second.cached_tokens % KV_BLOCK, 0);
    assert_true(second.cached_tokens >= first.prompt_tokens / KV_BLOCK * KV_BLOCK);
    ey_answer_free(&first);
    ey_answer_free(&second);
    ey_engine_close(&engine);
}

/* Cancelled at many places, in chunks that end inside the image. Whatever the caches hold
 * afterwards must be right. */
static void caches_are_right_after_cancelling(void **state)
{
    (void)state;
    static const struct {
        enum op op;
        int at;
    } rows[] = {{OP_ENCODER, 1}, {OP_TILE, 3},  {OP_ENCODER, 2}, {OP_STEP, 1},  {OP_LAYER, 2},
                {OP_STEP, 5},    {OP_LAYER, 9}, {OP_STEP, 9},    {OP_LOGITS, 2}};
    ey_engine *fresh = engine_open("tiny-gqa4-fp8", "cpu", 2, 1024),
              *kept = engine_open("tiny-gqa4-fp8", "cpu", 2, 1024);
    hooks_on(kept);
    engine_set_rows(kept, 16, 16);
    static struct question q, cancelled, other;
    static char long_text[900];
    for (size_t i = 0; i + 1 < sizeof(long_text); i++)
        long_text[i] = (char)(1 + i % 2);
    question_simple(&other, 0, long_text, 1);
    static const char text[] = "What is this? It may help to know that the image was made up "
                               "from numbers, and is of nothing that there is.";
    const unsigned two[] = {5, 6, 0};
    build(&q, two, text, 6);
    struct outcome want = outcome_of(fresh, &q);
    assert_true(want.prompt_tokens > 2 * KV_BLOCK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char what[32];
        snprintf(what, sizeof(what), "row %zu", i);
        struct outcome overwritten = outcome_of(
            kept, &other); /* else the blocks might still hold the right contents */
        outcome_free(&overwritten);
        build(&cancelled, two, text, 6);
        engine_forget(kept);
        ey_answer answer = ask_cancelled(kept, &cancelled, rows[i].op, rows[i].at);
        assert_int_equal(answer.finish_reason, EY_FINISH_CANCELLED);
        assert_at_rest(kept);
        ey_answer_free(&answer);
        struct outcome got = outcome_of(kept, &q);
        assert_same_outcome(&want, &got, what);
        outcome_free(&got);
    }
    outcome_free(&want);
    ey_engine_close(&fresh);
    ey_engine_close(&kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_and_fewer_encoder_runs),
        cmocka_unit_test(fresh_computes_all),
        cmocka_unit_test(a_conversation_reuses_its_turns),
        cmocka_unit_test(caches_are_right_after_cancelling),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
