/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse files with data only at the beginning. */
#ifndef EY_HUB_SPARSE_FILE_H
#define EY_HUB_SPARSE_FILE_H

#include "base/buf.h"
#include "base/err.h"

/* Writes a new sparse file of `size` bytes that begins with `bytes`. */
bool sparse_file_write(const char *directory, const char *name, const struct buf *bytes,
                       uint64_t size, ey_err *e);

#endif
