/* SPDX-License-Identifier: Apache-2.0 */
/* Added tokens such as <|im_end|>, which are matched before all other steps. */
#ifndef EY_TOKENIZER_ADDED_TOKENS_H
#define EY_TOKENIZER_ADDED_TOKENS_H

#include "tokenizer/tok_vocab.h"

struct added_token {
    char *content; /* owned; normalized if in_normalized */
    uint32_t n;
    int32_t id;
    bool left_strip, right_strip; /* the match includes white space on its left or right */
    bool single_word;             /* matches only between non-word characters */
    bool in_normalized;           /* matched in the normalized text, not in the original */
};

/* A byte trie over some of the tokens. */
struct added_trie {
    struct pair_map children; /* (node, byte) → node */
    int32_t *token;           /* [n_nodes] index of the token that ends at the node, or -1 */
    uint32_t n_nodes;
    bool starts[256]; /* bytes that some token begins with */
};

struct added_set {
    struct added_token *tokens;
    size_t n;
    struct added_trie raw, normalized;
};

/* Builds the two tries over set->tokens, none of which is empty. `what` names the file in errors.
 */
bool added_set_index(struct added_set *set, const char *what, ey_err *e);
void added_set_finish(struct added_set *set);

struct added_match {
    size_t begin, end; /* the bytes of the text that become the token */
    int32_t id;
};
/* Finds the leftmost token at or after `from`. If several begin there, takes the longest, as the
 * reference does (spec 6.3). */
bool added_find(const struct added_set *set, const struct added_trie *trie, const char *text,
                size_t n, size_t from, struct added_match *match);
/* Returns the length in bytes of the white space that well-formed `text` begins with. */
size_t added_white_space(const char *text, size_t n);

#endif
