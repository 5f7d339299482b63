/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and redirects. Each redirect chooses the headers anew, so that the token is sent only to
 * the endpoint's origin. */
#include "hub/hub_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

enum { CONNECT_SECONDS = 20, STALLED_SECONDS = 30, ATTEMPTS = 5, RECEIVE_BYTES = 256 << 10 };

/* ---- the hub ---- */

static bool append_header_line(const struct libcurl *lib, struct curl_slist **list,
                               const char *line)
{
    struct curl_slist *longer = lib->curl_slist_append(*list, line);
    if (longer) *list = longer;
    return longer != NULL;
}

/* Requests uncompressed bytes, because the known hash and length are those of uncompressed bytes.
 */
static bool make_header_lists(struct hub *hub, ey_err *e)
{
    char line[TOKEN_BYTES + 32];
    const struct libcurl *lib = hub->endpoint.lib;
    snprintf(line, sizeof(line), "Authorization: Bearer %s", hub->endpoint.token);
    bool ok = append_header_line(lib, &hub->plain_headers, "Accept-Encoding: identity") &&
              append_header_line(lib, &hub->token_headers, "Accept-Encoding: identity") &&
              (!hub->endpoint.token[0] || append_header_line(lib, &hub->token_headers, line));
    return ok || ey_fail_memory(e, "an HTTP request", 0);
}

bool hub_open(struct hub *hub, const struct hub_options *options, ey_err *e)
{
    *hub = (struct hub){.options = *options};
    return endpoint_read(&hub->endpoint, e) && make_header_lists(hub, e);
}

void hub_close(struct hub *hub)
{
    if (hub->plain_headers) hub->endpoint.lib->curl_slist_free_all(hub->plain_headers);
    if (hub->token_headers) hub->endpoint.lib->curl_slist_free_all(hub->token_headers);
    *hub = (struct hub){0};
}

static bool hub_is_stopped(const struct hub *hub)
{
    return hub->options.stop && hub->options.stop(hub->options.user);
}

bool hub_pause(const struct hub *hub, double seconds, ey_err *e)
{
    const double slice = 0.05;
    for (double end = seconds_now() + seconds, left; (left = end - seconds_now()) > 0;) {
        const struct timespec nap = {.tv_nsec = (long)((left < slice ? left : slice) * 1e9)};
        if (hub_is_stopped(hub)) return ey_fail(e, EY_CANCELLED, "stopped");
        nanosleep(&nap, NULL);
    }
    return true;
}

/* ---- libcurl's callbacks ---- */

static size_t take_hub_header(char *line, size_t size, size_t n, void *user)
{
    struct hub_request *r = user;
    hub_response_header(&r->reply, line, size * n);
    return size * n;
}

static bool append_to_body(struct hub_request *r, const char *bytes, size_t n)
{
    struct buf *out = r->body;
    size_t left = r->max_bytes ? r->max_bytes - out->size : n;
    r->truncated = n > left;
    if (!buf_add(out, bytes, r->truncated ? left : n))
        return ey_fail(&r->stop_error, EY_IO, "the hub's answer is longer than %zu bytes",
                       out->max),
               r->truncated = false;
    return !r->truncated;
}

/* Drops bodies of error replies; their headers say what is wrong. */
static size_t take_hub_bytes(char *bytes, size_t size, size_t n, void *user)
{
    struct hub_request *r = user;
    if (r->reply.status != 200 && r->reply.status != 206) return size * n;
    if (r->stopped) return 0;
    if (r->take ? r->take(r->user, bytes, size * n, &r->stop_error)
                : append_to_body(r, bytes, size * n))
        return size * n;
    r->stopped = !r->truncated;
    return 0;
}

static int watch_hub_transfer(void *user, curl_off_t to_get, curl_off_t got, curl_off_t to_put,
                              curl_off_t put)
{
    struct hub_request *r = user;
    (void)to_get;
    (void)got;
    (void)to_put;
    (void)put;
    if (!r->stopped && hub_is_stopped(r->hub)) {
        r->stopped = true;
        ey_fail(&r->stop_error, EY_CANCELLED, "stopped");
    }
    return r->stopped;
}

