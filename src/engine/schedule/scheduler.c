/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler: one thread that owns all running requests and the device.
 *
 * Each turn it lets new requests in, runs one decoder step over rows of several of them (one row of
 * each that answers, chunks of those whose prompts are not computed yet) and a slice of the vision
 * tower. A request is in only while its blocks can be had; when the pool runs dry the youngest one
 * gives its blocks back and computes them again later, which changes nothing in its answer: a row
 * has the same bits however it is computed. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "engine/schedule/async_step.h"
#include "engine/engine_internal.h"
#include "engine/request/generation.h"

enum {
    MIN_CHUNK_ROWS = 16,
    FIRST_CHUNK_ROWS = 64,
    MIN_PREFILL_SHARE = 16, /* rows of prompts take a sixteenth of their step at least, whatever
                        steps of answers took */
    MIN_ROWS_BEFORE_IMAGE = 256,   /* rows before a picture that do not wait for it */
    ENCODER_PROGRESS_UNITS = 1000, /* of progress, a picture */
};

/* ---- what a request holds ---- */

static void end_encoder_run(ey_engine *engine)
{
    engine->encoder_entry = NULL;
    ey_prompt_free(&engine->encoder_prompt);
}

static void unpin_image(ey_engine *engine, ey_generation *gen, size_t i)
{
    struct image_entry *entry = gen->image_entry[i];
    gen->image_entry[i] = NULL;
    if (!entry) return;
    image_cache_unpin(&engine->images, entry);
    if (entry == engine->encoder_entry && !entry->used)
        end_encoder_run(engine); /* nobody waits for the picture in the tower */
}

/* The last blocks first: they are of use only to who has the first ones. */
static void release_resources(ey_engine *engine, ey_generation *gen)
{
    for (size_t i = 0; i < gen->prompt->n_images; i++)
        unpin_image(engine, gen, i);
    while (gen->n_blocks)
        kv_pool_unref(&engine->blocks, gen->slot->blocks[--gen->n_blocks]);
    if (gen->slot) gen->slot->in_use = false;
    gen->slot = NULL;
    gen->n_computed = gen->n_published = 0;
}

static void remove_running(ey_engine *engine, const ey_generation *gen)
{
    int at = 0;
    while (engine->running[at] != gen)
        at++;
    engine->n_running--;
    memmove(engine->running + at, engine->running + at + 1,
            (size_t)(engine->n_running - at) * sizeof(*engine->running));
}

static void count_finished(ey_stats *s, const ey_generation *gen)
{
    const char *reason = gen->answer.finish_reason;
    if (gen->failed)
        s->failed++;
    else if (strcmp(reason, "stop") == 0)
        s->finished_stop++;
    else if (strcmp(reason, "length") == 0)
        s->finished_length++;
    else
        s->finished_cancelled++;
}

/* The following are called under the lock. */

static void end_running(ey_engine *engine, ey_generation *gen, const ey_err *error)
{
    release_resources(engine, gen);
    remove_running(engine, gen);
    generation_end(gen, error);
    count_finished(&engine->stats, gen);
}

static void end_waiting(ey_engine *engine, ey_generation *gen)
{
    request_queue_remove(&engine->queue, gen);
    generation_end(gen, NULL);
    count_finished(&engine->stats, gen);
}

static void preempt(ey_engine *engine, ey_generation *gen)
{
    release_resources(engine, gen);
    remove_running(engine, gen);
    gen->state = GENERATION_WAITING;
    request_queue_push_front(&engine->queue, gen);
    engine->stats.preemptions++;
}

/* ---- who comes in ---- */

/* Key of full block `at`: of all tokens before its end. A picture's tokens are all the same id;
 * what they stand for is its pixels. */
