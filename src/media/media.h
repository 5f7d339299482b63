/* SPDX-License-Identifier: Apache-2.0 */
/* The image of an image_url part: data: URLs, http(s) and file://, each only as far as the policy
 * lets it. */
#ifndef EY_MEDIA_MEDIA_H
#define EY_MEDIA_MEDIA_H

#include "base/err.h"
#include "base/limits.h"
#include "eyelet/budget.h"

enum { MEDIA_CONNECT_SECONDS = 5, MEDIA_TOTAL_SECONDS = 30, MEDIA_MAX_REDIRECTS = 3 };

struct media_policy {
    const char *const *domains; /* hosts that may be fetched from; a leading "." or "*." means all
                                   below it, not itself; an IPv6 address is without brackets */
    size_t n_domains;           /* none: http is off */
    bool any_domain;            /* the person at the terminal named the URL: any public host */
    const char *local_path;     /* directory of file:// images; NULL: off */
    size_t max_bytes;           /* of one image file; 0: EY_MAX_IMAGE_BYTES */
    int connect_seconds,
        total_seconds;        /* 0: as above; the total is that of all redirects together */
    bool (*gone)(void *user); /* asked while fetching or waiting; true stops it. NULL: never */
    void *user;
    ey_budget *budget;   /* bytes come out of it while they are held; NULL: no limit */
    uint64_t own;        /* of it, that the same request holds besides */
    bool allow_loopback; /* for tests, whose server is on this machine: no option sets it */
};

struct media {
    void *bytes;
    size_t n_bytes;
    ey_budget *budget; /* to be given back to */
    size_t held;       /* bytes of memory, taken from the budget */
};

/* Gets the image that url[n] names. *out is to be freed also after an error, which takes nothing
 * then. Errors: EY_BAD_REQUEST  the URL is malformed, of an unknown kind, or not allowed
 *   EY_BAD_IMAGE    it is too large, or empty
 *   EY_IO           it could not be fetched or read
 *   EY_BUSY         other images fill the budget
 *   EY_CANCELLED    gone() said so
 * None tells more of this machine's network or files than the client's URL did. */
bool media_get(struct media *out, const char *url, size_t n, const struct media_policy *policy,
               ey_err *e);
/* Takes what was never filled, too. */
void media_free(struct media *media);

/* What of an image file is left out because only the first is used: "frames" of an animation,
 * "pages" of a TIFF; NULL: nothing. */
const char *media_left_out(const void *bytes, size_t n);

/* The bytes of a data: URL, decoded. */
bool media_decode_data_url(struct media *out, const char *url, size_t n,
                           const struct media_policy *policy, ey_err *e);
/* Bare base64, as behind the comma of one. */
bool media_decode_base64(struct media *out, const char *text, size_t n,
                         const struct media_policy *policy, ey_err *e);

#endif