/* ---- open, close ---- */

/* Uses HTTP/1.1, so that each range has a connection of its own: several are faster than one. */
static bool set_hub_options(struct hub_request *r)
{
    const struct libcurl *lib = r->hub->endpoint.lib;
    const double connect = r->hub->options.connect_seconds > 0 ? r->hub->options.connect_seconds
                                                               : CONNECT_SECONDS;
    return lib->curl_easy_setopt(r->curl, CURLOPT_HEADERFUNCTION, take_hub_header) == CURLE_OK &&
           lib->curl_easy_setopt(r->curl, CURLOPT_HEADERDATA, r) == CURLE_OK &&
           lib->curl_easy_setopt(r->curl, CURLOPT_WRITEFUNCTION, take_hub_bytes) == CURLE_OK &&
           lib->curl_easy_setopt(r->curl, CURLOPT_WRITEDATA, r) == CURLE_OK &&
           lib->curl_easy_setopt(r->curl, CURLOPT_XFERINFOFUNCTION, watch_hub_transfer) ==
               CURLE_OK &&
           lib->curl_easy_setopt(r->curl, CURLOPT_XFERINFODATA, r) == CURLE_OK &&
           lib->curl_easy_setopt(r->curl, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
           lib->curl_easy_setopt(r->curl, CURLOPT_ERRORBUFFER, r->curl_error) == CURLE_OK &&
           lib->curl_easy_setopt(r->curl, CURLOPT_PRIVATE, r) == CURLE_OK &&
           lib->curl_easy_setopt(r->curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) ==
               CURLE_OK &&
           lib->curl_easy_setopt(r->curl, CURLOPT_BUFFERSIZE, (long)RECEIVE_BYTES) == CURLE_OK &&
           lib->curl_easy_setopt(r->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)(connect * 1000)) ==
               CURLE_OK &&
           lib->curl_easy_setopt(r->curl, CURLOPT_LOW_SPEED_LIMIT, 1L) == CURLE_OK &&
           lib->curl_easy_setopt(r->curl, CURLOPT_LOW_SPEED_TIME, (long)STALLED_SECONDS) ==
               CURLE_OK &&
           http_set_ca_file(lib, r->curl);
}

bool hub_request_open(struct hub_request *r, struct hub *hub, ey_err *e)
{
    *r = (struct hub_request){.hub = hub, .curl = http_new_handle(hub->endpoint.lib, e)};
    if (!r->curl) return false;
    return set_hub_options(r) || ey_fail_memory(e, "an HTTP request", 0);
}

void hub_request_close(struct hub_request *r)
{
    if (r->curl) r->hub->endpoint.lib->curl_easy_cleanup(r->curl);
    free(r->url);
    *r = (struct hub_request){0};
}

/* ---- redirects ---- */

char *hub_file_url(const struct hub *hub, const struct hub_model *model, const char *file)
{
    char *url = NULL;
    return asprintf(&url, "%s/%s/resolve/%s/%s", hub->endpoint.url, model->repository.name,
                    model->commit, file) < 0
               ? NULL
               : url;
}

/* Takes ownership of `url`. */
static bool set_hub_url(struct hub_request *r, char *url, ey_err *e)
{
    char origin[ORIGIN_BYTES];
    const struct endpoint *ep = &r->hub->endpoint;
    if (r->url != url) free(r->url);
    r->url = url;
    if (!url) return ey_fail_memory(e, "a URL", 0);
    if (!url_origin(origin, ep->lib, url))
        return ey_fail(e, EY_IO, "the hub redirects to a URL other than http(s)");
    r->off_origin = strcmp(origin, ep->origin) != 0;
    if (ep->secure && strncmp(origin, "https:", 6) != 0)
        return ey_fail(e, EY_IO,
                       "the hub redirects to %.200s, which is not encrypted; eyelet does not "
                       "follow such a redirect. Is something intercepting the connection? "
                       "(HF_ENDPOINT=http://… would allow it)",
                       origin);
    r->reply = (struct hub_response){0};
    r->curl_error[0] = 0;
    r->stopped = false;
    bool ok = ep->lib->curl_easy_setopt(r->curl, CURLOPT_URL, url) == CURLE_OK &&
              ep->lib->curl_easy_setopt(r->curl, CURLOPT_HTTPHEADER,
                                        r->off_origin ? r->hub->plain_headers
                                                      : r->hub->token_headers) == CURLE_OK;
    return ok || ey_fail_memory(e, "a URL", 0);
}

