/* SPDX-License-Identifier: Apache-2.0 */
/* FNV-1a with 64 bits, for tables and names of files. Whoever may choose the bytes can make them
 * collide: compare the bytes too. */
#ifndef EY_BASE_HASH_H
#define EY_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Offset basis and prime: draft-eastlake-fnv, section 5. */
#define FNV1A_64_START 0xcbf29ce484222325u

/* The hash of what gave `hash` (at first FNV1A_64_START) followed by these n bytes. */
static inline uint64_t fnv1a_64(uint64_t hash, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

#endif
