/* SPDX-License-Identifier: Apache-2.0 */
/* Replies of an exchange: bodies, errors and streams. */
#include "server/http/http_exchange.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/text/json_writer.h"
#include "server/http/http_exchange_internal.h"

enum {
    STREAM_BLOCK = 16 << 10,
    MAX_ERROR_BYTES = 16 << 10,
    SLOW_CLIENT_BYTES_PER_SECOND = 16 << 10
};

/* ---- the request ---- */

const char *exchange_body(const struct exchange *x, size_t *n)
{
    *n = x->n_body;
    return x->body ? x->body : "";
}

void exchange_drop_body(struct exchange *x)
{
    free(x->body);
    if (x->budget_held) ey_budget_release(x->budget, x->budget_held);
    x->body = NULL;
    x->n_body = x->capacity = 0;
    x->budget_held = 0;
}

const char *exchange_query(struct exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->mhd, MHD_GET_ARGUMENT_KIND, name);
}

const char *exchange_argument(const struct exchange *x)
{
    return x->argument;
}

const char *exchange_request_header(struct exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, name);
}

double exchange_started(const struct exchange *x)
{
    return x->started;
}

bool exchange_hung_up(struct exchange *x)
{
    return connections_hung_up(x->connections, x->connection);
}

bool exchange_abandoned(struct exchange *x)
{
    return exchange_hung_up(x) || server_is_ending(x->server);
}

ey_budget *exchange_budget(const struct exchange *x)
{
    return x->budget;
}

uint64_t exchange_budget_held(const struct exchange *x)
{
    return x->budget_held + x->charged;
}

/* ---- headers of the reply ---- */

static bool has_header(const struct exchange *x, const char *name)
{
    for (size_t i = 0; i < x->n_headers; i++)
        if (strcasecmp(x->header[i].name, name) == 0) return true;
    return false;
}

void exchange_add_header(struct exchange *x, const char *name, const char *value)
{
    if (x->n_headers == MAX_REPLY_HEADERS) return;
    char *copy = strdup(name), *text = strdup(value);
    if (copy && text) {
        x->header[x->n_headers].name = copy;
        x->header[x->n_headers++].value = text;
    } else {
        free(copy);
        free(text);
    }
}

static void add_default_header(struct exchange *x, const char *name, const char *value)
{
    if (!has_header(x, name)) exchange_add_header(x, name, value);
}

/* Adds a request ID in two headers: OpenAI's library reads the first, Anthropic's the second. */
static void add_request_id(struct exchange *x)
{
    unsigned char bytes[12] = {0};
    char id[32] = "req_";
    if (getrandom(bytes, sizeof(bytes), 0) < 0)
        memset(bytes, 0, sizeof(bytes)); /* it need not be secret */
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(id + 4 + 2 * i, 3, "%02x", bytes[i]);
    add_default_header(x, "x-request-id", id);
    add_default_header(x, "request-id", id);
}

static void add_response_headers(struct exchange *x, struct MHD_Response *response,
                                 const char *content_type)
{
    const char *origin = x->cors ? exchange_request_header(x, "Origin") : NULL;
    if (content_type) add_default_header(x, "Content-Type", content_type);
    add_default_header(x, "Cache-Control", "no-store");
    add_default_header(x, "X-Content-Type-Options", "nosniff");
    add_request_id(x);
    if (origin) {
        add_default_header(x, "Access-Control-Allow-Origin", origin);
        add_default_header(x, "Access-Control-Expose-Headers",
                           "Warning, Retry-After, X-Eyelet-Reload-Seconds");
        add_default_header(x, "Vary", "Origin");
    } else {
        add_default_header(x, "Cross-Origin-Resource-Policy", "same-origin");
    }
    if (x->status == 503 || x->status == 429) add_default_header(x, "Retry-After", "1");
    if (x->closes_connection || server_is_draining(x->server))
        add_default_header(x, "Connection", "close");
    for (size_t i = 0; i < x->n_headers; i++)
        MHD_add_response_header(response, x->header[i].name, x->header[i].value);
}

/* Queues the reply, which may outlive the exchange: the library owns it then. */
static void queue_response(struct exchange *x, int status, const char *content_type,
                           struct MHD_Response *response)
{
    x->status = status;
    if (!response) return;
    add_response_headers(x, response, content_type);
    x->queued = MHD_queue_response(x->mhd, (unsigned)status, response) == MHD_YES;
    MHD_destroy_response(response);
}

/* ---- replies ---- */

void exchange_reply_static(struct exchange *x, int status, const char *content_type,
                           const void *bytes, size_t n)
{
    connections_enter(x->connections, x->connection, PHASE_SENDING,
                      x->server->options->stall_seconds + (double)n / SLOW_CLIENT_BYTES_PER_SECOND);
    queue_response(x, status, content_type,
                   MHD_create_response_from_buffer(n, (void *)bytes, MHD_RESPMEM_PERSISTENT));
}

void exchange_reply_empty(struct exchange *x, int status)
{
    exchange_reply_static(x, status, NULL, NULL, 0);
}

