/* SPDX-License-Identifier: Apache-2.0 */
/* A budget: bytes that several threads share, so that the total in flight stays within a limit.
 * Thread-safe. */
#ifndef EYELET_BUDGET_H
#define EYELET_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ey_budget ey_budget;

/* Returns NULL when memory is exhausted. */
ey_budget *ey_budget_create(uint64_t bytes);
void ey_budget_free(ey_budget **budget);
/* Waits up to timeout_ms for n free bytes. Returns false on timeout, or if n exceeds the total. */
bool ey_budget_acquire(ey_budget *budget, uint64_t n, int timeout_ms);
void ey_budget_release(ey_budget *budget, uint64_t n);
uint64_t ey_budget_total(const ey_budget *budget);
uint64_t ey_budget_used(ey_budget *budget);

#endif
