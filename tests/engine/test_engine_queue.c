/* SPDX-License-Identifier: Apache-2.0 */
/* The queue and its limit, cancelling at any place, readers that do not read, closing. A request
 * that ends disturbs no other and leaks nothing. */
#include "engine/schedule/scheduler.h"
#include "engine/concurrent_requests.h"
#include "engine/op_hooks.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define SMALLEST_SLICES \
    1e-9 /* seconds; a turn is then one tile of the vision encoder and 16 rows of a prompt */
enum { PATIENCE = 60000, MANY = 8 };

static struct concurrent_request members[MANY];
static struct question questions[MANY];

static ey_engine *open_many(int max_num_seqs, int max_num_queued)
{
    ey_engine_options options = ey_engine_defaults();
    options.device = "cpu";
    options.threads = 2;
    options.max_model_len = 512;
    options.kv_tokens = 512 * max_num_seqs;
    options.max_num_seqs = max_num_seqs;
    options.max_num_queued = max_num_queued;
    return engine_open_with("tiny-ragged-fp8", options);
}

/* Builds request i, with or without an image; all requests differ. */
static void build(int i, int max_tokens)
{
    static const char *const texts[] = {"What is a fox?", "And what is a goose?",
                                        "Name all the colours that you know.",
                                        "Count to a hundred, please."};
    question_start(&questions[i], max_tokens);
    question_turn(&questions[i], "user");
    if (i % 2) question_part(&questions[i], test_image(130, 130, (unsigned)i));
    question_text(&questions[i], texts[i % 4]);
    questions[i].request.sampling.temperature = 1;
    questions[i].request.sampling.seed = (uint64_t)i;
    questions[i].request.no_prefix_cache = false;
    members[i].request = questions[i].request;
}

static ey_answer alone(ey_engine *engine, int i)
{
    questions[i].request.no_prefix_cache = true;
    ey_answer answer = ask(engine, &questions[i]);
    questions[i].request.no_prefix_cache = false;
    return answer;
}

/* A cancelled answer is a prefix of the whole one. */
static void check_cancelled(const struct concurrent_request *m, const ey_answer *whole, int least,
                            int most)
{
    assert_int_equal(m->answer.finish_reason, EY_FINISH_CANCELLED);
    assert_in_range(m->answer.n_tokens, least, most);
    assert_int_equal(m->answer.completion_tokens, m->answer.n_tokens);
    assert_memory_equal(m->answer.tokens, whole->tokens, (size_t)m->answer.n_tokens * sizeof(int));
    assert_memory_equal(m->text, whole->text, m->n_text);
}

static void sleep_a_little(void)
{
    struct timespec t = {0, 1000000};
    nanosleep(&t, NULL);
}

static void wait_for_drop(ey_engine *engine)
{
    for (int ms = 0; !ey_engine_stats(engine).finished_cancelled; ms++) {
        if (ms == PATIENCE) fail_msg("no generation was cancelled");
        sleep_a_little();
    }
}

/* Waits until these numbers of requests are running, waiting and paused. */
static void wait_for_state(ey_engine *engine, int running, int waiting, int paused)
{
    for (int ms = 0; ms < PATIENCE; ms++) {
        ey_stats s = ey_engine_stats(engine);
        if (s.running == running && s.waiting == waiting && s.paused == paused) return;
        sleep_a_little();
    }
    fail_msg("timed out waiting for %d running, %d waiting and %d paused", running, waiting,
             paused);
}

/* ---- the list ---- */

