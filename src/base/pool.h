/* SPDX-License-Identifier: Apache-2.0 */
/* A thread pool that runs one parallel loop at a time. Idle workers spin briefly, then sleep. */
#ifndef EY_BASE_POOL_H
#define EY_BASE_POOL_H

#include "base/err.h"

struct pool;

/* Processes items [begin, end) of a loop. `thread` is in [0, pool_threads), to index scratch. */
typedef void pool_fn(void *context, size_t begin, size_t end, int thread);

/* Starts threads - 1 workers; the caller of pool_run is the last thread. If `threads` is 0, uses
 * processors_usable(). */
bool pool_create(struct pool **pool, int threads, ey_err *e);
void pool_destroy(struct pool **pool);
int pool_threads(const struct pool *pool);
/* Runs fn over [0, n) in chunks of `grain` items on all threads and returns when all are done. One
 * caller at a time, and never from within fn. */
void pool_run(struct pool *pool, size_t n, size_t grain, pool_fn *fn, void *context);
/* Like pool_run with locality: each thread gets one contiguous range and takes chunks from its
 * front. Chunks end at multiples of `chunk`; near the end they shrink to no less than `min_chunk`.
 * Idle threads steal from the ends of other ranges. n is below 2^32. */
void pool_run_ranges(struct pool *pool, size_t n, size_t chunk, size_t min_chunk, pool_fn *fn,
                     void *context);

#endif
