/* SPDX-License-Identifier: Apache-2.0 */
/* Many clients in one thread, which ask, disconnect, do not read, and send malformed requests;
 * another one asks /health meanwhile. */
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
    /* seconds after which a client that never reads must have been dropped; 0: it leaves with the
     * last of the others */
    double unread_seconds;
};

struct tally {
    size_t equal, unequal;   /* valid answers that were read to the end */
    size_t left, left_wrong; /* streams that were left early; those with a wrong text until then */
    size_t unread,
        unread_kept; /* streams that were never read; those that were not dropped in time */
    size_t failed;   /* valid requests without an answer */
    size_t waited;   /* 503, asked again later */
    size_t reopened; /* the server closed the connection between requests */
    size_t refused, answered, cut, hung_up; /* malformed requests */
    size_t unexpected;                      /* malformed requests with a forbidden outcome */
    size_t slow;                            /* valid requests whose body was sent in pieces */
    size_t health_failed;
    struct samples health; /* seconds */
    double seconds;
};

/* Runs all requests; remarks go to standard error. Returns false if the server died. */
bool load_clients_run(const struct load_clients_options *options, struct tally *tally);

#endif
