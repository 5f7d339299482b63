/* SPDX-License-Identifier: Apache-2.0 */
/* A disk with so much room: what this process writes into regular files takes of it, and what finds
 * none left fails with ENOSPC as the kernel has it: a last write that is cut short, then errors; no
 * new folders and links either. The calls are defined in full_disk.c, so it is linked into the test
 * program itself. Nothing gives room back. */
#ifndef EY_TESTS_BASE_FULL_DISK_H
#define EY_TESTS_BASE_FULL_DISK_H

#include <stdbool.h>
#include <stdint.h>

/* reserves: the file system can take a file's room at once (fallocate). */
void full_disk_start(uint64_t room, bool reserves);
/* Somebody has made room. */
void full_disk_stop(void);

#endif
