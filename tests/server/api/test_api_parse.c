/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing of requests: every field at its limits and one past them, and errors that name the field.
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "models/chat/hermes.h"
#include "models/toy_tool_calls.h"
#include "server/api/openai_chat/openai_dialect.h"

/* The start of a PNG; no test decodes it. */
#define PNG "data:image/png;base64,iVBORw0KGgo="
#define USER "\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]"

static const struct media_policy media = {0};

static struct api_limits limits(void)
{
    struct api_limits l = {
        .max_images = 3, .vocab_size = 1000, .media = &media, .tool_format = &hermes_tool_calls};
    l.defaults.top_logprobs = -1;
    l.defaults.sampling = (ey_sampling){
        .temperature = 0.5f, .top_k = 20, .top_p = 0.75f, .repetition_penalty = 1};
    return l;
}

/* Parses a body in a block of exactly its size. */
static bool parse_within(struct api_request *out, enum openai_kind kind, const char *body,
                         const struct api_limits *l, struct api_error *error)
{
    size_t n = strlen(body);
    char *exact = malloc(n ? n : 1);
    memcpy(exact, body, n);
    bool ok = api_parse(out, &openai_dialects[kind], exact, n, l, error);
    free(exact);
    return ok;
}

static bool parse(struct api_request *out, enum openai_kind kind, const char *body,
                  struct api_error *error)
{
    struct api_limits l = limits();
    return parse_within(out, kind, body, &l, error);
}

/* ---- valid requests ---- */

static void describe_part(struct buf *out, const ey_part *part)
{
    static const char *const details[] = {"auto", "low", "high", "original"};
    if (part->type == EY_PART_TEXT)
        buf_printf(out, " '%.*s'", (int)part->n_bytes, (const char *)part->bytes);
    else
        buf_printf(out, " image(%zu %s %llu..%llu)", part->n_bytes, details[part->detail],
                   (unsigned long long)part->min_pixels, (unsigned long long)part->max_pixels);
}

static void describe_messages(struct buf *out, const ey_request *request)
{
    for (size_t i = 0; i < request->n_messages; i++) {
        const ey_message *m = &request->messages[i];
        buf_printf(out, "%s%s:", i ? "; " : "", m->role);
        for (size_t k = 0; k < m->n_parts; k++)
            describe_part(out, &m->parts[k]);
        for (size_t k = 0; k < m->n_tool_calls; k++)
            buf_printf(out, " %s(%s)", m->tool_calls[k].name, m->tool_calls[k].arguments);
    }
    for (size_t i = 0; i < request->n_tools; i++)
        buf_printf(out, "; tool %s", request->tools[i]);
}

static void describe_prompts(struct buf *out, const struct api_request *r)
{
    for (size_t i = 0; i < r->n_prompts; i++) {
        const struct api_prompt *p = &r->prompts[i];
        if (i) buf_add_text(out, ";");
        if (p->text) buf_printf(out, "'%.*s'", (int)p->n_text, p->text);
        for (size_t k = 0; !p->text && k < p->n_ids; k++)
            buf_printf(out, "%s%d", k ? " " : "", p->ids[k]);
    }
}

/* Prints the conversation or prompts and, after a bar, all that differs from a plain request. */
static void describe(struct buf *out, const struct api_request *r)
{
    const ey_request *q = &r->request;
    describe_messages(out, q);
    describe_prompts(out, r);
    buf_add_text(out, " |");
    if (r->model[0]) buf_printf(out, " model=%s", r->model);
    if (r->n != 1) buf_printf(out, " n=%d", r->n);
    if (r->stream) buf_add_text(out, r->include_usage ? " stream+usage" : " stream");
    if (r->echo) buf_add_text(out, " echo");
    if (r->tools_given) buf_add_text(out, r->single_call ? " one-call" : " calls");
    if (r->seed_given) buf_printf(out, " seed=%lld", (long long)q->sampling.seed);
    if (r->length_given) buf_printf(out, " max_tokens=%d", q->max_tokens);
    if (q->min_tokens) buf_printf(out, " min_tokens=%d", q->min_tokens);
    if (q->continue_answer) buf_add_text(out, " continues");
    if (r->token_strings) buf_add_text(out, " strings");
    if (q->parse_special_tokens) buf_add_text(out, " special");
    if (q->add_vision_id) buf_add_text(out, " vision-id");
    if (q->ignore_eos) buf_add_text(out, " ignore_eos");
    if (q->grammar) buf_add_text(out, " grammar");
    if (q->top_logprobs >= 0) buf_printf(out, " logprobs=%d", q->top_logprobs);
    if (q->sampling.temperature != 0.5f)
        buf_printf(out, " temperature=%g", (double)q->sampling.temperature);
    if (q->sampling.top_k != 20) buf_printf(out, " top_k=%d", q->sampling.top_k);
    if (q->sampling.top_p != 0.75f) buf_printf(out, " top_p=%g", (double)q->sampling.top_p);
    if (q->sampling.min_p > 0) buf_printf(out, " min_p=%g", (double)q->sampling.min_p);
    if (q->sampling.repetition_penalty != 1)
        buf_printf(out, " repetition=%g", (double)q->sampling.repetition_penalty);
    if (q->sampling.presence_penalty != 0)
        buf_printf(out, " presence=%g", (double)q->sampling.presence_penalty);
    if (q->sampling.frequency_penalty != 0)
        buf_printf(out, " frequency=%g", (double)q->sampling.frequency_penalty);
    for (size_t i = 0; i < q->n_stop; i++)
        buf_printf(out, " stop='%s'", q->stop[i]);
    for (size_t i = 0; i < q->n_stop_ids; i++)
        buf_printf(out, " stop_id=%d", q->stop_ids[i]);
    for (size_t i = 0; i < q->n_logit_bias; i++)
        buf_printf(out, " bias(%d)=%g", q->logit_bias[i].id, (double)q->logit_bias[i].bias);
    if (r->unknown.size) buf_printf(out, " unknown=%s", r->unknown.data);
}

struct good_case {
    const char *body, *wanted;
};

static void check_good(enum openai_kind kind, const struct good_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct api_request r;
        struct api_error error = {0};
        struct buf got = buf_with_max(1 << 20);
        if (!parse(&r, kind, cases[i].body, &error))
            fail_msg("%s\n  refused: %s (%s)", cases[i].body, error.message, error.param);
        describe(&got, &r);
        if (strcmp(got.data, cases[i].wanted) != 0)
            fail_msg("%s\n  gives  %s\n  wanted %s", cases[i].body, got.data, cases[i].wanted);
        buf_free(&got);
        api_request_free(&r);
    }
}
#define CHECK_GOOD(kind, cases) check_good(kind, cases, sizeof(cases) / sizeof(cases[0]))

static void messages_of_a_chat(void **state)
{
    (void)state;
    static const struct good_case cases[] = {
        {"{" USER "}", "user: 'hi' |"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"\"}]}", "user: '' |"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": []}]}", "user: |"},
        {"{\"messages\": [{\"role\": \"developer\", \"content\": \"S\"}, {\"role\": \"system\", "
         "\"content\": \"T\"}, "
         "{\"role\": \"user\", \"content\": \"U\", \"name\": \"ann\"}]}",
         "system: 'S'; system: 'T'; user: 'U' |"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
         "\"a\"}, {\"text\": \"b\"}, \"c\"]}]}",
         "user: 'a' 'b' 'c' |"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": null}, {\"role\": \"assistant\"}, "
         "{\"role\": \"user\", \"content\": \"x\"}]}",
         "assistant:; assistant:; user: 'x' |"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": [{\"type\": \"refusal\", "
         "\"refusal\": \"no\"}], \"refusal\": null, "
         "\"annotations\": [], \"audio\": null, \"function_call\": null, \"tool_calls\": null}]}",
         "assistant: 'no' |"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"<|image_pad|>\"}]}",
         "user: '<|image_pad|>' |"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"x\", \"cache_control\": {}}, "
         "{\"role\": \"user\", \"content\": \"y\", "
         "\"cache_control\": {}}]}",
         "user: 'x'; user: 'y' | unknown=messages[].cache_control"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\", "
         "\"cache_control\": 1}]}]}",
         "user: 'a' | unknown=messages[].content[].cache_control"},
    };
    CHECK_GOOD(API_CHAT, cases);
}

static void images(void **state)
{
    (void)state;
    static const struct good_case cases[] = {
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", "
         "\"image_url\": {\"url\": \"" PNG "\"}}, "
         "{\"type\": \"text\", \"text\": \"?\"}]}]}",
         "user: image(8 auto 0..0) '?' |"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", "
         "\"image_url\": \"" PNG "\"}]}]}",
         "user: image(8 auto 0..0) |"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"image_url\": {\"url\": \"" PNG
         "\", \"detail\": \"auto\"}}]}]}",
         "user: image(8 auto 0..0) |"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", "
         "\"image_url\": {\"url\": \"" PNG "\", \"detail\": \"low\"}}, "
         "{\"type\": \"image_url\", \"image_url\": {\"url\": \"" PNG
         "\", \"detail\": \"high\"}, \"uuid\": \"7\"}]}]}",
         "user: image(8 low 0..0) image(8 high 0..0) |"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", "
         "\"image_url\": {\"url\": \"" PNG "\", \"detail\": \"original\"}}]}]}",
         "user: image(8 original 0..0) |"},
        {"{\"messages\": [{\"role\": \"tool\", \"content\": [{\"type\": \"image_url\", "
         "\"image_url\": \"" PNG "\"}]}]}",
         "tool: image(8 auto 0..0) |"},
        {"{\"mm_processor_kwargs\": {\"max_pixels\": 65536}, \"messages\": [{\"role\": \"user\", "
         "\"content\": [{\"type\": \"image_url\", "
         "\"image_url\": {\"url\": \"" PNG "\", \"detail\": \"high\"}}]}]}",
         "user: image(8 high 0..65536) |"},
        {"{\"mm_processor_kwargs\": {\"min_pixels\": 4096, \"max_pixels\": 65536}, \"messages\": "
         "[{\"role\": \"user\", \"content\": [{\"type\": "
         "\"image_url\", \"image_url\": \"" PNG "\"}]}]}",
         "user: image(8 auto 4096..65536) |"},
        {"{\"mm_processor_kwargs\": {\"size\": {\"shortest_edge\": 1024, \"longest_edge\": 2048}, "
         "\"fps\": 2}, \"messages\": [{\"role\": "
         "\"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": \"" PNG "\"}]}]}",
         "user: image(8 auto 1024..2048) | unknown=mm_processor_kwargs.fps"},
    };
    CHECK_GOOD(API_CHAT, cases);
}

