/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's messages when a model does not fit on a GPU, and how it applies the plan. The GPU is
 * simulated. */
#include "backend/cuda/cuda_sizes.h"
#include "engine/load/load.h"
#include "engine/engine_fixture.h"
#include "models/ckpt_edit.h"
#include "backend/cuda/cuda_backend.h"

#define MIB ((uint64_t)1 << 20)

/* Opens an engine up to its plan, for a GPU with this much free memory. */
static ey_engine *planned(const char *kind, uint64_t mib, const ey_engine_options *options)
{
    ey_err e;
    ey_engine *engine = engine_new(&e);
    ey_engine_options named = *options;
    named.model = ckpt_make(fixture_dir(), kind);
    assert_non_null(engine);
    if (!engine_open_headers(&engine->devices, &named, &e) ||
        !backend_cuda_create_simulated(&engine->devices.be, &e))
        fail_msg("%s", e.text);
    engine->devices.device_info = (struct device_info){.name = "cuda:0",
                                                       .is_gpu = true,
                                                       .sm_count = 30,
                                                       .total = mib * MIB,
                                                       .free = mib * MIB,
                                                       .context = gpu_context_bytes(30)};
    if (!engine_plan(engine, options, &e)) fail_msg("%s", e.text);
    return engine;
}

static void small_models_fit(void **state)
{
    (void)state;
    ey_err e;
    ey_engine_options options = ey_engine_defaults();
    options.max_model_len = 1000;
    ey_engine *engine = planned("tiny-gqa4-fp8", 2000, &options);
    assert_true(engine_check_plan(engine, &options, &e));
    assert_int_equal(engine->limits.max_num_seqs, 4);
    assert_int_equal(engine->limits.max_model_len, 1000);
    assert_int_equal(engine->buffers.plan.kv.n_blocks, 63); /* enough for four requests */
    assert_false(engine->buffers.plan.kv.fp8);
    struct placements where = plan_placements(&engine->buffers.plan);
    assert_int_equal(where.lm_head, PLACE_RESIDENT);
    assert_int_equal(where.vision, PLACE_RESIDENT);
    ey_engine_close(&engine);
}

static void options_decide_where_weights_are(void **state)
{
    (void)state;
    ey_engine_options options = ey_engine_defaults();
    options.lm_head = "8bit";
    options.vision_weights = "streamed";
    options.kv_cache_dtype = "fp8";
    ey_engine *engine = planned("tiny-gqa4-fp8", 2000, &options);
    struct placements where = plan_placements(&engine->buffers.plan);
    assert_int_equal(where.embed, PLACE_HOST);
    assert_int_equal(where.lm_head, PLACE_EIGHT_BIT);
    assert_int_equal(where.vision, PLACE_STREAMED);
    assert_true(engine->buffers.plan.kv.fp8);
    ey_engine_close(&engine);
}

static void hear(void *user, const char *text)
{
    snprintf(user, 256, "%s", text);
}

/* FP8 prefill needs a workspace in the plan. Where FP8 prefill is not possible, a notice says why
 * and there is no workspace. */
static void prefill_math(void **state)
{
    (void)state;
    char heard[256] = "";
    ey_err e;
    ey_engine_options options = ey_engine_defaults();
    options.notice = hear;
    options.notice_user = heard;
    ey_engine *engine = planned("tiny-gqa4-fp8", 2000, &options);
    const uint64_t without = engine->buffers.plan.allocated;
    const struct text_shape t = engine->devices.model.text;
    const size_t widest = (size_t)(t.mlp > text_q_width(&t) ? t.mlp : text_q_width(&t)),
                 blocks = (widest + FP8_BLOCK - 1) / FP8_BLOCK;
    ey_engine_close(&engine);
    options.prefill_math = "fp8";
    engine = planned("tiny-gqa4-fp8", 2000, &options);
    assert_true(engine->buffers.plan.limits.fp8_prompts && widest >= (size_t)t.hidden);
    assert_int_equal(engine->buffers.plan.allocated - without,
                     cuda_aligned(QUANTIZED_ROWS * widest) +
                         cuda_aligned(QUANTIZED_ROWS * blocks * sizeof(float)));
    assert_string_equal(heard, "");
    ey_engine_close(&engine);
    engine = planned("tiny-untied-bf16", 2000, &options);
    assert_false(engine->buffers.plan.limits.fp8_prompts);
    assert_non_null(strstr(
        heard,
        "prompts are computed in BF16, because none of the text model's matrices are block FP8"));
    ey_engine_close(&engine);
    options.quantize = "fp8";
    engine = planned("tiny-untied-bf16", 2000, &options);
    assert_true(engine->buffers.plan.limits.fp8_prompts);
    ey_engine_close(&engine);
    options = ey_engine_defaults();
    options.device = "cpu";
    options.threads = 1;
    options.notice = hear;
    options.notice_user = heard;
    options.prefill_math = "fp8";
    engine = engine_open_with("tiny-gqa4-fp8", options);
    assert_non_null(strstr(heard, "because the model runs on the CPU"));
    ey_engine_close(&engine);
    options.prefill_math = "fp16";
    options.model = ckpt_make(fixture_dir(), "tiny-gqa4-fp8");
    assert_false(ey_engine_open(&engine, &options, &e));
    assert_non_null(strstr(e.text, "--prefill-math fp16: use bf16 or fp8"));
}

