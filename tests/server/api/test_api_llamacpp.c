/* SPDX-License-Identifier: Apache-2.0 */
/* llama.cpp's /completion: parsing of requests, and the bytes of answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/api/llamacpp/llamacpp_dialect.h"

#define PNG "iVBORw0KGgo="
#define MARK "<__media__>"

static const struct media_policy media = {0};

static bool parse_completion(struct api_request *out, const char *body, struct api_error *error)
{
    struct api_limits l = {.max_images = 3, .vocab_size = 1000, .strict = true, .media = &media};
    l.defaults.top_logprobs = -1;
    return api_parse(out, &llamacpp_dialect, body, strlen(body), &l, error);
}

static void requests(void **state)
{
    struct api_request r;
    struct api_error error = {0};
    (void)state;
    assert_true(parse_completion(&r,
                                 "{\"prompt\": \"A <|x|>\", \"n_predict\": 5, \"repeat_penalty\": "
                                 "1.5, \"stop\": [\"b\"], \"cache_prompt\": true, \"dry_base\": 2}",
                                 &error));
    assert_string_equal(r.prompts->text, "A <|x|>");
    assert_true(r.request.parse_special_tokens && !r.stream);
    assert_int_equal(r.request.max_tokens, 5);
    assert_true(r.request.sampling.repetition_penalty == 1.5f);
    assert_string_equal(r.request.stop[0], "b");
    assert_string_equal(r.unknown.data, "dry_base");
    api_request_free(&r);
    assert_true(
        parse_completion(&r, "{\"prompt\": [1, 2], \"n_predict\": -1, \"stream\": true}", &error));
    assert_int_equal(r.prompts->n_ids, 2);
    assert_int_equal(r.request.max_tokens, 0);
    assert_true(r.stream);
    api_request_free(&r);
}

/* Prints the texts and images of all prompts in order, with ";" between prompts. */
static void describe_prompt_list(struct buf *out, const struct api_request *r)
{
    for (size_t i = 0; i < r->n_prompts; i++) {
        const struct api_prompt *prompt = &r->prompts[i];
        if (i) buf_add_text(out, ";");
        if (prompt->text) buf_printf(out, "'%.*s'", (int)prompt->n_text, prompt->text);
        if (prompt->ids) buf_printf(out, "%zu ids", prompt->n_ids);
        for (size_t k = 0; k < prompt->n_parts; k++) {
            const ey_part *part = &prompt->parts[k];
            if (part->type == EY_PART_IMAGE)
                buf_printf(out, "image(%zu)", part->n_bytes);
            else
                buf_printf(out, "'%.*s'", (int)part->n_bytes, (const char *)part->bytes);
        }
    }
}

