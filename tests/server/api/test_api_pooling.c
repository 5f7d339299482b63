/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings, reranking and scores: parsing of each dialect, refusals, and the bytes of answers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/api/ollama/ollama_dialect.h"
#include "server/api/pooling/pooling_dialects.h"

/* A GIF of one pixel. */
#define GIF "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
#define GIF_URL "data:image/gif;base64," GIF

static bool parse_for(struct api_request *out, const struct api_dialect *dialect, ey_task task,
                      const char *body, struct api_error *error)
{
    static const struct media_policy media;
    struct api_limits l = {.max_images = 3,
                           .vocab_size = 1000,
                           .max_model_len = 100,
                           .strict = true,
                           .task = task,
                           .dimensions = 256,
                           .turn_start = 7,
                           .media = &media};
    l.defaults.top_logprobs = -1;
    *error = (struct api_error){0};
    return api_parse(out, dialect, body, strlen(body), &l, error);
}

static void must_parse(struct api_request *out, const struct api_dialect *dialect, ey_task task,
                       const char *body)
{
    struct api_error error;
    if (!parse_for(out, dialect, task, body, &error)) fail_msg("%s: %s", body, error.message);
}

/* Prints "instruction|query|parts", with <image> for images. */
static void add_parts(struct buf *out, const ey_part *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (parts[i].type == EY_PART_IMAGE)
            buf_printf(out, parts[i].n_bytes ? "<image>" : "<nothing>");
        else
            buf_add(out, parts[i].bytes, parts[i].n_bytes);
}

static void describe(struct buf *out, const struct api_prompt *prompt)
{
    const ey_pooling_input *input = prompt->input;
    if (!input && prompt->text) buf_printf(out, "[%.*s]", (int)prompt->n_text, prompt->text);
    for (size_t i = 0; !input && i < prompt->n_ids; i++)
        buf_printf(out, "%d,", prompt->ids[i]);
    if (!input) return;
    if (input->instruction) buf_printf(out, "%.*s|", (int)input->n_instruction, input->instruction);
    add_parts(out, input->query, input->n_query);
    if (input->query) buf_add_text(out, "?");
    add_parts(out, input->parts, input->n_parts);
}

static void expect(const struct api_dialect *dialect, ey_task task, const char *body,
                   const char *want)
{
    struct api_request r;
    struct buf out = buf_with_max(4096);
    must_parse(&r, dialect, task, body);
    for (size_t i = 0; i < r.n_prompts; i++) {
        if (i) buf_add_text(&out, "; ");
        describe(&out, &r.prompts[i]);
    }
    assert_true(r.request.pool);
    assert_string_equal(out.data ? out.data : "", want);
    buf_free(&out);
    api_request_free(&r);
}

