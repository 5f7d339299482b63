/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads that ask, cancel, do not read and come back, on an engine with small queues, pools
 * and caches: every answer equals the one given alone or is a prefix of it, and nothing is leaked.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "engine/concurrent_requests.h"

enum {
    THREADS = 16,
    ROUNDS = 12,
    LARGE = 4,
    KINDS = N_REQUEST_KINDS + LARGE,
    AT_ONCE = 4,
    QUEUED = 9,
    CONTEXT = 512
};

static struct request_kinds sorts;
static struct question large[LARGE];
static ey_answer alone[KINDS];
static const ey_request *requests[KINDS];

struct crowd {
    ey_engine *engine;
    atomic_int n_whole, n_cancelled, n_busy;
    atomic_bool over;
};

struct asker {
    struct crowd *crowd;
    pthread_t thread;
    unsigned noise;
    char wrong[300]; /* "": no error */
};

static int random_of(struct asker *a, int n)
{
    a->noise = a->noise * 1664525u + 1013904223u;
    return (int)((a->noise >> 8) % (unsigned)n);
}

static void sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

static bool begins(const ey_answer *part, const ey_answer *whole)
{
    return part->n_tokens <= whole->n_tokens &&
           memcmp(part->tokens, whole->tokens, (size_t)part->n_tokens * sizeof(int)) == 0;
}

/* Checks an answer of request `kind`. hung_up: the client has cancelled it. */
static void check(struct asker *a, int kind, ey_answer *answer, bool hung_up)
{
    char how[200];
    bool cancelled = answer->finish_reason == EY_FINISH_CANCELLED;
    if (cancelled && (!hung_up || !begins(answer, &alone[kind])))
        snprintf(a->wrong, sizeof(a->wrong), "request %d: not a prefix", kind);
    if (!cancelled && answers_differ(&alone[kind], answer, how, sizeof(how)))
        snprintf(a->wrong, sizeof(a->wrong), "request %d: %s", kind, how);
    atomic_fetch_add(cancelled ? &a->crowd->n_cancelled : &a->crowd->n_whole, 1);
}

/* Reads events until the answer has `until` tokens; the text must be a prefix of the answer's. */
static void hear(struct asker *a, int kind, ey_generation *gen, int until)
{
    ey_event event = {.type = EY_EVENT_NONE};
    size_t n = 0;
    while (event.type != EY_EVENT_DONE && event.n_tokens < until) {
        ey_generation_next(gen, random_of(a, 4), &event);
        if (event.type != EY_EVENT_TEXT) continue;
        if (n + event.n_text > alone[kind].n_text ||
            memcmp(alone[kind].text + n, event.text, event.n_text) != 0)
            snprintf(a->wrong, sizeof(a->wrong), "request %d: other text at byte %zu", kind, n);
        n += event.n_text;
        if (random_of(a, 40) == 0) sleep_ms(5);
    }
}

/* Retries while the engine is busy (queue full or no memory for the image). */
static bool start(struct asker *a, int kind, ey_generation **gen)
{
    ey_prompt *prompt = NULL;
    ey_err e;
    ey_request r = *requests[kind];
    bool ok = true;
    r.no_prefix_cache = random_of(a, 4) == 0;
    while (ok && !*gen) {
        ok = (prompt || ey_prompt_prepare(a->crowd->engine, &r, &prompt, &e)) &&
             ey_generation_start(a->crowd->engine, prompt, &r, gen, &e);
        if (ok || e.code != EY_BUSY) continue;
        ok = true;
        atomic_fetch_add(&a->crowd->n_busy, 1);
        sleep_ms(3);
    }
    ey_prompt_free(&prompt);
    if (!ok) snprintf(a->wrong, sizeof(a->wrong), "request %d: %.200s", kind, e.text);
    return ok;
}

/* Reads to the end, cancels immediately or after a few tokens, or collects the answer later. */
static void ask_once(struct asker *a)
{
    int kind = random_of(a, KINDS), manner = random_of(a, 6);
    ey_generation *gen = NULL;
    ey_answer answer = {0};
    ey_err e;
    if (!start(a, kind, &gen)) return;
    if (manner == 0) sleep_ms(random_of(a, 10));
    if (manner == 1) hear(a, kind, gen, 1 + random_of(a, 30));
    if (manner <= 1) ey_generation_cancel(gen);
    if (manner == 2) sleep_ms(random_of(a, 60));
    if (manner >= 3) hear(a, kind, gen, 1 << 30);
    if (ey_generation_collect(&gen, &answer, &e))
        check(a, kind, &answer, manner <= 1);
    else
        snprintf(a->wrong, sizeof(a->wrong), "request %d: %.200s", kind, e.text);
    ey_answer_free(&answer);
}