static struct digest kv_block_key(ey_engine *engine, const ey_generation *gen, int at,
                                  const struct digest *before)
{
    int32_t token[KV_BLOCK];
    size_t first = (size_t)at * KV_BLOCK;
    for (int i = 0; i < KV_BLOCK; i++)
        token[i] = generation_token_at(gen, (int)first + i);
    hasher_start(engine->hasher);
    if (at) hasher_add(engine->hasher, before, sizeof(*before));
    hasher_add(engine->hasher, token, sizeof(token));
    for (size_t i = 0; i < gen->prompt->n_images; i++) {
        const struct prompt_image *p = &gen->prompt->images[i];
        if (p->span.first >= first + KV_BLOCK || prompt_image_ends_before(p, first)) continue;
        int32_t offset = (int32_t)((int64_t)p->span.first - (int64_t)first);
        hasher_add(engine->hasher, &offset, sizeof(offset));
        hasher_add(engine->hasher, &p->digest, sizeof(p->digest));
    }
    return hasher_end(engine->hasher);
}

/* Holds the blocks of the longest known prefix; the last known token is always computed: its logits
 * are wanted. */
static void reuse_prefix(ey_engine *engine, ey_generation *gen)
{
    int limit = gen->no_prefix_cache ? 0 : (generation_known_tokens(gen) - 1) / KV_BLOCK;
    while (gen->n_blocks < limit) {
        struct digest key = kv_block_key(engine, gen, gen->n_blocks, &gen->prefix_digest);
        int32_t block = kv_pool_ref_prefix(&engine->blocks, &key);
        if (block < 0) break;
        gen->slot->blocks[gen->n_blocks++] = block;
        gen->prefix_digest = key;
    }
    gen->n_published = gen->n_blocks;
    gen->n_computed = gen->n_blocks * KV_BLOCK;
}

static bool pin_images(ey_engine *engine, ey_generation *gen)
{
    for (size_t i = 0; i < gen->prompt->n_images; i++) {
        const struct prompt_image *p = &gen->prompt->images[i];
        if (prompt_image_ends_before(p, (size_t)gen->n_computed))
            continue; /* all of its rows are in the KV cache */
        if (gen->no_prefix_cache && !gen->admitted_before)
            image_cache_remove(&engine->images, &p->digest);
        gen->image_entry[i] = image_cache_pin(&engine->images, &p->digest, p->tokens);
        if (!gen->image_entry[i]) return false;
    }
    return true;
}

static void record_admission(ey_engine *engine, ey_generation *gen)
{
    ey_stats *s = &engine->stats;
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
    for (int i = 0; i < engine->max_num_seqs; i++)
        if (!engine->slot[i].in_use) return &engine->slot[i];
    return NULL;
}

static void restart_sampler(ey_generation *gen)
{
    struct sampler *s = &gen->slot->sampler;
    sampler_start(s, &gen->sampling, gen->prompt->ids.id, gen->prompt->ids.n);
    s->bias = gen->bias;
    s->n_bias = gen->n_bias;
    for (int i = 0; i < gen->output.n; i++)
        sampler_record(s, gen->output.id[i]);
}

/* Blocks that its known tokens and one more still need. */
static int blocks_needed(const ey_generation *gen)
{
    return (generation_known_tokens(gen) + KV_BLOCK) / KV_BLOCK - gen->n_blocks;
}

/* Blocks that are free and yet not to be given away: those who run need them for what they know, or
 * have one to grow into. */
static int blocks_reserved(const ey_engine *engine)
{
    int n = 0;
    for (int i = 0; i < engine->n_running; i++) {
        int wanted = blocks_needed(engine->running[i]);
        n += wanted > 1 ? wanted : 1;
    }
    return n;
}

/* Lets the request in if its known tokens and one more find their blocks, and its pictures their
 * rows: or it would have to give its own back at once. */
static bool admit(ey_engine *engine, ey_generation *gen)
{
    gen->slot = find_free_slot(engine);
    if (!gen->slot) return false;
    gen->slot->in_use = true;
    reuse_prefix(engine, gen);
    if (engine->blocks.n_free < blocks_needed(gen) + blocks_reserved(engine) ||
        !pin_images(engine, gen)) {
        release_resources(engine, gen);
        return false;
    }
    restart_sampler(gen);
    if (!gen->admitted_before) record_admission(engine, gen);
    request_queue_remove(&engine->queue, gen);
    gen->state = GENERATION_RUNNING;
    engine->running[engine->n_running++] = gen;
    return true;
}

