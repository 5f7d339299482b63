/* SPDX-License-Identifier: Apache-2.0 */
/* The client of --server against a server with canned replies: its requests, its reading of
 * replies, and its errors for invalid ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/json.h"
#include "client/remote.h"
#include "server/loopback_server.h"

#define OK "HTTP/1.1 200 OK\r\nConnection: close\r\n"
#define STREAM OK "Content-Type: text/event-stream\r\n\r\n"
#define CHUNK(choice) \
    "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0," choice "}]}\n\n"
#define SAY(text) CHUNK("\"delta\":{\"content\":\"" text "\"},\"finish_reason\":null")
#define END(reason) CHUNK("\"delta\":{},\"finish_reason\":\"" reason "\"")

enum { PATIENCE_MS = 300000 };

static char url[64];
static int port;

/* The canned replies and the last request. The test holds the lock except while it sends a request.
 */
static struct {
    pthread_mutex_t lock;
    const char *models, *reply; /* whole HTTP replies */
    const char *second;         /* reply to the second request; NULL: the same */
    bool wait;                  /* after the reply, wait until the client leaves */
    atomic_bool left;
    int questions;
    char head[4096];
    char *body; /* body of the last request */
} canned = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *note_question(const struct loopback_request *r)
{
    free(canned.body);
    canned.body = strdup(r->body);
    return canned.questions++ && canned.second ? canned.second : canned.reply;
}

static void answer(const struct loopback_request *r)
{
    const bool asks_models = strncmp(r->head, "GET /v1/models ", 15) == 0;
    pthread_mutex_lock(&canned.lock);
    snprintf(canned.head, sizeof(canned.head), "%s", r->head);
    const char *reply = asks_models ? canned.models : note_question(r);
    const bool wait = canned.wait && !asks_models;
    pthread_mutex_unlock(&canned.lock);
    loopback_say(r, "%s", reply);
    if (!wait) return;
    loopback_wait_for_end(r);
    atomic_store(&canned.left, true);
}

static void set(const char *reply)
{
    canned.models = OK "\r\n{\"object\":\"list\",\"data\":[{\"id\":\"demo\",\"max_model_len\":1000}"
                       ",{\"id\":\"other\"}]}";
    canned.reply = reply;
    canned.second = NULL;
    canned.wait = false;
    canned.questions = 0;
    atomic_store(&canned.left, false);
}

/* ---- helpers ---- */

static bool try_open(struct remote **remote, const struct remote_options *options, ey_err *e)
{
    pthread_mutex_unlock(&canned.lock);
    bool ok = remote_open(remote, options, e);
    pthread_mutex_lock(&canned.lock);
    return ok;
}

static struct remote *open_remote(const char *key, const char *model)
{
    struct remote *remote;
    ey_err e = {0};
    struct remote_options options = {url, key, model, NULL};
    if (!try_open(&remote, &options, &e)) fail_msg("%s", e.text);
    return remote;
}

static ey_sampling unset(void)
{
    return (ey_sampling){NAN, -1, NAN, NAN, NAN, NAN, NAN, 7};
}

static bool ask_in_form(ey_request *request, const struct remote_response_format *form,
                        ey_answer *a, ey_err *e)
{
    struct remote *remote = open_remote(NULL, NULL);
    ey_part part = ey_text_part("What?");
    ey_message message = {.role = "user", .parts = &part, .n_parts = 1};
    if (!request->messages) {
        request->messages = &message;
        request->n_messages = 1;
    }
    *e = (ey_err){0};
    pthread_mutex_unlock(&canned.lock);
    bool ok = remote_ask(remote, request, form, a, e);
    pthread_mutex_lock(&canned.lock);
    remote_close(&remote);
    return ok;
}

static bool ask(ey_request *request, ey_answer *a, ey_err *e)
{
    return ask_in_form(request, NULL, a, e);
}

static void expect_failure(const char *reply, ey_code code, const char *part)
{
    ey_request request = ey_request_defaults();
    ey_answer a;
    ey_err e;
    set(reply);
    if (ask(&request, &a, &e)) fail_msg("%s was accepted", reply);
    ey_answer_free(&a);
    if (!strstr(e.text, part) || e.code != code)
        fail_msg("code %d, \"%s\"; wanted %d, \"%s\"", e.code, e.text, code, part);
}

/* ---- sent requests ---- */

/* The member at a path of names and indices, "messages.0.role". */
static json_object *member(json_object *at, const char *path)
{
    char names[200];
    snprintf(names, sizeof(names), "%s", path);
    for (char *rest, *name = strtok_r(names, ".", &rest); name && at;
         name = strtok_r(NULL, ".", &rest))
        at = json_object_is_type(at, json_type_array)
                 ? json_object_array_get_idx(at, strtoul(name, NULL, 10))
                 : json_member(at, name);
    return at;
}

