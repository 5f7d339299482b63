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
#include "engine/ahead.h"
#include "engine/engine_internal.h"
#include "engine/ticket.h"

enum {
    LEAST_CHUNK = 16,
    FIRST_CHUNK = 64,
    LEAST_PART = 16, /* rows of prompts take a sixteenth of their step at least, whatever steps of
                        answers took */
    WORTH_A_STEP = 256, /* rows before a picture that do not wait for it */
    TOWER_UNITS = 1000, /* of progress, a picture */
};

/* ---- what a request holds ---- */

static void end_pass(ey_engine *engine)
{
    engine->pass_entry = NULL;
    ey_prompt_free(&engine->pass_prompt);
}

static void unpin_picture(ey_engine *engine, ey_ticket *t, size_t i)
{
    struct image_entry *entry = t->entry[i];
    t->entry[i] = NULL;
    if (!entry) return;
    image_cache_unpin(&engine->images, entry);
    if (entry == engine->pass_entry && !entry->used)
        end_pass(engine); /* nobody waits for the picture in the tower */
}

/* The last blocks first: they are of use only to who has the first ones. */
static void release(ey_engine *engine, ey_ticket *t)
{
    for (size_t i = 0; i < t->prompt->n_pictures; i++)
        unpin_picture(engine, t, i);
    while (t->n_blocks)
        kv_pool_drop(&engine->blocks, t->slot->blocks[--t->n_blocks]);
    if (t->slot) t->slot->used = false;
    t->slot = NULL;
    t->computed = t->n_published = 0;
}

static void remove_running(ey_engine *engine, const ey_ticket *t)
{
    int at = 0;
    while (engine->running[at] != t)
        at++;
    engine->n_running--;
    memmove(engine->running + at, engine->running + at + 1,
            (size_t)(engine->n_running - at) * sizeof(*engine->running));
}

static void count_end(ey_stats *s, const ey_ticket *t)
{
    const char *reason = t->answer.finish_reason;
    if (t->failed)
        s->failed++;
    else if (strcmp(reason, "stop") == 0)
        s->finished_stop++;
    else if (strcmp(reason, "length") == 0)
        s->finished_length++;
    else
        s->finished_cancelled++;
}

/* The following are called under the lock. */

static void end_running(ey_engine *engine, ey_ticket *t, const ey_err *error)
{
    release(engine, t);
    remove_running(engine, t);
    ticket_end(t, error);
    count_end(&engine->stats, t);
}

static void end_waiting(ey_engine *engine, ey_ticket *t)
{
    queue_remove(&engine->queue, t);
    ticket_end(t, NULL);
    count_end(&engine->stats, t);
}

static void preempt(ey_engine *engine, ey_ticket *t)
{
    release(engine, t);
    remove_running(engine, t);
    t->state = TICKET_WAITING;
    queue_push_front(&engine->queue, t);
    engine->stats.preemptions++;
}

/* ---- who comes in ---- */

/* Key of full block `at`: of all tokens before its end. A picture's tokens are all the same id;
 * what they stand for is its pixels. */
static struct digest block_key(ey_engine *engine, const ey_ticket *t, int at,
                               const struct digest *before)
{
    int32_t token[KV_BLOCK];
    size_t first = (size_t)at * KV_BLOCK;
    for (int i = 0; i < KV_BLOCK; i++)
        token[i] = ticket_token(t, (int)first + i);
    hasher_start(engine->hasher);
    if (at) hasher_add(engine->hasher, before, sizeof(*before));
    hasher_add(engine->hasher, token, sizeof(token));
    for (size_t i = 0; i < t->prompt->n_pictures; i++) {
        const struct picture *p = &t->prompt->picture[i];
        if (p->run.first >= first + KV_BLOCK || picture_ends_before(p, first)) continue;
        int32_t offset = (int32_t)((int64_t)p->run.first - (int64_t)first);
        hasher_add(engine->hasher, &offset, sizeof(offset));
        hasher_add(engine->hasher, &p->digest, sizeof(p->digest));
    }
    return hasher_end(engine->hasher);
}

/* Holds the blocks of the longest known prefix; the last known token is always computed: its logits
 * are wanted. */
