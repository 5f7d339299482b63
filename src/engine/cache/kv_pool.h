/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of the KV cache: who holds which, and which of the free ones still hold a known
 * prefix.
 *
 * A full block is known by the digest of all tokens (and images) up to its end, so equal prefixes
 * of any requests share it. A block that nobody holds keeps its contents until it is the one
 * longest unused when another is needed. */
#ifndef EY_ENGINE_KV_POOL_H
#define EY_ENGINE_KV_POOL_H

#include "base/buf.h"
#include "engine/cache/digest.h"

struct kv_block {
    struct digest key;    /* of the prefix that ends with this block */
    bool known;           /* key counts */
    int refs;             /* requests that hold it */
    int32_t older, newer; /* among those that nobody holds; -1: the end */
    int32_t next;         /* in its bucket */
};

struct kv_pool {
    struct kv_block *block; /* [n_blocks] */
    int32_t *bucket;        /* [n_buckets] first block of each, -1: none */
    int n_blocks, n_buckets;
    int n_free; /* held by nobody, known or not */
    int n_known_free;
    int32_t oldest, newest; /* of the free ones: blocks of unknown contents first */
};

bool kv_pool_open(struct kv_pool *pool, struct arena *arena, int n_blocks, ey_err *e);
/* The block of this prefix, held once more; -1: there is none. */
int32_t kv_pool_ref_prefix(struct kv_pool *pool, const struct digest *key);
/* The same without holding it. */
bool kv_pool_has_prefix(const struct kv_pool *pool, const struct digest *key, bool *is_free);
/* A block of one's own; what it held is forgotten. -1: all are held. */
int32_t kv_pool_alloc(struct kv_pool *pool);
/* The block, which is full and held, has this prefix's contents now. */
void kv_pool_publish(struct kv_pool *pool, int32_t block, const struct digest *key);
/* Holds the block no longer. */
void kv_pool_unref(struct kv_pool *pool, int32_t block);
/* Forgets all contents; what is held stays held. */
void kv_pool_clear(struct kv_pool *pool);

#endif