static void list_of_gens(void **state)
{
    (void)state;
    static struct ey_generation t[4];
    struct request_queue q = {0};
    request_queue_push(&q, &t[0]);
    request_queue_push(&q, &t[1]);
    request_queue_push_front(&q, &t[2]);
    assert_true(q.n == 3 && q.first == &t[2] && t[2].next == &t[0] && t[0].next == &t[1] &&
                q.last == &t[1] && !t[1].next);
    request_queue_remove(&q, &t[1]); /* the last */
    request_queue_push(&q, &t[3]);
    assert_true(q.last == &t[3] && t[0].next == &t[3]);
    request_queue_remove(&q, &t[0]); /* in the middle */
    request_queue_remove(&q, &t[2]); /* the first */
    assert_true(q.n == 1 && q.first == &t[3] && q.last == &t[3]);
    request_queue_remove(&q, &t[3]);
    assert_true(q.n == 0 && !q.first && !q.last);
    request_queue_push_front(&q, &t[1]);
    assert_true(q.n == 1 && q.first == &t[1] && q.last == &t[1]);
}

/* ---- waiting ---- */

static void the_queue_is_limited(void **state)
{
    (void)state;
    ey_engine *engine = open_many(2, 3);
    ey_prompt *prompt;
    ey_generation *gen = (ey_generation *)&prompt; /* must become NULL */
    ey_err e = {0};
    for (int i = 0; i < 6; i++)
        build(i, 12);
    pthread_mutex_lock(&engine->devices.lock); /* the first one is admitted and blocks */
    concurrent_request_start(&members[0], engine);
    wait_for_state(engine, 1, 0, 0);
    for (int i = 1; i < 5; i++)
        concurrent_request_start(&members[i],
                                 engine); /* one that will be admitted soon, and three that wait */
    if (!ey_prompt_prepare(engine, &questions[5].request, &prompt, &e)) fail_msg("%s", e.text);
    assert_false(ey_generation_start(engine, prompt, &questions[5].request, &gen, &e));
    assert_null(gen);
    assert_int_equal(e.code, EY_BUSY);
    assert_int_equal(ey_code_http_status(e.code), 503);
    assert_non_null(strstr(e.text, "4 requests wait already"));
    pthread_mutex_unlock(&engine->devices.lock);
    concurrent_request_collect(&members[0]); /* a place in the queue is free */
    members[5].n_text = 0;
    if (!ey_generation_start(engine, prompt, &questions[5].request, &members[5].gen, &e))
        fail_msg("%s", e.text);
    ey_prompt_free(&prompt);
    for (int i = 1; i < 6; i++)
        concurrent_request_collect(&members[i]);
    for (int i = 0; i < 6; i++)
        assert_int_equal(members[i].answer.completion_tokens, 12);
    concurrent_requests_free(members, 6);
    assert_int_equal(ey_engine_stats(engine).finished_length, 6);
    assert_at_rest(engine);
    ey_engine_close(&engine);
}

static void first_come_first_served(void **state)
{
    (void)state;
    for (int at_once = 1; at_once <= 3; at_once++) {
        ey_engine *engine = open_many(at_once, 0);
        for (int i = 0; i < MANY; i++)
            build(i, 4 + i % 3);
        pthread_mutex_lock(&engine->devices.lock); /* none ends before all are queued */
        for (int i = 0; i < MANY; i++)
            concurrent_request_start(&members[i], engine);
        pthread_mutex_unlock(&engine->devices.lock);
        for (int i = 0; i < MANY; i++)
            while (!concurrent_request_poll(&members[i], 1000)) {}
        for (int i = 1; i < MANY; i++)
            assert_true(members[i].gen->admit_time >= members[i - 1].gen->admit_time);
        for (int i = 0; i < MANY; i++) {
            concurrent_request_collect(&members[i]);
            assert_true(members[i].answer.queue_seconds >= 0 &&
                        members[i].answer.prefill_seconds >= 0 &&
                        members[i].answer.decode_seconds >= 0);
            assert_true((members[i].answer.vision_seconds > 0) == (i % 2 == 1));
        }
        concurrent_requests_free(members, MANY);
        assert_at_rest(engine);
        ey_engine_close(&engine);
    }
}

/* ---- cancelling ---- */