static void take_prefix(ey_engine *engine, ey_ticket *t)
{
    int most = t->fresh ? 0 : (ticket_known(t) - 1) / KV_BLOCK;
    while (t->n_blocks < most) {
        struct digest key = block_key(engine, t, t->n_blocks, &t->chain);
        int32_t block = kv_pool_find(&engine->blocks, &key);
        if (block < 0) break;
        t->slot->blocks[t->n_blocks++] = block;
        t->chain = key;
    }
    t->n_published = t->n_blocks;
    t->computed = t->n_blocks * KV_BLOCK;
}

static bool pin_pictures(ey_engine *engine, ey_ticket *t)
{
    for (size_t i = 0; i < t->prompt->n_pictures; i++) {
        const struct picture *p = &t->prompt->picture[i];
        if (picture_ends_before(p, (size_t)t->computed))
            continue; /* all of its rows are in the KV cache */
        if (t->fresh && !t->admitted_before) image_cache_forget_one(&engine->images, &p->digest);
        t->entry[i] = image_cache_pin(&engine->images, &p->digest, p->tokens);
        if (!t->entry[i]) return false;
    }
    return true;
}

static void count_admission(ey_engine *engine, ey_ticket *t)
{
    ey_stats *s = &engine->stats;
    t->admitted_before = true;
    t->admitted = seconds_now();
    t->answer.queue_seconds = t->admitted - t->started;
    t->answer.cached_tokens = t->computed;
    s->prompt_tokens += t->prompt->ids.n;
    s->cached_tokens += (uint64_t)t->computed;
    for (size_t i = 0; i < t->prompt->n_pictures; i++) {
        t->answer.images[i].cached = !t->entry[i] || t->entry[i]->ready;
        s->images++;
        s->images_cached += t->answer.images[i].cached;
    }
}

static struct slot *free_slot(ey_engine *engine)
{
    for (int i = 0; i < engine->max_num_seqs; i++)
        if (!engine->slot[i].used) return &engine->slot[i];
    return NULL;
}

static void start_sampler(ey_ticket *t)
{
    struct sampler *s = &t->slot->sampler;
    sampler_start(s, &t->sampling, t->prompt->ids.id, t->prompt->ids.n);
    s->bias = t->bias;
    s->n_bias = t->n_bias;
    for (int i = 0; i < t->generation.n; i++)
        sampler_recall(s, t->generation.id[i]);
}

/* Blocks that its known tokens and one more still need. */
static int blocks_wanted(const ey_ticket *t)
{
    return (ticket_known(t) + KV_BLOCK) / KV_BLOCK - t->n_blocks;
}

/* Blocks that are free and yet not to be given away: those who run need them for what they know, or
 * have one to grow into. */
static int blocks_promised(const ey_engine *engine)
{
    int n = 0;
    for (int i = 0; i < engine->n_running; i++) {
        int wanted = blocks_wanted(engine->running[i]);
        n += wanted > 1 ? wanted : 1;
    }
    return n;
}

/* Lets the request in if its known tokens and one more find their blocks, and its pictures their
 * rows: or it would have to give its own back at once. */
static bool admit(ey_engine *engine, ey_ticket *t)
{
    t->slot = free_slot(engine);
    if (!t->slot) return false;
    t->slot->used = true;
    take_prefix(engine, t);
    if (engine->blocks.n_free < blocks_wanted(t) + blocks_promised(engine) ||
        !pin_pictures(engine, t)) {
        release(engine, t);
        return false;
    }
    start_sampler(t);
    if (!t->admitted_before) count_admission(engine, t);
    queue_remove(&engine->queue, t);
    t->state = TICKET_RUNNING;
    engine->running[engine->n_running++] = t;
    return true;
}

/* ---- who goes ---- */

static void end_cancelled(ey_engine *engine)
{
    for (ey_ticket *t = engine->queue.first, *next; t; t = next) {
        next = t->next;
        if (t->cancelled) end_waiting(engine, t);
    }
    for (int i = engine->n_running; i--;)
        if (engine->running[i]->cancelled) end_running(engine, engine->running[i], NULL);
}

/* Notes since when nobody fetches the request's text; true: it has been too long. */
static bool is_forgotten(const ey_engine *engine, ey_ticket *t, double now)
{
    if (!ticket_is_full(t)) return false;
    if (t->unread_since <= 0) t->unread_since = now;
    return now - t->unread_since > engine->unread_seconds;
}

