/* SPDX-License-Identifier: Apache-2.0 */
/* /api/pull and /api/delete. Pulling a served model succeeds at once; other models are downloaded
 * and deleted only with --allow-pull. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/json_writer.h"
#include "server/api/ollama/ollama_requests.h"
#include "server/api/ollama/ollama_routes.h"
#include "server/model_pull.h"

#define NDJSON "application/x-ndjson"
#define NO_MANIFEST "pull model manifest: file does not exist"

enum { MAX_PULL_LINES = 8192, PULL_WAIT_MS = 100, PULL_LINE_MS = 250, PULL_ERROR_BYTES = 1200 };

/* ---- lines ---- */

static void add_pull_text(struct buf *out, const char *key, const char *text)
{
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    json_open_object(&w);
    json_add_string(&w, key, text);
    json_close_object(&w);
    buf_add_text(out, "\n");
}

static void add_pull_progress(struct buf *out, const char *digest, uint64_t done, uint64_t total)
{
    char text[96];
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    json_open_object(&w);
    snprintf(text, sizeof(text), "pulling %.12s", digest);
    json_add_string(&w, "status", text);
    snprintf(text, sizeof(text), "sha256:%s", digest);
    json_add_string(&w, "digest", text);
    json_add_uint(&w, "total", total);
    json_add_uint(&w, "completed", done);
    json_close_object(&w);
    buf_add_text(out, "\n");
}

static void add_pull_success(struct buf *out)
{
    add_pull_text(out, "status", "verifying sha256 digest");
    add_pull_text(out, "status", "writing manifest");
    add_pull_text(out, "status", "success");
}

/* Replies to a client that wants no stream; `out` is an empty buffer for the reply. */
static void reply_success(struct exchange *x, struct buf *out)
{
    buf_add_text(out, "{\"status\":\"success\"}");
    exchange_reply(x, 200, "application/json; charset=utf-8", out);
}

/* ---- served models ---- */

static void reply_served(struct server *server, struct exchange *x, size_t model, bool whole)
{
    struct buf out = buf_with_max(MAX_PULL_LINES);
    char digest[OLLAMA_DIGEST_BYTES];
    uint64_t bytes = ollama_model_digest(server, model, digest);
    if (whole) {
        reply_success(x, &out);
    } else {
        add_pull_text(&out, "status", "pulling manifest");
        add_pull_progress(&out, digest, bytes, bytes);
        add_pull_success(&out);
        exchange_reply(x, 200, NDJSON, &out);
    }
    buf_free(&out);
}

/* ---- a download ---- */

struct pull_stream {
    struct model_pull *pull; /* NULL if it could not be started */
    struct buf unsent;
    size_t n_sent;
    double line_at; /* when the last line of progress was written */
    uint64_t line_done;
    bool over;
};

/* Writes the error. For a missing model it begins with Ollama's words, by which clients recognize
 * it. */
static void write_pull_error(char *out, size_t size, const ey_err *e)
{
    snprintf(out, size, "%s%s", e->code == EY_NOT_FOUND ? NO_MANIFEST ": " : "", e->text);
}

static void add_pull_error(struct buf *out, const ey_err *e)
{
    char text[PULL_ERROR_BYTES];
    write_pull_error(text, sizeof(text), e);
    add_pull_text(out, "error", text);
}

/* Writes a line of progress at most every PULL_LINE_MS and at the end. */
static void add_pull_lines(struct pull_stream *s, const struct pull_status *status)
{
    const double now = seconds_now();
    const bool due = status->stage == PULL_DONE ||
                     (now - s->line_at >= PULL_LINE_MS / 1e3 && status->done != s->line_done);
    if (status->total && due) {
        add_pull_progress(&s->unsent, status->digest, status->done, status->total);
        s->line_at = now;
        s->line_done = status->done;
    }
    if (status->stage == PULL_DONE) add_pull_success(&s->unsent);
    if (status->stage == PULL_FAILED) add_pull_error(&s->unsent, &status->error);
    s->over = status->stage >= PULL_DONE;
}

static ssize_t send_pull_bytes(struct pull_stream *s, char *out, size_t size)
{
    size_t left = s->unsent.size - s->n_sent, n = left < size ? left : size;
    memcpy(out, s->unsent.data + s->n_sent, n);
    s->n_sent += n;
    if (s->n_sent == s->unsent.size) {
        buf_clear(&s->unsent);
        s->n_sent = 0;
    }
    return (ssize_t)n;
}