static void cancelled_while_waiting(void **state)
{
    (void)state;
    ey_engine *engine = open_many(1, 0);
    for (int i = 0; i < 5; i++)
        build(i, 10);
    engine->limits.max_unread = 0; /* nothing is admitted */
    for (int i = 0; i < 5; i++)
        concurrent_request_start(&members[i], engine);
    wait_for_state(engine, 0, 5, 0);
    static const int cancelled[] = {4, 2, 1}; /* last, middle, first of the queue */
    for (size_t i = 0; i < COUNT(cancelled); i++) {
        struct concurrent_request *m = &members[cancelled[i]];
        ey_generation_cancel(m->gen);
        concurrent_request_collect(m); /* immediately, although others are ahead of it */
        assert_int_equal(m->answer.finish_reason, EY_FINISH_CANCELLED);
        assert_int_equal(m->answer.completion_tokens, 0);
        assert_int_equal(m->answer.n_text, 0);
        assert_string_equal(m->answer.text, "");
        assert_true(m->answer.prompt_tokens > 0);
        wait_for_state(engine, 0, 4 - (int)i, 0);
    }
    pthread_mutex_lock(&engine->scheduler.lock);
    engine->limits.max_unread = MAX_UNREAD_DEFAULT;
    pthread_mutex_unlock(&engine->scheduler.lock);
    concurrent_request_collect(&members[0]);
    concurrent_request_collect(&members[3]);
    assert_int_equal(members[0].answer.completion_tokens, 10);
    assert_int_equal(members[3].answer.completion_tokens, 10);
    concurrent_requests_free(members, 5);
    ey_stats s = ey_engine_stats(engine);
    assert_int_equal(s.finished_cancelled, 3);
    assert_int_equal(s.finished_length, 2);
    assert_at_rest(engine);
    ey_engine_close(&engine);
}

struct canceller {
    ey_generation *volatile *gens;
    int n, at;
    enum op op;
    bool done;
};

static void cancel_them(void *user, enum op op, int n)
{
    struct canceller *c = user;
    if (op != c->op || n != c->at) return;
    for (int i = 0; i < c->n; i++)
        ey_generation_cancel(c->gens[i]);
    c->done = true;
}

/* Some requests run, some wait; all are cancelled during a vision encoder's run, a prompt or an
 * answer. */
static void all_are_cancelled(void **state)
{
    (void)state;
    static const struct {
        enum op op;
        int at;
    } rows[] = {{OP_ENCODER, 1}, {OP_TILE, 3},   {OP_STEP, 1},   {OP_LAYER, 5},
                {OP_STEP, 6},    {OP_LOGITS, 1}, {OP_LOGITS, 12}};
    ey_engine *engine = open_many(3, 0);
    ey_answer whole[MANY];
    hooks_on(engine);
    for (int i = 0; i < MANY; i++) {
        build(i, 40);
        whole[i] = alone(engine, i);
    }
    engine->limits.slice_seconds = SMALLEST_SLICES;
    for (size_t r = 0; r < COUNT(rows); r++) {
        ey_generation *volatile gens[MANY];
        struct canceller c = {gens, MANY, rows[r].at, rows[r].op, false};
        engine_forget(engine);
        hooks_reset(cancel_them, &c);
        pthread_mutex_lock(&engine->devices.lock);
        for (int i = 0; i < MANY; i++) {
            concurrent_request_start(&members[i], engine);
            gens[i] = members[i].gen;
        }
        pthread_mutex_unlock(&engine->devices.lock);
        for (int i = 0; i < MANY; i++) {
            concurrent_request_collect(&members[i]);
            check_cancelled(&members[i], &whole[i], 0, 39);
        }
        assert_true(c.done);
        concurrent_requests_free(members, MANY);
        assert_at_rest(engine);
        hooks_reset(NULL, NULL);
    }
    for (int i = 0; i < MANY; i++)
        members[i].request = questions[i].request;
    concurrent_requests_run(members, MANY, engine);
    for (int i = 0; i < MANY; i++)
        assert_same_answer(&whole[i], &members[i].answer, "after all were cancelled");
    concurrent_requests_free(members, MANY);
    for (int i = 0; i < MANY; i++)
        ey_answer_free(&whole[i]);
    ey_engine_close(&engine);
}

