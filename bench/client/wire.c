/* SPDX-License-Identifier: Apache-2.0 */
/* Non-blocking sockets, and incremental parsing of replies. */
#include "client/wire.h"

#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"

enum {
    MAX_HEAD = 64 << 10,
    MAX_LINE = 4096,
    MAX_REPLY = 64 << 20,
    MAX_OUT = 2 * EY_MAX_BODY_BYTES,
    READ_BYTES = 64 << 10,
    NARROW_BUFFER = 2048, /* the minimum that the system grants */
    NARROW_SEGMENT = 536,
};

/* ---- replies ---- */

static void reply_clear(struct http_reply *r)
{
    buf_clear(&r->head);
    buf_clear(&r->line);
    buf_clear(&r->body);
    r->state = REPLY_HEAD;
    r->status = 0;
    r->left = 0;
    r->closes = false;
}

bool http_reply_header(const struct http_reply *r, const char *name, char *out, size_t size)
{
    size_t n = strlen(name);
    const char *line = r->head.size ? strstr(r->head.data, "\r\n") : NULL;
    for (; line; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, n) != 0 || line[n] != ':') continue;
        const char *value = line + n + 1 + strspn(line + n + 1, " \t");
        snprintf(out, size, "%.*s", (int)strcspn(value, "\r\n"), value);
        return true;
    }
    return false;
}

/* After the head: decides what follows. */
static void read_head(struct http_reply *r)
{
    char value[64], *end;
    bool old = strncmp(r->head.data, "HTTP/1.0 ", 9) == 0;
    if (!old && strncmp(r->head.data, "HTTP/1.1 ", 9) != 0) {
        r->state = REPLY_BROKEN;
        return;
    }
    r->status = (int)strtol(r->head.data + 9, NULL, 10);
    if (r->status >= 100 && r->status < 200) {
        buf_clear(&r->head); /* the final reply follows */
        return;
    }
    r->closes = http_reply_header(r, "Connection", value, sizeof(value))
                    ? strcasecmp(value, "close") == 0
                    : old;
    if (r->status == 204 || r->status == 304)
        r->state = REPLY_DONE;
    else if (http_reply_header(r, "Transfer-Encoding", value, sizeof(value)))
        r->state = strcasecmp(value, "chunked") == 0 ? REPLY_SIZE : REPLY_BROKEN;
    else if (http_reply_header(r, "Content-Length", value, sizeof(value))) {
        r->left = strtoull(value, &end, 10);
        r->state = *end || end == value ? REPLY_BROKEN : r->left ? REPLY_LENGTH : REPLY_DONE;
    } else {
        r->state = REPLY_UNTIL_END;
        r->closes = true;
    }
}

static void feed_head(struct http_reply *r, char c)
{
    if (!buf_add(&r->head, &c, 1))
        r->state = REPLY_BROKEN;
    else if (r->head.size >= 4 && memcmp(r->head.data + r->head.size - 4, "\r\n\r\n", 4) == 0)
        read_head(r);
}

static void feed_line(struct http_reply *r, char c)
{
    if (!buf_add(&r->line, &c, 1)) {
        r->state = REPLY_BROKEN;
        return;
    }
    if (c != '\n') return;
    bool empty = r->line.size <= 2;
    if (r->state == REPLY_SIZE) {
        char *end;
        r->left = strtoull(r->line.data, &end, 16);
        r->state = end == r->line.data ? REPLY_BROKEN : r->left ? REPLY_CHUNK : REPLY_TRAILER;
    } else if (r->state == REPLY_CHUNK_END)
        r->state = empty ? REPLY_SIZE : REPLY_BROKEN;
    else if (empty)
        r->state = REPLY_DONE;
    buf_clear(&r->line);
}

static size_t feed_body(struct http_reply *r, const char *bytes, size_t n)
{
    size_t take = r->state == REPLY_UNTIL_END || n < r->left ? n : (size_t)r->left;
    if (!buf_add(&r->body, bytes, take)) r->state = REPLY_BROKEN;
    if (r->state == REPLY_UNTIL_END || r->state == REPLY_BROKEN) return take;
    r->left -= take;
    if (!r->left) r->state = r->state == REPLY_CHUNK ? REPLY_CHUNK_END : REPLY_DONE;
    return take;
}

/* Parses bytes; returns how many belong to the reply. */
static size_t reply_feed(struct http_reply *r, const char *bytes, size_t n)
{
    size_t at = 0;
    while (at < n && r->state != REPLY_DONE && r->state != REPLY_BROKEN) {
        bool in_body = r->state == REPLY_LENGTH || r->state == REPLY_CHUNK ||
                       r->state == REPLY_UNTIL_END;
        if (in_body)
            at += feed_body(r, bytes + at, n - at);
        else if (r->state == REPLY_HEAD)
            feed_head(r, bytes[at++]);
        else
            feed_line(r, bytes[at++]);
    }
    return at;
}

/* ---- connections ---- */

bool wire_find(struct wire_target *out, const char *url, ey_err *e)
{
    char host[256], port[16] = "80";
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    *out = (struct wire_target){.n_address = 0};
    if (sscanf(url, "http://%255[^:/]:%15[0-9]", host, port) < 1)
        return ey_fail(e, EY_BAD_REQUEST, "%s is not like http://127.0.0.1:8000", url);
    int error = getaddrinfo(host, port, &hints, &found);
    if (error) return ey_fail(e, EY_IO, "%s: %s", host, gai_strerror(error));
    memcpy(&out->address, found->ai_addr, found->ai_addrlen);
    out->n_address = found->ai_addrlen;
    freeaddrinfo(found);
    snprintf(out->host, sizeof(out->host), "%s:%s", host, port);
    return true;
}