static bool aim_at(struct hub_request *r, char *url, bool head, uint64_t begin, uint64_t end,
                   ey_err *e)
{
    const struct libcurl *lib = r->hub->endpoint.lib;
    r->head = head;
    r->redirects = 0;
    r->range[0] = 0;
    r->truncated = false;
    if (r->body) buf_clear(r->body);
    if (end)
        snprintf(r->range, sizeof(r->range), "%llu-%llu", (unsigned long long)begin,
                 (unsigned long long)end - 1);
    bool ok = lib->curl_easy_setopt(r->curl, head ? CURLOPT_NOBODY : CURLOPT_HTTPGET, 1L) ==
                  CURLE_OK &&
              lib->curl_easy_setopt(r->curl, CURLOPT_RANGE, r->range[0] ? r->range : NULL) ==
                  CURLE_OK;
    if (ok) return set_hub_url(r, url, e);
    free(url);
    return ey_fail_memory(e, "an HTTP request", 0);
}

bool hub_request_aim(struct hub_request *r, char *url, uint64_t begin, uint64_t end, ey_err *e)
{
    return aim_at(r, url, false, begin, end, e);
}

enum redirect_result hub_request_follow_redirect(struct hub_request *r, ey_err *e)
{
    char *next = NULL, origin[ORIGIN_BYTES];
    const struct endpoint *ep = &r->hub->endpoint;
    if (r->reply.status < 300 || r->reply.status >= 400) return REDIRECT_NONE;
    ep->lib->curl_easy_getinfo(r->curl, CURLINFO_REDIRECT_URL, &next);
    if (!next || r->reply.too_long)
        return ey_fail(e, EY_IO, "the hub answers with a redirect (HTTP %d) that leads nowhere",
                       r->reply.status),
               REDIRECT_FAILED;
    if (r->head && (r->reply.linked_etag[0] || !url_origin(origin, ep->lib, next) ||
                    strcmp(origin, ep->origin) != 0))
        return REDIRECT_NONE;
    if (++r->redirects > HUB_MAX_REDIRECTS)
        return ey_fail(e, EY_IO, "the hub redirects more than %d times", HUB_MAX_REDIRECTS),
               REDIRECT_FAILED;
    return set_hub_url(r, strdup(next), e) ? REDIRECT_FOLLOWED : REDIRECT_FAILED;
}

/* ---- errors ---- */

/* Retries on timeouts, rate limits, server and CDN errors, and expired signed URLs. */
bool hub_request_may_retry(const struct hub_request *r, CURLcode code)
{
    int status = r->reply.status;
    if (r->stopped) return false;
    switch (code) {
    case CURLE_OK:
        return status == 408 || status == 429 || status >= 500 ||
               (r->off_origin && (status == 403 || status == 410));
    case CURLE_URL_MALFORMAT:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_OUT_OF_MEMORY: return false;
    default: return true;
    }
}

/* Whether no connection could be made. If connecting times out, libcurl returns the same code as
 * for a transfer that stalls. */
static bool is_unconnected(const struct hub_request *r, CURLcode code)
{
    double seconds = 0; /* until the connection was ready */
    if (code != CURLE_OPERATION_TIMEDOUT) return code == CURLE_COULDNT_CONNECT;
    r->hub->endpoint.lib->curl_easy_getinfo(r->curl, CURLINFO_PRETRANSFER_TIME, &seconds);
    return seconds <= 0;
}

