/* SPDX-License-Identifier: Apache-2.0 */
/* The first layers on the CPU (--gpu-layers), on the fake GPU: allocations equal the plan, and
 * requests that run concurrently, use prefixes or are preempted get the same answers as alone,
 * except at near-ties. test_golden checks the logits (cuda:layers1). */
#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "base/allocations.h"
#include "cuda/emulated.h"
#include "cuda/fake_driver.h"
#include "engine/concurrent_requests.h"
#include "engine/decode_allocations.h"

enum { ON_GPU = 1, LAYERS = 4 };

static ey_engine *open_with_cpu_layers(int kv_tokens)
{
    ey_engine_options options = ey_engine_defaults();
    options.device = "cuda";
    options.threads = 2;
    options.max_model_len = 256;
    options.kv_tokens = kv_tokens;
    options.max_num_seqs = 3;
    options.max_num_batched_tokens = 64; /* prompts take several chunks */
    options.gpu_layers = ON_GPU;
    return engine_open_with("tiny-untied-bf16", options);
}

/* ---- memory ---- */

static void both_sides_as_planned(void **state)
{
    (void)state;
    ey_engine *engine = open_with_cpu_layers(1024);
    const struct plan *p = &engine->buffers.plan;
    const struct layer_range *first = &engine->buffers.ws.range[0];
    assert_int_equal(engine->devices.model.text.n_layers, LAYERS);
    assert_int_equal(engine->buffers.ws.n_ranges, 2);
    assert_int_equal(first->end, LAYERS - ON_GPU);
    assert_int_equal(fake_driver_counts().device_bytes, p->arena_bytes);
    assert_int_equal(engine->buffers.ws.range[1].kv.shape.n_layers, ON_GPU);
    assert_int_equal(first->kv.shape.n_layers, LAYERS - ON_GPU);
    for (int i = 0; i < LAYERS; i++) { /* on the host: weights in the mapped file */
        const struct placed *q = engine->devices.model.placed.layers[i].attention.q;
        const void *in_file = engine->devices.model.layers[i].attention.q.data;
        if (i < LAYERS - ON_GPU)
            assert_ptr_equal(cpu_tensor(q)->data, in_file);
        else
            assert_true(cuda_weight_of(q)->matrix.packed);
    }
    const float *end = (const float *)first->step.rope +
                       (size_t)p->limits.max_rows * (size_t)engine->devices.model.text.head_dim;
    assert_int_equal((const char *)end - (const char *)engine->buffers.cpu_layers_memory,
                     p->bytes[PLAN_CPU_WORKSPACE]);
    ey_engine_close(&engine);
    assert_int_equal(fake_driver_counts().device_bytes, 0);
}

static void nothing_is_allocated_later(void **state)
{
    static struct question q;
    (void)state;
    ey_engine *engine = open_with_cpu_layers(1024);
    int before = fake_driver_counts().calls_that_allocate;
    question_simple(&q, 1, "What is this?", 6);
    ey_answer answer = ask(engine, &q);
    assert_int_equal(fake_driver_counts().calls_that_allocate, before);
    ey_answer_free(&answer);
    ey_engine_close(&engine);
}

/* Crosses a block border of both caches. The fake driver's own allocations are not counted. */
static void decode_allocates_nothing_on_the_host(void **state)
{
    static struct question q;
    struct decode_allocations heard = {.ignored = fake_driver_is_inside};
    (void)state;
    emulator_use_threads(1);
    ey_engine *engine = open_with_cpu_layers(1024);
    engine->limits.max_unread = 1; /* decodes nothing before the first text event */
    question_simple(&q, 1, "Tell me a story.", 70);
    q.request.on_event = decode_allocations_hear;
    q.request.event_user = &heard;
    ey_answer answer = ask(engine, &q);
    allocations_stop();
    assert_true(heard.n_texts >= 20);
    if (heard.n) fail_msg("%d allocations while decoding", heard.n);
    ey_answer_free(&answer);
    ey_engine_close(&engine);
    emulator_use_threads(2);
}

/* ---- requests ---- */

