/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a server through libcurl, and converts failures into messages for users of --server. */
#include "client/api_client.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "http/libcurl_dl.h"

enum { CONNECT_SECONDS = 10, MAX_ERROR_BODY = 1 << 20 };

struct api_client {
    const struct libcurl *lib;
    CURL *curl;
    struct curl_slist *headers;
    char *url;  /* as given, without user and password */
    char *base; /* "http://127.0.0.1:8000/v1" */
    bool has_key;
};

const char *api_client_url(const struct api_client *c)
{
    return c->url;
}

/* ---- the URL ---- */

static bool url_ends_with(const char *text, size_t n, const char *end)
{
    size_t length = strlen(end);
    return n >= length && memcmp(text + n - length, end, length) == 0;
}

static bool make_base_url(struct api_client *c, ey_err *e)
{
    const char *scheme = strstr(c->url, "://") ? "" : "http://";
    size_t n = strlen(c->url);
    while (n && c->url[n - 1] == '/')
        n--;
    if (url_ends_with(c->url, n, "/v1")) n -= 3;
    if (asprintf(&c->base, "%s%.*s/v1", scheme, (int)n, c->url) >= 0) return true;
    c->base = NULL;
    return ey_fail_memory(e, "a URL", n);
}

/* Removes the user and password, which messages must not show. A password may contain a "/". */
static void hide_password(char *url)
{
    char *scheme = strstr(url, "://"), *from = scheme ? scheme + 3 : url, *at = strrchr(from, '@');
    if (!at) return;
    size_t n = strlen(at + 1);
    memmove(from, at + 1, n + 1);
    explicit_bzero(from + n + 1, (size_t)(at - from));
}

static bool is_this_machine(const char *host)
{
    struct in_addr v4;
    bool loopback = inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
    return loopback || strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0;
}

static bool fail_bad_url(const struct api_client *c, ey_err *e)
{
    return ey_fail(e, EY_BAD_REQUEST,
                   "--server takes a URL such as http://127.0.0.1:8000, not \"%.200s\"", c->url);
}

/* Checks the URL. A server on this machine is never reached through a proxy, even if the
 * environment names one. */
static bool check_base_url(struct api_client *c, ey_err *e)
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
    return ok || fail_bad_url(c, e);
}

/* ---- open and close ---- */

static bool add_client_header(struct api_client *c, const char *line, ey_err *e)
{
    struct curl_slist *headers = c->lib->curl_slist_append(c->headers, line);
    if (!headers) return ey_fail_memory(e, "an HTTP request", 0);
    c->headers = headers;
    return true;
}

static bool add_key_header(struct api_client *c, const char *key, ey_err *e)
{
    char *line;
    for (const char *at = key; *at; at++)
        if (*at <= ' ' || *at > '~')
            return ey_fail(e, EY_BAD_REQUEST,
                           "the API key has an invalid character; keys are printable "
                           "ASCII without blanks");
    if (asprintf(&line, "Authorization: Bearer %s", key) < 0)
        return ey_fail_memory(e, "the key", strlen(key));
    bool ok = add_client_header(c, line, e);
    explicit_bzero(line, strlen(line));
    free(line);
    c->has_key = true;
    return ok;
}

static bool set_client_options(struct api_client *c, ey_err *e)
{
    const struct libcurl *lib = c->lib;
    bool ok = lib->curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->headers) == CURLE_OK &&
              lib->curl_easy_setopt(c->curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS) ==
                  CURLE_OK &&
              lib->curl_easy_setopt(c->curl, CURLOPT_TCP_KEEPALIVE, 1L) == CURLE_OK &&
              lib->curl_easy_setopt(c->curl, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
              http_set_ca_file(lib, c->curl);
    return ok || ey_fail_memory(e, "an HTTP request", 0);
}

static bool open_client(struct api_client *c, const char *key, ey_err *e)
{
    c->lib = libcurl_load(e);
    if (!c->lib) return false;
    c->curl = http_new_handle(c->lib, e);
    if (!c->curl) return false;
    if (!make_base_url(c, e)) return false;
    hide_password(c->url);
    return check_base_url(c, e) && (!key || add_key_header(c, key, e)) &&
           add_client_header(c, "Content-Type: application/json", e) &&
           add_client_header(c, "Expect:", e) && /* otherwise libcurl waits for "100 Continue" */
           set_client_options(c, e);
}

bool api_client_open(struct api_client **out, const char *url, const char *key, ey_err *e)
{
    struct api_client *c = calloc(1, sizeof(*c));
    *out = c;
    if (c) c->url = strdup(url);
    if (!c || !c->url)
        ey_fail_memory(e, "a connection", sizeof(*c));
    else if (open_client(c, key, e))
        return true;
    api_client_close(out);
    return false;
}

