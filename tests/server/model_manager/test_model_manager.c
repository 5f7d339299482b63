/* SPDX-License-Identifier: Apache-2.0 */
/* Several models in one server: which one answers, which are loaded, and that taking turns refuses
 * no request. */
#include "server/http_test_client.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "models/ckpt_edit.h"
#include "server/model_manager/model_manager_internal.h"
#include "server/pace.h"

static const char content_type[] = "Content-Type: application/json\r\n";
static char folder[] = "/tmp/eyelet-test-XXXXXX";
/* a random model with another vocabulary; its answers are meaningless but reproducible */
static const char *tiny;

enum { MODELS = 2, QUESTIONS = 3 };
static const char *const names[MODELS] = {"demo", "tiny"};
static const char *const questions[QUESTIONS] = {"Say hello.", "Name a colour.",
                                                 "A red circle and a blue square."};
static char *truth[MODELS][QUESTIONS]; /* answers of servers with only this model */

static struct server_options options_of(bool with_demo, bool with_tiny)
{
    struct server_options o = demo_options();
    o.engine.max_model_len = 4096;
    o.engine.kv_tokens = 16384;
    o.engine.threads = 1;
    o.turn_seconds = 0.3;
    if (!with_demo) o.n_models = 0;
    if (with_tiny)
        o.models[o.n_models++] = (struct server_model){.path = tiny,
                                                       .names = {"tiny", "little"},
                                                       .n_names = 2,
                                                       .aliases = {"tiny-ragged-fp8"}};
    return o;
}

static char *body_of(const char *model, const char *question, int max_tokens, bool stream)
{
    char text[512];
    snprintf(text, sizeof(text),
             "{\"model\": \"%s\", \"messages\": [{\"role\": \"user\", \"content\": \"%s\"}], "
             "\"temperature\": 0, \"ignore_eos\": true, "
             "\"max_tokens\": %d%s}",
             model, question, max_tokens, stream ? ", \"stream\": true" : "");
    return strdup(text);
}

static int post(int port, const char *path, const char *body)
{
    char head[256];
    int fd = web_connect(port);
    snprintf(head, sizeof(head),
             "POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n", path,
             content_type, strlen(body));
    web_say(fd, head);
    web_say(fd, body);
    return fd;
}

/* Sends a request on a new connection. */
static int ask(int port, const char *model, const char *question, int max_tokens, bool stream)
{
    char *body = body_of(model, question, max_tokens, stream);
    int fd = post(port, "/v1/chat/completions", body);
    free(body);
    return fd;
}

/* The "choices" member of a whole answer. */
static char *choices(const struct reply *r)
{
    const char *start = strstr(r->body, "\"choices\""),
               *end = start ? strstr(start, "\"usage\"") : NULL;
    if (r->status != 200 || !end) fail_msg("status %d: %s", r->status, r->body);
    return strndup(start, (size_t)(end - start));
}

static struct reply hear(int fd)
{
    struct reply r = web_reply(fd);
    close(fd);
    return r;
}

enum { TOKENS = 8, LONG = 800 /* of SLOW_MS each: more than a minute */ };

static void assert_truth(struct reply *r, size_t model, size_t question)
{
    char *said = choices(r), called[64];
    assert_string_equal(said, truth[model][question]);
    snprintf(called, sizeof(called), "\"model\":\"%s\"", names[model]);
    if (!strstr(r->body, called))
        fail_msg("the answer does not name %s: %s", names[model], r->body);
    free(said);
    reply_free(r);
}

static void learn_truth(size_t model)
{
    struct server_options o = options_of(model == 0, model == 1);
    struct running s = server_start(&o);
    for (size_t q = 0; q < QUESTIONS; q++) {
        struct reply r = hear(ask(s.port, names[model], questions[q], TOKENS, false));
        truth[model][q] = choices(&r);
        reply_free(&r);
    }
    server_stop(&s);
}

static int prepare(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    tiny = ckpt_make(folder, "tiny-ragged-fp8");
    for (size_t m = 0; m < MODELS; m++)
        learn_truth(m);
    assert_string_not_equal(truth[0][0], truth[1][0]);
    return 0;
}

