/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets that wait for their turn, first come first served. Under the engine's lock. */
#ifndef EY_ENGINE_QUEUE_H
#define EY_ENGINE_QUEUE_H

#include "eyelet.h"

struct queue {
    ey_ticket *first, *last;
    int n;
};

void queue_push(struct queue *q, ey_ticket *t);
/* One that was running goes on before all others. */
void queue_push_front(struct queue *q, ey_ticket *t);
void queue_remove(struct queue *q, ey_ticket *t);

#endif
