/* SPDX-License-Identifier: Apache-2.0 */
/* Ollama's API: requests of real clients and how they are parsed; answers, byte for byte except
 * times. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "describe_messages.h"
#include "base/json.h"
#include "models/chat/hermes.h"
#include "server/api/ollama/ollama_dialect.h"

#define HI "\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]"
#define PNG "iVBORw0KGgo="

static const struct media_policy media = {0};

static struct api_limits ollama_limits(void)
{
    struct api_limits l = {.max_images = 3,
                           .vocab_size = 1000,
                           .max_model_len = 2048,
                           .media = &media,
                           .strict = true, /* has no effect here */
                           .tool_format = &hermes_tool_calls};
    l.defaults.top_logprobs = -1;
    l.defaults.sampling = (ey_sampling){
        .temperature = 0.5f, .top_k = 20, .top_p = 0.75f, .repetition_penalty = 1};
    return l;
}

static bool parse_ollama(struct api_request *out, enum ollama_kind kind, const char *body,
                         const struct api_limits *l, struct api_error *error)
{
    size_t n = strlen(body);
    char *exact = malloc(n ? n : 1);
    memcpy(exact, body, n);
    bool ok = api_parse(out, &ollama_dialects[kind], exact, n, l, error);
    free(exact);
    return ok;
}

/* ---- requests ---- */

static void describe_request(struct buf *out, const struct api_request *r)
{
    const ey_request *q = &r->request;
    describe_messages(out, q);
    for (size_t i = 0; i < r->n_prompts; i++)
        buf_printf(out, "raw '%.*s'; ", (int)r->prompts[i].n_text, r->prompts[i].text);
    if (q->n_tools) buf_printf(out, "%zu tools; ", q->n_tools);
    buf_add_text(out, r->stream ? "stream" : "whole");
    if (q->grammar) buf_add_text(out, " grammar");
    if (q->continue_answer) buf_add_text(out, " continues");
    if (q->max_tokens) buf_printf(out, " max=%d", q->max_tokens);
    if (q->sampling.temperature != 0.5f) buf_printf(out, " t=%g", (double)q->sampling.temperature);
    if (q->sampling.top_k != 20) buf_printf(out, " k=%d", q->sampling.top_k);
    if (q->sampling.repetition_penalty != 1)
        buf_printf(out, " r=%g", (double)q->sampling.repetition_penalty);
    if (r->seed_given) buf_printf(out, " seed=%llu", (unsigned long long)q->sampling.seed);
    for (size_t i = 0; i < q->n_stop; i++)
        buf_printf(out, " stop='%s'", q->stop[i]);
    if (q->top_logprobs >= 0) buf_printf(out, " logprobs=%d", q->top_logprobs);
    if (r->unknown.size) buf_printf(out, " unknown=%s", r->unknown.data);
    if (r->notes.size) buf_printf(out, " note=%s", r->notes.data);
}

