/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines of connections, kept in one table that the main thread sweeps. A connection is cut by
 * shutting its socket down: its own thread sees that and cleans up. */
#include "server/http/connections.h"

#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"

/* The parts of its window that say whether a body comes now. */
enum { RECENT_PARTS = 2 };
/* That a client takes or sends nothing for so long is no matter, even where its place is needed. */
#define SENDING_GRACE 5.0
#define BODY_GRACE 1.0

static int connection_slots(const struct connections *all)
{
    return all->max + all->spare;
}

bool connections_open(struct connections *all, int most, ey_err *e)
{
    const int quarter = most / 4; /* where descriptors are scarce */
    const int spare = quarter < EY_SPARE_CONNECTIONS ? quarter : EY_SPARE_CONNECTIONS;
    *all = (struct connections){.max = most - spare, .spare = spare};
    size_t n = (size_t)connection_slots(all);
    all->slot = calloc(n, sizeof(*all->slot));
    pthread_mutex_init(&all->lock, NULL);
    return all->slot || ey_fail_memory(e, "connections", n * sizeof(*all->slot));
}

void connections_close(struct connections *all)
{
    pthread_mutex_destroy(&all->lock);
    free(all->slot);
    all->slot = NULL;
}

static void set_peer_name(struct http_connection *c)
{
    struct sockaddr_storage address = {0};
    socklen_t n = sizeof(address);
    const void *at = &((struct sockaddr_in *)(void *)&address)->sin_addr;
    if (getpeername(c->fd, (struct sockaddr *)&address, &n)) return;
    if (address.ss_family == AF_INET6) at = &((struct sockaddr_in6 *)(void *)&address)->sin6_addr;
    c->from = client_address_from((struct sockaddr *)&address);
    inet_ntop(address.ss_family, at, c->peer, sizeof(c->peer));
}

static void cut_connection(struct http_connection *c)
{
    c->cut = true;
    c->deadline = HUGE_VAL;
    shutdown(c->fd, SHUT_RDWR);
}

/* ---- how fast a body comes ---- */

static void advance_rate(struct http_connection *c, double now)
{
    long at = (long)((now - c->phase_since) / c->body_seconds * (RATE_PARTS - 1));
    struct body_rate *r = &c->rate;
    for (long i = r->at + 1; i <= at && i <= r->at + RATE_PARTS; i++)
        r->bytes[i % RATE_PARTS] = 0;
    r->at = at;
}

/* Bytes that came in the latest parts of the window. */
static size_t recent_bytes(struct http_connection *c, long parts, double now)
{
    size_t n = 0;
    advance_rate(c, now);
    for (long i = 0; i < parts && i <= c->rate.at; i++)
        n += c->rate.bytes[(c->rate.at - i) % RATE_PARTS];
    return n;
}

/* Whether it has had its time, and what came in a window of that length is too little. */
static bool is_slow_body(struct http_connection *c, double now)
{
    return c->phase == PHASE_BODY && now - c->phase_since > c->body_seconds &&
           (double)recent_bytes(c, RATE_PARTS, now) < c->body_seconds * EY_BODY_BYTES_PER_SECOND;
}

/* ---- whose place another may have ---- */

static bool body_pauses(struct http_connection *c, double now)
{
    double age = now - c->phase_since,
           window = fmin(age, c->body_seconds * RECENT_PARTS / (RATE_PARTS - 1));
    return age > BODY_GRACE &&
           (double)recent_bytes(c, RECENT_PARTS, now) < window * EY_SLOW_BYTES_PER_SECOND;
}

static bool waits_for_client(struct http_connection *c, double now)
{
    if (c->cut) return false;
    switch (c->phase) {
    case PHASE_IDLE:
    case PHASE_HEADERS: return true;
    case PHASE_BODY: return body_pauses(c, now);
    case PHASE_SENDING: return now - c->phase_since > SENDING_GRACE;
    default: return false;
    }
}

static int count_of_address(const struct connections *all, struct client_address address)
{
    int n = 0;
    for (int i = 0; i < connection_slots(all); i++) {
        const struct http_connection *c = &all->slot[i];
        n += c->phase != PHASE_FREE && !c->cut && client_address_equal(c->from, address);
    }
    return n;
}

/* Of the address with the most connections, among those of which any waits for its client, the
 * connection that has waited longest; NULL: none waits. */
static struct http_connection *replaceable(struct connections *all, double now)
{
    struct http_connection *best = NULL;
    int most = 0;
    for (int i = 0; i < connection_slots(all); i++) {
        struct http_connection *c = &all->slot[i];
        if (!waits_for_client(c, now)) continue;
        int n = count_of_address(all, c->from);
        if (n < most || (n == most && best && c->phase_since >= best->phase_since)) continue;
        best = c;
        most = n;
    }
    return best;
}