/* One of three running requests is cancelled during a step with rows of all. */
static void one_of_several_cancelled(void **state)
{
    (void)state;
    static const struct {
        enum op op;
        int at;
    } rows[] = {{OP_TILE, 2}, {OP_STEP, 2}, {OP_LAYER, 8}, {OP_LOGITS, 9}};
    ey_engine *engine = open_many(3, 0);
    ey_answer whole[3];
    hooks_on(engine);
    for (int i = 0; i < 3; i++) {
        build(i, 25);
        whole[i] = alone(engine, i);
    }
    engine->limits.slice_seconds = SMALLEST_SLICES;
    for (size_t r = 0; r < COUNT(rows); r++)
        for (int victim = 0; victim < 3; victim++) {
            ey_generation *volatile gens[1];
            struct canceller c = {gens, 1, rows[r].at, rows[r].op, false};
            engine_forget(engine);
            hooks_reset(cancel_them, &c);
            pthread_mutex_lock(&engine->devices.lock);
            for (int i = 0; i < 3; i++)
                concurrent_request_start(&members[i], engine);
            gens[0] = members[victim].gen;
            pthread_mutex_unlock(&engine->devices.lock);
            for (int i = 0; i < 3; i++) {
                concurrent_request_collect(&members[i]);
                if (i == victim)
                    check_cancelled(&members[i], &whole[i], 0, 24);
                else
                    assert_same_answer(&whole[i], &members[i].answer, "beside a cancelled one");
            }
            assert_true(c.done);
            concurrent_requests_free(members, 3);
            assert_at_rest(engine);
        }
    for (int i = 0; i < 3; i++)
        ey_answer_free(&whole[i]);
    ey_engine_close(&engine);
}

/* Two requests wait for one image. If one is cancelled during the encoder run, the other gets its
 * features from that run; if both are, the run stops. */
static void cancelled_sharing_an_image(void **state)
{
    (void)state;
    ey_engine *engine = open_many(2, 0);
    hooks_on(engine);
    build(1, 15);
    build(3, 15);
    questions[3].parts[0][0] = questions[1].parts[0][0]; /* the same image, another text */
    ey_answer whole[2] = {alone(engine, 1), alone(engine, 3)};
    hooks_reset(NULL, NULL);
    ey_answer again = alone(engine, 1);
    ey_answer_free(&again);
    int tiles = hooks_count(OP_TILE);
    engine->limits.slice_seconds = SMALLEST_SLICES;
    for (int victims = 1; victims <= 3; victims++) { /* one bit for each request */
        ey_generation *volatile gens[2];
        struct canceller c = {gens, 0, 3, OP_TILE, false};
        engine_forget(engine);
        hooks_reset(cancel_them, &c);
        pthread_mutex_lock(&engine->devices.lock);
        for (int i = 0; i < 2; i++) {
            members[i].request = questions[1 + 2 * i].request;
            concurrent_request_start(&members[i], engine);
            if (victims >> i & 1) gens[c.n++] = members[i].gen;
        }
        pthread_mutex_unlock(&engine->devices.lock);
        for (int i = 0; i < 2; i++) {
            concurrent_request_collect(&members[i]);
            if (victims >> i & 1)
                check_cancelled(&members[i], &whole[i], 0, 0);
            else
                assert_same_answer(&whole[i], &members[i].answer, "the other one of the image");
        }
        assert_true(c.done);
        assert_int_equal(hooks_count(OP_ENCODER), 1);
        if (victims == 3)
            assert_true(hooks_count(OP_TILE) < tiles);
        else
            assert_int_equal(hooks_count(OP_TILE), tiles);
        concurrent_requests_free(members, 2);
        assert_at_rest(engine);
    }
    ey_answer_free(&whole[0]);
    ey_answer_free(&whole[1]);
    ey_engine_close(&engine);
}