static bool fail_hub_transfer(const struct hub_request *r, CURLcode code, const char *what,
                              ey_err *e)
{
    const char *problem = r->curl_error[0] ? r->curl_error
                                           : r->hub->endpoint.lib->curl_easy_strerror(code);
    const char *host = r->off_origin ? "the hub's file storage" : r->hub->endpoint.url;
    if (r->stopped) return *e = r->stop_error, false;
    if (is_unconnected(r, code))
        return ey_fail(e, EY_IO,
                       "%.150s accepts no connection (%.200s); is this machine online? Behind a "
                       "proxy set HTTPS_PROXY",
                       host, problem);
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
        return ey_fail(e, EY_IO,
                       "%.150s: the host name cannot be resolved (%.200s); is this machine "
                       "online? Behind a proxy set HTTPS_PROXY",
                       host, problem);
    case CURLE_COULDNT_RESOLVE_PROXY:
        return ey_fail(e, EY_IO,
                       "the proxy's host name cannot be resolved (%.200s); check HTTPS_PROXY",
                       problem);
    case CURLE_PEER_FAILED_VERIFICATION:
        return ey_fail(
            e, EY_IO,
            "%.150s: its certificate is not trusted (%.200s); if a proxy intercepts TLS, "
            "set SSL_CERT_FILE to the proxy's CA certificate",
            host, problem);
    case CURLE_SSL_CACERT_BADFILE:
        return ey_fail(
            e, EY_IO,
            "there are no root certificates to verify %.150s; install the package ca-certificates",
            host);
    case CURLE_OPERATION_TIMEDOUT:
        return ey_fail(
            e, EY_IO,
            "%s: %.150s sends no more data (%.200s); run the same command again to resume", what,
            host, problem);
    default:
        return ey_fail(
            e, EY_IO,
            "%s: the connection to %.150s broke (%.200s); run the same command again to resume",
            what, host, problem);
    }
}

static bool fail_access_denied(const struct hub_request *r, const char *what, ey_err *e)
{
    const struct endpoint *ep = &r->hub->endpoint;
    const struct hub_response *reply = &r->reply;
    if (strcmp(reply->error_code, "GatedRepo") == 0 && !ep->token[0])
        return ey_fail(e, EY_IO,
                       "%s is gated: accept its terms on its page at %.150s, make a token at "
                       "%.150s/settings/tokens, and set HF_TOKEN to it",
                       what, ep->url, ep->url);
    if (strcmp(reply->error_code, "GatedRepo") == 0)
        return ey_fail(e, EY_IO,
                       "%s is gated, and the account of the token (%s) has no access: accept its "
                       "terms on its page at %.150s, then run the same command again",
                       what, ep->token_source, ep->url);
    if (reply->status == 401 && ep->token[0] && strcmp(reply->error_code, "RepoNotFound") != 0)
        return ey_fail(e, EY_IO,
                       "the hub rejects the token (%s); make a new one at "
                       "%.150s/settings/tokens, or unset it for a public model",
                       ep->token_source, ep->url);
    if (reply->status == 401 || strcmp(reply->error_code, "RepoNotFound") == 0)
        return ey_fail(e, EY_NOT_FOUND,
                       "%s: %.150s has no such model, or a private one%s; check the spelling", what,
                       ep->url,
                       ep->token[0] ? " that the token's account cannot see"
                                    : " (for which HF_TOKEN must be set)");
    return ey_fail(e, EY_IO, "%s: the hub denies access (HTTP %d%s%.200s)%s", what, reply->status,
                   reply->error_message[0] ? ": " : "", reply->error_message,
                   ep->token[0] ? "; does the token have permission to read it?" : "");
}

