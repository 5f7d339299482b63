/* SPDX-License-Identifier: Apache-2.0 */
/* Decides when the backend converts placed weights to a form that is read faster
 * (memory_ops.refine). */
#ifndef EY_REFINE_WEIGHTS_H
#define EY_REFINE_WEIGHTS_H
#include "engine/engine_internal.h"

/* Lets the backend list the weights to convert. If `eager`, converts some now, and later also while
 * requests run. */
void refine_weights_start(ey_engine *engine, bool eager);
/* Whether to do a slice of this work now. `has_work`: requests run. Called under scheduler.lock. */
bool refine_weights_now(const struct engine_devices *devices, bool has_work);
/* Does a slice of this work. Called by the scheduler, which holds devices.lock and not
 * scheduler.lock. */
void refine_weights_some(ey_engine *engine);
/* Returns how many fewer bytes a step reads than the checkpoint stores, thanks to BF12. May be
 * called by any thread. */
uint64_t refine_weights_saved_bytes(const ey_engine *engine);

#endif