static void a_budget_of_the_server(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", "
        "\"image_url\": \"" PNG "\"}, {\"type\": \"image_url\", "
        "\"image_url\": {\"url\": \"" PNG "\", \"detail\": \"high\"}}]}]}",
        "{\"mm_processor_kwargs\": {\"max_pixels\": 5000}, \"messages\": [{\"role\": \"user\", "
        "\"content\": [{\"type\": \"image_url\", \"image_url\": \"" PNG "\"}, "
        "{\"type\": \"image_url\", \"image_url\": \"" PNG "\"}]}]}"};
    static const uint64_t wanted[2][2] = {{7777, 0}, {5000, 5000}};
    struct api_limits l = limits();
    l.max_pixels = 7777;
    for (int i = 0; i < 2; i++) {
        struct api_request r;
        struct api_error error;
        assert_true(parse_within(&r, API_CHAT, bodies[i], &l, &error));
        for (int k = 0; k < 2; k++)
            assert_int_equal(r.request.messages[0].parts[k].max_pixels, wanted[i][k]);
        api_request_free(&r);
    }
}

/* A tool_choice with this mode and one tool. */
#define ALLOWED(mode, name)                                                                 \
    "{\"type\": \"allowed_tools\", \"allowed_tools\": {\"mode\": \"" mode "\", \"tools\": " \
    "[{\"type\": \"function\", \"function\": {\"name\": \"" name "\"}}]}}"
#define TOOL                                                                               \
    "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": " \
    "\"object\"}}}"

static void tools(void **state)
{
    (void)state;
    static const struct good_case cases[] = {
        {"{" USER ", \"tools\": [" TOOL "]}", "user: 'hi'; tool " TOOL " | calls"},
        {"{" USER ", \"tools\": [" TOOL "], \"tool_choice\": \"auto\"}",
         "user: 'hi'; tool " TOOL " | calls"},
        {"{" USER ", \"tool_choice\": \"none\", \"tools\": [" TOOL "]}", "user: 'hi' |"},
        {"{" USER ", \"tool_choice\": \"none\"}", "user: 'hi' |"},
        {"{" USER ", \"tools\": []}", "user: 'hi' |"},
        {"{" USER ", \"tools\": [" TOOL "], \"parallel_tool_calls\": true}",
         "user: 'hi'; tool " TOOL " | calls"},
        {"{" USER ", \"tools\": [" TOOL "], \"parallel_tool_calls\": false}",
         "user: 'hi'; tool " TOOL " | one-call"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": "
         "\"c\", \"type\": \"function\", \"function\": "
         "{\"name\": \"f\", \"arguments\": \"{\\\"a\\\":1}\"}}, {\"function\": {\"name\": \"g\", "
         "\"arguments\": {\"b\": [2, \"x\"]}}}, "
         "{\"function\": {\"name\": \"h\"}}, {\"function\": {\"name\": \"i\", \"arguments\": "
         "\"\"}}]}, "
         "{\"role\": \"tool\", \"tool_call_id\": \"c\", \"content\": \"7\"}]}",
         "assistant: '' f({\"a\":1}) g({\"b\": [2, \"x\"]}) h({}) i({}); tool: '7' |"},
    };
    CHECK_GOOD(API_CHAT, cases);
}

#define SCHEMA                                                                                \
    "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}}, \"required\": " \
    "[\"a\"], \"additionalProperties\": false}"
#define BARE_TOOL "{\"type\": \"function\", \"function\": {\"name\": \"g\"}}"
#define OPEN_TOOL                                                                                \
    "{\"type\": \"function\", \"function\": {\"name\": \"h\", \"parameters\": {\"properties\": " \
    "{\"a\": {}}}}}"
#define LOOSE_TOOL \
    "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"not\": {}}}}"

static void formats_of_an_answer(void **state)
{
    (void)state;
    static const struct good_case cases[] = {
        {"{" USER ", \"response_format\": {\"type\": \"json_object\"}}", "user: 'hi' | grammar"},
        {"{" USER ", \"response_format\": {\"type\": \"json_object\", \"schema\": {\"type\": "
         "\"object\"}}}",
         "user: 'hi' | grammar"},
        {"{" USER ", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": "
         "\"n\", \"strict\": true, \"description\": \"d\", "
         "\"schema\": " SCHEMA "}}}",
         "user: 'hi' | grammar"},
        {"{" USER ", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": "
         "{\"schema\": {}, \"odd\": 1}}}",
         "user: 'hi' | grammar unknown=response_format.json_schema.odd"},
        {"{" USER ", \"structured_outputs\": {\"json\": " SCHEMA ", \"disable_fallback\": true}}",
         "user: 'hi' | grammar"},
        {"{" USER ", \"structured_outputs\": {\"json\": \"{\\\"type\\\": \\\"integer\\\"}\", "
         "\"regex\": null, \"_backend\": \"auto\"}}",
         "user: 'hi' | grammar unknown=structured_outputs._backend"},
        {"{" USER ", \"structured_outputs\": {\"regex\": \"[a-c]{1,3}\", "
         "\"disable_any_whitespace\": false}}",
         "user: 'hi' | grammar"},
        {"{" USER ", \"structured_outputs\": {\"choice\": [\"yes\", \"no\", \"no\"]}}",
         "user: 'hi' | grammar"},
        {"{" USER ", \"structured_outputs\": {\"json_object\": true}}", "user: 'hi' | grammar"},
        {"{" USER ", \"structured_outputs\": {\"json_object\": false, \"grammar\": null}}",
         "user: 'hi' |"},
        {"{" USER ", \"guided_json\": " SCHEMA "}", "user: 'hi' | grammar"},
        {"{" USER ", \"guided_json\": \"true\"}", "user: 'hi' | grammar"},
        {"{" USER ", \"guided_regex\": \"a+\", \"response_format\": {\"type\": \"text\"}}",
         "user: 'hi' | grammar"},
        {"{" USER ", \"guided_choice\": [\"a\"], \"n\": 2}", "user: 'hi' | n=2 grammar"},
        {"{" USER ", \"tools\": [" TOOL "], \"tool_choice\": \"required\"}",
         "user: 'hi'; tool " TOOL " | calls grammar"},
        {"{" USER ", \"tools\": [" TOOL ", " BARE_TOOL ", " OPEN_TOOL
         "], \"tool_choice\": \"required\", \"parallel_tool_calls\": false}",
         "user: 'hi'; tool " TOOL "; tool " BARE_TOOL "; tool " OPEN_TOOL " | one-call grammar"},
        {"{" USER ", \"tools\": [" LOOSE_TOOL ", " BARE_TOOL
         "], \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"g\"}}}",
         "user: 'hi'; tool " LOOSE_TOOL "; tool " BARE_TOOL " | calls grammar"},
        /* tools that are not allowed are left out of the prompt */
        {"{" USER ", \"tools\": [" TOOL ", " BARE_TOOL
         "], \"tool_choice\": " ALLOWED("required", "g") "}",
         "user: 'hi'; tool " BARE_TOOL " | calls grammar"},
        {"{" USER ", \"tools\": [" TOOL ", " BARE_TOOL ", " OPEN_TOOL
         "], \"parallel_tool_calls\": false, \"tool_choice\": " ALLOWED("auto", "f") "}",
         "user: 'hi'; tool " TOOL " | one-call"},
        /* with a grammar of the request, the answer is not parsed for calls */
        {"{" USER ", \"tools\": [" LOOSE_TOOL "], \"guided_choice\": [\"a\"]}",
         "user: 'hi'; tool " LOOSE_TOOL " | grammar"},
    };
    CHECK_GOOD(API_CHAT, cases);
    static const struct good_case of_text[] = {
        {"{\"prompt\": [\"a\", \"b\"], \"structured_outputs\": {\"regex\": \"x\"}}",
         "'a';'b' | special grammar"},
        {"{\"prompt\": \"a\", \"guided_json\": {}, \"echo\": true}", "'a' | echo special grammar"},
        {"{\"prompt\": \"a\", \"response_format\": {\"type\": \"json_object\"}}",
         "'a' | special grammar"},
    };
    CHECK_GOOD(API_COMPLETION, of_text);
    static const struct good_case counted[] = {
        {"{" USER ", \"tools\": [" LOOSE_TOOL "], \"tool_choice\": \"required\"}",
         "user: 'hi'; tool " LOOSE_TOOL " | calls"},
    };
    CHECK_GOOD(API_TOKENIZE, counted);
}

/* The maximum number of tools, each with its own schema. */
static void many_tools(void **state)
{
    (void)state;
    struct buf body = buf_with_max(1 << 20);
    struct api_request r;
    struct api_error error = {0};
    buf_add_text(&body, "{" USER ", \"tool_choice\": \"required\", \"tools\": [");
    for (int i = 0; i < 128; i++)
        buf_printf(&body,
                   "%s{\"function\": {\"name\": \"tool_%d\", \"parameters\": {\"type\": "
                   "\"object\", \"properties\": {\"p%d\": {\"type\": "
                   "\"string\"}}, \"required\": [\"p%d\"]}}}",
                   i ? ", " : "", i, i, i);
    buf_add_text(&body, "]}");
    if (!parse(&r, API_CHAT, body.data, &error)) fail_msg("%s (%s)", error.message, error.param);
    assert_non_null(r.request.grammar);
    api_request_free(&r);
    buf_free(&body);
}

