/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the operating system and the machine. */
#ifndef EY_BASE_SYSTEM_H
#define EY_BASE_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether this is Linux inside Windows (WSL2). */
bool system_is_wsl2(void);
/* Total memory in bytes, or 0 if unknown. */
uint64_t system_memory(void);
/* Writes the CPU's model name, or "" if unknown. */
void system_cpu_name(char *out, size_t size);
/* Writes the name of a process, or "" if it cannot be read. */
void system_process_name(char *out, size_t size, unsigned pid);
/* Sets *bytes to the free space of the file system of `path` or, if it does not exist, of its
 * nearest existing ancestor. Returns false if it is unknown. */
bool system_free_space(const char *path, uint64_t *bytes);
/* Whether `path` is a Windows folder seen from WSL2 (9P), where every read goes through a server.
 */
bool system_is_9p(const char *path);

#endif