/* ---- who goes ---- */

static void end_cancelled_requests(ey_engine *engine)
{
    for (ey_generation *gen = engine->queue.first, *next; gen; gen = next) {
        next = gen->next;
        if (gen->cancelled) end_waiting(engine, gen);
    }
    for (int i = engine->n_running; i--;)
        if (engine->running[i]->cancelled) end_running(engine, engine->running[i], NULL);
}

/* Notes since when nobody fetches the request's text; true: it has been too long. */
static bool is_abandoned(const ey_engine *engine, ey_generation *gen, double now)
{
    if (!generation_is_unread_full(gen)) return false;
    if (gen->unread_since <= 0) gen->unread_since = now;
    return now - gen->unread_since > engine->unread_seconds;
}

/* A request whose text nobody fetches makes no more of it, and after a while ends. */
static void end_unread_requests(ey_engine *engine)
{
    double now = seconds_now();
    for (int i = engine->n_running; i--;)
        if (is_abandoned(engine, engine->running[i], now))
            end_running(engine, engine->running[i], NULL);
    for (ey_generation *gen = engine->queue.first, *next; gen; gen = next) {
        next = gen->next;
        if (is_abandoned(engine, gen, now)) end_waiting(engine, gen);
    }
}

/* The youngest running request that cannot go on because nobody fetches its text. */
static ey_generation *youngest_unread_full(const ey_engine *engine)
{
    for (int i = engine->n_running; i--;)
        if (generation_is_unread_full(engine->running[i])) return engine->running[i];
    return NULL;
}

/* The next in the queue that can go on when it is let in. */
static ey_generation *first_admissible(const ey_engine *engine)
{
    ey_generation *gen = engine->queue.first;
    while (gen && generation_is_unread_full(gen))
        gen = gen->next;
    return gen;
}

/* Lets in whom it can. Those whose text nobody fetches make room for others; they come back when it
 * is fetched. */
static void admit_waiting(ey_engine *engine)
{
    for (ey_generation *gen = first_admissible(engine), *full; gen;
         gen = first_admissible(engine)) {
        if (admit(engine, gen)) continue;
        if (!(full = youngest_unread_full(engine))) return;
        preempt(engine, full);
    }
}

static void fail_running(ey_engine *engine, const ey_err *error)
{
    pthread_mutex_lock(&engine->lock);
    while (engine->n_running)
        end_running(engine, engine->running[engine->n_running - 1], error);
    kv_pool_clear(&engine->blocks); /* what a failed step left is unknown */
    image_cache_clear(&engine->images);
    pthread_mutex_unlock(&engine->lock);
}

/* ---- a step of the decoder ---- */

/* Rows that can be computed now: up to the first picture that is not through the tower. A few are
 * not worth a pass over the weights. */
static int rows_ready_count(const ey_generation *gen)
{
    int known = generation_known_tokens(gen), end = known;
    for (size_t i = 0; i < gen->prompt->n_images; i++)
        if (gen->image_entry[i] && !gen->image_entry[i]->ready &&
            (int)gen->prompt->images[i].span.first < end)
            end = (int)gen->prompt->images[i].span.first;
    if (generation_is_unread_full(gen) ||
        (end < known && end - gen->n_computed < MIN_ROWS_BEFORE_IMAGE))
        return 0;
    return end - gen->n_computed;
}

static bool is_decoding(const ey_generation *gen)
{
    return gen->n_computed + 1 == generation_known_tokens(gen);
}

/* Rows that one step may have: with somebody waiting for tokens, as many as a slice of time allows.
 */
static int row_limit(const ey_engine *engine, int n_decoding)
{
    int limit = engine->encoder_entry
                    ? engine->ws.step.max_rows
                    : engine->ws.chunk.max_rows; /* the chunk's buffers lie over the tower's */
    if (limit < n_decoding) limit = n_decoding;
    if (!n_decoding) return limit;
    double left = engine->slice_seconds - engine->decode_step_seconds,
           rows = engine->prefill_row_seconds > 0 ? left / engine->prefill_row_seconds
                                                  : FIRST_CHUNK_ROWS;
    if (rows < MIN_CHUNK_ROWS) rows = MIN_CHUNK_ROWS;
    int chunk = n_decoding + ((int)(rows < limit ? rows : limit) + MIN_CHUNK_ROWS - 1) /
                                 MIN_CHUNK_ROWS * MIN_CHUNK_ROWS;
    return chunk < limit ? chunk : limit;
}

