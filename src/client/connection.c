/* SPDX-License-Identifier: Apache-2.0 */
/* Calls by libcurl, and what can go wrong with them as a sentence for whoever typed --server. */
#include "client/connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "http/library.h"

enum { CONNECT_SECONDS = 10, MAX_REFUSAL = 1 << 20 };

struct connection {
    const struct http_library *lib;
    CURL *curl;
    struct curl_slist *headers;
    char *url;  /* as given */
    char *base; /* "http://127.0.0.1:8000/v1" */
    bool has_key;
};

const char *connection_url(const struct connection *c)
{
    return c->url;
}

/* ---- the URL ---- */

static bool ends_with(const char *text, size_t n, const char *end)
{
    size_t length = strlen(end);
    return n >= length && memcmp(text + n - length, end, length) == 0;
}

static bool make_base(struct connection *c, ey_err *e)
{
    const char *scheme = strstr(c->url, "://") ? "" : "http://";
    size_t n = strlen(c->url);
    while (n && c->url[n - 1] == '/')
        n--;
    if (ends_with(c->url, n, "/v1")) n -= 3;
    if (asprintf(&c->base, "%s%.*s/v1", scheme, (int)n, c->url) >= 0) return true;
    c->base = NULL;
    return ey_fail_memory(e, "a URL", n);
}

static bool is_this_machine(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "[::1]") == 0;
}

static bool fail_url(const struct connection *c, ey_err *e)
{
    return ey_fail(e, EY_BAD_REQUEST,
                   "--server takes a URL such as http://127.0.0.1:8000, not \"%.200s\"", c->url);
}

/* No proxy is asked for the way to this machine itself, whatever the environment says. */
static bool check_base(struct connection *c, ey_err *e)
{
    char *host = NULL;
    CURLU *url = c->lib->curl_url();
    bool web = strncmp(c->base, "http://", 7) == 0 || strncmp(c->base, "https://", 8) == 0;
    bool ok = url && web && !strpbrk(c->base, "?#") &&
              c->lib->curl_url_set(url, CURLUPART_URL, c->base, 0) == CURLUE_OK &&
              c->lib->curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK;
    if (ok && is_this_machine(host))
        ok = c->lib->curl_easy_setopt(c->curl, CURLOPT_PROXY, "") == CURLE_OK;
    c->lib->curl_free(host);
    c->lib->curl_url_cleanup(url);
    return ok || fail_url(c, e);
}

/* ---- from opening to closing ---- */

static bool add_header(struct connection *c, const char *line, ey_err *e)
{
    struct curl_slist *headers = c->lib->curl_slist_append(c->headers, line);
    if (!headers) return ey_fail_memory(e, "an HTTP request", 0);
    c->headers = headers;
    return true;
}

static bool add_key(struct connection *c, const char *key, ey_err *e)
{
    char *line;
    for (const char *at = key; *at; at++)
        if (*at <= ' ' || *at > '~')
            return ey_fail(e, EY_BAD_REQUEST,
                           "the key has a character in it that no key has; keys are printable "
                           "ASCII without blanks");
    if (asprintf(&line, "Authorization: Bearer %s", key) < 0)
        return ey_fail_memory(e, "the key", strlen(key));
    bool ok = add_header(c, line, e);
    free(line);
    c->has_key = true;
    return ok;
}

static bool set_options(struct connection *c, ey_err *e)
{
    const struct http_library *lib = c->lib;
    bool ok = lib->curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->headers) == CURLE_OK &&
              lib->curl_easy_setopt(c->curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS) ==
                  CURLE_OK &&
              lib->curl_easy_setopt(c->curl, CURLOPT_TCP_KEEPALIVE, 1L) == CURLE_OK &&
              lib->curl_easy_setopt(c->curl, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
              http_trust_own_roots(lib, c->curl);
    return ok || ey_fail_memory(e, "an HTTP request", 0);
}

static bool open_all(struct connection *c, const char *key, ey_err *e)
{
    c->lib = http_library(e);
    if (!c->lib) return false;
    c->curl = http_open(c->lib, e);
    if (!c->curl) return false;
    return make_base(c, e) && check_base(c, e) && (!key || add_key(c, key, e)) &&
           add_header(c, "Content-Type: application/json", e) && add_header(c, "Expect:", e) &&
           set_options(c, e); /* without waiting for a "100 Continue" */
}