static void expect_sent(json_object *body, const char *path, const char *json)
{
    const char *got = json_object_to_json_string_ext(
        member(body, path), JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    if (strcmp(got, json) != 0) fail_msg("%s is %s, wanted %s", path, got, json);
}

static json_object *sent_in_form(ey_request *request, const struct remote_response_format *form)
{
    ey_answer a;
    ey_err e;
    set(STREAM SAY("yes") END("stop") "data: [DONE]\n\n");
    if (!ask_in_form(request, form, &a, &e)) fail_msg("%s", e.text);
    ey_answer_free(&a);
    json_object *body = json_parse(canned.body, strlen(canned.body), "body", EY_IO, &e);
    if (!body) fail_msg("%s", e.text);
    return body;
}

static json_object *sent_by(ey_request *request)
{
    return sent_in_form(request, NULL);
}

static void a_plain_request(void **state)
{
    (void)state;
    ey_request request = ey_request_defaults();
    request.sampling = unset();
    json_object *body = sent_by(&request);
    expect_sent(body, "model", "\"demo\"");
    expect_sent(body, "stream", "true");
    expect_sent(body, "stream_options.include_usage", "true");
    expect_sent(body, "messages", "[{\"role\":\"user\",\"content\":\"What?\"}]");
    expect_sent(body, "seed", "7");
    static const char *const absent[] = {"max_tokens",
                                         "temperature",
                                         "top_p",
                                         "top_k",
                                         "min_p",
                                         "repetition_penalty",
                                         "presence_penalty",
                                         "frequency_penalty",
                                         "stop",
                                         "logprobs",
                                         "top_logprobs",
                                         "mm_processor_kwargs",
                                         "response_format",
                                         "repetition_detection",
                                         "structured_outputs"};
    for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++)
        assert_null(json_member(body, absent[i]));
    assert_non_null(strcasestr(canned.head, "Content-Type: application/json"));
    assert_null(strcasestr(canned.head, "Authorization"));
    assert_null(strcasestr(canned.head, "Expect:"));
    json_object_put(body);
}

static void a_full_request(void **state)
{
    (void)state;
    ey_part parts[] = {ey_image_part("\xff\xd8\xff\xe0", 4), ey_image_part("\x89PNG\r\n\x1a\n", 8),
                       ey_image_part("??", 2), ey_text_part("\"Täglich\"")};
    parts[1].detail = EY_DETAIL_LOW;
    parts[2].detail = EY_DETAIL_HIGH;
    parts[2].max_pixels = 4096;
    ey_part said = ey_text_part("A\nB");
    ey_message messages[] = {{.role = "user", .parts = parts, .n_parts = 4},
                             {.role = "assistant", .parts = &said, .n_parts = 1}};
    static const char *const stop[] = {"end", "\n"};
    ey_request request = ey_request_defaults();
    request.messages = messages;
    request.n_messages = 2;
    request.max_tokens = 12;
    request.thinking = EY_THINKING_ON;
    request.thinking_budget = EY_KEEP_ANSWER; /* a quarter of max_tokens */
    request.top_logprobs = 3;
    request.stop = stop;
    request.n_stop = 2;
    request.sampling = ey_sampling_greedy();
    json_object *body = sent_by(&request);
    expect_sent(body, "messages.0.content.0",
                "{\"type\":\"image_url\",\"image_url\":{\"detail\":\"auto\",\"url\":\"data:image/"
                "jpeg;base64,/9j/4A==\"}}");
    expect_sent(body, "messages.0.content.1.image_url",
                "{\"detail\":\"low\",\"url\":\"data:image/png;base64,iVBORw0KGgo=\"}");
    expect_sent(body, "messages.0.content.2.image_url",
                "{\"detail\":\"high\",\"url\":\"data:application/octet-stream;base64,Pz8=\"}");
    expect_sent(body, "messages.0.content.3", "{\"type\":\"text\",\"text\":\"\\\"Täglich\\\"\"}");
    expect_sent(body, "messages.1", "{\"role\":\"assistant\",\"content\":\"A\\nB\"}");
    expect_sent(body, "mm_processor_kwargs", "{\"max_pixels\":4096}");
    expect_sent(body, "stop", "[\"end\",\"\\n\"]");
    expect_sent(body, "max_tokens", "12");
    expect_sent(body, "chat_template_kwargs", "{\"enable_thinking\":true}");
    expect_sent(body, "thinking_token_budget", "9");
    expect_sent(body, "logprobs", "true");
    expect_sent(body, "top_logprobs", "3");
    expect_sent(body, "temperature", "0");
    expect_sent(body, "top_p", "1");
    expect_sent(body, "top_k", "0");
    expect_sent(body, "repetition_penalty", "1");
    json_object_put(body);
}