/* Cancels before the start, after the end, and twice. */
static void cancelled_too_late(void **state)
{
    (void)state;
    ey_engine *engine = open_many(1, 0);
    build(0, 5);
    ey_answer whole = alone(engine, 0);
    concurrent_request_start(&members[0], engine);
    while (!concurrent_request_poll(&members[0], 1000)) {}
    ey_generation_cancel(members[0].gen);
    ey_generation_cancel(members[0].gen);
    concurrent_request_collect(&members[0]);
    assert_same_answer(&whole, &members[0].answer, "cancelled when it was over");
    concurrent_request_free(&members[0]);
    pthread_mutex_lock(&engine->devices.lock); /* the answer does not end before it is cancelled */
    concurrent_request_start(&members[0], engine);
    ey_generation_cancel(members[0].gen);
    ey_generation_cancel(members[0].gen);
    pthread_mutex_unlock(&engine->devices.lock);
    concurrent_request_collect(&members[0]);
    check_cancelled(&members[0], &whole, 0, 5);
    concurrent_request_free(&members[0]);
    ey_answer_free(&whole);
    assert_at_rest(engine);
    ey_engine_close(&engine);
}

/* ---- a device that fails ---- */

/* Running requests get the error; waiting ones get right answers, with nothing from the failed
 * step. */
static void a_failing_device(void **state)
{
    (void)state;
    static const int at[] = {1, 2, 3, 9}; /* during an encoder run or a step, of any request */
    ey_engine *engine = open_many(2, 0);
    ey_answer whole[5];
    hooks_on(engine);
    for (int i = 0; i < 5; i++) {
        build(i, 10);
        whole[i] = alone(engine, i);
    }
    for (size_t r = 0; r < COUNT(at); r++) {
        uint64_t failed = ey_engine_stats(engine).failed;
        int n_failed = 0;
        hooks_reset(NULL, NULL);
        hooks_fail(at[r]);
        pthread_mutex_lock(&engine->devices.lock);
        for (int i = 0; i < 5; i++)
            concurrent_request_start(&members[i], engine);
        pthread_mutex_unlock(&engine->devices.lock);
        for (int i = 0; i < 5; i++) {
            ey_err e = {0};
            while (!concurrent_request_poll(&members[i], 1000)) {}
            bool ok = ey_generation_collect(&members[i].gen, &members[i].answer, &e);
            if (ok)
                assert_same_answer(&whole[i], &members[i].answer, "beside a failure");
            else
                assert_string_equal(e.text, "the device is gone");
            n_failed += !ok;
            ey_answer_free(&members[i].answer);
        }
        assert_in_range(n_failed, 1, 2);
        assert_int_equal(ey_engine_stats(engine).failed, failed + (uint64_t)n_failed);
        assert_at_rest(engine);
        hooks_reset(NULL, NULL);
        for (int i = 0; i < 5; i++)
            members[i].request = questions[i].request;
        concurrent_requests_run(members, 5, engine);
        for (int i = 0; i < 5; i++)
            assert_same_answer(&whole[i], &members[i].answer, "after a failure");
        concurrent_requests_free(members, 5);
    }
    for (int i = 0; i < 5; i++)
        ey_answer_free(&whole[i]);
    /* a failure invalidates the caches */
    ey_err e = {0};
    build(1, 80);
    ey_answer longer = ask(engine, &questions[1]);
    ey_answer_free(&longer);
    assert_true(ey_engine_stats(engine).kv_blocks_cached > 0 &&
                ey_engine_stats(engine).image_cache_tokens_used > 0);
    hooks_fail(hooks_count(OP_FINISH) + 1);
    assert_false(ey_ask(engine, &questions[0].request, &whole[0], &e));
    assert_int_equal(e.code, EY_INTERNAL);
    ey_answer_free(&whole[0]);
    assert_true(ey_engine_stats(engine).kv_blocks_cached == 0 &&
                ey_engine_stats(engine).image_cache_tokens_used == 0);
    ey_engine_close(&engine);
}

