/* SPDX-License-Identifier: Apache-2.0 */
/* Cache of masks and their exits, keyed by everything that they depend on. Thread-safe; evicts by
 * the clock algorithm. */
#ifndef EY_CONSTRAIN_MASK_CACHE_H
#define EY_CONSTRAIN_MASK_CACHE_H

#include "constrain/mask/vocabulary.h"

struct mask_key {
    uint64_t grammar; /* serial */
    uint32_t state;
    uint32_t max_remaining,
        min_remaining; /* of its counter, capped at the longest token's length */
    bool of_plain_set; /* `state` is the number of a plain set, whose plain tokens the mask has */
};

bool mask_cache_open(struct mask_cache **out, size_t n_masks, size_t words, size_t n_exits,
                     ey_err *e);
void mask_cache_close(struct mask_cache *cache);
size_t mask_cache_bytes(size_t n_masks, size_t words, size_t n_exits);
/* Copies a mask and its exits. Returns false if it is not cached. */
bool mask_cache_get(struct mask_cache *cache, struct mask_key key, uint32_t *mask,
                    struct token_exit *exits, uint32_t *n_exits);
void mask_cache_put(struct mask_cache *cache, struct mask_key key, const uint32_t *mask,
                    const struct token_exit *exits, uint32_t n_exits);

#endif
