/* SPDX-License-Identifier: Apache-2.0 */
/* OpenAI's Responses: requests of real clients and how they are parsed; the events of streams; the
 * store's limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "describe_messages.h"
#include "base/clock.h"
#include "base/json.h"
#include "models/chat/hermes.h"
#include "server/api/openai_responses/responses_dialect.h"

#define PICTURE "{\"type\": \"input_image\", \"image_url\": \"data:image/png;base64,iVBORw0KGgo=\"}"
#define TOOL(name) "{\"type\": \"function\", \"name\": \"" name "\"}"
#define CALL(id, name)                                                         \
    "{\"type\": \"function_call\", \"call_id\": \"" id "\", \"name\": \"" name \
    "\", \"arguments\": \"{\\\"x\\\": 1}\"}"
#define PART(text) "{\"type\": \"summary_text\", \"text\": \"" text "\"}"
#define THOUGHT(summary, more) "{\"type\": \"reasoning\", \"summary\": " summary ", " more "}"
#define SAID(text) "{\"role\": \"assistant\", \"content\": \"" text "\"}"
#define OUTPUT(id, value) \
    "{\"type\": \"function_call_output\", \"call_id\": \"" id "\", \"output\": " value "}"

static bool parse_responses(struct api_request *out, const char *body, struct api_error *error)
{
    static const struct media_policy media = {0};
    struct api_limits l = {.max_images = 3,
                           .vocab_size = 1000,
                           .max_model_len = 2048,
                           .media = &media,
                           .tool_format = &hermes_tool_calls};
    l.defaults.top_logprobs = -1;
    l.defaults.sampling = (ey_sampling){.temperature = 0.5f, .top_p = 1, .repetition_penalty = 1};
    return api_parse(out, &responses_dialects[RESPONSES_CREATE], body, strlen(body), &l, error);
}

static void describe_items(struct buf *out, const struct api_request *r)
{
    const ey_request *q = &r->request;
    describe_messages(out, q);
    for (size_t i = 0; i < q->n_tools; i++)
        buf_printf(out, "%s; ", q->tools[i]);
    buf_printf(out, "max=%d", q->max_tokens);
    if (r->stream) buf_add_text(out, " stream");
    if (q->grammar) buf_add_text(out, " grammar");
    if (r->single_call) buf_add_text(out, " single");
    if (r->drops_messages) buf_add_text(out, " drops");
    if (q->top_logprobs >= 0) buf_printf(out, " logprobs=%d", q->top_logprobs);
    if (r->unknown.size) buf_printf(out, " unknown=%s", r->unknown.data);
    if (r->notes.size) buf_printf(out, " note=%s", r->notes.data);
}

static void items_become_messages(void **state)
{
    static const struct {
        const char *body, *wanted;
    } cases[] = {
        {"{\"input\": \"hi\"}", "user: 'hi'; max=0"},
        {"{\"input\": \"hi\", \"instructions\": \"S\", \"max_output_tokens\": 7, \"stream\": true, "
         "\"stream_options\": {\"include_obfuscation\": false}, \"parallel_tool_calls\": false, "
         "\"truncation\": \"auto\", \"new\": 1}",
         "system: 'S'; user: 'hi'; max=7 stream single drops unknown=new"},
        /* AI SDK: a system item, no types */
        {"{\"input\": [{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", "
         "\"content\": [" PICTURE ", {\"type\": \"input_text\", \"text\": \"a\"}]}]}",
         "system: 'S'; user: image(8) 'a'; max=0"},
        {"{\"instructions\": \"A\", \"input\": [{\"role\": \"user\", \"content\": \"a\"}, "
         "{\"role\": "
         "\"developer\", \"content\": \"B\"}]}",
         "system: 'A' '\n\n' 'B'; user: 'a'; max=0"},
        /* one assistant message; results in the order of the calls, one with an image */
        {"{\"input\": [{\"type\": \"reasoning\", \"summary\": []}, {\"role\": \"assistant\", "
         "\"content\": [{\"type\": \"output_text\", \"text\": \"t\"}]}, " CALL("1", "f") ", " CALL(
             "2", "g") ", " OUTPUT("2", "\"two\"") ", " OUTPUT("1", "[" PICTURE "]") "]}",
         "assistant: 't' f({\"x\": 1}) g({\"x\": 1}); tool: image(8); tool: 'two'; max=0"},
        {"{\"input\": [" CALL("1", "f") ", " OUTPUT("1", "\"r\"") ", " OUTPUT(
             "9", "\"s\"") ", {\"role\": \"assistant\", \"content\": \"a\"}, {\"role\": "
                           "\"assistant\", \"content\": \"b\"}, {\"role\": \"user\", \"content\": "
                           "\"c\"}]}",
         "assistant: f({\"x\": 1}); tool: 'r'; tool: 's'; assistant: 'a' 'b'; user: 'c'; max=0"},
        /* thoughts come from content, else summary, else base64; other servers' encrypted ones are
         * ignored */
        {"{\"input\": [" THOUGHT("[" PART("s") "]",
                                 "\"content\": [" PART("c") "," PART(
                                     "d") "]") ", " CALL("1", "f") ", " OUTPUT("1", "\"r\"") "]}",
         "assistant: (c\nd) f({\"x\": 1}); tool: 'r'; max=0"},
        {"{\"input\": [" THOUGHT("[" PART("s") "]",
                                 "\"encrypted_content\": null") ", " CALL("2", "g") "]}",
         "assistant: (s) g({\"x\": 1}); max=0"},
        {"{\"input\": [" THOUGHT("[]", "\"encrypted_content\": \"aGk=\"") ", " SAID("a") "]}",
         "assistant: (hi) 'a'; max=0"},
        {"{\"input\": [" THOUGHT("[]", "\"encrypted_content\": \"gAAAAA==\"") ", " SAID("a") "]}",
         "assistant: 'a'; max=0"},
        {"{\"input\": [" SAID("a") ", {\"role\": \"user\", \"content\": \"d\"}, " THOUGHT(
             "[" PART("s") "]", "\"id\": \"rs_1\"") "]}",
         "assistant: 'a'; user: 'd'; max=0"},
        /* the route replaces the id with the messages */
        {"{\"previous_response_id\": [{\"role\": \"user\", \"content\": \"a\"}], \"input\": \"b\"}",
         "user: 'a'; user: 'b'; max=0"},
        /* Codex: its own tools and items */
        {"{\"input\": [{\"type\": \"web_search_call\"}, {\"type\": \"local_shell_call_output\", "
         "\"output\": \"o\"}], \"tools\": [{\"type\": \"web_search\"}, " TOOL("f") "]}",
         "tool: 'o'; {\"type\": \"function\", \"function\": {\"name\": \"f\"}}; max=0 "
         "note=tools[0] "
         "(web_search) was ignored: this server cannot run it; input[0] (web_search_call) was "
         "ignored"},
        {"{\"input\": \"a\", \"tools\": [" TOOL("f") ", " TOOL(
             "g") "], \"tool_choice\": {\"type\": \"allowed_tools\", \"mode\": \"auto\", "
                  "\"tools\": [" TOOL("g") "]}}",
         "user: 'a'; {\"type\": \"function\", \"function\": {\"name\": \"g\"}}; max=0"},
        {"{\"input\": \"a\", \"tools\": [" TOOL("f") "], \"tool_choice\": " TOOL("f") "}",
         "user: 'a'; {\"type\": \"function\", \"function\": {\"name\": \"f\"}}; max=0 grammar"},
        {"{\"input\": \"a\", \"text\": {\"format\": {\"type\": \"json_object\"}}, \"include\": "
         "[\"message.output_text.logprobs\"], \"top_logprobs\": 3}",
         "user: 'a'; max=0 grammar logprobs=3"},
        {"{\"input\": \"a\", \"top_logprobs\": 3, \"conversation\": null, \"background\": false}",
         "user: 'a'; max=0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_request r;
        struct api_error error = {0};
        struct buf got = buf_with_max(1 << 16);
        if (!parse_responses(&r, cases[i].body, &error))
            fail_msg("%s\n  refused: %s", cases[i].body, error.message);
        describe_items(&got, &r);
        if (strcmp(got.data, cases[i].wanted) != 0)
            fail_msg("%s\n  gives  %s\n  wanted %s", cases[i].body, got.data, cases[i].wanted);
        buf_free(&got);
        api_request_free(&r);
    }
}

