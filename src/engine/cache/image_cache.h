/* SPDX-License-Identifier: Apache-2.0 */
/* Features of pictures (merged and DeepStack levels) on the device, by the digest of the pixels
 * that the tower saw: a picture that is asked about again does not go through it again. In blocks
 * of 64 visual tokens, so that pictures of any sizes fill the room without gaps. */
#ifndef EY_ENGINE_IMAGE_CACHE_H
#define EY_ENGINE_IMAGE_CACHE_H

#include "base/buf.h"
#include "engine/cache/digest.h"

struct image_entry {
    struct digest key;
    int32_t *block; /* [n_blocks] blocks of 64 feature rows, in the order of the tokens */
    int n_blocks, n_tokens;
    int pins;         /* requests that still need it */
    bool used, ready; /* there is such an entry; its features are there */
    uint64_t last_use;
};

struct image_cache {
    struct image_entry *entry; /* [n_blocks]: a picture has one block at least */
    int32_t *free_block;       /* [n_free] */
    int n_blocks, n_free;
    uint64_t clock;
};

bool image_cache_open(struct image_cache *cache, struct arena *arena, int n_blocks, ey_err *e);
int image_cache_blocks(int n_tokens);
/* The entry of a picture, pinned; a new one (not ready) when there is none. Unpinned ones give way,
 * the one longest unused first. NULL: too much is pinned. */
struct image_entry *image_cache_pin(struct image_cache *cache, const struct digest *key,
                                    int n_tokens);
void image_cache_unpin(struct image_cache *cache, struct image_entry *entry);
/* Forgets every picture that nobody has pinned. */
void image_cache_clear(struct image_cache *cache);
/* Forgets this picture if nobody has it pinned. */
void image_cache_remove(struct image_cache *cache, const struct digest *key);
/* Visual tokens held. */
int image_cache_tokens(const struct image_cache *cache);

#endif
