/* SPDX-License-Identifier: Apache-2.0 */
/* Counts what is allocated while an answer is decoded, on any thread: from its first text, which
 * starts the count, to its last. Goes with base/allocations.c into the test program itself. */
#ifndef EY_TESTS_ENGINE_DECODE_ALLOCATIONS_H
#define EY_TESTS_ENGINE_DECODE_ALLOCATIONS_H

#include "eyelet.h"

struct decode_allocations {
    bool (*ignored)(void); /* as allocations_start() takes it */
    int n_texts, n;        /* n: when the last text came */
};

/* For ey_request's on_event; its user is the struct. Nothing must be decoded before the first text
 * was heard (max_unread = 1); stop the count after the answer. */
bool decode_allocations_hear(void *user, const ey_event *event);

#endif
