/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches images by http(s), from allowed hosts at public addresses only.
 *
 * libcurl parses the URL once, and the same parsed URL is checked here and then used to connect.
 * Addresses are checked when libcurl creates the socket, so a host name that resolves to another
 * address later (DNS rebinding) does not evade the check. libcurl does not follow redirects: this
 * file checks each one like the first URL. Proxies are disabled whatever the environment says,
 * since a proxy would resolve names itself, after the check. */
#include "media/media_internal.h"

#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "http/libcurl_dl.h"

enum { FIRST_BYTES = 64 << 10, MAX_REDIRECT_BODY = 64 << 10, SHOWN_HOST = 100 };

struct media_transfer {
    const struct libcurl *lib;
    const struct media_policy *policy;
    struct media *out;
    CURL *curl;
    CURLU *url;
    double deadline; /* in terms of seconds_now() */
    bool redirected; /* messages omit the URL, because it is not the one that the client sent */
    bool refused;    /* a non-public address was refused */
    size_t dropped;  /* bytes of a redirect's body that were discarded */
    bool stopped;    /* a callback aborted the transfer and filled stop_error */
    ey_err stop_error;
};

/* ---- the URL ---- */

static bool host_allowed(const char *host, const struct media_policy *policy)
{
    size_t n = strlen(host);
    if (policy->any_domain) return true;
    for (size_t i = 0; i < policy->n_domains; i++) {
        const char *domain = policy->domains[i] + (policy->domains[i][0] == '*');
        size_t length = strlen(domain);
        if (domain[0] != '.' && length == n && strcasecmp(host, domain) == 0) return true;
        if (domain[0] == '.' && length > 1 && n > length &&
            strcasecmp(host + n - length, domain) == 0)
            return true;
    }
    return false;
}

