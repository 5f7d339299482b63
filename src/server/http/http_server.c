/* SPDX-License-Identifier: Apache-2.0 */
/* Handles libmicrohttpd's callbacks: headers, body, reply, end. The body of a rejected request is
 * read and discarded before the reply: closing a connection with unread bytes resets it, and the
 * client would lose the reply. The reply is sent at once, without reading the body, if
 * the body is too large, the client waits for 100 Continue, or the connection must be closed
 * anyway. */
#include "server/http/http_server.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/processors.h"
#include "server/descriptors.h"
#include "server/http/request_checks.h"
#include "server/http/http_exchange_internal.h"
#include "server/log.h"
#include "server/page/page_files.h"
#include "server/routes.h"
#include "server/http/microhttpd_dl.h"
#include "server/http/zstd_body.h"

enum {
    CONNECTION_MEMORY = 2 * EY_MAX_HEADER_BYTES,
    CONNECTION_STACK = 1 << 20, /* of a connection's thread, which decodes images; untouched pages
                                  take no memory */
    FIRST_BODY = 16 << 10,
    LONG_BODY = 64 << 10, /* the thread of a longer body lets others run first */
    BUDGET_WAIT_MS = 2000,
    MAX_DISCARDED = 2 * EY_MAX_BODY_BYTES, /* bytes of a chunked body */
    MAX_PEM_BYTES = 1 << 20,
    MAX_DOORS = 2,
    MAX_RETIRED = 32, /* replaced daemons that still have open connections */
};

struct tls_pem {
    char *key, *certificate;
};

/* A libmicrohttpd daemon and its listening socket. */
struct listening_daemon {
    struct MHD_Daemon *daemon;
    struct server_socket listener;
};

/* A listening port: the server's own, or Ollama's. */
struct listening_door {
    struct http_server *http_server;
    struct listening_daemon current;
    bool ollama;
};

struct http_server {
    struct server *server;
    struct listening_door door[MAX_DOORS];
    size_t n_doors;
    struct listening_daemon retired[MAX_RETIRED]; /* finish their connections, accept none */
    size_t n_retired;
    bool paused;        /* the current daemons do not accept */
    struct tls_pem pem; /* of the current daemons; none without TLS */
    struct connections connections;
    struct address_range proxy[SERVER_MAX_DOMAINS];
    size_t n_proxies;
    pthread_rwlock_t keys_lock;
    struct api_keys keys;
    atomic_bool draining, ending;
};

/* ---- refusing ---- */

