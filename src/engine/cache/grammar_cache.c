/* SPDX-License-Identifier: Apache-2.0 */
/* An LRU cache of compiled grammars, keyed by their source. It has few entries, so lookup is
 * linear. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "constrain/constrain.h"
#include "eyelet.h"

struct grammar_entry {
    char *key;               /* NULL if the entry is free */
    size_t n_key, bytes;     /* bytes: the grammar's and the key's memory */
    uint64_t hash, last_use; /* last_use: in ticks of the cache's clock */
    ey_grammar *grammar;
};

struct ey_grammar_cache {
    pthread_mutex_t lock;
    struct grammar_entry entry[EY_GRAMMAR_CACHE_ENTRIES];
    size_t bytes, max_bytes;
    uint64_t clock;
};

bool ey_grammar_cache_open(ey_grammar_cache **cache, size_t max_bytes, ey_err *e)
{
    ey_grammar_cache *c = *cache = calloc(1, sizeof(*c));
    if (!c) return ey_fail_memory(e, "a cache of grammars", sizeof(*c));
    pthread_mutex_init(&c->lock, NULL);
    c->max_bytes = max_bytes;
    return true;
}

static void grammar_entry_free(ey_grammar_cache *c, struct grammar_entry *entry)
{
    c->bytes -= entry->bytes;
    grammar_release(&entry->grammar);
    free(entry->key);
    *entry = (struct grammar_entry){.key = NULL};
}

void ey_grammar_cache_close(ey_grammar_cache **cache)
{
    ey_grammar_cache *c = *cache;
    if (!c) return;
    for (int i = 0; i < EY_GRAMMAR_CACHE_ENTRIES; i++)
        if (c->entry[i].key) grammar_entry_free(c, &c->entry[i]);
    pthread_mutex_destroy(&c->lock);
    free(c);
    *cache = NULL;
}

static struct grammar_entry *grammar_cache_lookup(ey_grammar_cache *c, const char *key, size_t n,
                                                  uint64_t hash)
{
    for (struct grammar_entry *x = c->entry; x < c->entry + EY_GRAMMAR_CACHE_ENTRIES; x++)
        if (x->key && x->hash == hash && x->n_key == n && memcmp(x->key, key, n) == 0) return x;
    return NULL;
}

ey_grammar *ey_grammar_cache_find(ey_grammar_cache *c, const char *key, size_t n)
{
    uint64_t hash = fnv1a_64(FNV1A_64_START, key, n);
    pthread_mutex_lock(&c->lock);
    struct grammar_entry *entry = grammar_cache_lookup(c, key, n, hash);
    ey_grammar *grammar = entry ? grammar_retain(entry->grammar) : NULL;
    if (entry) entry->last_use = ++c->clock;
    pthread_mutex_unlock(&c->lock);
    return grammar;
}

/* Returns a free entry; evicts the least recently used ones until `bytes` more fit. */
static struct grammar_entry *grammar_cache_evict(ey_grammar_cache *c, size_t bytes)
{
    for (;;) {
        struct grammar_entry *unused = NULL, *oldest = NULL;
        for (struct grammar_entry *x = c->entry; x < c->entry + EY_GRAMMAR_CACHE_ENTRIES; x++) {
            if (!x->key)
                unused = x;
            else if (!oldest || x->last_use < oldest->last_use)
                oldest = x;
        }
        if (unused && c->bytes + bytes <= c->max_bytes) return unused;
        grammar_entry_free(c, oldest); /* not NULL, because `bytes` fit into an empty cache */
    }
}

void ey_grammar_cache_put(ey_grammar_cache *c, const char *key, size_t n, ey_grammar *grammar)
{
    size_t bytes = n + grammar_bytes(grammar);
    uint64_t hash = fnv1a_64(FNV1A_64_START, key, n);
    char *copy = bytes <= c->max_bytes ? malloc(n + 1) : NULL;
    if (!copy) return; /* a grammar that is not stored is compiled again next time */
    memcpy(copy, key, n);
    pthread_mutex_lock(&c->lock);
    if (grammar_cache_lookup(c, key, n, hash)) {
        free(copy); /* another request stored it first */
    } else {
        *grammar_cache_evict(c, bytes) = (struct grammar_entry){
            copy, n, bytes, hash, ++c->clock, grammar_retain(grammar)};
        c->bytes += bytes;
    }
    pthread_mutex_unlock(&c->lock);
}
