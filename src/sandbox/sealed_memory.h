/* SPDX-License-Identifier: Apache-2.0 */
/* Memory files that go from process to process: once sealed, neither side can change or shrink
 * them. */
#ifndef EY_SANDBOX_SEALED_MEMORY_H
#define EY_SANDBOX_SEALED_MEMORY_H

#include "base/err.h"

/* An empty one, or -1 with a message. */
int sealed_memory_create(const char *name, ey_err *e);
/* One that has a copy of the bytes and all seals, or -1 with a message. */
int sealed_memory_copy(const char *name, const void *bytes, size_t n, ey_err *e);
/* Puts all seals on it: size and contents stay as they are. */
bool sealed_memory_seal(int fd);
/* Maps it read-only where it has all seals and 1 to `max` bytes. */
bool sealed_memory_map(void **map, size_t *n, int fd, uint64_t max);

#endif