static void requests_of_clients(void **state)
{
    static const struct {
        enum ollama_kind kind;
        const char *body, *wanted;
    } cases[] = {
        {OLLAMA_CHAT, "{" HI "}", "user: 'hi'; stream"},
        {OLLAMA_CHAT, "{" HI ", \"stream\": false}", "user: 'hi'; whole"},
        /* Zed: no tools, nulls */
        {OLLAMA_CHAT,
         "{" HI ", \"tools\": [], \"think\": null, \"keep_alive\": -1, \"options\": {\"num_ctx\": "
         "null, \"num_predict\": null, \"stop\": null, \"temperature\": 1.0, \"top_p\": null}}",
         "user: 'hi'; stream t=1"},
        /* options of other versions and runners, one of them misspelled */
        {OLLAMA_CHAT,
         "{" HI ", \"options\": {\"num_gpu\": 1, \"num_thread\": 4, \"temprature\": 1}}",
         "user: 'hi'; stream unknown=options.temprature"},
        /* LLM Vision: all three also at the top level */
        {OLLAMA_CHAT,
         "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"What?\", "
         "\"images\": [\"" PNG "\"]}], \"system\": \"s\", \"prompt\": [\"p\"], \"images\": "
         "[\"" PNG "\"], \"stream\": false, \"keep_alive\": 5, \"options\": {\"num_predict\": "
         "100, \"temperature\": 0.2, \"num_ctx\": 2048.0}}",
         "user: image(8) 'What?'; whole max=100 t=0.2"},
        /* Home Assistant: a call and its result */
        {OLLAMA_CHAT,
         "{\"model\": \"m\", \"messages\": [{\"role\": \"System\", \"content\": \"S\"}, {\"role\": "
         "\"assistant\", \"content\": \"\", \"tool_calls\": [{\"function\": {\"index\": 0, "
         "\"name\": \"f\", \"arguments\": {\"a\": 1}}}]}, {\"role\": \"tool\", \"content\": "
         "\"ok\", \"tool_name\": \"f\"}], \"tools\": [{\"type\": \"function\", \"function\": "
         "{\"name\": \"f\"}}]}",
         "system: 'S'; assistant: '' f({\"a\": 1}); tool: 'ok'; 1 tools; stream"},
        /* LangChain.js: two messages for one question */
        {OLLAMA_CHAT,
         "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"\", \"images\": "
         "[\"data:image/png;base64," PNG "\"]}, {\"role\": \"user\", \"content\": \"x\"}]}",
         "user: image(8) ''; user: 'x'; stream"},
        /* an animation of two frames */
        {OLLAMA_GENERATE,
         "{\"model\": \"m\", \"prompt\": \"What?\", \"images\": [\"" PNG
         "\", \"R0lGODlhAQABAAAAACwAAAAAAQABAAACAQAALAAAAAABAAEAAAIBAAA7\"]}",
         "user: image(8) image(42) 'What?'; stream note=image 2 has several frames, of which the "
         "first is used"},
        /* Frigate */
        {OLLAMA_GENERATE,
         "{\"model\": \"m\", \"prompt\": \"What?\", \"images\": [\"" PNG "\", \"" PNG "\"], "
         "\"format\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}}}, "
         "\"options\": {\"temperature\": 0.5, \"repeat_penalty\": 1.05, \"presence_penalty\": "
         "0.3}, \"stream\": false}",
         "user: image(8) image(8) 'What?'; whole grammar r=1.05"},
        /* PhotoPrism: its usual members, and optional ones */
        {OLLAMA_GENERATE,
         "{\"id\": \"1\", \"version\": \"latest\", \"model\": \"m\", \"suffix\": \"\", \"system\": "
         "\"S\", \"prompt\": \"P\", \"images\": [\"" PNG "\"], \"format\": \"json\", \"options\": "
         "{\"stop\": [\"\\n\\n\"], \"force_json\": true}, \"stream\": false}",
         "system: 'S'; user: image(8) 'P'; whole grammar stop='\n\n' unknown=options.force_json, "
         "id, version"},
        /* langchaingo */
        {OLLAMA_GENERATE, "{\"model\": \"m\", \"prompt\": \"P\", \"format\": \"\"}",
         "user: 'P'; stream"},
        {OLLAMA_GENERATE, "{\"model\": \"m\", \"prompt\": \"P\", \"raw\": true}",
         "raw 'P'; stream"},
        {OLLAMA_GENERATE, "{\"model\": \"m\", \"prompt\": \"P\", \"template\": \"T\"}",
         "user: 'P'; stream note=template was ignored"},
        {OLLAMA_CHAT,
         "{" HI ", \"options\": {\"temperature\": 9, \"top_k\": -1, \"seed\": 7.0, \"stop\": "
         "\"x\", \"num_predict\": -1, \"num_ctx\": 8192, \"mirostat\": 2}}",
         "user: 'hi'; stream t=2 k=0 seed=7 stop='x' note=num_ctx is limited to 2048 by the "
         "server's --max-model-len; "
         "temperature 9 was changed to 2; mirostat is not supported"},
        {OLLAMA_CHAT,
         "{" HI ", \"options\": {\"mirostat\": 1, \"typical_p\": 1.0, \"tfs_z\": 0.5}}",
         "user: 'hi'; stream note=tfs_z is not supported; mirostat is not supported"},
        {OLLAMA_CHAT,
         "{" HI ", \"options\": {\"seed\": -1, \"repeat_penalty\": 1.5, "
         "\"repeat_last_n\": 0}}",
         "user: 'hi'; stream"},
        {OLLAMA_CHAT, "{" HI ", \"logprobs\": true, \"top_logprobs\": 2}",
         "user: 'hi'; stream logprobs=2"},
        {OLLAMA_CHAT,
         "{" HI ", \"format\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}, "
         "\"uniqueItems\": true, \"maxItems\": 3}, \"think\": false}",
         "user: 'hi'; stream grammar note=keywords of the schema were ignored: uniqueItems"},
    };
    (void)state;
    struct api_limits l = ollama_limits();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_request r;
        struct api_error error = {0};
        struct buf got = buf_with_max(1 << 16);
        if (!parse_ollama(&r, cases[i].kind, cases[i].body, &l, &error))
            fail_msg("%s\n  refused: %s", cases[i].body, error.message);
        describe_request(&got, &r);
        if (strcmp(got.data, cases[i].wanted) != 0)
            fail_msg("%s\n  gives  %s\n  wanted %s", cases[i].body, got.data, cases[i].wanted);
        buf_free(&got);
        api_request_free(&r);
    }
}

