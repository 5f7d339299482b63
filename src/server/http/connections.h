/* SPDX-License-Identifier: Apache-2.0 */
/* The open connections, what each is at, and until when that may take. The library's own timeout
 * starts again with every byte, so that a client could hold a connection for ever; these do not. */
#ifndef EY_SERVER_CONNECTIONS_H
#define EY_SERVER_CONNECTIONS_H

#include <arpa/inet.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/limits.h"
#include "server/http/client_address.h"

enum connection_phase {
    PHASE_FREE, /* no connection */
    PHASE_IDLE, /* between requests */
    PHASE_HEADERS,
    PHASE_BODY,
    PHASE_WORKING, /* a route runs: takes as long as it takes */
    PHASE_SENDING, /* the client is to take what was sent */
};

enum { RATE_PARTS = 16 };

/* Bytes of a body in the parts of a window that slides, the latest at `at` modulo their number. */
struct body_rate {
    size_t bytes[RATE_PARTS];
    long at;
};

struct http_connection {
    enum connection_phase phase;
    int fd;
    double phase_since, deadline; /* of the phase, seconds_now(); HUGE_VAL: no end */
    double body_seconds;          /* that a body has before its rate counts */
    size_t n_body;
    struct body_rate rate;
    bool cut;         /* its time is over, or the server's */
    bool holds_place; /* its request was admitted, and is not at its end */
    struct client_address from;
    char peer[INET6_ADDRSTRLEN];
};

struct connections {
    pthread_mutex_t lock;
    struct http_connection *slot; /* [max + spare] */
    int max, spare, n;            /* that are open, and may be */
    bool all_cut;
};

/* For at most so many connections, of which a few are spare. */
bool connections_open(struct connections *all, int most, ey_err *e);
void connections_close(struct connections *all);

/* NULL: the table is full. Where more than `max` are open, one that waits for its client is cut for
 * the new one: of the address that has most of them, the one that has waited longest. */
struct http_connection *connections_add(struct connections *all, int fd, double seconds);
void connections_remove(struct connections *all, struct http_connection *c);
/* The connection is at something else for at most so many seconds; 0: for as long as it takes. */
void connections_enter(struct connections *all, struct http_connection *c,
                       enum connection_phase phase, double seconds);
/* Gives a place to a request whose headers came, until its end. False: all are taken, or all but
 * the last ones that its address must leave to others: one may hold EY_ADDRESS_SHARE times as many
 * as it leaves free. Probes need no place. */
bool connections_admit(struct connections *all, struct http_connection *c);
/* Bytes of the body came; `n` of them since it began. */
void connections_progress(struct connections *all, struct http_connection *c, size_t n,
                          double stall_seconds);

/* Whether the client has closed its end, or the connection was cut. */
bool connections_hung_up(struct connections *all, struct http_connection *c);

/* Cuts those whose time is over, and bodies that come too slowly. */
void connections_sweep(struct connections *all);
/* Cuts all, also those that are still to come. */
void connections_cut_all(struct connections *all);

struct connections_count {
    int open, busy; /* busy: not idle */
};
struct connections_count connections_count(struct connections *all);

#endif