static int count_open(const struct connections *all)
{
    int n = 0;
    for (int i = 0; i < connection_slots(all); i++)
        n += all->slot[i].phase != PHASE_FREE && !all->slot[i].cut;
    return n;
}

/* ---- connections ---- */

struct http_connection *connections_add(struct connections *all, int fd, double seconds)
{
    struct http_connection *c = NULL;
    pthread_mutex_lock(&all->lock);
    for (int i = 0; i < connection_slots(all) && !c; i++)
        if (all->slot[i].phase == PHASE_FREE) c = &all->slot[i];
    if (c) {
        double now = seconds_now();
        if (count_open(all) >= all->max) {
            struct http_connection *other = replaceable(all, now);
            if (other) cut_connection(other);
        }
        *c = (struct http_connection){
            .phase = PHASE_IDLE, .fd = fd, .phase_since = now, .deadline = now + seconds};
        set_peer_name(c);
        all->n++;
    }
    if (c && all->all_cut) cut_connection(c);
    pthread_mutex_unlock(&all->lock);
    return c;
}

void connections_remove(struct connections *all, struct http_connection *c)
{
    pthread_mutex_lock(&all->lock);
    c->phase = PHASE_FREE;
    c->holds_place = false;
    all->n--;
    pthread_mutex_unlock(&all->lock);
}

void connections_enter(struct connections *all, struct http_connection *c,
                       enum connection_phase phase, double seconds)
{
    double now = seconds_now();
    pthread_mutex_lock(&all->lock);
    c->phase = phase;
    c->phase_since = now;
    c->deadline = c->cut || seconds == 0 ? HUGE_VAL : now + seconds;
    if (phase <= PHASE_HEADERS) c->holds_place = false;
    if (phase == PHASE_BODY) {
        c->body_seconds = seconds;
        c->n_body = 0;
        c->rate = (struct body_rate){{0}, 0};
    }
    pthread_mutex_unlock(&all->lock);
}

bool connections_admit(struct connections *all, struct http_connection *c)
{
    int own = 1, taken = 0;
    pthread_mutex_lock(&all->lock);
    for (int i = 0; i < connection_slots(all); i++) {
        const struct http_connection *other = &all->slot[i];
        if (other == c || !other->holds_place || other->cut) continue;
        taken++;
        own += client_address_equal(other->from, c->from);
    }
    int left = all->max - taken - 1;
    c->holds_place = left >= 0 && (own == 1 || own <= EY_ADDRESS_SHARE * left);
    bool admitted = c->holds_place;
    pthread_mutex_unlock(&all->lock);
    return admitted;
}

void connections_progress(struct connections *all, struct http_connection *c, size_t n,
                          double stall_seconds)
{
    double now = seconds_now();
    pthread_mutex_lock(&all->lock);
    advance_rate(c, now);
    c->rate.bytes[c->rate.at % RATE_PARTS] += n - c->n_body;
    c->n_body = n;
    if (!c->cut) c->deadline = now + stall_seconds;
    pthread_mutex_unlock(&all->lock);
}

bool connections_hung_up(struct connections *all, struct http_connection *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};
    pthread_mutex_lock(&all->lock);
    bool was_cut = c->cut;
    pthread_mutex_unlock(&all->lock);
    return was_cut || (poll(&p, 1, 0) > 0 && p.revents);
}

void connections_sweep(struct connections *all)
{
    double now = seconds_now();
    pthread_mutex_lock(&all->lock);
    for (int i = 0; i < connection_slots(all); i++) {
        struct http_connection *c = &all->slot[i];
        if (c->phase == PHASE_FREE || c->cut) continue;
        if (now > c->deadline || is_slow_body(c, now)) cut_connection(c);
    }
    pthread_mutex_unlock(&all->lock);
}

void connections_cut_all(struct connections *all)
{
    pthread_mutex_lock(&all->lock);
    all->all_cut = true;
    for (int i = 0; i < connection_slots(all); i++)
        if (all->slot[i].phase != PHASE_FREE && !all->slot[i].cut) cut_connection(&all->slot[i]);
    pthread_mutex_unlock(&all->lock);
}

struct connections_count connections_count(struct connections *all)
{
    struct connections_count count = {0};
    pthread_mutex_lock(&all->lock);
    count.open = all->n;
    for (int i = 0; i < connection_slots(all); i++)
        count.busy += all->slot[i].phase > PHASE_IDLE;
    pthread_mutex_unlock(&all->lock);
    return count;
}
