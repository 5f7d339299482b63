/* SPDX-License-Identifier: Apache-2.0 */
/* The open connections, what each is at, and until when that may take. The library's own timeout
 * starts again with every byte, so that a client could hold a connection for ever; these do not. */
#ifndef EY_SERVER_CONNECTIONS_H
#define EY_SERVER_CONNECTIONS_H

#include <arpa/inet.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/limits.h"

enum connection_phase {
    PHASE_FREE, /* no connection */
    PHASE_IDLE, /* between requests */
    PHASE_HEADERS,
    PHASE_BODY,
    PHASE_WORKING, /* a route runs: takes as long as it takes */
    PHASE_SENDING, /* the client is to take what was sent */
};

struct http_connection {
    enum connection_phase phase;
    int fd;
    double phase_since, deadline; /* of the phase, seconds_now(); HUGE_VAL: no end */
    bool cut;                     /* its time is over, or the server's */
    char peer[INET6_ADDRSTRLEN];
};

struct connections {
    pthread_mutex_t lock;
    struct http_connection slot[EY_MAX_CONNECTIONS + EY_SPARE_CONNECTIONS];
    int n, most; /* that are open, and may be */
    bool all_cut;
};

/* For at most so many connections, of which a few are spare. */
void connections_open(struct connections *all, int most);
void connections_close(struct connections *all);

/* NULL: the table is full. */
struct http_connection *connections_add(struct connections *all, int fd, double seconds);
void connections_remove(struct connections *all, struct http_connection *c);
/* The connection is at something else for at most so many seconds; 0: for as long as it takes. */
void connections_enter(struct connections *all, struct http_connection *c,
                       enum connection_phase phase, double seconds);
/* Bytes of the body came; `n` of them since it began. */
void connections_progress(struct connections *all, struct http_connection *c, size_t n,
                          double body_seconds, double stall_seconds);

/* Whether the client has closed its end, or the connection was cut. */
bool connections_hung_up(struct connections *all, struct http_connection *c);

/* Cuts those whose time is over. When the table is nearly full, idle ones are cut after a second.
 */
void connections_sweep(struct connections *all);
/* Cuts all, also those that are still to come. */
void connections_cut_all(struct connections *all);

struct connections_count {
    int open, busy; /* busy: not idle */
};
/* How many may be open before others than probes are refused. */
int connections_most(const struct connections *all);
struct connections_count connections_count(struct connections *all);

#endif
