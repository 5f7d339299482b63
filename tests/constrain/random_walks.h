/* SPDX-License-Identifier: Apache-2.0 */
/* Random walks: answers of tokens drawn from the masks. */
#ifndef EY_TESTS_CONSTRAIN_RANDOM_WALKS_H
#define EY_TESTS_CONSTRAIN_RANDOM_WALKS_H

#include "base/buf.h"
#include "constrain/constrain.h"

enum walk_end {
    WALK_ENDED, /* the text is complete */
    WALK_LONG,  /* it was given up, not for want of tokens */
    WALK_STUCK, /* nothing was allowed, nor the end */
    WALK_WRONG, /* the mask and what is accepted differ */
};

/* From the beginning of the grammar; the text goes to *text. After `patience` tokens it takes what
 * closes where it can. */
enum walk_end random_walk(struct matcher *c, const struct tokenizer *tok, uint64_t *state,
                          int patience, struct buf *text);
/* Whether the mask holds exactly the tokens that are accepted here, where `text` led. */
bool mask_is_exact(struct matcher *c, const struct tokenizer *tok, const struct buf *text);

static inline bool mask_has(const uint32_t *mask, int32_t id)
{
    return mask[id / 32] >> (id % 32) & 1;
}

#endif
