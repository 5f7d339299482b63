/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl, loaded by dlopen() at the first request. If eyelet were linked with it, every start
 * would load thirty more libraries, and the portable program would not run without it. */
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

/* Returns the library, which the first call loads and initializes. Thread-safe. If the library is
 * missing, returns NULL with a message that names its package. */
const struct libcurl *libcurl_load(ey_err *e);

/* Creates a handle for HTTP and HTTPS only, without redirects, signals or the user's curl
 * configuration, with the user agent eyelet/VERSION. The caller cleans it up. Returns NULL if out
 * of memory. */
CURL *http_new_handle(const struct libcurl *lib, ey_err *e);
/* Uses the CA file that SSL_CERT_FILE names, if set, for servers with self-signed certificates. */
bool http_set_ca_file(const struct libcurl *lib, CURL *curl);

#endif
