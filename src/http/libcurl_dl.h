/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl for all modules that are HTTP clients, opened with the first request only. A program that
 * is linked with it would start later by the thirty libraries that it brings, and could not be
 * carried to where it is missing. */
#ifndef EY_HTTP_LIBCURL_DL_H
#define EY_HTTP_LIBCURL_DL_H

#define CURL_DISABLE_TYPECHECK /* its macros need the functions themselves */
#define CURL_DISABLE_DEPRECATION
#include <curl/curl.h>

#include "base/err.h"

/* Every function of libcurl that we call. */
#define LIBCURL_FUNCTIONS(X)    \
    X(curl_global_init)         \
    X(curl_easy_init)           \
    X(curl_easy_setopt)         \
    X(curl_easy_perform)        \
    X(curl_easy_getinfo)        \
    X(curl_easy_cleanup)        \
    X(curl_slist_append)        \
    X(curl_slist_free_all)      \
    X(curl_url)                 \
    X(curl_url_set)             \
    X(curl_url_get)             \
    X(curl_url_cleanup)         \
    X(curl_free)                \
    X(curl_easy_strerror)       \
    X(curl_multi_init)          \
    X(curl_multi_cleanup)       \
    X(curl_multi_add_handle)    \
    X(curl_multi_remove_handle) \
    X(curl_multi_perform)       \
    X(curl_multi_poll)          \
    X(curl_multi_info_read)

struct libcurl {
#define LIBCURL_FIELD(function) __typeof__(&function) function;
    LIBCURL_FUNCTIONS(LIBCURL_FIELD)
#undef LIBCURL_FIELD
};

/* The library, loaded and initialised with the first call of any thread. NULL: *e says which
 * package has it. */
const struct libcurl *libcurl_load(ey_err *e);

/* A handle that speaks HTTP and HTTPS only, follows no redirect, uses no signals, reads no file of
 * the user's and calls itself eyelet/VERSION. The caller cleans it up. NULL: no memory. */
CURL *http_new_handle(const struct libcurl *lib, ey_err *e);
/* Root certificates of one's own, by OpenSSL's variable SSL_CERT_FILE: a server's certificate may
 * be made by itself. */
bool http_set_ca_file(const struct libcurl *lib, CURL *curl);

#endif
