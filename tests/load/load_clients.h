/* SPDX-License-Identifier: Apache-2.0 */
/* Many clients in one thread: they ask, hang up, do not read, and send what is malformed; beside
 * them one asks for /health. */
#ifndef EY_TESTS_LOAD_LOAD_CLIENTS_H
#define EY_TESTS_LOAD_LOAD_CLIENTS_H

#include "client/child.h"
#include "client/samples.h"
#include "load/valid_requests.h"
#include "load/malformed_requests.h"

struct load_clients_options {
    const struct wire_target *to;
    struct child *server; /* watched */
    struct valid_requests *valid;
    const struct sample *sample;
    size_t n_clients, n_requests;
    uint64_t seed;
    double unread_seconds; /* after so long a client that never reads is to have been dropped; 0: it
                              leaves with the last of the others */
};

struct tally {
    size_t equal, unequal;   /* good answers that were read to their end */
    size_t left, left_wrong; /* streams that were left; those whose text until then was another */
    size_t unread,
        unread_kept; /* streams that were never read; those that were not dropped in time */
    size_t failed;   /* good requests without an answer */
    size_t waited;   /* 503, asked again later */
    size_t reopened; /* a connection was closed between requests */
    size_t refused, answered, cut, hung_up; /* malformed ones */
    size_t unexpected;                      /* of them: what may not be */
    size_t slow;                            /* good requests whose body came in pieces */
    size_t health_failed;
    struct samples health; /* seconds */
    double seconds;
};

/* Runs all requests. False: the server died. Remarks go to standard error. */
bool load_clients_run(const struct load_clients_options *options, struct tally *tally);

#endif