static void prompts_with_images(void **state)
{
    static const struct {
        const char *body, *wanted;
    } cases[] = {
        {"{\"prompt\": {\"prompt_string\": \"x\", \"multimodal_data\": []}}", "'x'"},
        {"{\"prompt\": {\"prompt_string\": \"" MARK "\"}}", "'" MARK "'"},
        {"{\"prompt\": {\"prompt_string\": \"a" MARK "b" MARK "\", \"multimodal_data\": [\"" PNG
         "\", \"data:image/png;base64," PNG "\"]}}",
         "'a'image(8)'b'image(8)"},
        {"{\"prompt\": [\"a\", [1, 2], {\"prompt_string\": \"" MARK
         "\", \"multimodal_data\": [\"" PNG "\"]}]}",
         "'a';2 ids;image(8)"},
        /* old clients' format: [img-N] stays text if no image has this id */
        {"{\"prompt\": \"[img-7] [img-12][img-x]\", \"image_data\": [{\"id\": 12, \"data\": \"" PNG
         "\"}]}",
         "'[img-7] 'image(8)'[img-x]'"},
        {"{\"prompt\": \"[img-2][img-1]\", \"image_data\": [{\"id\": 1, \"data\": \"" PNG
         "\"}, {\"id\": 2, \"data\": \"" PNG "\"}]}",
         "image(8)image(8)"},
        /* prompts that share an image */
        {"{\"prompt\": [\"[img-1]a\", \"b[img-1]\"], \"image_data\": [{\"id\": 1, \"data\": \"" PNG
         "\"}]}",
         "image(8)'a';'b'image(8)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_request r;
        struct api_error error = {0};
        struct buf got = buf_with_max(1 << 12);
        if (!parse_completion(&r, cases[i].body, &error))
            fail_msg("%s: %s", cases[i].body, error.message);
        describe_prompt_list(&got, &r);
        if (strcmp(got.data, cases[i].wanted) != 0)
            fail_msg("%s\n  gives  %s\n  wanted %s", cases[i].body, got.data, cases[i].wanted);
        buf_free(&got);
        api_request_free(&r);
    }
}

static void probabilities_and_biases(void **state)
{
    struct api_request r;
    struct api_error error = {0};
    (void)state;
    assert_true(parse_completion(&r,
                                 "{\"prompt\": \"x\", \"n_probs\": 3, \"logit_bias\": [[5, -2.5], "
                                 "[6, false]]}",
                                 &error));
    assert_int_equal(r.request.top_logprobs, 3);
    assert_int_equal(r.request.n_logit_bias, 2);
    assert_true(r.request.logit_bias[0].id == 5 && r.request.logit_bias[0].bias == -2.5f);
    assert_true(r.request.logit_bias[1].id == 6 && r.request.logit_bias[1].bias == -100);
    api_request_free(&r);
}

/* Notes name the fields that have no effect. */
static void ignored_fields_are_noted(void **state)
{
    struct api_request r;
    struct api_error error = {0};
    (void)state;
    assert_true(parse_completion(
        &r, "{\"prompt\": \"x\", \"post_sampling_probs\": true, \"n_probs\": 2}", &error));
    assert_non_null(strstr(r.notes.data, "post_sampling_probs was ignored"));
    api_request_free(&r);
    assert_true(parse_completion(&r, "{\"prompt\": \"x\", \"post_sampling_probs\": true}", &error));
    assert_int_equal(r.notes.size, 0);
    api_request_free(&r);
    assert_true(parse_completion(&r,
                                 "{\"prompt\": \"x\", \"return_tokens\": true, "
                                 "\"t_max_predict_ms\": 0, \"response_fields\": [\"content\"]}",
                                 &error));
    assert_string_equal(r.notes.data, "return_tokens was ignored; response_fields was ignored");
    api_request_free(&r);
}

static void a_bias_is_a_pair(void **state)
{
    static const char *const bodies[] = {"{\"prompt\": \"x\", \"logit_bias\": [[5]]}",
                                         "{\"prompt\": \"x\", \"logit_bias\": [[5, 1, 2]]}",
                                         "{\"prompt\": \"x\", \"logit_bias\": [5]}"};
    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct api_request r;
        struct api_error error = {0};
        assert_false(parse_completion(&r, bodies[i], &error));
        assert_string_equal(api_error_text(&error),
                            "logit_bias[0] must be an array of a token id and a bias");
        api_request_free(&r);
    }
}

