/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler: one thread that owns all running requests and the device.
 *
 * Each turn admits waiting requests, runs one text-model step over rows of several requests (one
 * row of each decoding request, and prompt chunks), and then runs the vision encoder for the rest
 * of the turn's time slice. When the KV pool runs out, the youngest request is preempted and
 * recomputed later. On a CPU that does not change its answer: a row's result is the same, bit for
 * bit, in whatever step it is computed. On a GPU the rounding of a row depends on the number of
 * rows in the step, so an answer may change where two tokens are almost equally likely. */
#include <math.h>

#include "base/clock.h"
#include "engine/schedule/refine_weights.h"
#include "engine/schedule/async_step.h"
#include "engine/schedule/schedule_internal.h"
#include "engine/schedule/scheduler.h"

enum {
    MIN_PREFILL_SHARE = 16, /* prompt rows count as at least 1/16 of a step's time */
};

/* ---- progress, results and times of a step ---- */

struct step_watch {
    struct scheduler *scheduler;
    int n_chunks;
};

/* Called between layers: reports prefill progress. Returns false to stop the step when all its
 * requests are canceled. */
static bool watch_step(void *user, int done, int total)
{
    struct step_watch *w = user;
    struct scheduler *scheduler = w->scheduler;
    bool wanted = false;
    pthread_mutex_lock(&scheduler->lock);
    for (int i = 0; i < w->n_chunks; i++) {
        const struct scheduled_chunk *chunk = &scheduler->chunk[i];
        ey_generation *gen = chunk->gen;
        wanted |= !gen->cancelled;
        if (gen->output.n == 0)
            generation_progress(gen, EY_PHASE_PREFILL,
                                chunk->first + (int)((int64_t)chunk->n * done / total),
                                generation_known_tokens(gen));
    }
    scheduler->last_heartbeat = seconds_now();
    wanted = wanted && !scheduler->closing;
    pthread_mutex_unlock(&scheduler->lock);
    return wanted;
}

/* Advances the request after its chunk was computed and unpins features that no later row needs. */
static void finish_chunk(ey_engine *engine, const struct scheduled_chunk *chunk)
{
    ey_generation *gen = chunk->gen;
    gen->n_computed += chunk->n;
    publish_blocks(&engine->caches, gen);
    for (size_t i = 0; i < gen->prompt->n_images; i++)
        if (gen->image_entry[i] &&
            prompt_image_ends_before(&gen->prompt->images[i], (size_t)gen->n_computed))
            unpin_image(engine, gen, i);
}

static void note_prefill_end(ey_generation *gen)
{
    if (gen->first_token_time > 0) return;
    gen->first_token_time = seconds_now();
    gen->answer.prefill_seconds = gen->first_token_time - gen->admit_time -
                                  gen->answer.vision_seconds;
}

/* Computes the vectors and scores of prompts that end in this step. */
static void emit_pooled(ey_engine *engine, int n_chunks, dev x)
{
    for (int i = 0; i < n_chunks; i++) {
        const struct scheduled_chunk *chunk = &engine->scheduler.chunk[i];
        const struct step_seq *seq = &engine->buffers.host.seq[i];
        if (!chunk->wants_vector) continue;
        note_prefill_end(chunk->gen);
        pool_row(engine, chunk->gen, x, seq->first_row + seq->n_rows - 1);
        pthread_mutex_lock(&engine->scheduler.lock);
        end_running_request(engine, chunk->gen, NULL);
        pthread_mutex_unlock(&engine->scheduler.lock);
    }
}

static void emit_token(ey_engine *engine, ey_generation *gen, const struct step_row *row)
{
    note_prefill_end(gen);
    bool over = generation_emit_token(gen, row);
    pthread_mutex_lock(&engine->scheduler.lock);
    engine->scheduler.stats.generated_tokens++;
    if (over) end_running_request(engine, gen, NULL);
    pthread_mutex_unlock(&engine->scheduler.lock);
}

double slice_seconds(const ey_engine *engine)
{
    const double most = engine->limits.slice_seconds, step = engine->scheduler.decode_step_seconds,
                 wanted = fmax(SLICE_DECODE_STEPS * step, SLICE_SECONDS_MIN);
    return step > 0 && wanted < most ? wanted : most;
}

/* Updates the time per prompt row. Steps of few rows weigh less: on a GPU they take longer per row
 * and say little about long prompts. */
static void update_row_seconds(struct scheduler *scheduler, int rows, double seconds)
{
    enum { MANY_ROWS = 256, FEW_WEIGHT = 8 };
    double *ema = &scheduler->prefill_row_seconds;
    if (*ema > 0 && rows < MANY_ROWS && seconds > *ema)
        *ema += (seconds - *ema) / FEW_WEIGHT;
    else
        update_ema(ema, seconds);
}

