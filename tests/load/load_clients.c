/* SPDX-License-Identifier: Apache-2.0 */
/* Many clients in one thread. */
#include "load/load_clients.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

enum {
    POLL_MS = 5,
    MAX_REQUEST = 16 << 20,
    MAX_REMARKS = 12,
    SLOW_PIECES = 8,
    SHOWN_BYTES = 240,
};
#define PROBE_SECONDS 0.02 /* between two requests to /health */
#define PROBE_PATIENCE 60.0
#define PATIENCE 240.0   /* seconds that a client waits for an answer; the queue may be long */
#define LATEST_LEAVE 1.5 /* seconds within which leaving clients disconnect */
#define LATEST_LEAVE_BYTES 8000
#define UNREAD_GRACE 10.0 /* seconds for buffered bytes to arrive */
#define SLOW_SECONDS 0.05 /* between two pieces of a slow body */

struct task {
    bool good;
    bool stream, slow;
    bool leaves;   /* disconnects midway */
    double moment; /* after so many seconds or, if negative, bytes of the answer */
    size_t which;  /* index of the valid request, or kind of the malformed one */
};

struct client {
    bool never_reads; /* of its replies */
    enum { IDLE, PAUSED, ASKING, DRAINING } state;
    struct task task;
    struct wire wire;
    bool used;            /* the connection has had requests */
    bool second;          /* the second reply is being read */
    double since, resume; /* start of the request; PAUSED: when it is sent again */
    double piece_at;      /* when the next piece of a slow body may be sent */
    double leave_at;      /* 0: never */
    size_t unread;        /* received bytes that were not read */
    double unread_since;  /* since when this number */
    struct buf request;
    struct malformed bad;
    struct chat_answer answer;
};

struct probe {
    struct wire wire;
    struct buf request;
    double since, next; /* since 0: no request is running */
    size_t n;
};

struct load_clients {
    const struct load_clients_options *options;
    struct tally *tally;
    struct rng dice;
    struct client *client;
    struct pollfd *poll;
    struct probe probe;
    size_t good_left, bad_left; /* requests that no client has taken yet */
    size_t taken;               /* valid requests taken so far */
    size_t remarks;
};

/* ---- remarks ---- */