/* Open WebUI's "continue": the last message is the start of the answer, unless a schema covers the
 * whole answer. */
static void answers_are_continued(void **state)
{
    static const struct {
        const char *more, *wanted;
    } cases[] = {{"", "user: 'a'; assistant: 'b'; stream continues"},
                 {", \"format\": \"json\"", "user: 'a'; assistant: 'b'; stream grammar"}};
    struct api_limits l = ollama_limits();
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_request r;
        struct api_error error = {0};
        struct buf got = buf_with_max(1 << 16);
        char body[256];
        snprintf(body, sizeof(body),
                 "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"a\"}, "
                 "{\"role\": \"assistant\", \"content\": \"b\"}]%s}",
                 cases[i].more);
        if (!parse_ollama(&r, OLLAMA_CHAT, body, &l, &error)) fail_msg("%s", error.message);
        describe_request(&got, &r);
        assert_string_equal(got.data, cases[i].wanted);
        buf_free(&got);
        api_request_free(&r);
    }
}

static void invalid_ollama_requests_are_refused(void **state)
{
    static const struct {
        enum ollama_kind kind;
        const char *body, *wanted;
    } cases[] = {
        {OLLAMA_CHAT, "{" HI ", \"think\": true}", "\"m\" does not support thinking"},
        {OLLAMA_CHAT, "{" HI ", \"think\": \"high\"}", "\"m\" does not support thinking"},
        {OLLAMA_CHAT, "{" HI ", \"options\": {\"think\": true}}",
         "\"m\" does not support thinking"},
        {OLLAMA_CHAT, "{" HI ", \"format\": \"xml\"}",
         "invalid format: \"xml\"; expected \"json\" or a valid JSON Schema object"},
        {OLLAMA_CHAT, "{" HI ", \"options\": {\"temperature\": \"hot\"}}",
         "option \"temperature\" must be of type float32"},
        {OLLAMA_CHAT, "{" HI ", \"options\": {\"top_k\": \"x\"}}",
         "option \"top_k\" must be of type integer"},
        {OLLAMA_CHAT, "{" HI ", \"top_logprobs\": 21}", "top_logprobs must be between 0 and 20"},
        {OLLAMA_CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]}",
         "messages[0].content must be a string; images go into \"images\", as base64"},
        {OLLAMA_CHAT, "{\"messages\": [{\"role\": \"system\", \"images\": [\"" PNG "\"]}]}",
         "messages[0].images: an image cannot be in a message of the system; put it into a "
         "user message"},
        {OLLAMA_CHAT, "{\"messages\": [{\"role\": \"human\", \"content\": \"x\"}]}",
         "messages[0].role must be \"system\", \"user\", \"assistant\" or \"tool\", got \"human\""},
        {OLLAMA_GENERATE, "{\"model\": \"m\", \"prompt\": [\"x\"]}",
         "prompt must be a string, got an array"},
        {OLLAMA_GENERATE, "{\"model\": \"m\", \"prompt\": \"x\", \"suffix\": \"y\"}",
         "m does not support insert"},
        {OLLAMA_GENERATE, "{\"prompt\": \"x\", \"raw\": true, \"system\": \"y\"}",
         "raw mode does not support template, system, or context"},
        {OLLAMA_GENERATE, "{\"prompt\": \"x\", \"raw\": true, \"images\": [\"" PNG "\"]}",
         "raw mode does not support images"},
        {OLLAMA_GENERATE,
         "{\"prompt\": \"x\", \"images\": [\"" PNG "\",\"" PNG "\",\"" PNG "\",\"" PNG "\"]}",
         "At most 3 image(s) may be provided in one prompt."},
    };
    (void)state;
    struct api_limits l = ollama_limits();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_request r;
        struct api_error error = {0};
        if (parse_ollama(&r, cases[i].kind, cases[i].body, &l, &error))
            fail_msg("%s was accepted", cases[i].body);
        assert_int_equal(error.status, 400);
        assert_string_equal(api_error_text(&error), cases[i].wanted);
        api_request_free(&r);
    }
}