/* Counts as the prompt rows' time only what the step took longer than a decode step, because the
 * time of a decode step is mostly that of reading the weights. */
static void update_step_times(struct scheduler *scheduler, int n_chunks, double seconds)
{
    int rows = n_prompt_rows(scheduler->chunk, n_chunks);
    double own = seconds - scheduler->decode_step_seconds, least = seconds / MIN_PREFILL_SHARE;
    if (!rows)
        update_ema(&scheduler->decode_step_seconds, seconds);
    else if (rows >= MIN_CHUNK_ROWS)
        update_row_seconds(scheduler, rows, (own > least ? own : least) / rows);
}

/* ---- a step ---- */

/* Enqueues the step without waiting. *x receives the activations from which logits are computed; if
 * prompts are scored, logits are computed later. */
static bool enqueue_step(ey_engine *engine, int n_chunks, const struct watch *watch, dev *x)
{
    struct step step = build_step(engine, n_chunks);
    if (chunks_score_prompts(engine->scheduler.chunk, n_chunks)) step.n_logits = 0;
    *x = range_buffers(last_range(&engine->buffers.ws), step.n_rows)->x;
    return text_model_enqueue(&engine->devices.model, &engine->buffers.ws, &step,
                              engine->buffers.logits, watch, &engine->scheduler.step);
}

/* Waits for the step, but not for an async step that is enqueued behind it. Runs the step again if
 * the device computed it with other tokens than the host sampled, or if its top-k logits are not
 * enough to sample the next tokens. */
static bool wait_for_step(ey_engine *engine, int n_chunks, ey_err *e)
{
    const struct backend_ops *op = engine->devices.be->ops;
    dev x;
    bool ok = engine->scheduler.n_async
                  ? op->graph->wait(engine->devices.be, engine->scheduler.step, e)
                  : op->compute->finish(engine->devices.be, e);
    if (!ok) return false;
    if (!engine->scheduler.step || async_step_verify(engine, n_chunks)) return true;
    async_step_discard(engine);
    enqueue_step(engine, n_chunks, NULL, &x);
    return op->compute->finish(engine->devices.be, e);
}

/* Starts computing the masks for sampling this step's tokens. */
static void start_masks(struct scheduler *scheduler, int n_chunks)
{
    int n = 0;
    for (int i = 0; i < n_chunks; i++) {
        const struct scheduled_chunk *chunk = &scheduler->chunk[i];
        if (chunk->wants_logits && generation_is_constrained(chunk->gen))
            scheduler->matchers[n++] = chunk->gen->matcher;
    }
    grammar_masks_start(&scheduler->masks, scheduler->matchers, n);
}

static void run_step(ey_engine *engine, int n_chunks)
{
    ey_err e = {0};
    double start = seconds_now();
    dev x = last_range(&engine->buffers.ws)->step.x; /* where an async step leaves it */
    struct step_watch watch_state = {&engine->scheduler, n_chunks};
    const struct watch watch = {watch_step, &watch_state};
    start_masks(&engine->scheduler, n_chunks);
    bool was_async = async_step_commit(engine, n_chunks),
         done = was_async || enqueue_step(engine, n_chunks, &watch, &x);
    if (done) async_step_enqueue(engine, n_chunks);
    bool ok = wait_for_step(engine, n_chunks, &e);
    if (ok && done && chunks_score_prompts(engine->scheduler.chunk, n_chunks))
        ok = score_prompts(engine, n_chunks, x, &e);
    grammar_masks_wait(&engine->scheduler.masks);
    if (!ok) {
        engine->scheduler.n_async = 0;
        fail_running_requests(engine, &e);
        return;
    }
    if (!done) return; /* all of its requests were canceled */
    update_step_times(&engine->scheduler, n_chunks, seconds_now() - start);
    pthread_mutex_lock(&engine->scheduler.lock);
    for (int i = 0; i < n_chunks; i++)
        finish_chunk(engine, &engine->scheduler.chunk[i]);
    engine->scheduler.stats.steps++;
    engine->scheduler.stats.async_steps += was_async;
    engine->scheduler.stats.step_seconds += seconds_now() - start;
    pthread_mutex_unlock(&engine->scheduler.lock);
    emit_pooled(engine, n_chunks, x);
    for (int i = 0, out = 0; i < n_chunks; i++) {
        if (!engine->scheduler.chunk[i].wants_logits) continue;
        const struct step_row row = {out, x, engine->buffers.host.logits_row[out]};
        emit_token(engine, engine->scheduler.chunk[i].gen, &row);
        out++;
    }
}

/* ---- the thread ---- */

