/* SPDX-License-Identifier: Apache-2.0 */
/* Detects answers that repeat themselves, one token at a time, without allocating. */
#ifndef EY_ENGINE_LOOP_GUARD_H
#define EY_ENGINE_LOOP_GUARD_H

#include "base/buf.h"
#include "eyelet/request.h"

struct loop_guard {
    ey_loop_guard rule;
    int32_t *run; /* [max_pattern + 1]; run[p] is how many of the last ids equal the id p places
                     earlier */
    int first;    /* index of the first token that is searched */
};

bool loop_guard_check(const ey_loop_guard *rule, ey_err *e);
/* Allocates from the arena. Returns false if memory runs out. */
bool loop_guard_open(struct loop_guard *g, const ey_loop_guard *rule, struct arena *arena);
/* Starts a new search at token `first`: earlier tokens are never part of a loop. */
void loop_guard_begin(struct loop_guard *g, int first);
/* Takes the last token of ids[n]. Returns the shortest loop at the end of ids[n]; its `copies` are
 * 0 if there is none. */
ey_repetition loop_guard_add(struct loop_guard *g, const int32_t *ids, int n);

#endif
