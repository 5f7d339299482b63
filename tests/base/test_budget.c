/* SPDX-License-Identifier: Apache-2.0 */
/* The shared budget: it never lends more than its total, and every waiter is served. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "eyelet.h"

static void budgets_lend_and_take_back(void **state)
{
    (void)state;
    ey_budget *b = ey_budget_create(100);
    assert_non_null(b);
    assert_int_equal(ey_budget_total(b), 100);
    assert_true(ey_budget_acquire(b, 0, 0));
    assert_true(ey_budget_acquire(b, 60, 0));
    assert_false(ey_budget_acquire(b, 41, 0));
    assert_false(ey_budget_acquire(b, 41, 20)); /* nobody releases any */
    assert_true(ey_budget_acquire(b, 40, 0));
    assert_int_equal(ey_budget_used(b), 100);
    assert_true(ey_budget_acquire(b, 0, 0));
    assert_false(ey_budget_acquire(b, 1, 0));
    ey_budget_release(b, 60);
    ey_budget_release(b, 40);
    assert_int_equal(ey_budget_used(b), 0);
    assert_true(ey_budget_acquire(b, 100, 0));
    ey_budget_release(b, 100);
    ey_budget_free(&b);
    assert_null(b);
    ey_budget_free(&b);
}

/* A request for more than the total is refused immediately, even with a timeout. */
static void more_than_the_total_is_refused(void **state)
{
    (void)state;
    static const uint64_t totals[] = {0, 100, UINT64_MAX - 1};
    for (int i = 0; i < 3; i++) {
        ey_budget *b = ey_budget_create(totals[i]);
        assert_false(ey_budget_acquire(b, totals[i] + 1, 1 << 30));
        assert_false(ey_budget_acquire(b, UINT64_MAX, 1 << 30));
        assert_true(ey_budget_acquire(b, totals[i], 0));
        if (totals[i])
            assert_false(ey_budget_acquire(b, totals[i], 0)); /* the sum would overflow */
        assert_int_equal(ey_budget_used(b), totals[i]);
        ey_budget_release(b, totals[i]);
        ey_budget_free(&b);
    }
}

/* The linker calls this in place of the real function (--wrap) to count waiters. They hold the
 * budget's lock. */
static atomic_int n_waits;

int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *end);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *end);

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *end)
{
    atomic_fetch_add(&n_waits, 1);
    return __real_pthread_cond_timedwait(cond, lock, end);
}

struct waiter {
    ey_budget *budget;
    pthread_t thread;
    uint64_t n;
    int timeout_ms; /* 0: one minute */
    bool first, got;
};

static void *wait_for_it(void *user)
{
    struct waiter *w = user;
    const int timeout_ms = w->timeout_ms ? w->timeout_ms : 60000;
    w->got = w->first ? ey_budget_acquire_first(w->budget, w->n, timeout_ms)
                      : ey_budget_acquire(w->budget, w->n, timeout_ms);
    return NULL;
}

/* Starts a waiting thread and returns once it waits. */
static void start_waiter(struct waiter *w)
{
    const int before = atomic_load(&n_waits);
    assert_int_equal(pthread_create(&w->thread, NULL, wait_for_it, w), 0);
    while (atomic_load(&n_waits) == before)
        sched_yield();
}

static void waiters_are_served(void **state)
{
    (void)state;
    ey_budget *b = ey_budget_create(100);
    struct waiter w[2] = {{.budget = b, .n = 30}, {.budget = b, .n = 70}};
    assert_true(ey_budget_acquire(b, 100, 0));
    atomic_store(&n_waits, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&w[i].thread, NULL, wait_for_it, &w[i]), 0);
    while (atomic_load(&n_waits) < 2)
        sched_yield();
    ey_budget_release(b, 30);
    ey_budget_release(b, 70);
    for (int i = 0; i < 2; i++)
        pthread_join(w[i].thread, NULL);
    assert_true(w[0].got && w[1].got);
    assert_int_equal(ey_budget_used(b), 100);
    ey_budget_release(b, 100);
    ey_budget_free(&b);
}

