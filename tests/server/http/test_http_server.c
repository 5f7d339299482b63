/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server over real sockets: refusals, deadlines, and shutdown. */
#include "../tls_client.h"
#include "server/http_test_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/pace.h"

static struct running open_server; /* no key, default deadlines */

static int start_open_server(void **state)
{
    (void)state;
    struct server_options o = demo_options();
    o.origins[o.n_origins++] = "https://friend.example";
    open_server = server_start(&o);
    return 0;
}

static int stop_open_server(void **state)
{
    (void)state;
    server_stop(&open_server);
    return 0;
}

static const char json_type[] = "Content-Type: application/json\r\n";
/* An answer that takes minutes with slow steps (pace.h). */
static const char long_stream[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}], "
                                  "\"max_tokens\": 4000, \"ignore_eos\": true, "
                                  "\"stream\": true, \"temperature\": 0}";

static int start_stream(int port, const char *body)
{
    char head[256];
    int fd = web_connect(port);
    snprintf(
        head, sizeof(head),
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n",
        json_type, strlen(body));
    web_say(fd, head);
    web_say(fd, body);
    return fd;
}

static void await_rest(int port)
{
    web_await_metric(port, "vllm:num_requests_running", 0);
    web_await_metric(port, "vllm:num_requests_waiting", 0);
    web_await_metric(port, "eyelet_kv_blocks_used", 0);
    web_await_metric(port, "eyelet_host_budget_used_bytes", 0);
}

/* ---- malformed requests ---- */

#define RAW(text) text, sizeof(text) - 1