void exchange_reply(struct exchange *x, int status, const char *content_type, struct buf *body)
{
    static const char no_memory[] = "{\"error\": {\"message\": \"no memory for the reply\", "
                                    "\"type\": \"InternalServerError\", \"param\": null, "
                                    "\"code\": 500}}";
    if (body->failed) {
        exchange_reply_static(x, 500, "application/json", no_memory, sizeof(no_memory) - 1);
        return;
    }
    connections_enter(x->connections, x->connection, PHASE_SENDING,
                      x->server->options->stall_seconds +
                          (double)body->size / SLOW_CLIENT_BYTES_PER_SECOND);
    struct MHD_Response *response = MHD_create_response_from_buffer(body->size, body->data,
                                                                    MHD_RESPMEM_MUST_FREE);
    if (response)
        *body = buf_with_max(body->max);
    else
        buf_free(body);
    queue_response(x, status, content_type, response);
}

static const char *error_type(int status)
{
    switch (status) {
    case 400: return "BadRequestError";
    case 401: return "AuthenticationError";
    case 403: return "PermissionDeniedError";
    case 404: return "NotFoundError";
    case 405: return "MethodNotAllowedError";
    case 408: return "RequestTimeoutError";
    case 413: return "RequestTooLargeError";
    case 415: return "UnsupportedMediaTypeError";
    case 421: return "MisdirectedRequestError";
    case 422: return "UnprocessableEntityError";
    case 429: return "RateLimitError";
    case 499: return "ClientClosedRequest";
    case 501: return "NotImplementedError";
    case 503: return "ServiceUnavailableError";
    default: return status < 500 ? "BadRequestError" : "InternalServerError";
    }
}

int write_openai_error(struct buf *out, const struct api_error *error)
{
    struct json_writer w = json_write_to(out, JSON_SPACED);
    json_open_object(&w);
    json_write_key(&w, "error");
    json_open_object(&w);
    json_add_string(&w, "message", error->message);
    json_add_string(&w, "type", error->type[0] ? error->type : error_type(error->status));
    json_add_string(&w, "param", error->param[0] ? error->param : NULL);
    json_add_int(&w, "code", error->status);
    json_close_object(&w);
    json_close_object(&w);
    return error->status;
}

void exchange_send_error(struct exchange *x, const struct api_error *error)
{
    struct buf out = buf_with_max(MAX_ERROR_BYTES);
    error_form_fn *write = x->write_error ? x->write_error : write_openai_error;
    int status = write(&out, error);
    exchange_reply(x, status, "application/json", &out);
}

void exchange_fail(struct exchange *x, int status, const char *type, const char *param,
                   const char *fmt, ...)
{
    struct api_error error = {.status = status};
    va_list args;
    va_start(args, fmt);
    vsnprintf(error.message, sizeof(error.message), fmt, args);
    va_end(args);
    snprintf(error.type, sizeof(error.type), "%s", type ? type : "");
    snprintf(error.param, sizeof(error.param), "%s", param ? param : "");
    exchange_send_error(x, &error);
}

/* ---- the budget ---- */

bool exchange_charge(struct exchange *x, uint64_t n)
{
    enum { WAIT_MS = 5000, SLICE_MS = 100 };
    uint64_t total = ey_budget_total(x->budget);
    if (n + exchange_budget_held(x) > total) {
        exchange_fail(x, 400, NULL, NULL,
                      "the request takes %llu bytes of memory, but --host-memory allows %llu for "
                      "all requests together",
                      (unsigned long long)(n + exchange_budget_held(x)), (unsigned long long)total);
        return false;
    }
    for (int waited = 0; waited < WAIT_MS && !exchange_hung_up(x); waited += SLICE_MS) {
        if (!ey_budget_acquire(x->budget, n, SLICE_MS)) continue;
        x->charged += n;
        return true;
    }
    exchange_fail(x, 503, NULL, NULL,
                  "the memory for requests in flight, %llu bytes (--host-memory), is taken by "
                  "others; try again soon",
                  (unsigned long long)total);
    return false;
}

void exchange_uncharge(struct exchange *x, uint64_t kept)
{
    if (x->charged <= kept) return;
    ey_budget_release(x->budget, x->charged - kept);
    x->charged = kept;
}

/* ---- streams ---- */

/* Called by the library when the client has read the previous bytes. */
static ssize_t pull_stream(void *user, uint64_t position, char *out, size_t size)
{
    struct exchange *x = user;
    ssize_t n;
    (void)position;
    connections_enter(x->connections, x->connection, PHASE_WORKING, 0);
    do
        n = x->stream.pull(x->stream.state, x, out, size);
    while (n == 0);
    connections_enter(x->connections, x->connection, PHASE_SENDING,
                      x->server->options->stall_seconds);
    if (n > 0) return n;
    return n == -1 ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

void exchange_stream(struct exchange *x, int status, const char *content_type,
                     struct response_stream stream)
{
    x->stream = stream;
    x->streaming = true;
    add_default_header(x, "Cache-Control", "no-cache");
    add_default_header(x, "X-Accel-Buffering",
                       "no"); /* tells buffering proxies (nginx) to pass the stream on */
    connections_enter(x->connections, x->connection, PHASE_SENDING,
                      x->server->options->stall_seconds);
    queue_response(
        x, status, content_type,
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, pull_stream, x, NULL));
}

void exchange_free(struct exchange *x)
{
    if (!x) return;
    if (x->streaming && x->stream.close) x->stream.close(x->stream.state);
    exchange_drop_body(x);
    exchange_uncharge(x, 0);
    ey_budget_part_close(&x->budget);
    for (size_t i = 0; i < x->n_headers; i++) {
        free(x->header[i].name);
        free(x->header[i].value);
    }
    free(x);
}
