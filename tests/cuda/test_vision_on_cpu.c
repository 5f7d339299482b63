/* SPDX-License-Identifier: Apache-2.0 */
/* The vision encoder on the CPU (--vision-weights host) with a text model on the fake GPU:
 * allocations equal the plan, and the GPU gets the features that the CPU backend computes. */
#include <math.h>

#include "backend/cpu/cpu_backend.h"
#include "cuda/fake_driver.h"
#include "engine/concurrent_requests.h"

static struct question pictured;

static ey_engine_options options_of(const char *device)
{
    ey_engine_options options = ey_engine_defaults();
    options.device = device;
    options.threads = 2;
    options.max_model_len = 512;
    options.max_num_batched_tokens = 64; /* the image takes several tiles */
    options.enforce_eager = true;
    return options;
}

static ey_engine *open_vision_on_cpu(void)
{
    ey_engine_options options = options_of("cuda");
    options.vision_weights = "host";
    return engine_open_with("tiny-head72-bf16", options);
}

static void ask_about(struct question *q, int width, int height, int max_tokens)
{
    question_start(q, max_tokens);
    question_turn(q, "user");
    question_part(q, test_image(width, height, 5));
    question_text(q, "What is this?");
}

/* ---- memory ---- */

static void on_the_gpu_as_planned(void **state)
{
    (void)state;
    ey_engine *engine = open_vision_on_cpu();
    const struct plan *p = &engine->buffers.plan;
    assert_true(plan_vision_on_cpu(p));
    assert_int_equal(fake_driver_counts().device_bytes, p->arena_bytes);
    assert_int_equal(p->bytes[PLAN_VISION_WEIGHTS], 0);
    for (int i = 0; i < engine->devices.model.vision.depth; i++)
        assert_ptr_equal(cpu_tensor(engine->devices.model.placed.vision.blocks[i].qkv.w)->data,
                         /* weights in the mapped file */
                         engine->devices.model.vision_tensors.blocks[i].qkv.w.data);
    ey_engine_close(&engine);
    assert_int_equal(fake_driver_counts().device_bytes, 0);
}

static void on_the_host_as_planned(void **state)
{
    (void)state;
    ey_engine *engine = open_vision_on_cpu();
    const struct plan *p = &engine->buffers.plan;
    const struct workspace *ws = &engine->buffers.cpu_vision_ws;
    assert_ptr_equal(engine->devices.vision_backends.ws, ws);
    const float *end = (const float *)ws->vision_features +
                       FEATURE_BLOCK * engine->devices.model.vision.out_hidden;
    assert_int_equal((const char *)end - (const char *)engine->buffers.vision_memory,
                     p->bytes[PLAN_CPU_VISION_WORKSPACE]);
    assert_int_equal(
        engine->devices.cpu->ops->memory->scratch_bytes(engine->devices.cpu, &p->cpu_limits),
        p->bytes[PLAN_CPU_SCRATCH]);
    ey_engine_close(&engine);
}

static void nothing_is_allocated_later(void **state)
{
    (void)state;
    ey_engine *engine = open_vision_on_cpu();
    int before = fake_driver_counts().calls_that_allocate;
    ask_about(&pictured, 100, 70, 3);
    ey_answer answer = ask(engine, &pictured);
    assert_int_equal(fake_driver_counts().calls_that_allocate, before);
    ey_answer_free(&answer);
    ey_engine_close(&engine);
}

/* ---- numbers ---- */

static const struct image_entry *only_entry(ey_engine *engine)
{
    for (int i = 0; i < engine->caches.images.n_blocks; i++)
        if (engine->caches.images.entry[i].ready) return &engine->caches.images.entry[i];
    fail_msg("no features are cached");
    return NULL;
}

static void read_feature(ey_engine *engine, float *out, int level, int token)
{
    const struct image_entry *entry = only_entry(engine);
    const struct backend_ops *op = engine->devices.be->ops;
    size_t hidden = (size_t)engine->devices.model.text.hidden,
           at = (size_t)feature_row(entry, token) * hidden;
    op->memory->read(engine->devices.be, out,
                     op->memory->at(engine->devices.be, engine->buffers.ws.features[level].rows,
                                    ELEMENT_FEATURE, at),
                     ELEMENT_FEATURE, hidden);
}

/* The GPU stores features as BF16, so they are off by at most half a unit of its 8 bits. */
static void assert_rounded(float got, float want)
{
    if (fabsf(got - want) > fabsf(want) / 256)
        fail_msg("a feature is %g on the GPU, and %g on the CPU", (double)got, (double)want);
}

static void features_are_the_cpu_s(void **state)
{
    (void)state;
    ey_engine *beside = open_vision_on_cpu(),
              *alone = engine_open_with("tiny-head72-bf16", options_of("cpu"));
    ask_about(&pictured, 430, 297, 1); /* several feature blocks */
    ey_answer a = ask(beside, &pictured), b = ask(alone, &pictured);
    int hidden = beside->devices.model.text.hidden, n = only_entry(beside)->n_tokens;
    float *got = calloc((size_t)hidden, sizeof(*got)),
          *want = calloc((size_t)hidden, sizeof(*want));
    assert_true(got && want && n > FEATURE_BLOCK);
    assert_int_equal(n, only_entry(alone)->n_tokens);
    for (int level = 0; level <= beside->devices.model.vision.n_deepstack; level++)
        for (int token = 0; token < n; token++) {
            read_feature(beside, got, level, token);
            read_feature(alone, want, level, token);
            for (int i = 0; i < hidden; i++)
                assert_rounded(got[i], want[i]);
        }
    free(got);
    free(want);
    ey_answer_free(&a);
    ey_answer_free(&b);
    ey_engine_close(&beside);
    ey_engine_close(&alone);
}

/* Other requests decode during an encoder run; their answers do not change. */
static void the_encoder_changes_no_running_answer(void **state)
{
    (void)state;
    static struct question text;
    struct concurrent_request members[2] = {0};
    ey_engine *engine = open_vision_on_cpu();
    ask_about(&pictured, 100, 70, 4);
    question_simple(&text, 0, "Tell me of the sea.", 12);
    ey_answer alone[] = {ask(engine, &text), ask(engine, &pictured)};
    engine_forget(engine);
    members[0].request = text.request;
    members[1].request = pictured.request;
    concurrent_requests_run(members, 2, engine);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(members[i].answer.n_tokens, alone[i].n_tokens);
        assert_memory_equal(members[i].answer.tokens, alone[i].tokens,
                            (size_t)alone[i].n_tokens * sizeof(alone[i].tokens[0]));
        ey_answer_free(&alone[i]);
    }
    assert_at_rest(engine);
    concurrent_requests_free(members, 2);
    ey_engine_close(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_gpu_as_planned),
        cmocka_unit_test(on_the_host_as_planned),
        cmocka_unit_test(nothing_is_allocated_later),
        cmocka_unit_test(features_are_the_cpu_s),
        cmocka_unit_test(the_encoder_changes_no_running_answer),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
