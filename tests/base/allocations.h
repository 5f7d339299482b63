/* SPDX-License-Identifier: Apache-2.0 */
/* Counts allocations of the whole process: the allocator's entry points are defined in
 * allocations.c, so every call goes through the count, whoever makes it. Linked into the test
 * program itself, not into a library that others use. */
#ifndef EY_TESTS_BASE_ALLOCATIONS_H
#define EY_TESTS_BASE_ALLOCATIONS_H

#include <stdbool.h>

/* From 0; those of a thread for which `ignored` is true at that moment do not count (NULL: all do).
 */
void allocations_start(bool (*ignored)(void));
int allocations_so_far(void);
/* Stops counting. */
int allocations_stop(void);

#endif
