/* SPDX-License-Identifier: Apache-2.0 */
/* Huge pages beneath what is read over and over. A virtual machine, as WSL2 is one, translates
 * addresses twice, and the pages of a file lie scattered: weights that are read there in pages of 4
 * KiB come at half the speed. */
#ifndef EY_BASE_HUGE_H
#define EY_BASE_HUGE_H

#include <stdbool.h>
#include <stddef.h>

enum { HUGEPAGE_BYTES = 2 << 20 };

/* Whether this machine gives them to who asks. */
bool hugepages_available(void);
/* Asks for huge pages beneath memory that is still to be written. Smaller ones do as well, but
 * slower. */
void hugepages_advise(void *data, size_t size);

/* Memory of its own that begins with a huge page, and gets them as it is written; NULL: there is
 * none. */
void *hugepages_alloc(size_t size);
/* Accepts NULL. */
void hugepages_free(void *memory, size_t size);

#endif
