/* SPDX-License-Identifier: Apache-2.0 */
/* Tries of a vocabulary's tokens, byte by byte, stored as arrays. */
#ifndef EY_CONSTRAIN_TOKEN_TRIE_H
#define EY_CONSTRAIN_TOKEN_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nodes are in depth-first order, so a walk reads the arrays sequentially and skips a subtree with
 * one jump. The tokens that have only plain characters (plain_set.h) are in a trie of their own,
 * since most masks allow them as a set, without a walk. */
struct token_trie {
    uint8_t *byte;         /* [n_nodes] */
    uint16_t *depth;       /* [n_nodes] bytes from the root to the node, its own included */
    uint32_t *subtree_end; /* [n_nodes] the first node after the subtree */
    uint64_t *classes;     /* [n_nodes] plain_class() of all bytes of the subtree's tokens; 0 in
                             the trie of the other tokens */
    uint32_t *first_token; /* [n_nodes + 1] the first token that ends at the node */
    int32_t *token_ids;    /* [n_tokens] in node order */
    uint32_t n_nodes, n_tokens;
    uint32_t root_child[256]; /* the root's child for a byte, or n_nodes */
};

/* A token from which tries are built. */
struct trie_entry {
    const char *bytes;
    uint32_t n;
    int32_t id;
    uint32_t characters; /* characters of a plain token; 0 if it is not plain */
};

/* Builds the trie of the plain entries, or of the others, from entries sorted by their bytes. Adds
 * the size of its memory to *bytes. Returns false if memory runs out; token_trie_finish() is needed
 * then, too. */
bool token_trie_build(struct token_trie *t, const struct trie_entry *entries, uint32_t n,
                      bool plain, size_t *bytes);
void token_trie_finish(struct token_trie *t);

#endif