void api_client_close(struct api_client **client)
{
    struct api_client *c = *client;
    if (!c) return;
    if (c->curl) c->lib->curl_easy_cleanup(c->curl);
    for (struct curl_slist *h = c->headers; h; h = h->next)
        explicit_bzero(h->data, strlen(h->data)); /* one header has the key */
    if (c->headers) c->lib->curl_slist_free_all(c->headers);
    free(c->url);
    if (c->base) explicit_bzero(c->base, strlen(c->base)); /* it may have a password */
    free(c->base);
    free(c);
    *client = NULL;
}

/* ---- a call ---- */

struct api_transfer {
    struct api_client *client;
    const struct api_call *call;
    struct buf error_body; /* body of a reply other than 200 */
    bool stopped;          /* a callback ended the call, and stop_error says why */
    ey_err stop_error;
};

static long call_status(const struct api_client *c)
{
    long status = 0;
    c->lib->curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static size_t take_call_bytes(char *bytes, size_t size, size_t n, void *user)
{
    struct api_transfer *t = user;
    if (call_status(t->client) != 200) {
        buf_add(&t->error_body, bytes, size * n); /* a body that is too long is not parsed */
        return size * n;
    }
    if (!t->stopped && t->call->take(t->call->user, bytes, size * n, &t->stop_error))
        return size * n;
    t->stopped = true;
    return 0;
}

static int watch_call(void *user, curl_off_t to_get, curl_off_t got, curl_off_t to_send,
                      curl_off_t sent)
{
    struct api_transfer *t = user;
    (void)to_get;
    (void)got;
    if (t->stopped || !t->call->go_on ||
        t->call->go_on(t->call->user, (uint64_t)sent, (uint64_t)to_send))
        return t->stopped;
    ey_fail(&t->stop_error, EY_CANCELLED, "cancelled");
    t->stopped = true;
    return 1;
}

static bool set_call_options(struct api_transfer *t, const char *url, char *problem)
{
    const struct libcurl *lib = t->client->lib;
    CURL *curl = t->client->curl;
    const struct buf *body = t->call->body;
    bool ok = lib->curl_easy_setopt(curl, CURLOPT_URL, url) == CURLE_OK &&
              lib->curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_call_bytes) == CURLE_OK &&
              lib->curl_easy_setopt(curl, CURLOPT_WRITEDATA, t) == CURLE_OK &&
              lib->curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, watch_call) == CURLE_OK &&
              lib->curl_easy_setopt(curl, CURLOPT_XFERINFODATA, t) == CURLE_OK &&
              lib->curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, problem) == CURLE_OK;
    if (!body) return ok && lib->curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L) == CURLE_OK;
    return ok && lib->curl_easy_setopt(curl, CURLOPT_POST, 1L) == CURLE_OK &&
           lib->curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body->data) == CURLE_OK &&
           lib->curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->size) ==
               CURLE_OK;
}

/* ---- errors ---- */

static bool fail_call_transfer(const struct api_transfer *t, CURLcode code, const char *problem,
                               ey_err *e)
{
    const char *url = t->client->url;
    if (t->stopped) return *e = t->stop_error, false;
    if (code == CURLE_COULDNT_CONNECT)
        return ey_fail(e, EY_IO, "no server answers at %.200s; is `eyelet serve` running?", url);
    if (code == CURLE_COULDNT_RESOLVE_HOST)
        return ey_fail(e, EY_IO, "%.200s: there is no such host", url);
    if (code == CURLE_URL_MALFORMAT) return fail_bad_url(t->client, e);
    if (code == CURLE_PEER_FAILED_VERIFICATION)
        return ey_fail(e, EY_IO,
                       "%.200s: the server's certificate is not trusted (%.150s); name the "
                       "certificate that signed it with SSL_CERT_FILE",
                       url, problem);
    if (code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR ||
        code == CURLE_PARTIAL_FILE)
        return ey_fail(e, EY_IO,
                       "%.200s: the server closed the connection before its answer was complete; "
                       "has it stopped?",
                       url);
    return ey_fail(e, EY_IO, "%.200s: %.300s", url, problem[0] ? problem : "the call failed");
}

static const char *error_member(const json_object *object, const char *key)
{
    json_object *text = json_member_of_type(object, key, json_type_string);
    return text ? json_object_get_string(text) : NULL;
}

/* Returns the message of an error: OpenAI's is {"error": {"message": …}}, and other servers have a
 * string "error", "message" or "detail". */
static const char *message_of(const json_object *reply)
{
    const char *message = error_member(json_member(reply, "error"), "message");
    if (!message) message = error_member(reply, "error");
    if (!message) message = error_member(reply, "message");
    return message ? message : error_member(reply, "detail");
}