static void *ask_often(void *user)
{
    struct asker *a = user;
    for (int i = 0; i < ROUNDS && !a->wrong[0]; i++)
        ask_once(a);
    return NULL;
}

/* Reads the statistics meanwhile, like /metrics. */
static void *look_on(void *user)
{
    struct asker *a = user;
    while (!atomic_load(&a->crowd->over)) {
        ey_stats s = ey_engine_stats(a->crowd->engine);
        if (s.running > AT_ONCE || s.paused > s.running || s.waiting > QUEUED + AT_ONCE ||
            s.kv_blocks_used > s.kv_blocks || s.kv_blocks_used + s.kv_blocks_cached > s.kv_blocks ||
            s.image_cache_tokens_used > s.image_cache_tokens)
            snprintf(a->wrong, sizeof(a->wrong),
                     "%d running, %d paused, %d waiting, %d and %d of %d blocks, %d of %d rows",
                     s.running, s.paused, s.waiting, s.kv_blocks_used, s.kv_blocks_cached,
                     s.kv_blocks, s.image_cache_tokens_used, s.image_cache_tokens);
        sleep_ms(1);
    }
    return NULL;
}

static ey_engine *open_engine(int kv_tokens, int at_once, ey_budget *budget)
{
    ey_engine_options options = ey_engine_defaults();
    options.device = "cpu";
    options.threads = 2;
    options.max_model_len = CONTEXT;
    options.kv_tokens = kv_tokens;
    options.max_num_seqs = at_once;
    options.max_num_queued = QUEUED;
    options.max_images = 2;
    options.budget = budget;
    return engine_open_with("tiny-ragged-fp8", options);
}

static void open_requests(ey_engine *engine)
{
    request_kinds_open(&sorts, engine);
    for (int i = 0; i < N_REQUEST_KINDS; i++) {
        requests[i] = &sorts.question[i].request;
        alone[i] = sorts.expected[i];
    }
    for (int i = 0; i < LARGE; i++) { /* four of the image cache's six blocks */
        question_start(&large[i], 6 + i);
        question_turn(&large[i], "user");
        question_part(&large[i], test_image(512, 512, (unsigned)i % 3));
        question_text(&large[i], i % 2 ? "Well?" : "And?");
        requests[N_REQUEST_KINDS + i] = &large[i].request;
        alone[N_REQUEST_KINDS + i] = ask(engine, &large[i]);
        assert_int_equal(alone[N_REQUEST_KINDS + i].image_tokens, 256);
    }
}

static void many_threads(void **state)
{
    (void)state;
    static struct asker askers[THREADS + 1];
    ey_engine *first = open_engine(0, 1, NULL);
    ey_budget *budget = ey_budget_create(6 << 20); /* enough to decode three large images */
    ey_engine *engine = open_engine(CONTEXT, AT_ONCE, budget);
    struct crowd crowd = {.engine = engine};
    open_requests(first);
    engine->limits.max_unread = 30;
    for (int i = 0; i <= THREADS; i++) {
        askers[i] = (struct asker){.crowd = &crowd, .noise = (unsigned)i * 7919};
        assert_int_equal(
            pthread_create(&askers[i].thread, NULL, i < THREADS ? ask_often : look_on, &askers[i]),
            0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(askers[i].thread, NULL);
    atomic_store(&crowd.over, true);
    pthread_join(askers[THREADS].thread, NULL);
    for (int i = 0; i <= THREADS; i++)
        if (askers[i].wrong[0]) fail_msg("thread %d: %s", i, askers[i].wrong);
    ey_stats s = ey_engine_stats(engine);
    print_message("%d whole, %d cancelled, %d times busy, %d preemptions, %d encoder runs for %d "
                  "images, %d of %d prompt tokens cached\n",
                  atomic_load(&crowd.n_whole), atomic_load(&crowd.n_cancelled),
                  atomic_load(&crowd.n_busy), (int)s.preemptions, (int)s.encoder_runs,
                  (int)s.images, (int)s.cached_tokens, (int)s.prompt_tokens);
    assert_int_equal(atomic_load(&crowd.n_whole) + atomic_load(&crowd.n_cancelled),
                     THREADS * ROUNDS);
    assert_int_equal(s.finished_stop + s.finished_length, atomic_load(&crowd.n_whole));
    assert_int_equal(s.finished_cancelled, atomic_load(&crowd.n_cancelled));
    assert_int_equal(s.failed, 0);
    assert_at_rest(engine);
    assert_int_equal(ey_budget_used(budget), 0);
    for (int i = N_REQUEST_KINDS; i < KINDS; i++)
        ey_answer_free(&alone[i]);
    request_kinds_close(&sorts);
    ey_engine_close(&engine);
    ey_engine_close(&first);
    ey_budget_free(&budget);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_threads)};
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
