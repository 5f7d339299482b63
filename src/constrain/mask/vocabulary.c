/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts the tokens by their bytes and builds the tries. */
#include "constrain/mask/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "constrain/mask/mask_cache.h"
#include "constrain/analysis/plain_set.h"

/* Returns the number of characters of a plain token, or 0 if the token is not plain. */
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

static int compare_entries(const void *a, const void *b)
{
    const struct trie_entry *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, x->n < y->n ? x->n : y->n);
    if (order) return order;
    return x->n != y->n ? (x->n < y->n ? -1 : 1) : (x->id > y->id) - (x->id < y->id);
}

/* Lists the tokens that stand for text, sorted by their bytes. Special tokens are left out. */
static struct trie_entry *list_entries(const struct tokenizer *tok, int size, uint32_t *n)
{
    int32_t last = tokenizer_size(tok) < size ? tokenizer_size(tok) : size;
    struct trie_entry *entries = calloc((size_t)last + 1, sizeof(*entries));
    *n = 0;
    for (int32_t id = 0; id < last && entries; id++) {
        size_t length;
        const char *bytes = tokenizer_bytes(tok, id, &length);
        if (length && !tokenizer_is_special(tok, id))
            entries[(*n)++] = (struct trie_entry){bytes, (uint32_t)length, id,
                                                  plain_characters(bytes, length)};
    }
    if (entries) qsort(entries, *n, sizeof(*entries), compare_entries);
    return entries;
}

/* Whether the byte occurs in well-formed UTF-8. */
static bool is_utf8_byte(int byte)
{
    return byte != 0xc0 && byte != 0xc1 && byte < 0xf5;
}

/* Checks that each byte of UTF-8 has a token of its own, so that tokens exist for every text. */
static bool has_all_bytes(const struct trie_entry *entries, uint32_t n, ey_err *e)
{
    bool found[256] = {false};
    for (uint32_t i = 0; i < n; i++)
        if (entries[i].n == 1) found[(uint8_t)entries[i].bytes[0]] = true;
    for (int byte = 0; byte < 256; byte++)
        if (!found[byte] && is_utf8_byte(byte))
            return ey_fail(
                e, EY_BAD_MODEL,
                "answers cannot be constrained by a grammar: the vocabulary has no token for "
                "the byte 0x%02x",
                byte);
    return true;
}

static void *vocabulary_alloc(struct vocabulary *v, size_t n, size_t size)
{
    v->bytes += n * size;
    return calloc(n ? n : 1, size);
}

/* ---- plain tokens by length ---- */

static void mask_set_bit(uint32_t *mask, int32_t id)
{
    mask[id / 32] |= 1u << (id % 32);
}

static void mask_clear_bit(uint32_t *mask, int32_t id)
{
    mask[id / 32] &= ~(1u << (id % 32));
}

static bool build_length_masks(struct vocabulary *v, const struct trie_entry *entries, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (entries[i].characters > v->max_plain_chars) v->max_plain_chars = entries[i].characters;
    v->length_masks = vocabulary_alloc(v, (LENGTH_MASKS + 1) * v->words, sizeof(*v->length_masks));
    v->long_ids = vocabulary_alloc(v, v->tries[PLAIN_TRIE].n_tokens, sizeof(*v->long_ids));
    v->long_ends = vocabulary_alloc(v, v->max_plain_chars + 2, sizeof(*v->long_ends));
    if (!v->length_masks || !v->long_ids || !v->long_ends) return false;
    for (uint32_t i = 0; i < n; i++) {
        if (entries[i].characters > LENGTH_MASKS) v->long_ends[entries[i].characters + 1]++;
        for (uint32_t max_remaining = entries[i].characters;
             max_remaining && max_remaining <= LENGTH_MASKS; max_remaining++)
            mask_set_bit(v->length_masks + max_remaining * v->words, entries[i].id);
    }
    for (uint32_t i = 0; i <= v->max_plain_chars; i++)
        v->long_ends[i + 1] += v->long_ends[i];
    for (uint32_t i = 0; i < n; i++)
        if (entries[i].characters > LENGTH_MASKS)
            v->long_ids[v->long_ends[entries[i].characters]++] = entries[i].id;
    return true;
}