static int tidy(void **state)
{
    (void)state;
    char command[128];
    for (size_t m = 0; m < MODELS; m++)
        for (size_t q = 0; q < QUESTIONS; q++)
            free(truth[m][q]);
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

static void assert_says(int port, const char *path, const char *text)
{
    struct reply r = web_ask(port, "GET", path, NULL, NULL);
    if (!strstr(r.body, text)) fail_msg("%s lacks %s: %s", path, text, r.body);
    reply_free(&r);
}

/* Whether /v1/models says that the model is loaded. */
static bool is_resident(int port, const char *model)
{
    char path[64];
    snprintf(path, sizeof(path), "/v1/models/%s", model);
    struct reply r = web_ask(port, "GET", path, NULL, NULL);
    assert_int_equal(r.status, 200);
    bool is = strstr(r.body, "\"resident\": true") != NULL;
    assert_true(is || strstr(r.body, "\"resident\": false"));
    reply_free(&r);
    return is;
}

/* ---- waiting requests ---- */

static const char *waiting_of(const char *model)
{
    static char metric[128];
    snprintf(metric, sizeof(metric), "vllm:num_requests_waiting{engine=\"0\",model_name=\"%s\"}",
             model);
    return metric;
}

static void await_waiting(int port, const char *model, int n)
{
    web_await_metric(port, waiting_of(model), n);
}

static bool has_come(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 10) > 0;
}

static void hear_tokens(int fd)
{
    struct reply r = hear(fd);
    assert_int_equal(r.status, 200);
    reply_free(&r);
}

/* Sends small requests to a model whose turn will end, until one has to wait because the model
 * drains; returns that request's connection. No other request may wait for the model. */
static int await_end_of_turn(int port, const char *model)
{
    char body[128];
    snprintf(body, sizeof(body), "{\"model\": \"%s\", \"prompt\": \"Hello\"}", model);
    for (;;) {
        int fd = post(port, "/tokenize", body);
        while (!has_come(fd))
            if (web_metric(port, waiting_of(model)) == 1) return fd;
        hear_tokens(fd);
    }
}

/* ---- tests ---- */

