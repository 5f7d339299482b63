/* SPDX-License-Identifier: Apache-2.0 */
/* Grammar masks of a step's constrained requests, computed by a separate thread while the device
 * computes the step. */
#ifndef EY_ENGINE_SCHEDULE_GRAMMAR_MASKS_H
#define EY_ENGINE_SCHEDULE_GRAMMAR_MASKS_H

#include <pthread.h>

#include "constrain/constrain.h"
#include "eyelet.h"

struct grammar_masks {
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* protects the fields below */
    pthread_cond_t wanted, ready;
    struct matcher **matchers; /* [n] of the current step; the first n_done have their masks */
    int n, n_done;
    bool closing;
    ey_mask_stats stats;
};

/* Starts the thread, for steps of at most `max_matchers` constrained requests. */
bool grammar_masks_open(struct grammar_masks *m, int max_matchers, ey_err *e);
/* Accepts a struct that was never opened. */
void grammar_masks_close(struct grammar_masks *m);

/* Starts computing the masks of matchers[n], which the thread owns until grammar_masks_wait(). n
 * may be 0. */
void grammar_masks_start(struct grammar_masks *m, struct matcher *const *matchers, int n);
/* Waits until all masks are computed. */
void grammar_masks_wait(struct grammar_masks *m);
ey_mask_stats grammar_masks_stats(struct grammar_masks *m);

#endif
