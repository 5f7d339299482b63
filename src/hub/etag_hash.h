/* SPDX-License-Identifier: Apache-2.0 */
/* The hash that a file's etag is: SHA-256 of its bytes, or SHA-1 of them as git has it, "blob SIZE"
 * and a NUL before. */
#ifndef EY_HUB_ETAG_HASH_H
#define EY_HUB_ETAG_HASH_H

#include "base/err.h"
#include "hub/name_checks.h"

struct etag_hash;
/* Which of the two, the etag's length says. */
bool etag_hash_open(struct etag_hash **h, const char *etag, uint64_t size, ey_err *e);
void etag_hash_close(struct etag_hash **h);
void etag_hash_add(struct etag_hash *h, const void *bytes, size_t n);
/* Lower-case hexadecimal. */
void etag_hash_finish(struct etag_hash *h, char out[HUB_ETAG_BYTES + 1]);

#endif