/* A request whose text nobody fetches makes no more of it, and after a while ends. */
static void end_unread(ey_engine *engine)
{
    double now = seconds_now();
    for (int i = engine->n_running; i--;)
        if (is_forgotten(engine, engine->running[i], now))
            end_running(engine, engine->running[i], NULL);
    for (ey_ticket *t = engine->queue.first, *next; t; t = next) {
        next = t->next;
        if (is_forgotten(engine, t, now)) end_waiting(engine, t);
    }
}

/* The youngest running request that cannot go on because nobody fetches its text. */
static ey_ticket *youngest_full(const ey_engine *engine)
{
    for (int i = engine->n_running; i--;)
        if (ticket_is_full(engine->running[i])) return engine->running[i];
    return NULL;
}

/* The next in the queue that can go on when it is let in. */
static ey_ticket *first_ready(const ey_engine *engine)
{
    ey_ticket *t = engine->queue.first;
    while (t && ticket_is_full(t))
        t = t->next;
    return t;
}

/* Lets in whom it can. Those whose text nobody fetches make room for others; they come back when it
 * is fetched. */
static void let_in(ey_engine *engine)
{
    for (ey_ticket *t = first_ready(engine), *full; t; t = first_ready(engine)) {
        if (admit(engine, t)) continue;
        if (!(full = youngest_full(engine))) return;
        preempt(engine, full);
    }
}

static void fail_running(ey_engine *engine, const ey_err *error)
{
    pthread_mutex_lock(&engine->lock);
    while (engine->n_running)
        end_running(engine, engine->running[engine->n_running - 1], error);
    kv_pool_forget(&engine->blocks); /* what a failed step left is unknown */
    image_cache_forget(&engine->images);
    pthread_mutex_unlock(&engine->lock);
}

/* ---- a step of the decoder ---- */

/* Rows that can be computed now: up to the first picture that is not through the tower. A few are
 * not worth a pass over the weights. */
static int rows_ready(const ey_ticket *t)
{
    int known = ticket_known(t), end = known;
    for (size_t i = 0; i < t->prompt->n_pictures; i++)
        if (t->entry[i] && !t->entry[i]->ready && (int)t->prompt->picture[i].run.first < end)
            end = (int)t->prompt->picture[i].run.first;
    if (ticket_is_full(t) || (end < known && end - t->computed < WORTH_A_STEP)) return 0;
    return end - t->computed;
}

static bool answers(const ey_ticket *t)
{
    return t->computed + 1 == ticket_known(t);
}

/* Rows that one step may have: with somebody waiting for tokens, as many as a slice of time allows.
 */
static int row_limit(const ey_engine *engine, int n_answering)
{
    int most = engine->pass_entry
                   ? engine->ws.step.max_rows
                   : engine->ws.chunk.max_rows; /* the chunk's buffers lie over the tower's */
    if (most < n_answering) most = n_answering;
    if (!n_answering) return most;
    double left = engine->slice_seconds - engine->answer_seconds,
           rows = engine->row_seconds > 0 ? left / engine->row_seconds : FIRST_CHUNK;
    if (rows < LEAST_CHUNK) rows = LEAST_CHUNK;
    int chunk = n_answering +
                ((int)(rows < most ? rows : most) + LEAST_CHUNK - 1) / LEAST_CHUNK * LEAST_CHUNK;
    return chunk < most ? chunk : most;
}

/* Blocks for rows up to `end`; who cannot go on anyway gives way first, then whoever came last.
 * False: it was this one. */
static bool find_blocks(ey_engine *engine, ey_ticket *t, int end)
{
    while (t->n_blocks * KV_BLOCK < end) {
        int32_t block = kv_pool_take(&engine->blocks);
        if (block >= 0) {
            t->slot->blocks[t->n_blocks++] = block;
            continue;
        }
        ey_ticket *full = youngest_full(engine),
                  *last = full ? full : engine->running[engine->n_running - 1];
        preempt(engine, last);
        if (last == t) return false;
    }
    return true;
}

bool part_is_prompt(const struct part *part)
{
    return part->first < (int)part->ticket->prompt->ids.n;
}

/* Rows that have to do with the prompt come behind those of answers: they may be computed in
 * another way (struct batch). What a request that gave way had answered already counts as its
 * prompt where it is computed together with it. */