static void refuse_request(struct exchange *x, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void refuse_request(struct exchange *x, int status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(x->refusal.message, sizeof(x->refusal.message), fmt, args);
    va_end(args);
    x->refusal.status = status;
}

static void set_refusal_header(struct exchange *x, const char *name, const char *value)
{
    snprintf(x->refusal.name, sizeof(x->refusal.name), "%s", name);
    snprintf(x->refusal.value, sizeof(x->refusal.value), "%s", value);
}

static void send_refusal(struct exchange *x)
{
    if (x->refusal.name[0]) exchange_add_header(x, x->refusal.name, x->refusal.value);
    exchange_fail(x, x->refusal.status, NULL, NULL, "%s", x->refusal.message);
}

/* ---- the headers ---- */

struct request_headers {
    struct request_header item[EY_MAX_HEADERS];
    size_t n;
    bool too_many;
};

static enum MHD_Result collect_request_header(void *user, enum MHD_ValueKind kind, const char *name,
                                              size_t n_name, const char *value, size_t n_value)
{
    struct request_headers *h = user;
    (void)kind;
    h->too_many = h->n == EY_MAX_HEADERS;
    if (h->too_many) return MHD_NO;
    h->item[h->n++] = (struct request_header){name, value ? value : "", n_name, n_value};
    return MHD_YES;
}

/* libmicrohttpd before 1.0 truncates strings at a NUL byte in the request and joins folded lines.
 * Its strings point into the received bytes, so bytes that it hid from us show up as a gap between
 * one header's end and the next one's name. */
static bool is_reported_whole(const struct exchange *x, const struct request_headers *h,
                              const char *method, const char *version)
{
    const union MHD_ConnectionInfo *size = MHD_get_connection_info(
        x->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    enum { LINE_END = 2 };
    const char *at = version + strlen(version) + LINE_END;
    if (strtol(MHD_get_version(), NULL, 10) > 0) return true;
    if (method + strlen(method) + 1 != x->target || x->target + x->n_target + 1 != version)
        return false;
    for (size_t i = 0; i < h->n; i++) {
        if (h->item[i].name != at) return false;
        at = h->item[i].value + h->item[i].n_value + LINE_END;
    }
    return size && at + LINE_END == method + size->header_size;
}

static bool is_plain_target(const char *target)
{
    for (const char *p = target; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f || strncmp(p, "%00", 3) == 0) return false;
    return target[0] == '/' || strcmp(target, "*") == 0;
}

static bool check_syntax(struct exchange *x, const struct request_headers *h, const char *method,
                         const char *version)
{
    const union MHD_ConnectionInfo *size = MHD_get_connection_info(
        x->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const char *fault = request_headers_fault(h->item, h->n, strcmp(version, "HTTP/1.0") != 0);
    x->closes_connection = true;
    if (h->too_many || (size && size->header_size > EY_MAX_HEADER_BYTES))
        refuse_request(x, 431,
                       "the request has more than %d headers, or more than %d bytes of them",
                       EY_MAX_HEADERS, EY_MAX_HEADER_BYTES);
    else if (fault)
        refuse_request(x, 400, "%s", fault);
    else if (!x->method[0])
        refuse_request(x, 400, "the method has characters that are not allowed in a method");
    else if (x->bad_target || !is_reported_whole(x, h, method, version))
        refuse_request(
            x, 400,
            "the request has NUL or control characters, folded headers or line ends other than "
            "CR LF");
    else
        x->closes_connection = false;
    return !x->closes_connection;
}

static bool check_origin(struct exchange *x, const struct request_headers *h)
{
    const struct server_options *o = x->server->options;
    const char *host = request_header_value(h->item, h->n, "Host"),
               *origin = request_header_value(h->item, h->n, "Origin");
    if (host && !is_allowed_host(o, x->ollama ? x->bound_to : o->host, host)) {
        refuse_request(
            x, 421,
            "this server is not known as \"%.100s\"; start it with --allowed-hosts to let it "
            "answer to that name",
            host);
        return false;
    }
    if (!origin || (host && is_own_origin(origin, host))) return true;
    x->cors = is_allowed_origin(o, origin) || (x->ollama && is_loopback_origin(origin));
    if (!x->cors)
        refuse_request(
            x, 403,
            "pages of %.100s may not use this server; start it with --allowed-origins to let them",
            origin);
    return x->cors;
}

static const struct page_file *find_file(const char *method, const char *path)
{
    bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    for (size_t i = 0; reads && i < n_page_files; i++)
        if (strcmp(page_files[i].path, path) == 0) return &page_files[i];
    return NULL;
}

/* Whether to answer GET / with Ollama's text, not the page: for clients other than browsers. */
static bool wants_ollama_text(const struct exchange *x, const struct request_headers *h)
{
    const char *accept = request_header_value(h->item, h->n, "Accept");
    if (strcmp(x->path, "/") != 0) return false;
    return x->ollama || !accept || !strstr(accept, "text/html");
}

static bool has_key(struct http_server *http_server, const char *authorization, const char *key)
{
    pthread_rwlock_rdlock(&http_server->keys_lock);
    bool has = !http_server->keys.n || api_keys_accept(&http_server->keys, authorization) ||
               api_keys_accept_key(&http_server->keys, key);
    pthread_rwlock_unlock(&http_server->keys_lock);
    return has;
}

static bool check_key(struct exchange *x, const struct request_headers *h)
{
    bool open = x->file || (x->route && (x->route->flags & ROUTE_OPEN));
    open = open || (x->ollama && x->server->options->ollama_insecure);
    if (open ||
        has_key(x->server->http_server, request_header_value(h->item, h->n, "Authorization"),
                request_header_value(h->item, h->n, "X-Api-Key")))
        return true;
    refuse_request(x, 401,
                   "the API key is missing or wrong; send it as \"Authorization: Bearer KEY\"");
    set_refusal_header(x, "WWW-Authenticate", "Bearer");
    return false;
}

static void refuse_missing_route(struct exchange *x)
{
    char hint[160];
    route_hint(x->path, hint);
    refuse_request(x, 404, "there is no %.100s here; %s", x->path, hint);
}

static bool check_route(struct exchange *x, const char *allow)
{
    if (x->file || x->route) return true;
    if (!allow[0])
        refuse_missing_route(x);
    else {
        refuse_request(x, 405, "%.20s is not possible on %.200s; use %s", x->method, x->path,
                       allow);
        set_refusal_header(x, "Allow", allow);
    }
    return false;
}

static bool takes_body(const struct exchange *x)
{
    return x->route && strcmp(x->route->method, "GET") != 0;
}

static void check_coding(struct exchange *x, const char *coding)
{
    x->zstd = (x->route->flags & ROUTE_ZSTD) && strcasecmp(coding, "zstd") == 0;
    if (!x->zstd)
        refuse_request(x, 415, "a body with Content-Encoding: %.40s is not supported; send it %s",
                       coding,
                       x->route->flags & ROUTE_ZSTD ? "uncompressed or as zstd" : "uncompressed");
    else if (!zstd_load())
        refuse_request(x, 415, "compressed bodies need libzstd, which is not installed");
}

/* Requires JSON: a foreign page can send other types without a CORS preflight. */
static bool check_type(struct exchange *x, const struct request_headers *h)
{
    const char *coding = request_header_value(h->item, h->n, "Content-Encoding");
    bool any = (x->route->flags & ROUTE_ANY_TYPE) && !is_sent_by_page(h->item, h->n);
    if (!takes_body(x)) return true;
    if (!any && !is_json_type(request_header_value(h->item, h->n, "Content-Type")))
        refuse_request(x, 415,
                       "the Content-Type must be application/json; curl needs -H \"Content-Type: "
                       "application/json\"");
    else if (coding && strcasecmp(coding, "identity") != 0)
        check_coding(x, coding);
    return !x->refusal.status;
}

static size_t expected_bytes(const struct request_headers *h)
{
    const char *length = request_header_value(h->item, h->n, "Content-Length");
    return length ? strtoull(length, NULL, 10) : 0;
}

static bool check_body_size(struct exchange *x)
{
    if (x->n_expected > EY_MAX_BODY_BYTES)
        refuse_request(x, 413, "the body has %zu bytes; the limit is %d", x->n_expected,
                       EY_MAX_BODY_BYTES);
    return !x->refusal.status;
}

/* Returns the client's address: the peer's or, behind trusted proxies, that of the forwarding
 * headers, read from the last one backwards. */
static struct client_address request_client(const struct exchange *x,
                                            const struct request_headers *h)
{
    struct http_server *http_server = x->server->http_server;
    const struct trusted_proxies proxies = {http_server->proxy, http_server->n_proxies};
    struct client_address client = x->connection->peer;
    const bool plain = request_header_value(h->item, h->n, "X-Forwarded-For") != NULL;
    const char *name = plain ? "X-Forwarded-For" : "Forwarded";
    bool more = is_trusted_proxy(&proxies, client);
    for (size_t i = h->n; i-- > 0 && more;)
        if (strcasecmp(h->item[i].name, name) == 0)
            more = client_address_forwarded(&client, h->item[i].value, plain, &proxies);
    return client;
}

static bool is_probe(const struct exchange *x)
{
    return x->route && (x->route->flags & ROUTE_PROBE);
}

static bool check_load(struct exchange *x, const struct request_headers *h)
{
    const struct client_address address = request_client(x, h);
    const struct client_number client = client_address_number(address);
    client_address_write(address, x->client);
    x->budget = ey_budget_part_open(x->server->budget, client.high, client.low);
    if (!x->budget) {
        refuse_request(x, 503, "no memory for the request; send it again later");
        x->closes_connection = true;
    } else if (!is_probe(x) && !connections_admit(x->connections, x->connection, client)) {
        refuse_request(x, 503,
                       "%s already has as many running requests as one client may have; the server "
                       "runs at most %d at once (--max-connections); try again soon",
                       x->client, x->connections->max);
        x->closes_connection = true;
    } else if (takes_body(x) && server_is_draining(x->server))
        refuse_request(x, 503, "the server is shutting down");
    return !x->refusal.status;
}

static void check_request_headers(struct exchange *x, const struct request_headers *h,
                                  const char *method, const char *version)
{
    const char *allow = "";
    bool preflight = strcmp(x->method, "OPTIONS") == 0;
    if (!check_syntax(x, h, method, version)) return;
    if (!wants_ollama_text(x, h)) x->file = find_file(x->method, x->path);
    if (!x->file) x->route = route_find(x->method, x->path, &allow);
    if (x->route && (x->route->flags & ROUTE_ANY_END))
        x->argument = x->path + strlen(x->route->path);
    if (!check_load(x, h) || !check_origin(x, h) || preflight || !check_key(x, h) ||
        !check_route(x, allow))
        return;
    if (x->file || !check_type(x, h)) return;
    check_body_size(x);
}

static enum MHD_Result receive_headers(struct exchange *x, const char *path, const char *method,
                                       const char *version)
{
    struct request_headers h = {.n = 0};
    const struct server_options *o = x->server->options;
    /* The base URL of some clients needlessly ends in /v1. */
    x->path = strncmp(path, "/v1/v1/", 7) == 0 ? path + 3 : path;
    x->write_error = route_error_form(x->path);
    x->method = is_http_token(method, strlen(method)) ? method : "";
    x->headers_seen = true;
    MHD_get_connection_values_n(x->mhd, MHD_HEADER_KIND, collect_request_header, &h);
    x->n_expected = expected_bytes(&h);
    check_request_headers(x, &h, method, version);
    if (!is_probe(x)) thread_set_pace(PACE_PLAIN);
    connections_enter(x->connections, x->connection, PHASE_BODY, o->body_seconds);
    bool waits = request_header_value(h.item, h.n, "Expect") != NULL; /* Expect: 100-continue */
    if (!x->refusal.status || !(x->closes_connection || waits || x->n_expected > EY_MAX_BODY_BYTES))
        return MHD_YES;
    send_refusal(x);
    return x->queued ? MHD_YES : MHD_NO;
}

/* ---- the body ---- */

static bool take_body_budget(struct exchange *x, uint64_t n)
{
    if (x->capacity ? ey_budget_acquire(x->budget, n, 0) : ey_budget_acquire_first(x->budget, n, 0))
        return true;
    connections_hold_up(x->connections, x->connection, true);
    bool taken = x->capacity ? ey_budget_acquire(x->budget, n, BUDGET_WAIT_MS)
                             : ey_budget_acquire_first(x->budget, n, BUDGET_WAIT_MS);
    connections_hold_up(x->connections, x->connection, false);
    return taken;
}

/* Reserves n more bytes and a NUL from the budget as they arrive: a client that only announces a
 * large body reserves nothing. */
static bool reserve_body(struct exchange *x, size_t n)
{
    const size_t most = (size_t)EY_MAX_BODY_BYTES + 1;
    size_t need = x->n_body + n + 1, capacity = x->capacity * 2;
    if (need > most) {
        refuse_request(x, 413, "the body is larger than %d bytes", EY_MAX_BODY_BYTES);
        return false;
    }
    if (need <= x->capacity) return true;
    if (capacity < FIRST_BODY) capacity = FIRST_BODY;
    if (x->n_expected && capacity > x->n_expected + 1) capacity = x->n_expected + 1;
    if (capacity > most) capacity = most;
    if (capacity < need) capacity = need;
    uint64_t more = capacity - x->capacity;
    bool taken = take_body_budget(x, more);
    char *body = taken ? realloc(x->body, capacity) : NULL;
    if (taken) x->budget_held += more;
    if (body) {
        x->body = body;
        x->capacity = capacity;
    } else
        refuse_request(x, 503,
                       "the memory for requests in flight, %llu bytes (--host-memory), is taken by "
                       "others; try again soon",
                       (unsigned long long)ey_budget_total(x->budget));
    return body != NULL;
}

static enum MHD_Result receive_body(struct exchange *x, const char *bytes, size_t n)
{
    const struct server_options *o = x->server->options;
    bool keep = !x->refusal.status && takes_body(x);
    x->n_received += n;
    if (x->n_received > LONG_BODY) thread_set_pace(PACE_PATIENT);
    connections_progress(x->connections, x->connection, x->n_received, o->stall_seconds);
    if (x->n_received > MAX_DISCARDED) return MHD_NO;
    if (!keep) return MHD_YES;
    if (!reserve_body(x, n)) {
        exchange_drop_body(x);
        return MHD_YES;
    }
    memcpy(x->body + x->n_body, bytes, n);
    x->n_body += n;
    x->body[x->n_body] = 0;
    return MHD_YES;
}

/* ---- a compressed body ---- */

static bool add_decoded(void *user, const char *bytes, size_t n)
{
    struct exchange *x = user;
    if (!reserve_body(x, n)) return false;
    memcpy(x->body + x->n_body, bytes, n);
    x->n_body += n;
    x->body[x->n_body] = 0;
    return true;
}

static void refuse_compressed(struct exchange *x, enum zstd_result result)
{
    switch (result) {
    case ZSTD_DECODED:
    case ZSTD_STOPPED: break; /* reserve_body() has refused it */
    case ZSTD_BROKEN: refuse_request(x, 400, "the body is not valid zstd"); break;
    case ZSTD_TOO_LARGE:
        refuse_request(x, 413,
                       "the decompressed body is larger than %d bytes, or its zstd window is "
                       "larger than %d bytes",
                       ZSTD_MAX_BODY_BYTES, 1 << ZSTD_MAX_WINDOW_LOG);
        break;
    case ZSTD_NO_MEMORY: refuse_request(x, 503, "no memory to decompress the body"); break;
    }
}

/* Replaces the body by its decoded form. Both are in memory meanwhile. */
static void decode_body(struct exchange *x)
{
    char *encoded = x->body;
    const size_t n = x->n_body, capacity = x->capacity;
    if (!take_body_budget(x, ZSTD_WORK_BYTES)) {
        refuse_request(x, 503,
                       "the memory for requests in flight is taken by others; try again soon");
        return;
    }
    x->body = NULL;
    x->n_body = x->capacity = x->n_expected = 0;
    refuse_compressed(x, zstd_decode(encoded ? encoded : "", n, add_decoded, x));
    free(encoded);
    ey_budget_release(x->budget, capacity + ZSTD_WORK_BYTES);
    x->budget_held -= capacity;
    if (x->refusal.status) exchange_drop_body(x);
}

/* ---- the answer ---- */

static bool is_header_list(const char *text)
{
    return strlen(text) < 1024 &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_, ") ==
               strlen(text);
}

/* Answers OPTIONS, which browsers send as a CORS preflight. */
static void answer_preflight(struct exchange *x)
{
    const char *wanted = exchange_request_header(x, "Access-Control-Request-Headers");
    const char *allow = "";
    route_find("OPTIONS", x->path, &allow);
    exchange_add_header(x, "Allow", allow[0] ? allow : "GET, HEAD, OPTIONS");
    if (x->cors) {
        exchange_add_header(x, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
        exchange_add_header(x, "Access-Control-Allow-Headers",
                            wanted && is_header_list(wanted) ? wanted
                                                             : "authorization, content-type");
        exchange_add_header(x, "Access-Control-Max-Age", "600");
        if (exchange_request_header(x, "Access-Control-Request-Private-Network"))
            exchange_add_header(x, "Access-Control-Allow-Private-Network", "true");
    }
    exchange_reply_empty(x, 204);
}

static void answer_file(struct exchange *x)
{
    const struct page_file *f = x->file;
    const char *known = exchange_request_header(x, "If-None-Match");
    exchange_add_header(x, "Content-Security-Policy",
                        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' "
                        "blob: data:; connect-src 'self'; manifest-src 'self'; "
                        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    exchange_add_header(x, "Referrer-Policy", "no-referrer");
    exchange_add_header(x, "Cache-Control", "no-cache");
    exchange_add_header(x, "ETag", f->etag);
    if (known && strstr(known, f->etag))
        exchange_reply_empty(x, 304);
    else
        exchange_reply_static(x, 200, f->type, f->bytes, f->n);
}

static bool nobody_waits(void *exchange)
{
    return exchange_abandoned(exchange);
}

static void run_route(struct exchange *x)
{
    compute_turns_for(x->budget, nobody_waits, x);
    x->route->run(x->server, x);
    compute_turns_for(NULL, NULL, NULL);
}

static enum MHD_Result answer_request(struct exchange *x)
{
    if (!is_probe(x)) thread_set_pace(PACE_PLAIN);
    connections_enter(x->connections, x->connection, PHASE_WORKING, 0);
    if (x->zstd && !x->refusal.status) decode_body(x);
    if (!x->refusal.status && x->server->options->log_requests && x->n_body)
        log_body(x->log_path, x->body, x->n_body);
    if (x->refusal.status)
        send_refusal(x);
    else if (strcmp(x->method, "OPTIONS") == 0)
        answer_preflight(x);
    else if (x->file)
        answer_file(x);
    else
        run_route(x);
    if (!x->status) exchange_fail(x, 500, NULL, NULL, "the request was not answered");
    return x->queued ? MHD_YES : MHD_NO;
}

static enum MHD_Result handle_request(void *user, struct MHD_Connection *mhd, const char *path,
                                      const char *method, const char *version, const char *bytes,
                                      size_t *n, void **state)
{
    struct exchange *x = *state;
    (void)user;
    (void)mhd;
    if (!x) return MHD_NO;
    if (!x->headers_seen) return receive_headers(x, path, method, version);
    if (!*n) return answer_request(x);
    size_t given = *n;
    *n = 0;
    return receive_body(x, bytes, given);
}

/* ---- from the first line to the end ---- */

/* Sets the path for the log. Characters that are not printable ASCII become '?'. */
static void set_log_path(struct exchange *x)
{
    size_t n = strcspn(x->target, "?");
    if (n >= sizeof(x->log_path)) n = sizeof(x->log_path) - 1;
    for (size_t i = 0; i < n; i++)
        x->log_path[i] = x->target[i] > ' ' && x->target[i] < 0x7f ? x->target[i] : '?';
}

/* Until its headers have been read, a request may be a health probe, which must be answered
 * promptly. */
static void *begin_exchange(void *user, const char *target, struct MHD_Connection *mhd)
{
    const struct listening_door *door = user;
    struct http_server *http_server = door->http_server;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_connection *connection = info ? info->socket_context : NULL;
    struct exchange *x = connection ? calloc(1, sizeof(*x)) : NULL;
    if (!x) return NULL;
    thread_set_pace(PACE_PROMPT);
    x->server = http_server->server;
    x->ollama = door->ollama;
    x->bound_to = door->current.listener.address;
    x->connections = &http_server->connections;
    x->connection = connection;
    x->mhd = mhd;
    x->started = seconds_now();
    x->target = target ? target : "";
    x->n_target = strlen(x->target);
    x->bad_target = !is_plain_target(x->target);
    set_log_path(x);
    client_address_write(connection->peer, x->client);
    connections_enter(x->connections, connection, PHASE_HEADERS,
                      http_server->server->options->header_seconds);
    return x;
}

static void end_exchange(void *user, struct MHD_Connection *mhd, void **state,
                         enum MHD_RequestTerminationCode how)
{
    struct http_server *http_server = ((struct listening_door *)user)->http_server;
    struct exchange *x = *state;
    (void)mhd;
    *state = NULL;
    if (!x) return;
    bool whole = how == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    if (!x->status && connections_told(x->connections, x->connection)) x->status = 408;
    metrics_count_reply(http_server->server->metrics, x->status);
    if (!http_server->server->options->quiet && !(is_probe(x) && x->status == 200))
        log_access(x->client, x->method, x->log_path, x->status, seconds_now() - x->started, whole);
    connections_enter(x->connections, x->connection, PHASE_IDLE,
                      http_server->server->options->idle_seconds);
    exchange_free(x);
}

static void on_connection(void *user, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *http_server = ((struct listening_door *)user)->http_server;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) thread_set_pace(PACE_PROMPT); /* accepting thread */
    if (code == MHD_CONNECTION_NOTIFY_STARTED && info)
        *context = connections_add(&http_server->connections, info->connect_fd,
                                   http_server->server->options->header_seconds);
    else if (code == MHD_CONNECTION_NOTIFY_CLOSED && *context) {
        connections_remove(&http_server->connections, *context);
        *context = NULL;
    }
}

/* ---- opening ---- */

static bool read_pem(struct tls_pem *pem, const struct server_options *o, ey_err *e)
{
    size_t n;
    if (!o->ssl_keyfile && !o->ssl_certfile) return true;
    if (!o->ssl_keyfile || !o->ssl_certfile)
        return ey_fail(e, EY_BAD_REQUEST, "TLS needs both --ssl-keyfile and --ssl-certfile");
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return ey_fail(e, EY_BAD_REQUEST,
                       "the libmicrohttpd installed here has no TLS; put a proxy in front, or "
                       "leave out --ssl-keyfile");
    return file_read(&pem->key, &n, o->ssl_keyfile, MAX_PEM_BYTES, e) &&
           file_read(&pem->certificate, &n, o->ssl_certfile, MAX_PEM_BYTES, e);
}

/* False if key or certificate came from a pipe, which cannot be read again. */
static bool can_read_pem_again(const struct server_options *o)
{
    return !o->ssl_keyfile || (path_is_file(o->ssl_keyfile) && path_is_file(o->ssl_certfile));
}

static void wipe_pem(struct tls_pem *pem)
{
    if (pem->key) explicit_bzero(pem->key, strlen(pem->key));
    free(pem->key);
    free(pem->certificate);
    *pem = (struct tls_pem){0};
}

/* After some failures the library has closed the socket, and its descriptor may be that of another
 * file by now. Forgets such a descriptor. */
static void forget_closed_socket(struct server_socket *l, const struct stat *opened)
{
    struct stat now;
    if (fstat(l->fd, &now) != 0 || now.st_ino != opened->st_ino || now.st_dev != opened->st_dev)
        l->fd = -1;
}

/* Starts a daemon, which then owns the socket. Returns NULL on failure. */
static struct MHD_Daemon *start_daemon(struct listening_door *door, struct server_socket *l,
                                       const struct tls_pem *pem, ey_err *e)
{
    struct stat opened = {0};
    struct http_server *http_server = door->http_server;
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
                     MHD_USE_POLL | MHD_USE_ITC;
    if (l->v6) flags |= MHD_USE_IPv6;
    if (pem->key) flags |= MHD_USE_TLS;
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_KEY, 0, pem->key},
                                   {MHD_OPTION_HTTPS_MEM_CERT, 0, pem->certificate},
                                   {MHD_OPTION_END, 0, NULL}};
    fstat(l->fd, &opened);
    /* No library timeout: with poll() it busy-waits in its last second. connections.h has ours. */
    struct MHD_Daemon *daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, handle_request, door, MHD_OPTION_LISTEN_SOCKET, l->fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)http_server->connections.n_slots,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_THREAD_STACK_SIZE,
        (size_t)CONNECTION_STACK, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK,
        begin_exchange, door, MHD_OPTION_NOTIFY_COMPLETED, end_exchange, door,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, door, MHD_OPTION_ARRAY,
        pem->key ? tls : tls + 2, MHD_OPTION_END);
    if (daemon) return daemon;
    forget_closed_socket(l, &opened);
    if (pem->key)
        ey_fail(e, EY_BAD_REQUEST,
                "the key and certificate of --ssl-keyfile and --ssl-certfile could not be used; "
                "both must be PEM and belong together");
    else
        ey_fail(e, EY_IO, "the HTTP server could not be started");
    return NULL;
}

