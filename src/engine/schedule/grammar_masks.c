/* SPDX-License-Identifier: Apache-2.0 */
/* A step's masks depend only on tokens that are known before it begins, so a thread computes them
 * while the device computes the step. matcher_mask() then finds the mask ready. */
#include "engine/schedule/grammar_masks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static int histogram_bucket(double seconds)
{
    double us = seconds * 1e6, first = EY_MASK_FIRST_US;
    int i = us > first ? (int)(EY_MASK_BUCKETS_PER_OCTAVE * log2(us / first)) + 1 : 0;
    return i < EY_MASK_BUCKETS ? i : EY_MASK_BUCKETS - 1;
}

double ey_mask_percentile(const ey_mask_stats *stats, double share)
{
    uint64_t left = (uint64_t)ceil(share * (double)stats->count);
    int i = 0;
    for (; i < EY_MASK_BUCKETS - 1 && stats->buckets[i] < left; i++)
        left -= stats->buckets[i];
    return stats->count ? EY_MASK_FIRST_US * exp2((double)i / EY_MASK_BUCKETS_PER_OCTAVE) * 1e-6
                        : 0;
}

/* Called under the lock, which it releases while it computes. */
static void compute_next_mask(struct grammar_masks *m)
{
    struct matcher *c = m->matchers[m->n_done];
    pthread_mutex_unlock(&m->lock);
    double start = seconds_now();
    matcher_mask(c);
    double seconds = seconds_now() - start;
    pthread_mutex_lock(&m->lock);
    m->stats.count++;
    m->stats.buckets[histogram_bucket(seconds)]++;
    if (++m->n_done == m->n) pthread_cond_signal(&m->ready);
}

static void *grammar_masks_run(void *user)
{
    struct grammar_masks *m = user;
    pthread_mutex_lock(&m->lock);
    while (!m->closing) {
        if (m->n_done < m->n)
            compute_next_mask(m);
        else
            pthread_cond_wait(&m->wanted, &m->lock);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

bool grammar_masks_open(struct grammar_masks *m, int max_matchers, ey_err *e)
{
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->wanted, NULL);
    pthread_cond_init(&m->ready, NULL);
    m->matchers = calloc((size_t)max_matchers, sizeof(struct matcher *));
    if (!m->matchers)
        return ey_fail_memory(e, "masks", (size_t)max_matchers * sizeof(struct matcher *));
    m->started = pthread_create(&m->thread, NULL, grammar_masks_run, m) == 0;
    return m->started ||
           ey_fail(e, EY_NO_MEMORY, "the thread for grammar masks could not be started");
}

void grammar_masks_close(struct grammar_masks *m)
{
    if (m->started) {
        pthread_mutex_lock(&m->lock);
        m->closing = true;
        pthread_cond_signal(&m->wanted);
        pthread_mutex_unlock(&m->lock);
        pthread_join(m->thread, NULL);
    }
    free(m->matchers);
    *m = (struct grammar_masks){.started = false};
}

void grammar_masks_start(struct grammar_masks *m, struct matcher *const *matchers, int n)
{
    if (!n) return;
    pthread_mutex_lock(&m->lock);
    memcpy(m->matchers, matchers, (size_t)n * sizeof(struct matcher *));
    m->n_done = 0;
    m->n = n;
    pthread_cond_signal(&m->wanted);
    pthread_mutex_unlock(&m->lock);
}

void grammar_masks_wait(struct grammar_masks *m)
{
    pthread_mutex_lock(&m->lock);
    double start = m->n_done < m->n ? seconds_now() : 0;
    while (m->n_done < m->n)
        pthread_cond_wait(&m->ready, &m->lock);
    if (start > 0) m->stats.step_wait_seconds += seconds_now() - start;
    pthread_mutex_unlock(&m->lock);
}

ey_mask_stats grammar_masks_stats(struct grammar_masks *m)
{
    pthread_mutex_lock(&m->lock);
    ey_mask_stats stats = m->stats;
    pthread_mutex_unlock(&m->lock);
    return stats;
}
