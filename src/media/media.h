/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the image of an image_url part from a data:, http(s): or file: URL, as far as the policy
 * permits. */
#ifndef EY_MEDIA_MEDIA_H
#define EY_MEDIA_MEDIA_H

#include "base/err.h"
#include "base/limits.h"
#include "eyelet/budget.h"

enum { MEDIA_CONNECT_SECONDS = 5, MEDIA_TOTAL_SECONDS = 30, MEDIA_MAX_REDIRECTS = 3 };

struct media_policy {
    const char *const *domains; /* allowed hosts; a leading "." or "*." means all subdomains but not
                                   the domain itself; IPv6 addresses have no brackets */
    size_t n_domains;           /* 0: http(s) is off */
    bool any_domain;            /* any public host, for URLs typed by the local user */
    const char *local_path;     /* directory of file: images; NULL: off */
    size_t max_bytes;           /* most bytes of an image file; 0: EY_MAX_IMAGE_BYTES */
    int connect_seconds,
        total_seconds;        /* 0: the defaults above; the total includes all redirects */
    bool (*gone)(void *user); /* polled while fetching or waiting; true cancels. May be NULL */
    void *user;
    ey_budget *budget;   /* memory is taken from it while it is held; NULL: no limit */
    uint64_t own;        /* bytes that the same request already holds */
    bool allow_loopback; /* for tests with a local server; no option sets it */
};

struct media {
    void *bytes;
    size_t n_bytes;
    ey_budget *budget; /* owner of `held` */
    size_t held;       /* bytes taken from the budget */
};

/* Loads the image that url[n] names. The caller frees *out also after an error; it is empty then.
 * Errors:
 *   EY_BAD_REQUEST  the URL is malformed, of an unknown kind, or not allowed
 *   EY_BAD_IMAGE    the file is too large, or empty
 *   EY_IO           it could not be fetched or read
 *   EY_BUSY         other images hold the budget
 *   EY_CANCELLED    gone() returned true
 * Errors reveal no more about this machine's network or files than the client's URL did. */
bool media_get(struct media *out, const char *url, size_t n, const struct media_policy *policy,
               ey_err *e);
/* Frees what media_get() filled; a zeroed struct is fine. */
void media_free(struct media *media);

/* What is dropped because only the first is used: "frames" of an animation, "pages" of a TIFF, or
 * NULL for nothing. */
const char *media_left_out(const void *bytes, size_t n);

/* Decodes a data: URL. */
bool media_decode_data_url(struct media *out, const char *url, size_t n,
                           const struct media_policy *policy, ey_err *e);
/* Decodes bare base64, as after a data: URL's comma. */
bool media_decode_base64(struct media *out, const char *text, size_t n,
                         const struct media_policy *policy, ey_err *e);

#endif
