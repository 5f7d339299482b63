/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that are put behind the one under way. All of this is the scheduler's thread's. */
#ifndef EY_ENGINE_AHEAD_H
#define EY_ENGINE_AHEAD_H

#include "engine/engine_internal.h"

enum { MAX_ASYNC_REQUESTS = 32 }; /* requests of such a step */

/* Puts the next step behind the one of these parts, which is under way, where it can be foreseen;
 * engine->n_async then says so. */
void async_step_enqueue(ey_engine *engine, int n_chunks);
/* Whether the step that was put behind the last one is that of these parts, which then is under
 * way; otherwise it is ended. */
bool async_step_commit(ey_engine *engine, int n_chunks);
/* Whether the step's results can be taken: after it, and before its tokens. Otherwise it has to be
 * run again. */
bool async_step_verify(ey_engine *engine, int n_chunks);
/* Waits for the step that was put behind, and forgets it. */
void async_step_discard(ey_engine *engine);

#endif
