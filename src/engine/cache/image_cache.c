/* SPDX-License-Identifier: Apache-2.0 */
/* The image cache. It has few entries, so lookup is linear. */
#include "engine/cache/image_cache.h"

#include <stdlib.h>
#include <string.h>

#include "models/vision_model.h"

bool image_cache_open(struct image_cache *cache, struct arena *arena, int n_blocks, ey_err *e)
{
    size_t n = (size_t)n_blocks;
    *cache = (struct image_cache){.n_blocks = n_blocks};
    cache->entry = arena_array(arena, n, sizeof(*cache->entry));
    cache->free_block = arena_array(arena, n, sizeof(int32_t));
    int32_t *blocks = arena_array(arena, n * n, sizeof(int32_t));
    if (!cache->entry || !cache->free_block || !blocks)
        return ey_fail_memory(e, "the table of images", n * (n + 1) * sizeof(int32_t));
    for (size_t i = 0; i < n; i++)
        cache->entry[i].block = blocks + i * n;
    for (int i = 0; i < n_blocks; i++)
        cache->free_block[cache->n_free++] = n_blocks - 1 - i;
    return true;
}

int image_cache_blocks(int n_tokens)
{
    return (n_tokens + FEATURE_BLOCK - 1) / FEATURE_BLOCK;
}

static void image_entry_release(struct image_cache *cache, struct image_entry *entry)
{
    for (int i = entry->n_blocks; i--;)
        cache->free_block[cache->n_free++] = entry->block[i];
    entry->used = entry->ready = false;
    entry->n_blocks = entry->n_tokens = 0;
}

static struct image_entry *image_cache_lookup(struct image_cache *cache, const struct digest *key)
{
    for (int i = 0; i < cache->n_blocks; i++)
        if (cache->entry[i].used && memcmp(&cache->entry[i].key, key, sizeof(*key)) == 0)
            return &cache->entry[i];
    return NULL;
}

static struct image_entry *least_recently_used(struct image_cache *cache)
{
    struct image_entry *oldest = NULL;
    for (int i = 0; i < cache->n_blocks; i++) {
        struct image_entry *entry = &cache->entry[i];
        if (entry->used && !entry->pins && (!oldest || entry->last_use < oldest->last_use))
            oldest = entry;
    }
    return oldest;
}

static int unpinned_blocks(const struct image_cache *cache)
{
    int n = cache->n_free;
    for (int i = 0; i < cache->n_blocks; i++)
        if (cache->entry[i].used && !cache->entry[i].pins) n += cache->entry[i].n_blocks;
    return n;
}

static int compare_blocks(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

/* Creates an entry with ascending blocks: adjacent blocks are encoded in one piece. */
static struct image_entry *image_entry_create(struct image_cache *cache, const struct digest *key,
                                              int n_tokens)
{
    int n = image_cache_blocks(n_tokens);
    if (n > unpinned_blocks(cache)) return NULL;
    while (cache->n_free < n)
        image_entry_release(cache, least_recently_used(cache));
    struct image_entry *entry = cache->entry;
    while (entry->used)
        entry++; /* never past the end: there are as many entries as blocks */
    entry->key = *key;
    entry->used = true;
    entry->ready = false;
    entry->n_tokens = n_tokens;
    entry->n_blocks = n;
    entry->pins = 0;
    for (int i = 0; i < n; i++)
        entry->block[i] = cache->free_block[--cache->n_free];
    qsort(entry->block, (size_t)n, sizeof(*entry->block), compare_blocks);
    return entry;
}

struct image_entry *image_cache_pin(struct image_cache *cache, const struct digest *key,
                                    int n_tokens)
{
    struct image_entry *entry = image_cache_lookup(cache, key);
    if (!entry) entry = image_entry_create(cache, key, n_tokens);
    if (entry) {
        entry->pins++;
        entry->last_use = ++cache->clock;
    }
    return entry;
}

void image_cache_repin(struct image_entry *entry)
{
    entry->pins++;
}

void image_cache_unpin(struct image_cache *cache, struct image_entry *entry)
{
    if (--entry->pins == 0 && !entry->ready)
        image_entry_release(cache, entry); /* nobody will encode it */
}

void image_cache_clear(struct image_cache *cache)
{
    for (int i = 0; i < cache->n_blocks; i++)
        if (cache->entry[i].used && !cache->entry[i].pins)
            image_entry_release(cache, &cache->entry[i]);
}

void image_cache_remove(struct image_cache *cache, const struct digest *key)
{
    struct image_entry *entry = image_cache_lookup(cache, key);
    if (entry && !entry->pins) image_entry_release(cache, entry);
}

int image_cache_tokens(const struct image_cache *cache)
{
    int n = 0;
    for (int i = 0; i < cache->n_blocks; i++)
        n += cache->entry[i].used ? cache->entry[i].n_tokens : 0;
    return n;
}
