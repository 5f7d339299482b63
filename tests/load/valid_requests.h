/* SPDX-License-Identifier: Apache-2.0 */
/* Requests with an answer: what they say, and what the server answered to each when it was asked
 * alone. */
#ifndef EY_TESTS_LOAD_VALID_REQUESTS_H
#define EY_TESTS_LOAD_VALID_REQUESTS_H

#include "client/dialects.h"

struct valid_request {
    const char *name;
    enum dialect dialect;
    const char *model;        /* that is asked; NULL: the server's first, which is "demo" */
    struct buf body;          /* without its last members */
    struct chat_answer truth; /* asked alone */
};

struct valid_requests {
    struct valid_request *item;
    size_t n;
    bool mixed; /* of two models; which one is asked next is left to chance */
};

/* Reads the images of examples/ and makes all requests, to each of two models where `second` is
 * not NULL. Their order is left to chance, the same every time, so that dialects meet. */
bool valid_requests_make(struct valid_requests *out, const char *first, const char *second,
                         ey_err *e);
void valid_requests_free(struct valid_requests *g);

/* The request, whole. */
void valid_request_write(const struct valid_request *g, const struct wire_target *to, bool stream,
                         struct buf *out);
/* A stream that goes on until it is cut: more than fits between the two sides when nobody reads. */
void valid_request_write_endless(const struct wire_target *to, uint64_t seed, struct buf *out);

/* Asks all of them, one after the other. */
bool valid_requests_ask_alone(struct valid_requests *g, const struct wire_target *to, ey_err *e);

/* Whether the whole answer is the truth. A stream's: what came of it, also when it was left in the
 * middle. */
bool valid_request_is_equal(const struct valid_request *g, const struct chat_answer *a,
                            bool stream);
bool valid_request_is_beginning(const struct valid_request *g, const struct chat_answer *a);

/* Whether this status says that too many wait: Anthropic's clients know 529. */
static inline bool status_is_busy(int status)
{
    return status == 503 || status == 529;
}

#endif
