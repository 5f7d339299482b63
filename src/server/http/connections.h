/* SPDX-License-Identifier: Apache-2.0 */
/* The open connections: their phases and deadlines, and which one is cut when there are too many.
 * libmicrohttpd's timeout restarts with every byte, so a client could hold a connection forever;
 * these deadlines do not. */
#ifndef EY_SERVER_CONNECTIONS_H
#define EY_SERVER_CONNECTIONS_H

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/limits.h"
#include "server/http/client_address.h"
#include "server/http/send_rate.h"

enum connection_phase {
    PHASE_FREE, /* unused slot */
    PHASE_IDLE, /* between requests */
    PHASE_HEADERS,
    PHASE_BODY,
    PHASE_WORKING, /* a route is running, without a deadline */
    PHASE_SENDING, /* waiting for the client to read the reply */
};

struct http_connection {
    enum connection_phase phase;
    int fd;
    double phase_since, deadline; /* of the phase, as seconds_now(); HUGE_VAL: no deadline */
    struct send_rate rate;        /* receive rate of the body */
    size_t n_body;                /* bytes received */
    bool waits_for_server;        /* its body is paused until memory is free */
    bool cut;                     /* timed out, replaced, or the server ends */
    bool told;                    /* it got a 408 */
    bool holds_place;             /* its request was admitted and has not ended */
    struct client_number client;  /* of its request, or the peer between requests */
    struct client_address peer;
};

struct connections {
    pthread_mutex_t lock;
    struct http_connection *slot;
    int n_slots, max; /* max: requests at once. The other slots are for /health and for cut
                        connections that have not ended yet */
    int n;            /* used slots */
    bool all_cut;
    bool encrypted; /* TLS: we cannot write a 408 past the library */
};

/* Makes a table for `max` requests at once and some spare connections, but for at most `room`
 * connections in total. */
bool connections_open(struct connections *all, int max, int room, ey_err *e);
void connections_close(struct connections *all);
/* Returns how many connections must have room for `max` requests to run at once, including cut
 * connections that have not ended yet. */
int connections_room_for(int max);

/* Adds a connection with `seconds` for its first request's headers. Returns NULL if the table is
 * full. If `max` connections are open, cuts one that waits for its client: of the client with the
 * most such connections, the one that has waited longest. Sleeps a millisecond if many cut
 * connections have not ended. */
struct http_connection *connections_add(struct connections *all, int fd, double seconds);
void connections_remove(struct connections *all, struct http_connection *c);
/* Enters a phase with a deadline in `seconds`, 0 for none. */
void connections_enter(struct connections *all, struct http_connection *c,
                       enum connection_phase phase, double seconds);
/* Gives a client's request, whose headers have arrived, a place until it ends. A client may
 * always take one place if any is free, and more while it then holds at most EY_CLIENT_SHARE times
 * as many as are left free. A slow body is cut if the new request then gets a place. Returns false
 * if there is no place. Probes need none. */
bool connections_admit(struct connections *all, struct http_connection *c,
                       struct client_number client);
/* Records that n bytes of the body have arrived so far. */
void connections_progress(struct connections *all, struct http_connection *c, size_t n,
                          double stall_seconds);
/* Records that the server pauses or resumes reading the body. */
void connections_hold_up(struct connections *all, struct http_connection *c, bool waits);

/* Whether the client has closed its end, or the connection was cut. */
bool connections_hung_up(struct connections *all, struct http_connection *c);
/* Whether the connection was cut with a 408. */
bool connections_told(struct connections *all, struct http_connection *c);

/* Cuts connections past their deadline and bodies that are too slow. If requests wait for memory,
 * also cuts the largest body whose client has sent little in the last seconds. */
void connections_sweep(struct connections *all, bool memory_is_awaited);
/* Cuts all connections, future ones included. */
void connections_cut_all(struct connections *all);

struct connections_count {
    int open, busy; /* busy: not idle */
};
struct connections_count connections_count(struct connections *all);

#endif
