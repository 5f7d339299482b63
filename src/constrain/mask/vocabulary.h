/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of a vocabulary, prepared for computing masks (matcher.c). */
#ifndef EY_CONSTRAIN_VOCABULARY_H
#define EY_CONSTRAIN_VOCABULARY_H

#include "constrain/constrain.h"
#include "constrain/mask/token_trie.h"

enum { PLAIN_TRIE, OTHER_TRIE, TRIES, LENGTH_MASKS = 16 };

/* A trie node at which a grammar rule ends in the middle of longer tokens. Which of the tokens
 * below the node are allowed depends on where the rule was called from. */
struct token_exit {
    uint32_t node, return_set; /* the top bit of `node` is set for OTHER_TRIE */
};
#define OTHER_TRIE_NODE 0x80000000u

struct mask_cache;

struct token_range {
    uint32_t at, n; /* offset in vocabulary.text; n is 0 if the token is never allowed */
};

struct vocabulary {
    struct token_trie tries[TRIES];
    struct token_range *token_ranges; /* [n_token_ranges], by id */
    char *text;
    size_t n_token_ranges;
    size_t words;             /* 32-bit words of a mask */
    uint32_t max_token_bytes; /* bytes of the longest token */
    uint32_t max_plain_chars; /* characters of the longest plain token */
    uint32_t n_exits;         /* no mask has more exits */
    /* Plain tokens by their length in characters. Mask i has the tokens of at most i characters.
     * Tokens of more than LENGTH_MASKS characters are listed instead, the shortest first. */
    uint32_t *length_masks; /* [LENGTH_MASKS + 1][words] */
    int32_t *long_ids;      /* ids of the listed tokens */
    uint32_t *long_ends;    /* [max_plain_chars + 2]; entry i: how many ids of long_ids have at most
                               i characters; the last is unused */
    struct mask_cache *cache;
    size_t bytes;
};

/* Sets the mask of the plain tokens of at most max_remaining characters. */
void vocabulary_plain_mask(const struct vocabulary *v, uint32_t max_remaining, uint32_t *mask);
/* Removes plain tokens of more than max_remaining characters from the mask. */
void vocabulary_drop_longer(const struct vocabulary *v, uint32_t max_remaining, uint32_t *mask);

#endif
