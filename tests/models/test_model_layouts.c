/* SPDX-License-Identifier: Apache-2.0 */
/* The same weights in every checkpoint layout (spec 1.2, 2.3, 2.4, 2.5) give bit-identical results.
 */
#include "engine/engine_fixture.h"
#include "models/ckpt_edit.h"

#define EMBED "model.language_model.embed_tokens.weight"

static char dir[400];

static struct outcome outcome_at(const char *model)
{
    static struct question q;
    ey_engine *engine = engine_open(model, "ref", 2, 256);
    question_simple(&q, 1, "What is this?", 3);
    struct outcome o = outcome_of(engine, &q);
    ey_engine_close(&engine);
    return o;
}

static const char *copy_of(const char *kind)
{
    snprintf(dir, sizeof(dir), "%s/changed", fixture_dir());
    const char *good = ckpt_make(fixture_dir(), kind);
    ckpt_copy(good, dir);
    return good;
}

static void expect_same(const char *good, const char *what)
{
    struct outcome a = outcome_at(good), b = outcome_at(dir);
    assert_same_outcome(&a, &b, what);
    outcome_free(&a);
    outcome_free(&b);
}

/* ---- config.json ---- */

static void newer_config(void **state)
{
    (void)state;
    const char *good = copy_of("tiny-gqa4-bf16");
    ckpt_set(dir, "config.json", "text_config.rope_scaling", NULL);
    ckpt_set(dir, "config.json", "text_config.rope_theta", NULL);
    ckpt_set(dir, "config.json", "text_config.rope_parameters",
             "{\"mrope_interleaved\":true,\"mrope_section\":[24,20,20],\"rope_theta\":5000000.0,"
             "\"rope_type\":\"default\"}");
    expect_same(good, "rope_parameters");
    ckpt_set(dir, "config.json", "text_config.rope_parameters.rope_theta", "10000");
    struct outcome a = outcome_at(good), b = outcome_at(dir);
    assert_memory_not_equal(a.logits, b.logits, (size_t)a.vocabulary * sizeof(float));
    outcome_free(&a);
    outcome_free(&b);
}

static void older_config(void **state)
{
    (void)state;
    const char *good = copy_of("tiny-old-bf16");
    ckpt_set(dir, "config.json", "text_config.rope_parameters", NULL);
    ckpt_set(dir, "config.json", "text_config.rope_theta", "1000000");
    ckpt_set(dir, "config.json", "text_config.rope_scaling",
             "{\"type\":\"default\",\"mrope_interleaved\":true,\"mrope_section\":[24,20,20]}");
    expect_same(good, "rope_scaling");
}

#define ROPE "\"mrope_interleaved\":true,\"mrope_section\":[24,20,20],\"rope_type\":\"default\""

/* Alternative places in which transformers 5.24 reads the same values
 * (tools/golden/saved_configs.py). */
