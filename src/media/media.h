/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the image that an image_url part names by a data:, http(s): or file: URL, if the policy
 * allows that URL. */
#ifndef EY_MEDIA_MEDIA_H
#define EY_MEDIA_MEDIA_H

#include "base/err.h"
#include "base/limits.h"
#include "eyelet/budget.h"

enum { MEDIA_CONNECT_SECONDS = 5, MEDIA_TOTAL_SECONDS = 30, MEDIA_MAX_REDIRECTS = 3 };

struct media_policy {
    const char *const *domains; /* allowed hosts; a leading "." or "*." allows all subdomains but
                                   not the domain itself; IPv6 addresses have no brackets */
    size_t n_domains;           /* 0: no http(s) URLs */
    bool any_domain;            /* any public host, for URLs typed by the local user */
    const char *local_path;     /* directory of images for file: URLs; NULL: no file: URLs */
    size_t max_bytes;           /* most bytes of an image file; 0: EY_MAX_IMAGE_BYTES */
    int connect_seconds,
        total_seconds;        /* 0: the defaults above; the total includes all redirects */
    bool (*gone)(void *user); /* polled while fetching or waiting; true cancels. May be NULL */
    void *user;
    ey_budget *budget;   /* image files count against it until they are freed; NULL: no limit */
    uint64_t own;        /* bytes of the budget that the same request already holds */
    bool allow_loopback; /* for tests with a local server; no option sets it */
};

struct media {
    void *bytes;
    size_t n_bytes;
    ey_budget *budget; /* owner of `held` */
    size_t held;       /* bytes taken from the budget */
};

/* Loads the image that url[n] names. The caller frees *out, which is empty after an error. Errors:
 *   EY_BAD_REQUEST  the URL is malformed, of an unknown kind, or not allowed
 *   EY_BAD_IMAGE    the file is too large, or empty
 *   EY_IO           the image could not be fetched or read
 *   EY_BUSY         other requests hold the rest of the budget, so a retry may succeed
 *   EY_CANCELLED    gone() returned true
 * Error texts name no host, address or path that the client's URL did not name. */
bool media_get(struct media *out, const char *url, size_t n, const struct media_policy *policy,
               ey_err *e);
/* Frees what media_get() filled; a zeroed struct is fine. */
void media_free(struct media *media);

/* Returns what the file has several of, although only the first one is used: "frames" for an
 * animation, "pages" for a TIFF. Returns NULL if the file is a single image. */
const char *media_left_out(const void *bytes, size_t n);

/* Decodes a data: URL. */
bool media_decode_data_url(struct media *out, const char *url, size_t n,
                           const struct media_policy *policy, ey_err *e);
/* Decodes bare base64, as after a data: URL's comma. */
bool media_decode_base64(struct media *out, const char *text, size_t n,
                         const struct media_policy *policy, ey_err *e);

#endif