/* Whether the host has only characters that all resolvers and certificate checks treat alike. */
static bool plain_host(const char *host)
{
    return host[0] &&
           strspn(host, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:[]") ==
               strlen(host);
}

/* Normalizes a host: removes the trailing dot and the brackets of IPv6. */
static void trim_host(char **host)
{
    size_t n = strlen(*host);
    if (n > 1 && (*host)[n - 1] == '.') (*host)[n - 1] = 0;
    if (n > 2 && (*host)[0] == '[' && (*host)[n - 1] == ']') {
        (*host)[n - 1] = 0;
        ++*host;
    }
}

static bool has_part(const struct media_transfer *f, CURLUPart part)
{
    char *text = NULL;
    bool there = f->lib->curl_url_get(f->url, part, &text, 0) == CURLUE_OK;
    f->lib->curl_free(text);
    return there;
}

static bool check_host(const struct media_transfer *f, char *host, ey_err *e)
{
    trim_host(&host);
    if (host_allowed(host, f->policy)) return true;
    if (f->redirected)
        return ey_fail(e, EY_BAD_REQUEST,
                       "Failed to fetch media from URL: it redirects to a host that is not among "
                       "--allowed-media-domains");
    return ey_fail(e, EY_BAD_REQUEST, "the URL's host %.*s is not among --allowed-media-domains",
                   SHOWN_HOST, host);
}

static bool check_url(const struct media_transfer *f, ey_err *e)
{
    char *host = NULL;
    if (has_part(f, CURLUPART_USER) || has_part(f, CURLUPART_PASSWORD))
        return ey_fail(e, EY_BAD_REQUEST,
                       "the image's URL has a user name or password in it, which is not allowed");
    bool ok = f->lib->curl_url_get(f->url, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
              !has_part(f, CURLUPART_ZONEID);
    if (!ok || !plain_host(host))
        ok = ey_fail(e, EY_BAD_REQUEST,
                     "the host of the image's URL is malformed; write its name in ASCII (xn--…)");
    else
        ok = check_host(f, host, e);
    f->lib->curl_free(host);
    return ok;
}

/* Whether a parsed URL's scheme is http or https. */
static bool is_web(const char *url)
{
    return strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "https://", 8) == 0;
}

static bool set_url(struct media_transfer *f, const char *text, ey_err *e)
{
    if (!is_web(text))
        return ey_fail(e, EY_BAD_REQUEST,
                       "Failed to fetch media from URL: it redirects to a URL other than http(s)");
    if (f->lib->curl_url_set(f->url, CURLUPART_URL, text, 0) != CURLUE_OK)
        return ey_fail(e, EY_BAD_REQUEST,
                       f->redirected
                           ? "Failed to fetch media from URL: it redirects to a malformed URL"
                           : "the image's URL is malformed");
    return check_url(f, e);
}

/* ---- callbacks of libcurl ---- */

static bool address_allowed(const struct media_transfer *f, const struct sockaddr *address)
{
    return address_is_public(address) ||
           (f->policy->allow_loopback && address_is_loopback(address));
}

/* The first address that is not allowed ends the fetch, because libcurl gets no socket for the
 * host's other addresses either. */
static curl_socket_t open_checked_socket(void *user, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct media_transfer *f = user;
    if (purpose != CURLSOCKTYPE_IPCXN || !address_allowed(f, &to->addr)) f->refused = true;
    return f->refused ? CURL_SOCKET_BAD
                      : socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

static int watch_fetch(void *user, curl_off_t to_get, curl_off_t got, curl_off_t to_put,
                       curl_off_t put)
{
    struct media_transfer *f = user;
    (void)to_get;
    (void)got;
    (void)to_put;
    (void)put;
    if (f->stopped || !media_client_gone(f->policy)) return f->stopped;
    ey_fail(&f->stop_error, EY_CANCELLED, "the client has left");
    f->stopped = true;
    return 1;
}

static long fetch_status(const struct media_transfer *f)
{
    long status = 0;
    f->lib->curl_easy_getinfo(f->curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

/* Doubles the capacity as bytes arrive, so that a false Content-Length reserves no memory. */
static bool append_fetched(struct media_transfer *f, const char *bytes, size_t n, ey_err *e)
{
    struct media *out = f->out;
    size_t most = media_max_bytes(f->policy), capacity = out->held ? out->held : FIRST_BYTES;
    if (n > most - out->n_bytes) return media_fail_too_large(f->policy, e);
    while (capacity < out->n_bytes + n)
        capacity *= 2;
    if (capacity > most) capacity = most;
    if (!media_reserve(out, capacity, f->policy, e)) return false;
    memcpy((char *)out->bytes + out->n_bytes, bytes, n);
    out->n_bytes += n;
    return true;
}

static bool take_fetched(struct media_transfer *f, const char *bytes, size_t n, ey_err *e)
{
    if (fetch_status(f) == 200) return append_fetched(f, bytes, n, e);
    f->dropped += n;
    return f->dropped <= MAX_REDIRECT_BODY ||
           ey_fail(e, EY_IO,
                   "Failed to fetch media from URL: the HTTP %ld response has a body of more than "
                   "%d bytes",
                   fetch_status(f), MAX_REDIRECT_BODY);
}

static size_t on_fetched_body(char *bytes, size_t size, size_t n, void *user)
{
    struct media_transfer *f = user;
    if (!f->stopped && take_fetched(f, bytes, size * n, &f->stop_error)) return size * n;
    f->stopped = true;
    return 0;
}

/* ---- a transfer ---- */

static const char *fetch_problem(CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST: return "its host name cannot be resolved";
    case CURLE_COULDNT_CONNECT: return "its host accepts no connection";
    case CURLE_OPERATION_TIMEDOUT: return "it took too long";
    case CURLE_PEER_FAILED_VERIFICATION: return "its host's certificate is not valid";
    case CURLE_SSL_CONNECT_ERROR: return "no TLS connection to its host could be set up";
    case CURLE_SSL_CACERT_BADFILE:
        return "this machine has no root certificates; install the package ca-certificates";
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE: return "its host closed the connection too early";
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY: return "its host does not speak HTTP";
    default: return NULL;
    }
}

static bool fail_fetch_status(long status, ey_err *e)
{
    return ey_fail(e, EY_IO, "Failed to fetch media from URL: HTTP %ld error", status);
}

static bool fail_fetch(const struct media_transfer *f, CURLcode code, ey_err *e)
{
    const char *problem = fetch_problem(code);
    if (f->stopped) return *e = f->stop_error, false;
    if (f->refused)
        return ey_fail(e, EY_BAD_REQUEST,
                       "Failed to fetch media from URL: its host is not at a public address; "
                       "the server never connects to loopback, private or link-local addresses");
    if (code == CURLE_FILESIZE_EXCEEDED) return media_fail_too_large(f->policy, e);
    if (code == CURLE_HTTP_RETURNED_ERROR) return fail_fetch_status(fetch_status(f), e);
    if (problem) return ey_fail(e, EY_IO, "Failed to fetch media from URL: %s", problem);
    return ey_fail(e, EY_IO,
                   "Failed to fetch media from URL: the transfer failed (libcurl's error %d)",
                   (int)code);
}

/* Returns at least 1, because libcurl takes 0 for no limit. */
static long milliseconds_left(const struct media_transfer *f)
{
    double left = (f->deadline - seconds_now()) * 1000;
    return left < 1 ? 1 : (long)left;
}

static bool perform_fetch(struct media_transfer *f, ey_err *e)
{
    f->lib->curl_easy_setopt(f->curl, CURLOPT_TIMEOUT_MS, milliseconds_left(f));
    CURLcode code = f->lib->curl_easy_perform(f->curl);
    return code == CURLE_OK || fail_fetch(f, code, e);
}

/* Returns the URL to which the finished transfer redirects, or NULL if it does not redirect. */
static const char *redirect_of(const struct media_transfer *f)
{
    char *url = NULL;
    long status = fetch_status(f);
    if (status >= 300 && status < 400)
        f->lib->curl_easy_getinfo(f->curl, CURLINFO_REDIRECT_URL, &url);
    return url;
}

static bool check_result(const struct media_transfer *f, ey_err *e)
{
    if (fetch_status(f) != 200) return fail_fetch_status(fetch_status(f), e);
    return f->out->n_bytes > 0 ||
           ey_fail(e, EY_BAD_IMAGE, "Failed to load image: the URL returned an empty file");
}

static bool fetch_with_redirects(struct media_transfer *f, ey_err *e)
{
    for (int hops = 0;; hops++) {
        if (!perform_fetch(f, e)) return false;
        const char *next = redirect_of(f);
        if (!next) return check_result(f, e);
        if (hops == MEDIA_MAX_REDIRECTS)
            return ey_fail(e, EY_IO, "Failed to fetch media from URL: more than %d redirects",
                           MEDIA_MAX_REDIRECTS);
        f->redirected = true;
        f->dropped = 0;
        if (!set_url(f, next, e)) return false;
    }
}

/* ---- setting up and closing ---- */

static bool set_fetch_options(const struct media_transfer *f, ey_err *e)
{
    const struct libcurl *lib = f->lib;
    long connect = f->policy->connect_seconds > 0 ? f->policy->connect_seconds
                                                  : MEDIA_CONNECT_SECONDS;
    bool ok = lib->curl_easy_setopt(f->curl, CURLOPT_CURLU, f->url) == CURLE_OK &&
              lib->curl_easy_setopt(f->curl, CURLOPT_PROXY, "") == CURLE_OK &&
              lib->curl_easy_setopt(f->curl, CURLOPT_OPENSOCKETFUNCTION, open_checked_socket) ==
                  CURLE_OK &&
              lib->curl_easy_setopt(f->curl, CURLOPT_OPENSOCKETDATA, f) == CURLE_OK &&
              lib->curl_easy_setopt(f->curl, CURLOPT_WRITEFUNCTION, on_fetched_body) == CURLE_OK &&
              lib->curl_easy_setopt(f->curl, CURLOPT_WRITEDATA, f) == CURLE_OK &&
              lib->curl_easy_setopt(f->curl, CURLOPT_XFERINFOFUNCTION, watch_fetch) == CURLE_OK &&
              lib->curl_easy_setopt(f->curl, CURLOPT_XFERINFODATA, f) == CURLE_OK &&
              lib->curl_easy_setopt(f->curl, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
              lib->curl_easy_setopt(f->curl, CURLOPT_FAILONERROR, 1L) == CURLE_OK &&
              lib->curl_easy_setopt(f->curl, CURLOPT_MAXFILESIZE_LARGE,
                                    (curl_off_t)media_max_bytes(f->policy)) == CURLE_OK &&
              lib->curl_easy_setopt(f->curl, CURLOPT_CONNECTTIMEOUT, connect) == CURLE_OK;
    return ok || ey_fail(e, EY_INTERNAL, "libcurl rejected an option that fetching images needs");
}

static bool open_fetch_url(struct media_transfer *f, ey_err *e)
{
    f->lib = libcurl_load(e);
    if (!f->lib) return false;
    f->url = f->lib->curl_url();
    return f->url || ey_fail_memory(e, "a URL", 0);
}

/* Copies the URL to out[EY_MAX_URL_BYTES + 1] with a NUL. Fails if the URL does not fit. */
static bool copy_url(char *out, const char *url, size_t n, ey_err *e)
{
    if (n > EY_MAX_URL_BYTES)
        return ey_fail(e, EY_BAD_REQUEST, "the image's URL is longer than %d bytes",
                       EY_MAX_URL_BYTES);
    memcpy(out, url, n);
    out[n] = 0;
    return true;
}

bool media_check_http(const char *url, size_t n, const struct media_policy *policy, ey_err *e)
{
    char text[EY_MAX_URL_BYTES + 1];
    struct media_transfer f = {.policy = policy};
    bool ok = copy_url(text, url, n, e) && open_fetch_url(&f, e) && set_url(&f, text, e);
    if (f.url) f.lib->curl_url_cleanup(f.url);
    return ok;
}

bool media_fetch(struct media *out, const char *url, size_t n, const struct media_policy *policy,
                 ey_err *e)
{
    char text[EY_MAX_URL_BYTES + 1];
    struct media_transfer f = {.policy = policy, .out = out};
    if (!policy->n_domains && !policy->any_domain)
        return ey_fail(e, EY_BAD_REQUEST,
                       "this server does not fetch images from http(s) URLs; send a "
                       "data:image/…;base64,… URL, "
                       "or start the server with --allowed-media-domains");
    f.deadline = seconds_now() +
                 (policy->total_seconds > 0 ? policy->total_seconds : MEDIA_TOTAL_SECONDS);
    bool ok = copy_url(text, url, n, e) && open_fetch_url(&f, e) && set_url(&f, text, e);
    f.curl = ok ? http_new_handle(f.lib, e) : NULL;
    ok = f.curl && set_fetch_options(&f, e) && fetch_with_redirects(&f, e);
    if (ok) media_shrink(out);
    if (f.curl) f.lib->curl_easy_cleanup(f.curl);
    if (f.url) f.lib->curl_url_cleanup(f.url);
    return ok;
}