static void refusal_says_what_to_do(void **state)
{
    (void)state;
    ey_err e;
    ey_engine_options options = ey_engine_defaults();
    ey_engine *engine = planned("tiny-gqa4-fp8", 390,
                                &options); /* 14 MiB remain after margin and context */
    assert_false(engine_check_plan(engine, &options, &e));
    assert_int_equal(e.code, EY_NO_MEMORY);
    assert_non_null(strstr(e.text, "does not fit on cuda:0"));
    assert_non_null(strstr(e.text, "MiB too many"));
    assert_non_null(strstr(e.text, "390 free less a margin of 256"));
    assert_non_null(strstr(e.text, "--device cpu: "));
    assert_non_null(strstr(e.text, "--max-num-seqs 1: "));
    assert_null(strstr(e.text, "2B-Instruct")); /* larger than this model, so no suggestion */
    ey_engine_close(&engine);
}

struct told {
    int n;
    uint64_t total;
    bool fits;
};

static void note(void *user, const ey_plan *plan)
{
    struct told *told = user;
    told->n++;
    told->total = plan->total_bytes;
    told->fits = plan->fits;
}

static void plans_are_reported_before_loading(void **state)
{
    (void)state;
    ey_err e;
    struct told told = {0};
    ey_engine_options options = ey_engine_defaults();
    options.model = ckpt_make(fixture_dir(), "tiny-gqa4-fp8");
    options.device = "cpu";
    options.planned = note;
    options.planned_user = &told;
    ey_engine *engine = NULL;
    if (!ey_engine_open(&engine, &options, &e)) fail_msg("%s", e.text);
    assert_int_equal(told.n, 1);
    assert_true(told.fits);
    assert_int_equal(told.total, engine->buffers.plan.allocated);
    ey_engine_close(&engine);
}

static void invalid_options_are_named(void **state)
{
    (void)state;
    ey_plan plan;
    ey_err e;
    ey_engine_options options = ey_engine_defaults();
    options.model = ckpt_make(fixture_dir(), "tiny-gqa4-fp8");
    options.vram = 2000 * MIB;
    options.lm_head = "4bit";
    assert_false(ey_plan_make(&options, &plan, &e));
    assert_int_equal(e.code, EY_BAD_REQUEST);
    assert_string_equal(e.text, "--head 4bit is not a valid choice; use bf16, 8bit or auto");
    options.lm_head = "8bit";
    options.sm_count = -1;
    assert_false(ey_plan_make(&options, &plan, &e));
    assert_string_equal(e.text, "sm_count is -1; it must be from 1 to 1024");
    options.sm_count = 0;
    options.model = ckpt_make(fixture_dir(), "tiny-gqa4-f32");
    assert_false(ey_plan_make(&options, &plan, &e));
    assert_non_null(strstr(e.text, "--head 8bit needs a head that is stored as BF16"));
}

/* All three layers take image features, so the CPU can run all of them or none. */
static void layers_that_cannot_be_divided(void **state)
{
    (void)state;
    ey_plan plan;
    ey_err e;
    ey_engine_options options = ey_engine_defaults();
    options.model = ckpt_make(fixture_dir(), "tiny-gqa4-fp8");
    options.vram = 300 * MIB;
    options.sm_count = 5;
    options.max_model_len = 2048;
    options.gpu_layers = EY_LAYERS_AUTO;
    if (!ey_plan_make(&options, &plan, &e)) fail_msg("%s", e.text);
    assert_int_equal(plan.n_layers, 3);
    assert_int_equal(plan.gpu_layers, 3);
    assert_false(plan.fits);
    options.gpu_layers = 2;
    assert_false(ey_plan_make(&options, &plan, &e));
    assert_non_null(strstr(e.text, "cannot be divided between GPU and CPU: use 3, or auto"));
}

static void errors_may_go_nowhere(void **state)
{
    (void)state;
    ey_engine_options options = ey_engine_defaults();
    options.max_model_len = 4096;
    ey_engine *engine = planned("tiny-gqa4-fp8", 300, &options);
    assert_false(engine_check_plan(engine, &options, NULL));
    ey_engine_close(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_models_fit),
        cmocka_unit_test(options_decide_where_weights_are),
        cmocka_unit_test(prefill_math),
        cmocka_unit_test(refusal_says_what_to_do),
        cmocka_unit_test(invalid_options_are_named),
        cmocka_unit_test(plans_are_reported_before_loading),
        cmocka_unit_test(layers_that_cannot_be_divided),
        cmocka_unit_test(errors_may_go_nowhere),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
