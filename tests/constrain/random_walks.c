/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens are drawn uniformly from the mask; a long walk prefers closing brackets and quotes. */
#include "constrain/random_walks.h"

#include <stdlib.h>
#include <string.h>

#include "constrain/grammar_generator.h"

enum { ENOUGH = 300 }; /* tokens after `patience` before a walk is given up */

struct chosen {
    int32_t id;      /* -1: no token is allowed */
    int32_t refused; /* a token outside the mask; -1: there is none */
};

static bool closes(const struct tokenizer *tok, int32_t id)
{
    size_t n;
    const char *bytes = tokenizer_bytes(tok, id, &n);
    return n == 1 && strchr("\"]}", bytes[0]);
}

/* Reservoir sampling: the k-th candidate replaces the choice with probability 1/k. */
static struct chosen choose(const uint32_t *mask, const struct tokenizer *tok, uint64_t *state,
                            bool close)
{
    struct chosen chosen = {-1, -1};
    uint32_t seen = 0;
    bool closing = false;
    for (int32_t id = 0; id < tokenizer_size(tok); id++) {
        if (!mask_has(mask, id)) {
            if (chosen.refused < 0 || random_below(state, 64) == 0) chosen.refused = id;
            continue;
        }
        bool better = close && closes(tok, id);
        if (closing && !better) continue;
        if (better && !closing) {
            closing = true;
            seen = 0;
        }
        if (random_below(state, ++seen) == 0) chosen.id = id;
    }
    return chosen;
}

enum walk_end random_walk(struct matcher *c, const struct tokenizer *tok, uint64_t *state,
                          int patience, struct buf *text)
{
    matcher_reset(c);
    buf_clear(text);
    for (int i = 0; i < patience + ENOUGH; i++) {
        bool impatient = i > patience;
        if (matcher_must_end(c) ||
            (matcher_may_end(c) && (impatient || random_below(state, 4) == 0)))
            return WALK_ENDED;
        struct chosen chosen = choose(matcher_mask(c), tok, state, impatient);
        if (chosen.id < 0) return matcher_may_end(c) ? WALK_ENDED : WALK_STUCK;
        if (chosen.refused >= 0 && matcher_accept_token(c, chosen.refused)) return WALK_WRONG;
        if (!matcher_accept_token(c, chosen.id)) return WALK_WRONG;
        size_t n;
        const char *bytes = tokenizer_bytes(tok, chosen.id, &n);
        if (!buf_add(text, bytes, n)) abort();
    }
    return WALK_LONG;
}

bool mask_is_exact(struct matcher *c, const struct tokenizer *tok, const struct buf *text)
{
    size_t words = ((size_t)tokenizer_size(tok) + 31) / 32;
    uint32_t *mask = malloc(words * sizeof(*mask));
    bool exact = mask != NULL;
    if (exact) memcpy(mask, matcher_mask(c), words * sizeof(*mask));
    for (int32_t id = 0; id < tokenizer_size(tok) && exact; id++) {
        exact = matcher_accept_token(c, id) == mask_has(mask, id);
        matcher_reset(c);
        exact &= matcher_accept_text(c, text->data ? text->data : "", text->size);
    }
    free(mask);
    return exact;
}
