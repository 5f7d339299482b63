/* A decoder whose first layers are on the CPU (--gpu-layers), over the driver that is not there: what is allocated is what was planned, and requests that run
 * together, find prefixes again or give way to each other answer as each does alone. The logits are held to the goldens by test_golden (cuda:layers1). */
#include "cuda/fake_driver.h"
#include "engine/crowd.h"

enum { ON_CARD = 1, LAYERS = 4 };

static ey_engine *open_divided(int kv_tokens)
{
    ey_engine_options options = ey_engine_defaults();
    options.device = "cuda", options.threads = 2, options.max_model_len = 256, options.kv_tokens = kv_tokens, options.max_num_seqs = 3;
    options.max_num_batched_tokens = 64; /* prompts take several chunks */
    options.gpu_layers = ON_CARD;
    return engine_open_with("tiny-untied-bf16", options);
}

/* ---- memory ---- */

static void both_sides_as_planned(void **state)
{
    (void)state;
    ey_engine *engine = open_divided(1024);
    const struct plan *p = &engine->plan;
    const struct first_layers *first = &engine->first;
    assert_int_equal(engine->model.text.n_layers, LAYERS);
    assert_int_equal(first->n, LAYERS - ON_CARD);
    assert_int_equal(fake_driver_counts().device_bytes, p->arena);
    assert_int_equal(engine->kv.shape.n_layers, ON_CARD);
    assert_int_equal(first->kv.shape.n_layers, LAYERS - ON_CARD);
    for (int i = 0; i < LAYERS; i++) assert_int_equal(engine->model.layers[i].q.packed, i >= LAYERS - ON_CARD); /* those before: the file's own bytes */
    const float *end = (const float *)first->buffers.rope + (size_t)p->limits.max_rows * (size_t)engine->model.text.head_dim;
    assert_int_equal((const char *)end - (const char *)engine->first_memory, p->bytes[PLAN_FIRST]);
    ey_engine_close(&engine);
    assert_int_equal(fake_driver_counts().device_bytes, 0);
}

static void nothing_is_allocated_later(void **state)
{
    static struct question q;
    (void)state;
    ey_engine *engine = open_divided(1024);
    int before = fake_driver_counts().calls_that_allocate;
    question_simple(&q, 1, "What is this?", 6);
    ey_answer answer = ask(engine, &q);
    assert_int_equal(fake_driver_counts().calls_that_allocate, before);
    ey_answer_free(&answer);
    ey_engine_close(&engine);
}

/* ---- requests ---- */

enum { N = 3 };
static struct question questions[N];

static void ask_all(ey_answer *out, ey_engine *engine, int max_tokens)
{
    static const char *const texts[N] = {"Tell me of the sea.", "What is this?", "One, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve. "
                                          "Thirteen, fourteen, fifteen, sixteen, seventeen, eighteen, nineteen, twenty, and then all of them again."};
    for (int i = 0; i < N; i++) {
        question_simple(&questions[i], i == 1, texts[i], max_tokens);
        questions[i].request.fresh = false;
        engine_forget(engine);
        out[i] = ask(engine, &questions[i]);
    }
    engine_forget(engine);
}

static void assert_same_tokens(const ey_answer *a, const ey_answer *b)
{
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_memory_equal(a->tokens, b->tokens, (size_t)a->n_tokens * sizeof(a->tokens[0]));
}

static void run_together(ey_engine *engine, const ey_answer *alone)
{
    struct member members[N] = {0};
    for (int i = 0; i < N; i++) members[i].request = questions[i].request;
    crowd_run(members, N, engine);
    for (int i = 0; i < N; i++) assert_same_tokens(&members[i].answer, &alone[i]);
    crowd_free(members, N);
    assert_at_rest(engine);
}

static void together_as_alone(void **state)
{
    (void)state;
    ey_answer alone[N];
    ey_engine *engine = open_divided(1024);
    ask_all(alone, engine, 8);
    run_together(engine, alone);
    ey_answer again = ask(engine, &questions[2]); /* of the prefix that both caches keep */
    assert_true(again.cached_tokens >= KV_BLOCK);
    assert_same_tokens(&again, &alone[2]);
    ey_answer_free(&again);
    for (int i = 0; i < N; i++) ey_answer_free(&alone[i]);
    ey_engine_close(&engine);
}

/* The pool has room for one request of the longest kind: they give way, and are computed again. */
static void preempted_as_alone(void **state)
{
    (void)state;
    ey_answer alone[N];
    ey_engine *engine = open_divided(256);
    ask_all(alone, engine, 70);
    run_together(engine, alone);
    assert_true(ey_engine_stats(engine).preemptions > 0);
    for (int i = 0; i < N; i++) ey_answer_free(&alone[i]);
    ey_engine_close(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_sides_as_planned), cmocka_unit_test(nothing_is_allocated_later), cmocka_unit_test(together_as_alone),
                                       cmocka_unit_test(preempted_as_alone)};
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
