/* SPDX-License-Identifier: Apache-2.0 */
/* Random walks: answers whose tokens are drawn from the masks. */
#ifndef EY_TESTS_CONSTRAIN_RANDOM_WALKS_H
#define EY_TESTS_CONSTRAIN_RANDOM_WALKS_H

#include "base/buf.h"
#include "constrain/constrain.h"

enum walk_end {
    WALK_ENDED, /* the text is complete */
    WALK_LONG,  /* given up although tokens were allowed */
    WALK_STUCK, /* neither a token nor the end is allowed */
    WALK_WRONG, /* the mask and the accepted tokens differ */
};

/* Walks from the start of the grammar and writes the text to *text. After `patience` tokens the
 * walk prefers closing tokens. */
enum walk_end random_walk(struct matcher *c, const struct tokenizer *tok, uint64_t *state,
                          int patience, struct buf *text);
/* Whether the mask contains exactly the tokens that the matcher accepts after `text`. */
bool mask_is_exact(struct matcher *c, const struct tokenizer *tok, const struct buf *text);

static inline bool mask_has(const uint32_t *mask, int32_t id)
{
    return mask[id / 32] >> (id % 32) & 1;
}

#endif
