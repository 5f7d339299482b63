/* SPDX-License-Identifier: Apache-2.0 */
/* The open connections, what each is at, until when that may take, and which one goes where too
 * many want to be one. The library's own timeout starts again with every byte, so that a client
 * could hold a connection for ever; these do not. */
#ifndef EY_SERVER_CONNECTIONS_H
#define EY_SERVER_CONNECTIONS_H

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/limits.h"
#include "server/http/client_address.h"
#include "server/http/send_rate.h"

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
    struct send_rate rate;        /* of the body */
    size_t n_body;                /* that came of it */
    bool waits_for_server;        /* its body does, for memory */
    bool cut;                     /* its time is over, or the server's */
    bool told;                    /* why: 408 */
    bool holds_place;             /* its request was admitted, and is not at its end */
    struct client_number client;  /* whose request it is; between requests: the peer */
    struct client_address peer;
};

struct connections {
    pthread_mutex_t lock;
    struct http_connection *slot;
    int n_slots, max; /* max: requests at once. The other slots are for /health and for those that
                         were cut and are not gone yet */
    int n;            /* slots in use */
    bool all_cut;
    bool encrypted; /* nobody is told why it was cut: only the library could */
};

/* For max requests at once, of which each has a connection, and room beyond. Fewer where
 * descriptors are for no more than `room` connections. */
bool connections_open(struct connections *all, int max, int room, ey_err *e);
void connections_close(struct connections *all);
/* How many connections there may be, those that are about to end included. */
int connections_room_for(int max);

/* NULL: the table is full. Where `max` are open, one that waits for its client is cut for the new
 * one: of the client that has most of these, the one that has waited longest. Waits a
 * millisecond where many of those that were cut are not gone. */
struct http_connection *connections_add(struct connections *all, int fd, double seconds);
void connections_remove(struct connections *all, struct http_connection *c);
/* The connection is at something else for at most so many seconds; 0: for as long as it takes. */
void connections_enter(struct connections *all, struct http_connection *c,
                       enum connection_phase phase, double seconds);
/* Gives a place to a client's request whose headers came, until its end. False: all are taken, or
 * all but the last ones that the client must leave to others: one may hold EY_CLIENT_SHARE times as
 * many as it leaves free. A slow body loses its place to it. Probes need none. */
bool connections_admit(struct connections *all, struct http_connection *c,
                       struct client_number client);
/* Bytes of the body came; `n` of them since it began. */
void connections_progress(struct connections *all, struct http_connection *c, size_t n,
                          double stall_seconds);
/* The server lets the body wait, or takes it on. */
void connections_hold_up(struct connections *all, struct http_connection *c, bool waits);

/* Whether the client has closed its end, or the connection was cut. */
bool connections_hung_up(struct connections *all, struct http_connection *c);
/* Whether it was cut and got a 408. */
bool connections_told(struct connections *all, struct http_connection *c);

/* Cuts those whose time is over, and bodies that come too slowly; one that pauses already where
 * others wait for the memory that it has. */
void connections_sweep(struct connections *all, bool memory_is_awaited);
/* Cuts all, also those that are still to come. */
void connections_cut_all(struct connections *all);

struct connections_count {
    int open, busy; /* busy: not idle */
};
struct connections_count connections_count(struct connections *all);

#endif
