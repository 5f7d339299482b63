/* SPDX-License-Identifier: Apache-2.0 */
/* 64-bit FNV-1a, for hash tables and file names. It is not collision-resistant against an attacker:
 * compare the bytes too. */
#ifndef EY_BASE_HASH_H
#define EY_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Offset basis and prime: draft-eastlake-fnv, section 5. */
#define FNV1A_64_START 0xcbf29ce484222325u

/* Continues `hash` (FNV1A_64_START at the beginning) with n more bytes. */
static inline uint64_t fnv1a_64(uint64_t hash, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

#endif
