/* SPDX-License-Identifier: Apache-2.0 */
/* A budget: bytes that several threads share, so that the total in flight stays within a limit.
 * Thread-safe. */
#ifndef EYELET_BUDGET_H
#define EYELET_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "eyelet/api.h"

EY_BEGIN_DECLS

typedef struct ey_budget ey_budget;

/* Makes a budget of this many bytes, which the caller frees. Returns NULL when memory is exhausted.
 */
EY_API ey_budget *ey_budget_create(uint64_t bytes);
/* Frees the budget and sets *budget to NULL; accepts NULL. Threads and engines that use it must
 * have ended. */
EY_API void ey_budget_free(ey_budget **budget);
/* Waits up to timeout_ms for n free bytes. Returns false on timeout, or if n exceeds the total. */
EY_API bool ey_budget_acquire(ey_budget *budget, uint64_t n, int timeout_ms);
/* Gives back n of the bytes that were acquired. */
EY_API void ey_budget_release(ey_budget *budget, uint64_t n);
/* Returns the bytes of the whole budget. */
EY_API uint64_t ey_budget_total(const ey_budget *budget);
/* Returns the bytes in use. */
EY_API uint64_t ey_budget_used(ey_budget *budget);
/* Returns whether a thread is waiting for bytes. */
EY_API bool ey_budget_is_awaited(ey_budget *budget);

/* ---- shares of clients ---- */

enum { EY_BUDGET_SHARE = 15 };

/* Opens the part of a budget that the requests of one client use. `high` and `low` are the client's
 * 128-bit number. The part is a budget itself, with the total of the whole. While it is open
 * several times, it may hold at most EY_BUDGET_SHARE times the bytes that are then still free. Each
 * call needs its own ey_budget_part_close; bytes may still be released after that. Returns NULL
 * when memory is exhausted. */
EY_API ey_budget *ey_budget_part_open(ey_budget *whole, uint64_t high, uint64_t low);
/* Sets *part to NULL; accepts NULL. */
EY_API void ey_budget_part_close(ey_budget **part);
/* Like ey_budget_acquire, for a request that holds nothing yet: a part that would exceed an equal
 * share waits while a part below it waits. A request that already holds bytes calls
 * ey_budget_acquire, since it might never release them if it waited for others. */
EY_API bool ey_budget_acquire_first(ey_budget *part, uint64_t n, int timeout_ms);

EY_END_DECLS

#endif
