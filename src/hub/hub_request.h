/* SPDX-License-Identifier: Apache-2.0 */
/* An HTTP request to the hub, or to the server to which the hub redirects it. */
#ifndef EY_HUB_HUB_REQUEST_H
#define EY_HUB_HUB_REQUEST_H

#include "hub/hub.h"

enum { HUB_MAX_REDIRECTS = 5 };

struct hub_request {
    struct hub *hub;
    CURL *curl;
    struct hub_response reply;
    char *url;      /* current URL */
    char range[64]; /* "5-9", or "" */
    char curl_error[CURL_ERROR_SIZE];
    int redirects;
    bool head, off_origin; /* off_origin: redirected away from the endpoint's origin */
    /* Receives the body of a 200 or 206. If it returns false, the request fails with *why. NULL:
       the bytes go to `body`. */
    bool (*take)(void *user, const char *bytes, size_t n, ey_err *why);
    void *user;
    struct buf *body;
    size_t
        max_bytes;  /* of the body, 0: any; a server without ranges sends more, which is dropped */
    bool truncated; /* bytes were dropped */
    bool stopped;
    ey_err stop_error;
};

bool hub_request_open(struct hub_request *r, struct hub *hub, ey_err *e);
void hub_request_close(struct hub_request *r);

/* Returns the URL of a file, "resolve/COMMIT/NAME", which the caller frees. */
char *hub_file_url(const struct hub *hub, const struct hub_model *model, const char *file);

/* Prepares a GET of bytes `begin` to `end` - 1, or of all bytes if `end` is 0. Takes ownership of
 * `url`; fails as out of memory if it is NULL. */
bool hub_request_aim(struct hub_request *r, char *url, uint64_t begin, uint64_t end, ey_err *e);
enum redirect_result { REDIRECT_NONE, REDIRECT_FOLLOWED, REDIRECT_FAILED };
/* Must be called after each transfer. If the reply was a redirect, prepares a request to its target
 * and returns REDIRECT_FOLLOWED. A HEAD is not redirected to another server, because the redirect
 * itself has the file's ETag and size. */
enum redirect_result hub_request_follow_redirect(struct hub_request *r, ey_err *e);

/* Sends HEAD, with retries, and leaves the reply in r->reply. `what` names the file in messages. */
bool hub_request_head(struct hub_request *r, const char *what, const char *url, ey_err *e);
/* Sends GET, with retries, and stores the body in *out, which is cleared first. If `most` > 0,
 * stores only the first `most` bytes. */
bool hub_request_get(struct hub_request *r, const char *what, const char *url, size_t most,
                     struct buf *out, ey_err *e);

/* Whether a retry may succeed. */
bool hub_request_may_retry(const struct hub_request *r, CURLcode code);
/* Fails with libcurl's error if `code` is not CURLE_OK, else with the reply's status. `what` names
 * the repository or file. */
bool hub_request_fail(const struct hub_request *r, CURLcode code, const char *what, ey_err *e);
/* Sleeps for `seconds`. Fails if the user stops the download. */
bool hub_pause(const struct hub *hub, double seconds, ey_err *e);

#endif
