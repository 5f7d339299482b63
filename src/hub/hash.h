/* SPDX-License-Identifier: Apache-2.0 */
/* The hash that a file's etag is: SHA-256 of its bytes, or SHA-1 of them as git has it, "blob SIZE"
 * and a NUL before. */
#ifndef EY_HUB_HASH_H
#define EY_HUB_HASH_H

#include "base/err.h"
#include "hub/names.h"

struct hash;
/* Which of the two, the etag's length says. */
bool hash_open(struct hash **h, const char *etag, uint64_t size, ey_err *e);
void hash_close(struct hash **h);
void hash_add(struct hash *h, const void *bytes, size_t n);
/* Lower-case hexadecimal. */
void hash_end(struct hash *h, char out[HUB_ETAG_BYTES + 1]);

#endif
