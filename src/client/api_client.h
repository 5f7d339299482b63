/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP calls to one server, one after the other over a persistent connection. */
#ifndef EY_CLIENT_API_CLIENT_H
#define EY_CLIENT_API_CLIENT_H

#include "base/buf.h"

struct api_client;

bool api_client_open(struct api_client **c, const char *url, const char *key, ey_err *e);
void api_client_close(struct api_client **c);
/* As the person gave it. */
const char *api_client_url(const struct api_client *c);

struct api_call {
    const char *path;       /* below /v1, "/models" */
    const struct buf *body; /* JSON to POST; NULL: GET */
    /* The next bytes of a 200 reply; false ends the call with *e. */
    bool (*take)(void *user, const char *bytes, size_t n, ey_err *e);
    /* Asked each time something moved, and once a second; false cancels. NULL: always true. */
    bool (*go_on)(void *user, uint64_t sent, uint64_t to_send);
    void *user;
};

/* What a server says that does not do as it is asked. */
struct api_call_error {
    long status; /* 0: the call did not come to that */
    char param[160], message[768];
};

/* False: *e says why, in the server's own words where it has some; `refusal` may be NULL.
 * EY_CANCELLED: go_on said so. */
bool api_client_call(struct api_client *c, const struct api_call *call,
                     struct api_call_error *call_error, ey_err *e);

#endif
