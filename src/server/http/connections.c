/* SPDX-License-Identifier: Apache-2.0 */
/* A table of connections that the main thread sweeps. A connection is cut by shutting down its
 * socket; its own thread notices and cleans up. */
#include "server/http/connections.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    CLOSING = 256, /* cut connections whose threads have not ended yet */
    MOST_SLOTS = EY_MAX_CONNECTIONS + EY_SPARE_CONNECTIONS + CLOSING
};
/* A body may lose its place after BODY_GRACE seconds if it was slow in the last PAUSE_SECONDS. */
#define BODY_GRACE 1.0
#define PAUSE_SECONDS 5.0

int connections_room_for(int max)
{
    return max + EY_SPARE_CONNECTIONS + CLOSING;
}

static int at_most(int n, int most)
{
    return n < most ? n : most;
}

bool connections_open(struct connections *all, int max, int room, ey_err *e)
{
    const int quarter = room / 4;
    const int others = at_most(EY_SPARE_CONNECTIONS, quarter) + at_most(CLOSING, quarter);
    *all = (struct connections){.n_slots = at_most(room, connections_room_for(max)),
                                .max = at_most(max, room - others)};
    size_t bytes = (size_t)all->n_slots * sizeof(*all->slot);
    all->slot = calloc(1, bytes);
    pthread_mutex_init(&all->lock, NULL);
    return all->slot || ey_fail_memory(e, "connections", bytes);
}

void connections_close(struct connections *all)
{
    pthread_mutex_destroy(&all->lock);
    free(all->slot);
    all->slot = NULL;
}

/* ---- cutting ---- */

/* Writes a reply to the socket directly: the library answers only complete requests. */
static void tell_connection(const struct connections *all, struct http_connection *c,
                            const char *why)
{
    char body[512], reply[1024];
    if (all->encrypted || (c->phase != PHASE_HEADERS && c->phase != PHASE_BODY)) return;
    int n = snprintf(body, sizeof(body),
                     "{\"error\": {\"message\": \"%s\", \"type\": \"RequestTimeoutError\", "
                     "\"param\": null, \"code\": 408}}",
                     why);
    n = snprintf(reply, sizeof(reply),
                 "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n"
                 "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
                 n, body);
    c->told = send(c->fd, reply, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) == n;
}

static void cut_connection(const struct connections *all, struct http_connection *c,
                           const char *why)
{
    if (why) tell_connection(all, c, why);
    c->cut = true;
    c->deadline = HUGE_VAL;
    shutdown(c->fd, SHUT_RDWR);
}

/* ---- connections that wait for their client ---- */

static bool is_open(const struct http_connection *c)
{
    return c->phase != PHASE_FREE && !c->cut;
}

/* Whether bytes have arrived that the connection's thread has not read yet, because it waits for a
 * processor. */
static bool has_unread_bytes(const struct http_connection *c)
{
    int n = 0;
    return ioctl(c->fd, FIONREAD, &n) == 0 && n > 0;
}

static bool body_pauses(struct http_connection *c, double now)
{
    const double age = now - c->phase_since;
    return c->phase == PHASE_BODY && !c->waits_for_server && age > BODY_GRACE &&
           (double)send_rate_bytes(&c->rate, PAUSE_SECONDS, now) <
               fmin(age, PAUSE_SECONDS) * EY_SLOW_BYTES_PER_SECOND &&
           !has_unread_bytes(c);
}

static bool waits_for_client(struct http_connection *c, double now)
{
    return is_open(c) &&
           (c->phase == PHASE_IDLE || c->phase == PHASE_HEADERS || body_pauses(c, now));
}

static int count_waiting(const struct connections *all, const bool *waits,
                         struct client_number client)
{
    int n = 0;
    for (int i = 0; i < all->n_slots; i++)
        n += waits[i] && client_number_equal(all->slot[i].client, client);
    return n;
}

/* Finds a connection whose thread has not noticed yet that the client hung up. */
static struct http_connection *hung_up(struct connections *all, const bool *waits)
{
    struct pollfd p[MOST_SLOTS];
    for (int i = 0; i < all->n_slots; i++)
        p[i] = (struct pollfd){.fd = waits[i] ? all->slot[i].fd : -1, .events = POLLRDHUP};
    if (poll(p, (nfds_t)all->n_slots, 0) <= 0) return NULL;
    for (int i = 0; i < all->n_slots; i++)
        if (p[i].revents) return &all->slot[i];
    return NULL;
}