static void fields_of_a_chat(void **state)
{
    (void)state;
    static const struct good_case cases[] = {
        {"{" USER ", \"model\": \"m\"}", "user: 'hi' | model=m"},
        {"{" USER ", \"model\": \"\"}", "user: 'hi' |"},
        {"{" USER ", \"model\": null, \"n\": null, \"stop\": null, \"seed\": null, "
         "\"temperature\": null, \"tools\": null, "
         "\"response_format\": null, \"logit_bias\": null, \"stream_options\": null, "
         "\"no_such_field\": null}",
         "user: 'hi' |"},
        {"{" USER ", \"max_tokens\": 1}", "user: 'hi' | max_tokens=1"},
        {"{" USER ", \"max_tokens\": 1048576}", "user: 'hi' | max_tokens=1048576"},
        {"{" USER ", \"max_tokens\": 16.0}", "user: 'hi' | max_tokens=16"},
        {"{" USER ", \"max_tokens\": -1}", "user: 'hi' |"}, /* LM Studio's clients */
        {"{" USER ", \"tools\": [], \"tool_choice\": \"auto\"}", "user: 'hi' |"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_text\", \"text\": "
         "\"hi\"}]}]}",
         "user: 'hi' |"},
        {"{" USER ", \"max_completion_tokens\": 5, \"max_tokens\": 9}",
         "user: 'hi' | max_tokens=5"},
        {"{" USER ", \"temperature\": 0}", "user: 'hi' | temperature=0"},
        {"{" USER ", \"temperature\": 2.0}", "user: 'hi' | temperature=2"},
        {"{" USER ", \"top_p\": 1}", "user: 'hi' | top_p=1"},
        {"{" USER ", \"top_p\": 1e-9}", "user: 'hi' | top_p=1e-09"},
        {"{" USER ", \"top_p\": 0}", "user: 'hi' | top_p=0"}, /* greedy */
        {"{" USER ", \"min_tokens\": 4}", "user: 'hi' | min_tokens=4"},
        {"{" USER ", \"min_tokens\": 7, \"max_tokens\": 7}",
         "user: 'hi' | max_tokens=7 min_tokens=7"},
        {"{" USER ", \"top_k\": -1}", "user: 'hi' | top_k=0"},
        {"{" USER ", \"top_k\": 0}", "user: 'hi' | top_k=0"},
        {"{" USER ", \"top_k\": 1}", "user: 'hi' | top_k=1"},
        {"{" USER ", \"top_k\": 2147483647}", "user: 'hi' | top_k=0"},
        {"{" USER ", \"min_p\": 0.25}", "user: 'hi' | min_p=0.25"},
        {"{" USER
         ", \"repetition_penalty\": 1.5, \"presence_penalty\": -2, \"frequency_penalty\": 2}",
         "user: 'hi' | repetition=1.5 presence=-2 frequency=2"},
        {"{" USER ", \"seed\": 42}", "user: 'hi' | seed=42"},
        {"{" USER ", \"seed\": -7}", "user: 'hi' | seed=-7"},
        {"{" USER ", \"seed\": -1}", "user: 'hi' |"},
        {"{" USER ", \"seed\": 9223372036854775807}", "user: 'hi' | seed=9223372036854775807"},
        {"{" USER ", \"seed\": -9223372036854775807}", "user: 'hi' | seed=-9223372036854775807"},
        {"{" USER ", \"seed\": -9223372036854775808}", "user: 'hi' | seed=-9223372036854775808"},
        {"{" USER ", \"seed\": 0}", "user: 'hi' | seed=0"},
        {"{" USER ", \"n\": 8}", "user: 'hi' | n=8"},
        {"{" USER ", \"n\": 2, \"best_of\": 2}", "user: 'hi' | n=2"},
        {"{" USER ", \"stop\": \"\\n\"}", "user: 'hi' | stop='\n'"},
        {"{" USER ", \"stop\": [\"a\", \"\\u00e4\"]}", "user: 'hi' | stop='a' stop='\xc3\xa4'"},
        {"{" USER ", \"stop\": []}", "user: 'hi' |"},
        {"{" USER ", \"stop_token_ids\": [0, 999]}", "user: 'hi' | stop_id=0 stop_id=999"},
        {"{" USER ", \"ignore_eos\": true}", "user: 'hi' | ignore_eos"},
        {"{" USER ", \"logprobs\": true}", "user: 'hi' | logprobs=0"},
        {"{" USER ", \"logprobs\": true, \"top_logprobs\": 20}", "user: 'hi' | logprobs=20"},
        {"{" USER ", \"logprobs\": false, \"top_logprobs\": 0}", "user: 'hi' |"},
        {"{" USER ", \"logit_bias\": {\"0\": 1.5, \"999\": -1000, \"7\": 101}}",
         "user: 'hi' | bias(0)=1.5 bias(999)=-100 bias(7)=100"},
        {"{" USER ", \"stream\": true}", "user: 'hi' | stream"},
        {"{" USER ", \"stream\": true, \"stream_options\": {\"include_usage\": true}}",
         "user: 'hi' | stream+usage"},
        {"{" USER ", \"stream\": false, \"stream_options\": {}}", "user: 'hi' |"},
        {"{" USER ", \"stream\": true, \"stream_options\": {\"continuous_usage_stats\": true}}",
         "user: 'hi' | stream unknown=stream_options.continuous_usage_stats"},
        {"{" USER
         ", \"chat_template_kwargs\": {\"add_vision_id\": true, \"enable_thinking\": false}}",
         "user: 'hi' | vision-id"},
        {"{" USER ", \"response_format\": {\"type\": \"text\"}, \"modalities\": [\"text\"]}",
         "user: 'hi' |"},
        {"{" USER ", \"user\": \"u\", \"store\": true, \"metadata\": {\"a\": \"b\"}, "
         "\"service_tier\": \"auto\", \"request_id\": \"r\", "
         "\"priority\": 3, \"safety_identifier\": \"s\", \"prompt_cache_key\": \"k\", "
         "\"skip_special_tokens\": true, "
         "\"add_generation_prompt\": true}",
         "user: 'hi' |"},
        {"{" USER ", \"continue_final_message\": true, \"add_generation_prompt\": false}",
         "user: 'hi' | continues"},
        {"{" USER ", \"suffix\": null, \"min_tokens\": 0, \"bad_words\": [], \"echo\": false, "
         "\"structured_outputs\": {}, \"guided_grammar\": \"\", "
         "\"guided_json\": null, \"prompt_logprobs\": null, \"functions\": [], "
         "\"use_beam_search\": false, \"chat_template\": \"\"}",
         "user: 'hi' |"},
        {"{" USER ", \"tempertaure\": 1, \"foo\": [1], \"cache_salt\": \"s\"}",
         "user: 'hi' | unknown=tempertaure, foo, cache_salt"},
        {"{" USER ", \"a\\r\\nSet-Cookie: x\": 1, \"q\\\"\\\\,\": 1}",
         "user: 'hi' | unknown=a\?\?Set-Cookie:?x, q???"},
    };
    CHECK_GOOD(API_CHAT, cases);
}

static void fields_of_a_completion(void **state)
{
    (void)state;
    static const struct good_case cases[] = {
        {"{\"prompt\": \"once\"}", "'once' | special"},
        {"{\"prompt\": [\"a\", \"b\"]}", "'a';'b' | special"},
        {"{\"prompt\": [5, 6, 999]}", "5 6 999 | special"},
        {"{\"prompt\": [[5], [6, 7]]}", "5;6 7 | special"},
        {"{\"prompt\": \"a\", \"max_tokens\": 3, \"logprobs\": 5}",
         "'a' | max_tokens=3 special logprobs=5"},
        {"{\"prompt\": \"a\", \"logprobs\": 0}", "'a' | special logprobs=0"},
        {"{\"prompt\": \"a\", \"echo\": true}", "'a' | echo special"},
        {"{\"prompt\": \"a\", \"suffix\": \"\", \"n\": 2, \"best_of\": 2}", "'a' | n=2 special"},
        {"{\"prompt\": \"a\", \"top_logprobs\": 3, \"max_completion_tokens\": 4}",
         "'a' | special unknown=top_logprobs, max_completion_tokens"},
    };
    CHECK_GOOD(API_COMPLETION, cases);
    struct api_request r;
    struct api_error error;
    assert_true(parse(&r, API_COMPLETION, "{\"prompt\": \"a\"}", &error));
    assert_int_equal(r.request.max_tokens, API_COMPLETION_TOKENS);
    api_request_free(&r);
}

static void fields_of_counting(void **state)
{
    (void)state;
    static const struct good_case tokenize[] = {
        {"{\"prompt\": \"a\"}", "'a' | special"},
        {"{\"prompt\": \"\", \"add_special_tokens\": false, \"return_token_strs\": true}",
         "'' | strings special"},
        {"{" USER "}", "user: 'hi' |"},
        {"{" USER ", \"tools\": [" TOOL "], \"temperature\": 1}",
         "user: 'hi'; tool " TOOL " | calls unknown=temperature"},
    };
    static const struct good_case detokenize[] = {
        {"{\"tokens\": [1, 2], \"model\": \"m\"}", "1 2 | model=m special"},
        {"{\"tokens\": []}", " | special"}};
    CHECK_GOOD(API_TOKENIZE, tokenize);
    CHECK_GOOD(API_DETOKENIZE, detokenize);
}

/* ---- refused requests ---- */

struct bad_case {
    const char *body, *param, *message; /* body, and the error's param and start of its message */
};

static void check_bad(enum openai_kind kind, const char *type, const struct bad_case *cases,
                      size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct api_request r;
        struct api_error error = {0};
        if (parse(&r, kind, cases[i].body, &error)) fail_msg("accepted: %s", cases[i].body);
        if (error.status != 400 || strcmp(error.type, type) != 0 ||
            strcmp(error.param, cases[i].param) != 0 ||
            strncmp(error.message, cases[i].message, strlen(cases[i].message)) != 0)
            fail_msg("%s\n  says   %d %s [%s] %s\n  wanted 400 %s [%s] %s", cases[i].body,
                     error.status, error.type, error.param, error.message, type, cases[i].param,
                     cases[i].message);
        api_request_free(&r);
    }
}
#define CHECK_BAD(kind, type, cases) check_bad(kind, type, cases, sizeof(cases) / sizeof(cases[0]))
#define V "1 validation error: "

static void malformed_requests(void **state)
{
    (void)state;
    static const struct bad_case cases[] = {
        {"", "", V "the request: not valid JSON at byte 0"},
        {"{", "", V "the request: not valid JSON"},
        {"{\"a\": 1,}", "", V "the request: not valid JSON"},
        {"{} {}", "", V "the request: not valid JSON: something follows"},
        {"null", "", V "the request: the JSON value is null"},
        {"[]", "", V "the request is not a JSON object"},
        {"\"x\"", "", V "the request is not a JSON object"},
        {"{'a': 1}", "", V "the request: not valid JSON"},
        {"{\"a\": \"\xff\"}", "", V "the request: not valid JSON"},
        {"{}", "messages", V "messages is missing"},
        {"{\"messages\": null}", "messages", V "messages is missing"},
        {"{\"messages\": []}", "messages", V "messages must not be empty"},
        {"{\"messages\": \"hi\"}", "messages", V "messages must be an array, got \"hi\""},
        {"{\"messages\": {}}", "messages", V "messages must be an array, got an object"},
        {"{\"messages\": [7]}", "messages[0]", V "messages[0] must be an object, got 7"},
        {"{\"messages\": [null]}", "messages[0]", V "messages[0] must be an object, got null"},
        {"{\"messages\": [{}]}", "messages[0].role", V "messages[0].role is missing"},
        {"{\"messages\": [{\"role\": \"robot\", \"content\": \"\"}]}", "messages[0].role",
         V "messages[0].role must be \"system\""},
        {"{\"messages\": [{\"role\": \"user\\u0000\", \"content\": \"\"}]}", "messages[0].role",
         V "messages[0].role must be"},
        {"{\"messages\": [{\"role\": 1, \"content\": \"\"}]}", "messages[0].role",
         V "messages[0].role must be"},
        {"{\"messages\": [{\"role\": \"user\"}]}", "messages[0].content",
         V "messages[0].content is missing"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": 5}]}", "messages[0].content",
         V "messages[0].content must be a string or an array"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [5]}]}", "messages[0].content[0]",
         V "messages[0].content[0] must be an object, got 5"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{}]}]}", "messages[0].content[0].type",
         V "messages[0].content[0].type must be \"text\""},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]}",
         "messages[0].content[0].text", V "messages[0].content[0].text is missing"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": 3}]}]}",
         "messages[0].content[0].text", V "messages[0].content[0].text must be a string, got 3"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [\"a\", {\"type\": \"image_url\"}]}]}",
         "messages[0].content[1].image_url", V "messages[0].content[1].image_url is missing"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", "
         "\"image_url\": {}}]}]}",
         "messages[0].content[0].image_url.url",
         V "messages[0].content[0].image_url.url is missing"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", "
         "\"image_url\": {\"url\": 1}}]}]}",
         "messages[0].content[0].image_url.url",
         V "messages[0].content[0].image_url.url must be a string"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", "
         "\"image_url\": [1]}]}]}",
         "messages[0].content[0].image_url", V "messages[0].content[0].image_url must be a string"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", "
         "\"image_url\": {\"url\": \"" PNG "\", \"detail\": "
         "\"medium\"}}]}]}",
         "messages[0].content[0].image_url.detail",
         V "messages[0].content[0].image_url.detail must be \"low\", \"high\", \"original\" or "
           "\"auto\", got "
           "\"medium\""},
    };
    CHECK_BAD(API_CHAT, "Bad Request", cases);
}