bool connection_open(struct connection **out, const char *url, const char *key, ey_err *e)
{
    struct connection *c = calloc(1, sizeof(*c));
    *out = c;
    if (c) c->url = strdup(url);
    if (!c || !c->url)
        ey_fail_memory(e, "a connection", sizeof(*c));
    else if (open_all(c, key, e))
        return true;
    connection_close(out);
    return false;
}

void connection_close(struct connection **connection)
{
    struct connection *c = *connection;
    if (!c) return;
    if (c->curl) c->lib->curl_easy_cleanup(c->curl);
    if (c->headers) c->lib->curl_slist_free_all(c->headers);
    free(c->url);
    free(c->base);
    free(c);
    *connection = NULL;
}

/* ---- a call ---- */

struct transfer {
    struct connection *connection;
    const struct call *call;
    struct buf refused; /* body of a reply that is no 200 */
    bool stopped;       /* by us; why is filled */
    ey_err why;
};

static long status_of(const struct connection *c)
{
    long status = 0;
    c->lib->curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static size_t take_bytes(char *bytes, size_t size, size_t n, void *user)
{
    struct transfer *t = user;
    if (status_of(t->connection) != 200) {
        buf_add(&t->refused, bytes, size * n); /* one that is too long says nothing */
        return size * n;
    }
    if (!t->stopped && t->call->take(t->call->user, bytes, size * n, &t->why)) return size * n;
    t->stopped = true;
    return 0;
}

static int watch(void *user, curl_off_t to_get, curl_off_t got, curl_off_t to_send, curl_off_t sent)
{
    struct transfer *t = user;
    (void)to_get;
    (void)got;
    if (t->stopped || !t->call->go_on ||
        t->call->go_on(t->call->user, (uint64_t)sent, (uint64_t)to_send))
        return t->stopped;
    ey_fail(&t->why, EY_CANCELLED, "cancelled");
    t->stopped = true;
    return 1;
}

static bool set_call(struct transfer *t, const char *url, char *problem)
{
    const struct http_library *lib = t->connection->lib;
    CURL *curl = t->connection->curl;
    const struct buf *body = t->call->body;
    bool ok = lib->curl_easy_setopt(curl, CURLOPT_URL, url) == CURLE_OK &&
              lib->curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_bytes) == CURLE_OK &&
              lib->curl_easy_setopt(curl, CURLOPT_WRITEDATA, t) == CURLE_OK &&
              lib->curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, watch) == CURLE_OK &&
              lib->curl_easy_setopt(curl, CURLOPT_XFERINFODATA, t) == CURLE_OK &&
              lib->curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, problem) == CURLE_OK;
    if (!body) return ok && lib->curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L) == CURLE_OK;
    return ok && lib->curl_easy_setopt(curl, CURLOPT_POST, 1L) == CURLE_OK &&
           lib->curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body->data) == CURLE_OK &&
           lib->curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->size) ==
               CURLE_OK;
}

/* ---- what went wrong ---- */

static bool fail_transfer(const struct transfer *t, CURLcode code, const char *problem, ey_err *e)
{
    const char *url = t->connection->url;
    if (t->stopped) return *e = t->why, false;
    if (code == CURLE_COULDNT_CONNECT)
        return ey_fail(e, EY_IO, "no server answers at %.200s; is `eyelet serve` running?", url);
    if (code == CURLE_COULDNT_RESOLVE_HOST)
        return ey_fail(e, EY_IO, "%.200s: there is no such host", url);
    if (code == CURLE_URL_MALFORMAT) return fail_url(t->connection, e);
    if (code == CURLE_PEER_FAILED_VERIFICATION)
        return ey_fail(e, EY_IO,
                       "%.200s: the server's certificate is not trusted (%.150s); SSL_CERT_FILE "
                       "can name the certificate that made it",
                       url, problem);
    if (code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR ||
        code == CURLE_PARTIAL_FILE)
        return ey_fail(
            e, EY_IO,
            "%.200s: the server closed the connection before its answer was there; has it stopped?",
            url);
    return ey_fail(e, EY_IO, "%.200s: %.300s", url, problem[0] ? problem : "the call failed");
}

static const char *text_member(const json_object *object, const char *key)
{
    json_object *text = json_member_of_type(object, key, json_type_string);
    return text ? json_object_get_string(text) : NULL;
}

/* {"error": {"message"}} is OpenAI's; {"error"}, {"message"} and {"detail"} as texts are others'.
 */
