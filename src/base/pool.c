/* A team of threads that sleeps between loops. Pieces of a loop are taken from a shared counter, so a slow
 * core takes fewer; which thread computes a piece never changes its result. */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"

struct pool {
    int n_threads; /* the caller included */
    int n_started;
    pthread_t *threads;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    uint64_t generation; /* counts loops; a worker waits for it to move */
    int n_running;
    bool stop;
    pool_fn *fn;
    void *context;
    size_t n, grain;
    atomic_size_t next;
};

struct worker {
    struct pool *pool;
    int index;
};

/* CPU quota of the control group in processors (cgroup v2), or 0 when there is none. */
static int quota_processors(void)
{
    long long quota = -1, period = 0;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (f) {
        if (fscanf(f, "%lld %lld", &quota, &period) != 2) quota = -1;
        fclose(f);
    }
    return quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

int processors_usable(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    int quota = quota_processors();
    if (quota > 0 && quota < n) n = quota;
    return n < 1 ? 1 : n > EY_MAX_THREADS ? EY_MAX_THREADS : n;
}

static void take_pieces(struct pool *pool, int thread)
{
    for (;;) {
        size_t begin = atomic_fetch_add(&pool->next, pool->grain);
        if (begin >= pool->n) return;
        size_t end = pool->n - begin < pool->grain ? pool->n : begin + pool->grain;
        pool->fn(pool->context, begin, end, thread);
    }
}

static void *worker_main(void *argument)
{
    struct worker self = *(struct worker *)argument;
    free(argument);
    struct pool *pool = self.pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->stop && pool->generation == seen) pthread_cond_wait(&pool->work, &pool->lock);
        if (pool->stop) break;
        seen = pool->generation;
        pthread_mutex_unlock(&pool->lock);
        take_pieces(pool, self.index);
        pthread_mutex_lock(&pool->lock);
        if (--pool->n_running == 0) pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static bool start_worker(struct pool *pool, int index)
{
    struct worker *worker = malloc(sizeof(*worker));
    if (!worker) return false;
    *worker = (struct worker){pool, index};
    if (pthread_create(&pool->threads[index - 1], NULL, worker_main, worker) != 0) return free(worker), false;
    pool->n_started++;
    return true;
}

bool pool_create(struct pool **out, int threads, ey_err *e)
{
    if (threads <= 0) threads = processors_usable();
    if (threads > EY_MAX_THREADS) threads = EY_MAX_THREADS;
    struct pool *pool = calloc(1, sizeof(*pool));
    pthread_t *ids = calloc((size_t)threads, sizeof(*ids));
    if (!pool || !ids) return free(pool), free(ids), ey_fail_memory(e, "threads", 0);
    pool->n_threads = threads, pool->threads = ids;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    bool ok = true;
    for (int i = 1; i < threads && ok; i++) ok = start_worker(pool, i);
    *out = pool;
    if (ok) return true;
    pool_destroy(out);
    return ey_fail(e, EY_NO_MEMORY, "the system refused to start %d threads; use --threads with a smaller number", threads);
}

void pool_destroy(struct pool **out)
{
    struct pool *pool = *out;
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->n_started; i++) pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool->threads);
    free(pool);
    *out = NULL;
}

int pool_threads(const struct pool *pool)
{
    return pool->n_threads;
}

void pool_run(struct pool *pool, size_t n, size_t grain, pool_fn *fn, void *context)
{
    if (!n) return;
    if (!grain) grain = 1;
    if (pool->n_started == 0 || n <= grain) {
        fn(context, 0, n, 0);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->fn = fn, pool->context = context, pool->n = n, pool->grain = grain;
    atomic_store(&pool->next, 0);
    pool->n_running = pool->n_started;
    pool->generation++;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    take_pieces(pool, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->n_running) pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
