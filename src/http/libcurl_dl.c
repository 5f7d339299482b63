/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libcurl and makes handles with the options that all uses share. */
#include "http/libcurl_dl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct libcurl library;
static ey_err problem; /* EY_OK if the library is loaded */

/* Debian's git installs the GnuTLS build, which has the same interface. */
static void *libcurl_dlopen(void)
{
    void *handle = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    return handle ? handle : dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
}

static bool libcurl_look_up(void *handle, ey_err *e)
{
#define LIBCURL_LOOK_UP(function)                                    \
    *(void **)&library.function = dlsym(handle, #function);          \
    if (!library.function)                                           \
        return ey_fail(e, EY_IO,                                     \
                       "the libcurl installed here lacks " #function \
                       "; version 7.66 or newer is needed");
    LIBCURL_FUNCTIONS(LIBCURL_LOOK_UP)
#undef LIBCURL_LOOK_UP
    return true;
}

static void libcurl_open(void)
{
    void *handle = libcurl_dlopen();
    if (!handle)
        ey_fail(&problem, EY_IO,
                "HTTP needs libcurl, which is not installed; install the package libcurl4 (Debian, "
                "Ubuntu), "
                "libcurl (Fedora) or curl (Arch)");
    else if (libcurl_look_up(handle, &problem) &&
             library.curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        ey_fail(&problem, EY_IO, "libcurl could not be initialized");
}

const struct libcurl *libcurl_load(ey_err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, libcurl_open);
    if (problem.code == EY_OK) return &library;
    if (e) *e = problem;
    return NULL;
}

/* Versions before 7.85 have only the second option. */
static bool speak_http_only(const struct libcurl *lib, CURL *curl)
{
    return lib->curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK ||
           lib->curl_easy_setopt(curl, CURLOPT_PROTOCOLS,
                                 (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS)) == CURLE_OK;
}

CURL *http_new_handle(const struct libcurl *lib, ey_err *e)
{
    CURL *curl = lib->curl_easy_init();
    bool ok = curl && speak_http_only(lib, curl) &&
              lib->curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
              lib->curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
              lib->curl_easy_setopt(curl, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED) == CURLE_OK &&
              lib->curl_easy_setopt(curl, CURLOPT_USERAGENT, "eyelet/" EY_VERSION) == CURLE_OK;
    /* since 7.87: an unresponsive name server does not delay the exit */
    if (ok) lib->curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);
    if (ok) return curl;
    if (curl) lib->curl_easy_cleanup(curl);
    ey_fail_memory(e, "an HTTP request", 0);
    return NULL;
}

bool http_set_ca_file(const struct libcurl *lib, CURL *curl)
{
    const char *roots = getenv("SSL_CERT_FILE");
    return !roots || !roots[0] || lib->curl_easy_setopt(curl, CURLOPT_CAINFO, roots) == CURLE_OK;
}
