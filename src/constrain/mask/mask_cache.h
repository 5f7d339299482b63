/* SPDX-License-Identifier: Apache-2.0 */
/* A thread-safe cache of masks and their exits, with the clock algorithm for eviction. The key has
 * all that a mask and its exits depend on. */
#ifndef EY_CONSTRAIN_MASK_CACHE_H
#define EY_CONSTRAIN_MASK_CACHE_H

#include "constrain/mask/vocabulary.h"

struct mask_key {
    uint64_t grammar; /* its serial number */
    uint32_t state;
    /* How often the state's counter may still, and must still, be incremented. Both are capped
     * where no token is long enough for a larger value to matter. */
    uint32_t max_remaining, min_remaining;
    bool of_plain_set; /* the mask has the plain tokens of plain set number `state` */
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
