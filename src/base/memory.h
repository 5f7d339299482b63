/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory this process may still take. */
#ifndef EY_BASE_MEMORY_H
#define EY_BASE_MEMORY_H

#include <stdint.h>

/* Bytes: what the system says is available, at most what the control group leaves. UINT64_MAX:
 * unknown. */
uint64_t memory_available(void);

#endif
