/* SPDX-License-Identifier: Apache-2.0 */
/* Available memory. */
#ifndef EY_BASE_MEMORY_H
#define EY_BASE_MEMORY_H

#include <stdint.h>

/* Bytes that this process may still allocate: MemAvailable, capped by what its cgroup has left.
 * UINT64_MAX if unknown. */
uint64_t memory_available(void);

#endif
