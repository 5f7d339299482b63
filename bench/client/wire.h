/* SPDX-License-Identifier: Apache-2.0 */
/* Many HTTP/1.1 clients in one thread: non-blocking sockets, and replies that are parsed as they
 * arrive. Bytes are sent unchecked, so tests can send malformed requests. */
#ifndef EY_BENCH_WIRE_H
#define EY_BENCH_WIRE_H

#include <sys/socket.h>

#include "base/buf.h"

/* A reply, as far as it has arrived. */
struct http_reply {
    enum reply_state {
        REPLY_HEAD,
        REPLY_LENGTH, /* in a body of known length */
        REPLY_SIZE,   /* in the line with a chunk's size */
        REPLY_CHUNK,
        REPLY_CHUNK_END, /* in the line end after a chunk */
        REPLY_TRAILER,
        REPLY_UNTIL_END, /* in a body that ends with the connection */
        REPLY_DONE,
        REPLY_BROKEN, /* not HTTP */
    } state;
    int status;
    bool closes;   /* the connection cannot be used again */
    uint64_t left; /* bytes left of the body or chunk */
    struct buf head, line, body;
};

/* A server's address. */
struct wire_target {
    struct sockaddr_storage address;
    socklen_t n_address;
    char host[300]; /* for the Host header */
};
/* Resolves "http://host:port". */
bool wire_find(struct wire_target *out, const char *url, ey_err *e);

struct wire {
    int fd;                                                   /* -1: not connected */
    enum wire_end { WIRE_OPEN, WIRE_CLOSED, WIRE_RESET } end; /* by the peer */
    struct buf out;
    size_t sent, allowed; /* of out; bytes up to `allowed` may be sent now */
    bool deaf;            /* read nothing */
    struct http_reply reply;
    struct buf rest; /* bytes after the reply */
};

struct wire wire_make(void);
/* Starts to connect. `narrow`: with the smallest buffers, so that little data is in flight. */
bool wire_open(struct wire *w, const struct wire_target *to, bool narrow);
/* Closes the connection, if there is one; `hard`: with a reset. */
void wire_close(struct wire *w, bool hard);
void wire_free(struct wire *w);

/* Queues these bytes, and expects a new reply. */
void wire_send(struct wire *w, const void *bytes, size_t n);
/* Expects the next reply on the connection; a part of it may have arrived already. */
void wire_next_reply(struct wire *w);
/* The events for poll(). */
short wire_events(const struct wire *w);
/* Sends and receives as much as possible without blocking. */
void wire_step(struct wire *w, short revents);
/* The number of received but unread bytes, and whether they begin with a reply of this status. */
size_t wire_unread(const struct wire *w);
bool wire_unread_has_status(const struct wire *w, int status);
bool wire_is_over(const struct wire *w); /* the reply is complete, or none will come */
/* Whether the reply is complete and the connection can be used again. */
bool wire_is_reusable(const struct wire *w);

/* Copies a header's value to out[size]; returns false if it is missing. */
bool http_reply_header(const struct http_reply *r, const char *name, char *out, size_t size);

/* Sends one request on a new connection and waits for the reply, which stays in w. Returns false if
 * there was none in time. */
bool wire_exchange(struct wire *w, const struct wire_target *to, const void *bytes, size_t n,
                   double seconds);

#endif
