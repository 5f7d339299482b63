/* SPDX-License-Identifier: Apache-2.0 */
/* Answers with a grammar: masks are computed during the step, and a grammar does not change an
 * answer that it accepts. */
#include <math.h>

#include "base/clock.h"
#include "engine/engine_fixture.h"
#include "engine/op_hooks.h"

static struct question q;

static ey_grammar *regex_of(const char *pattern)
{
    ey_grammar *g = NULL;
    ey_err e;
    if (!ey_grammar_of_regex(&g, pattern, strlen(pattern), &e)) fail_msg("%s", e.text);
    return g;
}

/* ---- equal answers ---- */

static void assert_same_tokens(const ey_answer *a, const ey_answer *b)
{
    assert_string_equal(a->text, b->text);
    assert_int_equal(a->n_tokens, b->n_tokens);
    for (int i = 0; i < a->n_tokens; i++) {
        assert_int_equal(a->tokens[i], b->tokens[i]);
        assert_true(a->logprobs[i].chosen.logprob == b->logprobs[i].chosen.logprob);
    }
}

/* The demo model's answers are sentences. With a grammar that accepts them, greedy and random
 * answers are bit-identical. */
static void a_valid_answer_is_unchanged(void **state)
{
    (void)state;
    char folder[4096];
    if (!realpath("models/demo", folder)) fail_msg("models/demo is missing");
    ey_engine *engine = engine_open(folder, "cpu", 2, 1024);
    ey_grammar *sentence = regex_of("[A-Z][A-Za-z ,\"'-]*\\."), *anything = regex_of("(.|\\n)*");
    int n_sentences = 0;
    for (int i = 0; i < 4; i++) {
        const bool drawn = i % 2;
        question_simple(&q, i / 2, "Describe this image.", 40);
        q.request.ignore_eos = false;
        q.request.top_logprobs = 1;
        if (drawn)
            q.request.sampling = (ey_sampling){.temperature = 0.8f,
                                               .top_k = 20,
                                               .top_p = 0.9f,
                                               .repetition_penalty = 1,
                                               .seed = 5};
        ey_answer is_free = ask(engine, &q);
        q.request.grammar = anything;
        ey_answer held = ask(engine, &q);
        assert_same_tokens(&is_free, &held);
        ey_answer_free(&held);
        if (!drawn && is_free.finish_reason == EY_FINISH_STOP) {
            n_sentences++;
            q.request.grammar = sentence;
            held = ask(engine, &q);
            assert_string_equal(is_free.text, held.text);
            ey_answer_free(&held);
        }
        ey_answer_free(&is_free);
    }
    assert_true(n_sentences > 0);
    ey_grammar_free(&sentence);
    ey_grammar_free(&anything);
    ey_engine_close(&engine);
}

/* ---- masks during the step ---- */

enum { PATIENCE_SECONDS = 300 };

struct observer {
    ey_engine *engine;
    uint64_t seen;
    int steps;
    bool late;
};

/* Blocks the step's last operation until the step's mask is computed. The wait ends only if another
 * thread computes it. */
static void wait_for_mask(void *user, enum op op, int n)
{
    struct observer *o = user;
    (void)n;
    if (op != OP_LOGITS) return;
    double end = seconds_now() + PATIENCE_SECONDS;
    while (ey_engine_mask_stats(o->engine).count <= o->seen && !o->late)
        o->late = seconds_now() > end;
    o->seen = ey_engine_mask_stats(o->engine).count;
    o->steps++;
}

static void masks_are_made_with_the_step(void **state)
{
    (void)state;
    ey_engine *engine = engine_open("tiny-gqa4-fp8", "cpu", 2, 512);
    ey_grammar *g = regex_of("([a-c]{2}|[0-9] )*");
    struct observer o = {.engine = engine};
    question_simple(&q, 0, "Say something.", 30);
    q.request.grammar = g;
    hooks_on(engine);
    hooks_reset(wait_for_mask, &o);
    ey_answer answer = ask(engine, &q);
    hooks_reset(NULL, NULL);
    assert_false(o.late);
    assert_true(o.steps >= answer.n_tokens && answer.n_tokens > 5);
    ey_mask_stats stats = ey_engine_mask_stats(engine);
    assert_int_equal(stats.count, o.steps);
    double p50 = ey_mask_percentile(&stats, 0.5), p99 = ey_mask_percentile(&stats, 0.99);
    assert_true(p50 > 0 && p50 <= p99 && p99 <= ey_mask_percentile(&stats, 1));
    ey_answer_free(&answer);
    ey_grammar_free(&g);
    ey_engine_close(&engine);
}

static void percentiles_are_the_ends_of_steps(void **state)
{
    (void)state;
    ey_mask_stats s = {.count = 100};
    s.buckets[4] = 50;
    s.buckets[8] = 49;
    s.buckets[12] = 1;
    assert_true(fabs(ey_mask_percentile(&s, 0.5) - 0.5e-6) < 1e-12);
    assert_true(fabs(ey_mask_percentile(&s, 0.99) - 1e-6) < 1e-12);
    assert_true(fabs(ey_mask_percentile(&s, 1) - 2e-6) < 1e-12);
    s = (ey_mask_stats){.count = 0};
    assert_true(ey_mask_percentile(&s, 0.5) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_valid_answer_is_unchanged),
        cmocka_unit_test(masks_are_made_with_the_step),
        cmocka_unit_test(percentiles_are_the_ends_of_steps),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
