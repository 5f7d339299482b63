/* SPDX-License-Identifier: Apache-2.0 */
/* Documents in requests: their pages become images in place and in order, within the limits. Run it
 * in the source tree's top. tests/document/data has files of two pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/text/base64.h"
#include "sandbox/sandbox.h"
#include "server/api/openai_chat/openai_dialect.h"
#include "server/api/openai_responses/responses_dialect.h"

#define PICTURE "data:image/png;base64,iVBORw0KGgo="
enum { MOST_IMAGES = 4 };

static struct api_limits limits(const struct media_policy *media)
{
    struct api_limits l = {
        .max_images = MOST_IMAGES, .vocab_size = 1000, .max_model_len = 2048, .media = media};
    l.defaults.top_logprobs = -1;
    l.defaults.sampling = (ey_sampling){.temperature = 0.5f, .top_p = 1, .repetition_penalty = 1};
    return l;
}

/* Replaces each %s of `form` with the file's base64. */
static char *body_with(const char *form, const char *path)
{
    char *bytes = NULL;
    size_t n;
    ey_err e;
    struct buf body = buf_with_max(64 << 20), text = buf_with_max(16 << 20);
    if (!file_read(&bytes, &n, path, 8 << 20, &e)) fail_msg("%s", e.text);
    assert_true(base64_encode(&text, bytes, n));
    for (const char *at = form; *at;) {
        const char *mark = strstr(at, "%s");
        size_t length = mark ? (size_t)(mark - at) : strlen(at);
        buf_add(&body, at, length);
        if (mark) buf_add(&body, text.data, text.size);
        at += length + (mark ? 2 : 0);
    }
    buf_add(&body, "", 1);
    free(bytes);
    buf_free(&text);
    return body.data;
}

/* Prints "t" for texts and "i" for images, with a space between messages. */
static void describe_parts(char *out, const struct api_request *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->request.n_messages; i++) {
        const ey_message *message = &r->request.messages[i];
        if (i) out[n++] = ' ';
        for (size_t k = 0; k < message->n_parts; k++) {
            const ey_part *part = &message->parts[k];
            out[n++] = part->type == EY_PART_IMAGE ? 'i' : 't';
            if (part->type == EY_PART_IMAGE) assert_true(part->bytes && part->n_bytes);
        }
    }
    out[n] = 0;
}

/* Whether the error is that pdftoppm or Landlock is missing. */
static bool lacks_program(const char *message)
{
    return strstr(message, "poppler-utils") || strstr(message, "Landlock");
}

#define FILE_PART(prefix) \
    "{\"type\": \"file\", \"file\": {\"filename\": \"a\", \"file_data\": \"" prefix "%s\"}}"
#define TEXT_PART "{\"type\": \"text\", \"text\": \"x\"}"
#define IMAGE_PART "{\"type\": \"image_url\", \"image_url\": {\"url\": \"" PICTURE "\"}}"
#define CHAT(parts) "{\"messages\": [{\"role\": \"user\", \"content\": [" parts "]}]}"

static const char tiff[] = "tests/document/data/two.tif", pdf[] = "tests/document/data/two.pdf",
                  image[] = "examples/word-1.png";

static const struct {
    bool responses;
    const char *form, *path, *wanted;
} taken[] = {
    {false, CHAT(FILE_PART("data:image/tiff;base64,") ", " TEXT_PART), tiff, "iit"},
    {false, CHAT(TEXT_PART ", " FILE_PART("") ", " IMAGE_PART), tiff, "tiii"},
    {false, CHAT(IMAGE_PART ", " FILE_PART("") ", " IMAGE_PART), tiff, "iiii"},
    {false, CHAT(FILE_PART("") ", " TEXT_PART ", " FILE_PART("")), tiff, "iitii"},
    {false, CHAT(FILE_PART("data:application/pdf;base64,") ", " TEXT_PART), pdf, "iit"},
    {false, CHAT(FILE_PART("") ", " TEXT_PART), image, "it"},
    {false,
     "{\"messages\": [{\"role\": \"user\", \"content\": [" FILE_PART(
         "") "]}, {\"role\": "
             "\"assistant\", \"content\": \"a\"}, {\"role\": \"user\", \"content\": [" TEXT_PART
             ", " IMAGE_PART "]}]}",
     tiff, "ii t ti"},
    {true,
     "{\"input\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_file\", \"file_data\": "
     "\"data:application/pdf;base64,%s\"}, {\"type\": \"input_text\", \"text\": \"x\"}]}]}",
     pdf, "iit"},
};

static const struct api_dialect *dialect(bool responses)
{
    return responses ? &responses_dialects[RESPONSES_CREATE] : &openai_dialects[API_CHAT];
}