static bool open_connections(struct http_server *http_server, ey_err *e)
{
    const struct server_options *o = http_server->server->options;
    int room = descriptors_for_connections(connections_room_for(o->max_connections));
    bool ok = connections_open(&http_server->connections, o->max_connections, room, e);
    http_server->connections.encrypted = o->ssl_keyfile != NULL;
    return ok;
}

static bool read_proxies(struct http_server *http_server, ey_err *e)
{
    const struct server_options *o = http_server->server->options;
    for (size_t i = 0; i < o->n_proxies; i++)
        if (!address_range_read(&http_server->proxy[i], o->proxies[i]))
            return ey_fail(
                e, EY_BAD_REQUEST,
                "--trusted-proxy %s: not an address or a network, such as 192.0.2.1 or 10.0.0.0/8",
                o->proxies[i]);
    http_server->n_proxies = o->n_proxies;
    return true;
}

/* Opens a listening port, which owns the socket once its daemon runs. */
static bool open_door(struct http_server *http_server, struct server_socket *listener, bool ollama,
                      const struct tls_pem *pem, ey_err *e)
{
    struct listening_door *door = &http_server->door[http_server->n_doors];
    *door = (struct listening_door){
        .http_server = http_server, .ollama = ollama, .current.listener = *listener};
    door->current.daemon = start_daemon(door, listener, pem, e);
    if (!door->current.daemon) return false;
    http_server->n_doors++;
    listener->fd = -1;
    return true;
}