/* Returns a connection whose client has hung up. If there is none, returns the longest-waiting one
 * of the client with the most waiting connections, or NULL. */
static struct http_connection *longest_waiting(struct connections *all, double now)
{
    bool waits[MOST_SLOTS];
    int most = 0;
    for (int i = 0; i < all->n_slots; i++)
        waits[i] = waits_for_client(&all->slot[i], now);
    struct http_connection *best = hung_up(all, waits);
    if (best) return best;
    for (int i = 0; i < all->n_slots; i++) {
        struct http_connection *c = &all->slot[i];
        if (!waits[i]) continue;
        if (best && client_number_equal(best->client, c->client)) {
            if (c->phase_since < best->phase_since) best = c;
            continue;
        }
        int n = count_waiting(all, waits, c->client);
        if (n < most || (n == most && best && c->phase_since >= best->phase_since)) continue;
        best = c;
        most = n;
    }
    return best;
}

static int count_open(const struct connections *all)
{
    int n = 0;
    for (int i = 0; i < all->n_slots; i++)
        n += is_open(&all->slot[i]);
    return n;
}

/* ---- connections ---- */

static struct http_connection *free_slot(const struct connections *all)
{
    for (int i = 0; i < all->n_slots; i++)
        if (all->slot[i].phase == PHASE_FREE) return &all->slot[i];
    return NULL;
}

static void replace_one(struct connections *all, double now)
{
    struct http_connection *other = longest_waiting(all, now);
    if (other)
        cut_connection(all, other,
                       "the request came too slowly while others waited for its place; send it "
                       "faster, or let the server run more requests at once (--max-connections)");
}

/* Delays accepting, on the accepting thread, while too many cut connections have not ended. */
static void let_threads_end(struct connections *all)
{
    enum { NAP_US = 1000 };
    pthread_mutex_lock(&all->lock);
    bool many = all->n - count_open(all) > (all->n_slots - all->max) / 2;
    pthread_mutex_unlock(&all->lock);
    if (many) usleep(NAP_US);
}

struct http_connection *connections_add(struct connections *all, int fd, double seconds)
{
    let_threads_end(all);
    pthread_mutex_lock(&all->lock);
    struct http_connection *c = free_slot(all);
    if (c) {
        double now = seconds_now();
        if (count_open(all) >= all->max) replace_one(all, now);
        *c = (struct http_connection){
            .phase = PHASE_IDLE, .fd = fd, .phase_since = now, .deadline = now + seconds};
        c->peer = client_address_of_socket(fd);
        c->client = client_address_number(c->peer);
        all->n++;
    }
    if (c && all->all_cut) cut_connection(all, c, NULL);
    pthread_mutex_unlock(&all->lock);
    return c;
}

void connections_remove(struct connections *all, struct http_connection *c)
{
    pthread_mutex_lock(&all->lock);
    *c = (struct http_connection){.phase = PHASE_FREE};
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
    if (phase <= PHASE_HEADERS) {
        c->holds_place = false;
        c->client = client_address_number(c->peer);
    }
    if (phase == PHASE_BODY) {
        c->n_body = 0;
        c->rate = send_rate_start(seconds, now);
    }
    pthread_mutex_unlock(&all->lock);
}

/* ---- places ---- */

/* Whether this connection's client may take another place, once `without` (NULL: none) has lost
 * its own. */
static bool has_place_for(const struct connections *all, const struct http_connection *c,
                          const struct http_connection *without)
{
    int own = 1, taken = 1;
    for (int i = 0; i < all->n_slots; i++) {
        const struct http_connection *other = &all->slot[i];
        if (other == c || other == without || !other->holds_place || !is_open(other)) continue;
        taken++;
        own += client_number_equal(other->client, c->client);
    }
    int left = all->max - taken;
    return left >= 0 && (own == 1 || own <= EY_CLIENT_SHARE * left);
}

/* Returns a place-holding connection whose body pauses, preferring the client's own. */
static struct http_connection *slow_body(struct connections *all, struct client_number client)
{
    struct http_connection *found = NULL;
    double now = seconds_now();
    for (int i = 0; i < all->n_slots; i++) {
        struct http_connection *c = &all->slot[i];
        if (!is_open(c) || !c->holds_place || !body_pauses(c, now)) continue;
        if (client_number_equal(c->client, client)) return c;
        found = c;
    }
    return found;
}