static void other_places(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct {
            const char *file, *path, *value;
        } edits[3];
    } rows[] = {
        {"no architectures", {{"config.json", "architectures", NULL}}},
        {"architectures null", {{"config.json", "architectures", "null"}}},
        {"architectures empty", {{"config.json", "architectures", "[]"}}},
        {"architectures [null]", {{"config.json", "architectures", "[null]"}}},
        {"architectures a name",
         {{"config.json", "architectures", "\"Qwen3VLForConditionalGeneration\""}}},
        {"theta beside rope_parameters",
         {{"config.json", "text_config.rope_scaling", NULL},
          {"config.json", "text_config.rope_parameters", "{" ROPE "}"}}},
        {"rope_scaling null beside rope_parameters",
         {{"config.json", "text_config.rope_scaling", "null"},
          {"config.json", "text_config.rope_parameters", "{" ROPE ",\"rope_theta\":5000000}"},
          {"config.json", "text_config.rope_theta", NULL}}},
        {"theta in rope_scaling before the one beside it",
         {{"config.json", "text_config.rope_scaling.rope_theta", "5000000"},
          {"config.json", "text_config.rope_theta", "7"}}},
        {"rope_scaling before rope_parameters",
         {{"config.json", "text_config.rope_parameters",
           "{\"rope_type\":\"default\",\"rope_theta\":777}"}}},
        {"stop tokens at the top",
         {{"generation_config.json", "", NULL},
          {"config.json", "text_config.eos_token_id", NULL},
          {"config.json", "eos_token_id", "[1502,1500]"}}},
        {"stop tokens nowhere",
         {{"generation_config.json", "eos_token_id", NULL},
          {"config.json", "text_config.eos_token_id", NULL}}},
        {"top_k and top_p that mean all and the best",
         {{"generation_config.json", "top_k", "-1"}, {"generation_config.json", "top_p", "0"}}},
        {"recommendations that are none",
         {{"generation_config.json", "top_k", "\"many\""},
          {"generation_config.json", "temperature", "-3"},
          {"generation_config.json", "repetition_penalty", "0"}}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *good = copy_of("tiny-ragged-fp8");
        for (size_t k = 0; k < 3 && rows[i].edits[k].file; k++)
            ckpt_set(dir, rows[i].edits[k].file, rows[i].edits[k].path, rows[i].edits[k].value);
        expect_same(good, rows[i].what);
    }
}

static char notices[4096];

static void note(void *user, const char *text)
{
    (void)user;
    snprintf(notices + strlen(notices), sizeof(notices) - strlen(notices), "%s\n", text);
}

static ey_sampling sampling_at(const char *generation)
{
    ey_engine *engine;
    ey_engine_options options = ey_engine_defaults();
    ey_err e;
    copy_of("tiny-ragged-fp8");
    ckpt_set(dir, "generation_config.json", "", generation);
    options.model = dir;
    options.device = "ref";
    options.max_model_len = 128;
    options.notice = note;
    notices[0] = 0;
    if (!ey_engine_open(&engine, &options, &e)) fail_msg("%s", e.text);
    ey_sampling sampling = ey_model_sampling(engine);
    ey_engine_close(&engine);
    return sampling;
}

/* Recommended sampling that is not supported is ignored with a notice. */
static void recommended_sampling(void **state)
{
    (void)state;
    ey_sampling s = sampling_at("{\"do_sample\": true, \"top_k\": -1, \"top_p\": 0}");
    assert_true(s.top_k == 0 && s.top_p == 0 && s.temperature == 1);
    assert_string_equal(notices, "");
    s = sampling_at("{\"do_sample\": true, \"top_k\": -2, \"top_p\": 1.5, \"temperature\": 0.5}");
    assert_true(s.top_k == 0 && s.top_p == 1 && s.temperature == 0.5f);
    assert_non_null(strstr(notices, "generation_config.json: top_k is -2"));
    assert_non_null(
        strstr(notices, "top_p is 1.5; it must be a number from 0 to 1; it is ignored"));
    s = sampling_at("{\"do_sample\": false, \"top_k\": -2, \"top_p\": 7, \"temperature\": \"x\"}");
    assert_true(s.top_k == 0 && s.top_p == 1 && s.temperature == 0);
    assert_string_equal(notices, "");
    s = sampling_at("{\"do_sample\": \"yes\", \"repetition_penalty\": -1}");
    assert_true(s.temperature == 0 && s.repetition_penalty == 1);
    assert_non_null(strstr(notices, "do_sample is \"yes\""));
    assert_non_null(strstr(notices, "repetition_penalty is -1"));
}

static const char *notices_at(const char *what)
{
    ey_engine *engine;
    ey_engine_options options = ey_engine_defaults();
    ey_err e;
    options.model = dir;
    options.device = "ref";
    options.max_model_len = 128;
    options.notice = note;
    notices[0] = 0;
    if (!ey_engine_open(&engine, &options, &e)) fail_msg("%s: %s", what, e.text);
    ey_engine_close(&engine);
    return notices;
}

#define WORDS "<|im_start|>system\\nAnswer in capital letters.<|im_end|>\\n"
#define TAIL "{% if add_generation_prompt %}<|im_start|>assistant\\n{% endif %}"

