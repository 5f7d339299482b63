/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock: restricts the files that this thread, and a program that it executes, may open. */
#ifndef EY_SANDBOX_LANDLOCK_H
#define EY_SANDBOX_LANDLOCK_H

#include <stdbool.h>

/* Returns whether the kernel supports Landlock and has it enabled. */
bool landlock_available(void);
/* From now on, forbids writing any file, and reading or executing files outside `paths`. The list
 * ends with NULL; a folder stands for all files below it, and a missing path is skipped. Needs
 * PR_SET_NO_NEW_PRIVS. */
bool landlock_read_only(const char *const *paths);

#endif