bool connections_admit(struct connections *all, struct http_connection *c,
                       struct client_number client)
{
    pthread_mutex_lock(&all->lock);
    c->client = client;
    bool admitted = has_place_for(all, c, NULL);
    struct http_connection *slow = admitted ? NULL : slow_body(all, client);
    if (slow && has_place_for(all, c, slow)) {
        cut_connection(all, slow,
                       "the body came too slowly while others waited for its place; send it "
                       "faster, or let the server run more requests at once (--max-connections)");
        admitted = true;
    }
    c->holds_place = admitted;
    pthread_mutex_unlock(&all->lock);
    return admitted;
}

/* ---- bodies ---- */

void connections_progress(struct connections *all, struct http_connection *c, size_t n,
                          double stall_seconds)
{
    double now = seconds_now();
    pthread_mutex_lock(&all->lock);
    send_rate_add(&c->rate, n - c->n_body, now);
    c->n_body = n;
    if (!c->cut) c->deadline = now + stall_seconds;
    pthread_mutex_unlock(&all->lock);
}

void connections_hold_up(struct connections *all, struct http_connection *c, bool waits)
{
    pthread_mutex_lock(&all->lock);
    c->waits_for_server = waits;
    pthread_mutex_unlock(&all->lock);
}

static bool is_slow_body(struct http_connection *c, double now)
{
    return c->phase == PHASE_BODY && !c->waits_for_server &&
           send_rate_is_below(&c->rate, EY_BODY_BYTES_PER_SECOND, c->rate.window, now);
}

/* ---- the end ---- */

bool connections_hung_up(struct connections *all, struct http_connection *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};
    pthread_mutex_lock(&all->lock);
    bool was_cut = c->cut;
    pthread_mutex_unlock(&all->lock);
    return was_cut || (poll(&p, 1, 0) > 0 && p.revents);
}

bool connections_told(struct connections *all, struct http_connection *c)
{
    pthread_mutex_lock(&all->lock);
    bool told = c->told;
    pthread_mutex_unlock(&all->lock);
    return told;
}

static void cut_late(struct connections *all, struct http_connection *c, double now)
{
    char why[160];
    if (is_slow_body(c, now)) {
        snprintf(why, sizeof(why),
                 "the body came too slowly: less than %d KiB a second in the last %g s; send it "
                 "faster",
                 EY_BODY_BYTES_PER_SECOND >> 10, c->rate.window);
        cut_connection(all, c, why);
    } else if (now > c->deadline) {
        snprintf(why, sizeof(why), "the rest of the request did not come within %.3g s",
                 now - c->phase_since);
        cut_connection(all, c, why);
    }
}

/* Cuts the pausing body that holds most bytes. */
static void cut_largest_pause(struct connections *all, double now)
{
    struct http_connection *largest = NULL;
    for (int i = 0; i < all->n_slots; i++) {
        struct http_connection *c = &all->slot[i];
        if (!is_open(c) || !c->n_body || !body_pauses(c, now)) continue;
        if (!largest || c->n_body > largest->n_body) largest = c;
    }
    if (largest)
        cut_connection(all, largest,
                       "the body came too slowly while others waited for the memory that it had; "
                       "send it faster, or give the server more memory (--host-memory)");
}

void connections_sweep(struct connections *all, bool memory_is_awaited)
{
    double now = seconds_now();
    pthread_mutex_lock(&all->lock);
    for (int i = 0; i < all->n_slots; i++)
        if (is_open(&all->slot[i])) cut_late(all, &all->slot[i], now);
    if (memory_is_awaited) cut_largest_pause(all, now);
    pthread_mutex_unlock(&all->lock);
}

void connections_cut_all(struct connections *all)
{
    pthread_mutex_lock(&all->lock);
    all->all_cut = true;
    for (int i = 0; i < all->n_slots; i++)
        if (is_open(&all->slot[i])) cut_connection(all, &all->slot[i], NULL);
    pthread_mutex_unlock(&all->lock);
}

struct connections_count connections_count(struct connections *all)
{
    struct connections_count count = {0};
    pthread_mutex_lock(&all->lock);
    count.open = all->n;
    for (int i = 0; i < all->n_slots; i++)
        count.busy += all->slot[i].phase > PHASE_IDLE;
    pthread_mutex_unlock(&all->lock);
    return count;
}
