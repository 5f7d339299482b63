/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of the KV cache: how many requests refer to each, and which prefix each full one
 * holds.
 *
 * A full block is identified by the digest of all tokens (and images) up to its end, so requests
 * with equal prefixes share it. A block without references keeps its contents until it is the least
 * recently used free block and another one is needed. */
#ifndef EY_ENGINE_KV_POOL_H
#define EY_ENGINE_KV_POOL_H

#include "base/buf.h"
#include "engine/cache/digest.h"

struct kv_block {
    struct digest key;    /* digest of the prefix that ends with this block */
    bool known;           /* key is valid */
    int refs;             /* references from requests */
    int32_t older, newer; /* LRU list of free blocks; -1 at its ends */
    int32_t next;         /* next block of the bucket */
};

struct kv_pool {
    struct kv_block *block; /* [n_blocks] */
    int32_t *bucket;        /* [n_buckets] first block of each, or -1 */
    int n_blocks, n_buckets;
    int n_free;             /* blocks without references, with known contents or not */
    int n_known_free;       /* free blocks with known contents */
    int32_t oldest, newest; /* ends of the LRU list; blocks of unknown contents are oldest */
};

bool kv_pool_open(struct kv_pool *pool, struct arena *arena, int n_blocks, ey_err *e);
/* Returns the block of this prefix with one more reference, or -1 if it is not cached. */
int32_t kv_pool_ref_prefix(struct kv_pool *pool, const struct digest *key);
/* Whether a block of this prefix is cached; adds no reference. Sets *is_free if the block has no
 * references, and else clears it. */
bool kv_pool_has_prefix(const struct kv_pool *pool, const struct digest *key, bool *is_free);
/* Returns a block with one reference and forgets its contents, or -1 if all blocks are in use. */
int32_t kv_pool_alloc(struct kv_pool *pool);
/* Records that a full, referenced block now holds this prefix's contents. */
void kv_pool_publish(struct kv_pool *pool, int32_t block, const struct digest *key);
/* Drops one reference. */
void kv_pool_unref(struct kv_pool *pool, int32_t block);
/* Forgets all contents; references stay. */
void kv_pool_clear(struct kv_pool *pool);

#endif
