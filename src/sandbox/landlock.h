/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock: restricts the files that this thread, and a program that it executes, may open. */
#ifndef EY_SANDBOX_LANDLOCK_H
#define EY_SANDBOX_LANDLOCK_H

#include <stdbool.h>

/* Whether the kernel supports Landlock and has it enabled. */
bool landlock_available(void);
/* From now on forbids all writes, and reading or executing anything but the paths of this
 * NULL-terminated list and what lies below them. Missing paths are skipped. Needs
 * PR_SET_NO_NEW_PRIVS. */
bool landlock_read_only(const char *const *paths);

#endif