static void values_out_of_range(void **state)
{
    (void)state;
    static const struct bad_case cases[] = {
        {"{" USER ", \"max_tokens\": 0}", "max_tokens",
         V "max_tokens must be an integer from 1 to 1048576, got 0"},
        {"{" USER ", \"max_tokens\": 1048577}", "max_tokens", V "max_tokens must be"},
        {"{" USER ", \"max_tokens\": 1.5}", "max_tokens", V "max_tokens must be"},
        {"{" USER ", \"max_tokens\": \"5\"}", "max_tokens",
         V "max_tokens must be an integer from 1 to 1048576, got \"5\""},
        {"{" USER ", \"max_tokens\": true}", "max_tokens", V "max_tokens must be"},
        {"{" USER ", \"max_completion_tokens\": -1}", "max_completion_tokens",
         V "max_completion_tokens must be"},
        {"{" USER ", \"temperature\": -0.1}", "temperature",
         V "temperature must be in [0, 2], got -0.1"},
        {"{" USER ", \"temperature\": 2.1}", "temperature",
         V "temperature must be in [0, 2], got 2.1"},
        {"{" USER ", \"temperature\": NaN}", "temperature",
         V "temperature must be in [0, 2], got NaN"},
        {"{" USER ", \"temperature\": 1e999}", "temperature", V "temperature must be in [0, 2]"},
        {"{" USER ", \"temperature\": \"hot\"}", "temperature",
         V "temperature must be a number in [0, 2], got \"hot\""},
        {"{" USER ", \"top_p\": -0.01}", "top_p", V "top_p must be in [0, 1], got -0.01"},
        {"{" USER ", \"top_p\": 1.01}", "top_p", V "top_p must be in [0, 1], got 1.01"},
        {"{" USER ", \"min_tokens\": -1}", "min_tokens", V "min_tokens must be an integer from 0"},
        {"{" USER ", \"min_tokens\": \"4\"}", "min_tokens", V "min_tokens must be an integer"},
        {"{" USER ", \"top_k\": -2}", "top_k",
         V "top_k must be an integer from -1 to 2147483647, got -2"},
        {"{" USER ", \"top_k\": 99999999999999999999}", "top_k", V "top_k must be"},
        {"{" USER ", \"min_p\": 1.5}", "min_p", V "min_p must be in [0, 1]"},
        {"{" USER ", \"repetition_penalty\": 0}", "repetition_penalty",
         V "repetition_penalty must be in (0, 100]"},
        {"{" USER ", \"presence_penalty\": -2.5}", "presence_penalty",
         V "presence_penalty must be in [-2, 2]"},
        {"{" USER ", \"frequency_penalty\": 2.5}", "frequency_penalty",
         V "frequency_penalty must be in [-2, 2]"},
        {"{" USER ", \"seed\": 1.25}", "seed", V "seed must be an integer"},
        {"{" USER ", \"seed\": 9223372036854775808}", "seed", V "seed must be an integer"},
        {"{" USER ", \"seed\": 18446744073709551616}", "seed", V "seed must be an integer"},
        {"{" USER ", \"n\": 0}", "n", V "n must be an integer from 1 to 8, got 0"},
        {"{" USER ", \"n\": 9}", "n", V "n must be an integer from 1 to 8, got 9"},
        {"{" USER ", \"n\": 1e300}", "n", V "n must be an integer"},
        {"{" USER ", \"stop\": 3}", "stop",
         V "stop must be a string or an array of strings, got 3"},
        {"{" USER ", \"stop\": \"\"}", "stop", V "stop must not be empty"},
        {"{" USER ", \"stop\": [\"a\", \"\"]}", "stop[1]", V "stop[1] must not be empty"},
        {"{" USER ", \"stop\": [\"a\\u0000b\"]}", "stop[0]", V "stop[0] must not contain a NUL"},
        {"{" USER ", \"stop\": [\"a\", 5]}", "stop[1]", V "stop[1] must be a string, got 5"},
        {"{" USER ", \"stop\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", "stop",
         V "stop has 17 items; the limit is 16"},
        {"{" USER ", \"stop_token_ids\": [1000]}", "stop_token_ids[0]",
         V "stop_token_ids[0] must be a token id from 0 to 999, got 1000"},
        {"{" USER ", \"stop_token_ids\": [1, -1]}", "stop_token_ids[1]",
         V "stop_token_ids[1] must be a token id"},
        {"{" USER ", \"stop_token_ids\": 5}", "stop_token_ids",
         V "stop_token_ids must be an array"},
        {"{" USER ", \"ignore_eos\": 1}", "ignore_eos",
         V "ignore_eos must be true or false, got 1"},
        {"{" USER ", \"logprobs\": 3}", "logprobs", V "logprobs must be true or false, got 3"},
        {"{" USER ", \"logprobs\": true, \"top_logprobs\": 21}", "top_logprobs",
         V "top_logprobs must be an integer from 0 to 20, got 21"},
        {"{" USER ", \"logit_bias\": [1]}", "logit_bias", V "logit_bias must be an object"},
        {"{" USER ", \"logit_bias\": {\"1000\": 1}}", "logit_bias",
         V "logit_bias: \"1000\" is not a token id from 0 to 999"},
        {"{" USER ", \"logit_bias\": {\"-1\": 1}}", "logit_bias", V "logit_bias: \"-1\" is not"},
        {"{" USER ", \"logit_bias\": {\"cat\": 1}}", "logit_bias", V "logit_bias: \"cat\" is not"},
        {"{" USER ", \"logit_bias\": {\"99999999999999999999\": 1}}", "logit_bias",
         V "logit_bias: \"99999999999999999999\" is not"},
        {"{" USER ", \"logit_bias\": {\"5\": \"x\"}}", "logit_bias.5",
         V "logit_bias.5 must be a number, got \"x\""},
        {"{" USER ", \"stream\": \"yes\"}", "stream",
         V "stream must be true or false, got \"yes\""},
        {"{" USER ", \"stream\": true, \"stream_options\": 5}", "stream_options",
         V "stream_options must be an object, got 5"},
        {"{" USER ", \"stream\": true, \"stream_options\": {\"include_usage\": 1}}",
         "stream_options.include_usage", V "stream_options.include_usage must be true or false"},
        {"{" USER ", \"model\": 5}", "model", V "model must be a string, got 5"},
        {"{" USER ", \"model\": \"a\\u0000\"}", "model", V "model must not contain a NUL"},
        {"{" USER ", \"mm_processor_kwargs\": 3}", "mm_processor_kwargs",
         V "mm_processor_kwargs must be an object"},
        {"{" USER ", \"mm_processor_kwargs\": {\"max_pixels\": 0}}",
         "mm_processor_kwargs.max_pixels", V "mm_processor_kwargs.max_pixels must be"},
        {"{" USER ", \"mm_processor_kwargs\": {\"max_pixels\": -5}}",
         "mm_processor_kwargs.max_pixels", V "mm_processor_kwargs.max_pixels must be"},
        {"{" USER ", \"mm_processor_kwargs\": {\"min_pixels\": 9, \"max_pixels\": 8}}",
         "mm_processor_kwargs", V "mm_processor_kwargs: min_pixels is larger than max_pixels"},
        {"{" USER ", \"chat_template_kwargs\": {\"add_vision_id\": 1}}",
         "chat_template_kwargs.add_vision_id",
         V "chat_template_kwargs.add_vision_id must be true or false"},
        {"{" USER ", \"parallel_tool_calls\": 0}", "parallel_tool_calls",
         V "parallel_tool_calls must be true or false"},
        {"{" USER ", \"tools\": {}}", "tools", V "tools must be an array"},
        {"{" USER ", \"response_format\": {\"type\": \"text\\u0000x\"}}", "response_format.type",
         V "response_format.type must be \"text\", \"json_object\" or \"json_schema\", got "
           "\"text\\u0000x\""},
        {"{" USER ", \"tools\": [" TOOL "], \"tool_choice\": {\"type\": \"function\\u0000\", "
         "\"function\": {\"name\": \"f\"}}}",
         "tool_choice.type",
         V "tool_choice.type must be \"function\" or \"allowed_tools\", got \"function\\u0000\""},
        {"{" USER ", \"tools\": [1]}", "tools[0]", V "tools[0] must be an object"},
        {"{" USER ", \"tools\": [{\"type\": \"web\"}]}", "tools[0].type",
         V "tools[0].type must be \"function\", got \"web\""},
        {"{" USER ", \"tools\": [{\"type\": \"function\"}]}", "tools[0].function",
         V "tools[0].function is missing"},
        {"{" USER ", \"tools\": [{\"function\": {}}]}", "tools[0].function.name",
         V "tools[0].function.name is missing"},
        {"{" USER ", \"tools\": [{\"function\": {\"name\": \"\"}}]}", "tools[0].function.name",
         V "tools[0].function.name must not be empty"},
        {"{" USER ", \"tools\": [" TOOL "], \"tool_choice\": \"maybe\"}", "tool_choice",
         V "tool_choice must be \"auto\", \"none\", \"required\", a named function or "
           "allowed_tools, got \"maybe\""},
        {"{" USER ", \"tools\": [" TOOL "], \"tool_choice\": {\"type\": \"custom\"}}",
         "tool_choice.type", V "tool_choice.type must be \"function\" or \"allowed_tools\""},
        {"{" USER ", \"tools\": [" TOOL "], \"tool_choice\": {\"type\": \"allowed_tools\"}}",
         "tool_choice.allowed_tools", V "tool_choice.allowed_tools is missing"},
        {"{" USER ", \"tools\": [" TOOL "], \"tool_choice\": " ALLOWED("all", "f") "}",
         "tool_choice.allowed_tools.mode",
         V "tool_choice.allowed_tools.mode must be \"auto\" or \"required\", got \"all\""},
        {"{" USER ", \"tools\": [" TOOL "], \"tool_choice\": {\"type\": \"allowed_tools\", "
         "\"allowed_tools\": {\"mode\": \"auto\", \"tools\": []}}}",
         "tool_choice.allowed_tools.tools", V "tool_choice.allowed_tools.tools must not be empty"},
        {"{" USER ", \"tools\": [" TOOL "], \"tool_choice\": {}}", "tool_choice.function",
         V "tool_choice.function is missing"},
        {"{" USER ", \"tools\": [" TOOL "], \"tool_choice\": {\"function\": {}}}",
         "tool_choice.function.name", V "tool_choice.function.name is missing"},
        {"{" USER ", \"tools\": [" TOOL "], \"tool_choice\": {\"function\": {\"name\": 5}}}",
         "tool_choice.function.name", V "tool_choice.function.name must be a string"},
        {"{" USER ", \"tools\": [" TOOL
         ", {\"function\": {\"name\": \"g\", \"parameters\": []}}], \"tool_choice\": \"required\"}",
         "tools[1].function.parameters", V "tools[1].function.parameters must be an object"},
        {"{" USER ", \"tools\": [{\"function\": {\"name\": \"g\", \"parameters\": {\"type\": "
         "\"string\"}}}], \"tool_choice\": \"required\"}",
         "tools[0].function.parameters.type",
         V "tools[0].function.parameters.type must be \"object\", got \"string\""},
        {"{" USER ", \"response_format\": 5}", "response_format",
         V "response_format must be an object, got 5"},
        {"{" USER ", \"response_format\": {}}", "response_format.type",
         V "response_format.type is missing"},
        {"{" USER ", \"response_format\": {\"type\": \"xml\"}}", "response_format.type",
         V "response_format.type must be \"text\", \"json_object\" or"},
        {"{" USER ", \"response_format\": {\"type\": \"json_schema\"}}",
         "response_format.json_schema", V "response_format.json_schema is missing"},
        {"{" USER ", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": {}}}",
         "response_format.json_schema.schema", V "response_format.json_schema.schema is missing"},
        {"{" USER ", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": "
         "1, \"schema\": {}}}}",
         "response_format.json_schema.name", V "response_format.json_schema.name must be a string"},
        {"{" USER ", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": "
         "{\"strict\": 1, \"schema\": {}}}}",
         "response_format.json_schema.strict",
         V "response_format.json_schema.strict must be true or false"},
        {"{" USER
         ", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"schema\": true}}}",
         "response_format.json_schema.schema",
         V "response_format.json_schema.schema must be an object"},
        {"{" USER ", \"structured_outputs\": []}", "structured_outputs",
         V "structured_outputs must be an object"},
        {"{" USER ", \"structured_outputs\": {\"json\": 5}}", "structured_outputs.json",
         V "structured_outputs.json must be an object or a string of JSON"},
        {"{" USER ", \"structured_outputs\": {\"regex\": {}}}", "structured_outputs.regex",
         V "structured_outputs.regex must be a string"},
        {"{" USER ", \"structured_outputs\": {\"choice\": \"a\"}}", "structured_outputs.choice",
         V "structured_outputs.choice must be an array"},
        {"{" USER ", \"structured_outputs\": {\"choice\": []}}", "structured_outputs.choice",
         V "structured_outputs.choice must not be empty"},
        {"{" USER ", \"structured_outputs\": {\"choice\": [\"a\", 7]}}",
         "structured_outputs.choice[1]", V "structured_outputs.choice[1] must be a string"},
        {"{" USER ", \"guided_choice\": [\"\"]}", "guided_choice[0]",
         V "guided_choice[0] must not be empty"},
        {"{" USER ", \"structured_outputs\": {\"json_object\": 1}}",
         "structured_outputs.json_object",
         V "structured_outputs.json_object must be true or false"},
        {"{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{}]}]}",
         "messages[0].tool_calls[0].function", V "messages[0].tool_calls[0].function is missing"},
        {"{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [5]}]}",
         "messages[0].tool_calls[0].function", V "messages[0].tool_calls[0].function is missing"},
        {"{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{\"function\": "
         "{\"arguments\": \"{}\"}}]}]}",
         "messages[0].tool_calls[0].function.name",
         V "messages[0].tool_calls[0].function.name is missing"},
        {"{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": "
         "\"f\", \"arguments\": 5}}]}]}",
         "messages[0].tool_calls[0].function.arguments",
         V "messages[0].tool_calls[0].function.arguments must be a string"},
    };
    CHECK_BAD(API_CHAT, "Bad Request", cases);
}

