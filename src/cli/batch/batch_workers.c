/* SPDX-License-Identifier: Apache-2.0 */
/* Worker threads ask; the caller's thread receives the answers. A ring of slots keeps them in order
 * and bounds how many wait to be printed. */
#include "cli/batch/batch_workers.h"

#include <pthread.h>
#include <stdlib.h>

enum { SLOTS_PER_THREAD = 2 };

enum slot_state { SLOT_FREE, SLOT_ASKED, SLOT_DONE };

struct slot {
    struct batch_item item;
    enum slot_state state;
};

struct workers {
    const struct batch_work *work;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct slot *slots; /* [n_slots]; image i is in slot i % n_slots */
    size_t n_slots;
    size_t next, taken; /* images that workers have started, and that take() has received */
    bool stop;
};

/* Waits for a free slot and returns the next image to ask about, or work->n if none is left. */
static size_t begin_next(struct workers *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->stop && w->next < w->work->n && w->next - w->taken >= w->n_slots)
        pthread_cond_wait(&w->changed, &w->lock);
    size_t i = w->stop || w->next >= w->work->n ? w->work->n : w->next++;
    if (i < w->work->n) w->slots[i % w->n_slots].state = SLOT_ASKED;
    pthread_mutex_unlock(&w->lock);
    return i;
}

static void *ask_images_run(void *argument)
{
    struct workers *w = argument;
    for (size_t i = begin_next(w); i < w->work->n; i = begin_next(w)) {
        struct slot *slot = &w->slots[i % w->n_slots];
        w->work->ask(w->work->user, i, &slot->item);
        pthread_mutex_lock(&w->lock);
        slot->state = SLOT_DONE;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
    }
    return NULL;
}

void batch_item_free(struct batch_item *item)
{
    ey_answer_free(&item->answer);
    free(item->vector.number);
    input_images_free(&item->pages);
    input_document_close(&item->document);
    joined_answer_free(&item->joined);
    *item = (struct batch_item){0};
}

/* Passes the answers to take() in order, until it returns false. */
static void take_all(struct workers *w)
{
    for (size_t i = 0; i < w->work->n; i++) {
        struct slot *slot = &w->slots[i % w->n_slots];
        pthread_mutex_lock(&w->lock);
        while (slot->state != SLOT_DONE || w->taken != i)
            pthread_cond_wait(&w->changed, &w->lock);
        pthread_mutex_unlock(&w->lock);
        bool on = w->work->take(w->work->user, i, &slot->item);
        batch_item_free(&slot->item);
        pthread_mutex_lock(&w->lock);
        slot->state = SLOT_FREE;
        w->taken = i + 1;
        w->stop = !on;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
        if (!on) return;
    }
}

static int start_threads(struct workers *w, pthread_t *threads, int n)
{
    int started = 0;
    while (started < n && pthread_create(&threads[started], NULL, ask_images_run, w) == 0)
        started++;
    return started;
}

bool batch_work_run(const struct batch_work *work, ey_err *e)
{
    struct workers w = {.work = work, .n_slots = (size_t)work->n_threads * SLOTS_PER_THREAD};
    pthread_t *threads = calloc((size_t)work->n_threads, sizeof(*threads));
    w.slots = calloc(w.n_slots, sizeof(*w.slots));
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.changed, NULL);
    int n = w.slots && threads ? start_threads(&w, threads, work->n_threads) : 0;
    bool ok = n > 0 || ey_fail_memory(e, "the worker threads", w.n_slots * sizeof(*w.slots));
    if (n) take_all(&w);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; w.slots && i < w.n_slots; i++)
        batch_item_free(&w.slots[i].item);
    pthread_cond_destroy(&w.changed);
    pthread_mutex_destroy(&w.lock);
    free(w.slots);
    free(threads);
    return ok;
}
