/* SPDX-License-Identifier: Apache-2.0 */
/* HF_ENDPOINT, HF_TOKEN and related variables, as huggingface_hub reads them (constants.py,
 * _auth.py). */
#include "hub/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/limits.h"
#include "checkpoint/checkpoint.h"

static const char *env_or_null(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static bool is_true(const char *value)
{
    static const char *const words[] = {"1", "on", "yes", "true"};
    for (size_t i = 0; value && i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(value, words[i]) == 0) return true;
    return false;
}

bool hub_is_offline(void)
{
    const char *value = env_or_null("HF_HUB_OFFLINE");
    return is_true(value ? value : env_or_null("TRANSFORMERS_OFFLINE"));
}

/* ---- the URL ---- */

bool url_origin(char out[ORIGIN_BYTES], const struct libcurl *lib, const char *text)
{
    CURLU *url = lib->curl_url();
    char *scheme = NULL, *host = NULL, *port = NULL;
    bool ok = url && lib->curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
              lib->curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
              lib->curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
              lib->curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
              (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0) &&
              snprintf(out, ORIGIN_BYTES, "%s://%s:%s", scheme, host, port) < ORIGIN_BYTES;
    for (char *c = out; ok && *c; c++)
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    lib->curl_free(scheme);
    lib->curl_free(host);
    lib->curl_free(port);
    lib->curl_url_cleanup(url);
    return ok;
}

static bool has_plain_url(const struct endpoint *ep)
{
    for (const char *p = ep->url; *p; p++)
        if (*p <= ' ' || *p > '~' || strchr("?#@\\", *p)) return false;
    return true;
}

static bool read_url(struct endpoint *ep, ey_err *e)
{
    const char *given = env_or_null("HF_ENDPOINT");
    const char *url = given ? given : "https://huggingface.co";
    size_t n = strlen(url);
    while (n && url[n - 1] == '/')
        n--;
    bool ok = n < sizeof(ep->url) && snprintf(ep->url, sizeof(ep->url), "%.*s", (int)n, url) >= 0 &&
              has_plain_url(ep) && strstr(ep->url, "://") &&
              url_origin(ep->origin, ep->lib, ep->url);
    ep->secure = ok && strncmp(ep->origin, "https:", 6) == 0;
    return ok || ey_fail(e, EY_BAD_REQUEST,
                         "HF_ENDPOINT is \"%.200s\"; it must be a URL such as "
                         "https://huggingface.co, without user, query or fragment",
                         url);
}

/* ---- the token ---- */

/* Writes the path of the token's file: HF_TOKEN_PATH, else "token" in HF_HOME or its default.
 * Returns false if the environment gives no path or one that is too long. */
static bool token_path(char *out, const char **source)
{
    const char *given = env_or_null("HF_TOKEN_PATH"), *home = env_or_null("HF_HOME"),
               *cache = env_or_null("XDG_CACHE_HOME"), *user = env_or_null("HOME");
    int n = -1;
    *source = given   ? "the file of HF_TOKEN_PATH"
              : home  ? "$HF_HOME/token"
              : cache ? "$XDG_CACHE_HOME/huggingface/token"
                      : "~/.cache/huggingface/token";
    const char *base = given ? given : home ? home : cache;
    const char *below = given ? "" : home ? "/token" : "/huggingface/token";
    if (base && base[0] == '~' && base[1] == '/')
        n = user ? snprintf(out, EY_MAX_PATH, "%s%s%s", user, base + 1, below) : -1;
    else if (base)
        n = snprintf(out, EY_MAX_PATH, "%s%s", base, below);
    else if (user)
        n = snprintf(out, EY_MAX_PATH, "%s/.cache/huggingface/token", user);
    return n > 0 && n < EY_MAX_PATH;
}

/* Stores the token without surrounding white space. */
static bool store_token(struct endpoint *ep, const char *text, const char *source, ey_err *e)
{
    text += strspn(text, " \t\r\n");
    size_t n = strlen(text);
    while (n && strchr(" \t\r\n", text[n - 1]))
        n--;
    if (n >= sizeof(ep->token))
        return ey_fail(e, EY_BAD_REQUEST, "the token in %s is longer than %d bytes", source,
                       TOKEN_BYTES - 1);
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return ey_fail(
                e, EY_BAD_REQUEST,
                "the token in %s has an invalid character; tokens are printable ASCII without "
                "blanks",
                source);
    memcpy(ep->token, text, n);
    ep->token[n] = 0;
    snprintf(ep->token_source, sizeof(ep->token_source), "%s", source);
    return true;
}

static bool read_token(struct endpoint *ep, ey_err *e)
{
    const char *name = env_or_null("HF_TOKEN") ? "HF_TOKEN" : "HUGGING_FACE_HUB_TOKEN",
               *given = env_or_null(name), *source;
    char path[EY_MAX_PATH], *text = NULL;
    size_t n;
    if (is_true(env_or_null("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return true;
    if (given) return store_token(ep, given, name, e);
    if (!token_path(path, &source) || !path_is_file(path)) return true;
    if (!file_read_regular(&text, &n, path, TOKEN_BYTES * 4, e)) return false;
    bool ok = store_token(ep, text, source, e);
    free(text);
    return ok;
}

bool endpoint_read(struct endpoint *ep, ey_err *e)
{
    *ep = (struct endpoint){.lib = libcurl_load(e)};
    return ep->lib && read_url(ep, e) && read_token(ep, e);
}