static void invalid_images_are_refused(void **state)
{
    struct api_limits l = ollama_limits();
    struct api_request r;
    struct api_error error = {0};
    (void)state;
    assert_false(
        parse_ollama(&r, OLLAMA_GENERATE, "{\"prompt\": \"x\", \"images\": [\"a*\"]}", &l, &error));
    assert_int_equal(error.status, 400);
    assert_string_equal(error.param, "images[0]");
    api_request_free(&r);
}

static void capabilities_of_models(void **state)
{
    struct api_limits l = ollama_limits();
    struct api_request r;
    struct api_error error = {0};
    (void)state;
    l.thinks = true;
    assert_true(parse_ollama(&r, OLLAMA_CHAT, "{" HI ", \"think\": true}", &l, &error));
    assert_int_equal(r.request.thinking, EY_THINKING_ON);
    assert_int_equal(r.request.thinking_budget, 0);
    api_request_free(&r);
    assert_true(parse_ollama(&r, OLLAMA_CHAT,
                             "{" HI ", \"think\": false, \"options\": {\"num_predict\": 8}}", &l,
                             &error));
    assert_int_equal(r.request.thinking, EY_THINKING_OFF);
    assert_int_equal(r.request.thinking_budget, EY_KEEP_ANSWER);
    api_request_free(&r);
    l.tool_format = NULL;
    assert_false(parse_ollama(
        &r, OLLAMA_CHAT, "{" HI ", \"tools\": [{\"function\": {\"name\": \"f\"}}]}", &l, &error));
    assert_string_equal(error.message, "m does not support tools");
    api_request_free(&r);
}

