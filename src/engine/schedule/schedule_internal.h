/* SPDX-License-Identifier: Apache-2.0 */
/* What the scheduler's files share. All of it runs on the scheduler's thread. */
#ifndef EY_SCHEDULE_INTERNAL_H
#define EY_SCHEDULE_INTERNAL_H
#include "engine/engine_internal.h"
#include "engine/request/generation.h"
#include "engine/sample/sample_row.h"

enum { MIN_CHUNK_ROWS = 16 }; /* prompt chunks are cut in multiples of it */

/* How long a turn may be while requests decode (scheduler.c). */
double slice_seconds(const ey_engine *engine);

static inline void update_ema(double *ema, double now)
{
    *ema = *ema > 0 ? 0.5 * (*ema + now) : now;
}

/* ---- admission.c: which requests run; all of it under scheduler.lock ---- */

/* Admits waiting requests in order while slots, KV blocks and feature rows suffice. A running
 * request whose text nobody fetches is preempted for one that can proceed. */
void admit_waiting(ey_engine *engine);
void end_cancelled_requests(ey_engine *engine);
/* Ends requests whose text has not been fetched for engine->limits.unread_seconds. */
void end_abandoned_requests(ey_engine *engine);
void end_running_request(ey_engine *engine, ey_generation *gen, const ey_err *error);
/* Takes slot and blocks away and puts the request at the front of the queue. */
void preempt_request(ey_engine *engine, ey_generation *gen);
/* The youngest running request that cannot go on because its text is not fetched; or NULL. */
ey_generation *youngest_unread_full(const struct scheduler *scheduler);
/* Releases feature rows that image `i` of the request holds. */
void unpin_image(ey_engine *engine, ey_generation *gen, size_t i);
/* Forgets the images that the vision encoder works on. */
void end_encoder_run(ey_engine *engine);
/* Takes the lock itself: a failed step ends all requests that took part and empties the caches. */
void fail_running_requests(ey_engine *engine, const ey_err *error);

/* ---- prefix_cache.c: KV blocks that requests share ---- */

/* References the cached blocks of the longest known prefix. The last known token is always
 * computed, because its logits are needed. */
void reuse_prefix(struct engine_caches *caches, ey_generation *gen);
/* Makes full blocks of the request available to others. */
void publish_blocks(struct engine_caches *caches, ey_generation *gen);

/* ---- step_batch.c: the rows of a step ---- */

/* The chunk's first row belongs to the prompt. */
bool chunk_is_prompt(const struct scheduled_chunk *chunk);
/* Fills engine->scheduler.chunk and returns how many there are. Under the lock. Older requests come
 * first, so a request that is preempted for blocks is never scheduled already. */
int schedule_chunks(ey_engine *engine);
int n_prompt_rows(const struct scheduled_chunk *chunk, int n);
/* Writes the chunks' rows into engine->buffers.host. */
struct step build_step(ey_engine *engine, int n_chunks);

/* ---- score_prompts.c: log-probabilities of prompts ---- */

/* Whether rows of these chunks say how likely a prompt's tokens are. */
bool chunks_score_prompts(const struct scheduled_chunk *chunk, int n);
/* After a step without logits: a few rows at a time in their buffer, then the step's own logits.
 * False: the device failed. */
bool score_prompts(ey_engine *engine, int n_chunks, dev x, ey_err *e);

/* ---- vision_step.c: the encoder's share of a turn ---- */

/* The first image that a request waits for, of the longest running request first. */
bool next_image(const struct scheduler *scheduler, const ey_generation **gen, size_t *index);
/* Runs tiles of the current image until the turn that began at `start` has used its time slice;
 * at least one. */
void run_encoder(ey_engine *engine, double start);

/* ---- pool_row.c ---- */

/* Makes the request's vector or score of a row of the step's residual stream. */
void pool_row(ey_engine *engine, ey_generation *gen, dev x, int row);

/* ---- emit_token.c ---- */

/* Samples the next token and publishes the text that it completes. True: the answer is over. */
bool generation_emit_token(ey_generation *gen, const struct step_row *row);

#endif
