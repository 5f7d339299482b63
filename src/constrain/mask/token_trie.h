/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of a vocabulary as a trie over their bytes, in arrays. */
#ifndef EY_CONSTRAIN_TOKEN_TRIE_H
#define EY_CONSTRAIN_TOKEN_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nodes in depth-first order, so that a walk reads the arrays from left to right and skips subtrees
 * that it cannot enter. Tokens of plain characters only (plain_set.h) have a trie of their own,
 * since most masks take them as a whole. */
struct token_trie {
    uint8_t *byte;         /* [n_nodes] */
    uint16_t *depth;       /* [n_nodes] bytes from the root, this one included */
    uint32_t *subtree_end; /* [n_nodes] the node after the subtree */
    uint64_t *classes; /* [n_nodes] of the plain trie: plain_class() of all bytes of all tokens here
                          and below */
    uint32_t *first_token; /* [n_nodes + 1] the first of the tokens that end at the node */
    int32_t *token_ids;    /* [n_tokens] in the order of their nodes */
    uint32_t n_nodes, n_tokens;
    uint32_t root_child[256]; /* the child of the root with this byte; n_nodes: none */
};

/* A token that is to be put into a trie. */
struct trie_entry {
    const char *bytes;
    uint32_t n;
    int32_t id;
    uint32_t characters; /* of a plain token; 0: it is not plain */
};

/* Builds the trie of the plain entries, or of the others; adds what it takes to *bytes. The entries
 * are sorted by their bytes. False: no memory; the caller finishes the trie all the same. */
bool token_trie_build(struct token_trie *t, const struct trie_entry *entries, uint32_t n,
                      bool plain, size_t *bytes);
void token_trie_finish(struct token_trie *t);

#endif
