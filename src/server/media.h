/* The picture of an image_url part: data: URLs, http(s) and file://, each only as far as the policy lets it. */
#ifndef EY_SERVER_MEDIA_H
#define EY_SERVER_MEDIA_H

#include "server/server.h"

struct media_policy {
    const char *const *domains; /* hosts that may be fetched from; a leading "." or "*." means all below it */
    size_t n_domains;
    const char *local_path; /* directory of file:// pictures; NULL: off */
    size_t max_bytes;       /* of one picture's file */
    int connect_seconds, total_seconds;
    bool (*gone)(void *user); /* asked while fetching; true stops it. NULL: never */
    void *user;
    ey_budget *budget; /* bytes come out of it while they are held; NULL: no limit */
};

struct media {
    void *bytes;
    size_t n_bytes;
    ey_budget *budget; /* to be given back to */
    uint64_t held;
};

/* Gets the picture that url[n] names. Errors: EY_BAD_REQUEST (what is wrong with the URL or the policy refuses it),
 * EY_BAD_IMAGE, EY_IO (it could not be fetched), EY_BUSY (no budget), EY_CANCELLED. */
bool media_get(struct media *out, const char *url, size_t n, const struct media_policy *policy, ey_err *e);
void media_free(struct media *media);

/* The bytes of a data: URL, decoded. */
bool media_decode_data_url(struct media *out, const char *url, size_t n, const struct media_policy *policy, ey_err *e);

#endif
