/* SPDX-License-Identifier: Apache-2.0 */
/* Admission, preemption and cancellation of requests, and the resources that they hold.
 *
 * A request is admitted only if its known tokens and one more fit into the KV pool; otherwise it
 * would be preempted immediately. Preemption does not change its answer: the blocks are recomputed
 * later, and on a CPU a row's result is the same, bit for bit, in whatever step it is computed (on
 * a GPU its rounding may differ: scheduler.c). */
#include <string.h>

#include "base/clock.h"
#include "engine/schedule/async_step.h"
#include "engine/schedule/schedule_internal.h"

void end_encoder_run(ey_engine *engine)
{
    struct scheduler *s = &engine->scheduler;
    while (s->n_encoding) {
        struct encoded_image *image = &s->encoding[--s->n_encoding];
        image_cache_unpin(&engine->caches.images, image->entry);
        ey_prompt_free(&image->prompt);
    }
}

/* Whether a request waits for an image that is being encoded. */
static bool encoder_run_is_wanted(const struct scheduler *s)
{
    for (int i = 0; i < s->n_encoding; i++)
        if (s->encoding[i].entry->pins > 1) return true;
    return false;
}

void unpin_image(ey_engine *engine, ey_generation *gen, size_t i)
{
    struct image_entry *entry = gen->image_entry[i];
    gen->image_entry[i] = NULL;
    if (!entry) return;
    image_cache_unpin(&engine->caches.images, entry);
    if (!encoder_run_is_wanted(&engine->scheduler)) end_encoder_run(engine);
}

/* Releases the request's images, blocks and slot. The last blocks are released first, so that they
 * are also reused first: without the blocks before them they are useless to the prefix cache. */
static void release_resources(ey_engine *engine, ey_generation *gen)
{
    for (size_t i = 0; i < gen->prompt->n_images; i++)
        unpin_image(engine, gen, i);
    while (gen->n_blocks)
        kv_pool_unref(&engine->caches.blocks, gen->slot->blocks[--gen->n_blocks]);
    if (gen->slot) gen->slot->in_use = false;
    gen->slot = NULL;
    gen->n_computed = gen->n_published = 0;
}

static void remove_running(struct scheduler *scheduler, const ey_generation *gen)
{
    int at = 0;
    while (scheduler->running[at] != gen)
        at++;
    scheduler->n_running--;
    memmove(scheduler->running + at, scheduler->running + at + 1,
            (size_t)(scheduler->n_running - at) * sizeof(*scheduler->running));
}

static void count_finished(ey_stats *s, const ey_generation *gen)
{
    ey_finish reason = gen->answer.finish_reason;
    if (gen->failed)
        s->failed++;
    else if (reason == EY_FINISH_STOP)
        s->finished_stop++;
    else if (reason == EY_FINISH_LENGTH)
        s->finished_length++;
    else
        s->finished_cancelled++;
}

void end_running_request(ey_engine *engine, ey_generation *gen, const ey_err *error)
{
    release_resources(engine, gen);
    remove_running(&engine->scheduler, gen);
    async_step_forget(&engine->scheduler, gen);
    generation_end(gen, error);
    count_finished(&engine->scheduler.stats, gen);
}

static void end_waiting_request(struct scheduler *scheduler, ey_generation *gen)
{
    request_queue_remove(&scheduler->queue, gen);
    generation_end(gen, NULL);
    count_finished(&scheduler->stats, gen);
}

void preempt_request(ey_engine *engine, ey_generation *gen)
{
    release_resources(engine, gen);
    remove_running(&engine->scheduler, gen);
    async_step_forget(&engine->scheduler, gen); /* its blocks are free */
    gen->state = GENERATION_WAITING;
    request_queue_push_front(&engine->scheduler.queue, gen);
    engine->scheduler.stats.preemptions++;
}

static bool pin_images(struct engine_caches *caches, ey_generation *gen)
{
    for (size_t i = 0; i < gen->prompt->n_images; i++) {
        const struct prompt_image *p = &gen->prompt->images[i];
        if (prompt_image_ends_before(p, (size_t)gen->n_computed))
            continue; /* all of its rows are in the KV cache */
        if (gen->no_prefix_cache && !gen->admitted_before)
            image_cache_remove(&caches->images, &p->digest);
        gen->image_entry[i] = image_cache_pin(&caches->images, &p->digest, p->tokens);
        if (!gen->image_entry[i]) return false;
    }
    return true;
}

static void record_admission(ey_stats *s, ey_generation *gen)
{
    gen->admitted_before = true;
    gen->admit_time = seconds_now();
    gen->answer.queue_seconds = gen->admit_time - gen->start_time;
    gen->answer.cached_tokens = gen->n_computed;
    s->prompt_tokens += gen->prompt->ids.n;
    s->cached_tokens += (uint64_t)gen->n_computed;
    for (size_t i = 0; i < gen->prompt->n_images; i++) {
        gen->answer.images[i].cached = !gen->image_entry[i] || gen->image_entry[i]->ready;
        s->images++;
        s->images_cached += gen->answer.images[i].cached;
    }
}

