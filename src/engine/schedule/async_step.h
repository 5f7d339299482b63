/* SPDX-License-Identifier: Apache-2.0 */
/* Async (speculative) steps: the next decode step is enqueued behind the current one. Scheduler
 * thread only. */
#ifndef EY_ENGINE_AHEAD_H
#define EY_ENGINE_AHEAD_H

#include "engine/engine_internal.h"

enum { MAX_ASYNC_REQUESTS = 64 }; /* requests of such a step */

/* Enqueues the step after this one if it can be predicted; engine->scheduler.n_async then says so.
 */
void async_step_enqueue(ey_engine *engine, int n_chunks);
/* Commits the enqueued step if it is the one wanted now; discards it otherwise. */
bool async_step_commit(ey_engine *engine, int n_chunks);
/* Whether the current step's results are valid; call it after the step and before its tokens are
 * used. Otherwise the step has to run again. */
bool async_step_verify(ey_engine *engine, int n_chunks);
/* Waits for the enqueued step and discards it. */
void async_step_discard(ey_engine *engine);

#endif