static void details_of_images(void **state)
{
    static const struct {
        const char *word;
        ey_detail detail;
    } cases[] = {{"low", EY_DETAIL_LOW},
                 {"auto", EY_DETAIL_AUTO},
                 {"high", EY_DETAIL_HIGH},
                 {"original", EY_DETAIL_NATIVE}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_request r;
        struct api_error error = {0};
        char body[512];
        snprintf(body, sizeof(body),
                 "{\"input\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_image\", "
                 "\"image_url\": \"data:image/png;base64,iVBORw0KGgo=\", \"detail\": \"%s\"}]}]}",
                 cases[i].word);
        if (!parse_responses(&r, body, &error)) fail_msg("%s: %s", body, error.message);
        assert_int_equal(r.request.messages[0].parts[0].detail, cases[i].detail);
        api_request_free(&r);
    }
}

static void refused_items(void **state)
{
    static const struct {
        const char *body, *param;
    } cases[] = {
        {"{}", "input"},
        {"{\"input\": []}", "input"},
        {"{\"input\": 1}", "input"},
        {"{\"input\": [1]}", "input[0]"},
        {"{\"input\": [{\"type\": \"poem\"}]}", "input[0].type"},
        {"{\"input\": [{\"type\": \"reasoning\", \"summary\": [{\"text\": 1}]}]}",
         "input[0].summary[0].text"},
        {"{\"input\": [{\"type\": \"item_reference\", \"id\": \"msg_1\"}]}", "input[0]"},
        {"{\"input\": [{\"role\": \"human\", \"content\": \"a\"}]}", "input[0].role"},
        {"{\"input\": [{\"role\": \"user\"}]}", "input[0].content"},
        {"{\"input\": [{\"role\": \"assistant\", \"content\": [" PICTURE "]}]}",
         "input[0].content[0]"},
        {"{\"input\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_file\"}]}]}",
         "input[0].content[0].file_data"},
        {"{\"input\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_file\", "
         "\"file_id\": \"f\"}]}]}",
         "input[0].content[0]"},
        {"{\"input\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_image\"}]}]}",
         "input[0].content[0].image_url"},
        {"{\"input\": [{\"type\": \"function_call\"}]}", "input[0].name"},
        {"{\"input\": \"a\", \"background\": true}", "background"},
        {"{\"input\": \"a\", \"conversation\": \"c\"}", "conversation"},
        {"{\"input\": \"a\", \"prompt\": {\"id\": \"p\"}}", "prompt"},
        {"{\"input\": \"a\", \"truncation\": \"no\"}", "truncation"},
        {"{\"input\": \"a\", \"metadata\": {\"a\": 1}}", "metadata.a"},
        {"{\"input\": \"a\", \"store\": 1}", "store"},
        {"{\"input\": \"a\", \"reasoning\": {\"effort\": \"huge\"}}", "reasoning.effort"},
        {"{\"input\": \"a\", \"tool_choice\": \"required\"}", "tool_choice"},
        {"{\"input\": \"a\", \"tools\": [{\"type\": \"web_search\"}], \"tool_choice\": "
         "\"required\"}",
         "tool_choice"},
        {"{\"input\": \"a\", \"tools\": [" TOOL("f") "], \"tool_choice\": " TOOL("g") "}",
         "tool_choice.name"},
        {"{\"input\": \"a\", \"tools\": [{\"type\": \"function\"}]}", "tools[0].name"},
        {"{\"input\": \"a\", \"text\": {\"format\": {\"type\": \"json_schema\"}}}",
         "text.format.schema"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_request r;
        struct api_error error = {0};
        if (parse_responses(&r, cases[i].body, &error)) fail_msg("%s was accepted", cases[i].body);
        assert_int_equal(error.status, 400);
        if (strcmp(error.param, cases[i].param) != 0)
            fail_msg("%s\n  the error names %s", cases[i].body, error.param);
        api_request_free(&r);
    }
}

/* ---- answers ---- */

static const unsigned char nobody[RESPONSES_OWNER_BYTES];
static const struct api_usage usage = {
    .prompt_tokens = 10, .cached_tokens = 4, .completion_tokens = 3};

struct answer {
    struct api_request request;
    struct responses_state state;
    struct api_reply reply;
};

static void open_answer(struct answer *a, const char *body, struct responses_store *store)
{
    struct api_error error = {0};
    *a = (struct answer){0};
    if (!parse_responses(&a->request, body, &error)) fail_msg("%s: %s", body, error.message);
    api_request_drop_prompts(&a->request);
    a->state.store = store;
    a->reply = (struct api_reply){
        .id = "resp_1", .request = &a->request, .model = "m", .created = 5, .state = &a->state};
}

static void close_answer(struct answer *a)
{
    responses_close_state(&a->state);
    api_request_free(&a->request);
}

static json_object *parsed(const char *text)
{
    ey_err e;
    json_object *json = json_parse(text, strlen(text), "the answer", EY_BAD_REQUEST, &e);
    if (!json) fail_msg("%s: %s", text, e.text);
    return json;
}

/* Collects the names of a stream's events and returns the final response; checks sequence numbers
 * and types. */
static json_object *read_stream(struct buf *out, struct buf *names)
{
    json_object *last = NULL;
    int64_t sequence = 0;
    for (char *rest = out->data, *line; (line = strsep(&rest, "\n")) && rest;) {
        char name[64];
        if (sscanf(line, "event: %63s", name) != 1) continue;
        line = strsep(&rest, "\n");
        assert_memory_equal(line, "data: ", 6);
        json_object_put(last);
        last = parsed(line + 6);
        assert_string_equal(json_object_get_string(json_member(last, "type")), name);
        assert_int_equal(json_object_get_int64(json_member(last, "sequence_number")), sequence++);
        assert_string_equal(strsep(&rest, "\n"), "");
        buf_printf(names, "%s\n", name + strlen("response."));
    }
    return last;
}

static const struct api_tool_call call = {
    .id = "call_1", .name = "f", .arguments = "{\"x\": 1}", .n_arguments = 8};

static void events_of_a_stream(void **state)
{
    static const struct api_end end = {.finish = EY_FINISH_STOP, .called = true};
    static const struct api_event events[] = {
        {.type = API_EVENT_OPEN},
        {.type = API_EVENT_SILENCE, .text = "waiting", .n_text = 7},
        {.type = API_EVENT_START},
        {.type = API_EVENT_THINKING, .text = "a", .n_text = 1},
        {.type = API_EVENT_TEXT, .text = "A", .n_text = 1},
        {.type = API_EVENT_TEXT, .text = "b", .n_text = 1},
        {.type = API_EVENT_CALL, .call = &call},
        {.type = API_EVENT_TEXT, .text = "\n", .n_text = 1},
        {.type = API_EVENT_END, .end = &end},
        {.type = API_EVENT_FINISH, .usage = &usage}};
    struct answer a;
    struct buf out = buf_with_max(1 << 16), names = buf_with_max(1 << 12);
    (void)state;
    open_answer(&a,
                "{\"model\": \"x\", \"input\": \"hi\", \"include\": "
                "[\"reasoning.encrypted_content\"]}",
                NULL);
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        responses_write_event(&out, &a.reply, &events[i]);
    assert_non_null(strstr(out.data, "\n\n: waiting\n\n"));
    json_object *last = read_stream(&out, &names), *response = json_member(last, "response"),
                *output = json_member(response, "output");
    assert_string_equal(names.data, "created\nin_progress\n"
                                    "output_item.added\nreasoning_summary_part.added\n"
                                    "reasoning_summary_text.delta\nreasoning_summary_text.done\n"
                                    "reasoning_summary_part.done\noutput_item.done\n"
                                    "output_item.added\ncontent_part.added\noutput_text.delta\n"
                                    "output_text.delta\noutput_text.done\ncontent_part.done\n"
                                    "output_item.done\n"
                                    "output_item.added\nfunction_call_arguments.delta\n"
                                    "function_call_arguments.done\noutput_item.done\ncompleted\n");
    assert_int_equal(json_object_array_length(output), 3);
    json_object *thought = json_object_array_get_idx(output, 0);
    assert_string_equal(json_object_get_string(json_member(thought, "encrypted_content")),
                        "YQ=="); /* base64 of "a" */
    assert_string_equal(
        json_object_to_json_string_ext(json_member(json_object_array_get_idx(output, 1), "content"),
                                       JSON_C_TO_STRING_PLAIN),
        "[{\"type\":\"output_text\",\"text\":\"Ab\",\"annotations\":[],\"logprobs\":[]}]");
    assert_string_equal(
        json_object_get_string(json_member(json_object_array_get_idx(output, 2), "arguments")),
        "{\"x\": 1}");
    assert_string_equal(json_object_get_string(json_member(response, "model")), "x");
    json_object_put(last);
    buf_free(&out);
    buf_free(&names);
    close_answer(&a);
}

static void a_stream_that_fails(void **state)
{
    static const struct api_error error = {.status = 503, .message = "ends"};
    struct answer a;
    struct buf out = buf_with_max(1 << 16), names = buf_with_max(1 << 12);
    (void)state;
    open_answer(&a, "{\"input\": \"hi\"}", NULL);
    responses_write_event(&out, &a.reply, &(struct api_event){.type = API_EVENT_OPEN});
    responses_write_event(&out, &a.reply,
                          &(struct api_event){.type = API_EVENT_ERROR, .error = &error});
    json_object *last = read_stream(&out, &names), *response = json_member(last, "response");
    assert_string_equal(names.data, "created\nin_progress\nfailed\n");
    assert_null(json_member(last, "error"));
    assert_string_equal(
        json_object_to_json_string_ext(json_member(response, "error"), JSON_C_TO_STRING_PLAIN),
        "{\"code\":\"server_is_overloaded\",\"message\":\"ends\"}");
    json_object_put(last);
    buf_free(&out);
    buf_free(&names);
    close_answer(&a);
}

/* All members that clients require are present. */
static void a_whole_answer(void **state)
{
    static const char *const members[] = {"id",
                                          "object",
                                          "created_at",
                                          "status",
                                          "background",
                                          "metadata",
                                          "max_output_tokens",
                                          "model",
                                          "output",
                                          "tools",
                                          "parallel_tool_calls",
                                          "reasoning",
                                          "store",
                                          "service_tier",
                                          "temperature",
                                          "text",
                                          "tool_choice",
                                          "top_logprobs",
                                          "top_p",
                                          "truncation",
                                          "usage",
                                          "instructions",
                                          "incomplete_details"};
    static const struct api_choice choice = {.end = {.finish = EY_FINISH_LENGTH}};
    struct answer a;
    struct buf out = buf_with_max(1 << 16);
    struct responses_store *store;
    struct stored_response kept;
    ey_err e;
    (void)state;
    assert_true(responses_store_open(&store, 1 << 20, &e));
    open_answer(&a,
                "{\"input\": \"hi\", \"instructions\": \"S\", \"max_output_tokens\": 3, "
                "\"metadata\": {\"a\": \"b\"}}",
                store);
    responses_write_whole(&out, &a.reply, &choice, 1, &usage);
    json_object *whole = parsed(out.data);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        if (!json_member(whole, members[i])) fail_msg("%s is missing", members[i]);
    assert_string_equal(json_object_get_string(json_member(whole, "status")), "incomplete");
    json_object *item = json_object_array_get_idx(json_member(whole, "output"), 0);
    assert_string_equal(json_object_get_string(json_member(item, "status")), "incomplete");
    assert_true(responses_store_get(store, nobody, "resp_1", seconds_now(), &kept));
    assert_string_equal(kept.response, out.data);
    json_object *input = parsed(kept.input), *asked = json_object_array_get_idx(input, 0);
    assert_string_equal(
        json_object_to_json_string_ext(json_member(asked, "content"), JSON_C_TO_STRING_PLAIN),
        "[{\"type\":\"input_text\",\"text\":\"hi\"}]");
    json_object_put(input);
    json_object_put(whole);
    buf_free(&out);
    close_answer(&a);
    responses_store_free(&kept);
    responses_store_close(&store);
}

static void codes_of_errors(void **state)
{
    static const struct {
        struct api_error error;
        int status;
        const char *wanted;
    } cases[] = {
        {{.status = 400, .param = "x", .message = "1 validation error: m"},
         400,
         "{\"error\":{\"message\":\"m\",\"type\":\"invalid_request_error\",\"param\":\"x\","
         "\"code\":null}}"},
        {{.status = 404, .code = API_ERROR_MODEL, .message = "m"},
         404,
         "{\"error\":{\"message\":\"m\",\"type\":\"invalid_request_error\",\"param\":null,"
         "\"code\":\"model_not_found\"}}"},
        {{.status = 422, .code = API_ERROR_IMAGE_FETCH, .message = "m"},
         400,
         "{\"error\":{\"message\":\"m\",\"type\":\"invalid_request_error\",\"param\":null,"
         "\"code\":\"failed_to_download_image\"}}"},
        {{.status = 503, .message = "m"},
         503,
         "{\"error\":{\"message\":\"m\",\"type\":\"server_error\",\"param\":null,\"code\":"
         "\"server_is_overloaded\"}}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf out = buf_with_max(4096);
        assert_int_equal(write_responses_error(&out, &cases[i].error), cases[i].status);
        assert_string_equal(out.data, cases[i].wanted);
        buf_free(&out);
    }
}

/* ---- the store ---- */

static bool put(struct responses_store *store, const unsigned char *owner, int number, size_t n,
                double now)
{
    struct stored_response r = {.input = (char *)(uintptr_t) "[]", .response = calloc(1, n + 1)};
    snprintf(r.id, sizeof(r.id), "resp_%d", number);
    memset(r.response, 'x', n);
    snprintf(r.response, n, "{\"output\":[{\"id\":\"msg_%d\"", number);
    r.response[strlen(r.response)] = ' ';
    bool ok = responses_store_put(store, owner, &r, now);
    free(r.response);
    return ok;
}

static bool has(struct responses_store *store, const unsigned char *owner, int number, double now)
{
    struct stored_response r;
    char id[32];
    snprintf(id, sizeof(id), "resp_%d", number);
    bool ok = responses_store_get(store, owner, id, now, &r);
    if (ok) responses_store_free(&r);
    return ok;
}

static void limits_of_the_store(void **state)
{
    const unsigned char other[RESPONSES_OWNER_BYTES] = {1};
    struct responses_store *store;
    struct stored_link r;
    ey_err e;
    (void)state;
    assert_true(responses_store_open(&store, 4 << 20, &e));
    for (int i = 0; i < RESPONSES_STORE_COUNT + 1; i++)
        assert_true(put(store, nobody, i, 64, 10));
    assert_false(has(store, nobody, 0, 11)); /* one more than 512 */
    assert_true(has(store, nobody, 1, 11));
    assert_false(has(store, other, 1, 11)); /* another key */
    assert_true(put(store, nobody, 9000, 64, 12));
    assert_true(has(store, nobody, 1, 12)); /* used more recently than 2 */
    assert_false(has(store, nobody, 2, 12));
    assert_false(put(store, nobody, 9001, 4 << 20, 12));   /* too large by itself */
    assert_true(put(store, nobody, 9002, 3900 << 10, 12)); /* evicts others */
    assert_false(has(store, nobody, 3, 12));
    assert_true(responses_store_find_item(store, nobody, "msg_9002", 12, &r));
    assert_string_equal(r.id, "resp_9002");
    assert_false(responses_store_find_item(store, nobody, "msg_900", 12, &r));
    assert_false(responses_store_find_item(store, other, "msg_9002", 12, &r));
    assert_false(responses_store_find_item(store, nobody, "msg_900\"", 12, &r));
    assert_true(has(store, nobody, 9002, 12 + RESPONSES_STORE_SECONDS));
    assert_false(has(store, nobody, 9002, 13 + 2 * RESPONSES_STORE_SECONDS)); /* an hour later */
    assert_true(put(store, nobody, 1, 64, 1e5));
    assert_false(responses_store_delete(store, other, "resp_1", 1e5));
    assert_true(responses_store_delete(store, nobody, "resp_1", 1e5));
    assert_false(responses_store_delete(store, nobody, "resp_1", 1e5));
    responses_store_close(&store);
    assert_true(responses_store_open(&store, 0, &e));
    assert_false(put(store, nobody, 1, 64, 0));
    responses_store_close(&store);
}

/* The store is full of 32 KiB responses, and a request has the maximum number of references, each
 * to the least recently used response. */
static void references_are_found_fast(void **state)
{
    enum { ENTRIES = 400, REFERENCES = 32768 };
    struct responses_store *store;
    struct stored_link r;
    struct timespec from, to;
    ey_err e;
    (void)state;
    assert_true(responses_store_open(&store, 16 << 20, &e));
    for (int i = 0; i < ENTRIES; i++)
        assert_true(put(store, nobody, i, 32 << 10, 0));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    for (int i = 0; i < REFERENCES; i++) {
        char id[32];
        snprintf(id, sizeof(id), "msg_%d", i % ENTRIES);
        assert_true(responses_store_find_item(store, nobody, id, 0, &r));
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    double seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
    print_message("%d references: %.3f s\n", REFERENCES, seconds);
    assert_true(seconds < 10);
    responses_store_close(&store);
}

/* Clients that write absent members as null must find the ids that replace them. */
static void kept_items_have_ids(void **state)
{
    struct answer a;
    (void)state;
    open_answer(
        &a,
        "{\"input\": [{\"role\": \"user\", \"content\": \"hi\", \"id\": null, \"type\": null}]}",
        NULL);
    const struct responses_request *own = a.request.own;
    json_object *input = parsed(own->input), *item = json_object_array_get_idx(input, 0);
    assert_true(json_object_is_type(json_member(item, "id"), json_type_string));
    assert_string_equal(json_object_get_string(json_member(item, "type")), "message");
    json_object_put(input);
    close_answer(&a);
}

/* A response repeats tools and instructions, but only its output items can be referenced. */
static void only_output_items_are_referred_to(void **state)
{
    struct responses_store *store;
    struct stored_link link;
    ey_err e;
    (void)state;
    struct stored_response r = {
        .id = "resp_1",
        .input = (char *)(uintptr_t) "[{\"id\":\"msg_0\"}]",
        .response =
            (char *)(uintptr_t) "{\"id\":\"resp_1\",\"output\":[{\"id\":\"rs_1\"},"
                                "{\"id\":\"msg_1\",\"text\":\"{\\\"id\\\":\\\"msg_2\\\"\"}],"
                                "\"previous_response_id\":null,\"tools\":[{\"id\":\"msg_3\"}]}"};
    assert_true(responses_store_open(&store, 1 << 20, &e));
    assert_true(responses_store_put(store, nobody, &r, 0));
    assert_true(responses_store_find_item(store, nobody, "rs_1", 0, &link));
    assert_true(responses_store_find_item(store, nobody, "msg_1", 0, &link));
    static const char *const others[] = {"msg_0", "msg_2", "msg_3", "resp_1", "msg_", ""};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(responses_store_find_item(store, nobody, others[i], 0, &link));
    responses_store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(items_become_messages),
                                       cmocka_unit_test(refused_items),
                                       cmocka_unit_test(details_of_images),
                                       cmocka_unit_test(events_of_a_stream),
                                       cmocka_unit_test(a_stream_that_fails),
                                       cmocka_unit_test(a_whole_answer),
                                       cmocka_unit_test(codes_of_errors),
                                       cmocka_unit_test(limits_of_the_store),
                                       cmocka_unit_test(references_are_found_fast),
                                       cmocka_unit_test(kept_items_have_ids),
                                       cmocka_unit_test(only_output_items_are_referred_to)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