#define LISTING(owner) OK "\r\n{\"data\":[{\"id\":\"demo\",\"owned_by\":\"" owner "\"}]}"

/* eyelet's servers get the guard as it is. Other servers have none: asking for one fails. */
static void loop_guards(void **state)
{
    static const struct {
        const char *models;
        int tokens;
        const char *sent; /* NULL: nothing */
    } cases[] = {
        {LISTING("eyelet"), 64,
         "{\"max_pattern_size\":512,\"min_pattern_size\":1,\"min_count\":8,\"min_tokens\":64}"},
        {LISTING("eyelet"), 0, "{\"max_pattern_size\":0}"},
        {LISTING("vllm"), 0, NULL},
        {LISTING("vllm"), 64, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct remote *remote;
        ey_answer a;
        ey_err e = {0};
        ey_request request = ey_request_defaults();
        ey_part part = ey_text_part("What?");
        const ey_message message = {.role = "user", .parts = &part, .n_parts = 1};
        const ey_loop_guard guard = cases[i].tokens ? ey_loop_guard_cautious(cases[i].tokens)
                                                    : (ey_loop_guard){0};
        const struct remote_options options = {url, NULL, NULL, &guard};
        set(STREAM SAY("yes") END("stop"));
        canned.models = cases[i].models;
        if (!try_open(&remote, &options, &e)) {
            assert_true(cases[i].tokens && !cases[i].sent);
            assert_int_equal(e.code, EY_BAD_REQUEST);
            assert_non_null(strstr(e.text, "--loop-guard needs an eyelet server"));
            continue;
        }
        request.messages = &message;
        request.n_messages = 1;
        pthread_mutex_unlock(&canned.lock);
        bool ok = remote_ask(remote, &request, NULL, &a, &e);
        pthread_mutex_lock(&canned.lock);
        if (!ok) fail_msg("%s", e.text);
        json_object *body = json_parse(canned.body, strlen(canned.body), "body", EY_IO, &e);
        if (cases[i].sent)
            expect_sent(body, "repetition_detection", cases[i].sent);
        else
            assert_null(json_member(body, "repetition_detection"));
        json_object_put(body);
        ey_answer_free(&a);
        remote_close(&remote);
    }
}

/* A thought comes under either name, or under both with the same text. */
static void thoughts(void **state)
{
    (void)state;
    ey_request request = ey_request_defaults();
    ey_answer a;
    ey_err e;
    set(STREAM CHUNK("\"delta\":{\"reasoning_content\":\"Let me \"},\"finish_reason\":null")
            CHUNK("\"delta\":{\"reasoning\":\"see\",\"content\":null},\"finish_reason\":null")
                CHUNK("\"delta\":{\"reasoning\":\".\",\"reasoning_content\":\".\"}") SAY("Yes")
                    END("stop"));
    if (!ask(&request, &a, &e)) fail_msg("%s", e.text);
    assert_string_equal(a.thought, "Let me see.");
    assert_int_equal(a.n_thought, 11);
    assert_string_equal(a.text, "Yes");
    ey_answer_free(&a);
    set(STREAM SAY("Yes") END("stop"));
    if (!ask(&request, &a, &e)) fail_msg("%s", e.text);
    assert_string_equal(a.thought, "");
    ey_answer_free(&a);
}

static void response_formats_are_sent(void **state)
{
    (void)state;
    static const char *const choices[] = {"yes", "\"no\""};
    ey_request request = ey_request_defaults();
    json_object *body = sent_in_form(
        &request, &(struct remote_response_format){.schema = "{\"type\": \"object\"}\n"});
    expect_sent(body, "response_format",
                "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"answer\",\"strict\":true,"
                "\"schema\":{\"type\":\"object\"}}}");
    assert_null(json_member(body, "structured_outputs"));
    json_object_put(body);
    request = ey_request_defaults();
    body = sent_in_form(&request, &(struct remote_response_format){.regex = "\"\\d+\""});
    expect_sent(body, "structured_outputs", "{\"regex\":\"\\\"\\\\d+\\\"\"}");
    assert_null(json_member(body, "response_format"));
    json_object_put(body);
    request = ey_request_defaults();
    body = sent_in_form(&request,
                        &(struct remote_response_format){.choices = choices, .n_choices = 2});
    expect_sent(body, "structured_outputs", "{\"choice\":[\"yes\",\"\\\"no\\\"\"]}");
    json_object_put(body);
}

static void keys_and_models(void **state)
{
    (void)state;
    set("");
    struct remote *remote = open_remote("abc", "other");
    assert_string_equal(remote_model(remote), "other");
    assert_int_equal(remote_max_model_len(remote), 0);
    assert_non_null(strstr(canned.head, "\r\nAuthorization: Bearer abc\r\n"));
    remote_close(&remote);
    remote = open_remote(NULL, NULL);
    assert_string_equal(remote_model(remote), "demo");
    assert_int_equal(remote_max_model_len(remote), 1000);
    remote_close(&remote);
    remote_close(&remote);
}

static void spellings_of_the_url(void **state)
{
    (void)state;
    static const char *const forms[] = {"http://127.0.0.1:%d", "http://127.0.0.1:%d/",
                                        "http://127.0.0.1:%d/v1", "http://localhost:%d/v1//",
                                        "127.0.0.1:%d"};
    setenv("http_proxy", "http://127.0.0.1:1", 1); /* loopback addresses bypass the proxy */
    set("");
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        char spelled[64];
        struct remote *remote;
        ey_err e;
        snprintf(spelled, sizeof(spelled), forms[i], port);
        if (!try_open(&remote, &(struct remote_options){.url = spelled}, &e))
            fail_msg("%s: %s", spelled, e.text);
        remote_close(&remote);
    }
    unsetenv("http_proxy");
}

