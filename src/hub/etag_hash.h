/* SPDX-License-Identifier: Apache-2.0 */
/* The hash in a file's ETag: SHA-256 of its bytes, or git's SHA-1 of "blob SIZE", a NUL and its
 * bytes. */
#ifndef EY_HUB_ETAG_HASH_H
#define EY_HUB_ETAG_HASH_H

#include "base/err.h"
#include "hub/name_checks.h"

struct etag_hash;
/* Selects the hash by the ETag's length. */
bool etag_hash_open(struct etag_hash **h, const char *etag, uint64_t size, ey_err *e);
void etag_hash_close(struct etag_hash **h);
void etag_hash_add(struct etag_hash *h, const void *bytes, size_t n);
/* Writes the hash in lower-case hexadecimal. Nothing can be added after that. */
void etag_hash_finish(struct etag_hash *h, char out[HUB_ETAG_BYTES + 1]);

#endif
