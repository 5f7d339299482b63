/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTP server on 127.0.0.1 for tests of clients. The test's function answers each request
 * with any bytes. It handles one connection at a time, with one request each. */
#ifndef EY_TESTS_SERVER_LOOPBACK_SERVER_H
#define EY_TESTS_SERVER_LOOPBACK_SERVER_H

#include <stddef.h>

struct loopback_request {
    int fd;           /* for the answer */
    const char *head; /* request line and headers */
    const char *body;
    size_t n_body;
    void *user;
};

typedef void loopback_fn(const struct loopback_request *request);

/* Starts the server and returns its port. Only one may run. */
int loopback_start(loopback_fn *answer, void *user);
/* Stops the server after its last request and returns the number of answered ones. */
int loopback_stop(void);

/* Writes text; a closed connection is no error. */
void loopback_say(const struct loopback_request *request, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Waits until the client closes the connection; if it never does, the test program ends. */
void loopback_wait_for_end(const struct loopback_request *request);

#endif
