/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks a backend's operations: counts them and calls the test back, so that it can act at a
 * certain place of a request instead of at a time. */
#ifndef EY_TESTS_ENGINE_OP_HOOKS_H
#define EY_TESTS_ENGINE_OP_HOOKS_H

#include "engine/engine_fixture.h"

enum op {
    OP_ENCODER, /* an image enters the vision encoder */
    OP_TILE,    /* attention keys of a tile in the vision encoder: once a block and tile */
    OP_MERGE,   /* merges a tile's output or its DeepStack features */
    OP_STEP,    /* a text model step begins */
    OP_LAYER,   /* a layer of it */
    OP_LOGITS,  /* LM head of a step that samples */
    OP_FINISH,  /* synchronizes with the device and gets its errors */
    N_OPS
};

/* Runs on the engine's thread without its locks; n counts calls of the op since hooks_reset, from
 * 1. */
typedef void hook_fn(void *user, enum op op, int n);

/* Hooks the backend of an idle engine; one engine at a time. The engine may be closed while hooked.
 */
void hooks_on(ey_engine *engine);
/* Resets the counters and sets the callback (NULL: none). The engine must be idle. */
void hooks_reset(hook_fn *fn, void *user);
int hooks_count(enum op op);
/* Makes the device fail at call `at` of OP_FINISH since hooks_reset. */
void hooks_fail(int at);

/* Runs the request and calls ey_generation_cancel from call `at` of `op`, which must occur. The
 * request's on_event gets the text events. */
ey_answer ask_cancelled(ey_engine *engine, const struct question *q, enum op op, int at);

#endif
