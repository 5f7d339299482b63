/* SPDX-License-Identifier: Apache-2.0 */
/* Slots in planned memory, found by a table with open addressing; entries are deleted by moving
 * back what follows. */
#include "constrain/cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct slot {
    struct mask_key key;
    uint32_t n_exits;
    bool filled, used;
};

struct cache {
    pthread_mutex_t lock;
    struct slot *slots;       /* [n] */
    uint32_t *masks;          /* [n][words] */
    struct token_exit *exits; /* [n][n_exits] */
    uint32_t *table;          /* [mask + 1] slot + 1, 0: free */
    size_t n, words, n_exits, mask, hand;
};

static size_t table_size(size_t n)
{
    size_t size = 16;
    while (size < 2 * n)
        size *= 2;
    return size;
}

size_t cache_bytes(size_t n, size_t words, size_t n_exits)
{
    return sizeof(struct cache) + table_size(n) * sizeof(uint32_t) +
           n * (sizeof(struct slot) + words * sizeof(uint32_t) +
                n_exits * sizeof(struct token_exit));
}

bool cache_open(struct cache **out, size_t n, size_t words, size_t n_exits, ey_err *e)
{
    struct cache *c = calloc(1, sizeof(*c));
    if (!c) return ey_fail_memory(e, "a cache of masks", sizeof(*c));
    pthread_mutex_init(&c->lock, NULL);
    c->n = n;
    c->words = words;
    c->n_exits = n_exits;
    c->mask = table_size(n) - 1;
    c->slots = calloc(n + 1, sizeof(*c->slots));
    c->masks = calloc(n * words + 1, sizeof(*c->masks));
    c->exits = calloc(n * n_exits + 1, sizeof(*c->exits));
    c->table = calloc(c->mask + 1, sizeof(*c->table));
    if (!c->slots || !c->masks || !c->exits || !c->table) {
        cache_close(c);
        return ey_fail_memory(e, "a cache of masks", cache_bytes(n, words, n_exits));
    }
    *out = c;
    return true;
}

void cache_close(struct cache *c)
{
    if (!c) return;
    pthread_mutex_destroy(&c->lock);
    free(c->slots);
    free(c->masks);
    free(c->exits);
    free(c->table);
    free(c);
}

static size_t key_hash(struct mask_key key)
{
    uint64_t hash = key.grammar * 0x9e3779b97f4a7c15u ^ ((uint64_t)key.state << 32 | key.room);
    hash ^= hash >> 31;
    hash *= 0xbf58476d1ce4e5b9u;
    hash ^= (uint64_t)key.need << 1 | key.of_alphabet;
    hash ^= hash >> 29;
    return hash * 0x94d049bb133111ebu >> 20;
}

static bool same_key(struct mask_key a, struct mask_key b)
{
    return a.grammar == b.grammar && a.state == b.state && a.room == b.room && a.need == b.need &&
           a.of_alphabet == b.of_alphabet;
}

/* Where the key is in the table, or belongs. */
static size_t place_of(const struct cache *c, struct mask_key key)
{
    size_t i = key_hash(key) & c->mask;
    while (c->table[i] && !same_key(c->slots[c->table[i] - 1].key, key))
        i = (i + 1) & c->mask;
    return i;
}

/* Takes an entry out and moves those back that lie behind it only because it was there. */
static void take_out(struct cache *c, size_t hole)
{
    c->table[hole] = 0;
    for (size_t i = (hole + 1) & c->mask; c->table[i]; i = (i + 1) & c->mask) {
        size_t home = key_hash(c->slots[c->table[i] - 1].key) & c->mask;
        if (((i - home) & c->mask) < ((i - hole) & c->mask)) continue;
        c->table[hole] = c->table[i];
        c->table[i] = 0;
        hole = i;
    }
}

static size_t free_slot(struct cache *c)
{
    for (;; c->hand = (c->hand + 1) % c->n) {
        struct slot *s = &c->slots[c->hand];
        if (!s->filled || !s->used) break;
        s->used = false;
    }
    size_t i = c->hand;
    c->hand = (c->hand + 1) % c->n;
    if (c->slots[i].filled) take_out(c, place_of(c, c->slots[i].key));
    return i;
}

bool cache_get(struct cache *c, struct mask_key key, uint32_t *mask, struct token_exit *exits,
               uint32_t *n_exits)
{
    pthread_mutex_lock(&c->lock);
    uint32_t found = c->table[place_of(c, key)];
    if (found) {
        struct slot *s = &c->slots[found - 1];
        s->used = true;
        memcpy(mask, c->masks + (found - 1) * c->words, c->words * sizeof(*mask));
        memcpy(exits, c->exits + (found - 1) * c->n_exits, s->n_exits * sizeof(*exits));
        *n_exits = s->n_exits;
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

void cache_put(struct cache *c, struct mask_key key, const uint32_t *mask,
               const struct token_exit *exits, uint32_t n_exits)
{
    if (!c->n) return;
    pthread_mutex_lock(&c->lock);
    if (!c->table[place_of(c, key)]) { /* another thread may have been faster */
        size_t i = free_slot(c);
        c->slots[i] = (struct slot){.key = key, .n_exits = n_exits, .filled = true, .used = true};
        memcpy(c->masks + i * c->words, mask, c->words * sizeof(*mask));
        memcpy(c->exits + i * c->n_exits, exits, n_exits * sizeof(*exits));
        c->table[place_of(c, key)] = (uint32_t)i + 1;
    }
    pthread_mutex_unlock(&c->lock);
}
