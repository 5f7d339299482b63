/* SPDX-License-Identifier: Apache-2.0 */
/* Builds tries from tokens sorted by their bytes. */
#include "constrain/mask/token_trie.h"

#include <stdlib.h>

#include "base/limits.h"
#include "constrain/analysis/plain_set.h"

static uint32_t common_prefix(const struct trie_entry *a, const struct trie_entry *b)
{
    uint32_t n = 0;
    while (n < a->n && n < b->n && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

/* Allocates a zeroed array and adds its size to *bytes. */
static void *trie_array(size_t *bytes, size_t n, size_t size)
{
    *bytes += n * size;
    return calloc(n ? n : 1, size);
}

static bool token_trie_alloc(struct token_trie *t, size_t *bytes)
{
    t->byte = trie_array(bytes, t->n_nodes, sizeof(*t->byte));
    t->depth = trie_array(bytes, t->n_nodes, sizeof(*t->depth));
    t->subtree_end = trie_array(bytes, t->n_nodes, sizeof(*t->subtree_end));
    t->first_token = trie_array(bytes, t->n_nodes + 1, sizeof(*t->first_token));
    t->token_ids = trie_array(bytes, t->n_tokens, sizeof(*t->token_ids));
    t->classes = trie_array(bytes, t->n_nodes, sizeof(*t->classes));
    for (int i = 0; i < 256; i++)
        t->root_child[i] = t->n_nodes;
    return t->byte && t->depth && t->subtree_end && t->first_token && t->token_ids && t->classes;
}

/* Adds a token. `path` has the nodes of the previous token; the first `shared` ones are the new
 * token's, too. New nodes are numbered from *node on. */
static void token_trie_add(struct token_trie *t, const struct trie_entry *entry, uint32_t shared,
                           uint32_t *path, uint32_t *node)
{
    for (uint32_t i = shared; i < entry->n; i++) {
        if (!i) t->root_child[(uint8_t)entry->bytes[0]] = *node;
        t->byte[*node] = (uint8_t)entry->bytes[i];
        t->depth[*node] = (uint16_t)(i + 1);
        t->first_token[*node] = t->n_tokens;
        path[i] = (*node)++;
    }
    uint64_t classes = 0;
    for (uint32_t i = 0; i < entry->n && entry->characters; i++)
        classes |= plain_class((uint8_t)entry->bytes[i]);
    for (uint32_t i = 0; i < entry->n; i++) {
        t->subtree_end[path[i]] = *node;
        t->classes[path[i]] |= classes;
    }
    t->token_ids[t->n_tokens++] = entry->id;
}

bool token_trie_build(struct token_trie *t, const struct trie_entry *entries, uint32_t n,
                      bool plain, size_t *bytes)
{
    const struct trie_entry *before = NULL;
    uint32_t path[EY_MAX_TOKEN_BYTES], node = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!entries[i].characters == plain) continue;
        t->n_nodes += entries[i].n - (before ? common_prefix(before, &entries[i]) : 0);
        t->n_tokens++;
        before = &entries[i];
    }
    if (!token_trie_alloc(t, bytes)) return false;
    t->n_tokens = 0;
    before = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (!entries[i].characters == plain) continue;
        token_trie_add(t, &entries[i], before ? common_prefix(before, &entries[i]) : 0, path,
                       &node);
        before = &entries[i];
    }
    t->first_token[node] = t->n_tokens;
    return true;
}

void token_trie_finish(struct token_trie *t)
{
    free(t->byte);
    free(t->depth);
    free(t->subtree_end);
    free(t->first_token);
    free(t->token_ids);
    free(t->classes);
}
