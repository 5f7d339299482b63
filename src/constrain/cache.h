/* SPDX-License-Identifier: Apache-2.0 */
/* Masks that were made, with what is left to do for the caller's sake, by what they depend on.
 * Shared by threads; a full one forgets what was not used for long (clock). */
#ifndef EY_CONSTRAIN_CACHE_H
#define EY_CONSTRAIN_CACHE_H

#include "constrain/vocabulary.h"

struct mask_key {
    uint64_t grammar; /* serial */
    uint32_t state;
    uint32_t room, need; /* of its counter: how many more may and must come; what is more than a
                            token can be is one */
    bool of_alphabet;    /* plain tokens of the alphabet that `state` is the number of */
};

bool cache_open(struct cache **out, size_t n_masks, size_t words, size_t n_exits, ey_err *e);
void cache_close(struct cache *cache);
size_t cache_bytes(size_t n_masks, size_t words, size_t n_exits);
/* Copies the mask and its exits; false: it is not there. */
bool cache_get(struct cache *cache, struct mask_key key, uint32_t *mask, struct token_exit *exits,
               uint32_t *n_exits);
void cache_put(struct cache *cache, struct mask_key key, const uint32_t *mask,
               const struct token_exit *exits, uint32_t n_exits);

#endif