/* A host name that begins like a loopback address goes through the proxy, which this server plays.
 */
static void names_are_not_addresses(void **state)
{
    (void)state;
    struct remote *remote;
    ey_err e;
    set("");
    /* the server does not recognize the absolute URL of a proxy request as /v1/models */
    canned.reply = canned.models;
    setenv("http_proxy", url, 1);
    if (!try_open(&remote, &(struct remote_options){.url = "http://127.example.invalid"}, &e))
        fail_msg("%s", e.text);
    remote_close(&remote);
    unsetenv("http_proxy");
}

static void passwords_are_not_shown(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "http://user:pass-word@127.0.0.1:1", "user:pass-word@127.0.0.1:1/v1",
        "http://user:pass-word/x@127.0.0.1:1", "ftp://user:pass-word@127.0.0.1:1"};
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct remote *remote;
        ey_err e;
        assert_false(try_open(&remote, &(struct remote_options){.url = forms[i]}, &e));
        if (strstr(e.text, "pass") || !strstr(e.text, "127.0.0.1:1")) fail_msg("%s", e.text);
    }
}

/* ---- replies ---- */

struct heard {
    struct buf text;
    int events, cancel_after; /* texts; 0: never */
};

static bool hear(void *user, const ey_event *event)
{
    struct heard *heard = user;
    if (event->type != EY_EVENT_TEXT) return true;
    buf_add(&heard->text, event->text, event->n_text);
    return ++heard->events != heard->cancel_after;
}

static void an_answer(void **state)
{
    (void)state;
    ey_request request = ey_request_defaults();
    struct heard heard = {.text = buf_with_max(1000)};
    ey_answer a;
    ey_err e;
    request.sampling.seed = 9;
    request.on_event = hear;
    request.event_user = &heard;
    set(STREAM ": waiting\n\n" CHUNK(
        "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_"
        "reason\":null") "event: x\r\n"
                         "data:{\"choices\":[{\"delta\":{\"content\":"
                         "\"T\xc3\xa4g\"},\"logprobs\":{\"content\":[{"
                         "\"token\":\"T\",\"logprob\":-0.123456791,\"top_"
                         "logprobs\":"
                         "[{\"token\":\"T\",\"logprob\":-0.123456791},{"
                         "\"token\":\"\\\"\",\"logprob\":-9999.0}]},{"
                         "\"token\":\"ag\",\"logprob\":-2,\"top_logprobs\":[]"
                         "}]}}]}\r\n\r\n" SAY("lich")
                             CHUNK("\"delta\":{},\"logprobs\":{\"content\":[{"
                                   "\"token\":\"<end>\",\"logprob\":0}]},\"finish_"
                                   "reason\":\"length\"") "data: "
                                                          "{\"choices\":[],"
                                                          "\"usage\":{\"prompt_"
                                                          "tokens\":11,"
                                                          "\"completion_tokens\":3,"
                                                          "\"total_tokens\":14,"
                                                          "\"prompt_tokens_"
                                                          "details\":{\"cached_"
                                                          "tokens\":2,"
                                                          "\"multimodal_tokens\":{"
                                                          "\"image\":4}},"
                                                          "\"images\":[{\"width\":"
                                                          "64,\"height\":48,\"used_"
                                                          "width\":32,\"used_"
                                                          "height\":96,\"tokens\":"
                                                          "4,\"cached\":true}]}}"
                                                          "\n\n"
                                                          "data: [DONE]\n\n" SAY("after the end"));
    if (!ask(&request, &a, &e)) fail_msg("%s", e.text);
    assert_string_equal(a.text, "T\xc3\xa4glich");
    assert_int_equal(a.n_text, 8);
    assert_string_equal(heard.text.data, a.text);
    assert_int_equal(a.finish_reason, EY_FINISH_LENGTH);
    assert_int_equal(a.seed, 9);
    assert_int_equal(a.prompt_tokens, 11);
    assert_int_equal(a.completion_tokens, 3);
    assert_int_equal(a.cached_tokens, 2);
    assert_int_equal(a.image_tokens, 4);
    assert_int_equal(a.n_images, 1);
    assert_int_equal(a.images[0].width, 64);
    assert_int_equal(a.images[0].height, 48);
    assert_int_equal(a.images[0].used_width, 32);
    assert_int_equal(a.images[0].used_height, 96);
    assert_int_equal(a.images[0].tokens, 4);
    assert_true(a.images[0].cached);
    assert_int_equal(a.n_logprobs, 3);
    assert_string_equal(a.logprobs[0].chosen.token, "T");
    assert_true(a.logprobs[0].chosen.logprob == -0.123456791f);
    assert_int_equal(a.logprobs[0].n_top, 2);
    assert_true(isinf(a.logprobs[0].top[1].logprob));
    assert_string_equal(a.logprobs[2].chosen.token, "<end>");
    ey_answer_free(&a);
    buf_free(&heard.text);
}

