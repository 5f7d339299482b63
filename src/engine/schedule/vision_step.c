/* SPDX-License-Identifier: Apache-2.0 */
/* The vision encoder between steps: an image goes through it in tiles, so that decoding goes on. */
#include "base/clock.h"
#include "engine/schedule/schedule_internal.h"

enum { ENCODER_PROGRESS_UNITS = 1000 }; /* of progress, for each image */

bool next_image(const struct scheduler *scheduler, const ey_generation **found, size_t *index)
{
    for (int i = 0; i < scheduler->n_running; i++) {
        const ey_generation *gen = scheduler->running[i];
        for (size_t k = 0; k < gen->prompt->n_images; k++)
            if (gen->image_entry[k] && !gen->image_entry[k]->ready) {
                *found = gen;
                *index = k;
                return true;
            }
    }
    return false;
}

/* Holds the prompt: the request that brought the image may end while others still wait for it. */
static void start_encoder_run(ey_engine *engine)
{
    const ey_generation *gen;
    size_t i;
    if (engine->scheduler.encoder_entry || !next_image(&engine->scheduler, &gen, &i)) return;
    engine->scheduler.encoder_prompt = gen->prompt;
    prompt_ref(gen->prompt);
    engine->scheduler.encoder_entry = gen->image_entry[i];
    engine->scheduler.encoder_run = encoder_run_begin(engine->buffers.host.pixels,
                                                      engine->buffers.host.patch_positions);
    const struct encoder_image image = {&gen->prompt->images[i].pixels,
                                        engine->scheduler.encoder_entry->block};
    encoder_run_add(&engine->scheduler.encoder_run, &engine->devices.model,
                    engine->devices.vision_backends.ws, &image); /* an image alone has room */
}

/* Which of the request's images is being encoded; n_images: none. */
static size_t image_in_encoder(const struct scheduler *scheduler, const ey_generation *gen)
{
    size_t i = 0;
    while (i < gen->prompt->n_images && gen->image_entry[i] != scheduler->encoder_entry)
        i++;
    return i;
}

/* Between tiles: counts time and progress for requests that wait for this image. False: none does
 * any more. */
static bool watch_encoder(struct scheduler *scheduler, double seconds)
{
    bool wanted = false;
    pthread_mutex_lock(&scheduler->lock);
    for (int i = 0; i < scheduler->n_running; i++) {
        ey_generation *gen = scheduler->running[i];
        size_t at = image_in_encoder(scheduler, gen), n = gen->prompt->n_images;
        if (at == n) continue;
        wanted |= !gen->cancelled;
        gen->answer.vision_seconds += seconds;
        generation_progress(gen, EY_PHASE_VISION,
                            (int)at * ENCODER_PROGRESS_UNITS + scheduler->encoder_run.done *
                                                                   ENCODER_PROGRESS_UNITS /
                                                                   scheduler->encoder_run.total,
                            (int)n * ENCODER_PROGRESS_UNITS);
    }
    scheduler->stats.vision_seconds += seconds;
    scheduler->last_heartbeat = seconds_now();
    wanted = wanted && !scheduler->closing;
    pthread_mutex_unlock(&scheduler->lock);
    return wanted;
}

static void finish_encoder_run(struct scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->lock);
    scheduler->encoder_entry->ready = true;
    end_encoder_run(scheduler);
    scheduler->stats.encoder_runs++;
    pthread_mutex_unlock(&scheduler->lock);
}

/* Waits for the tile, and for the features on their way to the text model's device. */
static bool finish_encoder_tile(struct engine_devices *devices, ey_err *e)
{
    struct backend *be = devices->vision_backends.be;
    return be->ops->compute->finish(be, e) &&
           (be == devices->be || devices->be->ops->compute->finish(devices->be, e));
}

void run_encoder(ey_engine *engine, double start)
{
    ey_err e;
    double now = seconds_now();
    start_encoder_run(engine); /* running requests change on this thread only */
    bool busy = engine->scheduler.encoder_entry != NULL;
    while (busy) {
        double before = now;
        bool more = encoder_run_step(&engine->scheduler.encoder_run, &engine->devices.model,
                                     &engine->devices.vision_backends);
        /* where others wait, a slice ends when its work is done, not when it is enqueued */
        if ((!more || engine->scheduler.n_running > 1) &&
            !finish_encoder_tile(&engine->devices, &e)) {
            fail_running_requests(engine, &e);
            return;
        }
        now = seconds_now();
        busy = watch_encoder(&engine->scheduler, now - before) &&
               now - start < engine->limits.slice_seconds;
        if (more) continue;
        finish_encoder_run(&engine->scheduler);
        break;
    }
}
