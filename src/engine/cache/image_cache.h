/* SPDX-License-Identifier: Apache-2.0 */
/* Caches vision features (merged and DeepStack rows) on the device, keyed by the digest of the
 * image, so that a repeated image isn't encoded again. Features lie in blocks of 64 visual tokens;
 * an image can use any free blocks, so memory is not fragmented. */
#ifndef EY_ENGINE_IMAGE_CACHE_H
#define EY_ENGINE_IMAGE_CACHE_H

#include "base/buf.h"
#include "engine/cache/digest.h"

struct image_entry {
    struct digest key;
    int32_t *block; /* [n_blocks] blocks of 64 feature rows, in the order of the tokens */
    int n_blocks, n_tokens;
    int pins;         /* number of requests that still need the features */
    bool used, ready; /* used: the entry is in use; ready: its features are computed */
    uint64_t last_use;
};

struct image_cache {
    struct image_entry *entry; /* [n_blocks], since each image has at least one block */
    int32_t *free_block;       /* [n_free] */
    int n_blocks, n_free;
    uint64_t clock;
};

bool image_cache_open(struct image_cache *cache, struct arena *arena, int n_blocks, ey_err *e);
int image_cache_blocks(int n_tokens);
/* Pins and returns the entry of an image. If the image is not cached, creates an entry that is not
 * ready; for its blocks, unpinned entries are evicted, least recently used first. Returns NULL if
 * pinned entries leave too few blocks. */
struct image_entry *image_cache_pin(struct image_cache *cache, const struct digest *key,
                                    int n_tokens);
/* Adds a pin to an entry that is already pinned. */
void image_cache_repin(struct image_entry *entry);
void image_cache_unpin(struct image_cache *cache, struct image_entry *entry);
/* Drops every unpinned image. */
void image_cache_clear(struct image_cache *cache);
/* Drops the image unless it is pinned. */
void image_cache_remove(struct image_cache *cache, const struct digest *key);
/* Returns the number of cached visual tokens. */
int image_cache_tokens(const struct image_cache *cache);

#endif