static void remark(struct load_clients *clients, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void remark(struct load_clients *clients, const char *fmt, ...)
{
    va_list args;
    if (clients->remarks++ >= MAX_REMARKS) return;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

static const char *name_of(const struct load_clients *clients, const struct client *c)
{
    return !c->task.good    ? c->bad.name
           : c->never_reads ? "never read"
                            : clients->options->valid->item[c->task.which].name;
}

static const char *dialect_of(const struct load_clients *clients, const struct client *c)
{
    bool known = c->task.good && !c->never_reads;
    return known ? dialect_name(clients->options->valid->item[c->task.which].dialect) : "";
}

static void remark_reply(struct load_clients *clients, const struct client *c, const char *what)
{
    const struct http_reply *r = &c->wire.reply;
    static const char *const ends[] = {"open", "closed", "reset"};
    remark(clients, "%s \"%s\": %s; status %d, connection %s, after %.1f s: %.*s",
           dialect_of(clients, c), name_of(clients, c), what, r->status, ends[c->wire.end],
           seconds_now() - c->since, SHOWN_BYTES, r->body.size ? r->body.data : "");
}

/* ---- choosing a request ---- */

static struct task take_good(struct load_clients *clients, const struct client *c)
{
    struct rng *d = &clients->dice;
    const struct valid_requests *goods = clients->options->valid;
    struct task t = {.good = true,
                     .which = (goods->mixed ? rng_below(d, goods->n) : clients->taken++) %
                              goods->n};
    clients->good_left--;
    if (c->never_reads) return t;
    t.leaves = rng_below(d, 3) == 0;
    t.stream = t.leaves || rng_below(d, 2);
    t.slow = !t.leaves && rng_below(d, 12) == 0;
    t.moment = rng_below(d, 2) ? rng_between(d, 0, LATEST_LEAVE)
                               : -rng_between(d, 1, LATEST_LEAVE_BYTES);
    return t;
}

static struct task take_bad(struct load_clients *clients)
{
    clients->bad_left--;
    return (struct task){.which = clients->bad_left % malformed_kinds()};
}

static void write_request(struct load_clients *clients, struct client *c)
{
    const struct load_clients_options *o = clients->options;
    buf_clear(&c->request);
    if (!c->task.good)
        malformed_make(&c->bad, c->task.which, o->to, o->sample, &clients->dice);
    else if (c->never_reads)
        valid_request_write_endless(o->to, rng_next(&clients->dice), &c->request);
    else
        valid_request_write(&o->valid->item[c->task.which], o->to, c->task.stream, &c->request);
}

static const struct buf *request_of(const struct client *c)
{
    return c->task.good ? &c->request : &c->bad.bytes;
}

/* Sends the client's request, on its open connection if possible. */
static void send_request(struct load_clients *clients, struct client *c)
{
    const struct buf *request = request_of(c);
    bool narrow = c->never_reads;
    c->used = !narrow && wire_is_reusable(&c->wire);
    if (!c->used) wire_open(&c->wire, clients->options->to, narrow);
    wire_send(&c->wire, request->data, request->size);
    chat_answer_clear(&c->answer);
    c->state = ASKING;
    c->since = c->piece_at = c->unread_since = seconds_now();
    c->leave_at = c->task.leaves && c->task.moment >= 0 ? c->since + c->task.moment : 0;
    c->second = false;
    c->unread = 0;
    if (c->task.slow) c->wire.allowed = 0;
}

static void take_task(struct load_clients *clients, struct client *c)
{
    if (!clients->good_left && (c->never_reads || !clients->bad_left)) return;
    bool good = c->never_reads ||
                rng_below(&clients->dice, clients->good_left + clients->bad_left) <
                    clients->good_left;
    c->task = good ? take_good(clients, c) : take_bad(clients);
    clients->tally->slow += c->task.slow;
    write_request(clients, c);
    send_request(clients, c);
}

/* ---- completing a request ---- */

static void rest(struct client *c)
{
    bool last = !c->task.good && c->bad.then != THEN_READ;
    if (last || !wire_is_reusable(&c->wire)) wire_close(&c->wire, false);
    c->state = IDLE;
}

static void hang_up(struct load_clients *clients, struct client *c)
{
    wire_close(&c->wire, rng_below(&clients->dice, 2));
    c->state = IDLE;
}

static void end_good(struct load_clients *clients, struct client *c)
{
    const struct valid_request *g = &clients->options->valid->item[c->task.which];
    if (c->wire.reply.state != REPLY_DONE || c->wire.reply.status != 200) {
        remark_reply(clients, c, "no answer");
        clients->tally->failed++;
        return;
    }
    if (!c->task.stream) dialect_read_whole(g->dialect, &c->answer, &c->wire.reply.body);
    bool equal = valid_request_is_equal(g, &c->answer, c->task.stream);
    clients->tally->equal += equal;
    clients->tally->unequal += !equal;
    if (!equal)
        remark(clients, "%s \"%s\"%s: another answer than alone:\n  %.*s\n  %.*s",
               dialect_name(g->dialect), g->name, c->task.stream ? ", streamed" : "", SHOWN_BYTES,
               c->answer.choice[0].text.size ? c->answer.choice[0].text.data : "(nothing)",
               SHOWN_BYTES,
               g->truth.choice[0].text.size ? g->truth.choice[0].text.data : "(nothing)");
}

/* The outcome of a malformed request, as a MAY_BE. */
static unsigned outcome(const struct client *c)
{
    const struct http_reply *r = &c->wire.reply;
    if (r->state != REPLY_DONE) return c->wire.end == WIRE_OPEN ? 0 : MAY_BE_CUT;
    if (r->status == 200 || status_is_busy(r->status)) return MAY_BE_ANSWERED;
    if (r->status == 501) return MAY_BE_UNKNOWN;
    return (r->status >= 400 && r->status < 500) || r->status == 505 ? MAY_BE_REFUSED : 0;
}

static void end_bad(struct load_clients *clients, struct client *c)
{
    unsigned what = outcome(c);
    struct tally *t = clients->tally;
    t->refused += what == MAY_BE_REFUSED || what == MAY_BE_UNKNOWN;
    t->answered += what == MAY_BE_ANSWERED;
    t->cut += what == MAY_BE_CUT;
    if (what & c->bad.may) return;
    t->unexpected++;
    remark_reply(clients, c, "this may not be");
}

/* Starts reading the second reply, if there is one; returns whether there is. */
static bool goes_on(struct client *c)
{
    if (c->task.good || c->bad.then != THEN_READ_TWO || c->second ||
        c->wire.reply.state != REPLY_DONE || c->wire.reply.status != 200)
        return false;
    c->second = true;
    wire_next_reply(&c->wire);
    shutdown(c->wire.fd, SHUT_WR);
    return !wire_is_over(&c->wire);
}

static void ask_again(struct load_clients *clients, struct client *c)
{
    c->state = PAUSED;
    c->resume = seconds_now() + rng_between(&clients->dice, 0.3, 1);
    clients->tally->waited++;
}

/* Whether the server had closed the idle connection just before the request was sent. */
static bool was_closed_before(const struct client *c)
{
    bool may_be_cut = !c->task.good && (c->bad.may & MAY_BE_CUT);
    return c->used && !may_be_cut && c->wire.end != WIRE_OPEN && !c->wire.reply.head.size;
}

static void end_request(struct load_clients *clients, struct client *c)
{
    if (was_closed_before(c)) {
        clients->tally->reopened++;
        send_request(clients, c);
    } else if (c->task.good && c->wire.reply.state == REPLY_DONE &&
               status_is_busy(c->wire.reply.status))
        ask_again(clients, c);
    else if (!goes_on(c)) {
        if (c->task.good)
            end_good(clients, c);
        else
            end_bad(clients, c);
        rest(c);
    }
}

static void leave(struct load_clients *clients, struct client *c)
{
    if (c->task.good) {
        bool right = c->wire.reply.status == 0 || status_is_busy(c->wire.reply.status) ||
                     (c->wire.reply.status == 200 &&
                      valid_request_is_beginning(&clients->options->valid->item[c->task.which],
                                                 &c->answer));
        clients->tally->left++;
        clients->tally->left_wrong += !right;
        if (!right) remark_reply(clients, c, "left, and the text so far is another than alone");
    } else
        clients->tally->hung_up++;
    hang_up(clients, c);
}

/* ---- clients that never read ---- */

/* Reads the buffered bytes at last, which must not be a whole answer. */
static void end_unread(struct load_clients *clients, struct client *c)
{
    const struct buf *body = &c->wire.reply.body;
    bool whole = body->size && memmem(body->data, body->size, "data: [DONE]", 12);
    clients->tally->unread++;
    if (whole || c->wire.end == WIRE_OPEN) {
        remark_reply(clients, c, "the server went on with it");
        clients->tally->unread_kept++;
    }
    hang_up(clients, c);
}

static void tick_unread(struct load_clients *clients, struct client *c, double now, bool last)
{
    double patience = clients->options->unread_seconds;
    size_t unread = wire_unread(&c->wire);
    bool refused = unread && unread != c->unread && wire_unread_has_status(&c->wire, 503);
    if (unread != c->unread) {
        c->unread = unread;
        c->unread_since = now;
    }
    if (refused)
        ask_again(clients, c);
    else if (c->state == DRAINING) {
        if (wire_is_over(&c->wire) || now > c->resume) end_unread(clients, c);
    } else if (patience > 0 && now - c->unread_since > patience) {
        c->wire.deaf = false;
        c->state = DRAINING;
        c->resume = now + UNREAD_GRACE;
    } else if (patience <= 0 && last) {
        clients->tally->unread++;
        hang_up(clients, c);
    }
}

/* ---- time ---- */

static void send_pieces(struct client *c, double now)
{
    size_t size = c->wire.out.size;
    if (!c->task.slow || c->wire.allowed >= size || now < c->piece_at || c->wire.end != WIRE_OPEN)
        return;
    c->wire.allowed += size / SLOW_PIECES + 1;
    if (c->wire.allowed > size) c->wire.allowed = size;
    c->piece_at = now + SLOW_SECONDS;
}

/* After the last byte: the next step of a malformed request. */
static void after_sending(struct client *c, double now)
{
    if (c->task.good || c->wire.sent < c->bad.bytes.size || c->leave_at > 0) return;
    if (c->bad.then == THEN_LEAVE) c->leave_at = now + c->bad.leave_after;
    if (c->bad.then != THEN_HALF_CLOSE || c->second) return;
    c->second = true;
    shutdown(c->wire.fd, SHUT_WR);
}

static bool is_to_leave(const struct client *c, double now)
{
    if (c->leave_at > 0 && now >= c->leave_at) return true;
    return c->task.leaves && c->task.moment < 0 &&
           (double)c->wire.reply.body.size >= -c->task.moment;
}

static void tick_asking(struct load_clients *clients, struct client *c, double now)
{
    send_pieces(c, now);
    after_sending(c, now);
    if (is_to_leave(c, now))
        leave(clients, c);
    else if (wire_is_over(&c->wire))
        end_request(clients, c);
    else if (now - c->since > PATIENCE) {
        remark_reply(clients, c, "no answer in time");
        if (c->task.good)
            clients->tally->failed++;
        else
            clients->tally->unexpected++;
        hang_up(clients, c);
    }
}

static void tick(struct load_clients *clients, struct client *c, double now, bool last)
{
    if (c->state == IDLE)
        take_task(clients, c);
    else if (c->state == PAUSED) {
        if (now >= c->resume) send_request(clients, c);
    } else if (c->never_reads)
        tick_unread(clients, c, now, last);
    else
        tick_asking(clients, c, now);
}

static void step(struct load_clients *clients, struct client *c, short revents)
{
    wire_step(&c->wire, revents);
    if (c->task.good && c->task.stream && c->state == ASKING && c->wire.reply.status == 200)
        dialect_read_stream(clients->options->valid->item[c->task.which].dialect, &c->answer,
                            &c->wire.reply.body);
}

/* ---- /health ---- */

/* Alternates between a new connection and the open one. */
static void start_probe(struct load_clients *clients, double now)
{
    struct probe *p = &clients->probe;
    if (p->since > 0 || now < p->next) return;
    p->since = seconds_now();
    p->next = now + PROBE_SECONDS;
    if (p->n++ % 2 == 0 || !wire_is_reusable(&p->wire))
        wire_open(&p->wire, clients->options->to, false);
    wire_send(&p->wire, p->request.data, p->request.size);
    if (wire_events(&p->wire) & POLLOUT) wire_step(&p->wire, POLLOUT);
}

static void end_probe(struct load_clients *clients, double now)
{
    struct probe *p = &clients->probe;
    if (p->since <= 0 || (!wire_is_over(&p->wire) && now - p->since < PROBE_PATIENCE)) return;
    bool ok = p->wire.reply.state == REPLY_DONE && p->wire.reply.status == 200;
    samples_add(&clients->tally->health, now - p->since);
    if (!ok) {
        remark(clients, "/health: status %d after %.3f s", p->wire.reply.status, now - p->since);
        clients->tally->health_failed++;
        wire_close(&p->wire, false);
    }
    p->since = 0;
}

/* ---- all clients ---- */

/* All requests are taken, and only clients that never read are left. */
static bool is_last(const struct load_clients *clients)
{
    if (clients->good_left || clients->bad_left) return false;
    for (size_t i = 0; i < clients->options->n_clients; i++)
        if (clients->client[i].state != IDLE && !clients->client[i].never_reads) return false;
    return true;
}

static bool is_over(const struct load_clients *clients)
{
    if (clients->good_left || clients->bad_left) return false;
    for (size_t i = 0; i < clients->options->n_clients; i++)
        if (clients->client[i].state != IDLE) return false;
    return true;
}

static void turn(struct load_clients *clients)
{
    size_t n = clients->options->n_clients;
    double now = seconds_now();
    bool last = is_last(clients);
    start_probe(clients, now);
    for (size_t i = 0; i < n; i++)
        tick(clients, &clients->client[i], now, last);
    for (size_t i = 0; i < n; i++)
        clients->poll[i] = (struct pollfd){clients->client[i].wire.fd,
                                           wire_events(&clients->client[i].wire), 0};
    clients->poll[n] = (struct pollfd){clients->probe.wire.fd, wire_events(&clients->probe.wire),
                                       0};
    for (size_t i = 0; i < n; i++)
        if (clients->client[i].wire.end != WIRE_OPEN || !clients->poll[i].events)
            clients->poll[i].fd = -1; /* a closed descriptor would wake poll() forever */
    poll(clients->poll, n + 1, POLL_MS);
    wire_step(&clients->probe.wire, clients->poll[n].revents);
    end_probe(clients, seconds_now());
    for (size_t i = 0; i < n; i++)
        if (clients->poll[i].revents) step(clients, &clients->client[i], clients->poll[i].revents);
}

static struct client make_client(size_t i)
{
    return (struct client){.never_reads = i % 10 == 9,
                           .wire = wire_make(),
                           .request = buf_with_max(MAX_REQUEST),
                           .answer = chat_answer_make(),
                           .bad.bytes = buf_with_max(MAX_REQUEST)};
}

static void open_clients(struct load_clients *clients)
{
    const struct load_clients_options *o = clients->options;
    clients->client = calloc(o->n_clients, sizeof(*clients->client));
    clients->poll = calloc(o->n_clients + 1, sizeof(*clients->poll));
    if (!clients->client || !clients->poll) abort();
    for (size_t i = 0; i < o->n_clients; i++)
        clients->client[i] = make_client(i);
    clients->probe = (struct probe){.wire = wire_make(), .request = buf_with_max(MAX_REQUEST)};
    chat_get(&clients->probe.request, o->to, "/health");
}

static void close_clients(struct load_clients *clients)
{
    for (size_t i = 0; i < clients->options->n_clients; i++) {
        struct client *c = &clients->client[i];
        wire_free(&c->wire);
        buf_free(&c->request);
        buf_free(&c->bad.bytes);
        chat_answer_free(&c->answer);
    }
    wire_free(&clients->probe.wire);
    buf_free(&clients->probe.request);
    free(clients->client);
    free(clients->poll);
}

bool load_clients_run(const struct load_clients_options *options, struct tally *tally)
{
    struct load_clients clients = {.options = options,
                                   .tally = tally,
                                   .dice = {options->seed},
                                   .good_left = options->n_requests - options->n_requests / 2,
                                   .bad_left = options->n_requests / 2};
    double start = seconds_now(), looked = start;
    bool alive = true;
    open_clients(&clients);
    while (alive && !is_over(&clients)) {
        turn(&clients);
        if (seconds_now() - looked < 0.2) continue;
        looked = seconds_now();
        alive = child_is_alive(options->server);
    }
    tally->seconds = seconds_now() - start;
    if (clients.remarks > MAX_REMARKS)
        fprintf(stderr, "… and %zu remarks more\n", clients.remarks - MAX_REMARKS);
    close_clients(&clients);
    return alive;
}
