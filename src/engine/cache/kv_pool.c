/* SPDX-License-Identifier: Apache-2.0 */
/* The KV block pool: reference counts, a hash table of known prefixes, and an LRU list of free
 * blocks. */
#include "engine/cache/kv_pool.h"

#include <string.h>

bool kv_pool_open(struct kv_pool *pool, struct arena *arena, int n_blocks, ey_err *e)
{
    *pool = (struct kv_pool){
        .n_blocks = n_blocks, .n_buckets = 2 * n_blocks + 1, .oldest = -1, .newest = -1};
    pool->block = arena_array(arena, (size_t)n_blocks, sizeof(*pool->block));
    pool->bucket = arena_array(arena, (size_t)pool->n_buckets, sizeof(*pool->bucket));
    if (!pool->block || !pool->bucket)
        return ey_fail_memory(e, "the table of KV blocks", (size_t)n_blocks * sizeof(*pool->block));
    for (int i = 0; i < pool->n_buckets; i++)
        pool->bucket[i] = -1;
    for (int i = 0; i < n_blocks; i++) {
        pool->block[i].refs = 1;
        kv_pool_unref(pool, i);
    }
    return true;
}

/* ---- free blocks, by age ---- */

static void unlink_free_block(struct kv_pool *pool, int32_t at)
{
    struct kv_block *b = &pool->block[at];
    if (b->older >= 0)
        pool->block[b->older].newer = b->newer;
    else
        pool->oldest = b->newer;
    if (b->newer >= 0)
        pool->block[b->newer].older = b->older;
    else
        pool->newest = b->older;
    pool->n_free--;
    pool->n_known_free -= b->known;
}

/* Appends a block with a known prefix at the newest end; others go to the oldest end and are reused
 * first. */
static void link_free_block(struct kv_pool *pool, int32_t at)
{
    struct kv_block *b = &pool->block[at];
    b->older = b->known ? pool->newest : -1;
    b->newer = b->known ? -1 : pool->oldest;
    if (b->older >= 0)
        pool->block[b->older].newer = at;
    else
        pool->oldest = at;
    if (b->newer >= 0)
        pool->block[b->newer].older = at;
    else
        pool->newest = at;
    pool->n_free++;
    pool->n_known_free += b->known;
}

/* ---- known prefixes ---- */

static int32_t *bucket_of(const struct kv_pool *pool, const struct digest *key)
{
    uint64_t hash;
    memcpy(&hash, key->byte, sizeof(hash));
    return &pool->bucket[hash % (uint64_t)pool->n_buckets];
}

static int32_t kv_pool_lookup(const struct kv_pool *pool, const struct digest *key)
{
    int32_t at = *bucket_of(pool, key);
    while (at >= 0 && memcmp(&pool->block[at].key, key, sizeof(*key)) != 0)
        at = pool->block[at].next;
    return at;
}

static void kv_pool_remove_prefix(struct kv_pool *pool, int32_t at)
{
    struct kv_block *b = &pool->block[at];
    if (!b->known) return;
    int32_t *link = bucket_of(pool, &b->key);
    while (*link != at)
        link = &pool->block[*link].next;
    *link = b->next;
    b->known = false;
}

bool kv_pool_has_prefix(const struct kv_pool *pool, const struct digest *key, bool *is_free)
{
    int32_t at = kv_pool_lookup(pool, key);
    *is_free = at >= 0 && pool->block[at].refs == 0;
    return at >= 0;
}

int32_t kv_pool_ref_prefix(struct kv_pool *pool, const struct digest *key)
{
    int32_t at = kv_pool_lookup(pool, key);
    if (at >= 0 && pool->block[at].refs++ == 0) unlink_free_block(pool, at);
    return at;
}

int32_t kv_pool_alloc(struct kv_pool *pool)
{
    int32_t at = pool->oldest;
    if (at < 0) return -1;
    unlink_free_block(pool, at);
    kv_pool_remove_prefix(pool, at);
    pool->block[at].refs = 1;
    return at;
}

void kv_pool_publish(struct kv_pool *pool, int32_t at, const struct digest *key)
{
    struct kv_block *b = &pool->block[at];
    if (b->known || kv_pool_lookup(pool, key) >= 0)
        return; /* the block is published already, or another one of this prefix is */
    int32_t *bucket = bucket_of(pool, key);
    b->key = *key;
    b->known = true;
    b->next = *bucket;
    *bucket = at;
}

void kv_pool_unref(struct kv_pool *pool, int32_t at)
{
    if (--pool->block[at].refs == 0) link_free_block(pool, at);
}

void kv_pool_clear(struct kv_pool *pool)
{
    for (int32_t at = 0; at < pool->n_blocks; at++) {
        bool is_free = pool->block[at].refs == 0;
        if (is_free) unlink_free_block(pool, at);
        kv_pool_remove_prefix(pool, at);
        if (is_free) link_free_block(pool, at);
    }
}
