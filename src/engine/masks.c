/* SPDX-License-Identifier: Apache-2.0 */
/* A step's masks depend on tokens that are known before it begins, so they are made beside it: on a
 * card while the scheduler waits for it, on a CPU beside its threads. constraint_mask() then finds
 * the mask made. */
#include "engine/masks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static int step_of_time(double seconds)
{
    double us = seconds * 1e6, first = EY_MASK_FIRST_US;
    int i = us > first ? (int)(EY_MASK_STEPS_AN_OCTAVE * log2(us / first)) + 1 : 0;
    return i < EY_MASK_STEPS ? i : EY_MASK_STEPS - 1;
}

double ey_mask_percentile(const ey_mask_stats *stats, double share)
{
    uint64_t left = (uint64_t)ceil(share * (double)stats->made);
    int i = 0;
    for (; i < EY_MASK_STEPS - 1 && stats->steps[i] < left; i++)
        left -= stats->steps[i];
    return stats->made ? EY_MASK_FIRST_US * exp2((double)i / EY_MASK_STEPS_AN_OCTAVE) * 1e-6 : 0;
}

/* Under the lock, which it lets go of meanwhile. */
static void make_next(struct masks *m)
{
    struct constraint *c = m->of[m->made];
    pthread_mutex_unlock(&m->lock);
    double start = seconds_now();
    constraint_mask(c);
    double seconds = seconds_now() - start;
    pthread_mutex_lock(&m->lock);
    m->stats.made++;
    m->stats.steps[step_of_time(seconds)]++;
    if (++m->made == m->n) pthread_cond_signal(&m->ready);
}

static void *run(void *user)
{
    struct masks *m = user;
    pthread_mutex_lock(&m->lock);
    while (!m->closing) {
        if (m->made < m->n)
            make_next(m);
        else
            pthread_cond_wait(&m->wanted, &m->lock);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

bool masks_open(struct masks *m, int most, ey_err *e)
{
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->wanted, NULL);
    pthread_cond_init(&m->ready, NULL);
    m->of = calloc((size_t)most, sizeof(struct constraint *));
    if (!m->of) return ey_fail_memory(e, "masks", (size_t)most * sizeof(struct constraint *));
    m->started = pthread_create(&m->thread, NULL, run, m) == 0;
    return m->started || ey_fail(e, EY_NO_MEMORY, "no thread could be started");
}

void masks_close(struct masks *m)
{
    if (m->started) {
        pthread_mutex_lock(&m->lock);
        m->closing = true;
        pthread_cond_signal(&m->wanted);
        pthread_mutex_unlock(&m->lock);
        pthread_join(m->thread, NULL);
    }
    free(m->of);
    *m = (struct masks){.started = false};
}

void masks_begin(struct masks *m, struct constraint *const *of, int n)
{
    if (!n) return;
    pthread_mutex_lock(&m->lock);
    memcpy(m->of, of, (size_t)n * sizeof(struct constraint *));
    m->made = 0;
    m->n = n;
    pthread_cond_signal(&m->wanted);
    pthread_mutex_unlock(&m->lock);
}

void masks_wait(struct masks *m)
{
    pthread_mutex_lock(&m->lock);
    double start = m->made < m->n ? seconds_now() : 0;
    while (m->made < m->n)
        pthread_cond_wait(&m->ready, &m->lock);
    if (start > 0) m->stats.waited_seconds += seconds_now() - start;
    pthread_mutex_unlock(&m->lock);
}

ey_mask_stats masks_stats(struct masks *m)
{
    pthread_mutex_lock(&m->lock);
    ey_mask_stats stats = m->stats;
    pthread_mutex_unlock(&m->lock);
    return stats;
}
