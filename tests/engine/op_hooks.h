/* SPDX-License-Identifier: Apache-2.0 */
/* Looks over a backend's shoulder: counts what the engine asks of it, and calls the test back at
 * each such moment, so that a test acts at a known place of a request instead of at a time. */
#ifndef EY_TESTS_ENGINE_OP_HOOKS_H
#define EY_TESTS_ENGINE_OP_HOOKS_H

#include "engine/engine_fixture.h"

enum op {
    OP_ENCODER, /* an image enters the vision encoder */
    OP_TILE,    /* keys of a tile in the vision encoder: once a block and tile */
    OP_MERGE,   /* a tile leaves the vision encoder, or one of its taps */
    OP_STEP,    /* a text model step begins */
    OP_LAYER,   /* a layer of it */
    OP_LOGITS,  /* the head of a step that makes tokens */
    OP_FINISH,  /* the device is asked whether all went well */
    N_OPS
};

/* On the engine's thread, without its locks; n counts the op's calls since hooks_reset, from 1. */
typedef void hook_fn(void *user, enum op op, int n);

/* Hooks the backend of an engine at rest; one engine at a time. The engine may be closed with them.
 */
void hooks_on(ey_engine *engine);
/* Counts from 0 again and calls `fn` (NULL: nobody). Only while the engine rests. */
void hooks_reset(hook_fn *fn, void *user);
int hooks_count(enum op op);
/* The device fails at call number `at` of OP_FINISH since hooks_reset. */
void hooks_fail(int at);

/* Asks, and cancels by ey_generation_cancel from within call number `at` of `op`; that there is one
 * is checked. Text is told to the request's on_event, if it has one. */
ey_answer ask_cancelled(ey_engine *engine, const struct question *q, enum op op, int at);

#endif
