/* SPDX-License-Identifier: Apache-2.0 */
/* A team of threads, started once, that runs one loop at a time and waits otherwise: awake for a
 * moment, then asleep. */
#ifndef EY_BASE_POOL_H
#define EY_BASE_POOL_H

#include "base/err.h"

struct pool;

/* Work on items [begin, end) of a loop; `thread` is 0..pool_threads-1, for scratch space. */
typedef void pool_fn(void *context, size_t begin, size_t end, int thread);

/* threads = 0: processors_usable(). The caller is one of the threads. */
bool pool_create(struct pool **pool, int threads, ey_err *e);
void pool_destroy(struct pool **pool);
int pool_threads(const struct pool *pool);
/* Runs fn over [0, n) in pieces of `grain` items, on all threads, and returns when all are done.
 * Not to be called from within fn, and by one thread at a time. */
void pool_run(struct pool *pool, size_t n, size_t grain, pool_fn *fn, void *context);
/* The same where neighbours want to be one thread's, one after the other: each has a share of
 * neighbouring items and takes of it pieces of `piece`, which end at multiples of that, and shorter
 * ones towards its end, of `least` or more; who has done its share helps the others from the ends
 * of theirs. n is below 2^32. */
void pool_run_ranges(struct pool *pool, size_t n, size_t chunk, size_t min_chunk, pool_fn *fn,
                     void *context);

#endif