static void put_prompts_last(struct part *part, int n)
{
    for (int i = 0, answering = 0; i < n; i++) {
        if (part_is_prompt(&part[i])) continue;
        const struct part one = part[i];
        memmove(part + answering + 1, part + answering, (size_t)(i - answering) * sizeof(*part));
        part[answering++] = one;
    }
}

/* Chooses the step's rows, under the lock. Older requests come first, so that the one that gives
 * way is never in. */
static int choose_parts(ey_engine *engine)
{
    int n_parts = 0, n_answering = 0;
    for (int i = 0; i < engine->n_running; i++)
        n_answering += answers(engine->running[i]) && rows_ready(engine->running[i]) > 0;
    int left = row_limit(engine, n_answering) - n_answering;
    for (int i = 0; i < engine->n_running; i++) {
        ey_ticket *t = engine->running[i];
        int rows = rows_ready(t), most = answers(t) ? 1 : left;
        if (rows > most) rows = most;
        if (rows <= 0) continue;
        if (!find_blocks(engine, t, t->computed + rows)) break; /* it was the last one */
        while (engine->running[i] != t)
            i--; /* one before it gave way */
        if (!answers(t)) left -= rows;
        engine->part[n_parts++] = (struct part){t, t->computed, rows,
                                                t->computed + rows == ticket_known(t)};
    }
    put_prompts_last(engine->part, n_parts);
    return n_parts;
}

static void lay_out_features(const struct part *part, int32_t *feature)
{
    const ey_prompt *prompt = part->ticket->prompt;
    for (int i = 0; i < part->n; i++)
        feature[i] = -1;
    for (size_t k = 0; k < prompt->n_pictures; k++) {
        const struct picture *p = &prompt->picture[k];
        const struct image_entry *entry = part->ticket->entry[k];
        int first = (int)p->run.first, from = first > part->first ? first : part->first,
            end = first + p->tokens;
        if (end > part->first + part->n) end = part->first + part->n;
        for (int row = from; row < end; row++)
            feature[row - part->first] = entry->block[(row - first) / FEATURE_BLOCK] *
                                             FEATURE_BLOCK +
                                         (row - first) % FEATURE_BLOCK;
    }
}

static void lay_out_part(ey_engine *engine, const struct part *part, int seq, int at)
{
    struct host_buffers *h = &engine->host;
    const ey_ticket *t = part->ticket;
    int n_prompt = (int)t->prompt->ids.n;
    for (int i = 0; i < part->n; i++) {
        int row = part->first + i;
        int32_t *position = h->position + 3 * (at + i);
        h->token[at + i] = ticket_token(t, row);
        h->seq[at + i] = seq;
        h->index[at + i] = row;
        if (row < n_prompt)
            memcpy(position, t->prompt->position + 3 * row, 3 * sizeof(*position));
        else
            position[0] = position[1] = position[2] = t->prompt->next_position + row - n_prompt;
    }
    lay_out_features(part, h->feature + at);
    memcpy(h->block_table + (size_t)seq * (size_t)engine->max_blocks, t->slot->blocks,
           (size_t)t->n_blocks * sizeof(int32_t));
}

struct watched {
    ey_engine *engine;
    int n_parts;
};

/* Between layers: tells how far the prompts are; stops the step when nobody wants it. */
static bool watch_step(void *user, int done, int total)
{
    struct watched *w = user;
    ey_engine *engine = w->engine;
    bool wanted = false;
    pthread_mutex_lock(&engine->lock);
    for (int i = 0; i < w->n_parts; i++) {
        const struct part *part = &engine->part[i];
        ey_ticket *t = part->ticket;
        wanted |= !t->cancelled;
        if (t->generation.n == 0)
            ticket_progress(t, "prefill", part->first + (int)((int64_t)part->n * done / total),
                            ticket_known(t));
    }
    engine->last_beat = seconds_now();
    wanted = wanted && !engine->closing;
    pthread_mutex_unlock(&engine->lock);
    return wanted;
}

static void publish_blocks(ey_engine *engine, ey_ticket *t)
{
    for (; (t->n_published + 1) * KV_BLOCK <= t->computed; t->n_published++) {
        t->chain = block_key(engine, t, t->n_published, &t->chain);
        kv_pool_publish(&engine->blocks, t->slot->blocks[t->n_published], &t->chain);
    }
}