static void combinations_that_are_refused(void **state)
{
    (void)state;
    static const struct bad_case cases[] = {
        {"{" USER ", \"stream_options\": {\"include_usage\": true}}", "stream_options",
         "Stream options can only be defined when `stream=True`."},
        {"{" USER ", \"stream\": false, \"stream_options\": {\"x\": 1}}", "stream_options",
         "Stream options can only be defined when `stream=True`."},
        {"{" USER ", \"top_logprobs\": 3}", "top_logprobs",
         "when using `top_logprobs`, `logprobs` must be set to true."},
        {"{" USER ", \"tool_choice\": \"auto\"}", "tool_choice",
         "When using `tool_choice`, `tools` must be set."},
        {"{" USER ", \"tools\": [" TOOL "], \"tool_choice\": " ALLOWED("auto", "g") "}",
         "tool_choice.allowed_tools.tools[0].function.name",
         "The tool specified in `tool_choice` does not match any of the specified `tools`: g"},
        {"{" USER ", \"tool_choice\": \"required\"}", "tool_choice",
         "When using `tool_choice`, `tools` must be set."},
        {"{" USER ", \"tools\": [], \"tool_choice\": {\"function\": {\"name\": \"f\"}}}",
         "tool_choice", "When using `tool_choice`, `tools` must be set."},
        {"{" USER ", \"tools\": [" TOOL
         "], \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"g\"}}}",
         "tool_choice.function.name",
         "The tool specified in `tool_choice` does not match any of the specified `tools`: g"},
        {"{" USER ", \"tools\": [" TOOL ", {\"function\": {\"name\": \"g\", \"parameters\": "
         "{\"properties\": {\"a\": {\"not\": {}}}}}}], "
         "\"tool_choice\": \"required\"}",
         "tools[1].function.parameters",
         "tools[1].function.parameters: #/properties/a: the keyword \"not\" is not supported"},
        {"{" USER ", \"tools\": [" TOOL
         ", {\"function\": {\"name\": \"g\", \"parameters\": {\"not\": {}}}}], "
         "\"tool_choice\": {\"function\": {\"name\": \"g\"}}}",
         "tools[1].function.parameters",
         "tools[1].function.parameters: #: the keyword \"not\" is not supported"},
        {"{" USER ", \"response_format\": {\"type\": \"structural_tag\", \"structures\": []}}",
         "response_format.type", "response_format structural_tag is not supported"},
        {"{" USER ", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": "
         "\"n\", \"schema\": {\"type\": \"object\", "
         "\"properties\": {\"x\": {\"type\": \"array\", \"contains\": {}}}}}}}",
         "response_format.json_schema.schema",
         "response_format.json_schema.schema: #/properties/x: the keyword \"contains\" is not "
         "supported"},
        {"{" USER ", \"modalities\": [\"text\\u0000\"]}", "modalities", "modalities other than"},
        {"{" USER ", \"structured_outputs\": {\"grammar\": \"root ::= a\"}}",
         "structured_outputs.grammar", "structured_outputs.grammar is not supported"},
        {"{" USER ", \"structured_outputs\": {\"structural_tag\": \"{}\"}}",
         "structured_outputs.structural_tag", "structured_outputs.structural_tag is not supported"},
        {"{" USER ", \"structured_outputs\": {\"json\": \"{\"}}", "structured_outputs.json",
         "structured_outputs.json: JSON schema: not valid JSON"},
        {"{" USER ", \"structured_outputs\": {\"regex\": \"(\"}}", "structured_outputs.regex",
         "structured_outputs.regex: "},
        {"{" USER ", \"structured_outputs\": {\"json\": {}, \"regex\": \"a\"}}",
         "structured_outputs.regex",
         "structured_outputs.json and structured_outputs.regex cannot both be given"},
        {"{" USER ", \"guided_choice\": [\"a\"], \"guided_json\": {}}", "guided_choice",
         "guided_json and guided_choice cannot both be given"},
        {"{" USER ", \"guided_regex\": \"a\", \"response_format\": {\"type\": \"json_object\"}}",
         "guided_regex", "response_format and guided_regex cannot both be given"},
        {"{" USER ", \"structured_outputs\": {\"choice\": [\"a\"]}, \"response_format\": "
         "{\"type\": \"json_schema\", \"json_schema\": "
         "{\"schema\": {}}}}",
         "structured_outputs.choice",
         "response_format.json_schema.schema and structured_outputs.choice cannot both be given"},
        {"{" USER ", \"tools\": [" TOOL
         "], \"tool_choice\": \"required\", \"response_format\": {\"type\": \"json_object\"}}",
         "tool_choice", "response_format and tool_choice cannot both be given"},
        {"{" USER ", \"guided_json\": {\"type\": \"integer\", \"minimum\": 3, \"maximum\": 2}}",
         "guided_json", "guided_json: "},
        {"{" USER ", \"guided_regex\": \"(?=a)\"}", "guided_regex", "guided_regex: "},
        {"{" USER ", \"guided_grammar\": \"root ::= a\"}", "guided_grammar",
         "guided_grammar is not supported"},
        {"{" USER ", \"structural_tag\": \"{}\"}", "structural_tag",
         "structural_tag is not supported"},
        {"{" USER ", \"functions\": [{\"name\": \"f\"}]}", "functions",
         "functions is not supported"},
        {"{" USER ", \"modalities\": [\"text\", \"audio\"]}", "modalities",
         "modalities other than"},
        {"{" USER ", \"continue_final_message\": true}", "continue_final_message",
         "Cannot set both `continue_final_message` and `add_generation_prompt` to True."},
        {"{" USER ", \"add_generation_prompt\": false}", "add_generation_prompt",
         "add_generation_prompt false is not supported"},
        {"{" USER ", \"min_tokens\": 8, \"max_tokens\": 7}", "min_tokens",
         "min_tokens must be less than or equal to max_tokens=7, got 8."},
        {"{" USER ", \"n\": 2, \"best_of\": 3}", "best_of",
         "best_of other than n is not supported"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"video_url\", "
         "\"video_url\": {\"url\": \"x\"}}]}]}",
         "messages[0].content[0].video_url", "messages[0].content[0]: video_url is not supported"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_audio\", "
         "\"input_audio\": {}}]}]}",
         "messages[0].content[0].input_audio",
         "messages[0].content[0]: input_audio is not supported"},
        {"{\"messages\": [{\"role\": \"system\", \"content\": [{\"type\": \"image_url\", "
         "\"image_url\": \"" PNG "\"}]}]}",
         "messages[0].content[0]",
         "messages[0].content[0]: an image cannot be in a message of the system"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"x\", \"tool_calls\": [{\"function\": "
         "{\"name\": \"f\"}}]}]}",
         "messages[0].tool_calls",
         "messages[0].tool_calls: tool calls belong to the assistant, not to the user"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"image_url\": \"" PNG
         "\"}, {\"image_url\": \"" PNG "\"}]}, {\"role\": \"user\", "
         "\"content\": [{\"image_url\": \"" PNG "\"}, {\"image_url\": \"" PNG "\"}]}]}",
         "messages[1].content[1]", "At most 3 image(s) may be provided in one prompt."},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [\"see\", {\"type\": \"image_url\", "
         "\"image_url\": {\"url\": \"http://example.com/a.png\"}}]}]}",
         "messages[0].content[1].image_url.url", ""},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", "
         "\"image_url\": {\"url\": \"file:///etc/passwd\"}}]}]}",
         "messages[0].content[0].image_url.url", ""},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", "
         "\"image_url\": {\"url\": \"/etc/passwd\"}}]}]}",
         "messages[0].content[0].image_url.url", ""},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", "
         "\"image_url\": \"data:image/png;base64,!!\"}]}]}",
         "messages[0].content[0].image_url", ""},
    };
    CHECK_BAD(API_CHAT, "BadRequestError", cases);
}