static void invalid_completions_are_refused(void **state)
{
    static const struct {
        const char *body, *param;
    } cases[] = {
        {"{}", "prompt"},
        {"{\"prompt\": \"\"}", "prompt"},
        {"{\"prompt\": []}", "prompt"},
        {"{\"prompt\": {\"multimodal_data\": []}}", "prompt.prompt_string"},
        {"{\"prompt\": {\"prompt_string\": \"x\", \"multimodal_data\": [\"" PNG "\"]}}",
         "prompt.multimodal_data"},
        {"{\"prompt\": {\"prompt_string\": \"" MARK "\", \"multimodal_data\": []}}",
         "prompt.multimodal_data"},
        {"{\"prompt\": {\"prompt_string\": \"" MARK MARK "\", \"multimodal_data\": [\"" PNG "\"]}}",
         "prompt.multimodal_data"},
        {"{\"prompt\": [\"a\", {\"prompt_string\": \"" MARK "\", \"multimodal_data\": [1]}]}",
         "prompt[1].multimodal_data[0]"},
        {"{\"prompt\": \"[img-2]\", \"image_data\": [{\"id\": 1, \"data\": \"" PNG "\"}]}",
         "image_data"},
        {"{\"prompt\": \"[img-1]\", \"image_data\": [{\"id\": 1}]}", "image_data[0].data"},
        {"{\"prompt\": \"[img-1][img-1]\", \"image_data\": [{\"id\": 1, \"data\": \"" PNG
         "\"}, {\"id\": 2, \"data\": \"" PNG "\"}]}",
         "image_data[0]"},
        {"{\"prompt\": [1, 2], \"image_data\": [{\"id\": 1, \"data\": \"" PNG "\"}]}",
         "image_data"},
        {"{\"prompt\": {\"prompt_string\": \"[img-1]\"}, \"image_data\": [{\"id\": 1, \"data\": "
         "\"" PNG "\"}]}",
         "image_data"},
        {"{\"prompt\": [\"a\", \"b\"], \"stream\": true}", "prompt"},
        {"{\"prompt\": true}", "prompt"},
        {"{\"prompt\": \"x\", \"logit_bias\": [[1000, 1]]}", "logit_bias[0][0]"},
        {"{\"prompt\": \"x\", \"logit_bias\": [[1, true]]}", "logit_bias[0][1]"},
        {"{\"prompt\": [1, 1000]}", "prompt[1]"},
        {"{\"prompt\": \"x\", \"grammar\": \"root ::= x\"}", "grammar"},
        {"{\"prompt\": \"x\", \"n_probs\": 21}", "n_probs"},
        {"{\"prompt\": \"x\", \"temperature\": 3}", "temperature"}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_request r;
        struct api_error error = {0};
        if (parse_completion(&r, cases[i].body, &error)) fail_msg("%s was accepted", cases[i].body);
        assert_int_equal(error.status, 400);
        assert_string_equal(error.param, cases[i].param);
        api_request_free(&r);
    }
}

#define TIMINGS                                                                                \
    "\"timings\":{\"cache_n\":4,\"prompt_n\":5,\"prompt_ms\":500.000,\"prompt_per_token_ms\":" \
    "100.000,\"prompt_per_second\":10.000,\"predicted_n\":2,\"predicted_ms\":250.000,"         \
    "\"predicted_per_token_ms\":125.000,\"predicted_per_second\":8.000}}"

static const struct api_usage usage = {.prompt_tokens = 9,
                                       .cached_tokens = 4,
                                       .completion_tokens = 2,
                                       .prefill_s = 0.5,
                                       .decode_s = 0.25};

static void answers(void **state)
{
    struct buf out = buf_with_max(1 << 16);
    void *kept = calloc(1, llamacpp_dialect.state_bytes);
    struct api_reply reply = api_reply_start(&llamacpp_dialect, "m");
    struct api_end end = {.finish = EY_FINISH_STOP, .stop_text = "b", .stop_id = -1};
    struct api_choice choice = {.text = "a", .n_text = 1, .end = end, .usage = usage};
    const struct api_event events[] = {
        {.type = API_EVENT_OPEN},
        {.type = API_EVENT_START},
        {.type = API_EVENT_TEXT, .text = "a", .n_text = 1, .n_tokens = 1},
        {.type = API_EVENT_END, .end = &end},
        {.type = API_EVENT_FINISH, .usage = &usage}};
    (void)state;
    reply.state = kept;
    reply.prompt_tokens = 9;
    llamacpp_dialect.write_whole(&out, &reply, &choice, 1, &usage);
    assert_string_equal(
        out.data,
        "{\"index\":0,\"content\":\"a\",\"tokens\":[],\"id_slot\":0,\"stop\":true,\"model\":\"m\","
        "\"tokens_predicted\":2,\"tokens_evaluated\":9,\"tokens_cached\":11,\"has_new_line\":false,"
        "\"truncated\":false,"
        "\"stop_type\":\"word\",\"stopping_word\":\"b\"," TIMINGS);
    buf_clear(&out);
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        llamacpp_dialect.write_event(&out, &reply, &events[i]);
    assert_string_equal(
        out.data,
        "data: {\"index\":0,\"content\":\"a\",\"tokens\":[],\"id_slot\":0,\"stop\":false,"
        "\"tokens_predicted\":1,\"tokens_evaluated\":9}\n\n"
        "data: {\"index\":0,\"content\":\"\",\"tokens\":[],\"id_slot\":0,\"stop\":true,\"model\":"
        "\"m\",\"tokens_predicted\":2,\"tokens_evaluated\":9,\"tokens_cached\":11,\"has_new_line\":"
        "false,\"truncated\":false,\"stop_type\":\"word\",\"stopping_word\":\"b\"," TIMINGS "\n\n");
    free(kept);
    buf_free(&out);
}

