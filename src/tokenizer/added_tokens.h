/* SPDX-License-Identifier: Apache-2.0 */
/* Added tokens (<|im_end|> and such): found in the text before anything else is. */
#ifndef EY_TOKENIZER_ADDED_TOKENS_H
#define EY_TOKENIZER_ADDED_TOKENS_H

#include "tokenizer/tok_vocab.h"

struct added_token {
    char *content; /* owned; normalized if it is searched in normalized text */
    uint32_t n;
    int32_t id;
    bool left_strip, right_strip; /* adjacent white space belongs to it */
    bool single_word;             /* no word may touch it */
    bool in_normalized;           /* searched in normalized text, not in the original */
};

/* A byte trie over some of the tokens. */
struct added_trie {
    struct pair_map children; /* (node, byte) → node */
    int32_t *token;           /* [n_nodes] index of the token that ends here, or -1 */
    uint32_t n_nodes;
    bool starts[256]; /* bytes a token begins with */
};

struct added_set {
    struct added_token *tokens;
    size_t n;
    struct added_trie raw, normalized;
};

/* Builds the two tries over set->tokens, which all have a content; `what` names the file. */
bool added_set_index(struct added_set *set, const char *what, ey_err *e);
void added_set_finish(struct added_set *set);

struct added_match {
    size_t begin, end; /* of the text that becomes the token */
    int32_t id;
};
/* The leftmost token at or after `from`, the longest of those that begin there (as the reference:
 * spec 6.3). */
bool added_find(const struct added_set *set, const struct added_trie *trie, const char *text,
                size_t n, size_t from, struct added_match *match);
/* Bytes of white space at the beginning of well-formed `text`. */
size_t added_white_space(const char *text, size_t n);

#endif