static void embeddings_are_read(void **state)
{
    static const struct {
        const char *body, *want;
    } cases[] = {
        {"{\"input\": \"a\"}", "a"},
        {"{\"input\": [\"a\", \"\", \"c\"]}", "a; ; c"},
        {"{\"input\": [7, 1]}", "7,1,"},
        {"{\"input\": [[7, 1], [7]]}", "7,1,; 7,"},
        {"{\"input\": [\"a\", {\"text\": \"b\", \"instruction\": \"i\"}], \"instruction\": \"j\"}",
         "j|a; i|b"},
        {"{\"input\": [{\"image\": \"" GIF "\"}, {\"image\": \"" GIF_URL "\", \"text\": \"t\"}]}",
         "<image>; <image>t"},
        {"{\"input\": {\"content\": [{\"type\": \"text\", \"text\": \"t\"}, {\"type\": "
         "\"image_url\", \"image_url\": {\"url\": \"" GIF_URL "\"}}]}}",
         "t<image>"},
        {"{\"messages\": [{\"role\": \"system\", \"content\": \"find\"}, {\"role\": \"user\", "
         "\"content\": [{\"type\": \"image_url\", \"image_url\": \"" GIF_URL "\"}]}, {\"role\": "
         "\"user\", \"content\": \"b\"}, {\"role\": \"assistant\", \"content\": \"\"}]}",
         "find|<image>b"},
        {"{\"content\": \"a\"}", "a"},
        {"{\"content\": [\"a\", {\"prompt_string\": \"<|im_start|>b\"}]}", "a; [<|im_start|>b]"},
        {"{\"content\": {\"prompt_string\": \"x \\n<__media__>\\n y\", \"multimodal_data\": "
         "[\"" GIF "\"]}}",
         "<image>xy"},
        {"{\"content\": [{\"prompt_string\": \"<__media__>\\n\", \"multimodal_data\": "
         "[\"" GIF "\"]}]}",
         "<image>"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect(&embeddings_dialects[EMBEDDINGS_OPENAI], EY_TASK_EMBED, cases[i].body,
               cases[i].want);
}

static void options_are_read(void **state)
{
    struct api_request r;
    (void)state;
    must_parse(&r, &embeddings_dialects[EMBEDDINGS_OPENAI], EY_TASK_EMBED,
               "{\"input\": \"a\", \"dimensions\": 64, \"normalize\": false, "
               "\"truncate_prompt_tokens\": 9, \"user\": \"u\", \"encoding_format\": \"float\"}");
    assert_int_equal(r.request.dimensions, 64);
    assert_true(r.request.raw_vector && r.request.truncate);
    assert_int_equal(r.request.max_prompt_tokens, 9);
    api_request_free(&r);
    must_parse(&r, &embeddings_dialects[EMBEDDINGS_OPENAI], EY_TASK_EMBED, "{\"input\": \"a\"}");
    assert_false(r.request.truncate);
    api_request_free(&r);
    must_parse(&r, &ollama_dialects[OLLAMA_EMBED], EY_TASK_EMBED,
               "{\"model\": \"m\", \"input\": \"a\"}");
    assert_true(r.request.truncate);
    api_request_free(&r);
}

static void ollama_is_read(void **state)
{
    (void)state;
    const struct api_dialect *new = &ollama_dialects[OLLAMA_EMBED],
                             *old = &ollama_dialects[OLLAMA_EMBEDDINGS];
    expect(new, EY_TASK_EMBED, "{\"input\": [\"a\", \"b\"], \"instruction\": \"i\"}", "i|a; i|b");
    expect(new, EY_TASK_EMBED, "{\"input\": \"\"}", "");
    expect(new, EY_TASK_EMBED, "{\"input\": []}", "");
    expect(new, EY_TASK_EMBED, "{}", "");
    expect(new, EY_TASK_EMBED, "{\"input\": \"a\", \"images\": [\"" GIF "\"]}", "<image>a");
    expect(new, EY_TASK_EMBED, "{\"images\": [\"" GIF "\"]}", "<image>");
    expect(old, EY_TASK_EMBED, "{\"prompt\": \"a\", \"options\": {}}", "a");
}

/* Overwrites what earlier calls left on the stack. */
static void overwrite_stack(void)
{
    volatile char bytes[64 << 10];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = 'x';
}

/* The engine's errors name the prompts' field, so its name must outlive parsing. */
static void prompts_know_their_field(void **state)
{
    static const struct {
        enum ollama_kind kind;
        const char *body, *name;
    } cases[] = {{OLLAMA_EMBED, "{\"input\": \"a\", \"images\": [\"" GIF "\"]}", "input"},
                 {OLLAMA_EMBED, "{\"input\": [\"a\"]}", "input"},
                 {OLLAMA_EMBEDDINGS, "{\"prompt\": \"a\", \"images\": [\"" GIF "\"]}", "prompt"},
                 {OLLAMA_EMBEDDINGS, "{\"prompt\": \"a\"}", "prompt"}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_request r;
        must_parse(&r, &ollama_dialects[cases[i].kind], EY_TASK_EMBED, cases[i].body);
        overwrite_stack();
        assert_string_equal(r.prompts_name, cases[i].name);
        api_request_free(&r);
    }
}

static void pairs_are_read(void **state)
{
    const struct api_dialect *rerank = &scoring_dialects[SCORING_RERANK],
                             *score = &scoring_dialects[SCORING_SCORE];
    (void)state;
    expect(rerank, EY_TASK_RERANK, "{\"query\": \"q\", \"documents\": [\"a\", \"b\"]}", "q?a; q?b");
    expect(rerank, EY_TASK_EMBED, "{\"query\": \"q\", \"documents\": [\"a\", \"b\"]}", "q; a; b");
    expect(rerank, EY_TASK_RERANK,
           "{\"query\": {\"image\": \"" GIF "\"}, \"texts\": [\"a\"], \"instruction\": \"i\"}",
           "i|<image>?a");
    expect(rerank, EY_TASK_RERANK,
           "{\"query\": \"q\", \"documents\": [{\"content\": [{\"type\": \"image_url\", "
           "\"image_url\": {\"url\": \"" GIF_URL "\"}}]}], \"chat_template_kwargs\": "
           "{\"instruction\": \"j\"}}",
           "j|q?<image>");
    expect(
        rerank, EY_TASK_RERANK,
        "{\"query\": {\"text\": \"q\", \"instruction\": \"i\"}, \"documents\": [\"a\", {\"text\": "
        "\"b\", \"instruction\": \"j\"}], \"instruction\": \"k\"}",
        "i|q?a; j|q?b");
    expect(score, EY_TASK_RERANK, "{\"text_1\": \"q\", \"text_2\": [\"a\", \"b\"]}", "q?a; q?b");
    expect(score, EY_TASK_RERANK, "{\"queries\": [\"q\", \"r\"], \"documents\": [\"a\", \"b\"]}",
           "q?a; r?b");
    expect(score, EY_TASK_RERANK, "{\"data_1\": \"q\", \"data_2\": \"a\"}", "q?a");
}

/* Scores are never logits, and a note says so. */
static void requests_for_logits_are_noted(void **state)
{
    static const struct {
        ey_task task;
        const char *more, *note;
    } cases[] = {{EY_TASK_RERANK, "\"raw_scores\": true", "raw_scores was ignored"},
                 {EY_TASK_RERANK, "\"use_activation\": false", "use_activation was ignored"},
                 {EY_TASK_RERANK, "\"raw_scores\": false, \"use_activation\": true", NULL},
                 {EY_TASK_EMBED, "\"raw_scores\": true", NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char body[128];
        struct api_request r;
        snprintf(body, sizeof(body), "{\"query\": \"q\", \"documents\": [\"a\"], %s}",
                 cases[i].more);
        must_parse(&r, &scoring_dialects[SCORING_RERANK], cases[i].task, body);
        if (cases[i].note)
            assert_non_null(r.notes.data ? strstr(r.notes.data, cases[i].note) : NULL);
        else
            assert_int_equal(r.notes.size, 0);
        api_request_free(&r);
    }
}

/* The error of an unreadable image names its field, wherever the prompt puts the image. */
static void images_keep_their_place(void **state)
{
    struct api_request r;
    (void)state;
    must_parse(&r, &scoring_dialects[SCORING_RERANK], EY_TASK_RERANK,
               "{\"query\": {\"image\": \"" GIF "\"}, \"documents\": [{\"image\": \"" GIF
               "\"}, {\"image\": \"" GIF "\"}]}");
    assert_int_equal(r.n_media, 3);
    assert_int_equal(r.prompts[1].n_query_images, 1);
    assert_int_equal(r.prompts[1].first_query_image, 0);
    assert_int_equal(r.prompts[1].first_image, 2);
    assert_string_equal(r.image_refs[2]->path.text, "documents[1].image");
    api_request_free(&r);
}

static void invalid_pooling_requests_are_refused(void **state)
{
    static const struct {
        const struct api_dialect *dialect;
        ey_task task;
        const char *body, *param;
        int status;
    } cases[] = {
#define EMBED &embeddings_dialects[EMBEDDINGS_OPENAI], EY_TASK_EMBED
#define RERANK &scoring_dialects[SCORING_RERANK], EY_TASK_RERANK
#define SCORE &scoring_dialects[SCORING_SCORE], EY_TASK_RERANK
        {EMBED, "{}", "input", 400},
        {EMBED, "{\"input\": []}", "input", 400},
        {EMBED, "{\"input\": 5}", "input", 400},
        {EMBED, "{\"input\": [1, 2]}", "input", 400},
        {EMBED, "{\"input\": [[7], [8]]}", "input[1]", 400},
        {EMBED, "{\"input\": [7, 1000]}", "input[1]", 400},
        {EMBED, "{\"input\": [\"a\", null]}", "input[1]", 400},
        {EMBED, "{\"input\": \"a\", \"dimensions\": 63}", "dimensions", 400},
        {EMBED, "{\"input\": \"a\", \"dimensions\": 257}", "dimensions", 400},
        {EMBED, "{\"input\": \"a\", \"dimensions\": \"64\"}", "dimensions", 400},
        {EMBED, "{\"input\": \"a\", \"encoding_format\": \"int8\"}", "encoding_format", 400},
        {EMBED, "{\"input\": \"a\", \"embed_dtype\": \"float16\"}", "embed_dtype", 400},
        {EMBED, "{\"input\": \"a\", \"embd_normalize\": 1}", "embd_normalize", 400},
        {EMBED, "{\"input\": \"a\", \"truncate_prompt_tokens\": -2}", "truncate_prompt_tokens",
         400},
        {EMBED, "{\"input\": \"a\", \"stop\": \"x\"}", "stop", 400},
        {EMBED, "{\"input\": [{\"image\": \"%%%\"}]}", "input[0].image", 400},
        {EMBED, "{\"input\": [{\"txt\": \"a\"}]}", "input[0]", 400},
        {RERANK, "{\"query\": \"q\", \"documents\": [{}]}", "documents[0]", 400},
        {EMBED, "{\"input\": [{\"image\": {}}]}", "input[0].image.url", 400},
        {EMBED, "{\"messages\": [{\"role\": \"tool\", \"content\": \"x\"}]}", "messages[0].role",
         400},
        {EMBED, "{\"messages\": [{\"role\": \"user\"}]}", "messages[0].content", 400},
        {EMBED, "{\"content\": [{\"prompt_string\": \"x <__media__>\"}]}",
         "content[0].multimodal_data", 400},
        {EMBED, "{\"content\": [{}]}", "content[0].prompt_string", 400},
        {&embeddings_dialects[EMBEDDINGS_OPENAI], EY_TASK_GENERATE, "{\"input\": \"a\"}", "model",
         400},
        {&embeddings_dialects[EMBEDDINGS_OPENAI], EY_TASK_RERANK, "{\"input\": \"a\"}", "model",
         400},
        {&embeddings_dialects[EMBEDDINGS_LLAMACPP], EY_TASK_GENERATE, "{\"content\": \"a\"}",
         "model", 501},
        {&ollama_dialects[OLLAMA_EMBED], EY_TASK_GENERATE, "{\"input\": \"a\"}", "model", 400},
        {&ollama_dialects[OLLAMA_EMBED], EY_TASK_EMBED, "{\"input\": 5}", "input", 400},
        {&ollama_dialects[OLLAMA_EMBED], EY_TASK_EMBED, "{\"input\": [5]}", "input[0]", 400},
        {&ollama_dialects[OLLAMA_CHAT], EY_TASK_EMBED, "{\"messages\": []}", "model", 400},
        {RERANK, "{\"documents\": [\"a\"]}", "query", 400},
        {RERANK, "{\"query\": \"q\"}", "documents", 400},
        {RERANK, "{\"query\": \"q\", \"documents\": []}", "documents", 400},
        {RERANK, "{\"query\": \"q\", \"documents\": \"a\"}", "documents", 400},
        {RERANK, "{\"query\": \"q\", \"documents\": [5]}", "documents[0]", 400},
        {RERANK, "{\"query\": \"q\", \"documents\": [\"a\"], \"top_n\": -1}", "top_n", 400},
        {RERANK, "{\"query\": \"q\", \"documents\": [{\"content\": [{\"type\": \"text\"}]}]}",
         "documents[0].content[0].text", 400},
        {SCORE, "{\"text_1\": \"q\"}", "text_2", 400},
        {SCORE, "{\"text_1\": [\"q\", \"r\"], \"text_2\": [\"a\"]}", "text_2", 400},
        {&scoring_dialects[SCORING_SCORE], EY_TASK_GENERATE,
         "{\"text_1\": \"q\", \"text_2\": \"a\"}", "model", 400},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_request r;
        struct api_error error;
        if (parse_for(&r, cases[i].dialect, cases[i].task, cases[i].body, &error))
            fail_msg("%s was accepted", cases[i].body);
        if (strcmp(error.param, cases[i].param) != 0)
            fail_msg("%s: %s, not %s", cases[i].body, error.param, cases[i].param);
        assert_int_equal(error.status, cases[i].status);
        api_request_free(&r);
    }
}

/* ---- answers ---- */

static const struct api_usage usage = {.prompt_tokens = 9};
static const float vectors[][2] = {{0.5f, -1}, {1, 0}, {0, 1}};

static void write_answer(struct buf *out, const struct api_dialect *dialect, ey_task task,
                         const char *body, const struct api_choice *choices, size_t n)
{
    struct api_request r;
    must_parse(&r, dialect, task, body);
    struct api_reply reply = api_reply_start(dialect, "m");
    reply.request = &r;
    reply.created = 5;
    snprintf(reply.id, sizeof(reply.id), "ID");
    buf_clear(out);
    dialect->write_whole(out, &reply, choices, n, &usage);
    api_request_free(&r);
}

static void vectors_are_written(void **state)
{
    struct buf out = buf_with_max(4096);
    const struct api_dialect *openai = &embeddings_dialects[EMBEDDINGS_OPENAI];
    const struct api_choice choices[] = {
        {.index = 0, .pooled = {.vector = vectors[0], .n_vector = 2}},
        {.index = 1, .pooled = {.vector = vectors[1], .n_vector = 2}}};
    (void)state;
    write_answer(&out, openai, EY_TASK_EMBED, "{\"input\": [\"a\", \"b\"]}", choices, 2);
    assert_string_equal(
        out.data, "{\"object\":\"list\",\"model\":\"m\",\"data\":[{\"object\":\"embedding\","
                  "\"index\":0,\"embedding\":[0.5,-1]},{\"object\":\"embedding\",\"index\":1,"
                  "\"embedding\":[1,0]}],\"usage\":{\"prompt_tokens\":9,\"total_tokens\":9}}");
    write_answer(&out, openai, EY_TASK_EMBED, "{\"input\": \"a\", \"encoding_format\": \"base64\"}",
                 choices, 1);
    assert_non_null(strstr(out.data, "\"embedding\":\"AAAAPwAAgL8=\"")); /* 3f000000 bf800000 */
    write_answer(&out, openai, EY_TASK_EMBED, "{\"content\": [\"a\", \"b\"]}", choices, 2);
    assert_string_equal(out.data, "[{\"index\":0,\"embedding\":[[0.5,-1]]},{\"index\":1,"
                                  "\"embedding\":[[1,0]]}]");
    write_answer(&out, &ollama_dialects[OLLAMA_EMBEDDINGS], EY_TASK_EMBED, "{\"prompt\": \"a\"}",
                 choices, 1);
    assert_string_equal(out.data, "{\"embedding\":[0.5,-1]}");
    write_answer(&out, &ollama_dialects[OLLAMA_EMBED], EY_TASK_EMBED,
                 "{\"model\": \"n\", \"input\": [\"a\", \"b\"]}", choices, 2);
    assert_non_null(strstr(out.data, "{\"model\":\"n\",\"embeddings\":[[0.5,-1],[1,0]],"));
    assert_non_null(strstr(out.data, "\"prompt_eval_count\":9}"));
    buf_free(&out);
}

static void scores_are_written(void **state)
{
    struct buf out = buf_with_max(4096);
    const struct api_dialect *rerank = &scoring_dialects[SCORING_RERANK],
                             *score = &scoring_dialects[SCORING_SCORE];
    const struct api_choice scores[] = {{.pooled = {.score = 0.25}},
                                        {.index = 1, .pooled = {.score = 0.75}},
                                        {.index = 2, .pooled = {.score = 0.25}}};
    const struct api_choice embedded[] = {{.pooled = {.vector = vectors[1], .n_vector = 2}},
                                          {.pooled = {.vector = vectors[2], .n_vector = 2}},
                                          {.pooled = {.vector = vectors[1], .n_vector = 2}}};
    (void)state;
    write_answer(&out, rerank, EY_TASK_RERANK,
                 "{\"query\": \"q\", \"documents\": [\"a\", \"b\", {\"image\": \"" GIF "\"}]}",
                 scores, 3);
    assert_string_equal(
        out.data, "{\"id\":\"ID\",\"model\":\"m\",\"usage\":{\"prompt_tokens\":9,\"total_tokens\":"
                  "9},\"meta\":{\"api_version\":{\"version\":\"2\"},\"billed_units\":"
                  "{\"search_units\":1}},\"results\":[{\"index\":1,\"relevance_score\":0.75,"
                  "\"document\":{\"text\":\"b\"}},{\"index\":0,\"relevance_score\":0.25,"
                  "\"document\":{\"text\":\"a\"}},{\"index\":2,\"relevance_score\":0.25,"
                  "\"document\":{\"text\":null,\"multi_modal\":null}}]}");
    write_answer(&out, rerank, EY_TASK_RERANK,
                 "{\"query\": \"q\", \"texts\": [\"a\", \"b\"], \"return_text\": true}", scores, 2);
    assert_string_equal(out.data, "[{\"index\":1,\"score\":0.75,\"text\":\"b\"},{\"index\":0,"
                                  "\"score\":0.25,\"text\":\"a\"}]");
    write_answer(&out, rerank, EY_TASK_RERANK,
                 "{\"query\": \"q\", \"documents\": [\"a\", \"b\", \"c\"], \"top_n\": 1, "
                 "\"return_documents\": false}",
                 scores, 3);
    assert_non_null(strstr(out.data, "\"results\":[{\"index\":1,\"relevance_score\":0.75}]}"));
    write_answer(&out, score, EY_TASK_RERANK, "{\"text_1\": \"q\", \"text_2\": [\"a\", \"b\"]}",
                 scores, 2);
    assert_string_equal(out.data,
                        "{\"id\":\"ID\",\"object\":\"list\",\"created\":5,\"model\":\"m\","
                        "\"data\":[{\"index\":0,\"object\":\"score\",\"score\":0.25},{\"index\":1,"
                        "\"object\":\"score\",\"score\":0.75}],\"usage\":{\"prompt_tokens\":9,"
                        "\"total_tokens\":9,\"completion_tokens\":0}}");
    write_answer(&out, score, EY_TASK_EMBED, "{\"text_1\": \"q\", \"text_2\": [\"a\", \"b\"]}",
                 embedded, 3);
    assert_non_null(strstr(out.data, "\"data\":[{\"index\":0,\"object\":\"score\",\"score\":0},"
                                     "{\"index\":1,\"object\":\"score\",\"score\":1}]"));
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embeddings_are_read),
        cmocka_unit_test(options_are_read),
        cmocka_unit_test(ollama_is_read),
        cmocka_unit_test(prompts_know_their_field),
        cmocka_unit_test(pairs_are_read),
        cmocka_unit_test(requests_for_logits_are_noted),
        cmocka_unit_test(images_keep_their_place),
        cmocka_unit_test(invalid_pooling_requests_are_refused),
        cmocka_unit_test(vectors_are_written),
        cmocka_unit_test(scores_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