static const char *message_of(const json_object *reply)
{
    const char *message = text_member(json_member(reply, "error"), "message");
    if (!message) message = text_member(reply, "error");
    if (!message) message = text_member(reply, "message");
    return message ? message : text_member(reply, "detail");
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The code that the same has without a server. */
static ey_code code_of(long status, const char *message)
{
    if (status == 404) return EY_NOT_FOUND;
    if (status == 503 || status == 429) return EY_BUSY;
    if (status < 400 || status >= 500 || status == 401 || status == 403) return EY_IO;
    if (strstr(message, "maximum context length")) return EY_TOO_LONG;
    return begins(message, "Failed to load image") ? EY_BAD_IMAGE : EY_BAD_REQUEST;
}

static bool fail_key(const struct connection *c, ey_err *e)
{
    if (c->has_key) return ey_fail(e, EY_IO, "%.200s: the server does not take this key", c->url);
    return ey_fail(
        e, EY_IO,
        "%.200s: the server wants a key; give it with --api-key, EYELET_API_KEY or VLLM_API_KEY",
        c->url);
}

static bool fail_busy(const struct connection *c, const char *message, ey_err *e)
{
    curl_off_t wait = 0;
    c->lib->curl_easy_getinfo(c->curl, CURLINFO_RETRY_AFTER, &wait);
    if (wait > 0)
        return ey_fail(e, EY_BUSY,
                       "the server cannot answer now: %.500s; it says to try again after %lld s",
                       message, (long long)wait);
    return ey_fail(e, EY_BUSY, "the server cannot answer now: %.500s", message);
}

/* The API has words of its own round the engine's, which alone are what the command line says
 * without a server. */
static void find_core(const char **message, size_t *n)
{
    static const char load[] = "Failed to load image: ",
                      length[] = "This model's maximum context length is", but[] = "However, ";
    if (begins(*message, load)) *message += strlen(load);
    const char *core = begins(*message, length) ? strstr(*message, but) : NULL,
               *end = core ? strstr(core, ". Please reduce") : NULL;
    if (end) *message = core + strlen(but);
    *n = end ? (size_t)(end - *message) : strlen(*message);
}

static bool fail_with_message(const struct connection *c, long status, const char *message,
                              ey_err *e)
{
    ey_code code = code_of(status, message);
    size_t n;
    if (status == 401 || status == 403) return fail_key(c, e);
    if (status == 503 || status == 429) return fail_busy(c, message, e);
    find_core(&message, &n);
    return ey_fail(e, code, "%.*s", (int)(n < sizeof(e->text) ? n : sizeof(e->text)), message);
}

static void keep_refusal(struct refusal *refusal, long status, const char *param,
                         const char *message)
{
    if (!refusal) return;
    refusal->status = status;
    snprintf(refusal->param, sizeof(refusal->param), "%s", param ? param : "");
    snprintf(refusal->message, sizeof(refusal->message), "%s", message ? message : "");
}

static bool fail_status(const struct transfer *t, struct refusal *refusal, ey_err *e)
{
    const struct connection *c = t->connection;
    long status = status_of(c);
    json_object *reply = t->refused.size ? json_parse(t->refused.data, t->refused.size, "the reply",
                                                      EY_IO, NULL)
                                         : NULL;
    const char *param = text_member(json_member(reply, "error"), "param"),
               *message = message_of(reply);
    char plain[64];
    snprintf(plain, sizeof(plain), "HTTP %ld", status);
    keep_refusal(refusal, status, param, message);
    if (!message && status != 401 && status != 403 && status != 503)
        ey_fail(e, code_of(status, ""),
                "%.200s: %s where an answer of the OpenAI API should be; is it an eyelet server?",
                c->url, plain);
    else
        fail_with_message(c, status, message ? message : plain, e);
    json_object_put(reply);
    return false;
}

bool connection_call(struct connection *c, const struct call *call, struct refusal *refusal,
                     ey_err *e)
{
    struct transfer t = {.connection = c, .call = call, .refused = buf_with_max(MAX_REFUSAL)};
    char problem[CURL_ERROR_SIZE] = "", *url = NULL;
    if (refusal) *refusal = (struct refusal){0};
    bool ok = asprintf(&url, "%s%s", c->base, call->path) >= 0 && set_call(&t, url, problem);
    if (!ok) {
        ey_fail_memory(e, "an HTTP request", 0);
    } else {
        CURLcode code = c->lib->curl_easy_perform(c->curl);
        ok = code == CURLE_OK ? status_of(c) == 200 || fail_status(&t, refusal, e)
                              : fail_transfer(&t, code, problem, e);
    }
    c->lib->curl_easy_setopt(c->curl, CURLOPT_ERRORBUFFER, NULL);
    buf_free(&t.refused);
    free(url);
    return ok;
}
