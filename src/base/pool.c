/* SPDX-License-Identifier: Apache-2.0 */
/* A thread pool whose idle workers spin briefly before they sleep: a token takes some two hundred
 * loops, and waking a thread takes as long as a short loop. Threads take chunks from a shared
 * counter or steal from each other's ranges, so a slow core does less. Which thread computes a
 * chunk never changes its result. */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/processors.h"

enum {
    CACHE_LINE = 64,
    SPIN_PAUSES = 32,
    STEAL_DIVISOR = 4 /* a thread steals a quarter of what is left of a range */
};
#define SPIN_SECONDS 60e-6

/* The items [begin, end) left in a thread's range, begin in the upper half, so that one
 * compare-and-swap changes both. */
struct pool_range {
    _Alignas(CACHE_LINE) atomic_uint_least64_t left;
};

struct pool {
    int n_threads; /* the caller included */
    int n_started;
    bool may_spin; /* each thread has a core of its own to spin on */
    pthread_t *threads;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    atomic_bool stop;
    pool_fn *fn;
    void *context;
    size_t n, chunk, min_chunk;
    struct pool_range *ranges; /* one for each thread */
    bool by_range;
    char pad[3][CACHE_LINE]; /* keeps the counters and flags below in cache lines of their own */
    atomic_uint loop_number; /* workers wait for it to change */
    atomic_int n_asleep;     /* workers */
    char pad_running[CACHE_LINE];
    atomic_int n_running;
    atomic_bool caller_asleep;
    char pad_next[CACHE_LINE];
    atomic_size_t next;
};

struct worker {
    struct pool *pool;
    int index;
};

static void run_chunks(struct pool *pool, int thread)
{
    size_t begin;
    while ((begin = atomic_fetch_add(&pool->next, pool->chunk)) < pool->n) {
        size_t end = pool->n - begin > pool->chunk ? begin + pool->chunk : pool->n;
        pool->fn(pool->context, begin, end, thread);
    }
}

/* ---- ranges ---- */

static uint64_t pack_range(size_t begin, size_t end)
{
    return (uint64_t)begin << 32 | end;
}

static void assign_ranges(struct pool *pool)
{
    size_t threads = (size_t)pool->n_threads;
    for (size_t i = 0; i < threads; i++)
        atomic_store(&pool->ranges[i].left,
                     pack_range(pool->n * i / threads, pool->n * (i + 1) / threads));
}

/* Clamps `wanted` to [min_chunk, left]. */
static size_t pool_chunk_size(const struct pool *pool, size_t wanted, size_t left)
{
    size_t size = wanted > pool->min_chunk ? wanted : pool->min_chunk;
    return size < left ? size : left;
}

/* Returns the size of the chunk that a thread takes next from its own range, which has `left` items
 * from `begin` on. */
static size_t own_range_chunk(const struct pool *pool, size_t begin, size_t left)
{
    return pool_chunk_size(
        pool, left > 2 * pool->chunk ? pool->chunk - begin % pool->chunk : left / 2, left);
}

/* Takes and runs a chunk of owner's range: from its begin if `thread` owns it, else from its end.
 * Returns false if the range is empty. */
static bool run_range_chunk(struct pool *pool, int owner, int thread)
{
    const bool own = owner == thread;
    atomic_uint_least64_t *range = &pool->ranges[owner].left;
    uint64_t seen = atomic_load(range), then;
    size_t first, size;
    do {
        size_t begin = (size_t)(seen >> 32), end = (size_t)(seen & UINT32_MAX), left = end - begin;
        if (begin >= end) return false;
        size = own ? own_range_chunk(pool, begin, left)
                   : pool_chunk_size(pool, left / STEAL_DIVISOR, left);
        first = own ? begin : end - size;
        then = own ? pack_range(begin + size, end) : pack_range(begin, first);
    } while (!atomic_compare_exchange_weak(range, &seen, then));
    pool->fn(pool->context, first, first + size, thread);
    return true;
}

static void run_ranges(struct pool *pool, int thread)
{
    for (int i = 0; i < pool->n_threads; i++)
        while (run_range_chunk(pool, (thread + i) % pool->n_threads, thread))
            continue;
}

static void pool_work(struct pool *pool, int thread)
{
    if (pool->by_range)
        run_ranges(pool, thread);
    else
        run_chunks(pool, thread);
}

/* ---- waiting ---- */

static void spin_pause(void)
{
    for (int i = 0; i < SPIN_PAUSES; i++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#else
        atomic_signal_fence(memory_order_seq_cst);
#endif
    }
}

static bool has_work(struct pool *pool, unsigned seen)
{
    return atomic_load(&pool->loop_number) != seen;
}

static bool all_done(struct pool *pool, unsigned unused)
{
    (void)unused;
    return atomic_load(&pool->n_running) == 0;
}

/* Spins for a short time. Returns whether the condition came true. */
static bool spin_wait(struct pool *pool, bool (*is_there)(struct pool *, unsigned), unsigned seen)
{
    if (is_there(pool, seen)) return true;
    if (!pool->may_spin) return false;
    double start = seconds_now();
    do {
        spin_pause();
        if (is_there(pool, seen)) return true;
    } while (seconds_now() - start < SPIN_SECONDS);
    return false;
}