/* Blocks for rows up to `end`; who cannot go on anyway gives way first, then whoever came last.
 * False: it was this one. */
static bool allocate_blocks(ey_engine *engine, ey_generation *gen, int end)
{
    while (gen->n_blocks * KV_BLOCK < end) {
        int32_t block = kv_pool_alloc(&engine->blocks);
        if (block >= 0) {
            gen->slot->blocks[gen->n_blocks++] = block;
            continue;
        }
        ey_generation *full = youngest_unread_full(engine),
                      *last = full ? full : engine->running[engine->n_running - 1];
        preempt(engine, last);
        if (last == gen) return false;
    }
    return true;
}

bool chunk_is_prompt(const struct scheduled_chunk *chunk)
{
    return chunk->first < (int)chunk->gen->prompt->ids.n;
}

/* Rows that have to do with the prompt come behind those of answers: they may be computed in
 * another way (struct batch). What a request that gave way had answered already counts as its
 * prompt where it is computed together with it. */
static void sort_prompts_last(struct scheduled_chunk *chunk, int n)
{
    for (int i = 0, answering = 0; i < n; i++) {
        if (chunk_is_prompt(&chunk[i])) continue;
        const struct scheduled_chunk one = chunk[i];
        memmove(chunk + answering + 1, chunk + answering, (size_t)(i - answering) * sizeof(*chunk));
        chunk[answering++] = one;
    }
}

/* Chooses the step's rows, under the lock. Older requests come first, so that the one that gives
 * way is never in. */
static int schedule_chunks(ey_engine *engine)
{
    int n_chunks = 0, n_decoding = 0;
    for (int i = 0; i < engine->n_running; i++)
        n_decoding += is_decoding(engine->running[i]) && rows_ready_count(engine->running[i]) > 0;
    int left = row_limit(engine, n_decoding) - n_decoding;
    for (int i = 0; i < engine->n_running; i++) {
        ey_generation *gen = engine->running[i];
        int rows = rows_ready_count(gen), limit = is_decoding(gen) ? 1 : left;
        if (rows > limit) rows = limit;
        if (rows <= 0) continue;
        if (!allocate_blocks(engine, gen, gen->n_computed + rows)) break; /* it was the last one */
        while (engine->running[i] != gen)
            i--; /* one before it gave way */
        if (!is_decoding(gen)) left -= rows;
        engine->chunk[n_chunks++] = (struct scheduled_chunk){
            gen, gen->n_computed, rows, gen->n_computed + rows == generation_known_tokens(gen)};
    }
    sort_prompts_last(engine->chunk, n_chunks);
    return n_chunks;
}

static void fill_feature_rows(const struct scheduled_chunk *chunk, int32_t *feature)
{
    const ey_prompt *prompt = chunk->gen->prompt;
    for (int i = 0; i < chunk->n; i++)
        feature[i] = -1;
    for (size_t k = 0; k < prompt->n_images; k++) {
        const struct prompt_image *p = &prompt->images[k];
        const struct image_entry *entry = chunk->gen->image_entry[k];
        int first = (int)p->span.first, from = first > chunk->first ? first : chunk->first,
            end = first + p->tokens;
        if (end > chunk->first + chunk->n) end = chunk->first + chunk->n;
        for (int row = from; row < end; row++)
            feature[row - chunk->first] = entry->block[(row - first) / FEATURE_BLOCK] *
                                              FEATURE_BLOCK +
                                          (row - first) % FEATURE_BLOCK;
    }
}