static void malformed_requests_get_400_and_the_connection_ends(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        int status;
    } cases[] = {
        {RAW("GET /health HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400},
        {RAW("GET /health HTTP/1.1\r\n\r\n"), 400},
        {RAW("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
             "application/json\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} "),
         400},
        {RAW("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
             "application/json\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}"),
         400},
        {RAW("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
             "application/json\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
             "2\r\n{}\r\n0\r\n\r\n"),
         400},
        {RAW("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
             "application/json\r\nTransfer-Encoding: gzip\r\n\r\n{}"),
         400},
        {RAW("POST /tokenize HTTP/1.0\r\nHost: localhost\r\nContent-Type: "
             "application/json\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
         400},
        {RAW("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
             "application/json\r\nContent-Length: -2\r\n\r\n{}"),
         400},
        {RAW("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
             "application/json\r\nContent-Length: 2x\r\n\r\n{}"),
         400},
        {RAW("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
             "application/json\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
         400},
        {RAW("GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n"), 400},
        {RAW("GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\0\r\nY: b\r\n\r\n"), 400},
        {RAW("GET /health HTTP/1.1\r\nHost: localhost\r\nX\0: a\r\n\r\n"), 400},
        {RAW("GET /health HTTP/1.1\r\nHost: localhost\0\r\n\r\n"), 400},
        {RAW("GET /health\0 HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400},
        {RAW("GET /hea\0lth HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400},
        {RAW("GET /health%00 HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400},
        {RAW("GET /health?a=%00 HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400},
        {RAW("GET /health\x01 HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400},
        {RAW("G\x1b[31mET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400},
        {RAW("G\0T /health HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400},
        {RAW("GET health HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400},
        {RAW("GET http://localhost/health HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400},
        {RAW("GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\x01\r\n\r\n"), 400},
        {RAW("GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n"), 400},
        {RAW("GET /health HTTP/1.1\r\nHost: localhost\r\nX : a\r\n\r\n"), 400},
        {RAW("GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n"), 400},
        {RAW("GET /health HTTP/1.1\r\nHost: localhost\r\n X: a\r\n\r\n"), 400},
        {RAW("GET /health HTTP/1.1\nHost: localhost\n\n"), 400},
        {RAW("GET /health HTTP/1.1\r\nHost: localhost\nX: a\r\n\r\n"), 400},
        {RAW("GET /health HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n"), 400},
        {RAW("GET /health HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\nAuthorization: "
             "Bearer b\r\n\r\n"),
         400},
        {RAW("GET /health HTTP/3.0\r\nHost: localhost\r\n\r\n"), 505},
        {RAW("GET /health HTTPS/1.1\r\nHost: localhost\r\n\r\n"), 400},
        {RAW("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"), 0},
        {RAW("nonsense\r\n\r\n"), 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int fd = web_connect(open_server.port);
        web_send(fd, cases[i].bytes, cases[i].n);
        char *said = web_hear_all(fd);
        int status = strncmp(said, "HTTP/1.", 7) == 0 ? atoi(said + 9) : 0;
        if (status != cases[i].status && !(cases[i].status == 0 && status == 400)) {
            print_error("case %zu: %d, not %d: %.60s\n", i, status, cases[i].status,
                        cases[i].bytes);
            fail();
        }
        free(said);
        close(fd);
    }
    char *log = server_log(&open_server);
    assert_null(strchr(log, 0x1b));
    free(log);
}

/* libmicrohttpd 0.9.75 refuses some requests before the server sees them: for an invalid
 * Content-Length it sends the head twice, for a huge chunk extension HTML. The connection must end
 * then, so that no later bytes are taken for the answer to another request. */
static void the_librarys_own_refusals_end_the_connection(void **state)
{
    (void)state;
    enum { N = 200 << 10 };
    char *large = malloc(N + 1);
    assert_non_null(large);
    memset(large, 'x', N);
    large[N] = 0;
    const struct {
        const char *head, *body;
    } cases[] = {
        {"Content-Length: two\r\n\r\n", "{}"},
        {"Content-Length: 99999999999999999999\r\n\r\n", "{}"},
        {"Transfer-Encoding: chunked\r\n\r\n2;", large},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int fd = web_connect(open_server.port);
        web_say(fd, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                    "Content-Type: application/json\r\n");
        web_say(fd, cases[i].head);
        web_try_send(fd, cases[i].body, strlen(cases[i].body));
        web_try_send(fd, RAW("GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        char *said = web_hear_all(fd);
        if (said[0]) { /* unread bytes may reset the connection */
            assert_memory_equal(said, "HTTP/1.1 ", 9);
            assert_true(said[9] == '4' || said[9] == '5');
            assert_non_null(strstr(said, "\r\nConnection: close\r\n"));
            for (char *at = said; (at = strstr(at, "HTTP/1.1 ")) != NULL; at++)
                assert_memory_equal(at, said, 12);
        }
        assert_null(strstr(said, "{\"version\""));
        free(said);
        close(fd);
    }
    free(large);
    struct reply r = web_ask(open_server.port, "GET", "/version", NULL, NULL);
    assert_int_equal(r.status, 200);
    reply_free(&r);
}

/* The same requests without their faults. */
static void well_formed_requests_are_accepted(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        int status;
    } cases[] = {
        {"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 200},
        {"GET /health HTTP/1.1\r\nhost:localhost\r\nX:\r\nY:   a  \r\n\r\n", 200},
        {"\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 200},
        {"GET /health?a=b&c HTTP/1.1\r\nHost: localhost\r\nCookie: a=b; c=\"d\"\r\n\r\n", 200},
        {"GET /v1/models/%64emo HTTP/1.1\r\nHost: localhost\r\n\r\n", 200},
        {"GET /health HTTP/1.0\r\n\r\n", 200},
        {"HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 200},
        {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
         "application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
         "6\r\n{\"prom\r\n10\r\npt\": \"Hello you\"\r\n1\r\n}\r\n0\r\n\r\n",
         200},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int fd = web_connect(open_server.port);
        web_say(fd, cases[i].bytes);
        struct reply r = web_reply(fd);
        if (r.status != cases[i].status) {
            print_error("%d for %s\n", r.status, cases[i].bytes);
            fail();
        }
        reply_free(&r);
        close(fd);
    }
}

static void connections_are_kept(void **state)
{
    (void)state;
    int fd = web_connect(open_server.port);
    for (int i = 0; i < 3; i++) {
        web_say(fd, i == 1 ? "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n"
                           : "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n");
        struct reply r = web_reply(fd);
        assert_int_equal(r.status, i == 1 ? 404 : 200);
        assert_false(r.closed);
        reply_free(&r);
    }
    web_say(fd, "GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    char *said = web_hear_all(fd);
    assert_non_null(strstr(said, "{\"version\": \""));
    free(said);
    close(fd);
}

/* ---- routes ---- */

static void statuses(void **state)
{
    (void)state;
    static const char html[] = "Accept: text/html\r\n";
    static const struct {
        const char *method, *path, *more, *body;
        int status;
        const char *has; /* in head or body */
    } cases[] = {
        {"GET", "/health", NULL, NULL, 200, "{\"status\": \"ok\"}"},
        {"GET", "/ready", NULL, NULL, 200, "\"percent\": 100"},
        {"GET", "/version", NULL, NULL, 200, "{\"version\": \"" EY_VERSION "\"}"},
        {"GET", "/v1/models", NULL, NULL, 200, "\"max_model_len\": 4096"},
        {"GET", "/v1/models/demo", NULL, NULL, 200, "{\"id\": \"demo\", \"object\": \"model\""},
        {"GET", "/v1/models/other", NULL, NULL, 404, "The model `other` does not exist."},
        {"GET", "/v1/models/", NULL, NULL, 200, "\"object\": \"list\""},
        {"GET", "/eyelet/plan", NULL, NULL, 200, "\"name\": \"KV cache\""},
        {"GET", "/metrics", NULL, NULL, 200,
         "vllm:time_to_first_token_seconds_bucket{engine=\"0\",model_name=\"demo\",le=\"0.001\"} "},
        {"GET", "/nowhere", NULL, NULL, 404, "\"code\": 404"},
        {"POST", "/nowhere", json_type, "{}", 404, "NotFoundError"},
        {"GET", "/tokenize", NULL, NULL, 405, "Allow: POST, OPTIONS"},
        {"POST", "/health", json_type, "{}", 405, "Allow: GET, HEAD, OPTIONS"},
        {"DELETE", "/v1/models/demo", NULL, NULL, 405, "Allow: GET"},
        {"BREW", "/v1/models", NULL, NULL, 405, "Allow: GET"},
        {"BREW", "/props", NULL, NULL, 405, "Allow: GET, HEAD, POST, OPTIONS\r\n"},
        {"BREW", "/v1/responses/x", NULL, NULL, 405, "Allow: GET, HEAD, POST, DELETE, OPTIONS\r\n"},
        {"POST", "/tokenize", NULL, "{\"prompt\": \"Hello\"}", 415, "application/json"},
        {"POST", "/tokenize", "Content-Type: text/plain\r\n", "{\"prompt\": \"Hello\"}", 415,
         "application/json"},
        {"POST", "/tokenize", "Content-Type: application/json\r\nContent-Encoding: gzip\r\n", "x",
         415, "Content-Encoding"},
        {"POST", "/tokenize", json_type, "{\"prompt\": \"Hello\"}", 200, "\"count\""},
        {"POST", "/tokenize", json_type, NULL, 400, "\"type\": \"Bad Request\""},
        {"OPTIONS", "/tokenize", NULL, NULL, 204, "Allow: POST, OPTIONS"},
        {"GET", "/", html, NULL, 200,
         "Content-Security-Policy: default-src 'none'; script-src 'self';"},
        {"GET", "/", html, NULL, 200, "<!doctype html>"},
        {"GET", "/", NULL, NULL, 200, "Ollama is running"},
        {"POST", "/", json_type, "{}", 405, "Allow: GET"},
        {"GET", "/models", NULL, NULL, 200, "\"aliases\": []"},
        {"GET", "/v1/v1/models/", NULL, NULL, 200, "\"first_id\": \"demo\""},
        {"GET", "/props", NULL, NULL, 200, "\"vision\": true"},
        {"GET", "/slots?fail_on_no_slot=1", NULL, NULL, 200, "\"is_processing\": false"},
        {"GET", "/version", NULL, NULL, 200, "x-request-id: req_"},
        {"POST", "/openai/v1/chat/completions", json_type, "{}", 404,
         "use /v1/chat/completions; remove the prefix before it"},
        {"GET", "/v1/audio/speech", NULL, NULL, 404, "audio is not supported"},
        {"GET", "/api/tags", NULL, NULL, 200, "\"name\":\"demo:latest\""},
        {"GET", "/api/chat", NULL, NULL, 405, "{\"error\":\"GET is not possible"},
        {"POST", "/api/show", NULL, "{\"model\": \"demo\"}", 200, "\"capabilities\":["},
        {"POST", "/api/show", "Sec-Fetch-Site: cross-site\r\n", "{\"model\": \"demo\"}", 415,
         "{\"error\":\"the Content-Type must be"},
        {"DELETE", "/api/delete", NULL, "{\"model\": \"nobody\"}", 404,
         "{\"error\":\"model 'nobody' not found"},
        {"GET", "/../etc/passwd", NULL, NULL, 404, "\"error\""},
    };
    web_await_metric(open_server.port, "eyelet_loads_total", 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct reply r = web_ask(open_server.port, cases[i].method, cases[i].path, cases[i].more,
                                 cases[i].body);
        if (r.status != cases[i].status ||
            (!strstr(r.head, cases[i].has) && !strstr(r.body, cases[i].has))) {
            print_error("%s %s: %d, not %d with %s:\n%s%s\n", cases[i].method, cases[i].path,
                        r.status, cases[i].status, cases[i].has, r.head, r.body);
            fail();
        }
        reply_free(&r);
    }
}

static void page_is_sent_once(void **state)
{
    (void)state;
    struct reply first = web_ask(open_server.port, "GET", "/", "Accept: text/html\r\n", NULL);
    char *etag = strstr(first.head, "ETag: "), known[128];
    assert_non_null(etag);
    snprintf(known, sizeof(known), "Accept: text/html\r\nIf-None-Match: %.*s\r\n",
             (int)strcspn(etag + 6, "\r"), etag + 6);
    struct reply second = web_ask(open_server.port, "GET", "/", known, NULL);
    assert_int_equal(second.status, 304);
    assert_true(reply_has(&first, "Cache-Control: no-cache"));
    assert_true(reply_has(&first, "X-Content-Type-Options: nosniff"));
    assert_true(reply_has(&first, "Referrer-Policy: no-referrer"));
    reply_free(&first);
    reply_free(&second);
}

/* ---- other web pages ---- */

static void foreign_hosts_and_origins_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        int status;
    } cases[] = {
        {"Host: evil.example\r\n", 421},
        {"Host: evil.example:8000\r\n", 421},
        {"Host: localhost:9999\r\n", 200},
        {"Origin: https://evil.example\r\n", 403},
        {"Origin: null\r\n", 403},
        {"Host: localhost:8000\r\nOrigin: http://localhost:3000\r\n", 403},
        {"Host: localhost:8000\r\nOrigin: http://localhost:8000\r\n", 200},
        {"Origin: https://friend.example\r\n", 200},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char more[256];
        struct reply r = web_ask(open_server.port, "GET", "/version", cases[i].more, NULL);
        if (r.status != cases[i].status) fail_msg("GET with %s got %d", cases[i].more, r.status);
        reply_free(&r);
        snprintf(more, sizeof(more), "%s%s", cases[i].more, json_type);
        r = web_ask(open_server.port, "POST", "/tokenize", more, "{\"prompt\": \"Hello\"}");
        if (r.status != cases[i].status) fail_msg("POST with %s got %d", cases[i].more, r.status);
        reply_free(&r);
    }
}

static void allowed_origins_get_cors_headers(void **state)
{
    (void)state;
    struct reply r = web_ask(
        open_server.port, "OPTIONS", "/v1/chat/completions",
        "Origin: https://friend.example\r\nAccess-Control-Request-Method: POST\r\n"
        "Access-Control-Request-Headers: authorization, content-type, x-stainless-os\r\n",
        NULL);
    assert_int_equal(r.status, 204);
    assert_true(reply_has(&r, "Access-Control-Allow-Origin: https://friend.example"));
    assert_true(
        reply_has(&r, "Access-Control-Allow-Headers: authorization, content-type, x-stainless-os"));
    assert_true(reply_has(&r, "Access-Control-Allow-Methods: GET, POST, DELETE, OPTIONS"));
    reply_free(&r);
    r = web_ask(open_server.port, "GET", "/version", "Origin: https://friend.example\r\n", NULL);
    assert_true(reply_has(&r, "Access-Control-Allow-Origin: https://friend.example"));
    assert_true(reply_has(&r, "Vary: Origin"));
    reply_free(&r);
    r = web_ask(open_server.port, "OPTIONS", "/v1/chat/completions",
                "Origin: https://evil.example\r\n", NULL);
    assert_int_equal(r.status, 403);
    assert_null(strstr(r.head, "Access-Control"));
    reply_free(&r);
    r = web_ask(open_server.port, "GET", "/version", NULL, NULL);
    assert_null(strstr(r.head, "Access-Control"));
    reply_free(&r);
}

/* ---- keys ---- */

static void keys_guard_all_but_the_open_routes(void **state)
{
    (void)state;
    struct server_options o = demo_options();
    assert_true(api_keys_add(&o.keys, "one", NULL) && api_keys_add(&o.keys, "two", NULL));
    struct running s = server_start(&o);
    static const struct {
        const char *method, *path;
        bool open;
    } routes[] = {
        {"GET", "/health", true},
        {"GET", "/ready", true},
        {"GET", "/", true},
        {"HEAD", "/", true},
        {"OPTIONS", "/v1/models", true},
        {"GET", "/version", false},
        {"GET", "/metrics", false},
        {"GET", "/eyelet/plan", false},
        {"GET", "/v1/models", false},
        {"GET", "/v1/models/demo", false},
        {"GET", "/nowhere", false},
        {"POST", "/v1/chat/completions", false},
        {"POST", "/v1/completions", false},
        {"POST", "/tokenize", false},
        {"POST", "/detokenize", false},
        {"POST", "/v1/chat/completions/render", false},
        {"GET", "/tokenize", false},
        {"POST", "/health", false},
        {"POST", "/", false},
    };
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        const char *body = strcmp(routes[i].method, "POST") == 0 ? "{}" : NULL;
        struct reply r = web_ask(s.port, routes[i].method, routes[i].path, json_type, body);
        if ((r.status != 401) != routes[i].open)
            fail_msg("%s %s: %d", routes[i].method, routes[i].path, r.status);
        if (!routes[i].open) assert_true(reply_has(&r, "WWW-Authenticate: Bearer"));
        if (!routes[i].open && body)
            assert_non_null(strstr(r.body, "\"type\": \"AuthenticationError\""));
        reply_free(&r);
    }
    static const struct {
        const char *more;
        int status;
    } keys[] = {
        {"Authorization: Bearer one\r\n", 200},
        {"authorization: bearer two\r\n", 200},
        {"Authorization: Bearer on\r\n", 401},
        {"Authorization: Bearer onee\r\n", 401},
        {"Authorization: one\r\n", 401},
        {"Authorization: Basic one\r\n", 401},
        {"X-Api-Key: one\r\n", 200},
        {"X-Api-Key: on\r\n", 401},
        {"X-Api-Key: on\r\nAuthorization: Bearer two\r\n", 200},
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct reply r = web_ask(s.port, "GET", "/v1/models", keys[i].more, NULL);
        if (r.status != keys[i].status) fail_msg("%s: %d", keys[i].more, r.status);
        reply_free(&r);
    }
    server_stop(&s);
}

static void write_key(const char *path, const char *key)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", key);
    assert_int_equal(fclose(f), 0);
}

static int status_with(const struct running *s, const char *header)
{
    struct reply r = web_ask(s->port, "GET", "/version", header, NULL);
    int status = r.status;
    reply_free(&r);
    return status;
}

static void keys_are_read_again(void **state)
{
    (void)state;
    struct server_options o = demo_options();
    char path[] = "/tmp/eyelet-keys-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    write_key(path, "first");
    assert_true(api_keys_add(&o.keys, "given", NULL));
    o.n_given_keys = o.keys.n;
    o.api_key_file = path;
    assert_true(api_keys_add_file(&o.keys, path, NULL));
    struct running s = server_start(&o);
    assert_int_equal(status_with(&s, "Authorization: Bearer first\r\n"), 200);
    write_key(path, "second");
    server_signal(&s, SIGHUP);
    server_await_log(&s, "were read again");
    assert_int_equal(status_with(&s, "Authorization: Bearer first\r\n"), 401);
    assert_int_equal(status_with(&s, "Authorization: Bearer second\r\n"), 200);
    assert_int_equal(status_with(&s, "Authorization: Bearer given\r\n"), 200);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite("third\n\0fourth\n", 1, 14, f), 14);
    assert_int_equal(fclose(f), 0);
    server_signal(&s, SIGHUP);
    server_await_log(&s, "has a NUL byte");
    assert_int_equal(status_with(&s, "Authorization: Bearer third\r\n"), 401);
    write_key(path, "");
    server_signal(&s, SIGHUP);
    server_await_log(&s, "has no key");
    assert_int_equal(status_with(&s, "Authorization: Bearer second\r\n"), 200);
    unlink(path);
    server_stop(&s);
}

/* ---- bodies ---- */

static void large_bodies_are_refused(void **state)
{
    (void)state;
    enum { PIECE = 1 << 20 };
    char head[256];
    int fd = web_connect(open_server.port);
    snprintf(head, sizeof(head),
             "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n",
             json_type, EY_MAX_BODY_BYTES + 1);
    web_say(fd, head);
    struct reply r = web_reply(fd); /* immediately, before the body */
    assert_int_equal(r.status, 413);
    reply_free(&r);
    close(fd);
    fd = web_connect(open_server.port);
    snprintf(head, sizeof(head),
             "POST /nowhere HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n", json_type,
             EY_MAX_BODY_BYTES + 1);
    web_say(fd, head);
    r = web_reply(fd); /* refusals for other reasons do not wait for such a body either */
    assert_int_equal(r.status, 404);
    reply_free(&r);
    close(fd);
    char *piece = malloc(PIECE);
    assert_non_null(piece);
    memset(piece, ' ', PIECE);
    fd = web_connect(open_server.port);
    snprintf(head, sizeof(head),
             "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n%sTransfer-Encoding: chunked\r\n\r\n",
             json_type);
    web_say(fd, head);
    for (int sent = 0; sent <= EY_MAX_BODY_BYTES; sent += PIECE) {
        web_say(fd, "100000\r\n");
        web_send(fd, piece, PIECE);
        web_say(fd, "\r\n");
    }
    web_say(fd, "0\r\n\r\n");
    r = web_reply(fd);
    assert_int_equal(r.status, 413);
    reply_free(&r);
    close(fd);
    free(piece);
    await_rest(open_server.port);
}

/* The error is sent after the body, so that the client can read it, and the connection stays open.
 */
static void refused_bodies_are_read(void **state)
{
    (void)state;
    enum { N = 3 << 20 };
    char head[256], *body = calloc(1, N);
    assert_non_null(body);
    int fd = web_connect(open_server.port);
    snprintf(head, sizeof(head),
             "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", N);
    web_say(fd, head);
    web_send(fd, body, N);
    struct reply r = web_reply(fd);
    assert_int_equal(r.status, 404);
    assert_false(r.closed);
    reply_free(&r);
    web_say(fd, "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n");
    r = web_reply(fd);
    assert_int_equal(r.status, 200);
    reply_free(&r);
    close(fd);
    free(body);
}

static void expectations(void **state)
{
    (void)state;
    int fd = web_connect(open_server.port);
    web_say(fd, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                "application/json\r\nExpect: 100-continue\r\nContent-Length: 19\r\n\r\n");
    struct reply r = web_reply(fd);
    assert_int_equal(r.status, 100);
    reply_free(&r);
    web_say(fd, "{\"prompt\": \"Hello\"}");
    r = web_reply(fd);
    assert_int_equal(r.status, 200);
    reply_free(&r);
    close(fd);
    fd = web_connect(open_server.port);
    web_say(fd, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: "
                "100-continue\r\nContent-Length: 19\r\n\r\n");
    r = web_reply(fd); /* no 100 Continue before a refusal */
    assert_int_equal(r.status, 415);
    reply_free(&r);
    close(fd);
}

static void bodies_stay_within_the_budget(void **state)
{
    (void)state;
    struct server_options o = demo_options();
    enum { BODY = 700 << 10 };
    o.host_bytes = 1 << 20;
    struct running s = server_start(&o);
    char head[256], *body = malloc(BODY);
    assert_non_null(body);
    memset(body, ' ', BODY);
    snprintf(head, sizeof(head),
             "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n",
             json_type, BODY);
    int first = web_connect(s.port), second = web_connect(s.port);
    web_say(first, head);
    web_send(first, body, BODY - 1);
    web_await_metric(s.port, "eyelet_host_budget_used_bytes", BODY + 1);
    web_say(second, head);
    web_send(second, body, BODY);
    struct reply r = web_reply(second);
    assert_int_equal(r.status, 503);
    assert_true(reply_has(&r, "Retry-After: 1"));
    reply_free(&r);
    web_say(first, " ");
    r = web_reply(first);
    assert_int_equal(r.status, 400); /* not JSON, but it was read */
    reply_free(&r);
    close(first);
    close(second);
    web_await_metric(s.port, "eyelet_host_budget_used_bytes", 0);
    free(body);
    server_stop(&s);
}

static void large_heads_are_refused(void **state)
{
    (void)state;
    enum { N = 200 << 10 };
    char *junk = malloc(N);
    assert_non_null(junk);
    memset(junk, 'a', N);
    int fd = web_connect(open_server.port);
    web_say(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\nX: ");
    web_try_send(fd, junk, N);
    char *said = web_hear_until(fd, "\r\n");
    if (said[0]) assert_memory_equal(said, "HTTP/1.1 431", 12);
    free(said);
    close(fd);
    fd = web_connect(open_server.port);
    web_say(fd, "GET /");
    web_try_send(fd, junk, N);
    said = web_hear_until(fd, "\r\n");
    if (said[0]) assert_memory_equal(said, "HTTP/1.1 414", 12);
    free(said);
    close(fd);
    free(junk);
    char many[EY_MAX_HEADERS * 8 + 16] = "";
    for (int i = 0; i < EY_MAX_HEADERS; i++)
        strcat(many, "X: y\r\n");
    struct reply r = web_ask(open_server.port, "GET", "/health", many, NULL);
    assert_int_equal(r.status, 431);
    reply_free(&r);
}

/* ---- deadlines ---- */

enum { PATIENCE = 120 /* seconds */ };

/* Sends one byte at a time until the server closes the connection; false: it never does. */
static bool drip(int fd, const char *text)
{
    for (double end = seconds_now() + PATIENCE; seconds_now() < end; usleep(20000))
        if (!web_try_send(fd, text, 1)) return true;
    return false;
}

/* Returns a connection that is idle after its first reply. On slow machines the server may close it
 * before that; then tries again. */
static int connect_idle(int port)
{
    struct reply r = {0};
    int fd = -1;
    while (!r.status) {
        if (fd >= 0) close(fd);
        reply_free(&r);
        fd = web_connect(port);
        web_say(fd, "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n");
        r = web_reply(fd);
    }
    assert_int_equal(r.status, 200);
    reply_free(&r);
    return fd;
}

#define POST_TOKENIZE \
    "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

/* Sends a part of a request; the rest never comes. */
static int connect_with_part(int port, const char *part)
{
    int fd = web_connect(port);
    web_say(fd, part);
    return fd;
}

static void slow_clients_are_dropped(void **state)
{
    (void)state;
    struct server_options o = demo_options();
    o.header_seconds = 1;
    o.body_seconds = 1.5;
    o.idle_seconds = 1;
    o.stall_seconds = 1;
    struct running s = server_start(&o);
    int silent = web_connect(s.port), idle = connect_idle(s.port);
    int in_head = connect_with_part(s.port, "GET /version HTTP/1.1\r\nHost: localhost\r\nX: ");
    assert_true(drip(in_head, "a"));
    int in_body = connect_with_part(s.port, POST_TOKENIZE "Content-Length: 1000000\r\n\r\n");
    assert_true(drip(in_body, " "));
    int stalled = connect_with_part(s.port, POST_TOKENIZE "Content-Length: 10\r\n\r\n");
    free(web_hear_all(silent));
    free(web_hear_all(idle));
    free(web_hear_all(stalled));
    close(silent);
    close(idle);
    close(in_head);
    close(in_body);
    close(stalled);
    web_await_metric(s.port, "eyelet_connections", 1);
    server_stop(&s);
}

/* The client pipelines requests whose replies exceed the socket buffers, and reads none. */
static void clients_that_do_not_read_are_dropped(void **state)
{
    (void)state;
    struct server_options o = demo_options();
    o.stall_seconds = 1;
    struct running s = server_start(&o);
    int fd = web_connect_narrow(s.port);
    for (int i = 0; i < 100; i++)
        if (!web_try_send(fd, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 42)) break;
    struct pollfd answered = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&answered, 1, PATIENCE * 1000), 1); /* the server has accepted it */
    web_await_metric(s.port, "eyelet_connections", 1);
    close(fd);
    server_stop(&s);
}

/* One address holds all places with silent connections. New connections from another address are
 * served, and so is an older one. */
static void newcomers_replace_the_silent(void **state)
{
    (void)state;
    enum { N = 100 };
    struct server_options o = demo_options();
    o.header_seconds = 2 * PATIENCE;
    o.idle_seconds = 2 * PATIENCE;
    o.max_connections = 8;
    struct running s = server_start(&o);
    int kept = connect_idle(s.port), fd[N];
    for (int i = 0; i < N; i++) {
        fd[i] = web_connect_from(s.port, 2);
        web_try_send(fd[i], RAW("GET /version HTTP/1.1\r\n"));
    }
    for (int i = 0; i < 3; i++) {
        struct reply r = web_ask(s.port, "GET", i == 2 ? "/health" : "/version", NULL, NULL);
        assert_int_equal(r.status, 200);
        reply_free(&r);
    }
    web_say(kept, "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n");
    struct reply r = web_reply(kept);
    assert_int_equal(r.status, 200);
    reply_free(&r);
    char *said = web_hear_all(fd[0]); /* the oldest silent one was closed first */
    if (said[0]) {                    /* it had sent one line */
        assert_memory_equal(said, "HTTP/1.1 408", 12);
        assert_non_null(strstr(said, "--max-connections"));
    }
    free(said);
    close(kept);
    for (int i = 0; i < N; i++)
        close(fd[i]);
    web_await_metric(s.port, "eyelet_connections", 1);
    server_stop(&s);
}

/* Waits until the reply begins. Before, while it still reads headers, a newcomer may replace the
 * connection. */
static void await_reply_begins(int fd)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, PATIENCE * 1000), 1);
}

/* One client leaves a place for others; two leave one for /health. */
static void places_are_kept_for_others(void **state)
{
    (void)state;
    enum { N = 7 };
    struct server_options o = demo_options();
    o.max_connections = N + 1;
    struct running s = server_start(&o);
    int fd[N];
    for (int i = 0; i < N; i++) {
        fd[i] = start_stream(s.port, long_stream);
        await_reply_begins(fd[i]);
        web_await_metric(s.port, "eyelet_connections", i + 2);
        web_await_metric(s.port, "vllm:num_requests_running", i < 4 ? i + 1 : 4);
        web_await_metric(s.port, "vllm:num_requests_waiting", i < 4 ? 0 : i - 3);
    }
    struct reply r = web_ask(s.port, "GET", "/version", NULL, NULL);
    assert_int_equal(r.status, 503);
    assert_true(reply_has(&r, "Connection: close"));
    assert_non_null(strstr(r.body, "--max-connections"));
    reply_free(&r);
    int other = web_connect_from(s.port, 2);
    web_say(other, "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n");
    r = web_reply(other);
    assert_int_equal(r.status, 200);
    reply_free(&r);
    close(other);
    r = web_ask(s.port, "GET", "/health", NULL, NULL);
    assert_int_equal(r.status, 200);
    reply_free(&r);
    for (int i = 0; i < N; i++)
        close(fd[i]);
    await_rest(s.port);
    server_stop(&s);
}

/* The log has this client address for the request. */
static void assert_logged(int port, const struct running *s, const char *more, const char *client)
{
    char line[128];
    static int n; /* a path for each request, to find its line */
    char path[32];
    snprintf(path, sizeof(path), "/nowhere%d", ++n);
    struct reply r = web_ask(port, "GET", path, more, NULL);
    assert_int_equal(r.status, 404);
    reply_free(&r);
    snprintf(line, sizeof(line), "%s GET %s ", client, path);
    server_await_log(s, line);
}

static void trusted_proxies_say_who_asks(void **state)
{
    (void)state;
    struct server_options o = demo_options();
    o.proxies[o.n_proxies++] = "127.0.0.0/8";
    o.proxies[o.n_proxies++] = "2001:db8::/32";
    struct running s = server_start(&o);
    assert_logged(s.port, &s, NULL, "127.0.0.1");
    assert_logged(s.port, &s, "X-Forwarded-For: 192.0.2.7\r\n", "192.0.2.7");
    assert_logged(s.port, &s, "X-Forwarded-For: 192.0.2.7, 192.0.2.8,127.0.0.9\r\n", "192.0.2.8");
    assert_logged(s.port, &s, "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-For: 127.0.0.9\r\n",
                  "192.0.2.7");
    assert_logged(s.port, &s, "X-Forwarded-For: \r\n", "127.0.0.1");
    assert_logged(s.port, &s, "X-Forwarded-For: 192.0.2.7, unknown\r\n", "127.0.0.1");
    assert_logged(s.port, &s, "Forwarded: for=192.0.2.7;proto=http, for=\"[2001:db8::1]:80\"\r\n",
                  "192.0.2.7");
    server_stop(&s);
    assert_logged(open_server.port, &open_server, "X-Forwarded-For: 192.0.2.7\r\n", "127.0.0.1");
    ey_err e;
    o.proxies[1] = "10.0.0.0/33";
    assert_false(server_run(&o, &e));
    assert_non_null(strstr(e.text, "--trusted-proxy 10.0.0.0/33"));
}

/* A fast start does not excuse a pause. */
static void bodies_that_pause_are_dropped(void **state)
{
    (void)state;
    enum { AT_ONCE = 4 << 20 };
    struct server_options o = demo_options();
    o.body_seconds = 1.5;
    struct running s = server_start(&o);
    char *body = calloc(1, AT_ONCE);
    assert_non_null(body);
    int fd = connect_with_part(s.port, POST_TOKENIZE "Content-Length: 60000000\r\n\r\n");
    web_send(fd, body, AT_ONCE);
    double start = seconds_now();
    assert_true(drip(fd, " "));
    assert_true(seconds_now() - start < 30);
    close(fd);
    free(body);
    server_await_log(&s, "408");
    web_await_metric(s.port, "eyelet_host_budget_used_bytes", 0);
    server_stop(&s);
}

/* A stalled body gets an error with the reason, and its memory goes to a waiting request. */
static void slow_bodies_give_their_memory_to_others(void **state)
{
    (void)state;
    enum { BODY = 900 << 10 };
    struct server_options o = demo_options();
    o.host_bytes = 1 << 20;
    struct running s = server_start(&o);
    char *body = malloc(BODY + 1);
    assert_non_null(body);
    memset(body, ' ', BODY);
    body[BODY] = 0;
    int slow = connect_with_part(s.port, POST_TOKENIZE "Content-Length: 921600\r\n\r\n");
    web_send(slow, body, BODY - 1);
    web_await_metric(s.port, "eyelet_host_budget_used_bytes", BODY + 1);
    usleep(8 * 1000 * 1000); /* until the fast start is outside the window */
    struct reply r = web_ask(s.port, "POST", "/tokenize", json_type, body);
    assert_int_equal(r.status, 400); /* not JSON, but it was read */
    reply_free(&r);
    r = web_reply(slow);
    assert_int_equal(r.status, 408);
    assert_non_null(strstr(r.body, "--host-memory"));
    reply_free(&r);
    close(slow);
    free(body);
    web_await_metric(s.port, "eyelet_host_budget_used_bytes", 0);
    server_stop(&s);
}

/* ---- hanging up ---- */

static void hang_ups_end_the_answer(void **state)
{
    (void)state;
    int stream = start_stream(open_server.port, long_stream);
    free(web_hear_until(stream, "\"content\":\""));
    close(stream);
    await_rest(open_server.port);
    int fd[12]; /* more than can run, so some are queued */
    for (int i = 0; i < 12; i++)
        fd[i] = start_stream(open_server.port, long_stream);
    web_await_metric(open_server.port, "vllm:num_requests_running", 4);
    for (int i = 0; i < 12; i++)
        close(fd[i]);
    await_rest(open_server.port);
    int quiet = start_stream(open_server.port,
                             "{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}], "
                             "\"max_tokens\": 4000, \"ignore_eos\": true}");
    web_await_metric(open_server.port, "vllm:num_requests_running", 1);
    close(quiet);
    await_rest(open_server.port);
}

/* ---- the end ---- */

static void stopping_lets_answers_finish(void **state)
{
    (void)state;
    struct server_options o = demo_options();
    o.drain_seconds = 300;
    struct running s = server_start(&o);
    int kept = web_connect(s.port);
    int stream = start_stream(s.port, "{\"messages\": [{\"role\": \"user\", "
                                      "\"content\": \"Hello\"}], "
                                      "\"max_tokens\": 1000, \"ignore_eos\": true, "
                                      "\"stream\": true}");
    free(web_hear_until(stream, "\"content\":\""));
    server_signal(&s, SIGTERM);
    server_await_log(&s, "stopping: ");
    struct reply r = web_ask(s.port, "POST", "/v1/chat/completions", json_type, long_stream);
    assert_int_equal(r.status, 503);
    assert_true(reply_has(&r, "Connection: close"));
    reply_free(&r);
    r = web_ask(s.port, "GET", "/ready", NULL, NULL);
    assert_int_equal(r.status, 503);
    assert_non_null(strstr(r.body, "\"stopping\""));
    reply_free(&r);
    pace_set(0);
    char *rest = web_hear_all(stream);
    assert_non_null(strstr(rest, "data: [DONE]"));
    assert_null(strstr(rest, "\"error\""));
    free(rest);
    assert_int_equal(server_wait(&s), 0);
    close(stream);
    close(kept);
}

static void stopping_ends_slow_answers(void **state)
{
    (void)state;
    struct server_options o = demo_options();
    o.drain_seconds = 0;
    struct running s = server_start(&o);
    int stream = start_stream(s.port, long_stream);
    free(web_hear_until(stream, "\"content\":\""));
    server_signal(&s, SIGINT);
    char *rest = web_hear_all(stream);
    assert_non_null(strstr(rest, "data: {\"error\""));
    assert_null(strstr(rest, "\"finish_reason\":\"stop\""));
    free(rest);
    assert_int_equal(server_wait(&s), 0);
    close(stream);
}

static void a_second_signal_stops_immediately(void **state)
{
    (void)state;
    struct server_options o = demo_options();
    struct running s = server_start(&o);
    int stream = start_stream(s.port, long_stream);
    free(web_hear_until(stream, "\"content\":\""));
    server_signal(&s, SIGTERM);
    server_await_log(&s, "stopping: ");
    server_signal(&s, SIGTERM); /* repeated signals within a moment count once */
    usleep(1300 * 1000);
    char *log = server_log(&s);
    assert_null(strstr(log, "stopped"));
    free(log);
    server_signal(&s, SIGTERM);
    server_await_log(&s, "stopped at once");
    assert_int_equal(server_wait(&s), 0);
    free(web_hear_all(stream));
    close(stream);
}

static void the_port_is_free_afterwards(void **state)
{
    (void)state;
    struct server_options o = demo_options();
    for (int i = 0; i < 3; i++) {
        struct running s = server_start(&o);
        struct reply r = web_ask(s.port, "GET", "/v1/models", NULL, NULL);
        assert_int_equal(r.status, 200);
        reply_free(&r);
        o.port = s.port;
        server_stop(&s);
    }
}

/* ---- the model ---- */

static void idle_models_are_unloaded_and_come_back(void **state)
{
    (void)state;
    struct server_options o = demo_options();
    o.idle_unload_seconds = 1;
    struct running s = server_start(&o);
    for (int i = 1; i <= 2; i++) {
        web_await_metric(s.port, "eyelet_unloads_total", i);
        struct reply r = web_ask(s.port, "GET", "/ready", NULL, NULL);
        assert_int_equal(r.status, 200);
        reply_free(&r);
        r = web_ask(s.port, "GET", "/v1/models", NULL, NULL);
        assert_non_null(strstr(r.body, "\"max_model_len\": 4096"));
        reply_free(&r);
        r = web_ask(s.port, "POST", "/tokenize", json_type, "{\"prompt\": \"Hello\"}");
        assert_int_equal(r.status, 200);
        assert_non_null(strstr(r.head, "X-Eyelet-Reload-Seconds: "));
        reply_free(&r);
        assert_int_equal(web_metric(s.port, "eyelet_loads_total"), i + 1);
    }
    server_stop(&s);
}

/* The server of a single model stays ready while it loads the model again. */
static void reloading_servers_are_ready(void **state)
{
    (void)state;
    struct server_options o = demo_options();
    o.idle_unload_seconds = 1;
    struct running s = server_start(&o);
    web_await_metric(s.port, "eyelet_unloads_total", 1);
    int fd = web_connect(s.port);
    web_say(fd, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                "Content-Length: 19\r\n\r\n{\"prompt\": \"Hello\"}");
    while (web_metric(s.port, "eyelet_loads_total") < 2) {
        struct reply r = web_ask(s.port, "GET", "/ready", NULL, NULL);
        if (r.status != 200) fail_msg("%s", r.body);
        reply_free(&r);
    }
    struct reply r = web_reply(fd);
    assert_int_equal(r.status, 200);
    reply_free(&r);
    close(fd);
    server_stop(&s);
}

/* Ollama's older clients send "name". The answer has it after the request's JSON was freed.
 * M_PERTURB overwrites freed memory except small blocks, so the name is long. */
static void model_names_outlive_the_requests_json(void **state)
{
    (void)state;
    enum { OVERWRITE = 0xa5, LONG_NAME = 1500 };
    struct server_options o = demo_options();
    char name[LONG_NAME + 1] = "", body[2 * LONG_NAME], wanted[2 * LONG_NAME];
    memset(name, 'n', LONG_NAME);
    o.models[0].names[0] = name;
    mallopt(M_PERTURB, OVERWRITE); /* applies to the server's process, too */
    struct running s = server_start(&o);
    mallopt(M_PERTURB, 0);
    snprintf(body, sizeof(body),
             "{\"name\": \"%s\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}], "
             "\"stream\": false, \"options\": {\"num_predict\": 1}}",
             name);
    snprintf(wanted, sizeof(wanted), "{\"model\":\"%s\",", name);
    struct reply r = web_ask(s.port, "POST", "/api/chat", json_type, body);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.body, wanted));
    reply_free(&r);
    server_stop(&s);
}

/* A few bytes can reference a stored item, so a request may have thousands of references. */
static void references_to_stored_items_are_charged(void **state)
{
    (void)state;
    enum { REFERENCES = 4000, REFERENCE_BYTES = 96 };
    struct server_options o = demo_options();
    o.host_bytes = 16 << 20;
    o.responses_bytes = 1 << 20;
    struct running s = server_start(&o);
    struct reply r = web_ask(s.port, "POST", "/v1/responses", json_type,
                             "{\"input\": \"Hello\", \"max_output_tokens\": 4}");
    assert_int_equal(r.status, 200);
    const char *item = strstr(r.body, "\"msg_");
    assert_non_null(item);
    char *body = malloc(REFERENCES * REFERENCE_BYTES), *end = body + sprintf(body, "{\"input\": [");
    for (int i = 0; i < REFERENCES; i++)
        end += sprintf(end, "%s{\"type\": \"item_reference\", \"id\": %.38s}", i ? ", " : "", item);
    strcpy(end, "]}");
    reply_free(&r);
    r = web_ask(s.port, "POST", "/v1/responses", json_type, body);
    assert_int_equal(r.status, 400);
    assert_non_null(strstr(r.body, "--host-memory"));
    reply_free(&r);
    free(body);
    web_await_metric(s.port, "eyelet_host_budget_used_bytes", 0);
    server_stop(&s);
}

/* If a model's files are missing when it is reloaded, the error is temporary (503). */
static void models_that_cannot_come_back_are_tried_again(void **state)
{
    (void)state;
    struct server_options o = demo_options();
    char folder[] = "/tmp/eyelet-test-XXXXXX", link[64], demo[4096];
    assert_non_null(mkdtemp(folder));
    snprintf(link, sizeof(link), "%s/model", folder);
    assert_non_null(realpath("models/demo", demo));
    assert_int_equal(symlink(demo, link), 0);
    o.models[0].path = link;
    o.idle_unload_seconds = 1;
    struct running s = server_start(&o);
    web_await_metric(s.port, "eyelet_unloads_total", 1);
    assert_int_equal(unlink(link), 0);
    for (int i = 0; i < 2; i++) {
        struct reply r = web_ask(s.port, "POST", "/tokenize", json_type, "{\"prompt\": \"Hello\"}");
        assert_int_equal(r.status, 503);
        assert_non_null(strstr(r.body, "the model could not be loaded: "));
        reply_free(&r);
    }
    assert_int_equal(symlink(demo, link), 0);
    struct reply r = web_ask(s.port, "POST", "/tokenize", json_type, "{\"prompt\": \"Hello\"}");
    assert_int_equal(r.status, 200);
    reply_free(&r);
    server_stop(&s);
    unlink(link);
    rmdir(folder);
}

static void failed_starts_give_reasons(void **state)
{
    (void)state;
    struct server_options taken = demo_options();
    struct server_options lost = demo_options();
    struct server_options wide = demo_options();
    struct server_options half = demo_options();
    struct server_options nowhere = demo_options();
    ey_err e;
    taken.port = open_server.port;
    assert_false(server_run(&taken, &e));
    assert_non_null(strstr(e.text, "is in use"));
    lost.models[0].path = "models/none";
    assert_false(server_run(&lost, &e));
    assert_int_equal(e.code, EY_NOT_FOUND);
    wide.host = "0.0.0.0";
    assert_false(server_run(&wide, &e));
    assert_non_null(strstr(e.text, "--api-key"));
    half.ssl_keyfile = "key.pem";
    assert_false(server_run(&half, &e));
    assert_non_null(strstr(e.text, "--ssl-certfile"));
    nowhere.host = "192.0.2.1";
    assert_false(server_run(&nowhere, &e));
    assert_non_null(strstr(e.text, "--host 192.0.2.1"));
}

/* ---- TLS ---- */

/* Replaces libc's function in the test program, servers and libmicrohttpd included, to report
 * descriptors that are closed twice: the second time, they may be another thread's. */
int close(int fd)
{
    static const char twice[] = "a descriptor was closed twice\n";
    long status = syscall(SYS_close, fd);
    if (status != 0 && errno == EBADF && fd >= 0)
        (void)!write(STDERR_FILENO, twice, sizeof(twice) - 1);
    return (int)status;
}

static void reload_unusable_key(const struct running *s, const char *key)
{
    write_key(key, "not a key");
    server_signal(s, SIGHUP);
    server_await_log(s, "could not be used");
    char *log = server_log(s);
    assert_null(strstr(log, "closed twice"));
    free(log);
}

/* Lowers the server's limit of descriptors until it logs the shortage, and deletes its key file
 * meanwhile. */
static void lose_descriptors(const struct running *s, const char *key)
{
    struct rlimit all, few;
    assert_int_equal(prlimit(s->pid, RLIMIT_NOFILE, NULL, &all), 0);
    few = (struct rlimit){4, all.rlim_max};
    assert_int_equal(prlimit(s->pid, RLIMIT_NOFILE, &few, NULL), 0);
    server_await_log(s, "no descriptor is left");
    assert_int_equal(unlink(key), 0);
    assert_int_equal(prlimit(s->pid, RLIMIT_NOFILE, &all, NULL), 0);
}

static void tls(void **state)
{
    (void)state;
    struct server_options o = demo_options();
    char folder[] = "/tmp/eyelet-test-XXXXXX", key[64], certificate[64], said[4096];
    assert_non_null(mkdtemp(folder));
    snprintf(key, sizeof(key), "%s/key.pem", folder);
    snprintf(certificate, sizeof(certificate), "%s/certificate.pem", folder);
    assert_true(tls_make_files(key, certificate));
    o.ssl_keyfile = key;
    o.ssl_certfile = certificate;
    struct running s = server_start(&o);
    char *log = server_log(&s);
    assert_non_null(strstr(log, "listening on https://127.0.0.1:"));
    free(log);
    assert_true(tls_ask(s.port,
                        "GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                        said, sizeof(said)));
    assert_non_null(strstr(said, "{\"version\": \""));
    reload_unusable_key(&s, key);
    lose_descriptors(&s, key);
    assert_true(tls_ask(s.port,
                        "GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                        said, sizeof(said)));
    int plain = web_connect(s.port);
    web_say(plain, "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n");
    char *nothing = web_hear_all(plain);
    assert_null(strstr(nothing, "version"));
    free(nothing);
    close(plain);
    server_stop(&s);
    o.ssl_keyfile = certificate;
    ey_err e;
    assert_false(server_run(&o, &e));
    assert_non_null(strstr(e.text, "could not be used"));
    unlink(certificate);
    rmdir(folder);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_requests_get_400_and_the_connection_ends),
        cmocka_unit_test(the_librarys_own_refusals_end_the_connection),
        cmocka_unit_test(well_formed_requests_are_accepted),
        cmocka_unit_test(connections_are_kept),
        cmocka_unit_test(statuses),
        cmocka_unit_test(page_is_sent_once),
        cmocka_unit_test(foreign_hosts_and_origins_are_refused),
        cmocka_unit_test(allowed_origins_get_cors_headers),
        cmocka_unit_test(keys_guard_all_but_the_open_routes),
        cmocka_unit_test(keys_are_read_again),
        cmocka_unit_test(large_bodies_are_refused),
        cmocka_unit_test(refused_bodies_are_read),
        cmocka_unit_test(expectations),
        cmocka_unit_test(bodies_stay_within_the_budget),
        cmocka_unit_test(large_heads_are_refused),
        cmocka_unit_test(slow_clients_are_dropped),
        cmocka_unit_test(clients_that_do_not_read_are_dropped),
        cmocka_unit_test(newcomers_replace_the_silent),
        cmocka_unit_test_setup_teardown(places_are_kept_for_others, pace_slow, pace_fast),
        cmocka_unit_test(trusted_proxies_say_who_asks),
        cmocka_unit_test(bodies_that_pause_are_dropped),
        cmocka_unit_test(slow_bodies_give_their_memory_to_others),
        cmocka_unit_test_setup_teardown(hang_ups_end_the_answer, pace_slow, pace_fast),
        cmocka_unit_test_setup_teardown(stopping_lets_answers_finish, pace_slow, pace_fast),
        cmocka_unit_test_setup_teardown(stopping_ends_slow_answers, pace_slow, pace_fast),
        cmocka_unit_test_setup_teardown(a_second_signal_stops_immediately, pace_slow, pace_fast),
        cmocka_unit_test(the_port_is_free_afterwards),
        cmocka_unit_test(model_names_outlive_the_requests_json),
        cmocka_unit_test(references_to_stored_items_are_charged),
        cmocka_unit_test(idle_models_are_unloaded_and_come_back),
        cmocka_unit_test(reloading_servers_are_ready),
        cmocka_unit_test(models_that_cannot_come_back_are_tried_again),
        cmocka_unit_test(failed_starts_give_reasons),
        cmocka_unit_test(tls),
    };
    return cmocka_run_group_tests(tests, start_open_server, stop_open_server);
}
