/* SPDX-License-Identifier: Apache-2.0 */
/* Models without a vision encoder in the engine: their description, their refusals, and
 * bit-identical answers. */
#include "engine/engine_fixture.h"
#include "models/ckpt_edit.h"

static const char *const kinds[] = {"tiny-qwen2-bf16", "tiny-qwen2-fp8", "tiny-qwen3-bf16",
                                    "tiny-phi3-bf16", "tiny-llama-f16"};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void describes_itself(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        ey_engine *engine = engine_open(kinds[i], "cpu", 2, 256);
        assert_false(ey_engine_describe(engine).reads_images);
        ey_cost_estimate work = ey_estimate_cost(engine, 1024, 1024, 100);
        assert_true(work.vision_flops == 0 && work.prefill_flops > 0 && work.decode_bytes > 0);
        ey_engine_close(&engine);
    }
}

static void refuses_images(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        static struct question q;
        ey_err e = {0};
        ey_prompt *prompt = NULL;
        ey_engine *engine = engine_open(kinds[i], "cpu", 2, 256);
        question_simple(&q, 1, "What is this?", 3);
        assert_false(ey_prompt_prepare(engine, &q.request, &prompt, &e));
        assert_int_equal(e.code, EY_BAD_REQUEST);
        assert_non_null(strstr(e.text, "has an image, and this model reads text only"));
        ey_engine_close(&engine);
    }
}

/* Answers do not depend on threads or chunks, even if sliding windows begin inside blocks. */
static void same_bits(void **state)
{
    (void)state;
    static const char text[] = "The house has two doors, four windows and a small tree. How many "
                               "trees are there, and where is the nearest of them?";
    for (int i = 0; i < KINDS; i++) {
        static const char *const devices[] = {"ref", "cpu"};
        for (int d = 0; d < 2; d++) {
            static struct question q;
            question_simple(&q, 0, text, 40);
            ey_engine *engine = engine_open(kinds[i], devices[d], 1, 512);
            struct outcome one = outcome_of(engine, &q);
            ey_engine_close(&engine);
            ey_engine_options options = ey_engine_defaults();
            options.device = devices[d];
            options.threads = 3;
            options.max_model_len = 512;
            engine = engine_open_with(kinds[i], options);
            engine_set_rows(engine, 16, 64);
            struct outcome other = outcome_of(engine, &q);
            ey_engine_close(&engine);
            assert_same_outcome(&one, &other, kinds[i]);
            outcome_free(&one);
            outcome_free(&other);
        }
    }
}

/* A raw prompt begins with BOS if the tokenizer says so, unless the request disables it. */
static void starts_prompts(void **state)
{
    (void)state;
    ey_engine *engine = engine_open("tiny-llama-f16", "cpu", 2, 256);
    for (int with = 0; with < 2; with++) {
        ey_err e = {0};
        ey_prompt *prompt = NULL;
        ey_request request = ey_request_defaults();
        assert_true(request.add_bos);
        request.text = "hello";
        request.n_text = 5;
        request.add_bos = with;
        if (!ey_prompt_prepare(engine, &request, &prompt, &e)) fail_msg("%s", e.text);
        assert_int_equal(ey_prompt_describe(prompt).ids[0] == 1, with);
        ey_prompt_free(&prompt);
    }
    ey_engine_close(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(describes_itself), cmocka_unit_test(refuses_images),
        cmocka_unit_test(same_bits), cmocka_unit_test(starts_prompts)};
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
