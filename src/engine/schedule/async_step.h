/* SPDX-License-Identifier: Apache-2.0 */
/* Async (speculative) steps: the next decode step is enqueued behind the current one. Scheduler
 * thread only. */
#ifndef EY_ENGINE_SCHEDULE_ASYNC_STEP_H
#define EY_ENGINE_SCHEDULE_ASYNC_STEP_H

#include "engine/engine_internal.h"

enum { MAX_ASYNC_REQUESTS = 64 }; /* most requests of an async step */

/* Enqueues the step after this one if it can be predicted, and sets engine->scheduler.n_async. */
void async_step_enqueue(ey_engine *engine, int n_chunks);
/* Commits the enqueued step if it is the one needed now; discards it otherwise. Returns whether it
 * was committed. */
bool async_step_commit(ey_engine *engine, int n_chunks);
/* Whether the current step's results are valid; call it after the step and before using its tokens.
 * If not, the step must run again. */
bool async_step_verify(ey_engine *engine, int n_chunks);
/* Forgets a request that has ended, so that a new one at its address is not taken for it. */
void async_step_forget(struct scheduler *scheduler, const ey_generation *gen);
/* Waits for the enqueued step and discards it. */
void async_step_discard(ey_engine *engine);

#endif
