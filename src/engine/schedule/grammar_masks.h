/* SPDX-License-Identifier: Apache-2.0 */
/* The masks of a step's constrained answers, made by a thread of their own while the device
 * computes the step. */
#ifndef EY_ENGINE_MASKS_H
#define EY_ENGINE_MASKS_H

#include <pthread.h>

#include "constrain/constrain.h"
#include "eyelet.h"

struct grammar_masks {
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t wanted, ready;
    struct matcher **matchers; /* [n] of a step; those before `made` have their masks */
    int n, n_done;
    bool closing;
    ey_mask_stats stats;
};

/* For steps of at most `most` answers. */
bool grammar_masks_open(struct grammar_masks *m, int max_matchers, ey_err *e);
/* Also of what was not opened. */
void grammar_masks_close(struct grammar_masks *m);

/* Begins with those of of[n]; until grammar_masks_wait they are this thread's. n may be 0. */
void grammar_masks_start(struct grammar_masks *m, struct matcher *const *matchers, int n);
/* Until all are made. */
void grammar_masks_wait(struct grammar_masks *m);
ey_mask_stats grammar_masks_stats(struct grammar_masks *m);

#endif