static void fill_batch_rows(ey_engine *engine, const struct scheduled_chunk *chunk, int seq, int at)
{
    struct host_buffers *h = &engine->host;
    const ey_generation *gen = chunk->gen;
    int n_prompt = (int)gen->prompt->ids.n;
    for (int i = 0; i < chunk->n; i++) {
        int row = chunk->first + i;
        int32_t *position = h->position + 3 * (at + i);
        h->token[at + i] = generation_token_at(gen, row);
        h->seq[at + i] = seq;
        h->index[at + i] = row;
        if (row < n_prompt)
            memcpy(position, gen->prompt->position + 3 * row, 3 * sizeof(*position));
        else
            position[0] = position[1] = position[2] = gen->prompt->next_position + row - n_prompt;
    }
    fill_feature_rows(chunk, h->feature + at);
    memcpy(h->block_table + (size_t)seq * (size_t)engine->max_blocks, gen->slot->blocks,
           (size_t)gen->n_blocks * sizeof(int32_t));
}

struct step_watch {
    ey_engine *engine;
    int n_chunks;
};

/* Between layers: tells how far the prompts are; stops the step when nobody wants it. */
static bool watch_step(void *user, int done, int total)
{
    struct step_watch *w = user;
    ey_engine *engine = w->engine;
    bool wanted = false;
    pthread_mutex_lock(&engine->lock);
    for (int i = 0; i < w->n_chunks; i++) {
        const struct scheduled_chunk *chunk = &engine->chunk[i];
        ey_generation *gen = chunk->gen;
        wanted |= !gen->cancelled;
        if (gen->output.n == 0)
            generation_progress(gen, "prefill",
                                chunk->first + (int)((int64_t)chunk->n * done / total),
                                generation_known_tokens(gen));
    }
    engine->last_heartbeat = seconds_now();
    wanted = wanted && !engine->closing;
    pthread_mutex_unlock(&engine->lock);
    return wanted;
}

static void publish_blocks(ey_engine *engine, ey_generation *gen)
{
    for (; (gen->n_published + 1) * KV_BLOCK <= gen->n_computed; gen->n_published++) {
        gen->prefix_digest = kv_block_key(engine, gen, gen->n_published, &gen->prefix_digest);
        kv_pool_publish(&engine->blocks, gen->slot->blocks[gen->n_published], &gen->prefix_digest);
    }
}

/* The part's rows are in the cache now. Features that no row needs any more can make room for
 * others'. */
static void finish_chunk(ey_engine *engine, const struct scheduled_chunk *chunk)
{
    ey_generation *gen = chunk->gen;
    gen->n_computed += chunk->n;
    publish_blocks(engine, gen);
    for (size_t i = 0; i < gen->prompt->n_images; i++)
        if (gen->image_entry[i] &&
            prompt_image_ends_before(&gen->prompt->images[i], (size_t)gen->n_computed))
            unpin_image(engine, gen, i);
}

static void emit_token(ey_engine *engine, ey_generation *gen, const struct step_row *row)
{
    if (gen->first_token_time <= 0) {
        gen->first_token_time = seconds_now();
        gen->answer.prefill_seconds = gen->first_token_time - gen->admit_time -
                                      gen->answer.vision_seconds;
    }
    bool over = generation_emit_token(gen, row);
    pthread_mutex_lock(&engine->lock);
    engine->stats.generated_tokens++;
    if (over) end_running(engine, gen, NULL);
    pthread_mutex_unlock(&engine->lock);
}

static int n_prompt_rows(const struct scheduled_chunk *chunk, int n)
{
    int rows = 0;
    for (int i = 0; i < n; i++)
        rows += chunk_is_prompt(&chunk[i]) ? chunk[i].n : 0;
    return rows;
}

static struct batch build_batch(ey_engine *engine, int n_chunks, int *n_out)
{
    struct host_buffers *h = &engine->host;
    struct batch batch = {.n_seqs = n_chunks,
                          .n_prompt = n_prompt_rows(engine->chunk, n_chunks),
                          .max_blocks = engine->max_blocks,
                          .token = h->token,
                          .feature = h->feature,
                          .position = h->position,
                          .seq = h->seq,
                          .index = h->index,
                          .block_table = h->block_table};
    *n_out = 0;
    for (int i = 0; i < n_chunks; i++) {
        fill_batch_rows(engine, &engine->chunk[i], i, batch.n_rows);
        batch.n_rows += engine->chunk[i].n;
        if (engine->chunk[i].wants_logits) h->out_rows[(*n_out)++] = batch.n_rows - 1;
    }
    return batch;
}