static void pages_become_images(void **state)
{
    (void)state;
    struct media_policy media = {.budget = ey_budget_create(256 << 20)};
    struct api_limits l = limits(&media);
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        struct api_request r;
        struct api_error error;
        char said[64], *body = body_with(taken[i].form, taken[i].path);
        bool ok = api_parse(&r, dialect(taken[i].responses), body, strlen(body), &l, &error);
        if (!ok && !lacks_program(error.message)) fail_msg("case %zu: %s", i, error.message);
        if (ok) {
            describe_parts(said, &r);
            assert_string_equal(said, taken[i].wanted);
            assert_int_equal(ey_budget_used(media.budget), r.request.budget_held);
        }
        api_request_free(&r);
        free(body);
        assert_int_equal(ey_budget_used(media.budget), 0);
    }
    ey_budget_free(&media.budget);
}

/* A document's detail applies to each of its pages. */
static void detail_is_of_all_pages(void **state)
{
    (void)state;
    static const char *const forms[] = {
        CHAT("{\"type\": \"file\", \"detail\": \"low\", \"file\": {\"file_data\": \"%s\"}}"),
        "{\"input\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_file\", \"detail\": "
        "\"low\", "
        "\"file_data\": \"%s\"}]}]}",
    };
    struct media_policy media = {.budget = ey_budget_create(256 << 20)};
    struct api_limits l = limits(&media);
    l.max_pixels = 1 << 20;
    for (int i = 0; i < 2; i++) {
        struct api_request r;
        struct api_error error;
        char *body = body_with(forms[i], tiff);
        if (!api_parse(&r, dialect(i == 1), body, strlen(body), &l, &error))
            fail_msg("form %d: %s", i, error.message);
        const ey_message *message = &r.request.messages[r.request.n_messages - 1];
        assert_int_equal(message->n_parts, 2);
        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(message->parts[k].detail, EY_DETAIL_LOW);
            assert_int_equal(message->parts[k].max_pixels, 0);
        }
        api_request_free(&r);
        free(body);
    }
    ey_budget_free(&media.budget);
}

static void invalid_documents_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *form, *path, *message;
    } cases[] = {
        {CHAT(FILE_PART("") ", " FILE_PART("") ", " FILE_PART("")), tiff,
         "the document has 2 pages, but this request may have only 1 more image"},
        {CHAT("{\"type\": \"file\"}"), tiff, "messages[0].content[0].file is missing"},
        {CHAT("{\"type\": \"file\", \"file\": {}}"), tiff, "file.file_data is missing"},
        {CHAT("{\"type\": \"file\", \"file\": {\"file_id\": \"a\"}}"), tiff, "send file_data"},
        {CHAT("{\"type\": \"file\", \"file\": {\"file_data\": \"data:text/plain;base64,YQ==\"}}"),
         tiff, "send an image, or a PDF as a file"},
        {CHAT("{\"type\": \"file\", \"detail\": \"best\", \"file\": {\"file_data\": \"%s\"}}"),
         tiff, "content[0].detail"},
    };
    struct media_policy media = {.budget = ey_budget_create(256 << 20)};
    struct api_limits l = limits(&media);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_request r;
        struct api_error error;
        char *body = body_with(cases[i].form, cases[i].path);
        if (api_parse(&r, dialect(false), body, strlen(body), &l, &error))
            fail_msg("case %zu is accepted", i);
        if (!strstr(error.message, cases[i].message))
            fail_msg("%s, not %s", error.message, cases[i].message);
        api_request_free(&r);
        free(body);
        assert_int_equal(ey_budget_used(media.budget), 0);
    }
    ey_budget_free(&media.budget);
}

/* Rendering would need more than the whole budget. */
static void rendering_is_charged(void **state)
{
    (void)state;
    struct media_policy media = {.budget = ey_budget_create(1 << 20)};
    struct api_limits l = limits(&media);
    struct api_request r;
    struct api_error error;
    char *body = body_with(CHAT(FILE_PART("")), pdf);
    assert_false(api_parse(&r, dialect(false), body, strlen(body), &l, &error));
    if (!lacks_program(error.message)) assert_non_null(strstr(error.message, "--host-memory"));
    api_request_free(&r);
    free(body);
    assert_int_equal(ey_budget_used(media.budget), 0);
    ey_budget_free(&media.budget);
}

/* The second image can never fit next to the first, so the error must not suggest a retry. */
static void images_of_a_request_are_added_up(void **state)
{
    (void)state;
    static const char body[] = CHAT(IMAGE_PART ", " IMAGE_PART);
    struct media_policy media = {.budget = ey_budget_create(16)};
    struct api_limits l = limits(&media);
    struct api_request r;
    struct api_error error;
    assert_false(api_parse(&r, dialect(false), body, strlen(body), &l, &error));
    assert_int_equal(error.status, 400);
    assert_non_null(strstr(error.message, "--host-memory"));
    api_request_free(&r);
    assert_int_equal(ey_budget_used(media.budget), 0);
    ey_budget_free(&media.budget);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_become_images),
        cmocka_unit_test(detail_is_of_all_pages),
        cmocka_unit_test(invalid_documents_are_refused),
        cmocka_unit_test(rendering_is_charged),
        cmocka_unit_test(images_of_a_request_are_added_up),
    };
    sandbox_set_helper(EY_HELPER);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
