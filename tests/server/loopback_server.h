/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTP server on 127.0.0.1 for tests of clients: it hands each request to a function of the
 * test, which writes whatever bytes it likes. One connection at a time, each for one request. */
#ifndef EY_TESTS_SERVER_LOOPBACK_SERVER_H
#define EY_TESTS_SERVER_LOOPBACK_SERVER_H

#include <stddef.h>

struct loopback_request {
    int fd;           /* to answer to */
    const char *head; /* request line and headers */
    const char *body;
    size_t n_body;
    void *user;
};

typedef void loopback_fn(const struct loopback_request *request);

/* Returns the port. One server at a time. */
int loopback_start(loopback_fn *answer, void *user);
/* Requests answered meanwhile; waits for the last one to end. */
int loopback_stop(void);

/* Writes text; a client that has gone is no error. */
void loopback_say(const struct loopback_request *request, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Waits until the client closes its end; that it never does ends the test program. */
void loopback_wait_for_end(const struct loopback_request *request);

#endif