static void requests_choose_by_name(void **state)
{
    (void)state;
    struct server_options o = options_of(true, true);
    struct running s = server_start(&o);
    server_await_log(&s, "eyelet ready");
    assert_true(is_resident(s.port, "demo") && is_resident(s.port, "tiny") &&
                is_resident(s.port, "little"));
    const struct {
        const char *name;
        size_t model;
    } cases[] = {{"", 0},     {"demo", 0},   {"models/demo", 0},
                 {"tiny", 1}, {"little", 1}, {"tiny-ragged-fp8", 1},
                 {tiny, 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct reply r = hear(ask(s.port, cases[i].name, questions[1], TOKENS, false));
        assert_truth(&r, cases[i].model, 1);
    }
    struct reply r = hear(ask(s.port, "other", questions[0], TOKENS, false));
    assert_int_equal(r.status, 404);
    assert_non_null(strstr(r.body, "NotFoundError"));
    assert_non_null(strstr(
        r.body, "The model `other` does not exist. This server has `demo`, `tiny`, `little`"));
    reply_free(&r);
    r = web_ask(s.port, "GET", "/v1/models/other", NULL, NULL);
    assert_int_equal(r.status, 404);
    reply_free(&r);
    assert_says(s.port, "/v1/models", "{\"id\": \"little\", \"object\": \"model\"");
    assert_says(s.port, "/metrics",
                "vllm:request_success_total{engine=\"0\",model_name=\"tiny\",finished_reason="
                "\"length\"} 4\n");
    assert_says(s.port, "/metrics",
                "vllm:request_success_total{engine=\"0\",model_name=\"demo\",finished_reason="
                "\"length\"} 3\n");
    assert_says(s.port, "/metrics",
                "vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"tiny\"} 4\n");
    assert_says(s.port, "/eyelet/plan?model=tiny", "\"max_model_len\": 4096");
    assert_says(s.port, "/ready",
                "\"models\": [{\"id\": \"demo\", \"status\": \"ready\"}, {\"id\": \"tiny\", "
                "\"status\": \"ready\"}]");
    assert_int_equal(web_metric(s.port, "eyelet_unloads_total"), 0);
    server_stop(&s);
}

/* With memory for one model, the other is loaded on demand. */
static void models_take_turns(void **state)
{
    (void)state;
    struct server_options o = options_of(true, true);
    o.max_loaded = 1;
    struct running s = server_start(&o);
    server_await_log(&s, "model tiny takes turns");
    server_await_log(&s, "eyelet ready");
    assert_true(is_resident(s.port, "demo") && !is_resident(s.port, "tiny"));
    for (size_t i = 0; i < 4; i++) {
        const size_t model = (i + 1) % MODELS;
        struct reply r = hear(ask(s.port, names[model], questions[i % QUESTIONS], TOKENS, false));
        assert_non_null(strstr(r.head, "X-Eyelet-Reload-Seconds: "));
        assert_truth(&r, model, i % QUESTIONS);
        assert_true(is_resident(s.port, names[model]) && !is_resident(s.port, names[1 - model]));
    }
    server_await_log(&s, "model demo was unloaded: model tiny was requested and needs its memory");
    assert_int_equal(web_metric(s.port, "eyelet_loads_total"), 3); /* demo's is the first line */
    struct reply ready = web_ask(s.port, "GET", "/ready", NULL, NULL);
    assert_int_equal(ready.status, 200);
    reply_free(&ready);
    server_stop(&s);
}

/* A model with running answers is not evicted, and frequent requests for it do not keep the other
 * model waiting forever. */
static void answers_come_to_their_end(void **state)
{
    (void)state;
    struct server_options o = options_of(true, true);
    o.max_loaded = 1;
    struct running s = server_start(&o);
    int stream = ask(s.port, "demo", questions[0], LONG, true);
    free(web_hear_until(stream, "\"content\":"));
    int other = ask(s.port, "tiny", questions[0], TOKENS, false);
    web_await_metric(s.port, "eyelet_loads_total", 1);
    await_waiting(s.port, "tiny", 1);
    int waiting = await_end_of_turn(s.port, "demo");
    int late = ask(s.port, "demo", questions[1], TOKENS, false);
    await_waiting(s.port, "demo", 2); /* after the other model's request */
    pace_set(0);
    char *all = web_hear_until(stream, "data: [DONE]");
    assert_non_null(strstr(all, "\"finish_reason\":\"length\""));
    free(all);
    close(stream);
    struct reply r = hear(other);
    assert_truth(&r, 1, 0);
    r = hear(late);
    assert_truth(&r, 0, 1);
    hear_tokens(waiting);
    server_stop(&s);
}

/* Many clients ask both models at random; each gets the right model's answer. */
static void no_client_is_refused(void **state)
{
    (void)state;
    enum { CLIENTS = 24, ROUNDS = 3 };
    struct server_options o = options_of(true, true);
    o.max_loaded = 1;
    o.engine.max_num_queued = 2 * CLIENTS;
    struct running s = server_start(&o);
    uint32_t dice = 7;
    for (int round = 0; round < ROUNDS; round++) {
        int fd[CLIENTS];
        size_t model[CLIENTS], question[CLIENTS];
        for (int i = 0; i < CLIENTS; i++) {
            dice = dice * 1664525u + 1013904223u;
            model[i] = (dice >> 16) % MODELS;
            question[i] = (dice >> 20) % QUESTIONS;
            fd[i] = ask(s.port, names[model[i]], questions[question[i]], TOKENS, false);
        }
        for (int i = 0; i < CLIENTS; i++) {
            struct reply r = hear(fd[i]);
            assert_truth(&r, model[i], question[i]);
        }
    }
    char *log = server_log(&s);
    assert_non_null(strstr(log, "model tiny was loaded"));
    free(log);
    server_stop(&s);
}

/* The queue limit includes requests that wait for a model: one more is refused immediately. */
static void waiting_for_a_model_is_limited(void **state)
{
    (void)state;
    struct server_options o = options_of(true, true);
    o.max_loaded = 1;
    o.engine.max_num_queued = 2;
    o.turn_seconds = 60;
    struct running s = server_start(&o);
    int stream = ask(s.port, "demo", questions[0], LONG, true), waiting[2];
    free(web_hear_until(stream, "\"content\":"));
    int next = ask(s.port, "demo", questions[0], LONG, true); /* demo's turn continues */
    free(web_hear_until(next, "\"content\":"));
    for (int i = 0; i < 2; i++)
        waiting[i] = ask(s.port, "tiny", questions[0], TOKENS, false);
    await_waiting(s.port, "tiny", 2);
    struct reply r = hear(ask(s.port, "tiny", questions[0], TOKENS, false));
    assert_int_equal(r.status, 503);
    assert_non_null(strstr(r.head, "Retry-After: "));
    assert_non_null(strstr(r.body, "2 requests already wait for model tiny to be loaded"));
    reply_free(&r);
    close(stream);
    close(next);
    web_await_metric(s.port, "vllm:num_requests_running{engine=\"0\",model_name=\"demo\"}", 0);
    pace_set(0);
    for (int i = 0; i < 2; i++) {
        r = hear(waiting[i]);
        assert_truth(&r, 1, 0);
    }
    server_stop(&s);
}

/* If the waiting client leaves, its model is not loaded. */
static void models_of_gone_clients_are_not_loaded(void **state)
{
    (void)state;
    struct server_options o = options_of(true, true);
    o.max_loaded = 1;
    o.turn_seconds = 0;
    struct running s = server_start(&o);
    int stream = ask(s.port, "demo", questions[0], LONG, true);
    free(web_hear_until(stream, "\"content\":"));
    int other = ask(s.port, "tiny", questions[0], TOKENS, false);
    await_waiting(s.port, "tiny", 1);
    int waiting = await_end_of_turn(s.port, "demo");
    close(other);
    hear_tokens(waiting); /* demo admits requests again */
    await_waiting(s.port, "tiny", 0);
    struct reply r = hear(ask(s.port, "demo", questions[1], TOKENS, false));
    assert_truth(&r, 0, 1);
    pace_set(0);
    free(web_hear_until(stream, "data: [DONE]"));
    close(stream);
    assert_true(is_resident(s.port, "demo") && !is_resident(s.port, "tiny"));
    server_stop(&s);
}

static void idle_models_are_unloaded_each_for_itself(void **state)
{
    (void)state;
    struct server_options o = options_of(true, true);
    o.idle_unload_seconds = 1;
    struct running s = server_start(&o);
    server_await_log(&s, "model demo was unloaded after 1 s without a request");
    server_await_log(&s, "model tiny was unloaded after 1 s without a request");
    struct reply r = hear(ask(s.port, "tiny", questions[2], TOKENS, false));
    assert_non_null(strstr(r.head, "X-Eyelet-Reload-Seconds: "));
    assert_truth(&r, 1, 2);
    assert_false(is_resident(s.port, "demo"));
    server_stop(&s);
}

/* Metrics sum the counters of all engines that a model has had. */
static void every_counter_is_added(void **state)
{
    (void)state;
    const ey_stats one = {.prompt_tokens = 1,
                          .cached_tokens = 1,
                          .generated_tokens = 1,
                          .preemptions = 1,
                          .steps = 1,
                          .async_steps = 1,
                          .images = 1,
                          .images_cached = 1,
                          .encoder_runs = 1,
                          .finished_stop = 1,
                          .finished_length = 1,
                          .finished_cancelled = 1,
                          .failed = 1,
                          .vision_seconds = 1,
                          .step_seconds = 1};
    ey_stats sum = {0};
    model_stats_add(&sum, &one);
    assert_memory_equal(&sum, &one, sizeof(sum));
}

/* Lists of models read all *.safetensors of a folder, including ones that the engine ignores. */
static void files_that_are_no_weights_are_skipped(void **state)
{
    (void)state;
    static const char bytes[] = {2, 0, 0, 0, 0, 0, 0, 0, '[', ']'};
    struct server_options o = options_of(false, true);
    char path[256];
    snprintf(path, sizeof(path), "%s/other.safetensors", tiny);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, sizeof(bytes), f), sizeof(bytes));
    assert_int_equal(fclose(f), 0);
    struct running s = server_start(&o);
    assert_says(s.port, "/v1/models", "\"n_params\": ");
    server_stop(&s);
    assert_int_equal(unlink(path), 0);
}