static ssize_t pull_stream_read(void *state, struct exchange *x, char *out, size_t size)
{
    struct pull_stream *s = state;
    while (!s->unsent.size && !s->over) {
        if (exchange_abandoned(x)) return -2;
        const struct pull_status status = model_pull_wait(s->pull, PULL_WAIT_MS);
        add_pull_lines(s, &status);
    }
    return s->unsent.size ? send_pull_bytes(s, out, size) : -1;
}

static void pull_stream_close(void *state)
{
    struct pull_stream *s = state;
    model_pull_close(&s->pull);
    buf_free(&s->unsent);
    free(s);
}

/* A name that cannot be pulled is reported after the first line, as in Ollama. */
static void stream_pull(struct exchange *x, struct model_pull *pull, const ey_err *e)
{
    struct pull_stream *s = calloc(1, sizeof(*s));
    if (!s) {
        model_pull_close(&pull);
        exchange_fail(x, 503, NULL, NULL, "no memory for the reply");
        return;
    }
    s->pull = pull;
    s->unsent = buf_with_max(MAX_PULL_LINES);
    add_pull_text(&s->unsent, "status", "pulling manifest");
    s->over = !pull;
    if (!pull) add_pull_error(&s->unsent, e);
    exchange_stream(x, 200, NDJSON,
                    (struct response_stream){pull_stream_read, pull_stream_close, s});
}

static void reply_pull(struct exchange *x, struct model_pull *pull, ey_err *e)
{
    struct buf out = buf_with_max(MAX_PULL_LINES);
    struct pull_status status = {.stage = pull ? PULL_ASKING : PULL_FAILED};
    if (!pull) status.error = *e;
    while (pull && !exchange_abandoned(x)) {
        status = model_pull_wait(pull, PULL_WAIT_MS);
        if (status.stage >= PULL_DONE) break;
    }
    model_pull_close(&pull);
    if (status.stage == PULL_DONE) {
        reply_success(x, &out);
    } else if (status.stage != PULL_FAILED) {
        exchange_fail(x, 503, NULL, NULL, "the server is shutting down");
    } else {
        char text[PULL_ERROR_BYTES];
        write_pull_error(text, sizeof(text), &status.error);
        exchange_fail(x, 500, NULL, NULL, "%s", text);
    }
    buf_free(&out);
}

static void pull_other(struct exchange *x, const char *name, bool whole)
{
    struct model_pull *pull;
    ey_err e = {0};
    bool opened = model_pull_open(&pull, name, &e);
    if (!opened && e.code == EY_BUSY)
        exchange_fail(x, 503, NULL, NULL, "%s", e.text);
    else if (whole)
        reply_pull(x, pull, &e);
    else
        stream_pull(x, pull, &e);
}

/* ---- the routes ---- */

void route_ollama_pull(struct server *server, struct exchange *x)
{
    struct completion *a = ollama_open(server, x, OLLAMA_NAME);
    size_t model;
    if (!a) return;
    json_object *stream = json_member(api_request_json(&a->request), "stream");
    bool whole = json_object_is_type(stream, json_type_boolean) && !json_object_get_boolean(stream);
    if (completion_find_model(a, &model))
        reply_served(server, x, model, whole);
    else if (server->options->allow_pull)
        pull_other(x, a->request.model, whole);
    else
        exchange_fail(x, 501, NULL, NULL,
                      "pulling '%.200s' is not supported by eyelet's server without --allow-pull: "
                      "download it with eyelet pull, and start eyelet serve with its name",
                      a->request.model);
    completion_close(a);
}

static void delete_other(struct server *server, struct exchange *x, const char *name)
{
    struct buf nothing = buf_with_max(1);
    ey_err e = {0};
    if (model_delete(server->options, name, &e))
        exchange_reply(x, 200, "application/json; charset=utf-8", &nothing);
    else if (e.code == EY_NOT_FOUND)
        exchange_fail(x, 404, NULL, NULL, "model '%.200s' not found", name);
    else
        exchange_fail(x, ey_code_http_status(e.code), NULL, NULL, "%s", e.text);
    buf_free(&nothing);
}

void route_ollama_delete(struct server *server, struct exchange *x)
{
    struct completion *a = ollama_open(server, x, OLLAMA_NAME);
    size_t model;
    if (!a) return;
    const bool served = completion_find_model(a, &model), allowed = server->options->allow_pull;
    if (served && allowed)
        exchange_fail(x, 400, NULL, NULL,
                      "model '%.200s' is being served; stop the server and use eyelet rm",
                      a->request.model);
    else if (served)
        exchange_fail(
            x, 501, NULL, NULL,
            "deleting a model is not supported by eyelet's server without --allow-pull; use "
            "eyelet rm");
    else if (allowed)
        delete_other(server, x, a->request.model);
    else
        completion_fail(a, x);
    completion_close(a);
}
