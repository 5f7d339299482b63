/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces the operations of an open engine's backend while its scheduler may be copying weights.
 */
#ifndef EY_TESTS_ENGINE_SWAP_OPS_H
#define EY_TESTS_ENGINE_SWAP_OPS_H

#include "engine/engine_internal.h"

/* Takes both locks, as the scheduler reads `ops` under either. */
static inline void swap_ops(ey_engine *engine, const struct backend_ops *ops)
{
    pthread_mutex_lock(&engine->devices.lock);
    pthread_mutex_lock(&engine->scheduler.lock);
    engine->devices.be->ops = ops;
    pthread_mutex_unlock(&engine->scheduler.lock);
    pthread_mutex_unlock(&engine->devices.lock);
}

#endif
