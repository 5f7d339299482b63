/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock: which files this thread, and what it becomes by exec, may open. */
#ifndef EY_SANDBOX_LANDLOCK_H
#define EY_SANDBOX_LANDLOCK_H

#include <stdbool.h>

/* Whether the kernel has it, and it is switched on. */
bool landlock_available(void);
/* From now on nothing can be written, and only these paths, or what lies below them, can be read
 * and executed; those that are not there are left out. Needs PR_SET_NO_NEW_PRIVS. The list ends
 * with NULL. */
bool landlock_read_only(const char *const *paths);

#endif