/* ---- many threads ---- */

enum { THREADS = 8, ROUNDS = 3000, TOTAL = 1000 };

struct crowd {
    ey_budget *budget;
    atomic_int taken;
    atomic_bool over;
};

struct member {
    struct crowd *crowd;
    pthread_t thread;
    unsigned noise;
};

static void *take_and_give(void *user)
{
    struct member *m = user;
    for (int i = 0; i < ROUNDS; i++) {
        m->noise = m->noise * 1664525u + 1013904223u;
        int n = 1 + (int)(m->noise >> 8) % 400;
        if (!ey_budget_acquire(m->crowd->budget, (uint64_t)n, (m->noise >> 24) % 3 ? 60000 : 0))
            continue;
        if (atomic_fetch_add(&m->crowd->taken, n) + n > TOTAL) atomic_store(&m->crowd->over, true);
        atomic_fetch_sub(&m->crowd->taken, n);
        ey_budget_release(m->crowd->budget, (uint64_t)n);
    }
    return NULL;
}

static void the_total_is_never_exceeded(void **state)
{
    (void)state;
    struct crowd crowd = {.budget = ey_budget_create(TOTAL)};
    struct member members[THREADS];
    for (int i = 0; i < THREADS; i++) {
        members[i] = (struct member){.crowd = &crowd, .noise = (unsigned)i};
        assert_int_equal(pthread_create(&members[i].thread, NULL, take_and_give, &members[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(members[i].thread, NULL);
    assert_false(atomic_load(&crowd.over));
    assert_int_equal(ey_budget_used(crowd.budget), 0);
    ey_budget_free(&crowd.budget);
}

/* ---- shares ---- */

static void one_client_leaves_some_to_others(void **state)
{
    (void)state;
    ey_budget *whole = ey_budget_create(160);
    ey_budget *busy = ey_budget_part_open(whole, 1, 0), *again = ey_budget_part_open(whole, 1, 0),
              *other = ey_budget_part_open(whole, 0, 1);
    assert_ptr_equal(busy, again);
    assert_ptr_not_equal(busy, other);
    assert_int_equal(ey_budget_total(busy), 160);
    assert_true(ey_budget_acquire(busy, 150, 0)); /* 15 times the 10 bytes that remain */
    assert_false(ey_budget_acquire(busy, 5, 0));
    assert_true(ey_budget_acquire(other, 10, 0));
    assert_int_equal(ey_budget_used(busy), 150);
    assert_int_equal(ey_budget_used(other), 10);
    assert_int_equal(ey_budget_used(whole), 160);
    ey_budget_release(other, 10);
    ey_budget_part_close(&again); /* a client's only request may use all */
    assert_true(ey_budget_acquire(busy, 10, 0));
    assert_false(ey_budget_acquire(other, 1, 0));
    ey_budget_part_close(&busy);
    busy = ey_budget_part_open(whole, 1, 0); /* reopening a share keeps what it holds */
    assert_int_equal(ey_budget_used(busy), 160);
    ey_budget_release(busy, 160);
    ey_budget_part_close(&busy);
    ey_budget_part_close(&other);
    assert_null(busy);
    assert_int_equal(ey_budget_used(whole), 0);
    ey_budget_free(&whole);
}

/* While a smaller client waits, a larger one may only finish requests that it has begun. */
static void larger_clients_wait_for_smaller_ones(void **state)
{
    (void)state;
    ey_budget *whole = ey_budget_create(160);
    ey_budget *busy = ey_budget_part_open(whole, 1, 0), *other = ey_budget_part_open(whole, 2, 0);
    struct waiter w = {.budget = other, .n = 60};
    assert_true(ey_budget_acquire_first(busy, 120, 0));
    assert_false(ey_budget_is_awaited(whole));
    assert_true(ey_budget_acquire_first(busy, 10, 0));
    ey_budget_release(busy, 10);
    atomic_store(&n_waits, 0);
    assert_int_equal(pthread_create(&w.thread, NULL, wait_for_it, &w), 0);
    while (atomic_load(&n_waits) < 1)
        sched_yield();
    assert_true(ey_budget_is_awaited(whole));
    assert_false(ey_budget_acquire_first(busy, 10, 0));
    assert_true(ey_budget_acquire(busy, 10, 0));
    ey_budget_release(busy, 60);
    pthread_join(w.thread, NULL);
    assert_true(w.got);
    assert_true(ey_budget_acquire_first(busy, 10, 0));
    ey_budget_release(busy, 80);
    ey_budget_release(other, 60);
    ey_budget_part_close(&busy);
    ey_budget_part_close(&other);
    ey_budget_free(&whole);
}

enum { WAKING_SECONDS = 10, WAITING_MS = 30000 };

/* The last request of a client may use the whole budget and is woken for it. */
static void the_last_user_is_woken(void **state)
{
    (void)state;
    ey_budget *whole = ey_budget_create(160);
    ey_budget *busy = ey_budget_part_open(whole, 1, 0), *again = ey_budget_part_open(whole, 1, 0);
    struct waiter w = {.budget = busy, .n = 60, .timeout_ms = WAITING_MS};
    assert_true(ey_budget_acquire(busy, 100, 0));
    start_waiter(&w);
    const double start = seconds_now();
    ey_budget_part_close(&again);
    pthread_join(w.thread, NULL);
    assert_true(w.got);
    assert_true(seconds_now() - start < WAKING_SECONDS);
    ey_budget_release(busy, 160);
    ey_budget_part_close(&busy);
    ey_budget_free(&whole);
}

/* A request that yielded to a waiter continues when that waiter gives up, although nothing was
 * released. */
static void yielding_requests_are_woken(void **state)
{
    (void)state;
    ey_budget *whole = ey_budget_create(160);
    ey_budget *busy = ey_budget_part_open(whole, 1, 0), *other = ey_budget_part_open(whole, 2, 0);
    struct waiter impatient = {.budget = other, .n = 40, .timeout_ms = 1000},
                  patient = {.budget = busy, .n = 10, .timeout_ms = WAITING_MS, .first = true};
    assert_true(ey_budget_acquire_first(busy, 130, 0));
    const double start = seconds_now();
    start_waiter(&impatient);
    start_waiter(&patient);
    pthread_join(impatient.thread, NULL);
    pthread_join(patient.thread, NULL);
    assert_false(impatient.got);
    assert_true(patient.got);
    assert_true(seconds_now() - start < WAKING_SECONDS);
    ey_budget_release(busy, 140);
    ey_budget_part_close(&busy);
    ey_budget_part_close(&other);
    ey_budget_free(&whole);
}

/* A deadline in the past means one check, not an endless loop with an invalid time. */
static void negative_waits_end(void **state)
{
    (void)state;
    ey_budget *b = ey_budget_create(1);
    assert_true(ey_budget_acquire(b, 1, -1));
    for (int i = 0; i < 1000; i++) {
        const struct timespec end = deadline_after(-0.001 * i);
        assert_true(end.tv_nsec >= 0);
        assert_true(end.tv_nsec < 1000000000);
    }
    assert_false(ey_budget_acquire(b, 1, -999));
    ey_budget_release(b, 1);
    ey_budget_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_client_leaves_some_to_others),
        cmocka_unit_test(larger_clients_wait_for_smaller_ones),
        cmocka_unit_test(budgets_lend_and_take_back),
        cmocka_unit_test(more_than_the_total_is_refused),
        cmocka_unit_test(waiters_are_served),
        cmocka_unit_test(the_total_is_never_exceeded),
        cmocka_unit_test(the_last_user_is_woken),
        cmocka_unit_test(yielding_requests_are_woken),
        cmocka_unit_test(negative_waits_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
