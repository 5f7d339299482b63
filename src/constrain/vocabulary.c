/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens sorted by their bytes, made into tries. */
#include "constrain/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "constrain/cache.h"
#include "constrain/rooms.h"

struct entry {
    const char *bytes;
    uint32_t n;
    int32_t id;
    uint32_t characters; /* of a plain token; 0: it is not plain */
};

static uint32_t plain_characters(const char *bytes, size_t n)
{
    uint32_t count = 0;
    for (size_t i = 0; i < n; count++) {
        int length = plain_char(bytes + i, n - i);
        if (!length) return 0;
        i += (size_t)length;
    }
    return count;
}

static int entry_order(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, x->n < y->n ? x->n : y->n);
    if (order) return order;
    return x->n != y->n ? (x->n < y->n ? -1 : 1) : (x->id > y->id) - (x->id < y->id);
}

/* All tokens that can be text. */
static struct entry *list_entries(const struct tokenizer *tok, int size, uint32_t *n)
{
    int32_t last = tokenizer_size(tok) < size ? tokenizer_size(tok) : size;
    struct entry *entries = calloc((size_t)last + 1, sizeof(*entries));
    *n = 0;
    for (int32_t id = 0; id < last && entries; id++) {
        size_t length;
        const char *bytes = tokenizer_bytes(tok, id, &length);
        if (length && !tokenizer_is_special(tok, id))
            entries[(*n)++] = (struct entry){bytes, (uint32_t)length, id,
                                             plain_characters(bytes, length)};
    }
    if (entries) qsort(entries, *n, sizeof(*entries), entry_order);
    return entries;
}

/* Bytes that well-formed UTF-8 has. */
static bool text_byte(int byte)
{
    return byte != 0xc0 && byte != 0xc1 && byte < 0xf5;
}

/* With these, a text that can be completed can be completed by tokens. */
static bool has_all_bytes(const struct entry *entries, uint32_t n, ey_err *e)
{
    bool found[256] = {false};
    for (uint32_t i = 0; i < n; i++)
        if (entries[i].n == 1) found[(uint8_t)entries[i].bytes[0]] = true;
    for (int byte = 0; byte < 256; byte++)
        if (!found[byte] && text_byte(byte))
            return ey_fail(e, EY_BAD_MODEL,
                           "answers cannot be held to a grammar: the vocabulary has no token for "
                           "the byte 0x%02x",
                           byte);
    return true;
}

/* ---- tries
 * --------------------------------------------------------------------------------------- */

static uint32_t common_prefix(const struct entry *a, const struct entry *b)
{
    uint32_t n = 0;
    while (n < a->n && n < b->n && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

static void *array(struct vocabulary *v, size_t n, size_t size)
{
    v->bytes += n * size;
    return calloc(n ? n : 1, size);
}

static bool trie_alloc(struct vocabulary *v, struct trie *t)
{
    t->byte = array(v, t->n_nodes, sizeof(*t->byte));
    t->depth = array(v, t->n_nodes, sizeof(*t->depth));
    t->end = array(v, t->n_nodes, sizeof(*t->end));
    t->tokens = array(v, t->n_nodes + 1, sizeof(*t->tokens));
    t->id = array(v, t->n_tokens, sizeof(*t->id));
    t->classes = array(v, t->n_nodes, sizeof(*t->classes));
    for (int i = 0; i < 256; i++)
        t->first[i] = t->n_nodes;
    return t->byte && t->depth && t->end && t->tokens && t->id && t->classes;
}

/* Adds the nodes of a token below those that it shares with the one before it; path: the nodes of
 * that one. */
static void trie_add(struct trie *t, const struct entry *entry, uint32_t shared, uint32_t *path,
                     uint32_t *node)
{
    for (uint32_t i = shared; i < entry->n; i++) {
        if (!i) t->first[(uint8_t)entry->bytes[0]] = *node;
        t->byte[*node] = (uint8_t)entry->bytes[i];
        t->depth[*node] = (uint16_t)(i + 1);
        t->tokens[*node] = t->n_tokens;
        path[i] = (*node)++;
    }
    uint64_t classes = 0;
    for (uint32_t i = 0; i < entry->n && entry->characters; i++)
        classes |= plain_class((uint8_t)entry->bytes[i]);
    for (uint32_t i = 0; i < entry->n; i++) {
        t->end[path[i]] = *node;
        t->classes[path[i]] |= classes;
    }
    t->id[t->n_tokens++] = entry->id;
}

static bool trie_build(struct vocabulary *v, struct trie *t, const struct entry *entries,
                       uint32_t n, bool plain)
{
    const struct entry *before = NULL;
    uint32_t path[EY_MAX_TOKEN_BYTES], node = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!entries[i].characters == plain) continue;
        t->n_nodes += entries[i].n - (before ? common_prefix(before, &entries[i]) : 0);
        t->n_tokens++;
        before = &entries[i];
    }
    if (!trie_alloc(v, t)) return false;
    t->n_tokens = 0;
    before = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (!entries[i].characters == plain) continue;
        trie_add(t, &entries[i], before ? common_prefix(before, &entries[i]) : 0, path, &node);
        before = &entries[i];
    }
    t->tokens[node] = t->n_tokens;
    return true;
}

/* ---- plain tokens by length
 * ---------------------------------------------------------------------- */

static void set_bit(uint32_t *mask, int32_t id)
{
    mask[id / 32] |= 1u << (id % 32);
}

static void clear_bit(uint32_t *mask, int32_t id)
{
    mask[id / 32] &= ~(1u << (id % 32));
}

