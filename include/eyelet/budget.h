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

/* A budget of so many bytes, which the caller frees. Returns NULL when memory is exhausted. */
EY_API ey_budget *ey_budget_create(uint64_t bytes);
/* Sets *budget to NULL; accepts NULL. No thread may use it any more, nor an engine that borrows it.
 */
EY_API void ey_budget_free(ey_budget **budget);
/* Waits up to timeout_ms for n free bytes. Returns false on timeout, or if n exceeds the total. */
EY_API bool ey_budget_acquire(ey_budget *budget, uint64_t n, int timeout_ms);
/* Gives back n of the bytes that were acquired. */
EY_API void ey_budget_release(ey_budget *budget, uint64_t n);
/* In bytes. */
EY_API uint64_t ey_budget_total(const ey_budget *budget);
EY_API uint64_t ey_budget_used(ey_budget *budget);
/* Whether a thread waits for bytes now. */
EY_API bool ey_budget_is_awaited(ey_budget *budget);

/* ---- shares of clients ---- */

enum { EY_BUDGET_SHARE = 15 };

/* The part of a budget that a client's requests take from, found by the client's number. It is used
 * as a budget itself, its total is the whole's. Where it has several users it has at most
 * EY_BUDGET_SHARE times what it leaves free. Closed once for each time that it was opened; bytes
 * may be given back later. NULL: memory is exhausted. */
EY_API ey_budget *ey_budget_part_open(ey_budget *whole, uint64_t high, uint64_t low);
/* Sets *part to NULL; accepts NULL. */
EY_API void ey_budget_part_close(ey_budget **part);
/* As ey_budget_acquire, for a user that holds nothing yet, and so need not be let through: while
 * another part waits, one with more than its equal share waits too. */
EY_API bool ey_budget_acquire_first(ey_budget *part, uint64_t n, int timeout_ms);

EY_END_DECLS

#endif