static void completions_refused(void **state)
{
    (void)state;
    static const struct bad_case values[] = {
        {"{}", "prompt", V "prompt is missing"},
        {"{\"prompt\": \"\"}", "prompt", V "prompt must not be empty"},
        {"{\"prompt\": []}", "prompt", V "prompt must not be empty"},
        {"{\"prompt\": [[]]}", "prompt[0]", V "prompt[0] must not be empty"},
        {"{\"prompt\": [\"a\", \"\"]}", "prompt[1]", V "prompt[1] must not be empty"},
        {"{\"prompt\": 5}", "prompt", V "prompt must be a string, or an array"},
        {"{\"prompt\": {}}", "prompt", V "prompt must be a string, or an array"},
        {"{\"prompt\": [1, \"a\"]}", "prompt[1]",
         V "prompt[1] must be a token id from 0 to 999, got \"a\""},
        {"{\"prompt\": [\"a\", 1]}", "prompt[1]",
         V "prompt[1] must be of the same kind as the first prompt, got 1"},
        {"{\"prompt\": [[1], \"a\"]}", "prompt[1]", V "prompt[1] must be of the same kind"},
        {"{\"prompt\": [1000]}", "prompt[0]", V "prompt[0] must be a token id"},
        {"{\"prompt\": [[1], [2, 1000]]}", "prompt[1][1]", V "prompt[1][1] must be a token id"},
        {"{\"prompt\": [null]}", "prompt[0]",
         V "prompt[0] must be a token id from 0 to 999, got null"},
        {"{\"prompt\": \"a\", \"logprobs\": 21}", "logprobs",
         V "logprobs must be an integer from 0 to 20, got 21"},
        {"{\"prompt\": \"a\", \"logprobs\": true}", "logprobs",
         V "logprobs must be an integer from 0 to 20, got true"},
        {"{\"prompt\": \"a\", \"max_tokens\": 0}", "max_tokens", V "max_tokens must be"},
        {"{\"prompt\": \"a\", \"prompt_logprobs\": \"all\"}", "prompt_logprobs",
         V "prompt_logprobs must be an integer"},
    };
    static const struct bad_case rules[] = {
        {"{\"prompt\": \"a\", \"suffix\": \"z\"}", "suffix", "suffix is not supported"},
        {"{\"prompt\": \"a\", \"best_of\": 2}", "best_of", "best_of other than n is not supported"},
        {"{\"prompt\": \"a\", \"prompt_logprobs\": 21}", "prompt_logprobs",
         "Requested prompt logprobs of 21, which is greater than max allowed: 20"},
        {"{\"prompt\": \"a\", \"prompt_logprobs\": -1}", "prompt_logprobs",
         "Requested prompt logprobs of 1000, which is greater than max allowed: 20"},
        {"{\"prompt\": \"a\", \"prompt_logprobs\": -2}", "prompt_logprobs",
         "`prompt_logprobs` must be a positive value or -1."},
        {"{\"prompt\": \"a\", \"prompt_logprobs\": 1, \"stream\": true}", "prompt_logprobs",
         "`prompt_logprobs` are not available when `stream=True`."},
        {"{\"prompt\": \"a\", \"use_beam_search\": true}", "use_beam_search",
         "use_beam_search is not supported"},
    };
    static const struct bad_case tokenize[] = {
        {"{}", "prompt", V "prompt is missing"},
        {"{\"prompt\": [1]}", "prompt", V "prompt must be a string"},
        {"{\"prompt\": [\"a\"]}", "prompt", V "prompt must be a string"},
    };
    static const struct bad_case detokenize[] = {
        {"{}", "tokens", V "tokens is missing"},
        {"{\"tokens\": \"1\"}", "tokens", V "tokens must be an array"},
        {"{\"tokens\": [1, 1000]}", "tokens[1]", V "tokens[1] must be a token id"},
    };
    CHECK_BAD(API_COMPLETION, "Bad Request", values);
    CHECK_BAD(API_COMPLETION, "BadRequestError", rules);
    CHECK_BAD(API_TOKENIZE, "Bad Request", tokenize);
    CHECK_BAD(API_DETOKENIZE, "Bad Request", detokenize);
}

static void strict_servers_refuse_unknown_fields(void **state)
{
    (void)state;
    static const char *const bodies[][2] = {
        {"{" USER ", \"foo\": 1}", "foo"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"x\", \"bar\": 1}]}",
         "messages[].bar"},
        {"{" USER ", \"stream\": true, \"stream_options\": {\"x\": 1}}", "stream_options.x"},
    };
    struct api_limits l = limits();
    l.strict = true;
    for (size_t i = 0; i < 3; i++) {
        struct api_request r;
        struct api_error error;
        assert_false(parse_within(&r, API_CHAT, bodies[i][0], &l, &error));
        assert_string_equal(error.param, bodies[i][1]);
        assert_non_null(strstr(error.message, "Unrecognized request argument supplied: "));
        api_request_free(&r);
    }
    struct api_request r;
    struct api_error error;
    assert_true(
        parse_within(&r, API_CHAT, "{" USER ", \"user\": \"u\", \"nothing\": null}", &l, &error));
    api_request_free(&r);
}

/* An equal format reuses the compiled grammar; any other gets its own. */
static void grammars_are_kept_between_requests(void **state)
{
    (void)state;
#define LOOSE                                                                               \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": " \
    "{\"properties\": {\"a\": {\"type\": \"integer\"}}}}}]"
    static const char *const bodies[] = {
        "{" USER ", \"guided_json\": {\"type\": \"integer\"}}",
        "{" USER ", \"guided_json\": {\"type\": \"string\"}}",
        "{" USER ", \"guided_regex\": \"a\"}",
        "{" USER ", \"guided_choice\": [\"a\"]}",
        "{" USER ", \"guided_choice\": [\"a\", \"b\"]}",
        "{" USER ", \"response_format\": {\"type\": \"json_object\"}}",
        "{" USER ", " LOOSE ", \"tool_choice\": \"required\"}",
        "{" USER ", " LOOSE ", \"tool_choice\": \"required\", \"parallel_tool_calls\": false}",
        "{" USER ", " LOOSE
        ", \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"f\"}}}",
        "{" USER ", " LOOSE ", \"tool_choice\": " ALLOWED("required", "f") "}",
    };
#undef LOOSE
    enum { BODIES = sizeof(bodies) / sizeof(bodies[0]) };
    const ey_grammar *first[BODIES];
    struct api_limits l = limits();
    ey_err e;
    assert_true(ey_grammar_cache_open(&l.grammars, 1 << 20, &e));
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < BODIES; i++) {
            struct api_request r;
            struct api_error error;
            if (!parse_within(&r, API_CHAT, bodies[i], &l, &error)) fail_msg("%s", error.message);
            if (!round) first[i] = r.request.grammar;
            assert_ptr_equal(r.request.grammar, first[i]);
            for (int k = 0; k < i; k++)
                assert_ptr_not_equal(first[i], first[k]);
            api_request_free(&r);
        }
    ey_grammar_cache_close(&l.grammars);
}

/* Grammars of tool calls depend on the model. A model without tool calls has none, since it refuses
 * the prompt. */
static void grammars_of_calls_are_the_models(void **state)
{
    (void)state;
    static const ey_tool_format *const formats[] = {&hermes_tool_calls, &toy_tool_calls,
                                                    &hermes_dumped_tool_calls, NULL};
    const ey_grammar *grammars[4];
    struct api_limits l = limits();
    ey_err e;
    assert_true(ey_grammar_cache_open(&l.grammars, 1 << 20, &e));
    for (int i = 0; i < 4; i++) {
        struct api_request r;
        struct api_error error;
        l.tool_format = formats[i];
        if (!parse_within(&r, API_CHAT,
                          "{" USER ", \"tools\": [" TOOL "], \"tool_choice\": \"required\"}", &l,
                          &error))
            fail_msg("%s", error.message);
        assert_true(r.tools_given);
        grammars[i] = r.request.grammar;
        api_request_free(&r);
    }
    assert_non_null(grammars[0]);
    assert_non_null(grammars[1]);
    assert_ptr_not_equal(grammars[0], grammars[1]);
    assert_ptr_equal(grammars[0], grammars[2]);
    assert_null(grammars[3]);
    ey_grammar_cache_close(&l.grammars);
}

static void grammars_are_charged(void **state)
{
    (void)state;
    enum { TOTAL = 64 << 20 };
    static const char body[] = "{" USER ", \"structured_outputs\": {\"regex\": \"[a-z]{1,50}\"}}";
    struct api_limits l = limits();
    struct media_policy policy = {.budget = ey_budget_create(TOTAL)};
    struct api_request r;
    struct api_error error;
    ey_err e;
    l.media = &policy;
    assert_true(ey_grammar_cache_open(&l.grammars, 1 << 20, &e));
    for (int i = 0; i < 2; i++) { /* compiled, then from the cache */
        assert_true(parse_within(&r, API_CHAT, body, &l, &error));
        assert_int_equal(ey_budget_used(policy.budget), ey_grammar_bytes(r.request.grammar));
        api_request_free(&r);
        assert_int_equal(ey_budget_used(policy.budget), 0);
    }
    /* other requests hold memory that compiling needs */
    assert_true(ey_budget_acquire(policy.budget, TOTAL / 2 + 1, 0));
    assert_true(parse_within(&r, API_CHAT, body, &l, &error));
    api_request_free(&r);
    assert_false(parse_within(
        &r, API_CHAT, "{" USER ", \"structured_outputs\": {\"regex\": \"b\"}}", &l, &error));
    assert_int_equal(error.status, 503);
    assert_non_null(strstr(error.message, "--host-memory"));
    api_request_free(&r);
    ey_budget_release(policy.budget, TOTAL / 2 + 1);
    assert_int_equal(ey_budget_used(policy.budget), 0);
    ey_grammar_cache_close(&l.grammars);
    ey_budget_free(&policy.budget);
}