static void fill_queue_stats(ey_stats *s, const ey_engine *engine)
{
    s->running = engine->scheduler.n_running;
    s->waiting = engine->scheduler.queue.n;
    s->paused = 0;
    for (int i = 0; i < engine->scheduler.n_running; i++)
        s->paused += generation_is_unread_full(engine->scheduler.running[i]);
    s->kv_blocks_used = engine->caches.blocks.n_blocks - engine->caches.blocks.n_free;
    s->kv_blocks_cached = engine->caches.blocks.n_known_free;
    s->image_cache_tokens_used = image_cache_tokens(&engine->caches.images);
}

/* Waits for work. If there are requests, all paused until their text is fetched, waits at most a
 * second. Called under the lock. */
static void scheduler_wait(struct scheduler *scheduler)
{
    struct timespec end;
    scheduler->last_heartbeat = 0;
    if (!scheduler->n_running && !scheduler->queue.n) {
        pthread_cond_wait(&scheduler->work_ready, &scheduler->lock);
        return;
    }
    end = deadline_after(1);
    pthread_cond_timedwait(&scheduler->work_ready, &scheduler->lock, &end);
}

/* Admits waiting requests and schedules the next step's rows. Returns false if there is nothing to
 * do. Called under the lock. */
static bool schedule_step(ey_engine *engine, int *n_chunks)
{
    const ey_generation *gen;
    size_t i;
    end_cancelled_requests(engine);
    end_abandoned_requests(engine);
    admit_waiting(engine);
    *n_chunks = schedule_chunks(engine);
    return *n_chunks || next_image(&engine->scheduler, &gen, &i);
}

static void *run_scheduler(void *user)
{
    ey_engine *engine = user;
    int n_chunks;
    pthread_mutex_lock(&engine->scheduler.lock);
    if (engine->devices.be->ops->device)
        engine->devices.be->ops->device->attach(engine->devices.be);
    while (!engine->scheduler.closing) {
        bool has_work = schedule_step(engine, &n_chunks),
             refines_weights = refine_weights_now(&engine->devices, has_work);
        if (!has_work && !refines_weights) {
            scheduler_wait(&engine->scheduler);
            continue;
        }
        engine->scheduler.last_heartbeat = seconds_now();
        pthread_mutex_unlock(&engine->scheduler.lock);
        pthread_mutex_lock(&engine->devices.lock);
        if (refines_weights) refine_weights_some(engine);
        double start = seconds_now();
        if (n_chunks) run_step(engine, n_chunks);
        run_encoder(engine, start);
        pthread_mutex_unlock(&engine->devices.lock);
        pthread_mutex_lock(&engine->scheduler.lock);
    }
    while (engine->scheduler.n_running)
        preempt_request(engine, engine->scheduler.running[engine->scheduler.n_running - 1]);
    for (ey_generation *gen = engine->scheduler.queue.first; gen;
         gen = engine->scheduler.queue.first) {
        request_queue_remove(&engine->scheduler.queue, gen);
        generation_end(gen, NULL);
    }
    pthread_mutex_unlock(&engine->scheduler.lock);
    return NULL;
}

bool scheduler_start(ey_engine *engine, ey_err *e)
{
    if (!grammar_masks_open(&engine->scheduler.masks, engine->limits.max_num_seqs, e)) return false;
    if (pthread_create(&engine->scheduler.thread, NULL, run_scheduler, engine) != 0)
        return ey_fail(e, EY_NO_MEMORY, "the scheduler's thread could not be started");
    engine->scheduler.thread_started = true;
    return true;
}

void scheduler_stop(struct scheduler *scheduler)
{
    if (scheduler->thread_started) {
        pthread_mutex_lock(&scheduler->lock);
        scheduler->closing = true;
        pthread_cond_signal(&scheduler->work_ready);
        pthread_mutex_unlock(&scheduler->lock);
        pthread_join(scheduler->thread, NULL);
        scheduler->thread_started = false;
    }
    grammar_masks_close(&scheduler->masks);
}

ey_mask_stats ey_engine_mask_stats(const ey_engine *const_engine)
{
    ey_engine *engine = (ey_engine *)const_engine; /* for the lock */
    return grammar_masks_stats(&engine->scheduler.masks);
}

ey_stats ey_engine_stats(const ey_engine *const_engine)
{
    ey_engine *engine = (ey_engine *)const_engine; /* for the lock */
    pthread_mutex_lock(&engine->scheduler.lock);
    ey_stats s = engine->scheduler.stats;
    fill_queue_stats(&s, engine);
    s.heartbeat_age = engine->scheduler.last_heartbeat > 0
                          ? seconds_now() - engine->scheduler.last_heartbeat
                          : 0;
    pthread_mutex_unlock(&engine->scheduler.lock);
    return s;
}
