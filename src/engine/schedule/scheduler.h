/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler: one thread that owns all running requests and the device. */
#ifndef EY_SCHEDULER_H
#define EY_SCHEDULER_H
#include "engine/engine_internal.h"

bool scheduler_start(ey_engine *engine, ey_err *e);
/* Ends running and waiting requests and stops the thread. */
void scheduler_stop(struct scheduler *scheduler);

#endif
