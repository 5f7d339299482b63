/* SPDX-License-Identifier: Apache-2.0 */
/* Valid requests, each with the server's answer when it was asked alone. */
#ifndef EY_TESTS_LOAD_VALID_REQUESTS_H
#define EY_TESTS_LOAD_VALID_REQUESTS_H

#include "client/dialects.h"

struct valid_request {
    const char *name;
    enum dialect dialect;
    const char *model;        /* requested model; NULL: the server's first, "demo" */
    struct buf body;          /* without its last members */
    struct chat_answer truth; /* the answer when asked alone */
};

struct valid_requests {
    struct valid_request *item;
    size_t n;
    bool mixed; /* of two models, in random order */
};

/* Reads the images of examples/ and makes all requests, for each of two models if `second` is not
 * NULL. The order is random but fixed, so that dialects are mixed. */
bool valid_requests_make(struct valid_requests *out, const char *first, const char *second,
                         ey_err *e);
void valid_requests_free(struct valid_requests *g);

/* Writes the whole request. */
void valid_request_write(const struct valid_request *g, const struct wire_target *to, bool stream,
                         struct buf *out);
/* Writes a request for an endless stream, which exceeds the socket buffers if nobody reads. */
void valid_request_write_endless(const struct wire_target *to, uint64_t seed, struct buf *out);

/* Asks all requests, one after the other, and stores the answers. */
bool valid_requests_ask_alone(struct valid_requests *g, const struct wire_target *to, ey_err *e);

/* Whether the answer equals the one given alone. Streams: what was read of it, also if it was left
 * early. */
bool valid_request_is_equal(const struct valid_request *g, const struct chat_answer *a,
                            bool stream);
bool valid_request_is_beginning(const struct valid_request *g, const struct chat_answer *a);

/* Whether this status means that the server is busy; Anthropic's clients get 529. */
static inline bool status_is_busy(int status)
{
    return status == 503 || status == 529;
}

#endif