static void update_ema(double *ema, double now)
{
    *ema = *ema > 0 ? 0.5 * (*ema + now) : now;
}

/* Rows of prompts take what is beyond a step of answers alone, most of which goes to reading the
 * weights. */
static void update_step_times(ey_engine *engine, int n_chunks, double seconds)
{
    int rows = n_prompt_rows(engine->chunk, n_chunks);
    double own = seconds - engine->decode_step_seconds, least = seconds / MIN_PREFILL_SHARE;
    if (!rows)
        update_ema(&engine->decode_step_seconds, seconds);
    else if (rows >= MIN_CHUNK_ROWS)
        update_ema(&engine->prefill_row_seconds, (own > least ? own : least) / rows);
}

/* ---- a step ---- */

static bool compute_step(ey_engine *engine, int n_chunks, const struct watch *watch,
                         const struct step_buffers **buffers)
{
    int n_out;
    struct batch batch = build_batch(engine, n_chunks, &n_out);
    *buffers = batch.n_rows <= engine->ws.step.max_rows ? &engine->ws.step : &engine->ws.chunk;
    return text_model_step(&engine->model, engine->be, &engine->ws, *buffers, &engine->kv, &batch,
                           engine->host.out_rows, n_out, engine->logits, watch);
}

/* Waits for the step; with another one behind it, for it alone. What the device drew may be wrong,
 * or not enough: then the same again. */
static bool wait_for_step(ey_engine *engine, int n_chunks, ey_err *e)
{
    const struct step_buffers *buffers;
    const struct backend_ops *op = engine->be->ops;
    if (!(engine->n_async ? op->wait_previous : op->finish)(engine->be, e)) return false;
    if (!op->verify_speculative || async_step_verify(engine, n_chunks)) return true;
    async_step_discard(engine);
    compute_step(engine, n_chunks, NULL, &buffers);
    return op->finish(engine->be, e);
}

/* Those that the step's tokens will be picked by, beside the step. */
static void start_masks(ey_engine *engine, int n_chunks)
{
    int n = 0;
    for (int i = 0; i < n_chunks; i++) {
        const struct scheduled_chunk *chunk = &engine->chunk[i];
        if (chunk->wants_logits && chunk->gen->matcher) engine->matchers[n++] = chunk->gen->matcher;
    }
    grammar_masks_start(&engine->masks, engine->matchers, n);
}

static void run_step(ey_engine *engine, int n_chunks)
{
    ey_err e = {0};
    double start = seconds_now();
    const struct step_buffers *buffers = &engine->ws.step; /* of a step that was put behind */
    struct step_watch watch_state = {engine, n_chunks};
    const struct watch watch = {watch_step, &watch_state};
    start_masks(engine, n_chunks);
    bool was_async = async_step_commit(engine, n_chunks),
         done = was_async || compute_step(engine, n_chunks, &watch, &buffers);
    if (done) async_step_enqueue(engine, n_chunks);
    bool ok = wait_for_step(engine, n_chunks, &e);
    grammar_masks_wait(&engine->masks);
    if (!ok) {
        engine->n_async = 0;
        fail_running(engine, &e);
        return;
    }
    if (!done) return; /* all of its requests were cancelled */
    update_step_times(engine, n_chunks, seconds_now() - start);
    pthread_mutex_lock(&engine->lock);
    for (int i = 0; i < n_chunks; i++)
        finish_chunk(engine, &engine->chunk[i]);
    engine->stats.steps++;
    engine->stats.async_steps += was_async;
    engine->stats.step_seconds += seconds_now() - start;
    pthread_mutex_unlock(&engine->lock);
    for (int i = 0, out = 0; i < n_chunks; i++) {
        if (!engine->chunk[i].wants_logits) continue;
        const struct step_row row = {out, buffers->x, engine->host.out_rows[out]};
        emit_token(engine, engine->chunk[i].gen, &row);
        out++;
    }
}