/* SIGTERM while a request waits for a model: it is still answered. */
static void drains_what_waits(void **state)
{
    (void)state;
    struct server_options o = options_of(true, true);
    o.max_loaded = 1;
    o.turn_seconds = 0;
    o.drain_seconds = 300;
    struct running s = server_start(&o);
    int stream = ask(s.port, "demo", questions[0], LONG, true);
    free(web_hear_until(stream, "\"content\":"));
    int other = ask(s.port, "tiny", questions[0], TOKENS, false);
    await_waiting(s.port, "tiny", 1);
    server_signal(&s, SIGTERM);
    server_await_log(&s, "stopping: ");
    pace_set(0);
    struct reply r = hear(other);
    assert_truth(&r, 1, 0);
    free(web_hear_until(stream, "data: [DONE]"));
    close(stream);
    assert_int_equal(server_wait(&s), 0);
}

static void a_model_that_is_not_there_stops_the_start(void **state)
{
    (void)state;
    struct server_options o = options_of(true, true);
    ey_err e;
    o.models[1].path = "models/none";
    assert_false(server_run(&o, &e));
    assert_int_equal(e.code, EY_NOT_FOUND);
    assert_non_null(strstr(e.text, "models/none"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_choose_by_name),
        cmocka_unit_test(models_take_turns),
        cmocka_unit_test_setup_teardown(answers_come_to_their_end, pace_slow, pace_fast),
        cmocka_unit_test(no_client_is_refused),
        cmocka_unit_test_setup_teardown(waiting_for_a_model_is_limited, pace_slow, pace_fast),
        cmocka_unit_test_setup_teardown(models_of_gone_clients_are_not_loaded, pace_slow,
                                        pace_fast),
        cmocka_unit_test(idle_models_are_unloaded_each_for_itself),
        cmocka_unit_test(every_counter_is_added),
        cmocka_unit_test(files_that_are_no_weights_are_skipped),
        cmocka_unit_test_setup_teardown(drains_what_waits, pace_slow, pace_fast),
        cmocka_unit_test(a_model_that_is_not_there_stops_the_start),
    };
    return cmocka_run_group_tests(tests, prepare, tidy);
}