static void many_scores(void **state)
{
    (void)state;
    struct buf reply = buf_with_max(1 << 20);
    buf_add_text(&reply, STREAM);
    for (int i = 0; i < 1000; i++)
        buf_printf(&reply,
                   "data: "
                   "{\"choices\":[{\"delta\":{\"content\":\"x\"},\"logprobs\":{\"content\":[{"
                   "\"token\":\"t%d\",\"logprob\":-%d}]}}]}\n\n",
                   i, i);
    buf_add_text(&reply, END("stop"));
    ey_request request = ey_request_defaults();
    ey_answer a;
    ey_err e;
    set(reply.data);
    if (!ask(&request, &a, &e)) fail_msg("%s", e.text);
    assert_int_equal(a.n_logprobs, 1000);
    assert_int_equal(a.n_text, 1000);
    assert_string_equal(a.logprobs[999].chosen.token, "t999");
    assert_true(a.logprobs[0].chosen.logprob == 0 && a.logprobs[500].chosen.logprob == -500);
    ey_answer_free(&a);
    buf_free(&reply);
}

static void odd_usage_is_bounded(void **state)
{
    (void)state;
    ey_request request = ey_request_defaults();
    ey_answer a;
    ey_err e;
    set(STREAM SAY("x")
            END("tool_calls\\\"") "data: "
                                  "{\"choices\":null,\"usage\":{\"prompt_tokens\":-5,\"completion_"
                                  "tokens\":99999999999,\"images\":[1,null,{}]}}\n\n");
    if (!ask(&request, &a, &e)) fail_msg("%s", e.text);
    assert_int_equal(a.finish_reason, EY_FINISH_STOP);
    assert_int_equal(a.prompt_tokens, 0);
    assert_int_equal(a.completion_tokens, INT32_MAX);
    assert_int_equal(a.n_images, 3);
    ey_answer_free(&a);
}

/* The callback stops after two words: the answer has these words, and the server sees the
 * connection close. */