enum { N = 3 };
static struct question questions[N];
static const char long_text[] =
    "One, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve. "
    "Thirteen, fourteen, fifteen, sixteen, seventeen, eighteen, nineteen, twenty, and then all of "
    "them again.";

static void build_question(int i, int n_images, const char *text, int max_tokens)
{
    question_simple(&questions[i], n_images, text, max_tokens);
    questions[i].request.no_prefix_cache = false;
    questions[i].request.top_logprobs = 2;
}

/* Asks each alone, without caches. */
static void ask_alone(ey_answer *out, int n, ey_engine *engine)
{
    for (int i = 0; i < n; i++) {
        engine_forget(engine);
        out[i] = ask(engine, &questions[i]);
    }
    engine_forget(engine);
}

static void check_whole(const ey_answer *a, const struct question *q)
{
    assert_int_equal(a->finish_reason, EY_FINISH_LENGTH);
    assert_int_equal(a->n_tokens, q->request.max_tokens);
}

static void run_together(ey_engine *engine, const ey_answer *alone, int n, const char *what)
{
    struct concurrent_request members[N] = {0};
    engine->limits.slice_seconds = 10;         /* chunks of one size on slow machines, too */
    pthread_mutex_lock(&engine->devices.lock); /* all begin together */
    for (int i = 0; i < n; i++) {
        members[i].request = questions[i].request;
        concurrent_request_start(&members[i], engine);
    }
    pthread_mutex_unlock(&engine->devices.lock);
    for (int i = 0; i < n; i++)
        concurrent_request_collect(&members[i]); /* checks that events and answer agree */
    for (int i = 0; i < n; i++) {
        check_whole(&members[i].answer, &questions[i]);
        assert_near_answer(&alone[i], &members[i].answer, what);
    }
    concurrent_requests_free(members, n);
    assert_at_rest(engine);
}

static void together_as_alone(void **state)
{
    (void)state;
    ey_answer alone[N];
    ey_engine *engine = open_with_cpu_layers(1024);
    build_question(0, 0, "Tell me of the sea.", 8);
    build_question(1, 1, "What is this?", 8);
    build_question(2, 0, long_text, 8);
    ask_alone(alone, N, engine);
    run_together(engine, alone, N, "alone and together");
    ey_answer again = ask(engine, &questions[2]); /* with the prefix in both caches */
    assert_true(again.cached_tokens >= KV_BLOCK);
    assert_near_answer(&alone[2], &again, "alone, and of a prefix that was there");
    ey_answer_free(&again);
    for (int i = 0; i < N; i++)
        ey_answer_free(&alone[i]);
    ey_engine_close(&engine);
}

/* Two requests fit the pool at their start but not at their end: one is preempted and computed
 * again. Each must complete, with no text lost or repeated, and both sides must free their memory.
 * Tokens may differ from a near-tie on, as on any GPU: decoded tokens are recomputed in chunks by
 * other kernels. */
static void preempted_answers_to_its_end(void **state)
{
    (void)state;
    enum { TWO = 2, BLOCKS = 5 };
    ey_answer alone[TWO];
    ey_engine *engine = open_with_cpu_layers(BLOCKS * KV_BLOCK);
    build_question(0, 0, long_text, 24);
    build_question(1, 0, long_text, 20);
    questions[0].request.no_prefix_cache = questions[1].request.no_prefix_cache =
        true; /* no shared blocks */
    ask_alone(alone, TWO, engine);
    for (int i = 0; i < TWO; i++) { /* from the second block to the third */
        assert_in_range(alone[i].prompt_tokens, KV_BLOCK + 1, 2 * KV_BLOCK);
        assert_true(alone[i].prompt_tokens + alone[i].n_tokens > 2 * KV_BLOCK + 1);
    }
    run_together(engine, alone, TWO, "alone and preempted");
    assert_true(ey_engine_stats(engine).preemptions > 0);
    for (int i = 0; i < TWO; i++)
        ey_answer_free(&alone[i]);
    ey_engine_close(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_as_planned), cmocka_unit_test(nothing_is_allocated_later),
        cmocka_unit_test(decode_allocates_nothing_on_the_host), cmocka_unit_test(together_as_alone),
        cmocka_unit_test(preempted_answers_to_its_end)};
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