/* The values of a schema take more memory than its text, also if the schema is in a string. */
static void schemas_in_strings_are_charged(void **state)
{
    (void)state;
    enum { TOTAL = 512 << 20, FREE = 64 << 20, SCHEMA_BYTES = 250 << 10 };
    struct api_limits l = limits();
    struct media_policy policy = {.budget = ey_budget_create(TOTAL)};
    struct buf body = buf_with_max(1 << 20);
    struct api_request r;
    struct api_error error;
    ey_err e;
    l.media = &policy;
    assert_true(ey_grammar_cache_open(&l.grammars, 1 << 20, &e));
    buf_add_text(&body, "{" USER ", \"guided_json\": \"{\\\"enum\\\": [{}");
    while (body.size < SCHEMA_BYTES)
        buf_add_text(&body, ",{}");
    buf_add_text(&body, "]}\"}");
    assert_true(ey_budget_acquire(policy.budget, TOTAL - FREE, 0));
    assert_false(parse_within(&r, API_CHAT, body.data, &l, &error));
    assert_int_equal(error.status, 503);
    api_request_free(&r);
    ey_budget_release(policy.budget, TOTAL - FREE);
    ey_grammar_cache_close(&l.grammars);
    ey_budget_free(&policy.budget);
    buf_free(&body);
}

/* ---- thoughts and loops ---- */