bool http_server_open(struct server *server, struct server_socket *listener,
                      struct server_socket *ollama, ey_err *e)
{
    if (!microhttpd_load(e)) return false;
    struct http_server *http_server = server->http_server = calloc(1, sizeof(*http_server));
    if (!http_server) return ey_fail_memory(e, "the server", sizeof(*http_server));
    http_server->server = server;
    http_server->keys = server->options->keys;
    pthread_rwlock_init(&http_server->keys_lock, NULL);
    return open_connections(http_server, e) && read_proxies(http_server, e) &&
           read_pem(&http_server->pem, server->options, e) &&
           open_door(http_server, listener, false, &http_server->pem, e) &&
           (ollama->fd < 0 || open_door(http_server, ollama, true, &http_server->pem, e));
}

/* ---- reloading keys and certificate ---- */

static bool reload_keys(struct http_server *http_server, ey_err *e)
{
    const struct server_options *o = http_server->server->options;
    if (!o->api_key_file) return true;
    if (!path_is_file(o->api_key_file))
        return ey_fail(e, EY_IO, "%s: not a regular file", o->api_key_file);
    struct api_keys keys = o->keys;
    keys.n = o->n_given_keys;
    if (!api_keys_add_file(&keys, o->api_key_file, e)) return false;
    pthread_rwlock_wrlock(&http_server->keys_lock);
    http_server->keys = keys;
    pthread_rwlock_unlock(&http_server->keys_lock);
    return true;
}

