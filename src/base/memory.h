/* SPDX-License-Identifier: Apache-2.0 */
/* Available memory. */
#ifndef EY_BASE_MEMORY_H
#define EY_BASE_MEMORY_H

#include <stdint.h>

/* Bytes that this process may still allocate: MemAvailable, capped by what its cgroups have left.
 * UINT64_MAX if unknown. */
uint64_t memory_available(void);
/* What the limits of this process's cgroups and of those around them leave; UINT64_MAX without
 * limits. root: what /proc and /sys are below, "" except in tests. */
uint64_t memory_left_in_cgroups(const char *root);

#endif
