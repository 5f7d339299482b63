/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are mapped now, for a signal handler: who cuts one off while it is read makes the next
 * access a SIGBUS. */
#ifndef EY_BASE_MAPPED_FILES_H
#define EY_BASE_MAPPED_FILES_H

#include <stddef.h>

enum { MAPPED_FILE_LOST_STATUS = 74 }; /* EX_IOERR */

/* Notes a map; where there is no room or memory for it, the handler does not know its file. */
void mapped_files_add(const void *data, size_t size, const char *path);
void mapped_files_remove(const void *data);
/* The file that an address is mapped from, else NULL. Async-signal-safe. */
const char *mapped_files_find(const void *address);

/* From here on, reading what a mapped file has lost says which one in a line on standard error and
 * ends the process with MAPPED_FILE_LOST_STATUS. Any other SIGBUS does what it did. */
void mapped_files_watch(void);

#endif
