/* SPDX-License-Identifier: Apache-2.0 */
/* A list of tickets. */
#include "engine/queue.h"

#include "engine/ticket.h"

void queue_push(struct queue *q, ey_ticket *t)
{
    t->next = NULL;
    if (q->last)
        q->last->next = t;
    else
        q->first = t;
    q->last = t;
    q->n++;
}

void queue_push_front(struct queue *q, ey_ticket *t)
{
    t->next = q->first;
    q->first = t;
    if (!q->last) q->last = t;
    q->n++;
}

void queue_remove(struct queue *q, ey_ticket *t)
{
    ey_ticket *before = NULL, *at = q->first;
    while (at != t) {
        before = at;
        at = at->next;
    }
    if (before)
        before->next = t->next;
    else
        q->first = t->next;
    if (q->last == t) q->last = before;
    q->n--;
}