static void stop_retired(struct listening_daemon *old)
{
    MHD_stop_daemon(old->daemon);
    server_socket_close(&old->listener);
}

/* Stops retired daemons without connections; stopping a busy one would block until they end. */
static void stop_idle_retired(struct http_server *http_server)
{
    size_t kept = 0;
    for (size_t i = 0; i < http_server->n_retired; i++) {
        struct listening_daemon *old = &http_server->retired[i];
        const union MHD_DaemonInfo *info = MHD_get_daemon_info(old->daemon,
                                                               MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
        if (info && !info->num_connections)
            stop_retired(old);
        else
            http_server->retired[kept++] = *old;
    }
    http_server->n_retired = kept;
}

/* The library reads a certificate only when a daemon starts, and a daemon that stopped listening
 * cannot resume: a new daemon takes over the socket. */
static bool start_fresh(struct listening_door *door, const struct tls_pem *pem,
                        struct listening_daemon *fresh, ey_err *e)
{
    *fresh = (struct listening_daemon){.listener = door->current.listener};
    fresh->listener.fd = fcntl(fresh->listener.fd, F_DUPFD_CLOEXEC, 0);
    if (fresh->listener.fd < 0)
        return ey_fail(e, EY_IO, "no descriptor is left for a new listener (ulimit -n)");
    fresh->daemon = start_daemon(door, &fresh->listener, pem, e);
    if (!fresh->daemon) server_socket_close(&fresh->listener);
    return fresh->daemon != NULL;
}

static void retire(struct http_server *http_server, const struct listening_daemon *old)
{
    MHD_quiesce_daemon(old->daemon);
    http_server->retired[http_server->n_retired++] = *old;
}

/* Replaces the daemons of all ports, or of none if one of them cannot be started. */
static bool replace_daemons(struct http_server *http_server, const struct tls_pem *pem, ey_err *e)
{
    struct listening_daemon fresh[MAX_DOORS];
    stop_idle_retired(http_server);
    if (http_server->n_retired + http_server->n_doors > MAX_RETIRED)
        return ey_fail(e, EY_BUSY,
                       "%zu replaced listeners still have open connections; try again later",
                       http_server->n_retired);
    for (size_t i = 0; i < http_server->n_doors; i++) {
        if (start_fresh(&http_server->door[i], pem, &fresh[i], e)) continue;
        while (i-- > 0)
            retire(http_server, &fresh[i]); /* it may have accepted connections */
        return false;
    }
    for (size_t i = 0; i < http_server->n_doors; i++) {
        retire(http_server, &http_server->door[i].current);
        http_server->door[i].current = fresh[i];
    }
    http_server->paused = false;
    return true;
}

static bool reload_certificate(struct http_server *http_server, ey_err *e)
{
    const struct server_options *o = http_server->server->options;
    struct tls_pem pem = {0};
    if (!o->ssl_keyfile) return true;
    if (!can_read_pem_again(o))
        return ey_fail(e, EY_IO, "--ssl-keyfile and --ssl-certfile: not regular files");
    bool ok = read_pem(&pem, o, e) && replace_daemons(http_server, &pem, e);
    struct tls_pem unused = ok ? http_server->pem : pem;
    if (ok) http_server->pem = pem;
    wipe_pem(&unused);
    return ok;
}

bool http_server_reload(struct http_server *http_server, ey_err *e)
{
    bool keys = reload_keys(http_server, e);
    return reload_certificate(http_server, keys ? e : NULL) && keys;
}

void http_server_pause(struct http_server *http_server)
{
    for (size_t i = 0; i < http_server->n_doors; i++)
        MHD_quiesce_daemon(http_server->door[i].current.daemon);
    http_server->paused = true;
}

bool http_server_is_paused(const struct http_server *http_server)
{
    return http_server->paused;
}

bool http_server_resume(struct http_server *http_server, ey_err *e)
{
    return replace_daemons(http_server, &http_server->pem, e);
}

void http_server_close(struct http_server **out)
{
    struct http_server *http_server = *out;
    if (!http_server) return;
    for (size_t i = 0; i < http_server->n_retired; i++)
        stop_retired(&http_server->retired[i]);
    for (size_t i = 0; i < http_server->n_doors; i++) {
        MHD_stop_daemon(http_server->door[i].current.daemon);
        if (http_server->paused) server_socket_close(&http_server->door[i].current.listener);
    }
    wipe_pem(&http_server->pem);
    connections_close(&http_server->connections);
    pthread_rwlock_destroy(&http_server->keys_lock);
    free(http_server);
    *out = NULL;
}

struct connections *http_server_connections(struct http_server *http_server)
{
    return &http_server->connections;
}

void http_server_drain(struct http_server *http_server)
{
    http_server->draining = true;
}

void http_server_end_streams(struct http_server *http_server)
{
    http_server->draining = true;
    http_server->ending = true;
}

bool server_is_draining(const struct server *s)
{
    return s->http_server && s->http_server->draining;
}

bool server_is_ending(const struct server *s)
{
    return s->http_server && s->http_server->ending;
}