static void the_oldest_messages(void **state)
{
    static const char body[] =
        "{\"messages\": [{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", "
        "\"content\": \"1\", \"images\": [\"" PNG "\"]}, {\"role\": \"assistant\", \"content\": "
        "\"2\", \"tool_calls\": [{\"function\": {\"name\": \"f\"}}]}, {\"role\": \"tool\", "
        "\"content\": \"3\"}, {\"role\": \"user\", \"content\": \"4\"}, {\"role\": "
        "\"assistant\", \"content\": \"5\", \"tool_calls\": [{\"function\": {\"name\": \"f\"}}]}, "
        "{\"role\": \"tool\", \"content\": \"6\"}]}";
    struct api_limits l = ollama_limits();
    struct api_request r;
    struct api_error error = {0};
    struct buf got = buf_with_max(4096);
    (void)state;
    assert_true(parse_ollama(&r, OLLAMA_CHAT, body, &l, &error));
    assert_true(r.drops_messages);
    assert_int_equal(api_request_drop_oldest(&r, 1), 1);
    assert_int_equal(r.n_dropped_images, 1);
    assert_int_equal(api_request_drop_oldest(&r, 1), 2); /* the call and its result */
    describe_request(&got, &r);
    assert_string_equal(got.data, "system: 'S'; user: '4'; assistant: '5' f({}); tool: '6'; "
                                  "stream");
    assert_int_equal(api_request_drop_oldest(&r, 4), 1);
    assert_int_equal(api_request_drop_oldest(&r, 1), 0);
    assert_int_equal(r.request.n_messages, 3);
    buf_free(&got);
    api_request_free(&r);
}

/* ---- schemas ---- */

static void keywords_that_narrow(void **state)
{
    static const struct {
        const char *schema, *left, *dropped;
    } cases[] = {
        {"{\"type\":\"object\"}", "{\"type\":\"object\"}", ""},
        {"{\"type\":\"object\",\"minProperties\":1,\"not\":{},\"properties\":{\"not\":{\"type\":"
         "\"string\",\"format\":\"zip\"},\"b\":{\"format\":\"date\"}}}",
         "{\"type\":\"object\",\"properties\":{\"not\":{\"type\":\"string\"},\"b\":{\"format\":"
         "\"date\"}}}",
         "minProperties, not, format"},
        {"{\"anyOf\":[{\"contains\":1},{\"items\":{\"uniqueItems\":true}}],\"$defs\":{\"x\":{"
         "\"if\":1,\"then\":2}}}",
         "{\"anyOf\":[{},{\"items\":{}}],\"$defs\":{\"x\":{}}}", "if, then, contains, uniqueItems"},
        {"{\"enum\":[{\"not\":1}],\"minLength\":2}", "{\"enum\":[{\"not\":1}],\"minLength\":2}",
         ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ey_err e;
        json_object *schema = json_parse(cases[i].schema, strlen(cases[i].schema), "s",
                                         EY_BAD_REQUEST, &e);
        struct buf dropped = buf_with_max(1024);
        buf_add_text(&dropped, "");
        assert_true(ollama_drop_narrowing(schema, &dropped));
        assert_string_equal(json_object_to_json_string_ext(schema, JSON_C_TO_STRING_PLAIN),
                            cases[i].left);
        assert_string_equal(dropped.size ? dropped.data : "", cases[i].dropped);
        buf_free(&dropped);
        json_object_put(schema);
    }
}

/* ---- keep_alive ---- */

static void keep_alive_is_parsed(void **state)
{
    static const struct {
        const char *value;
        double seconds;
    } good[] = {{"5", 5},
                {"0", 0},
                {"-1", INFINITY},
                {"\"5m\"", 300},
                {"\"1h30m\"", 5400},
                {"\"300ms\"", 0.3},
                {"\"-1m\"", INFINITY},
                {"\"0\"", 0},
                {"\"-1\"", INFINITY},
                {"\"1.5h\"", 5400},
                {"2.5", 2.5},
                {"\".5m\"", 30},
                {"\"1.s\"", 1},
                {"1e300", INFINITY},
                {"\"9999999999h\"", INFINITY}};
    static const char *const bad[] = {"true",    "\"\"",       "\"x\"",    "\"5 m\"",   "\"5m3\"",
                                      "[]",      "\"5y\"",     "\"0x10\"", "\"0x10s\"", "\"1e2s\"",
                                      "\"1e2\"", "\"1.2.3s\"", "\".s\""};
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]) + sizeof(bad) / sizeof(bad[0]); i++) {
        size_t n_good = sizeof(good) / sizeof(good[0]);
        const char *value = i < n_good ? good[i].value : bad[i - n_good];
        char text[64];
        ey_err e;
        struct api_error error = {0};
        bool given;
        double seconds;
        snprintf(text, sizeof(text), "{\"keep_alive\": %s}", value);
        json_object *request = json_parse(text, strlen(text), "r", EY_BAD_REQUEST, &e);
        bool ok = ollama_read_keep_alive(request, &given, &seconds, &error);
        if (ok != (i < n_good)) fail_msg("%s", value);
        if (ok && isfinite(good[i].seconds)) assert_true(fabs(seconds - good[i].seconds) < 1e-9);
        if (ok) assert_int_equal(isfinite(seconds), isfinite(good[i].seconds));
        json_object_put(request);
    }
}

