/* SPDX-License-Identifier: Apache-2.0 */
/* Available memory. */
#ifndef EY_BASE_MEMORY_H
#define EY_BASE_MEMORY_H

#include <stdint.h>

/* Returns the bytes that this process may still allocate, or UINT64_MAX if unknown: MemAvailable,
 * or what its cgroups have left if that is less. */
uint64_t memory_available(void);
/* Returns the bytes left under the limits of this process's cgroups and their ancestors, where page
 * cache counts as free, or UINT64_MAX without limits. `root` is the folder that has /proc and /sys,
 * "" except in tests. */
uint64_t memory_left_in_cgroups(const char *root);

#endif
