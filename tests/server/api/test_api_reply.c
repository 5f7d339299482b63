/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as JSON: the exact bytes of objects and chunks, except ids and times. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "server/api/openai_chat/api_reply.h"
#include "server/api/openai_chat/openai_dialect.h"

#define HEAD(object)                                                                         \
    "{\"id\":\"ID\",\"object\":\"" object                                                    \
    "\",\"created\":7,\"model\":\"a \\\"b\\\"\",\"system_fingerprint\":\"eyelet-" EY_VERSION \
    "\",\"choices\":["

static struct api_reply plain_reply(enum openai_kind kind)
{
    struct api_reply reply = api_reply_start(&openai_dialects[kind], "a \"b\"");
    strcpy(reply.id, "ID");
    reply.created = 7;
    return reply;
}

static void check(struct buf *got, const char *wanted)
{
    assert_false(got->failed);
    assert_string_equal(got->data, wanted);
    buf_free(got);
}

static const ey_logprob top[] = {{5, "a", -0.25f, "a", 1},
                                 {6, "\xc3\xa4\n", -1.5f, "\xc3\xa4\n", 3},
                                 {7, "a", -INFINITY, "a", 1}};
static const ey_token_logprobs tokens[] = {{{5, "a", -0.25f, "a", 1}, top, 3},
                                           {{9, "z", -3, "z", 1}, top, 2}};
/* Part of a character: the text is U+FFFD; the bytes are its own, including a NUL. */
static const ey_token_logprobs part[] = {{{3, "\xef\xbf\xbd", -1, "\xf0\x9f\0", 3}, NULL, 0}};

static void ids(void **state)
{
    (void)state;
    struct api_reply a = api_reply_start(&openai_dialects[API_CHAT], "m"),
                     b = api_reply_start(&openai_dialects[API_CHAT], "m"),
                     c = api_reply_start(&openai_dialects[API_COMPLETION], "m");
    struct api_tool_call call;
    api_random_id(call.id, openai_dialects[API_CHAT].call_prefix);
    assert_int_equal(strlen(a.id), strlen("chatcmpl-") + 32);
    assert_memory_equal(a.id, "chatcmpl-", 9);
    assert_memory_equal(c.id, "cmpl-", 5);
    assert_memory_equal(call.id, "call_", 5);
    assert_string_not_equal(a.id, b.id);
    assert_true(a.created > 1700000000);
}

static const ey_image_usage image = {640, 480, 608, 448, 266, true};
static const struct api_usage usage = {300, 12, 256, 266, &image, 1, 0.5, 0.25, 0.125, 0, {0, 0}};
#define USAGE                                                                                  \
    "\"usage\":{\"prompt_tokens\":300,\"completion_tokens\":12,\"total_tokens\":312,\"prompt_" \
    "tokens_details\":{\"cached_tokens\":256,"                                                 \
    "\"multimodal_tokens\":{\"image\":266}},\"images\":[{\"width\":640,\"height\":480,\"used_" \
    "width\":608,\"used_height\":448,\"tokens\":266,"                                          \
    "\"cached\":true}]},\"timings\":{\"vision_s\":0.5000,\"prefill_s\":0.2500,\"decode_s\":0." \
    "1250}}"

static void whole_chats(void **state)
{
    (void)state;
    struct api_reply reply = plain_reply(API_CHAT);
    struct api_tool_call call = {"call_1", "f", "{\"a\": \"\\u00e4\"}", 15};
    struct api_choice plain = {.index = 0,
                               .text = "x\ty",
                               .n_text = 3,
                               .end = {EY_FINISH_LENGTH, false, NULL, -1, {0, 0}, false}};
    struct api_choice called = {.index = 1,
                                .text = "",
                                .n_text = 0,
                                .calls = &call,
                                .n_calls = 1,
                                .end = {.finish = EY_FINISH_STOP, .called = true, .stop_id = -1}};
    struct buf out = buf_with_max(1 << 16);
    struct json_writer w = reply_open(&out, &reply);
    reply_add_choice(&w, &reply, &plain);
    reply_add_choice(&w, &reply, &called);
    reply_close(&w, &usage);
    check(&out, HEAD("chat.completion") "{\"index\":0,\"message\":{\"role\":\"assistant\","
                                        "\"content\":\"x\\ty\",\"refusal\":null},\"logprobs\":null,"
                                        "\"finish_reason\":\"length\",\"stop_reason\":null},{"
                                        "\"index\":1,\"message\":{\"role\":\"assistant\","
                                        "\"content\":null,\"refusal\":null,"
                                        "\"tool_calls\":[{\"id\":\"call_1\",\"type\":\"function\","
                                        "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": "
                                        "\\\"\\\\u00e4\\\"}\"}}]},\"logprobs\":null,\"finish_"
                                        "reason\":\"tool_calls\",\"stop_reason\":null}]," USAGE);
}

