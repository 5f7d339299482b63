/* SPDX-License-Identifier: Apache-2.0 */
/* Huge pages for memory that every step reads. With 4 KiB pages, virtual machines such as WSL2 read
 * weights at half the speed, because they translate addresses twice and file pages are scattered.
 */
#ifndef EY_BASE_HUGEPAGES_H
#define EY_BASE_HUGEPAGES_H

#include <stdbool.h>
#include <stddef.h>

enum { HUGEPAGE_BYTES = 2 << 20 };

/* Whether madvise(MADV_HUGEPAGE) gives huge pages on this machine. */
bool hugepages_available(void);
/* Requests huge pages for memory that has not been written yet. Failure only costs speed. */
void hugepages_advise(void *data, size_t size);

/* Allocates memory aligned to a huge page, with huge pages requested. Returns NULL if out of
 * memory. */
void *hugepages_alloc(size_t size);
/* Accepts NULL. */
void hugepages_free(void *memory, size_t size);

#endif