/* ---- a slice of the tower ---- */

/* The first picture that a request waits for; the longest running one's comes first. */
static bool next_image(const ey_engine *engine, const ey_generation **ticket, size_t *index)
{
    for (int i = 0; i < engine->n_running; i++) {
        const ey_generation *gen = engine->running[i];
        for (size_t k = 0; k < gen->prompt->n_images; k++)
            if (gen->image_entry[k] && !gen->image_entry[k]->ready)
                return *ticket = gen, *index = k, true;
    }
    return false;
}

/* The pass holds the prompt: whoever brought the picture may leave before others who wait for it.
 */
static void start_encoder_run(ey_engine *engine)
{
    const ey_generation *gen;
    size_t i;
    if (engine->encoder_entry || !next_image(engine, &gen, &i)) return;
    engine->encoder_prompt = gen->prompt;
    prompt_ref(gen->prompt);
    engine->encoder_entry = gen->image_entry[i];
    engine->encoder_run = encoder_run_start(
        &engine->model, engine->vision_backends.ws, &gen->prompt->images[i].pixels,
        engine->host.pixels, engine->host.patch_positions, engine->encoder_entry->block);
}

/* Which of the request's pictures is in the tower; n_pictures: none. */
static size_t image_in_encoder(const ey_engine *engine, const ey_generation *gen)
{
    size_t i = 0;
    while (i < gen->prompt->n_images && gen->image_entry[i] != engine->encoder_entry)
        i++;
    return i;
}

/* Between tiles, for those who wait for this picture. False: none of them does any more. */
static bool watch_encoder(ey_engine *engine, double seconds)
{
    bool wanted = false;
    pthread_mutex_lock(&engine->lock);
    for (int i = 0; i < engine->n_running; i++) {
        ey_generation *gen = engine->running[i];
        size_t at = image_in_encoder(engine, gen), n = gen->prompt->n_images;
        if (at == n) continue;
        wanted |= !gen->cancelled;
        gen->answer.vision_seconds += seconds;
        generation_progress(gen, "vision",
                            (int)at * ENCODER_PROGRESS_UNITS + engine->encoder_run.done *
                                                                   ENCODER_PROGRESS_UNITS /
                                                                   engine->encoder_run.total,
                            (int)n * ENCODER_PROGRESS_UNITS);
    }
    engine->stats.vision_seconds += seconds;
    engine->last_heartbeat = seconds_now();
    wanted = wanted && !engine->closing;
    pthread_mutex_unlock(&engine->lock);
    return wanted;
}

static void finish_encoder_run(ey_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->encoder_entry->ready = true;
    end_encoder_run(engine);
    engine->stats.encoder_runs++;
    pthread_mutex_unlock(&engine->lock);
}

/* The tower's work, and the features on their way to the decoder's device. */
static bool finish_encoder_tile(ey_engine *engine, ey_err *e)
{
    struct backend *be = engine->vision_backends.be;
    return be->ops->finish(be, e) && (be == engine->be || engine->be->ops->finish(engine->be, e));
}

/* A tile at least, and as many as the turn that began at `start` has time for. */
static void run_encoder(ey_engine *engine, double start)
{
    ey_err e;
    double now = seconds_now();
    start_encoder_run(engine); /* who runs, and what they hold, is this thread's to change */
    bool busy = engine->encoder_entry != NULL;
    while (busy) {
        double before = now;
        bool more = encoder_run_step(&engine->encoder_run, &engine->model,
                                     &engine->vision_backends);
        /* where others wait, a slice is over when its work is done, not when it is enqueued */
        if ((!more || engine->n_running > 1) && !finish_encoder_tile(engine, &e)) {
            fail_running(engine, &e);
            return;
        }
        now = seconds_now();
        busy = watch_encoder(engine, now - before) && now - start < engine->slice_seconds;
        if (more) continue;
        finish_encoder_run(engine);
        break;
    }
}

/* ---- the thread ---- */