/* The part's rows are in the cache now. Features that no row needs any more can make room for
 * others'. */
static void finish_part(ey_engine *engine, const struct part *part)
{
    ey_ticket *t = part->ticket;
    t->computed += part->n;
    publish_blocks(engine, t);
    for (size_t i = 0; i < t->prompt->n_pictures; i++)
        if (t->entry[i] && picture_ends_before(&t->prompt->picture[i], (size_t)t->computed))
            unpin_picture(engine, t, i);
}

static void take_token(ey_engine *engine, ey_ticket *t, const struct row_of_step *row)
{
    if (t->first_token <= 0) {
        t->first_token = seconds_now();
        t->answer.prefill_seconds = t->first_token - t->admitted - t->answer.vision_seconds;
    }
    bool over = ticket_take_token(t, row);
    pthread_mutex_lock(&engine->lock);
    engine->stats.generated_tokens++;
    if (over) end_running(engine, t, NULL);
    pthread_mutex_unlock(&engine->lock);
}

static int n_prompt_rows(const struct part *part, int n)
{
    int rows = 0;
    for (int i = 0; i < n; i++)
        rows += part_is_prompt(&part[i]) ? part[i].n : 0;
    return rows;
}

static struct batch lay_out_batch(ey_engine *engine, int n_parts, int *n_out)
{
    struct host_buffers *h = &engine->host;
    struct batch batch = {.n_seqs = n_parts,
                          .n_prompt = n_prompt_rows(engine->part, n_parts),
                          .max_blocks = engine->max_blocks,
                          .token = h->token,
                          .feature = h->feature,
                          .position = h->position,
                          .seq = h->seq,
                          .index = h->index,
                          .block_table = h->block_table};
    *n_out = 0;
    for (int i = 0; i < n_parts; i++) {
        lay_out_part(engine, &engine->part[i], i, batch.n_rows);
        batch.n_rows += engine->part[i].n;
        if (engine->part[i].wants_logits) h->out_rows[(*n_out)++] = batch.n_rows - 1;
    }
    return batch;
}

static void note(double *lately, double now)
{
    *lately = *lately > 0 ? 0.5 * (*lately + now) : now;
}

/* Rows of prompts take what is beyond a step of answers alone, most of which goes to reading the
 * weights. */
static void note_seconds(ey_engine *engine, int n_parts, double seconds)
{
    int rows = n_prompt_rows(engine->part, n_parts);
    double own = seconds - engine->answer_seconds, least = seconds / LEAST_PART;
    if (!rows)
        note(&engine->answer_seconds, seconds);
    else if (rows >= LEAST_CHUNK)
        note(&engine->row_seconds, (own > least ? own : least) / rows);
}

/* ---- a step ---- */

static bool compute_step(ey_engine *engine, int n_parts, const struct watch *watch,
                         const struct step_buffers **buffers)
{
    int n_out;
    struct batch batch = lay_out_batch(engine, n_parts, &n_out);
    *buffers = batch.n_rows <= engine->ws.step.max_rows ? &engine->ws.step : &engine->ws.chunk;
    return decoder_step(&engine->model, engine->be, &engine->ws, *buffers, &engine->kv, &batch,
                        engine->host.out_rows, n_out, engine->logits, watch);
}

/* Waits for the step; with another one behind it, for it alone. What the device drew may be wrong,
 * or not enough: then the same again. */
static bool wait_for_step(ey_engine *engine, int n_parts, ey_err *e)
{
    const struct step_buffers *buffers;
    const struct backend_ops *op = engine->be->ops;
    if (!(engine->n_ahead ? op->finish_one : op->finish)(engine->be, e)) return false;
    if (!op->was_right || ahead_was_right(engine, n_parts)) return true;
    ahead_end(engine);
    compute_step(engine, n_parts, NULL, &buffers);
    return op->finish(engine->be, e);
}

/* Those that the step's tokens will be picked by, beside the step. */
static void begin_masks(ey_engine *engine, int n_parts)
{
    int n = 0;
    for (int i = 0; i < n_parts; i++) {
        const struct part *part = &engine->part[i];
        if (part->wants_logits && part->ticket->constraint)
            engine->constrained[n++] = part->ticket->constraint;
    }
    masks_begin(&engine->masks, engine->constrained, n);
}