/* The first of switch, effort and server that is set decides; a budget of 0 means off. */
static void thinking_is_chosen_in_order(void **state)
{
    static const struct {
        const char *body;
        ey_thinking server, wanted;
        int budget;
    } cases[] = {
        {"", EY_THINKING_AUTO, EY_THINKING_AUTO, 0},
        {"", EY_THINKING_OFF, EY_THINKING_OFF, 0},
        {", \"reasoning_effort\": \"low\"", EY_THINKING_OFF, EY_THINKING_ON, 0},
        {", \"reasoning_effort\": \"none\"", EY_THINKING_ON, EY_THINKING_OFF, 0},
        {", \"reasoning_effort\": \"high\", \"chat_template_kwargs\": {\"enable_thinking\": false}",
         EY_THINKING_ON, EY_THINKING_OFF, 0},
        {", \"reasoning_effort\": \"none\", \"chat_template_kwargs\": {\"enable_thinking\": true}",
         EY_THINKING_AUTO, EY_THINKING_ON, 0},
        {", \"chat_template_kwargs\": {\"thinking_budget\": 9}", EY_THINKING_AUTO, EY_THINKING_AUTO,
         9},
        {", \"thinking_budget_tokens\": 5, \"thinking_token_budget\": 7", EY_THINKING_AUTO,
         EY_THINKING_AUTO, 7},
        {", \"thinking_token_budget\": 0", EY_THINKING_ON, EY_THINKING_OFF, 0},
        {", \"thinking_token_budget\": -1, \"max_tokens\": 9", EY_THINKING_AUTO, EY_THINKING_AUTO,
         0},
        /* no tokens are kept for the answer by default */
        {", \"max_tokens\": 9", EY_THINKING_AUTO, EY_THINKING_AUTO, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_limits l = limits();
        struct api_request r;
        struct api_error error = {0};
        char body[512];
        l.thinks = true;
        l.thinking = cases[i].server;
        snprintf(body, sizeof(body), "{" USER "%s}", cases[i].body);
        if (!parse_within(&r, API_CHAT, body, &l, &error)) fail_msg("%s: %s", body, error.message);
        if (r.request.thinking != cases[i].wanted || r.request.thinking_budget != cases[i].budget)
            fail_msg("%s: %d, budget %d", body, (int)r.request.thinking, r.request.thinking_budget);
        api_request_free(&r);
    }
}

/* A request to think before a continued answer gets a note that there is no thought. */
static void no_thought_in_continued_answers(void **state)
{
    static const struct {
        const char *body;
        bool told;
    } cases[] = {{"", false},
                 {", \"reasoning_effort\": \"high\"", true},
                 {", \"chat_template_kwargs\": {\"enable_thinking\": true}", true},
                 {", \"reasoning_effort\": \"high\", \"chat_template_kwargs\": "
                  "{\"enable_thinking\": false}",
                  false}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_limits l = limits();
        struct api_request r;
        struct api_error error = {0};
        char body[512];
        l.thinks = true;
        snprintf(body, sizeof(body),
                 "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}], "
                 "\"continue_final_message\": true, \"add_generation_prompt\": false%s}",
                 cases[i].body);
        if (!parse_within(&r, API_CHAT, body, &l, &error)) fail_msg("%s: %s", body, error.message);
        const bool told = r.notes.size && strstr(r.notes.data, "has no thought");
        if (told != cases[i].told) fail_msg("%s: %s", body, r.notes.size ? r.notes.data : "");
        api_request_free(&r);
    }
}

static void detail_of_a_text_is_noted(void **state)
{
    struct api_limits l = limits();
    struct api_request r;
    struct api_error error = {0};
    (void)state;
    assert_true(parse_within(&r, API_CHAT,
                             "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": "
                             "\"text\", \"text\": \"a\", \"detail\": \"low\"}]}]}",
                             &l, &error));
    assert_non_null(strstr(r.notes.data, "messages[0].content[0].detail was ignored"));
    api_request_free(&r);
}

/* A server with --thinking-reserve and --effort-budgets. */
static void budgets_by_option(void **state)
{
    static const struct {
        const char *body;
        int budget;
    } cases[] = {{", \"max_tokens\": 9", EY_KEEP_ANSWER},
                 {", \"reasoning_effort\": \"low\"", 2048},
                 {", \"reasoning_effort\": \"xhigh\"", 0},
                 {", \"reasoning_effort\": \"low\", \"thinking_token_budget\": 3", 3}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_limits l = limits();
        struct api_request r;
        struct api_error error = {0};
        char body[512];
        l.thinks = l.keeps_answer = l.effort_budgets = true;
        snprintf(body, sizeof(body), "{" USER "%s}", cases[i].body);
        if (!parse_within(&r, API_CHAT, body, &l, &error)) fail_msg("%s: %s", body, error.message);
        if (r.request.thinking_budget != cases[i].budget)
            fail_msg("%s: budget %d", body, r.request.thinking_budget);
        api_request_free(&r);
    }
}

static void models_that_do_not_think(void **state)
{
    struct api_request r;
    struct api_error error = {0};
    (void)state;
    assert_true(parse(&r, API_CHAT, "{" USER ", \"reasoning_effort\": \"high\"}", &error));
    assert_int_equal(r.request.thinking, EY_THINKING_AUTO);
    api_request_free(&r);
    assert_false(parse(
        &r, API_CHAT, "{" USER ", \"chat_template_kwargs\": {\"enable_thinking\": true}}", &error));
    assert_string_equal(error.param, "chat_template_kwargs.enable_thinking");
    assert_int_equal(error.status, 400);
    api_request_free(&r);
}

static void the_loop_guard(void **state)
{
    static const struct {
        const char *body;
        int tokens;
        ey_loop_guard wanted;
    } cases[] = {
        {"", 0, {0, 0, 0, 0}},
        {"", 1024, {1, 512, 8, 1024}},
        {", \"ignore_eos\": true", 1024, {0, 0, 0, 0}},
        {", \"repetition_detection\": null", 1024, {1, 512, 8, 1024}},
        {", \"repetition_detection\": {\"max_pattern_size\": 0}", 1024, {0, 0, 0, 0}},
        {", \"repetition_detection\": {\"max_pattern_size\": 64, \"min_pattern_size\": 4, "
         "\"min_count\": 12}",
         1024,
         {4, 64, 12, 0}},
        {", \"repetition_detection\": {\"max_pattern_size\": 512, \"min_pattern_size\": 1, "
         "\"min_count\": 8, \"min_tokens\": 64}",
         1024,
         {1, 512, 8, 64}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_limits l = limits();
        struct api_request r;
        struct api_error error = {0};
        char body[512];
        l.loop_tokens = cases[i].tokens;
        snprintf(body, sizeof(body), "{" USER "%s}", cases[i].body);
        if (!parse_within(&r, API_CHAT, body, &l, &error)) fail_msg("%s: %s", body, error.message);
        assert_memory_equal(&r.request.loop_guard, &cases[i].wanted, sizeof(ey_loop_guard));
        api_request_free(&r);
    }
}

static void thinking_fields_are_checked(void **state)
{
    static const char *const bad[] = {
        "\"reasoning_effort\": \"much\"",
        "\"reasoning_effort\": 3",
        "\"thinking_token_budget\": true",
        "\"thinking_token_budget\": 1.5",
        "\"thinking_token_budget\": -2",
        "\"chat_template_kwargs\": {\"enable_thinking\": \"false\"}",
        "\"include_reasoning\": 1",
        "\"repetition_detection\": 3",
        "\"repetition_detection\": {\"max_pattern_size\": -1}",
        "\"repetition_detection\": {\"max_pattern_size\": 4, \"min_count\": 2, \"min_tokens\": -1}",
        "\"repetition_detection\": {\"max_pattern_size\": 2049, \"min_count\": 2}",
        "\"repetition_detection\": {\"max_pattern_size\": 4, \"min_count\": 1}",
        ("\"repetition_detection\": {\"max_pattern_size\": 4, \"min_pattern_size\": 5, "
         "\"min_count\": 2}"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct api_request r;
        struct api_error error = {0};
        char body[512];
        snprintf(body, sizeof(body), "{" USER ", %s}", bad[i]);
        if (parse(&r, API_CHAT, body, &error)) fail_msg("%s was accepted", body);
        assert_int_equal(error.status, 400);
        api_request_free(&r);
    }
}

/* ---- limits ---- */

/* head, n items separated by commas, tail. */
static char *repeated(const char *head, const char *item, size_t n, const char *tail)
{
    struct buf text = buf_with_max((size_t)64 << 20);
    buf_add_text(&text, head);
    for (size_t i = 0; i < n; i++)
        buf_printf(&text, "%s%s", i ? "," : "", item);
    buf_add_text(&text, tail);
    assert_false(text.failed);
    return text.data;
}

struct limit_case {
    enum openai_kind kind;
    const char *head, *item, *tail;
    size_t most;
    const char *message;
};

static void limits_and_one_past_them(void **state)
{
    (void)state;
    static const struct limit_case cases[] = {
        {API_CHAT, "{\"messages\": [", "{\"role\":\"user\",\"content\":\"\"}", "]}",
         EY_MAX_MESSAGES, "messages has 4097 items; the limit is 4096"},
        {API_CHAT, "{\"messages\": [{\"role\":\"user\",\"content\":[", "\"x\"", "]}]}",
         EY_MAX_CONTENT_PARTS, "messages[0].content has 4097 items"},
        {API_CHAT, "{" USER ", \"tools\": [", TOOL, "]}", EY_MAX_TOOLS,
         "tools has 513 items; the limit is 512"},
        {API_CHAT, "{\"messages\": [{\"role\":\"assistant\",\"tool_calls\":[",
         "{\"function\":{\"name\":\"f\"}}", "]}]}", EY_MAX_TOOL_CALLS,
         "messages[0].tool_calls has 129 items"},
        {API_CHAT, "{" USER ", \"stop\": [", "\"x\"", "]}", EY_MAX_STOP_STRINGS,
         "stop has 17 items"},
        {API_CHAT, "{" USER ", \"stop_token_ids\": [", "1", "]}", EY_MAX_STOP_IDS,
         "stop_token_ids has 65 items"},
        {API_COMPLETION, "{\"prompt\": [", "\"x\"", "]}", EY_MAX_PROMPTS,
         "prompt has 65 items; the limit is 64"},
        {API_CHAT, "{" USER ", \"x\": [", "[]", "]}", EY_MAX_REQUEST_CONTAINERS - 4,
         "the request has 32769 objects and arrays"},
        {API_CHAT, "{" USER ", \"x\": [", "1", "]}", EY_MAX_REQUEST_VALUES - 2,
         "the request has 262145 values"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t more = 0; more < 2; more++) {
            struct api_request r;
            struct api_error error = {0};
            char *body = repeated(cases[i].head, cases[i].item, cases[i].most + more,
                                  cases[i].tail);
            bool ok = parse(&r, cases[i].kind, body, &error);
            if (ok == (more == 1))
                fail_msg("%s… times %zu: %s", cases[i].head, cases[i].most + more,
                         ok ? "accepted" : error.message);
            if (!ok) assert_non_null(strstr(error.message, cases[i].message));
            api_request_free(&r);
            free(body);
        }
}

static void long_texts(void **state)
{
    (void)state;
    static const struct {
        const char *head, *tail, *param;
        size_t most;
    } cases[] = {
        {"{" USER ", \"stop\": \"", "\"}", "stop", EY_MAX_STOP_BYTES},
        {"{" USER ", \"tools\": [{\"function\": {\"name\": \"", "\"}}]}", "tools[0].function.name",
         EY_MAX_NAME_BYTES},
        {"{" USER ", \"model\": \"", "\"}", "model", EY_MAX_PATH},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t more = 0; more < 2; more++) {
            struct api_request r;
            struct api_error error = {0};
            char *text = malloc(cases[i].most + 2);
            memset(text, 'x', cases[i].most + more);
            text[cases[i].most + more] = 0;
            char *body = repeated(cases[i].head, text, 1, cases[i].tail);
            assert_int_equal(parse(&r, API_CHAT, body, &error), more == 0);
            if (more) assert_string_equal(error.param, cases[i].param);
            api_request_free(&r);
            free(body);
            free(text);
        }
}

/* Brackets in strings do not count as nesting. */
static void text_full_of_brackets(void **state)
{
    (void)state;
    struct api_request r;
    struct api_error error = {0};
    char *body = repeated("{\"messages\": [{\"role\": \"user\", \"content\": \"\\\\\\\"",
                          "[{[{[{[{[{", 100000, "\\\\\"}]}");
    if (!parse(&r, API_CHAT, body, &error)) fail_msg("%s", error.message);
    api_request_free(&r);
    free(body);
}

static void deep_nesting(void **state)
{
    (void)state;
    struct api_request r;
    struct api_error error = {0};
    struct buf body = buf_with_max(1 << 20);
    buf_add_text(&body, "{" USER ", \"x\": ");
    for (int i = 0; i < 1000; i++)
        buf_add_text(&body, "[");
    assert_false(parse(&r, API_CHAT, body.data, &error));
    assert_non_null(strstr(error.message, "nested too deeply"));
    api_request_free(&r);
    buf_free(&body);
}

/* A response header limits the listed names; the request is still accepted. */
static void many_unknown_fields(void **state)
{
    (void)state;
    struct api_request r;
    struct api_error error = {0};
    struct buf body = buf_with_max(1 << 20);
    buf_add_text(&body, "{" USER);
    for (int i = 0; i < 500; i++)
        buf_printf(&body, ", \"unknown_field_number_%d\": 1", i);
    buf_add_text(&body, "}");
    assert_true(parse(&r, API_CHAT, body.data, &error));
    assert_true(r.unknown.size <= EY_MAX_UNKNOWN_FIELD_BYTES &&
                r.unknown.size > EY_MAX_UNKNOWN_FIELD_BYTES - 64);
    api_request_free(&r);
    buf_free(&body);
}

/* The answer's options survive when the prompts are freed. */
static void options_survive_dropped_prompts(void **state)
{
    (void)state;
    struct api_request r;
    struct api_error error = {0};
    assert_true(parse(&r, API_CHAT,
                      "{\"model\": \"m\", \"stop\": [\"end\"], \"stop_token_ids\": [5], "
                      "\"logit_bias\": {\"3\": 2}, \"foo\": 1, "
                      "\"messages\": [{\"role\": \"user\", \"content\": [{\"image_url\": \"" PNG
                      "\"}]}], \"tools\": [" TOOL "]}",
                      &error));
    api_request_drop_prompts(&r);
    assert_int_equal(r.request.n_messages + r.request.n_tools + r.n_media + r.n_prompts, 0);
    assert_string_equal(r.model, "m");
    assert_string_equal(r.request.stop[0], "end");
    assert_int_equal(r.request.stop_ids[0], 5);
    assert_int_equal(r.request.logit_bias[0].id, 3);
    assert_string_equal(r.unknown.data, "foo");
    assert_true(r.tools_given);
    api_request_drop_prompts(&r);
    api_request_free(&r);
    api_request_free(&r);
}

/* ---- memory ---- */

static uint64_t heap_bytes(void)
{
    struct mallinfo2 m = mallinfo2();
    return (uint64_t)m.uordblks + (uint64_t)m.hblkhd;
}

/* n members or items between brackets; each key gets its number, so that all differ. */
static char *many_values(const char *open, const char *key, const char *item, const char *end,
                         int n)
{
    struct buf out = buf_with_max(64 << 20);
    buf_printf(&out, "%s", open);
    for (int i = 0; i < n; i++) {
        if (i) buf_printf(&out, ",");
        if (key) buf_printf(&out, "\"%s%d\":", key, i);
        buf_printf(&out, "%s", item);
    }
    buf_printf(&out, "%s", end);
    assert_false(out.failed);
    return out.data;
}

static void json_takes_no_more_than_is_charged(void **state)
{
    (void)state;
    static const struct {
        const char *open, *key, *item, *end;
        int n;
    } cases[] = {
        {"{\"a\":[", NULL, "1", "]}", 200000},
        {"{\"a\":[", NULL, "1.5", "]}", 200000},
        {"{\"a\":[", NULL, "\"\"", "]}", 200000},
        {"{\"a\":[", NULL, "\"0123456789\"", "]}", 200000},
        {"{\"a\":[", NULL, "[]", "]}", 32000},
        {"{\"a\":[", NULL, "{}", "]}", 32000},
        {"{\"a\":[", NULL, "[1]", "]}", 32000},
        {"{\"a\":[", NULL, "{\"a\":1.5}", "]}", 32000},
        {"{\"a\":[", NULL, "[[[]]]", "]}", 10000},
        {"{\"a\":[", NULL, "{\"a\":{\"a\":{}}}", "]}", 10000},
        {"{", "k", "1", "}", 200000},
        {"{", "k", "1.5", "}", 173100},
        {"{", "k", "1.5", "}", 87000},
        {"{", "k", "\"\"", "}", 11},
        {"{\"a\":[", NULL,
         "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1,\"k\":1,"
         "\"l\":1}",
         "]}", 16000},
        {"{\"a\":\"", NULL, "0123456789", "\"}", 500000},
    };
    if (!heap_bytes()) skip(); /* a sanitizer's allocator has no statistics */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *body = many_values(cases[i].open, cases[i].key, cases[i].item, cases[i].end,
                                 cases[i].n);
        struct api_request r;
        struct api_error error;
        size_t n = strlen(body);
        uint64_t before = heap_bytes();
        assert_true(api_open(&r, &openai_dialects[API_CHAT], body, n, &error));
        uint64_t taken = heap_bytes() - before, charged = api_json_bytes(body, n);
        if (taken > charged)
            fail_msg("case %zu: %llu bytes taken, %llu charged", i, (unsigned long long)taken,
                     (unsigned long long)charged);
        if (charged > 8 * taken + 4096)
            fail_msg("case %zu: %llu bytes taken, %llu charged", i, (unsigned long long)taken,
                     (unsigned long long)charged);
        api_request_free(&r);
        free(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thinking_is_chosen_in_order),
        cmocka_unit_test(no_thought_in_continued_answers),
        cmocka_unit_test(detail_of_a_text_is_noted),
        cmocka_unit_test(budgets_by_option),
        cmocka_unit_test(models_that_do_not_think),
        cmocka_unit_test(the_loop_guard),
        cmocka_unit_test(thinking_fields_are_checked),
        cmocka_unit_test(json_takes_no_more_than_is_charged),
        cmocka_unit_test(messages_of_a_chat),
        cmocka_unit_test(images),
        cmocka_unit_test(a_budget_of_the_server),
        cmocka_unit_test(tools),
        cmocka_unit_test(formats_of_an_answer),
        cmocka_unit_test(many_tools),
        cmocka_unit_test(fields_of_a_chat),
        cmocka_unit_test(fields_of_a_completion),
        cmocka_unit_test(fields_of_counting),
        cmocka_unit_test(malformed_requests),
        cmocka_unit_test(values_out_of_range),
        cmocka_unit_test(combinations_that_are_refused),
        cmocka_unit_test(completions_refused),
        cmocka_unit_test(strict_servers_refuse_unknown_fields),
        cmocka_unit_test(grammars_are_kept_between_requests),
        cmocka_unit_test(grammars_of_calls_are_the_models),
        cmocka_unit_test(grammars_are_charged),
        cmocka_unit_test(schemas_in_strings_are_charged),
        cmocka_unit_test(limits_and_one_past_them),
        cmocka_unit_test(long_texts),
        cmocka_unit_test(text_full_of_brackets),
        cmocka_unit_test(deep_nesting),
        cmocka_unit_test(many_unknown_fields),
        cmocka_unit_test(options_survive_dropped_prompts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
