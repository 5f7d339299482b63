/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the rows of one step: one row of each decoding request, and chunks of prompts (chunked
 * prefill). */
#include <string.h>

#include "engine/schedule/schedule_internal.h"

enum {
    /* prompt rows in a step with decoding requests while the time of a prompt row is unknown */
    FIRST_CHUNK_ROWS = 64,
    /* if fewer rows precede an image, they wait for it, to save a pass over the weights */
    MIN_ROWS_BEFORE_IMAGE = 256,
};

/* Returns how many rows can be computed now, up to the first image that is not encoded yet; 0 if
 * they are too few to be worth a pass over the weights, or if too much text is unfetched. */
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

/* Returns the row limit of a step. While requests decode, the time slice limits it further. */
static int row_limit(ey_engine *engine, int n_decoding)
{
    const struct layer_range *last = last_range(&engine->buffers.ws);
    int limit = engine->scheduler.n_encoding
                    ? last->step.max_rows
                    : last->chunk.max_rows; /* chunk's buffers overlap the vision encoder's */
    if (limit < n_decoding) limit = n_decoding;
    if (!n_decoding) return limit;
    double left = slice_seconds(engine) - engine->scheduler.decode_step_seconds,
           rows = engine->scheduler.prefill_row_seconds > 0
                      ? left / engine->scheduler.prefill_row_seconds
                      : FIRST_CHUNK_ROWS;
    if (rows < MIN_CHUNK_ROWS) rows = MIN_CHUNK_ROWS;
    int chunk = n_decoding + ((int)(rows < limit ? rows : limit) + MIN_CHUNK_ROWS - 1) /
                                 MIN_CHUNK_ROWS * MIN_CHUNK_ROWS;
    return chunk < limit ? chunk : limit;
}

/* Allocates blocks for rows up to `end`. While the pool is exhausted, preempts running requests:
 * first those that are paused anyway, then the youngest. Returns false if this request itself was
 * preempted. */
static bool allocate_blocks(ey_engine *engine, ey_generation *gen, int end)
{
    while (gen->n_blocks * KV_BLOCK < end) {
        int32_t block = kv_pool_alloc(&engine->caches.blocks);
        if (block >= 0) {
            gen->slot->blocks[gen->n_blocks++] = block;
            continue;
        }
        ey_generation *full = youngest_unread_full(&engine->scheduler),
                      *last = full ? full
                                   : engine->scheduler.running[engine->scheduler.n_running - 1];
        preempt_request(engine, last);
        if (last == gen) return false;
    }
    return true;
}

bool chunk_is_prompt(const struct scheduled_chunk *chunk)
{
    return chunk->first < (int)chunk->gen->prompt->ids.n;
}

/* Moves prompt rows behind decode rows, since they may be computed differently (enum step_stage).
 * Generated tokens that are recomputed after a preemption count as prompt only in a chunk that
 * begins in the prompt. */
static void sort_prompts_last(struct scheduled_chunk *chunk, int n)
{
    for (int i = 0, answering = 0; i < n; i++) {
        if (chunk_is_prompt(&chunk[i])) continue;
        const struct scheduled_chunk one = chunk[i];
        memmove(chunk + answering + 1, chunk + answering, (size_t)(i - answering) * sizeof(*chunk));
        chunk[answering++] = one;
    }
}

int schedule_chunks(ey_engine *engine)
{
    int n_chunks = 0, n_decoding = 0;
    for (int i = 0; i < engine->scheduler.n_running; i++)
        n_decoding += is_decoding(engine->scheduler.running[i]) &&
                      rows_ready_count(engine->scheduler.running[i]) > 0;
    int left = row_limit(engine, n_decoding) - n_decoding;
    for (int i = 0; i < engine->scheduler.n_running; i++) {
        ey_generation *gen = engine->scheduler.running[i];
        int rows = rows_ready_count(gen), limit = is_decoding(gen) ? 1 : left;
        if (rows > limit) rows = limit;
        if (rows <= 0) continue;
        if (!allocate_blocks(engine, gen, gen->n_computed + rows))
            break; /* the request itself was preempted */
        while (engine->scheduler.running[i] != gen)
            i--; /* an earlier one was preempted */
        if (!is_decoding(gen)) left -= rows;
        const bool whole = gen->n_computed + rows == generation_known_tokens(gen);
        engine->scheduler.chunk[n_chunks++] = (struct scheduled_chunk){
            gen, gen->n_computed, rows, whole && !gen->pooled, whole && gen->pooled};
    }
    sort_prompts_last(engine->scheduler.chunk, n_chunks);
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

static void fill_rows(ey_engine *engine, const struct scheduled_chunk *chunk, int seq, int at)
{
    struct host_buffers *h = &engine->buffers.host;
    const ey_generation *gen = chunk->gen;
    int n_prompt = (int)gen->prompt->ids.n;
    for (int i = 0; i < chunk->n; i++) {
        int row = chunk->first + i;
        int32_t *position = h->position + 3 * (at + i);
        h->token[at + i] = generation_token_at(gen, row);
        if (row < n_prompt)
            memcpy(position, gen->prompt->position + 3 * row, 3 * sizeof(*position));
        else
            position[0] = position[1] = position[2] = gen->prompt->next_position + row - n_prompt;
    }
    fill_feature_rows(chunk, h->feature + at);
    h->seq[seq] = (struct step_seq){at, chunk->n, chunk->first,
                                    chunk_is_prompt(chunk) ? STAGE_PROMPT : STAGE_DECODE};
    memcpy(h->block_table + (size_t)seq * (size_t)engine->limits.max_blocks, gen->slot->blocks,
           (size_t)gen->n_blocks * sizeof(int32_t));
}

int n_prompt_rows(const struct scheduled_chunk *chunk, int n)
{
    int rows = 0;
    for (int i = 0; i < n; i++)
        rows += chunk_is_prompt(&chunk[i]) || chunk[i].n > 1 ? chunk[i].n : 0;
    return rows;
}

struct step host_step(const struct host_buffers *h, int n_rows, int n_seqs, int max_blocks,
                      int n_logits)
{
    step_index_rows(h->seq, n_seqs, h->row_seq, h->row_slot);
    return (struct step){.n_rows = n_rows,
                         .n_seqs = n_seqs,
                         .max_blocks = max_blocks,
                         .n_logits = n_logits,
                         .seq = h->seq,
                         .token = h->token,
                         .feature = h->feature,
                         .position = h->position,
                         .row_seq = h->row_seq,
                         .row_slot = h->row_slot,
                         .block_table = h->block_table,
                         .logits_row = h->logits_row};
}

struct step build_step(ey_engine *engine, int n_chunks)
{
    int n_rows = 0, n_logits = 0;
    for (int i = 0; i < n_chunks; i++) {
        fill_rows(engine, &engine->scheduler.chunk[i], i, n_rows);
        n_rows += engine->scheduler.chunk[i].n;
        if (engine->scheduler.chunk[i].wants_logits)
            engine->buffers.host.logits_row[n_logits++] = n_rows - 1;
    }
    return host_step(&engine->buffers.host, n_rows, n_chunks, engine->limits.max_blocks, n_logits);
}
