/* SPDX-License-Identifier: Apache-2.0 */
/* The system that the program runs under. */
#ifndef EY_BASE_SYSTEM_H
#define EY_BASE_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Linux inside of Windows. */
bool system_is_wsl2(void);
/* All memory that the system has; 0: unknown. */
uint64_t system_memory(void);
/* The processor's name; "" where the system does not say. */
void system_cpu_name(char *out, size_t size);
/* The program of a process; "" where it cannot be seen. */
void system_process_name(char *out, size_t size, unsigned pid);
/* Of the file system that a path lies in, or will: the nearest folder of it that is there. False:
 * there is none. */
bool system_free_space(const char *path, uint64_t *bytes);
/* A folder of Windows, seen from WSL2: every read goes through a server. */
bool system_is_9p(const char *path);

#endif