static void run_step(ey_engine *engine, int n_parts)
{
    ey_err e = {0};
    double start = seconds_now();
    const struct step_buffers *buffers = &engine->ws.step; /* of a step that was put behind */
    struct watched watched = {engine, n_parts};
    const struct watch watch = {watch_step, &watched};
    begin_masks(engine, n_parts);
    bool foreseen = ahead_take(engine, n_parts),
         done = foreseen || compute_step(engine, n_parts, &watch, &buffers);
    if (done) ahead_run(engine, n_parts);
    bool ok = wait_for_step(engine, n_parts, &e);
    masks_wait(&engine->masks);
    if (!ok) {
        engine->n_ahead = 0;
        fail_running(engine, &e);
        return;
    }
    if (!done) return; /* all of its requests were cancelled */
    note_seconds(engine, n_parts, seconds_now() - start);
    pthread_mutex_lock(&engine->lock);
    for (int i = 0; i < n_parts; i++)
        finish_part(engine, &engine->part[i]);
    engine->stats.steps++;
    engine->stats.steps_ahead += foreseen;
    engine->stats.step_seconds += seconds_now() - start;
    pthread_mutex_unlock(&engine->lock);
    for (int i = 0, out = 0; i < n_parts; i++) {
        if (!engine->part[i].wants_logits) continue;
        const struct row_of_step row = {out, buffers->x, engine->host.out_rows[out]};
        take_token(engine, engine->part[i].ticket, &row);
        out++;
    }
}

/* ---- a slice of the tower ---- */

/* The first picture that a request waits for; the longest running one's comes first. */
static bool next_picture(const ey_engine *engine, const ey_ticket **ticket, size_t *index)
{
    for (int i = 0; i < engine->n_running; i++) {
        const ey_ticket *t = engine->running[i];
        for (size_t k = 0; k < t->prompt->n_pictures; k++)
            if (t->entry[k] && !t->entry[k]->ready) return *ticket = t, *index = k, true;
    }
    return false;
}

/* The pass holds the prompt: whoever brought the picture may leave before others who wait for it.
 */
static void start_pass(ey_engine *engine)
{
    const ey_ticket *t;
    size_t i;
    if (engine->pass_entry || !next_picture(engine, &t, &i)) return;
    engine->pass_prompt = t->prompt;
    prompt_hold(t->prompt);
    engine->pass_entry = t->entry[i];
    engine->pass = vision_pass_start(&engine->model, engine->tower.ws,
                                     &t->prompt->picture[i].pixels, engine->host.pixels,
                                     engine->host.patch_positions, engine->pass_entry->block);
}

/* Which of the request's pictures is in the tower; n_pictures: none. */
static size_t picture_in_tower(const ey_engine *engine, const ey_ticket *t)
{
    size_t i = 0;
    while (i < t->prompt->n_pictures && t->entry[i] != engine->pass_entry)
        i++;
    return i;
}

/* Between tiles, for those who wait for this picture. False: none of them does any more. */
static bool watch_tower(ey_engine *engine, double seconds)
{
    bool wanted = false;
    pthread_mutex_lock(&engine->lock);
    for (int i = 0; i < engine->n_running; i++) {
        ey_ticket *t = engine->running[i];
        size_t at = picture_in_tower(engine, t), n = t->prompt->n_pictures;
        if (at == n) continue;
        wanted |= !t->cancelled;
        t->answer.vision_seconds += seconds;
        ticket_progress(t, "vision",
                        (int)at * TOWER_UNITS +
                            engine->pass.done * TOWER_UNITS / engine->pass.total,
                        (int)n * TOWER_UNITS);
    }
    engine->stats.vision_seconds += seconds;
    engine->last_beat = seconds_now();
    wanted = wanted && !engine->closing;
    pthread_mutex_unlock(&engine->lock);
    return wanted;
}

static void finish_pass(ey_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->pass_entry->ready = true;
    end_pass(engine);
    engine->stats.tower_runs++;
    pthread_mutex_unlock(&engine->lock);
}

/* The tower's work, and the features on their way to the decoder's device. */
static bool finish_tile(ey_engine *engine, ey_err *e)
{
    struct backend *be = engine->tower.be;
    return be->ops->finish(be, e) && (be == engine->be || engine->be->ops->finish(engine->be, e));
}

