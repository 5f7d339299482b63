/* SPDX-License-Identifier: Apache-2.0 */
/* The monotonic clock, and condition variables that use it for timed waits. */
#ifndef EY_BASE_CLOCK_H
#define EY_BASE_CLOCK_H

#include <pthread.h>
#include <time.h>

double seconds_now(void);

/* Initializes a condition variable for timed waits on the monotonic clock. */
static inline void cond_init_monotonic(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* Returns the time `seconds` from now on the monotonic clock, for pthread_cond_timedwait. Negative
 * seconds count as 0. */
static inline struct timespec deadline_after(double seconds)
{
    enum { SECOND_NS = 1000000000 };
    struct timespec t;
    if (seconds < 0) seconds = 0;
    const time_t whole = (time_t)seconds;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += whole;
    t.tv_nsec += (long)(SECOND_NS * (seconds - (double)whole));
    if (t.tv_nsec >= SECOND_NS) {
        t.tv_sec++;
        t.tv_nsec -= SECOND_NS;
    }
    return t;
}

#endif
