/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of HTTP, JSON and thread switches for one token. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/json_writer.h"
#include "eyelet/request.h"
#include "serve.h"

enum { BLOCK = 20, MAX_REQUEST = 4096 };
static const char question[] = "Say hello.";

static bool ask_engine(ey_engine *engine, struct samples *out, ey_err *e)
{
    ey_part part = ey_text_part(question);
    ey_message message = {.role = "user", .parts = &part, .n_parts = 1};
    ey_request request = ey_request_defaults();
    ey_answer answer = {0};
    request.messages = &message;
    request.n_messages = 1;
    request.max_tokens = 1;
    double start = seconds_now();
    bool ok = ey_ask(engine, &request, &answer, e);
    samples_add(out, seconds_now() - start);
    ey_answer_free(&answer);
    return ok;
}

/* Uses the open connection. */
static bool ask_server(struct serve *b, struct wire *w, const struct buf *request,
                       struct samples *out, ey_err *e)
{
    double start = seconds_now();
    if (!wire_is_reusable(w) && !wire_open(w, &b->to, false))
        return ey_fail(e, EY_IO, "no connection to %s", b->to.host);
    wire_send(w, request->data, request->size);
    wire_step(w, POLLOUT);
    while (!wire_is_over(w)) {
        struct pollfd one = {w->fd, wire_events(w), 0};
        if (poll(&one, 1, (int)(1e3 * b->settings->patience)) <= 0) break;
        wire_step(w, one.revents);
    }
    samples_add(out, seconds_now() - start);
    if (w->reply.state == REPLY_DONE && w->reply.status == 200) return true;
    return ey_fail(e, EY_IO, "no answer: status %d: %.300s", w->reply.status,
                   w->reply.body.size ? w->reply.body.data : "");
}

static void write_cost_request(const struct serve *b, struct buf *out)
{
    struct buf body = buf_with_max(MAX_REQUEST);
    struct json_writer w = json_write_to(&body, JSON_SPACED);
    json_open_object(&w);
    if (b->settings->name) json_add_string(&w, "model", b->settings->name);
    json_write_key(&w, "messages");
    json_open_array(&w);
    json_open_object(&w);
    json_add_string(&w, "role", "user");
    json_add_string(&w, "content", question);
    json_close_object(&w);
    json_close_array(&w);
    json_add_int(&w, "temperature", 0);
    json_add_int(&w, "max_tokens", 1);
    json_close_object(&w);
    if (!body.failed) chat_post(out, &b->to, "/v1/chat/completions", body.data, body.size);
    buf_free(&body);
}

static void print_times(const char *name, struct samples *f)
{
    printf("%-8s  least %.3f   p50 %.3f   p90 %.3f   p99 %.3f\n", name,
           1e3 * samples_percentile(f, 0), 1e3 * samples_percentile(f, 0.5),
           1e3 * samples_percentile(f, 0.9), 1e3 * samples_percentile(f, 0.99));
}

/* Measures both alternately, so that they run under the same conditions. */
static bool measure_both(struct serve *b, ey_engine *engine, struct samples *engine_times,
                         struct samples *server_times, ey_err *e)
{
    struct buf request = buf_with_max(MAX_REQUEST);
    struct wire w = wire_make();
    struct samples warm = {.n = 0};
    write_cost_request(b, &request);
    bool ok = true;
    for (int i = 0; ok && i < BLOCK; i++)
        ok = ask_engine(engine, &warm, e) && ask_server(b, &w, &request, &warm, e);
    for (int i = 0; ok && i < b->settings->cost_requests; i += BLOCK) {
        for (int k = 0; ok && k < BLOCK; k++)
            ok = ask_engine(engine, engine_times, e);
        for (int k = 0; ok && k < BLOCK; k++)
            ok = ask_server(b, &w, &request, server_times, e);
    }
    samples_free(&warm);
    wire_free(&w);
    buf_free(&request);
    return ok;
}

bool measure_cost(struct serve *b, ey_err *e)
{
    ey_engine_options options = ey_engine_defaults();
    ey_engine *engine = NULL;
    struct samples engine_times = {.n = 0}, server_times = {.n = 0};
    options.model = b->settings->model;
    bool ok = ey_engine_open(&engine, &options, e) &&
              measure_both(b, engine, &engine_times, &server_times, e);
    if (ok) {
        printf("\nOne token, %zu times each, in turns; milliseconds\n", server_times.n);
        print_times("engine", &engine_times);
        print_times("server", &server_times);
        printf("the server adds %.3f at p50\n", 1e3 * (samples_percentile(&server_times, 0.5) -
                                                       samples_percentile(&engine_times, 0.5)));
        fflush(stdout);
    }
    ey_engine_close(&engine);
    samples_free(&engine_times);
    samples_free(&server_times);
    return ok;
}
