/* SPDX-License-Identifier: Apache-2.0 */
/* When the backend may work on the form of its placed weights (memory_ops.refine). */
#ifndef EY_REFINE_WEIGHTS_H
#define EY_REFINE_WEIGHTS_H
#include "engine/engine_internal.h"

/* Lets the backend list what there is to do. eager: go on also while requests run. */
void refine_weights_start(ey_engine *engine, bool eager);
/* Whether to do some of it now; has_work: requests run. Under scheduler.lock. */
bool refine_weights_now(const struct engine_devices *devices, bool has_work);
/* Does some. Called by the scheduler, which holds devices.lock and not scheduler.lock. */
void refine_weights_some(ey_engine *engine);
/* Bytes that a step reads less than the checkpoint stores, thanks to BF12. Any thread. */
uint64_t refine_weights_saved_bytes(const ey_engine *engine);

#endif
