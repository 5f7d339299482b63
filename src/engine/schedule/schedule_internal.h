/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the scheduler's files share. They all run on the scheduler's thread. */
#ifndef EY_SCHEDULE_INTERNAL_H
#define EY_SCHEDULE_INTERNAL_H
#include "engine/engine_internal.h"
#include "engine/request/generation.h"
#include "engine/sample/sample_row.h"

enum { MIN_CHUNK_ROWS = 16 }; /* prompt chunks are multiples of this many rows */

/* Returns the time limit of a turn while requests decode (scheduler.c). */
double slice_seconds(const ey_engine *engine);

static inline void update_ema(double *ema, double now)
{
    *ema = *ema > 0 ? 0.5 * (*ema + now) : now;
}

/* ---- admission.c: which requests run; all of it under scheduler.lock ---- */

/* Admits waiting requests in order while slots, KV blocks and feature rows suffice. To make room,
 * preempts running requests that are paused because their text was not fetched. */
void admit_waiting(ey_engine *engine);
void end_cancelled_requests(ey_engine *engine);
/* Ends requests whose text was not fetched for engine->limits.unread_seconds. */
void end_abandoned_requests(ey_engine *engine);
void end_running_request(ey_engine *engine, ey_generation *gen, const ey_err *error);
/* Takes away the request's slot and blocks and puts it at the front of the queue. */
void preempt_request(ey_engine *engine, ey_generation *gen);
/* Returns the youngest running request that is paused because its text was not fetched, or NULL. */
ey_generation *youngest_unread_full(const struct scheduler *scheduler);
/* Releases the feature rows of the request's image `i`. */
void unpin_image(ey_engine *engine, ey_generation *gen, size_t i);
/* Drops the images that the vision encoder is working on. */
void end_encoder_run(ey_engine *engine);
/* Ends all running requests after a failed step and empties the caches. Takes the lock. */
void fail_running_requests(ey_engine *engine, const ey_err *error);

/* ---- prefix_cache.c: KV blocks that requests share ---- */

/* References the cached blocks of the longest known prefix. The last known token is always
 * computed, because its logits are needed. */
void reuse_prefix(struct engine_caches *caches, ey_generation *gen);
/* Makes the request's full blocks available to others. */
void publish_blocks(struct engine_caches *caches, ey_generation *gen);

/* ---- step_batch.c: the rows of a step ---- */

/* Whether the chunk's first row belongs to the prompt. */
bool chunk_is_prompt(const struct scheduled_chunk *chunk);
/* Fills engine->scheduler.chunk and returns the number of chunks. Called under the lock. May
 * preempt requests, but none that has a chunk: first paused ones, then the youngest. */
int schedule_chunks(ey_engine *engine);
/* Counts the prefill rows: those of prompts and of answers recomputed after a preemption. */
int n_prompt_rows(const struct scheduled_chunk *chunk, int n);
/* Writes the chunks' rows into engine->buffers.host. */
struct step build_step(ey_engine *engine, int n_chunks);

/* ---- score_prompts.c: log-probabilities of prompts ---- */

/* Whether these chunks contain prompt rows whose log-probabilities were requested. */
bool chunks_score_prompts(const struct scheduled_chunk *chunk, int n);
/* Scores prompt tokens after a step without logits, a few rows at a time in the logits buffer, and
 * then computes the step's own logits. Fails if the device failed. */
bool score_prompts(ey_engine *engine, int n_chunks, dev x, ey_err *e);

/* ---- vision_step.c: the encoder's share of a turn ---- */

/* Finds the first image that a request waits for, starting with the longest running request. */
bool next_image(const struct scheduler *scheduler, const ey_generation **gen, size_t *index);
/* Runs tiles of the current images, at least one, until the turn that began at `start` has used its
 * time slice. */
void run_encoder(ey_engine *engine, double start);

/* ---- pool_row.c ---- */

/* Computes the request's vector or score from a row of the step's residual stream. */
void pool_row(ey_engine *engine, ey_generation *gen, dev x, int row);

/* ---- emit_token.c ---- */

/* Samples the next token and publishes the text that it completes. Returns whether the answer is
 * over. */
bool generation_emit_token(ey_generation *gen, const struct step_row *row);

#endif