static bool message_starts_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Returns the code that the engine has for this error. */
static ey_code code_of(long status, const char *message)
{
    if (status == 404) return EY_NOT_FOUND;
    if (status == 503 || status == 429) return EY_BUSY;
    if (status < 400 || status >= 500 || status == 401 || status == 403) return EY_IO;
    if (strstr(message, "maximum context length")) return EY_TOO_LONG;
    return message_starts_with(message, "Failed to load image") ? EY_BAD_IMAGE : EY_BAD_REQUEST;
}

static bool fail_key(const struct api_client *c, ey_err *e)
{
    if (c->has_key) return ey_fail(e, EY_IO, "%.200s: the server rejects this key", c->url);
    return ey_fail(
        e, EY_IO,
        "%.200s: the server needs a key; give it with --api-key, EYELET_API_KEY or VLLM_API_KEY",
        c->url);
}

static bool fail_busy(const struct api_client *c, const char *message, ey_err *e)
{
    curl_off_t wait = 0;
    c->lib->curl_easy_getinfo(c->curl, CURLINFO_RETRY_AFTER, &wait);
    if (wait > 0)
        return ey_fail(e, EY_BUSY, "the server cannot answer now: %.500s; try again in %lld s",
                       message, (long long)wait);
    return ey_fail(e, EY_BUSY, "the server cannot answer now: %.500s", message);
}

/* Removes the words that the API adds around the engine's message, so that the command line prints
 * the same message as without a server. */
static void strip_api_wording(const char **message, size_t *n)
{
    static const char load[] = "Failed to load image: ",
                      length[] = "This model's maximum context length is", but[] = "However, ";
    if (message_starts_with(*message, load)) *message += strlen(load);
    const char *core = message_starts_with(*message, length) ? strstr(*message, but) : NULL,
               *end = core ? strstr(core, ". Please reduce") : NULL;
    if (end) *message = core + strlen(but);
    *n = end ? (size_t)(end - *message) : strlen(*message);
}

static bool fail_with_message(const struct api_client *c, long status, const char *message,
                              ey_err *e)
{
    ey_code code = code_of(status, message);
    size_t n;
    if (status == 401 || status == 403) return fail_key(c, e);
    if (status == 503 || status == 429) return fail_busy(c, message, e);
    strip_api_wording(&message, &n);
    return ey_fail(e, code, "%.*s", (int)(n < sizeof(e->text) ? n : sizeof(e->text)), message);
}

static void store_call_error(struct api_call_error *call_error, long status, const char *param,
                             const char *message)
{
    if (!call_error) return;
    call_error->status = status;
    snprintf(call_error->param, sizeof(call_error->param), "%s", param ? param : "");
    snprintf(call_error->message, sizeof(call_error->message), "%s", message ? message : "");
}

static bool fail_call_status(const struct api_transfer *t, struct api_call_error *call_error,
                             ey_err *e)
{
    const struct api_client *c = t->client;
    long status = call_status(c);
    json_object *reply = t->error_body.size ? json_parse(t->error_body.data, t->error_body.size,
                                                         "the reply", EY_IO, NULL)
                                            : NULL;
    const char *param = error_member(json_member(reply, "error"), "param"),
               *message = message_of(reply);
    char plain[64];
    snprintf(plain, sizeof(plain), "HTTP %ld", status);
    store_call_error(call_error, status, param, message);
    if (!message && status != 401 && status != 403 && status != 429 && status != 503)
        ey_fail(e, code_of(status, ""),
                "%.200s: the reply is %s without an OpenAI error; is this an eyelet server?",
                c->url, plain);
    else
        fail_with_message(c, status, message ? message : plain, e);
    json_object_put(reply);
    return false;
}

bool api_client_call(struct api_client *c, const struct api_call *call,
                     struct api_call_error *call_error, ey_err *e)
{
    struct api_transfer t = {.client = c, .call = call, .error_body = buf_with_max(MAX_ERROR_BODY)};
    char problem[CURL_ERROR_SIZE] = "", *url = NULL;
    if (call_error) *call_error = (struct api_call_error){0};
    bool ok = asprintf(&url, "%s%s", c->base, call->path) >= 0 &&
              set_call_options(&t, url, problem);
    if (!ok) {
        ey_fail_memory(e, "an HTTP request", 0);
    } else {
        CURLcode code = c->lib->curl_easy_perform(c->curl);
        ok = code == CURLE_OK ? call_status(c) == 200 || fail_call_status(&t, call_error, e)
                              : fail_call_transfer(&t, code, problem, e);
    }
    c->lib->curl_easy_setopt(c->curl, CURLOPT_ERRORBUFFER, NULL);
    buf_free(&t.error_body);
    if (url) explicit_bzero(url, strlen(url));
    free(url);
    return ok;
}