void vocabulary_plain_mask(const struct vocabulary *v, uint32_t max_remaining, uint32_t *mask)
{
    uint32_t known = max_remaining < LENGTH_MASKS ? max_remaining : LENGTH_MASKS;
    memcpy(mask, v->length_masks + known * v->words, v->words * sizeof(*mask));
    if (max_remaining > v->max_plain_chars) max_remaining = v->max_plain_chars;
    for (uint32_t i = 0; max_remaining > LENGTH_MASKS && i < v->long_ends[max_remaining]; i++)
        mask_set_bit(mask, v->long_ids[i]);
}

void vocabulary_drop_longer(const struct vocabulary *v, uint32_t max_remaining, uint32_t *mask)
{
    if (max_remaining >= v->max_plain_chars) return;
    if (max_remaining < LENGTH_MASKS)
        for (size_t i = 0; i < v->words; i++)
            mask[i] &= v->length_masks[max_remaining * v->words + i];
    else
        for (uint32_t i = v->long_ends[max_remaining]; i < v->long_ends[v->max_plain_chars]; i++)
            mask_clear_bit(mask, v->long_ids[i]);
}

/* ---- opening ---- */

static bool build_token_ranges(struct vocabulary *v, const struct trie_entry *entries, uint32_t n,
                               int size)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        bytes += entries[i].n;
    v->n_token_ranges = (size_t)size;
    v->token_ranges = vocabulary_alloc(v, v->n_token_ranges, sizeof(*v->token_ranges));
    v->text = vocabulary_alloc(v, bytes, 1);
    if (!v->token_ranges || !v->text) return false;
    bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        v->token_ranges[entries[i].id] = (struct token_range){(uint32_t)bytes, entries[i].n};
        memcpy(v->text + bytes, entries[i].bytes, entries[i].n);
        bytes += entries[i].n;
    }
    return true;
}

/* Returns the most exits that a mask can have. A rule always ends with the same closing byte, so
 * its exits are nodes of one closing byte, and they have children. */
static uint32_t count_exits(const struct vocabulary *v)
{
    static const uint8_t closing[] = {'"', '}', ']'};
    uint32_t most = 0;
    for (int i = 0; i < 3; i++) {
        uint32_t count = 0;
        for (int t = 0; t < TRIES; t++)
            for (uint32_t node = 0; node < v->tries[t].n_nodes; node++)
                count += v->tries[t].byte[node] == closing[i] &&
                         v->tries[t].subtree_end[node] > node + 1;
        if (count > most) most = count;
    }
    return most;
}

static bool vocabulary_fill(struct vocabulary *v, const struct trie_entry *entries, uint32_t n,
                            int size)
{
    for (uint32_t i = 0; i < n; i++)
        if (entries[i].n > v->max_token_bytes) v->max_token_bytes = entries[i].n;
    if (!token_trie_build(&v->tries[PLAIN_TRIE], entries, n, true, &v->bytes) ||
        !token_trie_build(&v->tries[OTHER_TRIE], entries, n, false, &v->bytes))
        return false;
    v->n_exits = count_exits(v);
    return build_length_masks(v, entries, n) && build_token_ranges(v, entries, n, size);
}

bool vocabulary_open(struct vocabulary **out, const struct tokenizer *tok, int size,
                     size_t cache_masks, ey_err *e)
{
    struct vocabulary *v = calloc(1, sizeof(*v));
    uint32_t n = 0;
    if (!v) return ey_fail_memory(e, "a vocabulary", sizeof(*v));
    struct trie_entry *entries = list_entries(tok, size, &n);
    v->words = ((size_t)size + 31) / 32;
    v->bytes = sizeof(*v);
    bool ok = entries || ey_fail_memory(e, "a vocabulary", (size_t)size * sizeof(*entries));
    ok = ok && has_all_bytes(entries, n, e);
    if (ok && !vocabulary_fill(v, entries, n, size))
        ok = ey_fail_memory(e, "a vocabulary", v->bytes);
    ok = ok && mask_cache_open(&v->cache, cache_masks, v->words, v->n_exits, e);
    v->bytes += mask_cache_bytes(cache_masks, v->words, v->n_exits);
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
    for (int t = 0; t < TRIES; t++)
        token_trie_finish(&v->tries[t]);
    free(v->token_ranges);
    free(v->text);
    free(v->length_masks);
    free(v->long_ids);
    free(v->long_ends);
    mask_cache_close(v->cache);
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