static void cancelling(void **state)
{
    (void)state;
    ey_request request = ey_request_defaults();
    struct heard heard = {.text = buf_with_max(1000), .cancel_after = 2};
    ey_answer a;
    ey_err e;
    request.on_event = hear;
    request.event_user = &heard;
    set(STREAM SAY("one ") SAY("two ") SAY("three"));
    canned.wait = true;
    if (!ask(&request, &a, &e)) fail_msg("%s", e.text);
    assert_int_equal(a.finish_reason, EY_FINISH_CANCELLED);
    assert_string_equal(a.text, "one two ");
    ey_answer_free(&a);
    buf_free(&heard.text);
    for (int i = 0; i < PATIENCE_MS && !atomic_load(&canned.left); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_true(atomic_load(&canned.left));
}

static bool refuse(void *user, const ey_event *event)
{
    (void)user;
    return event->type != EY_EVENT_PHASE;
}

static void cancelling_while_it_is_silent(void **state)
{
    (void)state;
    ey_request request = ey_request_defaults();
    ey_answer a;
    ey_err e;
    request.on_event = refuse;
    set(STREAM ": waiting\n\n");
    canned.wait = true;
    if (!ask(&request, &a, &e)) fail_msg("%s", e.text);
    assert_int_equal(a.finish_reason, EY_FINISH_CANCELLED);
    assert_string_equal(a.text, "");
    ey_answer_free(&a);
}

/* The API refuses a max_tokens that exceeds the context. The client then requests as many as fit,
 * like the engine. */
static void an_answer_longer_than_the_context(void **state)
{
    (void)state;
    ey_request request = ey_request_defaults();
    ey_answer a;
    ey_err e;
    request.max_tokens = 500;
    set("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n{\"error\":{\"message\":\"This "
        "model's maximum context length is 1000 tokens. However, you requested "
        "500 output tokens (parameter=input_tokens, "
        "value=900)\",\"type\":\"BadRequestError\",\"param\":\"input_tokens\",\"code\":400}}");
    canned.second = STREAM SAY("x") END("length");
    if (!ask(&request, &a, &e)) fail_msg("%s", e.text);
    assert_int_equal(canned.questions, 2);
    assert_non_null(strstr(canned.body, "\"max_tokens\":100,"));
    ey_answer_free(&a);
    canned.second = NULL;
    canned.questions = 0;
    request.max_tokens = 90; /* this fits, so the refusal has another reason */
    assert_false(ask(&request, &a, &e));
    assert_int_equal(canned.questions, 1);
    assert_int_equal(e.code, EY_TOO_LONG);
    ey_answer_free(&a);
}

/* ---- errors ---- */

#define REFUSE(status, headers, message)                   \
    "HTTP/1.1 " status "\r\nConnection: close\r\n" headers \
    "\r\n{\"error\":{\"message\":\"" message "\",\"type\":\"x\",\"param\":null,\"code\":1}}"

#define EARLIER_WORD "picture"
#define REFUSE_IMAGE(param, message)                               \
    "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n"            \
    "\r\n{\"error\":{\"message\":\"Failed to load image: " message \
    "\",\"type\":\"x\",\"param\":\"" param "\",\"code\":1}}"

/* The server names the failed image in the error's param; the message has its file name. */
static void refused_images_are_items(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        int item; /* index of the image; -1: none */
        const char *detail;
    } cases[] = {
        {REFUSE_IMAGE("messages[0].content[0].image_url.url", "image 1: cut"), 0, "cut"},
        {REFUSE_IMAGE("messages[1].content[1].image_url.url", "image 2: cut"), 1, "cut"},
        {REFUSE_IMAGE("messages[1].content[1].image_url.url", EARLIER_WORD " 2: cut"), 1, "cut"},
        {REFUSE_IMAGE("messages[1].content[1].image_url.url", "the image: cut"), 1, "cut"},
        {REFUSE_IMAGE("messages[1].content[1].image_url.url", "image 1: cut"), 1, NULL},
        {REFUSE_IMAGE("messages[1].content[1].image_url.url", "image 20"), 1, NULL},
        {REFUSE_IMAGE("messages[1].content[0].image_url.url", "image 1: cut"), -1, NULL},
        {REFUSE_IMAGE("messages[2].content[0].image_url.url", "image 1: cut"), -1, NULL},
        {REFUSE_IMAGE("messages[0].content[9].image_url.url", "image 1: cut"), -1, NULL},
        {REFUSE_IMAGE("messages[-1].content[0].image_url.url", "image 1: cut"), -1, NULL},
        {REFUSE_IMAGE("", "image 1: cut"), -1, NULL},
    };
    ey_part first = ey_image_part("x", 1), second[] = {ey_text_part("and"), ey_image_part("y", 1)};
    ey_message messages[] = {{.role = "user", .parts = &first, .n_parts = 1},
                             {.role = "user", .parts = second, .n_parts = 2}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ey_request request = ey_request_defaults();
        request.messages = messages;
        request.n_messages = 2;
        ey_answer a;
        ey_err e;
        set(cases[i].reply);
        assert_false(ask(&request, &a, &e));
        ey_answer_free(&a);
        assert_int_equal(e.code, EY_BAD_IMAGE);
        assert_int_equal(e.item_kind, cases[i].item < 0 ? EY_ITEM_NONE : EY_ITEM_IMAGE);
        if (cases[i].item >= 0) assert_int_equal(e.item, cases[i].item);
        if (cases[i].detail)
            assert_string_equal(e.text + e.detail, cases[i].detail);
        else
            assert_int_equal(e.detail, 0);
    }
}

/* ---- vectors ---- */

