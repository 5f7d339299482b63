/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed memory files (memfd) that processes pass to each other. After sealing, nobody can change
 * their size or contents. */
#ifndef EY_SANDBOX_SEALED_MEMORY_H
#define EY_SANDBOX_SEALED_MEMORY_H

#include "base/err.h"

/* Creates an empty memory file. Returns -1 with a message on failure. */
int sealed_memory_create(const char *name, ey_err *e);
/* Stores n bytes in an empty memory file, to be read from its start, and seals it. */
bool sealed_memory_store(int fd, const void *bytes, size_t n, ey_err *e);
/* Adds all seals: size and contents can no longer change. */
bool sealed_memory_seal(int fd);
/* Maps a memory file privately: no other process sees what this one writes there. Fails unless the
 * file has all seals and 1 to `max` bytes. */
bool sealed_memory_map(void **map, size_t *n, int fd, uint64_t max);

#endif