static void fill_queue_stats(ey_stats *s, const ey_engine *engine)
{
    s->running = engine->n_running;
    s->waiting = engine->queue.n;
    s->paused = 0;
    for (int i = 0; i < engine->n_running; i++)
        s->paused += generation_is_unread_full(engine->running[i]);
    s->kv_blocks_used = engine->blocks.n_blocks - engine->blocks.n_free;
    s->kv_blocks_cached = engine->blocks.n_known_free;
    s->image_cache_tokens_used = image_cache_tokens(&engine->images);
}

/* Waits for work; with requests that nobody fetches from, looks after them each second. Under the
 * lock. */
static void scheduler_wait(ey_engine *engine)
{
    struct timespec gen;
    engine->last_heartbeat = 0;
    if (!engine->n_running && !engine->queue.n) {
        pthread_cond_wait(&engine->work_ready, &engine->lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &gen);
    gen.tv_sec++;
    pthread_cond_timedwait(&engine->work_ready, &engine->lock, &gen);
}

/* Lets in whom it can and chooses the next step's rows. False: there is nothing to do. Under the
 * lock. */
static bool schedule_step(ey_engine *engine, int *n_chunks)
{
    const ey_generation *gen;
    size_t i;
    end_cancelled_requests(engine);
    end_unread_requests(engine);
    admit_waiting(engine);
    *n_chunks = schedule_chunks(engine);
    return *n_chunks || next_image(engine, &gen, &i);
}

static void *run_scheduler(void *user)
{
    ey_engine *engine = user;
    int n_chunks;
    if (engine->be->ops->attach) engine->be->ops->attach(engine->be);
    pthread_mutex_lock(&engine->lock);
    while (!engine->closing) {
        bool has_work = schedule_step(engine, &n_chunks),
             copies_weights = engine_hugepages_may_copy(engine, has_work);
        if (!has_work && !copies_weights) {
            scheduler_wait(engine);
            continue;
        }
        engine->last_heartbeat = seconds_now();
        pthread_mutex_unlock(&engine->lock);
        pthread_mutex_lock(&engine->device_lock);
        if (copies_weights) engine_hugepages_copy_some(engine);
        double start = seconds_now();
        if (n_chunks) run_step(engine, n_chunks);
        run_encoder(engine, start);
        pthread_mutex_unlock(&engine->device_lock);
        pthread_mutex_lock(&engine->lock);
    }
    while (engine->n_running)
        preempt(engine, engine->running[engine->n_running - 1]);
    for (ey_generation *gen = engine->queue.first; gen; gen = engine->queue.first) {
        request_queue_remove(&engine->queue, gen);
        generation_end(gen, NULL);
    }
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

bool scheduler_start(ey_engine *engine, ey_err *e)
{
    if (!grammar_masks_open(&engine->masks, engine->max_num_seqs, e)) return false;
    if (pthread_create(&engine->thread, NULL, run_scheduler, engine) != 0)
        return ey_fail(e, EY_NO_MEMORY, "no thread could be started");
    engine->thread_started = true;
    return true;
}

void scheduler_stop(ey_engine *engine)
{
    if (engine->thread_started) {
        pthread_mutex_lock(&engine->lock);
        engine->closing = true;
        pthread_cond_signal(&engine->work_ready);
        pthread_mutex_unlock(&engine->lock);
        pthread_join(engine->thread, NULL);
        engine->thread_started = false;
    }
    grammar_masks_close(&engine->masks);
}

ey_mask_stats ey_engine_mask_stats(const ey_engine *const_engine)
{
    ey_engine *engine = (ey_engine *)const_engine; /* for the lock */
    return grammar_masks_stats(&engine->masks);
}

ey_stats ey_engine_stats(const ey_engine *const_engine)
{
    ey_engine *engine = (ey_engine *)const_engine; /* for the lock */
    pthread_mutex_lock(&engine->lock);
    ey_stats s = engine->stats;
    fill_queue_stats(&s, engine);
    s.heartbeat_age = engine->last_heartbeat > 0 ? seconds_now() - engine->last_heartbeat : 0;
    pthread_mutex_unlock(&engine->lock);
    return s;
}