#define VECTOR(numbers) \
    OK "\r\n{\"data\":[{\"embedding\":" numbers "}],\"usage\":{\"prompt_tokens\":5}}"

static bool always(void)
{
    return true;
}

static bool embed(const char *reply, int dimensions, struct remote_vector *out, ey_err *e)
{
    ey_part part = ey_text_part("red");
    const ey_pooling_input input = {.parts = &part, .n_parts = 1};
    set(reply);
    struct remote *remote = open_remote(NULL, NULL);
    *e = (ey_err){0};
    pthread_mutex_unlock(&canned.lock);
    bool ok = remote_embed(remote, &input, dimensions, always, out, e);
    pthread_mutex_lock(&canned.lock);
    remote_close(&remote);
    return ok;
}

/* A vector of another length, or with values that are not numbers, is an error. */
static void vectors(void **state)
{
    static const struct {
        const char *reply;
        int dimensions;
        const char *part;
    } bad[] = {
        {VECTOR("[1, 2, 3]"), 2, "has 3 numbers, not 2"},
        {VECTOR("[1, null]"), 0, "element 1 of the server's vector"},
        {VECTOR("[1, \"2\"]"), 2, "element 1 of the server's vector"},
        {VECTOR("[]"), 0, "no vector"},
        {VECTOR("\"AAAA\""), 0, "no vector"},
        {OK "\r\n{\"data\":[]}", 0, "no vector"},
        {OK "\r\n[", 0, "the server's reply"},
    };
    struct remote_vector vector;
    ey_err e;
    (void)state;
    if (!embed(VECTOR("[0.5, 2]"), 2, &vector, &e)) fail_msg("%s", e.text);
    assert_int_equal(vector.n, 2);
    assert_true(vector.number[0] == 0.5f && vector.number[1] == 2.0f);
    assert_int_equal(vector.prompt_tokens, 5);
    free(vector.number);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (embed(bad[i].reply, bad[i].dimensions, &vector, &e)) fail_msg("%s", bad[i].reply);
        free(vector.number);
        assert_int_equal(e.code, EY_IO);
        if (!strstr(e.text, bad[i].part)) fail_msg("%s: %s", bad[i].reply, e.text);
    }
}

static void refusals(void **state)
{
    (void)state;
    expect_failure(REFUSE("400 Bad Request", "", "temperature must be in [0, 2]"), EY_BAD_REQUEST,
                   "temperature must be");
    expect_failure(REFUSE("400 Bad Request", "", "Failed to load image: image 2: a GIF of lies"),
                   EY_BAD_IMAGE, "image 2: a GIF of lies");
    expect_failure(REFUSE("400 Bad Request", "", "This model's maximum context length is 8"),
                   EY_TOO_LONG, "maximum context");
    expect_failure(REFUSE("400 Bad Request", "",
                          "This model's maximum context length is 8 tokens. However, the prompt "
                          "has 9. Please reduce it."),
                   EY_TOO_LONG, "the prompt has 9");
    expect_failure(REFUSE("404 Not Found", "", "The model `x` does not exist."), EY_NOT_FOUND,
                   "does not exist");
    expect_failure(
        REFUSE("503 Service Unavailable", "Retry-After: 4\r\n", "64 requests wait already"),
        EY_BUSY, "64 requests wait already; try again in 4 s");
    expect_failure(REFUSE("503 Service Unavailable", "", "no memory"), EY_BUSY, "no memory");
    expect_failure(
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nConnection: close\r\n\r\n<html>",
        EY_BUSY, "cannot answer now: HTTP 429; try again in 7 s");
    expect_failure(REFUSE("500 Internal Server Error", "", "a bug"), EY_IO, "a bug");
    expect_failure(
        "HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n\r\n{\"error\":\"Unauthorized\"}", EY_IO,
        "needs a key; give it with --api-key");
    expect_failure("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n{\"detail\":\"no\"}",
                   EY_BAD_REQUEST, "no");
    expect_failure("HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\n\r\n<html>", EY_IO,
                   "HTTP 502 without an OpenAI error");
    expect_failure(
        "HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\nConnection: close\r\n\r\n", EY_IO,
        "HTTP 301");
    expect_failure("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", EY_IO, "HTTP 204");
    expect_failure("", EY_IO, "closed the connection");
    expect_failure("SSH-2.0-OpenSSH\r\n", EY_IO, "127.0.0.1");
}

