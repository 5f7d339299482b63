/* SPDX-License-Identifier: Apache-2.0 */
/* Enqueues the next decode step before this step's tokens are known on the host: the device samples
 * them and continues. The scheduler samples too, from the results that it gets, and commits the
 * enqueued step only if the step that it needs next has the same rows. */
#include "engine/schedule/async_step.h"

#include <string.h>

#include "engine/schedule/schedule_internal.h"

/* Whether the request continues after this step with a token that the device can sample. */
static bool can_continue(const ey_engine *engine, const struct scheduled_chunk *chunk)
{
    const ey_generation *gen = chunk->gen;
    return chunk->n == 1 && !chunk_is_prompt(chunk) && chunk->wants_logits && !gen->matcher &&
           !thought_is_forced(&gen->thought) && !gen->cancelled &&
           !generation_is_unread_full(gen) && gen->output.n + 2 <= gen->output.max_tokens &&
           sampler_gpu_can_sample(&gen->slot->sampler, engine->buffers.bf16_head.data != NULL) &&
           chunk->first + 2 <= engine->limits.max_blocks * KV_BLOCK;
}

/* Whether all running requests decode and nothing else waits for the device, so that the next step
 * will most likely have the same rows. Called under the lock. */
static bool is_predictable(const ey_engine *engine, int n_chunks)
{
    if (!engine->devices.be->ops->graph || engine->buffers.ws.n_ranges > 1 ||
        engine->buffers.rescores_on_host || n_chunks > MAX_ASYNC_REQUESTS ||
        n_chunks != engine->scheduler.n_running)
        return false;
    if (engine->scheduler.queue.n || engine->scheduler.closing || engine->scheduler.n_encoding)
        return false;
    for (int k = 0; k < n_chunks; k++)
        if (!can_continue(engine, &engine->scheduler.chunk[k])) return false;
    return true;
}

/* Allocates a block for each request's next row. Returns false if the pool is exhausted: a
 * speculative step never preempts. Called under the lock. */
static bool allocate_next_blocks(ey_engine *engine, int n_chunks)
{
    for (int k = 0; k < n_chunks; k++) {
        ey_generation *gen = engine->scheduler.chunk[k].gen;
        if (gen->n_blocks * KV_BLOCK >= engine->scheduler.chunk[k].first + 2) continue;
        int32_t block = kv_pool_alloc(&engine->caches.blocks);
        if (block < 0) return false;
        gen->slot->blocks[gen->n_blocks++] = block;
    }
    return true;
}

/* Builds the next step. It has one row of each request: the row after the one in this step. */
static struct step build_next_step(ey_engine *engine, int n_chunks,
                                   struct token_sampling *samplings)
{
    struct host_buffers *h = &engine->buffers.host;
    for (int k = 0; k < n_chunks; k++) {
        const ey_generation *gen = engine->scheduler.chunk[k].gen;
        int row = engine->scheduler.chunk[k].first + 1,
            position = gen->prompt->next_position + row - (int)gen->prompt->ids.n;
        h->token[k] = 0;
        h->feature[k] = -1;
        h->seq[k] = (struct step_seq){k, 1, row, STAGE_DECODE};
        h->logits_row[k] = k;
        for (int axis = 0; axis < 3; axis++)
            h->position[3 * k + axis] = position;
        memcpy(h->block_table + (size_t)k * (size_t)engine->limits.max_blocks, gen->slot->blocks,
               (size_t)gen->n_blocks * sizeof(int32_t));
        samplings[k] = sampler_gpu_params(&gen->slot->sampler);
    }
    return host_step(h, n_chunks, n_chunks, engine->limits.max_blocks, n_chunks);
}

void async_step_enqueue(ey_engine *engine, int n_chunks)
{
    struct token_sampling samplings[MAX_ASYNC_REQUESTS];
    pthread_mutex_lock(&engine->scheduler.lock);
    bool can_enqueue = is_predictable(engine, n_chunks) && allocate_next_blocks(engine, n_chunks);
    pthread_mutex_unlock(&engine->scheduler.lock);
    if (!can_enqueue) return;
    const struct step next = build_next_step(engine, n_chunks, samplings);
    engine->scheduler.async_step = engine->devices.be->ops->graph->enqueue_speculative(
        engine->devices.be, &next, samplings);
    if (!engine->scheduler.async_step) return;
    memcpy(engine->scheduler.previous_chunk, engine->scheduler.chunk,
           (size_t)n_chunks * sizeof(*engine->scheduler.previous_chunk));
    engine->scheduler.n_async = n_chunks;
}

void async_step_discard(ey_engine *engine)
{
    if (engine->scheduler.n_async)
        engine->devices.be->ops->graph->drop(engine->devices.be, engine->scheduler.async_step);
    engine->scheduler.n_async = 0;
}

void async_step_forget(struct scheduler *s, const ey_generation *gen)
{
    for (int k = 0; k < s->n_async; k++)
        if (s->previous_chunk[k].gen == gen) s->previous_chunk[k].gen = NULL;
}

bool async_step_commit(ey_engine *engine, int n_chunks)
{
    int32_t token[MAX_ASYNC_REQUESTS];
    bool same = engine->scheduler.n_async > 0 && n_chunks == engine->scheduler.n_async;
    for (int k = 0; same && k < n_chunks; k++) {
        const struct scheduled_chunk *current = &engine->scheduler.chunk[k],
                                     *previous = &engine->scheduler.previous_chunk[k];
        same = current->gen == previous->gen && current->first == previous->first + 1 &&
               current->n == 1;
        token[k] = same ? generation_token_at(current->gen, current->first) : -1;
    }
    if (!same) {
        async_step_discard(engine);
        return false;
    }
    engine->devices.be->ops->graph->commit(engine->devices.be, engine->scheduler.async_step, token,
                                           n_chunks);
    engine->scheduler.step = engine->scheduler.async_step;
    engine->scheduler.n_async = 0;
    return true;
}

/* With another step enqueued, only the top-k logits of each row survive, so they must decide the
 * token. */
bool async_step_verify(ey_engine *engine, int n_chunks)
{
    struct topk_logits best;
    if (!engine->devices.be->ops->graph->verify(engine->devices.be, engine->scheduler.step))
        return false;
    for (int k = 0; engine->scheduler.n_async && k < n_chunks; k++) {
        engine->devices.be->ops->compute->topk(engine->devices.be, &best, k);
        if (!sampler_topk_decides(&engine->scheduler.chunk[k].gen->slot->sampler, &best,
                                  engine->buffers.bf16_head.data != NULL))
            return false;
    }
    return true;
}