static void requests_without_a_question(void **state)
{
    static const struct {
        enum ollama_kind kind;
        const char *body;
        bool nothing;
    } cases[] = {{OLLAMA_CHAT, "{\"model\": \"m\"}", true},
                 {OLLAMA_CHAT, "{\"messages\": []}", true},
                 {OLLAMA_CHAT, "{\"messages\": [{}]}", false},
                 {OLLAMA_GENERATE, "{\"prompt\": \"\", \"images\": []}", true},
                 {OLLAMA_GENERATE, "{\"prompt\": \"\", \"images\": [\"x\"]}", false},
                 {OLLAMA_GENERATE, "{\"prompt\": \"x\"}", false}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ey_err e;
        json_object *request = json_parse(cases[i].body, strlen(cases[i].body), "r", EY_BAD_REQUEST,
                                          &e);
        assert_int_equal(ollama_asks_nothing(request, cases[i].kind), cases[i].nothing);
        json_object_put(request);
    }
}

/* ---- answers ---- */

static struct api_request asked = {.model = "qwen3-vl:4b"};
static struct ollama_state ended;

static struct api_reply reply_of(enum ollama_kind kind)
{
    struct api_reply reply = api_reply_start(&ollama_dialects[kind], "served");
    reply.request = &asked;
    reply.state = &ended;
    return reply;
}

/* Compares lines without their times, which must be numbers and dates. */
static void check_lines(struct buf *got, const char *wanted)
{
    static const char *const times[] = {"\"created_at\":\"", "\"total_duration\":"};
    assert_false(got->failed);
    for (size_t i = 0; i < 2; i++)
        for (char *at = got->data; (at = strstr(at, times[i]));) {
            at += strlen(times[i]);
            size_t n = strspn(at, "0123456789-:.TZ");
            assert_true(n > 0);
            assert_true(i || (n == 27 && at[26] == 'Z'));
            memmove(at, at + n, strlen(at + n) + 1);
        }
    assert_string_equal(got->data, wanted);
    buf_free(got);
}

#define HEAD "{\"model\":\"qwen3-vl:4b\",\"created_at\":\"\","
#define END(reason)                                                                         \
    "\"done\":true,\"done_reason\":\"" reason "\",\"total_duration\":,\"load_duration\":0," \
    "\"prompt_eval_count\":9,\"prompt_eval_duration\":750000000,\"eval_count\":3,"          \
    "\"eval_duration\":125000000}"

static const struct api_usage usage = {.prompt_tokens = 9,
                                       .completion_tokens = 3,
                                       .vision_s = 0.5,
                                       .prefill_s = 0.25,
                                       .decode_s = 0.125};
static const struct api_tool_call call = {
    .id = "call_1", .name = "f", .arguments = "{\"a\": [1]}", .n_arguments = 10};