static void broken_streams(void **state)
{
    (void)state;
    expect_failure(STREAM, EY_IO, "answer is incomplete");
    expect_failure(STREAM SAY("x"), EY_IO, "answer is incomplete");
    expect_failure(STREAM SAY("x") "data: [DONE]\n\n", EY_IO, "answer is incomplete");
    expect_failure(STREAM SAY("x") "data: {\"error\":{\"message\":\"the server goes down\"}}\n\n",
                   EY_IO, "stopped the answer: the server goes down");
    expect_failure(STREAM "data: {\"choices\":\n\n", EY_IO, "not valid JSON");
    expect_failure(STREAM "data: []\n\n", EY_IO, "answer is incomplete");
    expect_failure(STREAM SAY("a\\u0000b") END("stop"), EY_IO, "contains a NUL byte");
    expect_failure(STREAM SAY("\xc1\xa4") END("stop"), EY_IO, "not UTF-8");
    expect_failure(STREAM SAY("\xff") END("stop"), EY_IO, "not valid JSON");
    expect_failure(OK "Content-Length: 1000\r\n\r\n" SAY("x"), EY_IO, "closed the connection");
}

static void other_servers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *models;
        ey_code code;
        const char *part;
    } rows[] = {
        {OK "\r\n<html>", EY_IO, "not a server of the OpenAI API"},
        {OK "\r\n", EY_IO, "not a server of the OpenAI API"},
        {OK "\r\n{}", EY_IO, "not a server of the OpenAI API"},
        {OK "\r\n{\"data\":[]}", EY_NOT_FOUND, "no model"},
        {OK "\r\n{\"data\":[null,3,{\"id\":4}]}", EY_NOT_FOUND, "no model"},
        {"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\nwhat?", EY_NOT_FOUND,
         "the reply is HTTP 404 without an OpenAI error"},
        {"HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n\r\n", EY_IO, "rejects this key"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct remote *remote;
        ey_err e;
        set("");
        canned.models = rows[i].models;
        assert_false(try_open(&remote, &(struct remote_options){.url = url, .key = "k"}, &e));
        if (!strstr(e.text, rows[i].part) || e.code != rows[i].code)
            fail_msg("%zu: code %d, \"%s\"", i, e.code, e.text);
        assert_null(remote);
    }
}

static void wrong_calls(void **state)
{
    (void)state;
    static const struct {
        const char *url, *key, *model;
        ey_code code;
        const char *part;
    } rows[] = {
        {"ftp://127.0.0.1/", NULL, NULL, EY_BAD_REQUEST, "--server takes a URL"},
        {"http://", NULL, NULL, EY_BAD_REQUEST, "--server takes a URL"},
        {"http://127.0.0.1:8000/?x", NULL, NULL, EY_BAD_REQUEST, "--server takes a URL"},
        {"http://127.0.0.1:x", NULL, NULL, EY_BAD_REQUEST, "--server takes a URL"},
        {"http://127.0.0.1:1", NULL, NULL, EY_IO,
         "no server answers at http://127.0.0.1:1; is `eyelet serve` running?"},
        {url, "a\r\nX: y", NULL, EY_BAD_REQUEST, "printable ASCII"},
        {url, NULL, "qwen", EY_NOT_FOUND, "the server has no model qwen; it has demo, other"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct remote *remote;
        ey_err e;
        set("");
        assert_false(try_open(
            &remote, &(struct remote_options){rows[i].url, rows[i].key, rows[i].model, NULL}, &e));
        if (!strstr(e.text, rows[i].part) || e.code != rows[i].code)
            fail_msg("%zu: code %d, \"%s\"", i, e.code, e.text);
    }
}

static int start(void **state)
{
    (void)state;
    pthread_mutex_lock(&canned.lock);
    port = loopback_start(answer, NULL);
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", port);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    pthread_mutex_unlock(&canned.lock);
    loopback_stop();
    free(canned.body);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_request),
        cmocka_unit_test(a_full_request),
        cmocka_unit_test(loop_guards),
        cmocka_unit_test(thoughts),
        cmocka_unit_test(response_formats_are_sent),
        cmocka_unit_test(keys_and_models),
        cmocka_unit_test(spellings_of_the_url),
        cmocka_unit_test(names_are_not_addresses),
        cmocka_unit_test(passwords_are_not_shown),
        cmocka_unit_test(an_answer),
        cmocka_unit_test(many_scores),
        cmocka_unit_test(odd_usage_is_bounded),
        cmocka_unit_test(cancelling),
        cmocka_unit_test(cancelling_while_it_is_silent),
        cmocka_unit_test(an_answer_longer_than_the_context),
        cmocka_unit_test(refused_images_are_items),
        cmocka_unit_test(vectors),
        cmocka_unit_test(refusals),
        cmocka_unit_test(broken_streams),
        cmocka_unit_test(other_servers_are_refused),
        cmocka_unit_test(wrong_calls),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
