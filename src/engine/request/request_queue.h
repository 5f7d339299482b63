/* SPDX-License-Identifier: Apache-2.0 */
/* The FIFO of waiting generations. Called under scheduler.lock. */
#ifndef EY_ENGINE_REQUEST_REQUEST_QUEUE_H
#define EY_ENGINE_REQUEST_REQUEST_QUEUE_H

#include "eyelet.h"

struct request_queue {
    ey_generation *first, *last;
    int n;
};

void request_queue_push(struct request_queue *q, ey_generation *gen);
/* Queues a preempted generation, which runs again before all others. */
void request_queue_push_front(struct request_queue *q, ey_generation *gen);
void request_queue_remove(struct request_queue *q, ey_generation *gen);

#endif