static void whole_answers(void **state)
{
    struct buf out = buf_with_max(1 << 16);
    struct api_choice choice = {
        .text = "a \"b\"", .n_text = 5, .end = {.finish = EY_FINISH_STOP, .stop_id = -1}};
    struct api_reply chat = reply_of(OLLAMA_CHAT), generate = reply_of(OLLAMA_GENERATE);
    (void)state;
    ollama_write_whole(&out, &generate, &choice, 1, &usage);
    check_lines(&out, HEAD "\"response\":\"a \\\"b\\\"\"," END("stop"));
    choice.end.finish = EY_FINISH_LENGTH;
    choice.thinking = "hm";
    choice.n_thinking = 2;
    choice.calls = &call;
    choice.n_calls = 1;
    ollama_write_whole(&out, &chat, &choice, 1, &usage);
    check_lines(&out,
                HEAD "\"message\":{\"role\":\"assistant\",\"content\":\"a \\\"b\\\"\","
                     "\"thinking\":\"hm\",\"tool_calls\":[{\"id\":\"call_1\",\"function\":{"
                     "\"index\":0,\"name\":\"f\",\"arguments\":{\"a\": [1]}}}]}," END("length"));
    ollama_write_load(&out, &chat, "load");
    check_lines(&out, HEAD "\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,"
                           "\"done_reason\":\"load\"}");
}

static void lines_of_a_stream(void **state)
{
    struct buf out = buf_with_max(1 << 16);
    struct api_reply reply = reply_of(OLLAMA_CHAT);
    struct api_end end = {.finish = EY_FINISH_STOP, .stop_id = -1};
    const struct api_event events[] = {
        {.type = API_EVENT_OPEN},
        {.type = API_EVENT_START},
        {.type = API_EVENT_THINKING, .text = "hm", .n_text = 2},
        {.type = API_EVENT_TEXT, .text = "a", .n_text = 1},
        {.type = API_EVENT_SILENCE, .text = "prefill 1/2", .n_text = 11},
        {.type = API_EVENT_CALL, .call = &call, .call_index = 1},
        {.type = API_EVENT_END, .end = &end},
        {.type = API_EVENT_FINISH, .usage = &usage}};
    (void)state;
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        ollama_write_event(&out, &reply, &events[i]);
    check_lines(
        &out,
        HEAD "\"message\":{\"role\":\"assistant\",\"content\":\"\",\"thinking\":\"hm\"},\"done\":"
             "false}\n" HEAD
             "\"message\":{\"role\":\"assistant\",\"content\":\"a\"},\"done\":false}\n" HEAD
             "\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":false}\n" HEAD
             "\"message\":{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":"
             "\"call_1\",\"function\":{\"index\":1,\"name\":\"f\",\"arguments\":{\"a\": [1]}}}]},"
             "\"done\":false}\n" HEAD
             "\"message\":{\"role\":\"assistant\",\"content\":\"\"}," END("stop") "\n");
}

static void errors(void **state)
{
    static const struct {
        struct api_error error;
        int status;
        const char *wanted;
    } cases[] = {{{.status = 400, .message = "1 validation error: x is \"y\""},
                  400,
                  "{\"error\":\"x is \\\"y\\\"\"}"},
                 {{.status = 400, .code = API_ERROR_TOO_LONG, .message = "long"},
                  400,
                  "{\"error\":\"the input length exceeds the context length\"}"},
                 {{.status = 401, .message = "key"}, 401, "{\"error\":\"unauthorized\"}"},
                 {{.status = 422, .message = "m"}, 400, "{\"error\":\"m\"}"},
                 {{.status = 503, .message = "full"}, 503, "{\"error\":\"full\"}"}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf out = buf_with_max(4096);
        assert_int_equal(write_ollama_error(&out, &cases[i].error), cases[i].status);
        check_lines(&out, cases[i].wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(requests_of_clients),
                                       cmocka_unit_test(answers_are_continued),
                                       cmocka_unit_test(invalid_ollama_requests_are_refused),
                                       cmocka_unit_test(invalid_images_are_refused),
                                       cmocka_unit_test(capabilities_of_models),
                                       cmocka_unit_test(the_oldest_messages),
                                       cmocka_unit_test(keywords_that_narrow),
                                       cmocka_unit_test(keep_alive_is_parsed),
                                       cmocka_unit_test(requests_without_a_question),
                                       cmocka_unit_test(whole_answers),
                                       cmocka_unit_test(lines_of_a_stream),
                                       cmocka_unit_test(errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
