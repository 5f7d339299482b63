/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP request to the hub or to where it sends us. */
#ifndef EY_HUB_HUB_REQUEST_H
#define EY_HUB_HUB_REQUEST_H

#include "hub/hub.h"

enum { HUB_MAX_REDIRECTS = 5 };

struct hub_request {
    struct hub *hub;
    CURL *curl;
    struct hub_response reply;
    char *url;      /* where it goes now */
    char range[64]; /* "5-9", or "" */
    char curl_error[CURL_ERROR_SIZE];
    int redirects;
    bool head, off_origin; /* abroad: it has left the endpoint's origin */
    /* The next bytes of a 200 or 206; false stops with *why. NULL: they go to `body`. */
    bool (*take)(void *user, const char *bytes, size_t n, ey_err *why);
    void *user;
    struct buf *body;
    size_t max_bytes; /* of the body; what a hub that knows no ranges sends beyond is cut off */
    bool truncated;   /* that happened */
    bool stopped;
    ey_err stop_error;
};

bool hub_request_open(struct hub_request *r, struct hub *hub, ey_err *e);
void hub_request_close(struct hub_request *r);

/* The URL of a file, "resolve/COMMIT/NAME"; the caller frees. */
char *hub_file_url(const struct hub *hub, const struct hub_model *model, const char *file);

/* Aims at a URL of the endpoint, afresh. end 0: no range. Takes the URL; NULL is an error of
 * memory. */
bool hub_request_aim(struct hub_request *r, char *url, uint64_t begin, uint64_t end, ey_err *e);
enum redirect_result { REDIRECT_NONE, REDIRECT_FOLLOWED, REDIRECT_FAILED };
/* After a transfer that libcurl calls done: NEXT, when the reply is a redirect and the request now
 * aims where it leads. A HEAD stops where it would leave the endpoint: the headers that are wanted
 * are in that redirect. */
enum redirect_result hub_request_follow_redirect(struct hub_request *r, ey_err *e);

/* HEAD, whose reply is then in r->reply; several times when the network or the hub fails. `what` is
 * for messages. */
bool hub_request_head(struct hub_request *r, const char *what, const char *url, ey_err *e);
/* GET into a buffer, which is cleared first; `most` > 0: only so many bytes from the beginning. */
bool hub_request_get(struct hub_request *r, const char *what, const char *url, size_t most,
                     struct buf *out, ey_err *e);

/* Whether the same may succeed a little later. */
bool hub_request_may_retry(const struct hub_request *r, CURLcode code);
/* Says what was wrong: libcurl's code when that is not CURLE_OK, else the reply's status. `what` is
 * the repository or file. */
bool hub_request_fail(const struct hub_request *r, CURLcode code, const char *what, ey_err *e);
/* Waits, unless the user stops that: false, with *e. */
bool hub_pause(const struct hub *hub, double seconds, ey_err *e);

#endif
