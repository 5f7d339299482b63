/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that several threads share (eyelet.h). */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "eyelet/budget.h"

struct ey_budget {
    pthread_mutex_t lock;
    pthread_cond_t released;
    uint64_t total, used;
};

ey_budget *ey_budget_create(uint64_t bytes)
{
    ey_budget *b = calloc(1, sizeof(*b));
    if (!b) return NULL;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&b->released, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&b->lock, NULL);
    b->total = bytes;
    return b;
}

void ey_budget_free(ey_budget **budget)
{
    ey_budget *b = *budget;
    if (!b) return;
    pthread_cond_destroy(&b->released);
    pthread_mutex_destroy(&b->lock);
    free(b);
    *budget = NULL;
}

static struct timespec budget_deadline(int ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

bool ey_budget_acquire(ey_budget *b, uint64_t n, int timeout_ms)
{
    if (n > b->total) return false;
    struct timespec end = budget_deadline(timeout_ms);
    int status = 0;
    pthread_mutex_lock(&b->lock);
    while (n > b->total - b->used && status != ETIMEDOUT)
        status = pthread_cond_timedwait(&b->released, &b->lock, &end);
    bool fits = n <= b->total - b->used;
    if (fits) b->used += n;
    pthread_mutex_unlock(&b->lock);
    return fits;
}

void ey_budget_release(ey_budget *b, uint64_t n)
{
    pthread_mutex_lock(&b->lock);
    b->used -= n;
    pthread_cond_broadcast(&b->released);
    pthread_mutex_unlock(&b->lock);
}

uint64_t ey_budget_total(const ey_budget *budget)
{
    return budget->total;
}

uint64_t ey_budget_used(ey_budget *b)
{
    pthread_mutex_lock(&b->lock);
    uint64_t used = b->used;
    pthread_mutex_unlock(&b->lock);
    return used;
}
