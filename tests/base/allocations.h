/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the allocations of the whole process. allocations.c defines the allocator's entry points,
 * so it counts calls of libraries, too. Link it into the test program, not into a shared library.
 */
#ifndef EY_TESTS_BASE_ALLOCATIONS_H
#define EY_TESTS_BASE_ALLOCATIONS_H

#include <stdbool.h>

/* Starts counting from 0. Allocations of a thread for which `ignored` returns true are not counted;
 * NULL counts all. */
void allocations_start(bool (*ignored)(void));
int allocations_so_far(void);
/* Stops counting. */
int allocations_stop(void);

#endif