/* A tile at least, and as many as the turn that began at `start` has time for. */
static void run_tower(ey_engine *engine, double start)
{
    ey_err e;
    double now = seconds_now();
    start_pass(engine); /* who runs, and what they hold, is this thread's to change */
    bool busy = engine->pass_entry != NULL;
    while (busy) {
        double before = now;
        bool more = vision_pass_step(&engine->pass, &engine->model, &engine->tower);
        /* where others wait, a slice is over when its work is done, not when it is enqueued */
        if ((!more || engine->n_running > 1) && !finish_tile(engine, &e)) {
            fail_running(engine, &e);
            return;
        }
        now = seconds_now();
        busy = watch_tower(engine, now - before) && now - start < engine->slice_seconds;
        if (more) continue;
        finish_pass(engine);
        break;
    }
}

/* ---- the thread ---- */

static void count_state(ey_stats *s, const ey_engine *engine)
{
    s->running = engine->n_running;
    s->waiting = engine->queue.n;
    s->paused = 0;
    for (int i = 0; i < engine->n_running; i++)
        s->paused += ticket_is_full(engine->running[i]);
    s->kv_blocks_used = engine->blocks.n_blocks - engine->blocks.n_free;
    s->kv_blocks_cached = engine->blocks.n_known_free;
    s->image_rows_used = image_cache_tokens(&engine->images);
}

/* Waits for work; with requests that nobody fetches from, looks after them each second. Under the
 * lock. */
static void wait_for_work(ey_engine *engine)
{
    struct timespec t;
    engine->last_beat = 0;
    if (!engine->n_running && !engine->queue.n) {
        pthread_cond_wait(&engine->work, &engine->lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec++;
    pthread_cond_timedwait(&engine->work, &engine->lock, &t);
}

/* Lets in whom it can and chooses the next step's rows. False: there is nothing to do. Under the
 * lock. */
static bool choose_work(ey_engine *engine, int *n_parts)
{
    const ey_ticket *t;
    size_t i;
    end_cancelled(engine);
    end_unread(engine);
    let_in(engine);
    *n_parts = choose_parts(engine);
    return *n_parts || next_picture(engine, &t, &i);
}

static void *run_scheduler(void *user)
{
    ey_engine *engine = user;
    int n_parts;
    if (engine->be->ops->attach) engine->be->ops->attach(engine->be);
    pthread_mutex_lock(&engine->lock);
    while (!engine->closing) {
        bool works = choose_work(engine, &n_parts), moves = engine_may_move(engine, works);
        if (!works && !moves) {
            wait_for_work(engine);
            continue;
        }
        engine->last_beat = seconds_now();
        pthread_mutex_unlock(&engine->lock);
        pthread_mutex_lock(&engine->device);
        if (moves) engine_move_some(engine);
        double start = seconds_now();
        if (n_parts) run_step(engine, n_parts);
        run_tower(engine, start);
        pthread_mutex_unlock(&engine->device);
        pthread_mutex_lock(&engine->lock);
    }
    while (engine->n_running)
        preempt(engine, engine->running[engine->n_running - 1]);
    for (ey_ticket *t = engine->queue.first; t; t = engine->queue.first) {
        queue_remove(&engine->queue, t);
        ticket_end(t, NULL);
    }
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

bool scheduler_start(ey_engine *engine, ey_err *e)
{
    if (!masks_open(&engine->masks, engine->max_num_seqs, e)) return false;
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
        pthread_cond_signal(&engine->work);
        pthread_mutex_unlock(&engine->lock);
        pthread_join(engine->thread, NULL);
        engine->thread_started = false;
    }
    masks_close(&engine->masks);
}

ey_mask_stats ey_engine_mask_stats(const ey_engine *const_engine)
{
    ey_engine *engine = (ey_engine *)const_engine; /* for the lock */
    return masks_stats(&engine->masks);
}

ey_stats ey_engine_stats(const ey_engine *const_engine)
{
    ey_engine *engine = (ey_engine *)const_engine; /* for the lock */
    pthread_mutex_lock(&engine->lock);
    ey_stats s = engine->stats;
    count_state(&s, engine);
    s.beat_age = engine->last_beat > 0 ? seconds_now() - engine->last_beat : 0;
    pthread_mutex_unlock(&engine->lock);
    return s;
}
