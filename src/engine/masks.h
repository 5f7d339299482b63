/* SPDX-License-Identifier: Apache-2.0 */
/* The masks of a step's constrained answers, made by a thread of their own while the device
 * computes the step. */
#ifndef EY_ENGINE_MASKS_H
#define EY_ENGINE_MASKS_H

#include <pthread.h>

#include "constrain/constrain.h"
#include "eyelet.h"

struct masks {
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t wanted, ready;
    struct constraint **of; /* [n] of a step; those before `made` have their masks */
    int n, made;
    bool closing;
    ey_mask_stats stats;
};

/* For steps of at most `most` answers. */
bool masks_open(struct masks *m, int most, ey_err *e);
/* Also of what was not opened. */
void masks_close(struct masks *m);

/* Begins with those of of[n]; until masks_wait they are this thread's. n may be 0. */
void masks_begin(struct masks *m, struct constraint *const *of, int n);
/* Until all are made. */
void masks_wait(struct masks *m);
ey_mask_stats masks_stats(struct masks *m);

#endif