/* No wake-up is lost: the waiter announces itself and checks again, the poster posts and then
 * checks for waiters, so one of the two sees the other. */
static void pool_wait_for_loop(struct pool *pool, unsigned seen)
{
    if (spin_wait(pool, has_work, seen)) return;
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->n_asleep, 1);
    while (!has_work(pool, seen))
        pthread_cond_wait(&pool->work, &pool->lock);
    atomic_fetch_sub(&pool->n_asleep, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void wait_for_workers(struct pool *pool)
{
    if (spin_wait(pool, all_done, 0)) return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->caller_asleep, true);
    while (!all_done(pool, 0))
        pthread_cond_wait(&pool->done, &pool->lock);
    atomic_store(&pool->caller_asleep, false);
    pthread_mutex_unlock(&pool->lock);
}

static void wake_workers(struct pool *pool)
{
    atomic_fetch_add(&pool->loop_number, 1);
    if (!atomic_load(&pool->n_asleep)) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

static void end_work(struct pool *pool)
{
    if (atomic_fetch_sub(&pool->n_running, 1) > 1 || !atomic_load(&pool->caller_asleep)) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *argument)
{
    struct worker self = *(struct worker *)argument;
    free(argument);
    for (unsigned seen = 0;; seen++) {
        pool_wait_for_loop(self.pool, seen);
        if (atomic_load(&self.pool->stop)) return NULL;
        pool_work(self.pool, self.index);
        end_work(self.pool);
    }
}

static bool start_worker(struct pool *pool, int index)
{
    struct worker *worker = malloc(sizeof(*worker));
    if (!worker) return false;
    *worker = (struct worker){pool, index};
    if (pthread_create(&pool->threads[index - 1], NULL, worker_main, worker) != 0)
        return free(worker), false;
    pool->n_started++;
    return true;
}

bool pool_create(struct pool **out, int threads, ey_err *e)
{
    if (threads <= 0) threads = processors_usable();
    if (threads > EY_MAX_THREADS) threads = EY_MAX_THREADS;
    struct pool *pool = calloc(1, sizeof(*pool));
    pthread_t *ids = calloc((size_t)threads, sizeof(*ids));
    struct pool_range *ranges = aligned_alloc(CACHE_LINE, (size_t)threads * sizeof(*ranges));
    if (!pool || !ids || !ranges)
        return free(pool), free(ids), free(ranges), ey_fail_memory(e, "threads", 0);
    pool->n_threads = threads;
    pool->threads = ids;
    pool->ranges = ranges;
    pool->may_spin = threads <= processors_usable();
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    bool ok = true;
    for (int i = 1; i < threads && ok; i++)
        ok = start_worker(pool, i);
    *out = pool;
    if (ok) return true;
    pool_destroy(out);
    return ey_fail(e, EY_NO_MEMORY,
                   "the system refused to start %d threads; use --threads with a smaller number",
                   threads);
}

void pool_destroy(struct pool **out)
{
    struct pool *pool = *out;
    if (!pool) return;
    atomic_store(&pool->stop, true);
    wake_workers(pool);
    for (int i = 0; i < pool->n_started; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool->threads);
    free(pool->ranges);
    free(pool);
    *out = NULL;
}

int pool_threads(const struct pool *pool)
{
    return pool->n_threads;
}

/* If a loop is too short to share, runs it on the calling thread. Returns false if all threads
 * should run it. */
static bool run_alone(const struct pool *pool, size_t n, size_t min_chunk, pool_fn *fn,
                      void *context)
{
    if (pool->n_started > 0 && n > min_chunk) return false;
    if (n) fn(context, 0, n, 0);
    return true;
}

static void pool_run_loop(struct pool *pool, size_t n, bool by_range, pool_fn *fn, void *context)
{
    pool->fn = fn;
    pool->context = context;
    pool->n = n;
    pool->by_range = by_range;
    if (by_range)
        assign_ranges(pool);
    else
        atomic_store(&pool->next, 0);
    atomic_store(&pool->n_running, pool->n_started);
    wake_workers(pool);
    pool_work(pool, 0);
    wait_for_workers(pool);
}

void pool_run(struct pool *pool, size_t n, size_t grain, pool_fn *fn, void *context)
{
    if (run_alone(pool, n, grain, fn, context)) return;
    pool->chunk = grain ? grain : 1;
    pool_run_loop(pool, n, false, fn, context);
}

void pool_run_ranges(struct pool *pool, size_t n, size_t chunk, size_t min_chunk, pool_fn *fn,
                     void *context)
{
    if (run_alone(pool, n, min_chunk, fn, context)) return;
    pool->min_chunk = min_chunk ? min_chunk : 1;
    pool->chunk = chunk > pool->min_chunk ? chunk : pool->min_chunk;
    pool_run_loop(pool, n, true, fn, context);
}
