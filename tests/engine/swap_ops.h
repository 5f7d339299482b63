/* SPDX-License-Identifier: Apache-2.0 */
/* Other operations for the backend of an open engine, whose scheduler may be copying weights. */
#ifndef EY_TESTS_ENGINE_SWAP_OPS_H
#define EY_TESTS_ENGINE_SWAP_OPS_H

#include "engine/engine_internal.h"

/* The scheduler reads `ops` under one lock or the other. */
static inline void swap_ops(ey_engine *engine, const struct backend_ops *ops)
{
    pthread_mutex_lock(&engine->devices.lock);
    pthread_mutex_lock(&engine->scheduler.lock);
    engine->devices.be->ops = ops;
    pthread_mutex_unlock(&engine->scheduler.lock);
    pthread_mutex_unlock(&engine->devices.lock);
}

#endif
