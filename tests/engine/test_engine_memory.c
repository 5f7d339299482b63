/* SPDX-License-Identifier: Apache-2.0 */
/* The decode loop allocates nothing, neither in eyelet nor in libraries. */
#include "base/allocations.h"
#include "engine/decode_allocations.h"
#include "engine/engine_fixture.h"

static void counter_counts(void **state)
{
    (void)state;
    allocations_start(NULL);
    void *volatile p = malloc(100), *volatile q = calloc(3, 40),
                   *volatile r = strdup("allocated in libc");
    int n = allocations_stop();
    free(p);
    free(q);
    free(r);
    assert_int_equal(n, 3);
}

static void decode_allocates_nothing(void **state)
{
    (void)state;
    static const char *const devices[] = {ENGINE_DEVICES};
    static const char *const kinds[] = {"tiny-gqa4-fp8", "tiny-head72-bf16", "tiny-gqa4-f32"};
    static const char *const stops[] = {"no such words in the answer", "\n\n\n\n\n\n\n\n\n\n"};
    const ey_sampling drawn = {.temperature = 0.9f,
                               .top_k = 50,
                               .top_p = 0.95f,
                               .min_p = 0.001f,
                               .repetition_penalty = 1.1f,
                               .presence_penalty = 0.5f,
                               .frequency_penalty = 0.1f,
                               .seed = 7};
    static struct question q;
    for (int d = 0; d < N_ENGINE_DEVICES; d++)
        for (int k = 0; k < 3; k++) {
            struct decode_allocations heard = {0};
            ey_engine *engine = engine_open(kinds[k], devices[d], 2, 512);
            engine->limits.max_unread = 1; /* decodes nothing before the first text event */
            question_simple(&q, 1, "Tell me a story.", 80); /* crosses a block border, too */
            q.request.on_event = decode_allocations_hear;
            q.request.event_user = &heard;
            q.request.top_logprobs = 5;
            if (k == 1) {
                q.request.sampling = drawn;
                q.request.stop = stops;
                q.request.n_stop = 2;
            }
            ey_answer a = ask(engine, &q);
            allocations_stop();
            assert_true(heard.n_texts >= 20);
            if (heard.n)
                fail_msg("%s %s: %d allocations while decoding", devices[d], kinds[k], heard.n);
            ey_answer_free(&a);
            ey_engine_close(&engine);
        }
}

enum { TOGETHER = 4 };

static void must(bool ok, const ey_err *e)
{
    if (!ok) fail_msg("%s", e->text);
}

/* Starts the questions and waits until each answer has begun. */
static void start_all(ey_engine *engine, struct question *questions, ey_generation **gens,
                      int *n_texts)
{
    ey_event event;
    ey_err e;
    for (int i = 0; i < TOGETHER; i++) {
        ey_prompt *prompt;
        must(ey_prompt_prepare(engine, &questions[i].request, &prompt, &e), &e);
        must(ey_generation_start(engine, prompt, &questions[i].request, &gens[i], &e), &e);
        ey_prompt_free(&prompt);
        n_texts[i] = 0;
    }
    for (int i = 0; i < TOGETHER; i++)
        while (!n_texts[i]) {
            ey_generation_next(gens[i], 1000, &event);
            assert_int_not_equal(event.type, EY_EVENT_DONE);
            n_texts[i] += event.type == EY_EVENT_TEXT;
        }
}

/* Four concurrent answers; each crosses two block borders. */
static void decode_of_many_allocates_nothing(void **state)
{
    (void)state;
    static const char *const devices[] = {ENGINE_DEVICES};
    static const char *const texts[TOGETHER] = {"Tell me a story.", "Count to a hundred.",
                                                "Name all the colours that you know.",
                                                "What is it?"};
    static struct question questions[TOGETHER];
    for (int d = 0; d < N_ENGINE_DEVICES; d++) {
        ey_engine_options options = ey_engine_defaults();
        options.device = devices[d];
        options.threads = 2;
        options.max_model_len = 512;
        options.max_num_seqs = TOGETHER;
        options.kv_tokens = 2048;
        ey_engine *engine = engine_open_with("tiny-gqa4-fp8", options);
        engine->limits.max_unread = 1;
        ey_generation *gens[TOGETHER];
        int n_texts[TOGETHER], n_over = 0;
        for (int i = 0; i < TOGETHER; i++) {
            question_simple(&questions[i], i % 3, texts[i], 140);
            questions[i].request.top_logprobs = i;
            if (i % 2) {
                questions[i].request.sampling.temperature = 1;
                questions[i].request.sampling.seed = (uint64_t)i;
            }
        }
        start_all(engine, questions, gens, n_texts);
        allocations_start(NULL);
        while (!n_over)
            for (int i = 0; i < TOGETHER; i++) {
                ey_event event;
                ey_generation_next(gens[i], 1000, &event);
                n_texts[i] += event.type == EY_EVENT_TEXT;
                n_over += event.type == EY_EVENT_DONE;
            }
        int n = allocations_stop();
        if (n) fail_msg("%s: %d allocations while decoding", devices[d], n);
        for (int i = 0; i < TOGETHER; i++) {
            ey_answer answer;
            ey_err e;
            assert_true(n_texts[i] >= 20);
            must(ey_generation_collect(&gens[i], &answer, &e), &e);
            assert_int_equal(answer.completion_tokens, 140);
            ey_answer_free(&answer);
        }
        assert_at_rest(engine);
        ey_engine_close(&engine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counter_counts),
        cmocka_unit_test(decode_allocates_nothing),
        cmocka_unit_test(decode_of_many_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
