/* SPDX-License-Identifier: Apache-2.0 */
/* A FIFO of generations as a linked list. */
#include "engine/request/request_queue.h"

#include "engine/request/generation.h"

void request_queue_push(struct request_queue *q, ey_generation *gen)
{
    gen->next = NULL;
    if (q->last)
        q->last->next = gen;
    else
        q->first = gen;
    q->last = gen;
    q->n++;
}

void request_queue_push_front(struct request_queue *q, ey_generation *gen)
{
    gen->next = q->first;
    q->first = gen;
    if (!q->last) q->last = gen;
    q->n++;
}

void request_queue_remove(struct request_queue *q, ey_generation *gen)
{
    ey_generation *before = NULL, *at = q->first;
    while (at != gen) {
        before = at;
        at = at->next;
    }
    if (before)
        before->next = gen->next;
    else
        q->first = gen->next;
    if (q->last == gen) q->last = before;
    q->n--;
}