static void finish_reasons_of_answers(void **state)
{
    (void)state;
    static const struct {
        struct api_end end;
        const char *wanted;
    } cases[] = {{{EY_FINISH_STOP, false, NULL, -1, {0, 0}, false},
                  "\"finish_reason\":\"stop\",\"stop_reason\":null}"},
                 {{EY_FINISH_STOP, false, "\n\n", -1, {0, 0}, false},
                  "\"finish_reason\":\"stop\",\"stop_reason\":\"\\n\\n\"}"},
                 {{EY_FINISH_STOP, false, NULL, 0, {0, 0}, false},
                  "\"finish_reason\":\"stop\",\"stop_reason\":0}"},
                 {{EY_FINISH_LENGTH, false, NULL, -1, {0, 0}, false},
                  "\"finish_reason\":\"length\",\"stop_reason\":null}"},
                 {{EY_FINISH_LENGTH, false, NULL, -1, {12, 86}, false},
                  "\"finish_reason\":\"length\",\"stop_reason\":\"repetition_detected\"}"},
                 {{EY_FINISH_LENGTH, false, NULL, -1, {12, 86}, true},
                  "\"finish_reason\":\"repetition\",\"stop_reason\":\"repetition_detected\"}"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_reply reply = plain_reply(API_COMPLETION);
        struct api_choice choice = {.text = "t", .n_text = 1, .end = cases[i].end};
        struct buf out = buf_with_max(1 << 16);
        struct json_writer w = json_write_to(&out, JSON_COMPACT);
        reply_add_choice(&w, &reply, &choice);
        assert_non_null(strstr(out.data, cases[i].wanted));
        buf_free(&out);
    }
}

static void scores_of_a_chat(void **state)
{
    (void)state;
    struct api_reply reply = plain_reply(API_CHAT);
    struct api_choice choice = {.text = "az",
                                .n_text = 2,
                                .logprobs = {tokens, 2, NULL},
                                .end = {EY_FINISH_STOP, false, NULL, -1, {0, 0}, false}};
    struct buf out = buf_with_max(1 << 16);
    struct json_writer w = json_write_to(&out, JSON_COMPACT);
    reply_add_choice(&w, &reply, &choice);
#define TOP_A "{\"token\":\"a\",\"logprob\":-0.25,\"bytes\":[97]}"
#define TOP_B "{\"token\":\"\xc3\xa4\\n\",\"logprob\":-1.5,\"bytes\":[195,164,10]}"
    check(&out, "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"az\",\"refusal\":"
                "null},\"logprobs\":{\"content\":["
                "{\"token\":\"a\",\"logprob\":-0.25,\"bytes\":[97],\"top_logprobs\":[" TOP_A
                "," TOP_B ",{\"token\":\"a\",\"logprob\":-9999,\"bytes\":[97]}]},"
                "{\"token\":\"z\",\"logprob\":-3,\"bytes\":[122],\"top_logprobs\":[" TOP_A "," TOP_B
                "]}]},"
                "\"finish_reason\":\"stop\",\"stop_reason\":null}");
}

static void bytes_of_a_part_of_a_character(void **state)
{
    (void)state;
    struct api_reply reply = plain_reply(API_CHAT);
    struct api_logprobs logprobs = {part, 1, NULL};
    struct buf out = buf_with_max(1 << 16);
    reply_chunk_text(&out, &reply, 0, "", 0, &logprobs);
    assert_non_null(strstr(out.data, "{\"token\":\"\xef\xbf\xbd\",\"logprob\":-1,"
                                     "\"bytes\":[240,159,0],\"top_logprobs\":[]}"));
    buf_free(&out);
}

static void scores_of_a_completion(void **state)
{
    (void)state;
    struct api_reply reply = plain_reply(API_COMPLETION);
    size_t offset = 10;
    struct api_choice choice = {.text = "az",
                                .n_text = 2,
                                .logprobs = {tokens, 2, &offset},
                                .end = {EY_FINISH_STOP, false, NULL, -1, {0, 0}, false}};
    struct buf out = buf_with_max(1 << 16);
    struct json_writer w = json_write_to(&out, JSON_COMPACT);
    reply_add_choice(&w, &reply, &choice);
    check(&out, "{\"index\":0,\"text\":\"az\",\"logprobs\":{\"text_offset\":[10,11],\"token_"
                "logprobs\":[-0.25,-3],\"tokens\":[\"a\",\"z\"],"
                "\"top_logprobs\":[{\"a\":-0.25,\"\xc3\xa4\\n\":-1.5},{\"a\":-0.25,\"\xc3\xa4\\n\":"
                "-1.5,\"z\":-3}]},"
                "\"finish_reason\":\"stop\",\"stop_reason\":null}");
    assert_int_equal(offset, 12);
}

/* The estimate of a choice's bytes is an upper bound, and at most four times too high. */
static void bytes_of_a_choice(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "plain text", "\x01\x02\x03\"\\\n\t",
                                        "\xff\xfe\x80 not UTF-8",
                                        "\xc3\xa4\xe6\xbc\xa2\xf0\x9f\x98\x80"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        for (int kind = API_CHAT; kind <= API_COMPLETION; kind++) {
            struct api_reply reply = plain_reply(kind);
            ey_token_logprobs many[64];
            char text[2048] = "";
            size_t offset = 0;
            for (size_t k = 0; k < 64; k++) {
                many[k] = tokens[k % 2];
                many[k].chosen.token = many[k].chosen.bytes = texts[i];
                many[k].chosen.n_bytes = strlen(texts[i]);
                strcat(text, texts[i]);
            }
            struct api_choice choice = {.text = text,
                                        .n_text = strlen(text),
                                        .logprobs = {many, 64, &offset},
                                        .end = {EY_FINISH_STOP, false, NULL, -1, {0, 0}, false}};
            struct buf out = buf_with_max(1 << 20);
            struct json_writer w = json_write_to(&out, JSON_COMPACT);
            reply_add_choice(&w, &reply, &choice);
            assert_true(out.size <= api_choice_bytes(&choice));
            assert_true(kind != API_CHAT || api_choice_bytes(&choice) < 4 * out.size);
            buf_free(&out);
        }
}

static void chunks_of_a_chat(void **state)
{
    (void)state;
    struct api_reply reply = plain_reply(API_CHAT);
    struct api_tool_call call = {"call_2", "g", "{}", 2};
    struct api_end end = {EY_FINISH_STOP, false, "END", -1, {0, 0}, false};
    struct buf out = buf_with_max(1 << 16);
#define CHUNK "data: " HEAD("chat.completion.chunk")
    reply_chunk_role(&out, &reply, 0);
    check(&out, CHUNK "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                      "\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    reply_chunk_text(&out, &reply, 1, "\xc3\xbc\"", 3, NULL);
    check(&out, CHUNK "{\"index\":1,\"delta\":{\"content\":\"\xc3\xbc\\\"\"},\"logprobs\":null,"
                      "\"finish_reason\":null}]}\n\n");
    reply_chunk_call(&out, &reply, 0, 3, &call);
    check(&out, CHUNK "{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":3,\"id\":\"call_2\","
                      "\"type\":\"function\",\"function\":{\"name\":\"g\","
                      "\"arguments\":\"{}\"}}]},\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    reply_chunk_end(&out, &reply, 0, &end, NULL);
    check(&out, CHUNK "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\","
                      "\"stop_reason\":\"END\"}]}\n\n");
    reply_chunk_usage(&out, &reply, &usage);
    check(&out, CHUNK "]," USAGE "\n\n");
    reply_done(&out);
    check(&out, "data: [DONE]\n\n");
    reply_comment(&out, "%s %d/%d", "vision", 3, 24);
    check(&out, ": vision 3/24\n\n");
}

static void chunks_of_a_completion(void **state)
{
    (void)state;
    struct api_reply reply = plain_reply(API_COMPLETION);
    struct api_end end = {EY_FINISH_LENGTH, false, NULL, -1, {0, 0}, false};
    size_t offset = 0;
    struct api_logprobs scores = {tokens, 1, &offset};
    struct buf out = buf_with_max(1 << 16);
    reply_chunk_role(&out, &reply, 0);
    assert_int_equal(out.size, 0);
    reply_chunk_text(&out, &reply, 2, "a", 1, &scores);
    check(&out, "data: " HEAD(
                    "text_completion") "{\"index\":2,\"text\":\"a\",\"logprobs\":{\"text_offset\":["
                                       "0],\"token_logprobs\":[-0.25],\"tokens\":[\"a\"],"
                                       "\"top_logprobs\":[{\"a\":-0.25,\"\xc3\xa4\\n\":-1.5}]},"
                                       "\"finish_reason\":null}]}\n\n");
    reply_chunk_end(&out, &reply, 2, &end, NULL);
    check(&out,
          "data: " HEAD("text_completion") "{\"index\":2,\"text\":\"\",\"logprobs\":null,\"finish_"
                                           "reason\":\"length\",\"stop_reason\":null}]}\n\n");
}

/* Thoughts have both names that clients read. */
static void thoughts(void **state)
{
    (void)state;
    struct api_reply reply = plain_reply(API_CHAT);
    struct buf out = buf_with_max(1 << 16);
    struct api_event event = {.type = API_EVENT_THINKING, .index = 1, .text = "so \"", .n_text = 4};
    openai_dialects[API_CHAT].write_event(&out, &reply, &event);
    check(
        &out,
        "data: " HEAD(
            "chat.completion.chunk") "{\"index\":1,\"delta\":{"
                                     "\"reasoning_content\":\"so \\\"\",\"reasoning\":\"so \\\"\"},"
                                     "\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    struct json_writer w = reply_open(&out, &reply);
    struct api_choice choice = {.text = "b",
                                .n_text = 1,
                                .thinking = "a",
                                .n_thinking = 1,
                                .end = {.finish = EY_FINISH_STOP, .stop_id = -1}};
    reply_add_choice(&w, &reply, &choice);
    check(
        &out,
        HEAD("chat.completion") "{\"index\":0,\"message\":{\"role\":\"assistant\","
                                "\"content\":\"b\",\"refusal\":null,\"reasoning_content\":\"a\","
                                "\"reasoning\":\"a\"},\"logprobs\":null,\"finish_reason\":\"stop\","
                                "\"stop_reason\":null}");
}

/* Whole answers and a stream's last chunk have the loop at the top level. */
static void loops(void **state)
{
    (void)state;
    struct api_reply reply = plain_reply(API_CHAT);
    struct buf out = buf_with_max(1 << 16);
    struct api_end end = {EY_FINISH_LENGTH, false, NULL, -1, {12, 86}, false};
    reply_chunk_end(&out, &reply, 0, &end, NULL);
    check(&out,
          "data: " HEAD(
              "chat.completion.chunk") "{\"index\":0,\"delta\":{},\"logprobs\":"
                                       "null,\"finish_reason\":\"length\",\"stop_reason\":"
                                       "\"repetition_detected\"}],"
                                       "\"repetition\":{\"pattern_tokens\":12,\"copies\":86}}\n\n");
    struct json_writer w = reply_open(&out, &reply);
    reply_close(&w, &(struct api_usage){.thinking_tokens = 7, .repetition = {12, 86}});
    assert_non_null(strstr(out.data, "],\"repetition\":{\"pattern_tokens\":12,\"copies\":86},"));
    assert_non_null(strstr(out.data, "\"completion_tokens_details\":{\"reasoning_tokens\":7}"));
    buf_free(&out);
}

static void an_error_in_a_stream(void **state)
{
    (void)state;
    struct api_error error = {
        .status = 503, .type = "ServiceUnavailableError", .message = "it \"went\""};
    struct buf out = buf_with_max(1 << 16);
    reply_chunk_error(&out, &error);
    check(&out,
          "data: {\"error\":{\"message\":\"it "
          "\\\"went\\\"\",\"type\":\"ServiceUnavailableError\",\"param\":null,\"code\":503}}\n\n");
}

/* Each event is one line, whatever the text. */
static void no_text_ends_an_event(void **state)
{
    (void)state;
    struct api_reply reply = plain_reply(API_CHAT);
    char text[256];
    struct buf out = buf_with_max(1 << 16);
    for (int i = 0; i < 256; i++)
        text[i] = (char)i;
    reply_chunk_text(&out, &reply, 0, text, sizeof(text), NULL);
    assert_ptr_equal(strpbrk(out.data, "\r\n"), out.data + out.size - 2);
    ey_err e;
    json_object *parsed = json_parse(out.data + strlen("data: "), out.size - strlen("data: "),
                                     "chunk", EY_INTERNAL, &e);
    assert_non_null(parsed);
    json_object_put(parsed);
    buf_free(&out);
}

static void ids_and_images(void **state)
{
    (void)state;
    struct buf out = buf_with_max(1 << 16);
    const int some[] = {1, 20, 300};
    struct json_writer w = json_write_to(&out, JSON_COMPACT);
    json_open_array(&w);
    reply_write_ids(&w, some, 3);
    reply_write_ids(&w, some, 0);
    reply_write_images(&w, NULL, 0);
    json_close_array(&w);
    check(&out, "[[1,20,300],[],[]]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids),
        cmocka_unit_test(whole_chats),
        cmocka_unit_test(finish_reasons_of_answers),
        cmocka_unit_test(scores_of_a_chat),
        cmocka_unit_test(bytes_of_a_part_of_a_character),
        cmocka_unit_test(scores_of_a_completion),
        cmocka_unit_test(bytes_of_a_choice),
        cmocka_unit_test(chunks_of_a_chat),
        cmocka_unit_test(chunks_of_a_completion),
        cmocka_unit_test(thoughts),
        cmocka_unit_test(loops),
        cmocka_unit_test(an_error_in_a_stream),
        cmocka_unit_test(no_text_ends_an_event),
        cmocka_unit_test(ids_and_images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