/* The token that ends the answer has no text, but a chunk with its probability. Chunks count
 * tokens, and a long stop text stays whole. */
static void the_end_of_a_stream(void **state)
{
    static const char stop[] =
        "a stop text of more than sixty-three bytes: its end counts as well as its beginning";
    static const ey_token_logprobs token = {.chosen = {7, "z", -0.5f, "z", 1}};
    const struct api_logprobs logprobs = {.tokens = &token, .n = 1};
    const struct api_end end = {.finish = EY_FINISH_STOP, .stop_text = stop, .stop_id = -1};
    const struct api_event events[] = {
        {.type = API_EVENT_TEXT, .text = "a", .n_text = 1, .n_tokens = 3},
        {.type = API_EVENT_END, .end = &end, .n_tokens = 4, .logprobs = &logprobs},
        {.type = API_EVENT_FINISH, .usage = &usage}};
    struct buf out = buf_with_max(1 << 16);
    void *kept = calloc(1, llamacpp_dialect.state_bytes);
    struct api_reply reply = api_reply_start(&llamacpp_dialect, "m");
    (void)state;
    reply.state = kept;
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        llamacpp_dialect.write_event(&out, &reply, &events[i]);
    assert_non_null(strstr(out.data, "\"content\":\"a\",\"tokens\":[],\"id_slot\":0,\"stop\":false,"
                                     "\"tokens_predicted\":3,"));
    assert_non_null(strstr(out.data, "\"completion_probabilities\":[{\"id\":7,"));
    assert_non_null(strstr(out.data, "\"tokens_predicted\":4,\"tokens_evaluated\":"));
    assert_non_null(strstr(out.data, stop));
    free(kept);
    buf_free(&out);
}

/* Each answer of a list has its own counts and times. */
static void lists_of_answers(void **state)
{
    struct buf out = buf_with_max(1 << 16);
    struct api_reply reply = api_reply_start(&llamacpp_dialect, "m");
    const struct api_usage other = {.prompt_tokens = 3, .completion_tokens = 1, .prefill_s = 0.25},
                           sum = {.prompt_tokens = 12, .completion_tokens = 3, .prefill_s = 0.5};
    const struct api_choice choices[] = {{.text = "a", .n_text = 1, .usage = usage},
                                         {.index = 1, .text = "b", .n_text = 1, .usage = other}};
    (void)state;
    llamacpp_dialect.write_whole(&out, &reply, choices, 2, &sum);
    assert_int_equal(out.data[0], '[');
    assert_non_null(strstr(out.data, TIMINGS ",{\"index\":1,"));
    assert_non_null(strstr(out.data, "\"tokens_evaluated\":3,"));
    assert_non_null(strstr(out.data, "\"prompt_n\":3,\"prompt_ms\":250.000,"));
    assert_non_null(strstr(out.data, "\"predicted_n\":1,\"predicted_ms\":0.000,"));
    buf_free(&out);
}

static void errors(void **state)
{
    struct buf out = buf_with_max(1024);
    struct api_error error = {.status = 400, .code = API_ERROR_TOO_LONG, .message = "long"};
    (void)state;
    assert_int_equal(write_llamacpp_error(&out, &error), 400);
    assert_string_equal(out.data, "{\"error\":{\"code\":400,\"message\":\"long\",\"type\":"
                                  "\"exceed_context_size_error\"}}");
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(requests),
                                       cmocka_unit_test(prompts_with_images),
                                       cmocka_unit_test(probabilities_and_biases),
                                       cmocka_unit_test(ignored_fields_are_noted),
                                       cmocka_unit_test(a_bias_is_a_pair),
                                       cmocka_unit_test(invalid_completions_are_refused),
                                       cmocka_unit_test(answers),
                                       cmocka_unit_test(the_end_of_a_stream),
                                       cmocka_unit_test(lists_of_answers),
                                       cmocka_unit_test(errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
