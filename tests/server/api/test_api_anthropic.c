/* SPDX-License-Identifier: Apache-2.0 */
/* Anthropic's API: requests of real clients and how they are parsed; answers, byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "describe_messages.h"
#include "models/chat/hermes.h"
#include "server/api/anthropic/anthropic_dialect.h"

#define ASK(messages) "{\"model\": \"m\", \"max_tokens\": 9, \"messages\": [" messages "]}"
#define MORE(more) \
    "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], " more "}"
#define USER(content) "{\"role\": \"user\", \"content\": " content "}"
#define ASSISTANT(content) "{\"role\": \"assistant\", \"content\": " content "}"
#define TEXT(text) "{\"type\": \"text\", \"text\": \"" text "\"}"
#define PICTURE                                                                                \
    "{\"type\": \"image\", \"source\": {\"type\": \"base64\", \"media_type\": \"image/png\", " \
    "\"data\": \"iVBORw0KGgo=\"}}"
#define TOOL(name) "{\"name\": \"" name "\", \"input_schema\": {\"type\": \"object\"}}"

static struct api_limits anthropic_limits(void)
{
    static const struct media_policy media = {0};
    struct api_limits l = {.max_images = 3,
                           .vocab_size = 1000,
                           .max_model_len = 2048,
                           .media = &media,
                           .tool_format = &hermes_tool_calls};
    l.defaults.top_logprobs = -1;
    l.defaults.sampling = (ey_sampling){.temperature = 0.5f, .top_p = 1, .repetition_penalty = 1};
    return l;
}

static bool parse_anthropic(struct api_request *out, const char *body, struct api_error *error)
{
    struct api_limits l = anthropic_limits();
    return api_parse(out, &anthropic_dialects[ANTHROPIC_MESSAGES], body, strlen(body), &l, error);
}

static void describe_conversation(struct buf *out, const struct api_request *r)
{
    const ey_request *q = &r->request;
    describe_messages(out, q);
    for (size_t i = 0; i < q->n_tools; i++)
        buf_printf(out, "%s; ", q->tools[i]);
    buf_printf(out, "max=%d", q->max_tokens);
    if (r->stream) buf_add_text(out, " stream");
    if (q->grammar) buf_add_text(out, " grammar");
    if (q->continue_answer) buf_add_text(out, " continues");
    if (r->single_call) buf_add_text(out, " single");
    for (size_t i = 0; i < q->n_stop; i++)
        buf_printf(out, " stop='%s'", q->stop[i]);
    if (r->unknown.size) buf_printf(out, " unknown=%s", r->unknown.data);
    if (r->notes.size) buf_printf(out, " note=%s", r->notes.data);
}

static void conversations(void **state)
{
    static const struct {
        const char *body, *wanted;
    } cases[] = {
        {ASK(USER("\"hi\"")), "user: 'hi'; max=9"},
        {ASK(USER("[" TEXT("a") ", " TEXT("b") "]")), "user: 'a' 'b'; max=9"},
        {ASK(USER("\"a\"") ", " USER("\"b\"")), "user: 'a' '\n\n' 'b'; max=9"},
        {ASK(USER("[" PICTURE ", " TEXT("What?") "]")), "user: image(8) 'What?'; max=9"},
        {ASK(USER("[{\"type\": \"search_result\", \"title\": \"T\", \"content\": [" TEXT(
             "a") "], "
                  "\"citations\": {\"enabled\": true}}]")),
         "user: 'T' '\n' 'a'; max=9 note=messages[0].content[0].citations was ignored: answers "
         "have "
         "no citations"},
        /* continues an answer, without trailing white space */
        {ASK(USER("\"a\"") ", " ASSISTANT("\" The \\n\"")),
         "user: 'a'; assistant: ' The'; max=9 continues"},
        {ASK(USER("\"a\"") ", " ASSISTANT("[" TEXT("The") ", " TEXT(" ") "]")),
         "user: 'a'; assistant: 'The' ''; max=9 continues"},
        /* Claude Code: a system text among the messages, and a first one that must not defeat the
         * prefix cache */
        {"{\"model\": \"m\", \"system\": [" TEXT("x-anthropic-billing-header: 1") ", " TEXT(
             "S") "], \"messages\": [" USER("\"a\"") ", {\"role\": \"system\", \"content\": "
                                                     "\"T\"}]}",
         "system: 'S' '\n\n' 'T'; user: 'a'; max=4096"},
        /* a call, its result with an image, and further text of the user */
        {ASK(USER("\"a\"") ", " ASSISTANT(
             "[{\"type\": \"thinking\", \"thinking\": \"t\", \"signature\": \"s\"}, " TEXT(
                 "b") ", {\"type\": \"tool_use\", \"id\": \"1\", \"name\": \"f\", \"input\": "
                      "{\"x\": 1}}]") ", " USER("[" TEXT("c") ", {\"type\": \"tool_result\", "
                                                              "\"tool_use_id\": \"1\", "
                                                              "\"content\": [" TEXT(
                                                                  "r") ", " PICTURE "]}]")),
         "user: 'a'; assistant: (t) 'b' f({\"x\": 1}); tool: 'r' image(8); user: 'c'; max=9"},
        {ASK(USER("[{\"type\": \"tool_result\", \"tool_use_id\": \"1\", \"is_error\": true}]")),
         "tool: 'Error'; max=9"},
        {ASK(USER("[{\"type\": \"document\", \"title\": \"T\", \"source\": {\"type\": \"text\", "
                  "\"data\": \"d\"}}, {\"type\": \"search_result\", \"title\": \"U\", \"content\": "
                  "[" TEXT("e") "]}]")),
         "user: 'T' '\n' 'd' 'U' '\n' 'e'; max=9"},
        {ASK(USER("[{\"type\": \"web_search_tool_result\"}, " TEXT("a") "]")),
         "user: 'a'; max=9 note=messages[0].content[0] (web_search_tool_result) was ignored"},
        {MORE("\"tools\": [" TOOL(
             "f") ", {\"type\": \"bash_20250124\", \"name\": \"bash\"}], "
                  "\"tool_choice\": {\"type\": \"any\", \"disable_parallel_tool_use\": true}"),
         "user: 'hi'; {\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": "
         "{\"type\": \"object\"}}}; max=4096 grammar single note=tools[1] (bash_20250124) was "
         "ignored: "
         "this server cannot run it"},
        {MORE("\"tools\": [" TOOL("f") "], \"tool_choice\": {\"type\": \"none\"}"),
         "user: 'hi'; max=4096"},
        {MORE("\"tools\": [" TOOL("f") "], \"tool_choice\": {\"type\": \"tool\", \"name\": "
                                       "\"f\"}"),
         "user: 'hi'; {\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": "
         "{\"type\": \"object\"}}}; max=4096 grammar"},
        {MORE("\"stop_sequences\": [\"x\"], \"stream\": true, \"thinking\": {\"type\": "
              "\"enabled\", \"budget_tokens\": 1024}, \"metadata\": {\"user_id\": \"u\"}, "
              "\"new\": 1"),
         "user: 'hi'; max=4096 stream stop='x' unknown=new"},
        {MORE("\"output_config\": {\"effort\": \"low\", \"format\": {\"type\": \"json_schema\", "
              "\"schema\": {\"type\": \"integer\"}}}"),
         "user: 'hi'; max=4096 grammar"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_request r;
        struct api_error error = {0};
        struct buf got = buf_with_max(1 << 16);
        if (!parse_anthropic(&r, cases[i].body, &error))
            fail_msg("%s\n  refused: %s", cases[i].body, error.message);
        describe_conversation(&got, &r);
        if (strcmp(got.data, cases[i].wanted) != 0)
            fail_msg("%s\n  gives  %s\n  wanted %s", cases[i].body, got.data, cases[i].wanted);
        buf_free(&got);
        api_request_free(&r);
    }
}

