/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines of connections, kept in one table that the main thread sweeps. A connection is cut by
 * shutting its socket down: its own thread sees that and cleans up. */
#include "server/http/connections.h"

#include <math.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"

enum { CONNECTION_SLOTS = EY_MAX_CONNECTIONS + EY_SPARE_CONNECTIONS };

void connections_open(struct connections *all, int most)
{
    *all = (struct connections){.most = most < CONNECTION_SLOTS ? most : CONNECTION_SLOTS};
    pthread_mutex_init(&all->lock, NULL);
}

void connections_close(struct connections *all)
{
    pthread_mutex_destroy(&all->lock);
}

/* A quarter where descriptors are scarce. */
static int spare_connections(const struct connections *all)
{
    int quarter = all->most / 4;
    return quarter < EY_SPARE_CONNECTIONS ? quarter : EY_SPARE_CONNECTIONS;
}

int connections_most(const struct connections *all)
{
    return all->most - spare_connections(all);
}

static void set_peer_name(struct http_connection *c)
{
    struct sockaddr_storage address = {0};
    socklen_t n = sizeof(address);
    const void *at = &((struct sockaddr_in *)(void *)&address)->sin_addr;
    if (getpeername(c->fd, (struct sockaddr *)&address, &n)) return;
    if (address.ss_family == AF_INET6) at = &((struct sockaddr_in6 *)(void *)&address)->sin6_addr;
    inet_ntop(address.ss_family, at, c->peer, sizeof(c->peer));
}

static void cut_connection(struct http_connection *c)
{
    c->cut = true;
    c->deadline = HUGE_VAL;
    shutdown(c->fd, SHUT_RDWR);
}

struct http_connection *connections_add(struct connections *all, int fd, double seconds)
{
    struct http_connection *c = NULL;
    pthread_mutex_lock(&all->lock);
    for (int i = 0; i < all->most && !c; i++)
        if (all->slot[i].phase == PHASE_FREE) c = &all->slot[i];
    if (c) {
        double now = seconds_now();
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
    pthread_mutex_unlock(&all->lock);
}

void connections_progress(struct connections *all, struct http_connection *c, size_t n,
                          double body_seconds, double stall_seconds)
{
    double now = seconds_now();
    pthread_mutex_lock(&all->lock);
    double whole = c->phase_since + body_seconds + (double)n / EY_BODY_BYTES_PER_SECOND;
    if (!c->cut) c->deadline = fmin(whole, now + stall_seconds);
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
    bool crowded = all->n > connections_most(all) - spare_connections(all);
    for (int i = 0; i < CONNECTION_SLOTS; i++) {
        struct http_connection *c = &all->slot[i];
        if (c->phase == PHASE_FREE || c->cut) continue;
        if (now > c->deadline || (crowded && c->phase == PHASE_IDLE && now > c->phase_since + 1))
            cut_connection(c);
    }
    pthread_mutex_unlock(&all->lock);
}

void connections_cut_all(struct connections *all)
{
    pthread_mutex_lock(&all->lock);
    all->all_cut = true;
    for (int i = 0; i < CONNECTION_SLOTS; i++)
        if (all->slot[i].phase != PHASE_FREE && !all->slot[i].cut) cut_connection(&all->slot[i]);
    pthread_mutex_unlock(&all->lock);
}

struct connections_count connections_count(struct connections *all)
{
    struct connections_count count = {0};
    pthread_mutex_lock(&all->lock);
    count.open = all->n;
    for (int i = 0; i < CONNECTION_SLOTS; i++)
        count.busy += all->slot[i].phase > PHASE_IDLE;
    pthread_mutex_unlock(&all->lock);
    return count;
}
