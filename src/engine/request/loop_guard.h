/* SPDX-License-Identifier: Apache-2.0 */
/* Finds answers that say the same over and over, a token at a time, without allocating. */
#ifndef EY_ENGINE_LOOP_GUARD_H
#define EY_ENGINE_LOOP_GUARD_H

#include "base/buf.h"
#include "eyelet/request.h"

struct loop_guard {
    ey_loop_guard rule;
    int32_t *run; /* [max_pattern + 1] for how many last tokens o[i] == o[i - p], by p */
    int first;    /* token that the search begins at */
};

bool loop_guard_check(const ey_loop_guard *rule, ey_err *e);
/* In the arena's memory. False: there is none. */
bool loop_guard_open(struct loop_guard *g, const ey_loop_guard *rule, struct arena *arena);
/* What came so far, up to token `first`, is no part of a loop. */
void loop_guard_begin(struct loop_guard *g, int first);
/* Takes the last of ids[n]. The shortest loop that they end with; copies 0: none. */
ey_repetition loop_guard_add(struct loop_guard *g, const int32_t *ids, int n);

#endif
