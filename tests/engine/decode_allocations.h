/* SPDX-License-Identifier: Apache-2.0 */
/* Counts allocations of all threads while an answer is decoded, from its first text event to its
 * last. Link it into the test program, with base/allocations.c. */
#ifndef EY_TESTS_ENGINE_DECODE_ALLOCATIONS_H
#define EY_TESTS_ENGINE_DECODE_ALLOCATIONS_H

#include "eyelet.h"

struct decode_allocations {
    bool (*ignored)(void); /* see allocations_start() */
    int n_texts, n;        /* n: allocations until the last text event */
};

/* An on_event callback; `user` is the struct. Set max_unread to 1, so that nothing is decoded
 * before the first text event, and stop the count after the answer. */
bool decode_allocations_hear(void *user, const ey_event *event);

#endif