/* Each becomes three parts: the title, a line break and the content. */
static void many_search_results(void **state)
{
    enum { N = 40 };
    static const char result[] =
        "{\"type\": \"search_result\", \"title\": \"T\", \"content\": \"a\"}, ";
    struct buf body = buf_with_max(1 << 16);
    struct api_request r;
    struct api_error error = {0};
    (void)state;
    buf_add_text(&body, "{\"model\": \"m\", \"max_tokens\": 9, \"messages\": [{\"role\": "
                        "\"user\", \"content\": [");
    for (int i = 0; i < N; i++)
        buf_add_text(&body, result);
    buf_add_text(&body, TEXT("b") "]}]}");
    if (!parse_anthropic(&r, body.data, &error)) fail_msg("%s", error.message);
    assert_int_equal(r.request.messages->n_parts, 3 * N + 1);
    buf_free(&body);
    api_request_free(&r);
}

static void refused_conversations(void **state)
{
    static const struct {
        const char *body, *param;
    } cases[] = {
        {"{\"messages\": [" USER("\"a\"") "]}", "model"},
        {"{\"model\": \"m\"}", "messages"},
        {ASK(""), "messages"},
        {ASK("1"), "messages[0]"},
        {ASK("{\"role\": \"system\", \"content\": \"a\"}"), "messages"},
        {ASK("{\"role\": \"tool\", \"content\": \"a\"}"), "messages[0].role"},
        {ASK(USER("null")), "messages[0].content"},
        {ASK(USER("[" TEXT("a") ", {\"type\": \"video\"}]")), "messages[0].content[1].type"},
        {ASK(ASSISTANT("[" PICTURE "]")), "messages[0].content[0].type"},
        {ASK(USER("[{\"type\": \"image\", \"source\": {\"type\": \"file\", \"file_id\": "
                  "\"f\"}}]")),
         "messages[0].content[0].source"},
        {ASK(USER("[{\"type\": \"document\", \"source\": {\"type\": \"base64\"}}]")),
         "messages[0].content[0].source.type"},
        {ASK(USER("[" PICTURE ", " PICTURE ", " PICTURE ", " PICTURE "]")),
         "messages[0].content[3].source.data"},
        {"{\"model\": \"m\", \"messages\": [" USER("\"a\"") ", " ASSISTANT(
             "\"The\"") "], \"output_config\": {\"format\": {\"type\": \"json_schema\", "
                        "\"schema\": {}}}}",
         "messages[1]"},
        {MORE("\"max_tokens\": 0"), "max_tokens"},
        {MORE("\"mcp_servers\": [{}]"), "mcp_servers"},
        {MORE("\"thinking\": {\"type\": \"yes\"}"), "thinking.type"},
        {MORE("\"thinking\": {\"type\": \"adaptive\", \"display\": \"no\"}"), "thinking.display"},
        {MORE("\"output_config\": {\"effort\": \"none\"}"), "output_config.effort"},
        {MORE("\"chat_template_kwargs\": {\"enable_thinking\": \"no\"}"),
         "chat_template_kwargs.enable_thinking"},
        {ASK(USER("\"a\"") ", " ASSISTANT("[{\"type\": \"thinking\"}]")),
         "messages[1].content[0].thinking"},
        {MORE("\"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 0}"),
         "thinking.budget_tokens"},
        {MORE("\"tool_choice\": {\"type\": \"any\"}"), "tool_choice"},
        {MORE("\"tools\": [" TOOL("f") "], \"tool_choice\": {\"type\": \"tool\", \"name\": "
                                       "\"g\"}"),
         "tool_choice.name"},
        {MORE("\"tools\": [{}]"), "tools[0].name"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_request r;
        struct api_error error = {0};
        if (parse_anthropic(&r, cases[i].body, &error)) fail_msg("%s was accepted", cases[i].body);
        assert_int_equal(error.status, 400);
        if (strcmp(error.param, cases[i].param) != 0)
            fail_msg("%s\n  the error names %s", cases[i].body, error.param);
        api_request_free(&r);
    }
}

/* ---- thoughts ---- */

static void asked_thoughts(void **state)
{
    static const struct {
        const char *more;
        bool able;
        ey_thinking wanted;
        int budget;
    } cases[] = {
        {"\"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 1024}", true, EY_THINKING_ON,
         1024},
        {"\"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 1024}", false, EY_THINKING_AUTO,
         0},
        {"\"thinking\": {\"type\": \"adaptive\", \"display\": \"omitted\"}", true, EY_THINKING_ON,
         EY_KEEP_ANSWER},
        {"\"thinking\": {\"type\": \"between_tools\"}", true, EY_THINKING_ON, EY_KEEP_ANSWER},
        {"\"thinking\": {\"type\": \"disabled\"}", true, EY_THINKING_OFF, EY_KEEP_ANSWER},
        {"\"output_config\": {\"effort\": \"low\"}", true, EY_THINKING_ON, EY_KEEP_ANSWER},
        {"\"chat_template_kwargs\": {\"enable_thinking\": false}", true, EY_THINKING_OFF,
         EY_KEEP_ANSWER},
        {"\"metadata\": {}", true, EY_THINKING_AUTO, EY_KEEP_ANSWER},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_limits l = anthropic_limits();
        struct api_request r;
        struct api_error error = {0};
        char body[512];
        l.thinks = cases[i].able;
        snprintf(body, sizeof(body),
                 "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], "
                 "%s}",
                 cases[i].more);
        if (!api_parse(&r, &anthropic_dialects[ANTHROPIC_MESSAGES], body, strlen(body), &l, &error))
            fail_msg("%s: %s", body, error.message);
        if (r.request.thinking != cases[i].wanted || r.request.thinking_budget != cases[i].budget)
            fail_msg("%s: %d, budget %d", body, (int)r.request.thinking, r.request.thinking_budget);
        api_request_free(&r);
    }
}

/* ---- answers ---- */

static const struct api_usage usage = {
    .prompt_tokens = 10, .cached_tokens = 4, .completion_tokens = 3};

static void open_message(struct api_reply *reply, struct api_request *request,
                         struct anthropic_state *message)
{
    static struct anthropic_request tells_all;
    *request = (struct api_request){.model = "m", .own = &tells_all};
    request->request.max_tokens = 3;
    *message = (struct anthropic_state){0};
    *reply = (struct api_reply){
        .id = "msg_1", .request = request, .prompt_tokens = 10, .state = message};
}

static void whole_messages(void **state)
{
    static const struct api_tool_call call = {
        .id = "toolu_1", .name = "f", .arguments = "{\"x\": 1}", .n_arguments = 8};
    static const struct {
        struct api_choice choice;
        int most;
        const char *wanted;
    } cases[] = {
        {{.text = "A \"b\"", .n_text = 5, .end = {.finish = EY_FINISH_STOP}},
         3,
         "\"content\":[{\"type\":\"text\",\"text\":\"A \\\"b\\\"\"}],\"stop_reason\":\"end_turn\","
         "\"stop_sequence\":null"},
        {{.end = {.finish = EY_FINISH_STOP, .stop_text = "x"}},
         3,
         "\"content\":[],\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"x\""},
        {{.end = {.finish = EY_FINISH_LENGTH}},
         3,
         "\"content\":[],\"stop_reason\":\"max_tokens\",\"stop_sequence\":null"},
        {{.end = {.finish = EY_FINISH_LENGTH}},
         9,
         "\"content\":[],\"stop_reason\":\"model_context_window_exceeded\",\"stop_sequence\":null"},
        {{.end = {.finish = EY_FINISH_LENGTH, .repetition = {.copies = 4}}},
         9,
         "\"content\":[],\"stop_reason\":\"max_tokens\",\"stop_sequence\":null"},
        {{.calls = &call, .n_calls = 1, .end = {.finish = EY_FINISH_STOP, .called = true}},
         3,
         "\"content\":[{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"f\",\"input\":{\"x\": "
         "1}}],\"stop_reason\":\"tool_use\",\"stop_sequence\":null"},
        /* the signature is the first half of SHA-256 of "abc" (FIPS 180-4) */
        {{.thinking = "abc", .n_thinking = 3, .end = {.finish = EY_FINISH_STOP}},
         3,
         "\"content\":[{\"type\":\"thinking\",\"thinking\":\"abc\",\"signature\":"
         "\"ba7816bf8f01cfea414140de5dae2223\"}],\"stop_reason\":\"end_turn\",\"stop_sequence\":"
         "null"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_request request;
        struct anthropic_state message;
        struct api_reply reply;
        struct buf out = buf_with_max(4096), wanted = buf_with_max(4096);
        open_message(&reply, &request, &message);
        request.request.max_tokens = cases[i].most;
        anthropic_write_whole(&out, &reply, &cases[i].choice, 1, &usage);
        buf_printf(&wanted,
                   "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\","
                   "%s,\"stop_details\":null,\"container\":null,\"usage\":{\"input_tokens\":6,"
                   "\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":4,"
                   "\"cache_creation\":null,\"output_tokens\":3,\"output_tokens_details\":null,"
                   "\"server_tool_use\":null,\"service_tier\":\"standard\",\"inference_geo\":null}"
                   "}",
                   cases[i].wanted);
        assert_string_equal(out.data, wanted.data);
        buf_free(&out);
        buf_free(&wanted);
    }
}

static void omitted_thoughts(void **state)
{
    static const struct api_choice choice = {
        .thinking = "abc", .n_thinking = 3, .end = {.finish = EY_FINISH_STOP}};
    static const struct api_usage thought = {
        .prompt_tokens = 10, .completion_tokens = 5, .thinking_tokens = 4};
    static struct anthropic_request own = {.omits_thoughts = true};
    static const struct api_event events[] = {
        {.type = API_EVENT_THINKING, .text = "abc", .n_text = 3},
        {.type = API_EVENT_END, .end = &choice.end}};
    struct api_request request;
    struct anthropic_state message;
    struct api_reply reply;
    struct buf out = buf_with_max(4096), stream = buf_with_max(4096);
    (void)state;
    open_message(&reply, &request, &message);
    request.own = &own;
    anthropic_write_whole(&out, &reply, &choice, 1, &thought);
    assert_non_null(strstr(out.data, "[{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":"
                                     "\"ba7816bf8f01cfea414140de5dae2223\"}]"));
    assert_non_null(strstr(out.data, "\"output_tokens_details\":{\"thinking_tokens\":4}"));
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        anthropic_write_event(&stream, &reply, &events[i]);
    assert_null(strstr(stream.data, "thinking_delta"));
    assert_non_null(strstr(stream.data, "ba7816bf8f01cfea414140de5dae2223"));
    anthropic_close_state(&message);
    buf_free(&out);
    buf_free(&stream);
}

/* Compares the names of events and their data, without the members that all have. */
static void check_events(struct buf *out, const char *wanted)
{
    struct buf got = buf_with_max(1 << 16);
    for (char *rest = out->data, *line; (line = strsep(&rest, "\n")) && rest;) {
        char name[64];
        if (sscanf(line, "event: %63s", name) != 1) continue;
        line = strsep(&rest, "\n");
        assert_memory_equal(line, "data: {\"type\":\"", 15);
        assert_memory_equal(line + 15, name, strlen(name));
        const char *more = line + 16 + strlen(name);
        buf_printf(&got, "%s%s\n", name, *more == ',' ? more : "");
        line = strsep(&rest, "\n");
        assert_string_equal(line, "");
    }
    assert_string_equal(got.data, wanted);
    buf_free(&got);
    buf_free(out);
}

static void streamed_messages(void **state)
{
    static const struct api_tool_call call = {
        .id = "toolu_1", .name = "f", .arguments = "{\"x\": 1}", .n_arguments = 8};
    static const struct api_end end = {.finish = EY_FINISH_STOP, .called = true};
    static const struct api_event events[] = {
        {.type = API_EVENT_OPEN},
        {.type = API_EVENT_SILENCE, .text = "waiting", .n_text = 7},
        {.type = API_EVENT_START},
        {.type = API_EVENT_THINKING, .text = "a", .n_text = 1},
        {.type = API_EVENT_THINKING, .text = "bc", .n_text = 2},
        {.type = API_EVENT_TEXT, .text = "A", .n_text = 1},
        {.type = API_EVENT_TEXT, .text = "\n", .n_text = 1},
        {.type = API_EVENT_CALL, .call = &call},
        {.type = API_EVENT_TEXT, .text = "\n", .n_text = 1},
        {.type = API_EVENT_CALL, .call = &call, .call_index = 1},
        {.type = API_EVENT_END, .end = &end},
        {.type = API_EVENT_FINISH, .usage = &usage}};
    struct api_request request;
    struct anthropic_state message;
    struct api_reply reply;
    struct buf out = buf_with_max(1 << 16);
    (void)state;
    open_message(&reply, &request, &message);
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        anthropic_write_event(&out, &reply, &events[i]);
    anthropic_close_state(&message);
#define CALL_EVENTS(i)                                                                             \
    "content_block_start,\"index\":" i                                                             \
    ",\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"f\",\"input\":{}}}\n" \
    "content_block_delta,\"index\":" i                                                             \
    ",\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"x\\\": 1}\"}}\n"            \
    "content_block_stop,\"index\":" i "}\n"
    check_events(
        &out,
        "message_start,\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\","
        "\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,"
        "\"stop_details\":null,\"container\":null,\"usage\":{\"input_tokens\":10,"
        "\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\"cache_creation\":null,"
        "\"output_tokens\":0,\"output_tokens_details\":null,\"server_tool_use\":null,"
        "\"service_tier\":\"standard\",\"inference_geo\":null}}}\n"
        "ping\nping\n"
        "content_block_start,\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":"
        "\"\",\"signature\":\"\"}}\n"
        "content_block_delta,\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":"
        "\"a\"}}\n"
        "content_block_delta,\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":"
        "\"bc\"}}\n"
        "content_block_delta,\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":"
        "\"ba7816bf8f01cfea414140de5dae2223\"}}\n"
        "content_block_stop,\"index\":0}\n"
        "content_block_start,\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n"
        "content_block_delta,\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"A\"}}\n"
        "content_block_delta,\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"\\n\"}}\n"
        "content_block_stop,\"index\":1}\n" CALL_EVENTS("2") CALL_EVENTS(
            "3") "message_delta,\"delta\":{\"stop_reason\":\"tool_use\",\"stop_sequence\":null,"
                 "\"stop_details\":null,\"container\":null},\"usage\":{\"input_tokens\":6,"
                 "\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":4,\"output_"
                 "tokens\":3,"
                 "\"output_tokens_details\":null,\"server_tool_use\":null}}\n"
                 "message_stop\n");
}

/* Arguments are an object, as in answers that are not streamed, so that clients can parse them. */
static void streamed_arguments_are_an_object(void **state)
{
    static const struct api_tool_call call = {
        .id = "toolu_1", .name = "f", .arguments = "[1", .n_arguments = 2};
    static const struct api_event event = {.type = API_EVENT_CALL, .call = &call};
    struct api_request request;
    struct anthropic_state message;
    struct api_reply reply;
    struct buf out = buf_with_max(1 << 16);
    (void)state;
    open_message(&reply, &request, &message);
    anthropic_write_event(&out, &reply, &event);
    anthropic_close_state(&message);
    check_events(
        &out, "content_block_start,\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":"
              "\"toolu_1\",\"name\":\"f\",\"input\":{}}}\n"
              "content_block_delta,\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_"
              "json\":\"{\\\"input\\\":\\\"[1\\\"}\"}}\n"
              "content_block_stop,\"index\":0}\n");
}

static void errors_of_messages(void **state)
{
    static const struct {
        struct api_error error;
        int status;
        const char *wanted;
    } cases[] = {
        {{.status = 400, .message = "1 validation error: x"}, 400, "invalid_request_error/x"},
        {{.status = 401, .message = "x"}, 401, "authentication_error/x"},
        {{.status = 404, .message = "x"}, 404, "not_found_error/x"},
        {{.status = 413, .message = "x"}, 413, "request_too_large/x"},
        {{.status = 421, .message = "x"}, 421, "permission_error/x"},
        {{.status = 422, .message = "x"}, 400, "invalid_request_error/x"},
        {{.status = 500, .message = "x"}, 500, "api_error/x"},
        {{.status = 503, .message = "x"}, 529, "overloaded_error/x"},
        {{.status = 400,
          .code = API_ERROR_TOO_LONG,
          .message = "This model's maximum context length is 64 tokens. However, the prompt has 99 "
                     "tokens; the context of 64 leaves no room"},
         400,
         "invalid_request_error/prompt is too long: 99 tokens > 64 maximum"},
        {{.status = 400, .code = API_ERROR_TOO_LONG, .message = "9 images"},
         400,
         "invalid_request_error/prompt is too long: 9 images"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf out = buf_with_max(4096), wanted = buf_with_max(4096);
        const char *message = strchr(cases[i].wanted, '/');
        assert_int_equal(write_anthropic_error(&out, &cases[i].error), cases[i].status);
        buf_printf(&wanted, "{\"type\":\"error\",\"error\":{\"type\":\"%.*s\",\"message\":\"%s\"}}",
                   (int)(message - cases[i].wanted), cases[i].wanted, message + 1);
        assert_string_equal(out.data, wanted.data);
        buf_free(&out);
        buf_free(&wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversations),         cmocka_unit_test(many_search_results),
        cmocka_unit_test(refused_conversations), cmocka_unit_test(whole_messages),
        cmocka_unit_test(omitted_thoughts),      cmocka_unit_test(asked_thoughts),
        cmocka_unit_test(streamed_messages),     cmocka_unit_test(streamed_arguments_are_an_object),
        cmocka_unit_test(errors_of_messages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
