/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP request to the hub or to where it sends us. */
#ifndef EY_HUB_REQUEST_H
#define EY_HUB_REQUEST_H

#include "hub/hub.h"

enum { MAX_REDIRECTS = 5 };

struct request {
    struct hub *hub;
    CURL *curl;
    struct reply reply;
    char *url;      /* where it goes now */
    char range[64]; /* "5-9", or "" */
    char problem[CURL_ERROR_SIZE];
    int redirects;
    bool head, abroad; /* abroad: it has left the endpoint's origin */
    /* The next bytes of a 200 or 206; false stops with *why. NULL: they go to `body`. */
    bool (*take)(void *user, const char *bytes, size_t n, ey_err *why);
    void *user;
    struct buf *body;
    size_t most; /* of the body; what a hub that knows no ranges sends beyond is cut off */
    bool enough; /* that happened */
    bool stopped;
    ey_err why;
};

bool request_open(struct request *r, struct hub *hub, ey_err *e);
void request_close(struct request *r);

/* The URL of a file, "resolve/COMMIT/NAME"; the caller frees. */
char *file_url(const struct hub *hub, const struct hub_model *model, const char *file);

/* Aims at a URL of the endpoint, afresh. end 0: no range. Takes the URL; NULL is an error of
 * memory. */
bool request_aim(struct request *r, char *url, uint64_t begin, uint64_t end, ey_err *e);
enum hop { HOP_NONE, HOP_NEXT, HOP_FAILED };
/* After a transfer that libcurl calls done: NEXT, when the reply is a redirect and the request now
 * aims where it leads. A HEAD stops where it would leave the endpoint: the headers that are wanted
 * are in that redirect. */
enum hop request_hop(struct request *r, ey_err *e);

/* HEAD, whose reply is then in r->reply; several times when the network or the hub fails. `what` is
 * for messages. */
bool request_head(struct request *r, const char *what, const char *url, ey_err *e);
/* GET into a buffer, which is cleared first; `most` > 0: only so many bytes from the beginning. */
bool request_get(struct request *r, const char *what, const char *url, size_t most, struct buf *out,
                 ey_err *e);

/* Whether the same may succeed a little later. */
bool request_may_retry(const struct request *r, CURLcode code);
/* Says what was wrong: libcurl's code when that is not CURLE_OK, else the reply's status. `what` is
 * the repository or file. */
bool request_fail(const struct request *r, CURLcode code, const char *what, ey_err *e);
/* Waits, unless the user stops that: false, with *e. */
bool hub_pause(const struct hub *hub, double seconds, ey_err *e);

#endif
