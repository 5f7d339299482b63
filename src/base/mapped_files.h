/* SPDX-License-Identifier: Apache-2.0 */
/* Registry of mapped files for the SIGBUS handler: truncating a mapped file turns the next access
 * beyond its end into SIGBUS. */
#ifndef EY_BASE_MAPPED_FILES_H
#define EY_BASE_MAPPED_FILES_H

#include <stddef.h>

enum { MAPPED_FILE_LOST_STATUS = 74 }; /* EX_IOERR */

/* Registers a map. If the table is full, the handler cannot name the file. */
void mapped_files_add(const void *data, size_t size, const char *path);
void mapped_files_remove(const void *data);
/* Returns the path of the file that `address` is mapped from, or NULL. Async-signal-safe. */
const char *mapped_files_find(const void *address);

/* Installs the SIGBUS handler. If a mapped file was truncated, the handler names the file on
 * standard error and exits with MAPPED_FILE_LOST_STATUS. Any other SIGBUS has its default effect.
 */
void mapped_files_watch(void);

#endif
