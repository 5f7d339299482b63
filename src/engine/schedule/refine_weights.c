/* SPDX-License-Identifier: Apache-2.0 */
/* Between steps and when idle, the backend may convert placed weights to a form that is read
 * faster. Servers do so for a while before they are ready, and then spend a small share of their
 * time on it until it is done, since later requests gain. One-shot commands at first do it only
 * when idle, since their first request may be the last. */
#include "engine/schedule/refine_weights.h"

#include "base/clock.h"

#define REFINE_SECONDS 0.02       /* most time between two steps, unless one matrix takes longer */
#define REFINE_START_SECONDS 2.0  /* before a server is ready */
#define REFINE_DELAY_SECONDS 10.0 /* before a one-shot command also refines between steps */

enum { SERVER_REST = 9, COMMAND_REST = 2 }; /* seconds of steps for each second of refining */

/* Returns the backend that reads weights from host memory. */
static struct backend *refined_backend(const struct engine_devices *devices)
{
    return devices->cpu ? devices->cpu : devices->be;
}

static void refine_for(ey_engine *engine, double seconds)
{
    struct backend *be = refined_backend(&engine->devices);
    struct refine_progress progress;
    const double start = seconds_now();
    const bool left = be->ops->memory->refine(be, seconds, &progress);
    const double end = seconds_now();
    pthread_mutex_lock(&engine->scheduler.lock);
    engine->devices.refinement.left = left;
    engine->devices.refinement.progress = progress;
    engine->devices.refinement.next_time =
        end + (engine->devices.refinement.eager ? SERVER_REST : COMMAND_REST) * (end - start);
    if (!left) pthread_cond_broadcast(&engine->devices.refinement.done);
    pthread_mutex_unlock(&engine->scheduler.lock);
}

void refine_weights_start(ey_engine *engine, bool eager)
{
    if (!refined_backend(&engine->devices)->ops->memory->refine) return;
    engine->devices.refinement.eager = eager;
    engine->devices.refinement.start_time = seconds_now();
    refine_for(engine, 0);
    while (eager && engine->devices.refinement.left &&
           seconds_now() - engine->devices.refinement.start_time < REFINE_START_SECONDS)
        refine_for(engine, REFINE_SECONDS);
}

bool refine_weights_now(const struct engine_devices *devices, bool has_work)
{
    const struct refinement *r = &devices->refinement;
    if (!r->left || !has_work) return r->left;
    const double now = seconds_now();
    return now >= r->next_time && (r->eager || now - r->start_time > REFINE_DELAY_SECONDS);
}

void refine_weights_some(ey_engine *engine)
{
    refine_for(engine, REFINE_SECONDS);
}

uint64_t refine_weights_saved_bytes(const ey_engine *const_engine)
{
    ey_engine *engine = (ey_engine *)const_engine;
    pthread_mutex_lock(&engine->scheduler.lock);
    const uint64_t bytes = engine->devices.refinement.progress.saved_bytes;
    pthread_mutex_unlock(&engine->scheduler.lock);
    return bytes;
}

uint64_t ey_engine_wait_huge_pages(ey_engine *engine)
{
    pthread_mutex_lock(&engine->scheduler.lock);
    while (engine->devices.refinement.left)
        pthread_cond_wait(&engine->devices.refinement.done, &engine->scheduler.lock);
    const uint64_t bytes = engine->devices.refinement.progress.bytes;
    pthread_mutex_unlock(&engine->scheduler.lock);
    return bytes;
}