/* ---- readers ---- */

static void unread_answers_pause_alone(void **state)
{
    (void)state;
    enum { UNREAD = 5 };
    ey_engine *engine = open_many(3, 0);
    ey_answer whole[3];
    for (int i = 0; i < 3; i++) {
        build(i, 40);
        whole[i] = alone(engine, i);
    }
    engine->limits.max_unread = UNREAD;
    for (int i = 0; i < 3; i++)
        concurrent_request_start(&members[i], engine);
    for (int i = 1; i < 3; i++)
        concurrent_request_collect(&members[i]); /* both complete while the first is not read */
    wait_for_state(engine, 1, 0, 1);
    pthread_mutex_lock(&engine->scheduler.lock);
    int n_tokens = members[0].gen->n_tokens;
    pthread_mutex_unlock(&engine->scheduler.lock);
    assert_int_equal(n_tokens, UNREAD);
    assert_true(ey_engine_stats(engine).kv_blocks_used > 0);
    pthread_mutex_lock(&engine->scheduler.lock);
    engine->limits.max_unread = 1;
    pthread_mutex_unlock(&engine->scheduler.lock);
    concurrent_request_collect(
        &members[0]); /* continues when read, although each of its 35 tokens waits for the reader */
    for (int i = 0; i < 3; i++)
        assert_same_answer(&whole[i], &members[i].answer, "read late");
    concurrent_requests_free(members, 3);
    for (int i = 0; i < 3; i++)
        ey_answer_free(&whole[i]);
    assert_at_rest(engine);
    ey_engine_close(&engine);
}

static void unread_answers_are_preempted(void **state)
{
    (void)state;
    ey_engine *engine = open_many(1, 0);
    ey_answer whole[2];
    for (int i = 0; i < 2; i++) {
        build(i, 40);
        whole[i] = alone(engine, i);
    }
    engine->limits.max_unread = 5;
    concurrent_request_start(&members[0], engine);
    wait_for_state(engine, 1, 0, 1);
    concurrent_request_start(&members[1], engine);
    concurrent_request_collect(&members[1]); /* in the only place of the batch */
    assert_same_answer(&whole[1], &members[1].answer, "while another is not read");
    assert_int_equal(ey_engine_stats(engine).preemptions, 1);
    concurrent_request_collect(&members[0]); /* resumes when it is read */
    assert_same_answer(&whole[0], &members[0].answer, "read late");
    concurrent_requests_free(members, 2);
    for (int i = 0; i < 2; i++)
        ey_answer_free(&whole[i]);
    assert_at_rest(engine);
    ey_engine_close(&engine);
}

static void unread_answers_are_cancelled(void **state)
{
    (void)state;
    ey_engine *engine = open_many(1, 0);
    ey_answer whole;
    build(0, 40);
    whole = alone(engine, 0);
    engine->limits.max_unread = 5;
    engine->limits.unread_seconds = 0.05;
    concurrent_request_start(&members[0], engine);
    wait_for_drop(engine);
    concurrent_request_collect(&members[0]);
    check_cancelled(&members[0], &whole, 5, 5);
    concurrent_requests_free(members, 1);
    ey_answer_free(&whole);
    assert_at_rest(engine);
    ey_engine_close(&engine);
}

