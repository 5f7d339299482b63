/* SPDX-License-Identifier: Apache-2.0 */
/* A ring buffer between logging threads and the writer thread. */
#include "server/log_queue.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { CHUNK = 16 << 10, NOTE_BYTES = 64 };

struct log_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    int fd;
    char *ring;
    size_t capacity, first, used; /* bytes; `used` from `first` on, wrapping around */
    size_t dropped;               /* lines dropped since the last one that fitted */
    bool ending, ended;
};

/* ---- the ring; the lock is held ---- */

static void put_bytes(struct log_queue *q, const char *bytes, size_t n)
{
    size_t at = (q->first + q->used) % q->capacity, room = q->capacity - at;
    size_t head = n < room ? n : room;
    memcpy(q->ring + at, bytes, head);
    memcpy(q->ring, bytes + head, n - head);
    q->used += n;
}

static size_t take_bytes(struct log_queue *q, char *out)
{
    size_t n = q->capacity - q->first;
    if (n > q->used) n = q->used;
    if (n > CHUNK) n = CHUNK;
    memcpy(out, q->ring + q->first, n);
    q->first = (q->first + n) % q->capacity;
    q->used -= n;
    return n;
}

static void put_note(struct log_queue *q)
{
    char note[NOTE_BYTES];
    int n = snprintf(note, sizeof(note), "%zu lines dropped: nobody read the log\n", q->dropped);
    put_bytes(q, note, (size_t)n);
    q->dropped = 0;
}

/* Adds "N lines dropped" in place of the dropped lines: before the next line that fits, or at the
 * end. */
static void note_what_was_dropped(struct log_queue *q, size_t more)
{
    if (q->dropped && q->capacity - q->used >= NOTE_BYTES + more) put_note(q);
}

/* ---- the thread ---- */

/* Writes all n bytes. Returns false if the descriptor is closed or its reader has gone. */
static bool write_patiently(int fd, const char *bytes, size_t n)
{
    while (n) {
        ssize_t wrote = write(fd, bytes, n);
        if (wrote < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            struct pollfd writable = {.fd = fd, .events = POLLOUT};
            poll(&writable, 1, -1);
        } else if (wrote < 0 && errno != EINTR) {
            return false;
        } else if (wrote > 0) {
            bytes += wrote;
            n -= (size_t)wrote;
        }
    }
    return true;
}

static void *write_lines(void *user)
{
    struct log_queue *q = user;
    char chunk[CHUNK];
    pthread_mutex_lock(&q->lock);
    while (q->used || q->dropped || !q->ending) {
        if (!q->used) note_what_was_dropped(q, 0);
        if (!q->used) {
            pthread_cond_wait(&q->changed, &q->lock);
            continue;
        }
        size_t n = take_bytes(q, chunk);
        pthread_mutex_unlock(&q->lock);
        write_patiently(q->fd, chunk, n);
        pthread_mutex_lock(&q->lock);
    }
    q->ended = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

/* Starts the writer with all signals blocked; the main thread waits for them. */
static bool start_thread(struct log_queue *q)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = pthread_create(&q->thread, NULL, write_lines, q) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

/* ---- the interface ---- */

static void free_queue(struct log_queue *q)
{
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->changed);
    free(q->ring);
    free(q);
}

struct log_queue *log_queue_open(int fd, size_t capacity)
{
    struct log_queue *q = calloc(1, sizeof(*q));
    if (!q) return NULL;
    pthread_mutex_init(&q->lock, NULL);
    cond_init_monotonic(&q->changed);
    q->fd = fd;
    q->capacity = capacity;
    q->ring = malloc(capacity);
    if (q->ring && start_thread(q)) return q;
    free_queue(q);
    return NULL;
}

void log_queue_add(struct log_queue *q, const char *line, size_t n)
{
    pthread_mutex_lock(&q->lock);
    note_what_was_dropped(q, n);
    if (q->dropped || n > q->capacity - q->used)
        q->dropped++;
    else
        put_bytes(q, line, n);
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

bool log_queue_close(struct log_queue *q, double seconds)
{
    const struct timespec until = deadline_after(seconds);
    int status = 0;
    pthread_mutex_lock(&q->lock);
    q->ending = true;
    pthread_cond_broadcast(&q->changed);
    while (!q->ended && !status)
        status = pthread_cond_timedwait(&q->changed, &q->lock, &until);
    bool ended = q->ended;
    pthread_mutex_unlock(&q->lock);
    if (!ended) {
        pthread_detach(q->thread);
        return false;
    }
    pthread_join(q->thread, NULL);
    free_queue(q);
    return true;
}
