/* SPDX-License-Identifier: Apache-2.0 */
/* Simulates a disk with limited free space. Bytes that this process writes into regular files use
 * it up; then writes are cut short, later ones fail with ENOSPC like the kernel's, and no folder or
 * link can be made. Deleting a file frees nothing. full_disk.c defines the system calls, so link it
 * into the test program. */
#ifndef EY_TESTS_BASE_FULL_DISK_H
#define EY_TESTS_BASE_FULL_DISK_H

#include <stdbool.h>
#include <stdint.h>

/* Limits the free space to `room` bytes. reserves: whether fallocate works. */
void full_disk_start(uint64_t room, bool reserves);
/* Removes the limit. */
void full_disk_stop(void);
/* Makes symlink() fail with EPERM, as on exFAT, whether the disk is full or not. */
void full_disk_refuse_links(bool refuse);

#endif