static bool build_rooms(struct vocabulary *v, const struct entry *entries, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (entries[i].characters > v->longest_plain) v->longest_plain = entries[i].characters;
    v->room_mask = array(v, (ROOM_MASKS + 1) * v->words, sizeof(*v->room_mask));
    v->long_id = array(v, v->trie[PLAIN_TRIE].n_tokens, sizeof(*v->long_id));

    v->long_end = array(v, v->longest_plain + 2, sizeof(*v->long_end));
    if (!v->room_mask || !v->long_id || !v->long_end) return false;
    for (uint32_t i = 0; i < n; i++) {
        if (entries[i].characters > ROOM_MASKS) v->long_end[entries[i].characters + 1]++;
        for (uint32_t room = entries[i].characters; room && room <= ROOM_MASKS; room++)
            set_bit(v->room_mask + room * v->words, entries[i].id);
    }
    for (uint32_t i = 0; i <= v->longest_plain; i++)
        v->long_end[i + 1] += v->long_end[i];
    for (uint32_t i = 0; i < n; i++)
        if (entries[i].characters > ROOM_MASKS)
            v->long_id[v->long_end[entries[i].characters]++] = entries[i].id;
    return true;
}

void vocabulary_plain(const struct vocabulary *v, uint32_t room, uint32_t *mask)
{
    uint32_t known = room < ROOM_MASKS ? room : ROOM_MASKS;
    memcpy(mask, v->room_mask + known * v->words, v->words * sizeof(*mask));
    if (room > v->longest_plain) room = v->longest_plain;
    for (uint32_t i = 0; room > ROOM_MASKS && i < v->long_end[room]; i++)
        set_bit(mask, v->long_id[i]);
}

void vocabulary_shorten(const struct vocabulary *v, uint32_t room, uint32_t *mask)
{
    if (room >= v->longest_plain) return;
    if (room < ROOM_MASKS)
        for (size_t i = 0; i < v->words; i++)
            mask[i] &= v->room_mask[room * v->words + i];
    else
        for (uint32_t i = v->long_end[room]; i < v->long_end[v->longest_plain]; i++)
            clear_bit(mask, v->long_id[i]);
}

/* ---- the whole
 * ----------------------------------------------------------------------------------- */

static bool build_spellings(struct vocabulary *v, const struct entry *entries, uint32_t n, int size)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        bytes += entries[i].n;
    v->n_spellings = (size_t)size;
    v->spelling = array(v, v->n_spellings, sizeof(*v->spelling));
    v->text = array(v, bytes, 1);
    if (!v->spelling || !v->text) return false;
    bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        v->spelling[entries[i].id] = (struct spelling_of){(uint32_t)bytes, entries[i].n};
        memcpy(v->text + bytes, entries[i].bytes, entries[i].n);
        bytes += entries[i].n;
    }
    return true;
}

/* Nodes where a bracketed text may end and something is below; of one closing byte. */
static uint32_t count_exits(const struct vocabulary *v)
{
    static const uint8_t closing[] = {'"', '}', ']'};
    uint32_t most = 0;
    for (int i = 0; i < 3; i++) {
        uint32_t count = 0;
        for (int t = 0; t < TRIES; t++)
            for (uint32_t node = 0; node < v->trie[t].n_nodes; node++)
                count += v->trie[t].byte[node] == closing[i] && v->trie[t].end[node] > node + 1;
        if (count > most) most = count;
    }
    return most;
}

static bool fill(struct vocabulary *v, const struct entry *entries, uint32_t n, int size)
{
    for (uint32_t i = 0; i < n; i++)
        if (entries[i].n > v->longest) v->longest = entries[i].n;
    if (!trie_build(v, &v->trie[PLAIN_TRIE], entries, n, true) ||
        !trie_build(v, &v->trie[ODD_TRIE], entries, n, false))
        return false;
    v->n_exits = count_exits(v);
    return build_rooms(v, entries, n) && build_spellings(v, entries, n, size);
}

bool vocabulary_open(struct vocabulary **out, const struct tokenizer *tok, int size,
                     size_t cache_masks, ey_err *e)
{
    struct vocabulary *v = calloc(1, sizeof(*v));
    uint32_t n = 0;
    if (!v) return ey_fail_memory(e, "a vocabulary", sizeof(*v));
    struct entry *entries = list_entries(tok, size, &n);
    v->words = ((size_t)size + 31) / 32;
    v->bytes = sizeof(*v);
    bool ok = entries || ey_fail_memory(e, "a vocabulary", (size_t)size * sizeof(*entries));
    ok = ok && has_all_bytes(entries, n, e);
    if (ok && !fill(v, entries, n, size)) ok = ey_fail_memory(e, "a vocabulary", v->bytes);
    ok = ok && cache_open(&v->cache, cache_masks, v->words, v->n_exits, e);
    v->bytes += cache_bytes(cache_masks, v->words, v->n_exits);
    free(entries);
    if (ok)
        *out = v;
    else
        vocabulary_close(&v);
    return ok;
}

void vocabulary_close(struct vocabulary **vocabulary)
{
    struct vocabulary *v = *vocabulary;
    if (!v) return;
    for (int t = 0; t < TRIES; t++) {
        struct trie *trie = &v->trie[t];
        free(trie->byte);
        free(trie->depth);
        free(trie->end);
        free(trie->tokens);
        free(trie->id);
        free(trie->classes);
    }
    free(v->spelling);
    free(v->text);
    free(v->room_mask);
    free(v->long_id);
    free(v->long_end);
    cache_close(v->cache);
    free(v);
    *vocabulary = NULL;
}

size_t vocabulary_bytes(const struct vocabulary *v)
{
    return v->bytes;
}

size_t vocabulary_words(const struct vocabulary *v)
{
    return v->words;
}