static bool fail_hub_status(const struct hub_request *r, const char *what, ey_err *e)
{
    const struct hub_response *reply = &r->reply;
    if (reply->status == 401 || reply->status == 403 ||
        strcmp(reply->error_code, "RepoNotFound") == 0)
        return fail_access_denied(r, what, e);
    if (strcmp(reply->error_code, "RevisionNotFound") == 0)
        return ey_fail(e, EY_NOT_FOUND, "%s: the repository has no such branch, tag or commit",
                       what);
    if (reply->status == 404)
        return ey_fail(
            e, EY_NOT_FOUND,
            "%s: %.150s has no such model, revision or file (HTTP 404); check the spelling", what,
            r->hub->endpoint.url);
    if (reply->status == 407)
        return ey_fail(
            e, EY_IO,
            "the proxy requires a password; set HTTPS_PROXY=http://user:password@host:port");
    if (reply->status == 429)
        return ey_fail(e, EY_BUSY,
                       "the hub has received too many requests from this machine; wait some "
                       "minutes%s, then run "
                       "the same command again",
                       r->hub->endpoint.token[0] ? "" : " or set HF_TOKEN");
    if (reply->status >= 500)
        return ey_fail(e, EY_IO, "%s: the hub failed (HTTP %d); run the same command again later",
                       what, reply->status);
    return ey_fail(e, EY_IO, "%s: the hub answers HTTP %d%s%.200s", what, reply->status,
                   reply->error_message[0] ? ": " : "", reply->error_message);
}

bool hub_request_fail(const struct hub_request *r, CURLcode code, const char *what, ey_err *e)
{
    return code == CURLE_OK ? fail_hub_status(r, what, e) : fail_hub_transfer(r, code, what, e);
}

/* ---- whole requests, with retries ---- */

static bool is_answered(const struct hub_request *r)
{
    return r->reply.status == 200 || r->reply.status == 206 ||
           (r->head && r->reply.status >= 300 && r->reply.status < 400);
}

/* Sends one request and follows its redirects. On failure, *code and the reply have the reason,
 * unless *final is set: then *e has it, and a retry would not help. */
static bool perform_with_redirects(struct hub_request *r, const char *url, bool head,
                                   CURLcode *code, bool *final, ey_err *e)
{
    enum redirect_result redirect;
    *final = true;
    if (!aim_at(r, strdup(url), head, 0, r->max_bytes, e)) return false;
    do {
        *code = r->hub->endpoint.lib->curl_easy_perform(r->curl);
        redirect = *code == CURLE_OK ? hub_request_follow_redirect(r, e) : REDIRECT_NONE;
    } while (redirect == REDIRECT_FOLLOWED);
    if (redirect == REDIRECT_FAILED) return false;
    *final = false;
    return (*code == CURLE_OK || r->truncated) && is_answered(r);
}

static bool perform_with_retries(struct hub_request *r, const char *what, const char *url,
                                 bool head, ey_err *e)
{
    double pause = r->hub->options.retry_seconds > 0 ? r->hub->options.retry_seconds : 1;
    if (!url) return ey_fail_memory(e, "a URL", 0);
    for (int left = ATTEMPTS - 1;; left--, pause *= 2) {
        CURLcode code = CURLE_OK;
        bool final;
        if (perform_with_redirects(r, url, head, &code, &final, e)) return true;
        if (final) return false;
        bool unreachable = code == CURLE_COULDNT_RESOLVE_HOST ||
                           is_unconnected(r, code); /* do not retry when offline */
        if (!left || unreachable || !hub_request_may_retry(r, code))
            return hub_request_fail(r, code, what, e);
        if (!hub_pause(r->hub, hub_response_retry_after(&r->reply, pause), e)) return false;
    }
}

bool hub_request_head(struct hub_request *r, const char *what, const char *url, ey_err *e)
{
    r->body = NULL;
    r->max_bytes = 0;
    return perform_with_retries(r, what, url, true, e);
}

bool hub_request_get(struct hub_request *r, const char *what, const char *url, size_t most,
                     struct buf *out, ey_err *e)
{
    r->body = out;
    r->max_bytes = most;
    bool ok = perform_with_retries(r, what, url, false, e);
    r->body = NULL;
    r->max_bytes = 0;
    return ok;
}
