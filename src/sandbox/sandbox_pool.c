/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of children. One thread that never exits starts them all: PR_SET_PDEATHSIG kills a child
 * when the thread that started it exits, and children should die only with the process. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/processors.h"
#include "sandbox/sandbox_child.h"

enum { FEWEST_CHILDREN = 3, MOST_CHILDREN = 5, CHECK_MS = 50 };

/* A job that waits for a child. */
struct pool_waiter {
    struct pool_waiter *next;
    const void *client; /* NULL: none, as in a command */
    bool for_program;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* waits use CLOCK_MONOTONIC */
    bool started;           /* the starter thread runs */
    struct sandbox_child *idle, *busy;
    int n_children, most;        /* n_children includes those that are still starting */
    int n_programs;              /* busy children that run a program */
    struct pool_waiter *waiting; /* jobs that wait for a child, in the order in which they came */
    unsigned failures;           /* how many children could not be started */
    ey_err error;                /* of the last failure */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Waits for a change of the pool, at most CHECK_MS. The caller holds the lock. */
static void wait_for_pool(void)
{
    const struct timespec until = deadline_after(CHECK_MS / 1e3);
    pthread_cond_timedwait(&pool.changed, &pool.lock, &until);
}

/* ---- starter thread: holds the lock except while a child starts ---- */

/* Returns whether to start another child: one is kept idle for the next job, up to the maximum. */
static bool wants_child(void)
{
    return pool.n_children < pool.most && !pool.idle;
}

static void start_one_child(void)
{
    ey_err error;
    pool.n_children++;
    pthread_mutex_unlock(&pool.lock);
    struct sandbox_child *child = sandbox_child_start(&error);
    pthread_mutex_lock(&pool.lock);
    if (child) {
        child->next = pool.idle;
        pool.idle = child;
    } else {
        pool.n_children--;
        pool.failures++;
        pool.error = error;
    }
    pthread_cond_broadcast(&pool.changed);
}

static void *keep_children(void *unused)
{
    (void)unused;
    unsigned failures = pool.failures;
    thread_set_pace(PACE_PATIENT); /* children inherit it */
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        /* after a failure, only a waiting job is a reason to retry */
        bool retry = failures == pool.failures || pool.waiting;
        if (wants_child() && retry) {
            failures = pool.failures;
            start_one_child();
            if (failures != pool.failures) wait_for_pool();
        } else {
            pthread_cond_wait(&pool.changed, &pool.lock);
        }
    }
    return NULL;
}

/* ---- jobs ---- */

static int children_for_machine(void)
{
    int n = processors_usable() + 1; /* one more, because a single client cannot use all */
    return n < FEWEST_CHILDREN ? FEWEST_CHILDREN : n > MOST_CHILDREN ? MOST_CHILDREN : n;
}