static struct request_slot *find_free_slot(ey_engine *engine)
{
    for (int i = 0; i < engine->limits.max_num_seqs; i++)
        if (!engine->scheduler.slot[i].in_use) return &engine->scheduler.slot[i];
    return NULL;
}

static void restart_sampler(ey_generation *gen)
{
    struct sampler *s = &gen->slot->sampler;
    sampler_start(s, &gen->sampling, gen->prompt->ids.id, gen->prompt->ids.n);
    s->bias = gen->bias;
    s->n_bias = gen->n_bias;
    s->ends = gen->ends;
    s->n_ends = gen->n_ends;
    s->min_tokens = (uint64_t)gen->min_tokens;
    for (int i = 0; i < gen->output.n; i++)
        if (thought_was_forced(&gen->thought, i))
            sampler_record_forced(s, gen->output.id[i]);
        else
            sampler_record(s, gen->output.id[i]);
}

/* Returns how many more blocks the request needs to hold its known tokens and one new token. */
static int blocks_needed(const ey_generation *gen)
{
    return (generation_known_tokens(gen) + KV_BLOCK) / KV_BLOCK - gen->n_blocks;
}

/* Returns how many free blocks are reserved for running requests: for each, the blocks that it
 * still needs, but at least one. */
static int blocks_reserved(const struct scheduler *scheduler)
{
    int n = 0;
    for (int i = 0; i < scheduler->n_running; i++) {
        int wanted = blocks_needed(scheduler->running[i]);
        n += wanted > 1 ? wanted : 1;
    }
    return n;
}

/* Admits the request if a slot is free, and if there are enough blocks for its known tokens and one
 * new token, and enough feature rows for its images. */
static bool admit(ey_engine *engine, ey_generation *gen)
{
    gen->slot = find_free_slot(engine);
    if (!gen->slot) return false;
    gen->slot->in_use = true;
    reuse_prefix(&engine->caches, gen);
    if (engine->caches.blocks.n_free < blocks_needed(gen) + blocks_reserved(&engine->scheduler) ||
        !pin_images(&engine->caches, gen)) {
        release_resources(engine, gen);
        return false;
    }
    restart_sampler(gen);
    if (!gen->admitted_before) record_admission(&engine->scheduler.stats, gen);
    request_queue_remove(&engine->scheduler.queue, gen);
    gen->state = GENERATION_RUNNING;
    engine->scheduler.running[engine->scheduler.n_running++] = gen;
    return true;
}

void end_cancelled_requests(ey_engine *engine)
{
    for (ey_generation *gen = engine->scheduler.queue.first, *next; gen; gen = next) {
        next = gen->next;
        if (gen->cancelled) end_waiting_request(&engine->scheduler, gen);
    }
    for (int i = engine->scheduler.n_running; i--;)
        if (engine->scheduler.running[i]->cancelled)
            end_running_request(engine, engine->scheduler.running[i], NULL);
}

/* Whether the caller has left too much of the request's text unread for too long. Sets unread_since
 * when there is too much for the first time. */
static bool is_abandoned(const struct engine_limits *limits, ey_generation *gen, double now)
{
    if (!generation_is_unread_full(gen)) return false;
    if (gen->unread_since <= 0) gen->unread_since = now;
    return now - gen->unread_since > limits->unread_seconds;
}

void end_abandoned_requests(ey_engine *engine)
{
    double now = seconds_now();
    for (int i = engine->scheduler.n_running; i--;)
        if (is_abandoned(&engine->limits, engine->scheduler.running[i], now))
            end_running_request(engine, engine->scheduler.running[i], NULL);
    for (ey_generation *gen = engine->scheduler.queue.first, *next; gen; gen = next) {
        next = gen->next;
        if (is_abandoned(&engine->limits, gen, now)) end_waiting_request(&engine->scheduler, gen);
    }
}

ey_generation *youngest_unread_full(const struct scheduler *scheduler)
{
    for (int i = scheduler->n_running; i--;)
        if (generation_is_unread_full(scheduler->running[i])) return scheduler->running[i];
    return NULL;
}

/* Returns the first waiting request that could proceed after admission, or NULL. */
static ey_generation *first_admissible(const struct scheduler *scheduler)
{
    ey_generation *gen = scheduler->queue.first;
    while (gen && generation_is_unread_full(gen))
        gen = gen->next;
    return gen;
}

void admit_waiting(ey_engine *engine)
{
    for (ey_generation *gen = first_admissible(&engine->scheduler), *full; gen;
         gen = first_admissible(&engine->scheduler)) {
        if (admit(engine, gen)) continue;
        if (!(full = youngest_unread_full(&engine->scheduler))) return;
        preempt_request(engine, full);
    }
}

void fail_running_requests(ey_engine *engine, const ey_err *error)
{
    pthread_mutex_lock(&engine->scheduler.lock);
    while (engine->scheduler.n_running)
        end_running_request(engine, engine->scheduler.running[engine->scheduler.n_running - 1],
                            error);
    kv_pool_clear(&engine->caches.blocks); /* their contents are undefined after a failed step */
    image_cache_clear(&engine->caches.images);
    pthread_mutex_unlock(&engine->scheduler.lock);
}