/* The same after it was preempted. */
static void unread_preempted_answers_are_cancelled(void **state)
{
    (void)state;
    ey_engine *engine = open_many(1, 0);
    ey_answer whole;
    build(0, 40);
    whole = alone(engine, 0);
    build(2, 0);
    members[2].request.max_tokens = 400;
    engine->limits.max_unread = 5;
    concurrent_request_start(&members[0], engine);
    wait_for_state(engine, 1, 0, 1);
    concurrent_request_start(&members[2], engine);
    while (!members[2].n_tokens)
        concurrent_request_poll(&members[2], 1000);
    assert_int_equal(ey_engine_stats(engine).preemptions, 1);
    pthread_mutex_lock(&engine->scheduler.lock);
    engine->limits.unread_seconds = 0.05;
    engine->limits.max_unread = 1000; /* the other answer never pauses */
    members[0].gen->unread_tokens = 1000;
    pthread_mutex_unlock(&engine->scheduler.lock);
    wait_for_drop(engine);
    concurrent_request_collect(&members[0]);
    check_cancelled(&members[0], &whole, 5, 5);
    concurrent_request_collect(&members[2]);
    assert_int_equal(members[2].answer.finish_reason, EY_FINISH_LENGTH);
    concurrent_request_free(&members[0]);
    concurrent_request_free(&members[2]);
    ey_answer_free(&whole);
    assert_at_rest(engine);
    ey_engine_close(&engine);
}

/* ---- closing ---- */

static void closing_ends_all(void **state)
{
    (void)state;
    for (int listen = 0; listen < 2; listen++) {
        ey_engine *engine = open_many(2, 0);
        ey_answer whole[4];
        ey_prompt *prompt;
        ey_generation *gen;
        ey_err e;
        for (int i = 0; i < 4; i++) {
            build(i, 400);
            whole[i] = alone(engine, i);
        }
        engine->limits.max_unread = 100; /* unread answers are not complete when the engine stops */
        for (int i = 0; i < 4; i++)
            concurrent_request_start(&members[i], engine);
        while (listen && members[0].n_tokens < 3)
            concurrent_request_poll(&members[0], 1000);
        if (!ey_prompt_prepare(engine, &questions[0].request, &prompt, &e)) fail_msg("%s", e.text);
        /* the first step of ey_engine_close, before which generations must be collected */
        scheduler_stop(&engine->scheduler);
        for (int i = 0; i < 4; i++) {
            concurrent_request_collect(&members[i]);
            check_cancelled(&members[i], &whole[i], i == 0 && listen ? 3 : 0, 400);
        }
        assert_false(ey_generation_start(engine, prompt, &questions[0].request, &gen, &e));
        assert_int_equal(e.code, EY_BUSY);
        assert_null(gen);
        ey_prompt_free(&prompt);
        assert_at_rest(engine);
        concurrent_requests_free(members, 4);
        for (int i = 0; i < 4; i++)
            ey_answer_free(&whole[i]);
        ey_engine_close(&engine);
    }
}

/* Closing after all work is done, or without any. */
static void closing_with_nothing_left(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        ey_engine *engine = open_many(2, 0);
        if (i % 2) {
            build(1, 3);
            members[1].request = questions[1].request;
            concurrent_request_start(&members[1], engine);
            concurrent_request_collect(&members[1]);
            concurrent_request_free(&members[1]);
        }
        ey_engine_close(&engine);
        assert_null(engine);
        ey_engine_close(&engine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_of_gens),
        cmocka_unit_test(the_queue_is_limited),
        cmocka_unit_test(first_come_first_served),
        cmocka_unit_test(cancelled_while_waiting),
        cmocka_unit_test(all_are_cancelled),
        cmocka_unit_test(one_of_several_cancelled),
        cmocka_unit_test(cancelled_sharing_an_image),
        cmocka_unit_test(cancelled_too_late),
        cmocka_unit_test(a_failing_device),
        cmocka_unit_test(unread_answers_pause_alone),
        cmocka_unit_test(unread_answers_are_preempted),
        cmocka_unit_test(unread_answers_are_cancelled),
        cmocka_unit_test(unread_preempted_answers_are_cancelled),
        cmocka_unit_test(closing_ends_all),
        cmocka_unit_test(closing_with_nothing_left),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