/* The caller holds the lock. */
static bool start_pool_thread(ey_err *e)
{
    pthread_t thread;
    sigset_t all, before;
    if (pool.started) return true;
    pool.most = children_for_machine();
    cond_init_monotonic(&pool.changed);
    sigfillset(&all); /* signals go to the program's other threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pool.started = pthread_create(&thread, NULL, keep_children, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!pool.started) return ey_fail_memory(e, "a thread for decoders", 0);
    pthread_detach(thread);
    return true;
}

/* ---- shares; the callers hold the lock ---- */

static int count_jobs(const void *client, bool only_programs)
{
    int n = 0;
    for (const struct sandbox_child *child = pool.busy; child; child = child->next)
        n += child->client == client && (child->runs_program || !only_programs);
    return n;
}

static int count_waiting_jobs(const void *client)
{
    int n = 0;
    for (const struct pool_waiter *w = pool.waiting; w; w = w->next)
        n += w->client == client;
    return n;
}

/* Whether the job may have an idle child if nobody else waits. */
static bool may_have_child(const struct pool_waiter *w)
{
    const int places = (pool.most + 1) / 2;
    if (w->for_program && pool.n_programs >= places) return false;
    if (!w->client) return true;
    return count_jobs(w->client, false) < pool.most - 1 &&
           (!w->for_program || count_jobs(w->client, true) < places - 1);
}

/* Returns the job that gets the next child: that of the client with the fewest running jobs, then
 * with the fewest waiting jobs, then the oldest. Returns NULL if none may have a child. */
static const struct pool_waiter *next_job(void)
{
    const struct pool_waiter *best = NULL;
    int fewest = 0, least_waiting = 0;
    for (const struct pool_waiter *w = pool.waiting; w; w = w->next) {
        if (!may_have_child(w)) continue;
        int jobs = count_jobs(w->client, false), waiting = count_waiting_jobs(w->client);
        if (best && (jobs > fewest || (jobs == fewest && waiting >= least_waiting))) continue;
        best = w;
        fewest = jobs;
        least_waiting = waiting;
    }
    return best;
}

static struct sandbox_child *take_idle_child(const struct pool_waiter *w)
{
    struct sandbox_child *child = pool.idle;
    if (!child || next_job() != w) return NULL;
    pool.idle = child->next;
    child->client = w->client;
    child->runs_program = w->for_program;
    pool.n_programs += w->for_program;
    child->next = pool.busy;
    pool.busy = child;
    return child;
}

static void add_waiter(struct pool_waiter *w)
{
    struct pool_waiter **at = &pool.waiting;
    while (*at)
        at = &(*at)->next;
    *at = w;
}

static void drop_waiter(const struct pool_waiter *w)
{
    struct pool_waiter **at = &pool.waiting;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
}

/* ---- borrowing ---- */

/* The caller holds the lock. */
static struct sandbox_child *wait_for_child(const struct pool_waiter *w,
                                            const struct sandbox_limits *limits, double deadline,
                                            ey_err *e)
{
    unsigned failures = pool.failures;
    for (;;) {
        struct sandbox_child *child = take_idle_child(w);
        if (child) return child;
        if (failures != pool.failures && pool.n_children == 0) {
            *e = pool.error;
            return NULL;
        }
        if (limits->gone && limits->gone(limits->user)) {
            ey_fail(e, EY_CANCELLED, "decoding was cancelled");
            return NULL;
        }
        if (seconds_now() > deadline) {
            ey_fail(e, EY_BUSY, "all decoders%s are busy; try again later",
                    w->for_program ? " for documents" : "");
            return NULL;
        }
        wait_for_pool();
    }
}

struct sandbox_child *pool_borrow_child(bool for_program, const struct sandbox_limits *limits,
                                        double deadline, ey_err *e)
{
    struct pool_waiter w = {.client = compute_turns_client(), .for_program = for_program};
    struct sandbox_child *child = NULL;
    ey_err unused;
    pthread_mutex_lock(&pool.lock);
    if (start_pool_thread(e)) {
        add_waiter(&w);
        pthread_cond_broadcast(&pool.changed);
        child = wait_for_child(&w, limits, deadline, e ? e : &unused);
        drop_waiter(&w);
        pthread_cond_broadcast(&pool.changed); /* the next child starts during this job */
    }
    pthread_mutex_unlock(&pool.lock);
    return child;
}

static void remove_child(struct sandbox_child **list, const struct sandbox_child *child)
{
    while (*list != child)
        list = &(*list)->next;
    *list = child->next;
}

void pool_return_child(struct sandbox_child *child, bool idle)
{
    pthread_mutex_lock(&pool.lock);
    remove_child(&pool.busy, child);
    pool.n_programs -= child->runs_program;
    idle = idle && !child->killed;
    if (idle) {
        child->next = pool.idle;
        pool.idle = child;
        pthread_cond_broadcast(&pool.changed);
    }
    pthread_mutex_unlock(&pool.lock);
    if (idle) return;
    sandbox_child_end(child);
    pthread_mutex_lock(&pool.lock);
    pool.n_children--; /* after the child's death, so that never more than `most` are alive */
    pthread_cond_broadcast(&pool.changed);
    pthread_mutex_unlock(&pool.lock);
}

void sandbox_kill_all(void)
{
    pthread_mutex_lock(&pool.lock);
    struct sandbox_child *idle = pool.idle;
    pool.idle = NULL;
    for (struct sandbox_child *child = pool.busy; child; child = child->next) {
        child->killed = true;
        kill(-child->pid, SIGKILL); /* its job sees the socket close, and frees it */
    }
    pthread_mutex_unlock(&pool.lock);
    int n = 0;
    for (struct sandbox_child *next; idle; idle = next, n++) {
        next = idle->next;
        sandbox_child_end(idle);
    }
    pthread_mutex_lock(&pool.lock);
    pool.n_children -= n;
    if (n) pthread_cond_broadcast(&pool.changed); /* the starter may start others */
    pthread_mutex_unlock(&pool.lock);
}
