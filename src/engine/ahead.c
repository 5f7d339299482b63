/* SPDX-License-Identifier: Apache-2.0 */
/* The next step, enqueued before the tokens of this one are known: while all that run just answer,
 * the device draws their tokens itself and goes on. The scheduler draws them too, from what came
 * back, and takes the step that was put behind only if it was the one that it would have run. */
#include "engine/ahead.h"

#include <string.h>

#include "engine/ticket.h"

/* Whether the request goes on after this step, and with a token that the device can draw. */
static bool goes_on(const ey_engine *engine, const struct part *part)
{
    const ey_ticket *t = part->ticket;
    return part->n == 1 && !part_is_prompt(part) && part->wants_logits && !t->constraint &&
           !t->cancelled && !ticket_is_full(t) && t->generation.n + 2 <= t->generation.max_tokens &&
           sampler_draws_from_best(&t->slot->sampler, engine->exact_head.data != NULL) &&
           part->first + 2 <= engine->max_blocks * KV_BLOCK;
}

/* All that run answer, and nobody and nothing else waits for the device: then the next step will
 * most likely be of the same rows. Under the lock. */
static bool is_steady(const ey_engine *engine, int n_parts)
{
    if (!engine->be->ops->replay_next || engine->first.n || engine->scores_again ||
        n_parts > MOST_AHEAD || n_parts != engine->n_running)
        return false;
    if (engine->queue.n || engine->closing || engine->pass_entry) return false;
    for (int k = 0; k < n_parts; k++)
        if (!goes_on(engine, &engine->part[k])) return false;
    return true;
}

/* A block for each request's next row; false: the pool has not enough, and nobody is made to give
 * way for a guess. Under the lock. */
static bool find_next_blocks(ey_engine *engine, int n_parts)
{
    for (int k = 0; k < n_parts; k++) {
        ey_ticket *t = engine->part[k].ticket;
        if (t->n_blocks * KV_BLOCK >= engine->part[k].first + 2) continue;
        int32_t block = kv_pool_take(&engine->blocks);
        if (block < 0) return false;
        t->slot->blocks[t->n_blocks++] = block;
    }
    return true;
}

/* The rows after those of this step. */
static struct batch lay_out_next(ey_engine *engine, int n_parts, struct token_draw *draws)
{
    struct host_buffers *h = &engine->host;
    for (int k = 0; k < n_parts; k++) {
        const ey_ticket *t = engine->part[k].ticket;
        int row = engine->part[k].first + 1,
            position = t->prompt->next_position + row - (int)t->prompt->ids.n;
        h->token[k] = 0;
        h->feature[k] = -1;
        h->seq[k] = k;
        h->index[k] = row;
        for (int axis = 0; axis < 3; axis++)
            h->position[3 * k + axis] = position;
        memcpy(h->block_table + (size_t)k * (size_t)engine->max_blocks, t->slot->blocks,
               (size_t)t->n_blocks * sizeof(int32_t));
        draws[k] = sampler_next_draw(&t->slot->sampler);
    }
    return (struct batch){n_parts,     n_parts, engine->max_blocks, h->token,       h->feature,
                          h->position, h->seq,  h->index,           h->block_table, 0};
}

/* Puts the next step behind the one under way, where it can be foreseen. */
void ahead_run(ey_engine *engine, int n_parts)
{
    struct token_draw draws[MOST_AHEAD];
    pthread_mutex_lock(&engine->lock);
    bool ahead = is_steady(engine, n_parts) && find_next_blocks(engine, n_parts);
    pthread_mutex_unlock(&engine->lock);
    if (!ahead) return;
    struct batch next = lay_out_next(engine, n_parts, draws);
    if (!engine->be->ops->replay_next(engine->be, &next, draws)) return;
    memcpy(engine->ahead, engine->part, (size_t)n_parts * sizeof(*engine->ahead));
    engine->n_ahead = n_parts;
}

void ahead_end(ey_engine *engine)
{
    if (engine->n_ahead) engine->be->ops->finish(engine->be, NULL);
    engine->n_ahead = 0;
}

/* Whether the step that was put behind the last one is the one that is wanted now; otherwise it is
 * ended. */
bool ahead_take(ey_engine *engine, int n_parts)
{
    int32_t token[MOST_AHEAD];
    bool same = engine->n_ahead > 0 && n_parts == engine->n_ahead;
    for (int k = 0; same && k < n_parts; k++) {
        const struct part *now = &engine->part[k], *then = &engine->ahead[k];
        same = now->ticket == then->ticket && now->first == then->first + 1 && now->n == 1;
        token[k] = same ? ticket_token(now->ticket, now->first) : -1;
    }
    if (!same) return ahead_end(engine), false;
    engine->be->ops->take_next(engine->be, token, n_parts);
    engine->n_ahead = 0;
    for (int k = 0; k < n_parts; k++)
        engine->host.out_rows[k] = k;
    return true;
}

/* Whether what was drawn on the device was right, and the best of every row decide its token: all
 * logits are gone where a next step was put behind. */
bool ahead_was_right(ey_engine *engine, int n_parts)
{
    struct best_logits best;
    if (!engine->be->ops->was_right(engine->be)) return false;
    for (int k = 0; engine->n_ahead && k < n_parts; k++) {
        engine->be->ops->best(engine->be, &best, k);
        if (!sampler_is_decided(&engine->part[k].ticket->slot->sampler, &best,
                                engine->exact_head.data != NULL))
            return false;
    }
    return true;
}