/* A chat template that differs from the built-in format gives one notice, wherever it is stored;
 * the model loads. */
static void own_template(void **state)
{
    (void)state;
    static const struct {
        const char *file, *path, *value, *says;
    } rows[] = {
        {"tokenizer_config.json", "chat_template", "\"" TAIL "\"",
         "tokenizer_config.json: the checkpoint's chat template is not used; prompts are written "
         "in eyelet's own format for qwen3_vl. The template is unknown, but its default system "
         "prompt, thinking and generation prompt look the same\n"},
        {"tokenizer_config.json", "chat_template",
         "[{\"name\":\"tool_use\",\"template\":\"x\"},{\"name\":\"default\",\"template\":\"" WORDS
             TAIL "\"}]",
         "differs from it in: default system prompt \"Answer in capital letters.\"\n"},
        {"chat_template.json", "", "{\"chat_template\":\"" TAIL "<think>\"}",
         "chat_template.json: the checkpoint's chat template is not used; prompts are written in "
         "eyelet's own format for qwen3_vl, and the template differs from it in: thinking\n"},
        {"chat_template.json", "", "[]", ""},
        {"chat_template.json", "", "{\"chat_template\": 5}", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        copy_of("tiny-ragged-fp8");
        ckpt_set(dir, rows[i].file, rows[i].path, rows[i].value);
        const char *said = notices_at(rows[i].file);
        if (rows[i].says[0] ? !strstr(said, rows[i].says) : said[0])
            fail_msg("row %zu: %s", i, said);
    }
    ckpt_write_file(dir, "chat_template.jinja", "{{ x }}", 7); /* overrides the others */
    assert_non_null(strstr(notices_at("jinja"), "chat_template.jinja: the checkpoint's"));
    assert_non_null(strstr(notices, "generation prompt: it has none"));
}

/* <|im_end|> ends an answer even if no file lists it. */
static void end_of_turn(void **state)
{
    (void)state;
    static const struct {
        const char *file, *path, *value;
    } rows[] = {
        {"generation_config.json", "eos_token_id", "1500"},
        {"generation_config.json", "eos_token_id", "[1500]"},
        {"generation_config.json", "eos_token_id",
         "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]"}, /* the maximum */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static struct question q;
        const ey_logit_bias bias = {1502, 100};
        ey_answer answer;
        ey_err e;
        copy_of("tiny-ragged-fp8");
        ckpt_set(dir, rows[i].file, rows[i].path, rows[i].value);
        ey_engine *engine = engine_open(dir, "ref", 2, 256);
        question_simple(&q, 0, "Hello", 5);
        q.request.logit_bias = &bias;
        q.request.n_logit_bias = 1;
        q.request.ignore_eos = false;
        for (int least = 0; least < 4; least += 3) { /* also with min_tokens */
            q.request.min_tokens = least;
            if (!ey_ask(engine, &q.request, &answer, &e)) fail_msg("%s", e.text);
            assert_int_equal(answer.stop_id, 1502);
            assert_int_equal(answer.n_tokens, least);
            ey_answer_free(&answer);
        }
        ey_engine_close(&engine);
    }
}

/* processor_config.json's image sizes override preprocessor_config.json's. */
static void newer_processor_config(void **state)
{
    (void)state;
    const char *good = copy_of("tiny-ragged-fp8");
    ckpt_set(dir, "processor_config.json", "", "{\"processor_class\": \"Qwen3VLProcessor\"}");
    expect_same(good, "a processor_config.json without image_processor");
    ckpt_set(dir, "preprocessor_config.json", "size",
             "{\"longest_edge\": 5000, \"shortest_edge\": 4096}");
    ckpt_set(
        dir, "processor_config.json", "",
        "{\"image_processor\": {\"size\": {\"longest_edge\": 262144, \"shortest_edge\": "
        "4096}, \"patch_size\": 16, \"temporal_patch_size\": 2, "
        "\"merge_size\": 2, \"image_mean\": [0.5, 0.5, 0.5], \"image_std\": [0.5, 0.5, 0.5]}}");
    expect_same(good, "processor_config.json before preprocessor_config.json");
}

static void small_files(void **state)
{
    (void)state;
    static const struct {
        const char *what, *file, *path, *value;
    } rows[] = {
        {"no activation named", "config.json", "text_config.hidden_act", NULL},
        {"no bias named", "config.json", "text_config.attention_bias", NULL},
        {"no quantization named", "config.json", "quantization_config", NULL},
        {"quantization null", "config.json", "quantization_config", "null"},
        {"other list of exceptions", "config.json", "quantization_config.modules_to_not_convert",
         "[\"lm_head\"]"},
        {"theta as a float", "config.json", "text_config.rope_theta", "5e6"},
        {"tied only on top", "config.json", "text_config.tie_word_embeddings", NULL},
        {"tied only in text_config", "config.json", "tie_word_embeddings", NULL},
        {"top level wins", "config.json", "text_config.tie_word_embeddings", "false"},
        {"one stop token", "generation_config.json", "eos_token_id", "1502"},
        {"stop tokens of text_config", "generation_config.json", "", NULL},
        {"stop tokens of text_config, null", "generation_config.json", "eos_token_id", "null"},
        {"unknown members", "preprocessor_config.json", "do_something", "{\"a\": 1}"},
        {"integral mean", "preprocessor_config.json", "image_mean", "[0.5, 0.5, 5e-1]"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *good = copy_of("tiny-ragged-fp8");
        ckpt_set(dir, rows[i].file, rows[i].path, rows[i].value);
        expect_same(good, rows[i].what);
    }
}

static void processor_config(void **state)
{
    (void)state;
    const char *good = copy_of("tiny-ragged-fp8");
    ckpt_remove_file(dir, "preprocessor_config.json");
    ckpt_set(dir, "processor_config.json", "",
             "{\"image_processor\": {\"size\": {\"longest_edge\": 262144, \"shortest_edge\": "
             "4096}, \"patch_size\": 16, \"temporal_patch_size\": 2, "
             "\"merge_size\": 2, \"image_mean\": [0.5, 0.5, 0.5], \"image_std\": [0.5, 0.5, 0.5]}, "
             "\"processor_class\": \"Qwen3VLProcessor\"}");
    expect_same(good, "processor_config.json");
    copy_of("tiny-ragged-fp8");
    ckpt_set(dir, "preprocessor_config.json", "size",
             "{\"longest_edge\": 1, \"shortest_edge\": 1}");
    ckpt_set(dir, "preprocessor_config.json", "min_pixels", "4096");
    ckpt_set(dir, "preprocessor_config.json", "max_pixels", "262144");
    expect_same(good, "min_pixels and max_pixels override");
}

/* ---- names ---- */

static void other_names(void **state)
{
    (void)state;
    static const struct {
        const char *what, *kind, *names[3][2];
    } rows[] = {
        {"older exports",
         "tiny-untied-bf16",
         {{"model.visual.", "visual."}, {"model.language_model.", "model."}}},
        {"half old", "tiny-ragged-fp8", {{"model.visual.", "visual."}}},
        {"vLLM",
         "tiny-untied-bf16",
         {{"model.visual.", "visual."},
          {"model.language_model.", "language_model.model."},
          {"lm_head.", "language_model.lm_head."}}},
        {"vLLM, FP8",
         "tiny-ragged-fp8",
         {{"model.visual.", "visual."}, {"model.language_model.", "language_model.model."}}},
        {"mlx",
         "tiny-untied-bf16",
         {{"model.visual.", "vision_tower."}, {"model.language_model.", "language_model.model."}}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *good = copy_of(rows[i].kind);
        struct tensor_list list = tensors_read(good);
        for (int k = 0; k < 3 && rows[i].names[k][0]; k++)
            tensors_rename(&list, rows[i].names[k][0], rows[i].names[k][1]);
        tensors_write(&list, dir);
        expect_same(good, rows[i].what);
    }
}

/* ---- the head ---- */

static void heads(void **state)
{
    (void)state;
    const char *good = copy_of("tiny-ragged-fp8");
    struct tensor_list list = tensors_read(good);
    tensors_add(&list, "lm_head.weight", tensors_find(&list, EMBED));
    tensors_write(&list, dir);
    expect_same(good, "an identical copy of a tied head");
    ey_engine *engine = engine_open(dir, "ref", 1, 256);
    assert_ptr_equal(engine->devices.model.head.data,
                     engine->devices.model.embed.data); /* stored once */
    ey_engine_close(&engine);

    ckpt_set(dir, "config.json", "tie_word_embeddings", "false");
    expect_same(good, "an identical copy of an untied head");

    /* the head is stored and differs: it is used, whatever the config says */
    copy_of("tiny-ragged-fp8");
    list = tensors_read(good);
    struct edited_tensor *head = tensors_add(&list, "lm_head.weight", tensors_find(&list, EMBED));
    size_t row = head->size / (size_t)head->shape[0];
    for (int64_t i = 0; i < head->shape[0]; i++) /* rows in reverse order */
        memcpy(head->data + (size_t)i * row,
               tensors_find(&list, EMBED)->data + (size_t)(head->shape[0] - 1 - i) * row, row);
    tensors_write(&list, dir);
    struct outcome a = outcome_at(good), b = outcome_at(dir);
    assert_int_equal(a.ids[0], a.vocabulary - 1 - b.ids[0]);
    outcome_free(&b);
    ckpt_set(dir, "config.json", "tie_word_embeddings", "false");
    b = outcome_at(dir);
    assert_int_equal(a.ids[0], a.vocabulary - 1 - b.ids[0]);
    outcome_free(&a);
    outcome_free(&b);
}

/* ---- scales ---- */

static void convert_scales(const char *kind, enum dtype from, enum dtype to)
{
    const char *good = copy_of(kind);
    struct tensor_list list = tensors_read(good);
    int n = 0;
    for (size_t i = 0; i < list.n; i++)
        if (strstr(list.at[i].name, "_scale_inv")) {
            assert_int_equal(list.at[i].dtype, from);
            tensor_convert(&list.at[i], to);
            n++;
        }
    assert_int_equal(n, 21);
    tensors_write(&list, dir);
    expect_same(good, kind);
}

static void scales(void **state)
{
    (void)state;
    convert_scales("tiny-gqa4-fp8", DTYPE_BF16, DTYPE_F32);
    convert_scales("tiny-shards-fp8", DTYPE_F16, DTYPE_F32); /* and in one file instead of two */
}

/* Each tensor may be FP8 or not. */
static void mixed_dtypes(void **state)
{
    (void)state;
    const char *good = copy_of("tiny-gqa4-bf16");
    struct tensor_list list = tensors_read(good);
    for (size_t i = 0; i < list.n; i += 2)
        tensor_convert(&list.at[i], DTYPE_F32);
    tensors_write(&list, dir);
    expect_same(good, "half of the tensors in F32");
}

static void every_kind(void **state)
{
    (void)state;
    static const char *const kinds[] = {"tiny-gqa4-f16", "tiny-gqa4-f32", "tiny-head72-bf16",
                                        "tiny-shards-fp8", "tiny-old-bf16"};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct outcome o = outcome_at(ckpt_make(fixture_dir(), kinds[i]));
        assert_int_equal(o.n, 3);
        outcome_free(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newer_config),
        cmocka_unit_test(older_config),
        cmocka_unit_test(small_files),
        cmocka_unit_test(processor_config),
        cmocka_unit_test(other_places),
        cmocka_unit_test(recommended_sampling),
        cmocka_unit_test(newer_processor_config),
        cmocka_unit_test(own_template),
        cmocka_unit_test(end_of_turn),
        cmocka_unit_test(other_names),
        cmocka_unit_test(heads),
        cmocka_unit_test(scales),
        cmocka_unit_test(mixed_dtypes),
        cmocka_unit_test(every_kind),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