struct wire wire_make(void)
{
    struct wire w = {.fd = -1, .out = buf_with_max(MAX_OUT), .rest = buf_with_max(MAX_REPLY)};
    w.reply.head = buf_with_max(MAX_HEAD);
    w.reply.line = buf_with_max(MAX_LINE);
    w.reply.body = buf_with_max(MAX_REPLY);
    return w;
}

bool wire_open(struct wire *w, const struct wire_target *to, bool narrow)
{
    int one = 1, buffer = NARROW_BUFFER, segment = NARROW_SEGMENT;
    wire_close(w, false);
    w->fd = socket(to->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (w->fd < 0) return false;
    setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (narrow) {
        setsockopt(w->fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
        setsockopt(w->fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment));
    }
    w->end = WIRE_OPEN;
    w->deaf = narrow;
    if (connect(w->fd, (const struct sockaddr *)&to->address, to->n_address) != 0 &&
        errno != EINPROGRESS)
        wire_close(w, false);
    return w->fd >= 0;
}

void wire_close(struct wire *w, bool hard)
{
    struct linger at_once = {.l_onoff = 1};
    if (w->fd >= 0 && hard) setsockopt(w->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    if (w->fd >= 0) close(w->fd);
    w->fd = -1;
    w->sent = w->allowed = 0;
    buf_clear(&w->out);
    buf_clear(&w->rest);
    reply_clear(&w->reply);
}

void wire_free(struct wire *w)
{
    wire_close(w, false);
    buf_free(&w->out);
    buf_free(&w->rest);
    buf_free(&w->reply.head);
    buf_free(&w->reply.line);
    buf_free(&w->reply.body);
}

void wire_send(struct wire *w, const void *bytes, size_t n)
{
    buf_clear(&w->out);
    buf_clear(&w->rest);
    reply_clear(&w->reply);
    buf_add(&w->out, bytes, n);
    w->sent = 0;
    w->allowed = n;
}

static void take_bytes(struct wire *w, const char *bytes, size_t n)
{
    size_t used = reply_feed(&w->reply, bytes, n);
    buf_add(&w->rest, bytes + used, n - used);
}

void wire_next_reply(struct wire *w)
{
    struct buf rest = w->rest;
    w->rest = buf_with_max(MAX_REPLY);
    reply_clear(&w->reply);
    if (rest.size) take_bytes(w, rest.data, rest.size);
    buf_free(&rest);
}

short wire_events(const struct wire *w)
{
    return (short)((w->deaf ? 0 : POLLIN) | (w->sent < w->allowed ? POLLOUT : 0));
}

static void end_with(struct wire *w, enum wire_end end)
{
    w->end = end;
    w->allowed = w->sent;
    if (w->reply.state == REPLY_UNTIL_END && end == WIRE_CLOSED) w->reply.state = REPLY_DONE;
}

static void send_some(struct wire *w)
{
    while (w->sent < w->allowed) {
        ssize_t n = send(w->fd, w->out.data + w->sent, w->allowed - w->sent, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno != EAGAIN && errno != EINTR && errno != ENOTCONN)
                /* bytes that the peer sent before it closed may still be read */
                w->allowed = w->sent;
            return;
        }
        w->sent += (size_t)n;
    }
}

static void receive_some(struct wire *w)
{
    static char bytes[READ_BYTES];
    ssize_t n = recv(w->fd, bytes, sizeof(bytes), 0);
    if (n > 0)
        take_bytes(w, bytes, (size_t)n);
    else if (n == 0)
        end_with(w, WIRE_CLOSED);
    else if (errno != EAGAIN && errno != EINTR)
        end_with(w, WIRE_RESET);
}

void wire_step(struct wire *w, short revents)
{
    if (w->fd < 0 || w->end != WIRE_OPEN) return;
    if (revents & (POLLOUT | POLLERR | POLLHUP)) send_some(w);
    if (w->deaf && (revents & (POLLERR | POLLHUP)))
        end_with(w, WIRE_RESET);
    else if (!w->deaf && (revents & (POLLIN | POLLERR | POLLHUP)))
        receive_some(w);
}

size_t wire_unread(const struct wire *w)
{
    int n = 0;
    return w->fd >= 0 && ioctl(w->fd, FIONREAD, &n) == 0 ? (size_t)n : 0;
}

bool wire_unread_has_status(const struct wire *w, int status)
{
    char start[sizeof("HTTP/1.1 200")] = "";
    ssize_t n = w->fd >= 0 ? recv(w->fd, start, sizeof(start) - 1, MSG_PEEK | MSG_DONTWAIT) : 0;
    return n == (ssize_t)sizeof(start) - 1 && atoi(start + strlen("HTTP/1.1 ")) == status;
}

bool wire_is_over(const struct wire *w)
{
    return w->fd < 0 || w->end != WIRE_OPEN || w->reply.state == REPLY_DONE ||
           w->reply.state == REPLY_BROKEN;
}

bool wire_is_reusable(const struct wire *w)
{
    return w->fd >= 0 && w->end == WIRE_OPEN && w->reply.state == REPLY_DONE && !w->reply.closes &&
           w->sent == w->out.size && !w->rest.size;
}

bool wire_exchange(struct wire *w, const struct wire_target *to, const void *bytes, size_t n,
                   double seconds)
{
    double until = seconds_now() + seconds;
    if (!wire_open(w, to, false)) return false;
    wire_send(w, bytes, n);
    while (!wire_is_over(w) && seconds_now() < until) {
        struct pollfd one = {w->fd, wire_events(w), 0};
        if (poll(&one, 1, 100) > 0) wire_step(w, one.revents);
    }
    return w->reply.state == REPLY_DONE;
}
