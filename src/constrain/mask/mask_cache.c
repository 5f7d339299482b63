/* SPDX-License-Identifier: Apache-2.0 */
/* The cache has a fixed number of slots and finds them with an open-addressing hash table. A
 * deletion moves later entries of the table back, so that no markers of deleted entries remain. */
#include "constrain/mask/mask_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct mask_slot {
    struct mask_key key;
    uint32_t n_exits;
    bool filled, recently_used;
};

struct mask_cache {
    pthread_mutex_t lock;
    struct mask_slot *slots;  /* [n] */
    uint32_t *masks;          /* [n][words] */
    struct token_exit *exits; /* [n][n_exits] */
    uint32_t *table;          /* [table_mask + 1] number of a slot + 1, or 0 if free */
    size_t n, words, n_exits, table_mask, clock_hand;
};

static size_t mask_table_size(size_t n)
{
    size_t size = 16;
    while (size < 2 * n)
        size *= 2;
    return size;
}

size_t mask_cache_bytes(size_t n, size_t words, size_t n_exits)
{
    return sizeof(struct mask_cache) + mask_table_size(n) * sizeof(uint32_t) +
           n * (sizeof(struct mask_slot) + words * sizeof(uint32_t) +
                n_exits * sizeof(struct token_exit));
}

bool mask_cache_open(struct mask_cache **out, size_t n, size_t words, size_t n_exits, ey_err *e)
{
    struct mask_cache *c = calloc(1, sizeof(*c));
    if (!c) return ey_fail_memory(e, "a cache of masks", sizeof(*c));
    pthread_mutex_init(&c->lock, NULL);
    c->n = n;
    c->words = words;
    c->n_exits = n_exits;
    c->table_mask = mask_table_size(n) - 1;
    c->slots = calloc(n + 1, sizeof(*c->slots));
    c->masks = calloc(n * words + 1, sizeof(*c->masks));
    c->exits = calloc(n * n_exits + 1, sizeof(*c->exits));
    c->table = calloc(c->table_mask + 1, sizeof(*c->table));
    if (!c->slots || !c->masks || !c->exits || !c->table) {
        mask_cache_close(c);
        return ey_fail_memory(e, "a cache of masks", mask_cache_bytes(n, words, n_exits));
    }
    *out = c;
    return true;
}

void mask_cache_close(struct mask_cache *c)
{
    if (!c) return;
    pthread_mutex_destroy(&c->lock);
    free(c->slots);
    free(c->masks);
    free(c->exits);
    free(c->table);
    free(c);
}

static size_t mask_key_hash(struct mask_key key)
{
    uint64_t hash = key.grammar * 0x9e3779b97f4a7c15u ^
                    ((uint64_t)key.state << 32 | key.max_remaining);
    hash ^= hash >> 31;
    hash *= 0xbf58476d1ce4e5b9u;
    hash ^= (uint64_t)key.min_remaining << 1 | key.of_plain_set;
    hash ^= hash >> 29;
    return hash * 0x94d049bb133111ebu >> 20;
}

static bool same_mask_key(struct mask_key a, struct mask_key b)
{
    return a.grammar == b.grammar && a.state == b.state && a.max_remaining == b.max_remaining &&
           a.min_remaining == b.min_remaining && a.of_plain_set == b.of_plain_set;
}

/* Returns the index of the key's entry in the table, or of the free entry where it belongs. */
static size_t mask_table_find(const struct mask_cache *c, struct mask_key key)
{
    size_t i = mask_key_hash(key) & c->table_mask;
    while (c->table[i] && !same_mask_key(c->slots[c->table[i] - 1].key, key))
        i = (i + 1) & c->table_mask;
    return i;
}

/* Deletes entry `hole` and moves back the later entries that collided with it. */
static void mask_table_remove(struct mask_cache *c, size_t hole)
{
    c->table[hole] = 0;
    for (size_t i = (hole + 1) & c->table_mask; c->table[i]; i = (i + 1) & c->table_mask) {
        size_t home = mask_key_hash(c->slots[c->table[i] - 1].key) & c->table_mask;
        if (((i - home) & c->table_mask) < ((i - hole) & c->table_mask)) continue;
        c->table[hole] = c->table[i];
        c->table[i] = 0;
        hole = i;
    }
}

static size_t claim_mask_slot(struct mask_cache *c)
{
    for (;; c->clock_hand = (c->clock_hand + 1) % c->n) {
        struct mask_slot *s = &c->slots[c->clock_hand];
        if (!s->filled || !s->recently_used) break;
        s->recently_used = false;
    }
    size_t i = c->clock_hand;
    c->clock_hand = (c->clock_hand + 1) % c->n;
    if (c->slots[i].filled) mask_table_remove(c, mask_table_find(c, c->slots[i].key));
    return i;
}

bool mask_cache_get(struct mask_cache *c, struct mask_key key, uint32_t *mask,
                    struct token_exit *exits, uint32_t *n_exits)
{
    pthread_mutex_lock(&c->lock);
    uint32_t found = c->table[mask_table_find(c, key)];
    if (found) {
        struct mask_slot *s = &c->slots[found - 1];
        s->recently_used = true;
        memcpy(mask, c->masks + (found - 1) * c->words, c->words * sizeof(*mask));
        memcpy(exits, c->exits + (found - 1) * c->n_exits, s->n_exits * sizeof(*exits));
        *n_exits = s->n_exits;
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

void mask_cache_put(struct mask_cache *c, struct mask_key key, const uint32_t *mask,
                    const struct token_exit *exits, uint32_t n_exits)
{
    if (!c->n) return;
    pthread_mutex_lock(&c->lock);
    if (!c->table[mask_table_find(c, key)]) { /* another thread may have added it */
        size_t i = claim_mask_slot(c);
        c->slots[i] = (struct mask_slot){
            .key = key, .n_exits = n_exits, .filled = true, .recently_used = true};
        memcpy(c->masks + i * c->words, mask, c->words * sizeof(*mask));
        memcpy(c->exits + i * c->n_exits, exits, n_exits * sizeof(*exits));
        c->table[mask_table_find(c, key)] = (uint32_t)i + 1;
    }
    pthread_mutex_unlock(&c->lock);
}
