/* SPDX-License-Identifier: Apache-2.0 */
/* A memory budget shared by threads, with a fair share for each client (eyelet/budget.h). */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "eyelet/budget.h"

struct ey_budget {
    ey_budget *whole; /* the budget that this is a part of, or itself */
    uint64_t used;
    int waiting; /* waiting threads; of a whole budget, those of its parts too */
    /* only in a whole budget */
    pthread_mutex_t lock;
    pthread_cond_t released;
    uint64_t total;
    ey_budget *parts;
    /* only in a part */
    ey_budget *next;
    uint64_t high, low;
    int users;
};

ey_budget *ey_budget_create(uint64_t bytes)
{
    ey_budget *b = calloc(1, sizeof(*b));
    if (!b) return NULL;
    cond_init_monotonic(&b->released);
    pthread_mutex_init(&b->lock, NULL);
    b->whole = b;
    b->total = bytes;
    return b;
}

void ey_budget_free(ey_budget **budget)
{
    ey_budget *b = *budget;
    if (!b) return;
    while (b->parts) {
        ey_budget *part = b->parts;
        b->parts = part->next;
        free(part);
    }
    pthread_cond_destroy(&b->released);
    pthread_mutex_destroy(&b->lock);
    free(b);
    *budget = NULL;
}

/* ---- parts ---- */

static ey_budget *find_part(const ey_budget *whole, uint64_t high, uint64_t low)
{
    ey_budget *part = whole->parts;
    while (part && (part->high != high || part->low != low))
        part = part->next;
    return part;
}

ey_budget *ey_budget_part_open(ey_budget *whole, uint64_t high, uint64_t low)
{
    pthread_mutex_lock(&whole->lock);
    ey_budget *part = find_part(whole, high, low);
    if (!part && (part = calloc(1, sizeof(*part))) != NULL) {
        *part = (ey_budget){.whole = whole, .next = whole->parts, .high = high, .low = low};
        whole->parts = part;
    }
    if (part) part->users++;
    pthread_mutex_unlock(&whole->lock);
    return part;
}

/* Frees a part without users and without bytes in use. */
static void drop_part(ey_budget *part)
{
    if (part->whole == part || part->users || part->used) return;
    ey_budget **at = &part->whole->parts;
    while (*at != part)
        at = &(*at)->next;
    *at = part->next;
    free(part);
}

void ey_budget_part_close(ey_budget **out)
{
    ey_budget *part = *out;
    *out = NULL;
    if (!part) return;
    ey_budget *whole = part->whole;
    pthread_mutex_lock(&whole->lock);
    part->users--;
    drop_part(part);
    pthread_cond_broadcast(&whole->released); /* the shares of the remaining users may have grown */
    pthread_mutex_unlock(&whole->lock);
}

/* ---- fair shares ---- */

/* Whether taking n would put this part above an equal share while a part with less than that
 * waits. */
static bool is_over_equal_share(const ey_budget *part, uint64_t n)
{
    const ey_budget *whole = part->whole;
    uint64_t n_parts = 0;
    for (const ey_budget *p = whole->parts; p; p = p->next)
        n_parts += p->users > 0;
    uint64_t equal = whole->total / (n_parts ? n_parts : 1);
    if (part->used + n <= equal) return false;
    for (const ey_budget *p = whole->parts; p; p = p->next)
        if (p != part && p->waiting && p->used < equal) return true;
    return false;
}

/* A part with several users must leave a reserve for other parts; a single user may take all. */
static bool may_take(const ey_budget *b, uint64_t n, bool first)
{
    uint64_t left = b->whole->total - b->whole->used;
    if (n > left) return false;
    if (b->whole == b) return true;
    if (first && is_over_equal_share(b, n)) return false;
    return b->users < 2 || (b->used + n) / EY_BUDGET_SHARE <= left - n;
}

static bool acquire_bytes(ey_budget *b, uint64_t n, int timeout_ms, bool first)
{
    ey_budget *whole = b->whole;
    if (n > whole->total) return false;
    struct timespec end = deadline_after(timeout_ms / 1e3);
    int status = 0;
    pthread_mutex_lock(&whole->lock);
    b->waiting++;
    if (b != whole) whole->waiting++;
    while (!may_take(b, n, first) && status != ETIMEDOUT)
        status = pthread_cond_timedwait(&whole->released, &whole->lock, &end);
    bool taken = may_take(b, n, first);
    b->waiting--;
    if (b != whole) whole->waiting--;
    if (taken) {
        whole->used += n;
        if (b != whole) b->used += n;
    }
    /* Wakes threads that may_take() held back while this one waited. */
    if (b != whole) pthread_cond_broadcast(&whole->released);
    pthread_mutex_unlock(&whole->lock);
    return taken;
}

bool ey_budget_acquire(ey_budget *b, uint64_t n, int timeout_ms)
{
    return acquire_bytes(b, n, timeout_ms, false);
}

bool ey_budget_acquire_first(ey_budget *b, uint64_t n, int timeout_ms)
{
    return acquire_bytes(b, n, timeout_ms, true);
}

void ey_budget_release(ey_budget *b, uint64_t n)
{
    ey_budget *whole = b->whole;
    pthread_mutex_lock(&whole->lock);
    whole->used -= n;
    if (b != whole) b->used -= n;
    drop_part(b);
    pthread_cond_broadcast(&whole->released);
    pthread_mutex_unlock(&whole->lock);
}

uint64_t ey_budget_total(const ey_budget *budget)
{
    return budget->whole->total;
}

uint64_t ey_budget_used(ey_budget *b)
{
    pthread_mutex_lock(&b->whole->lock);
    uint64_t used = b->used;
    pthread_mutex_unlock(&b->whole->lock);
    return used;
}

bool ey_budget_is_awaited(ey_budget *b)
{
    pthread_mutex_lock(&b->whole->lock);
    bool awaited = b->waiting > 0;
    pthread_mutex_unlock(&b->whole->lock);
    return awaited;
}
