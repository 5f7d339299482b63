/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the vision encoder between steps, in tiles, so that decoding continues. */
#include "base/clock.h"
#include "engine/schedule/schedule_internal.h"

enum { ENCODER_PROGRESS_UNITS = 1000 }; /* progress units of each image */

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

static bool is_encoding(const struct scheduler *s, const struct image_entry *entry)
{
    for (int i = 0; i < s->n_encoding; i++)
        if (s->encoding[i].entry == entry) return true;
    return false;
}

/* Adds an image to the run and references its prompt and features: the request may end while others
 * wait for this image or for one in the same run. Returns false if the run has no room. */
static bool add_to_encoder_run(ey_engine *engine, const ey_generation *gen, size_t i)
{
    struct scheduler *s = &engine->scheduler;
    const struct encoder_image image = {&gen->prompt->images[i].pixels, gen->image_entry[i]->block};
    if (!encoder_run_add(&s->encoder_run, &engine->devices.model,
                         engine->devices.vision_backends.ws, &image))
        return false;
    s->encoding[s->n_encoding++] = (struct encoded_image){gen->image_entry[i], gen->prompt};
    prompt_ref(gen->prompt);
    image_cache_repin(gen->image_entry[i]);
    return true;
}

/* Whether the run stays short with this image: one tile, or within a time slice. */
static bool has_room(const ey_engine *engine, const struct image *image)
{
    const struct scheduler *s = &engine->scheduler;
    const int patches = encoder_run_patches(&s->encoder_run, &engine->devices.model, image);
    return patches <= engine->devices.vision_backends.ws->max_rows ||
           (s->patch_seconds > 0 && patches * s->patch_seconds <= slice_seconds(engine));
}

/* Adds waiting images to the first one's run: a GPU encodes several together faster than one by
 * one. */
static void add_waiting_images(ey_engine *engine)
{
    struct scheduler *s = &engine->scheduler;
    for (int i = 0; i < s->n_running; i++) {
        const ey_generation *gen = s->running[i];
        for (size_t k = 0; k < gen->prompt->n_images; k++) {
            const struct image_entry *entry = gen->image_entry[k];
            if (!entry || entry->ready || is_encoding(s, entry)) continue;
            if (!has_room(engine, &gen->prompt->images[k].pixels) ||
                !add_to_encoder_run(engine, gen, k))
                return;
        }
    }
}

static void start_encoder_run(ey_engine *engine)
{
    struct scheduler *s = &engine->scheduler;
    const ey_generation *gen;
    size_t i;
    if (s->n_encoding || !next_image(s, &gen, &i)) return;
    pthread_mutex_lock(&s->lock);
    s->encoder_run = encoder_run_begin(engine->buffers.host.pixels,
                                       engine->buffers.host.patch_positions);
    s->run_seconds = 0;
    add_to_encoder_run(engine, gen, i); /* a single image always has room */
    if (engine->devices.vision_backends.be->ops->device) add_waiting_images(engine);
    pthread_mutex_unlock(&s->lock);
}

/* Returns the first of the request's images that is being encoded, or n_images. */
static size_t image_in_encoder(const struct scheduler *scheduler, const ey_generation *gen)
{
    size_t i = 0;
    while (i < gen->prompt->n_images &&
           !(gen->image_entry[i] && is_encoding(scheduler, gen->image_entry[i])))
        i++;
    return i;
}

/* Called between tiles: updates time and progress of requests that wait for these images. Returns
 * false if none waits any more. */
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

static void finish_encoder_run(ey_engine *engine)
{
    struct scheduler *s = &engine->scheduler;
    update_ema(&s->patch_seconds, s->run_seconds / s->encoder_run.n_patches);
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n_encoding; i++)
        s->encoding[i].entry->ready = true;
    s->stats.encoder_runs += (uint64_t)s->n_encoding;
    end_encoder_run(engine);
    pthread_mutex_unlock(&s->lock);
}

/* Waits for the tile, and for the transfer of its features to the text model's device. */
static bool finish_encoder_tile(struct engine_devices *devices, ey_err *e)
{
    struct backend *be = devices->vision_backends.be;
    return be->ops->compute->finish(be, e) &&
           (be == devices->be || devices->be->ops->compute->finish(devices->be, e));
}

/* Returns how many tiles fit into `seconds` by past measurements, at least one. Waiting for each
 * tile would leave a GPU idle between them. */
static int tiles_within(const ey_engine *engine, double seconds)
{
    const struct scheduler *s = &engine->scheduler;
    const double tile = s->patch_seconds * s->encoder_run.n_patches / s->encoder_run.total;
    if (!engine->devices.vision_backends.be->ops->device || tile <= 0 || seconds < tile) return 1;
    return seconds < tile * s->encoder_run.total ? (int)(seconds / tile) : s->encoder_run.total;
}

/* Enqueues up to n tiles of the run. Returns false if the run's last tile is among them. */
static bool enqueue_tiles(ey_engine *engine, int n)
{
    bool more = true;
    while (more && n--)
        more = encoder_run_step(&engine->scheduler.encoder_run, &engine->devices.model,
                                &engine->devices.vision_backends);
    return more;
}

void run_encoder(ey_engine *engine, double start)
{
    struct scheduler *s = &engine->scheduler;
    ey_err e;
    double now = seconds_now();
    start_encoder_run(engine); /* running requests change on this thread only */
    bool busy = s->n_encoding > 0;
    while (busy) {
        const double before = now, slice = slice_seconds(engine);
        bool more = enqueue_tiles(engine, tiles_within(engine, start + slice - now));
        /* if other requests run, the slice must include the tiles' work, not just enqueueing */
        if ((!more || s->n_running > 1) && !finish_encoder_tile(&engine->devices, &e)) {
            fail_running_requests(engine, &e);
            return;
        }
        now = seconds_now();
        s->run_seconds += now - before;
        busy = watch_encoder(s, now - before) && now - start < slice;
        if (more) continue;
        finish_encoder_run(engine);
        break;
    }
}
