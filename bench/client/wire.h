/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 clients by the dozen in one thread: sockets that never block, and replies that are read
 * as they come. Bytes go out as they are given, right or wrong: what a client may do to a server is
 * the caller's affair. */
#ifndef EY_BENCH_WIRE_H
#define EY_BENCH_WIRE_H

#include <sys/socket.h>

#include "base/buf.h"

/* A reply so far. */
struct http_reply {
    enum reply_state {
        REPLY_HEAD,
        REPLY_LENGTH, /* in a body of known length */
        REPLY_SIZE,   /* in the line with a chunk's size */
        REPLY_CHUNK,
        REPLY_CHUNK_END, /* in the line end behind a chunk */
        REPLY_TRAILER,
        REPLY_UNTIL_END, /* in a body that ends with the connection */
        REPLY_DONE,
        REPLY_BROKEN, /* this is no HTTP */
    } state;
    int status;
    bool closes;   /* the connection is not to be used again */
    uint64_t left; /* of the body or the chunk */
    struct buf head, line, body;
};

/* Where a server is. */
struct wire_target {
    struct sockaddr_storage address;
    socklen_t n_address;
    char host[300]; /* for the Host header */
};
/* From "http://host:port". */
bool wire_find(struct wire_target *out, const char *url, ey_err *e);

struct wire {
    int fd;                                                   /* -1: there is no connection */
    enum wire_end { WIRE_OPEN, WIRE_CLOSED, WIRE_RESET } end; /* by the other side */
    struct buf out;
    size_t sent, allowed; /* of out; bytes up to `allowed` may go by now */
    bool deaf;            /* nothing is read */
    struct http_reply reply;
    struct buf rest; /* what came behind the reply */
};

struct wire wire_make(void);
/* Starts to connect. `narrow`: with the smallest buffers there are, so that little fits between the
 * two sides. */
bool wire_open(struct wire *w, const struct wire_target *to, bool narrow);
/* Hangs up, if there is a connection; `hard`: by a reset. */
void wire_close(struct wire *w, bool hard);
void wire_free(struct wire *w);

/* These bytes are to be sent, and a reply to be read from the start. */
void wire_send(struct wire *w, const void *bytes, size_t n);
/* The next reply on the same connection, of which some may be here already. */
void wire_next_reply(struct wire *w);
/* What poll is to wait for. */
short wire_events(const struct wire *w);
/* Sends and receives what can be. */
void wire_step(struct wire *w, short revents);
/* Bytes that came and were not read, and whether they begin with a reply of this status. */
size_t wire_unread(const struct wire *w);
bool wire_unread_has_status(const struct wire *w, int status);
bool wire_is_over(const struct wire *w); /* a reply is here, or none will come */
/* A reply is here and another request may follow on the connection. */
bool wire_is_reusable(const struct wire *w);

/* A header's value in out[size]; false when it is not there. */
bool http_reply_header(const struct http_reply *r, const char *name, char *out, size_t size);

/* One request on a connection of its own; waits for the reply, which stays in w. False: there was
 * none in time. */
bool wire_exchange(struct wire *w, const struct wire_target *to, const void *bytes, size_t n,
                   double seconds);

#endif
