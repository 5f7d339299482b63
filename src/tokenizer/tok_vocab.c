/* SPDX-License-Identifier: Apache-2.0 */
/* Vocabulary tables. */
#include "tokenizer/tok_vocab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/utf8.h"

/* Returns the number of slots, a power of two, of which `count` entries fill at most two thirds. */
static size_t slots_for(size_t count)
{
    size_t slots = 16;
    while (slots - slots / 3 <= count)
        slots *= 2;
    return slots;
}

bool pair_map_init(struct pair_map *map, size_t count, ey_err *e)
{
    size_t slots = slots_for(count), bytes;
    if (!checked_mul(slots, sizeof(*map->slots), &bytes))
        return ey_fail_memory(e, "pair table", SIZE_MAX);
    map->slots = malloc(bytes);
    if (!map->slots) return ey_fail_memory(e, "pair table", bytes);
    for (size_t i = 0; i < slots; i++)
        map->slots[i] = (struct pair_slot){.left = PAIR_FREE};
    map->mask = slots - 1;
    map->shift = (unsigned)__builtin_clzll(slots) + 1;
    return true;
}

void pair_map_finish(struct pair_map *map)
{
    free(map->slots);
    *map = (struct pair_map){0};
}

void pair_map_put(struct pair_map *map, uint32_t left, uint32_t right, uint32_t value,
                  uint32_t extra)
{
    size_t i = pair_map_start(map, left, right);
    while (map->slots[i].left != PAIR_FREE &&
           (map->slots[i].left != left || map->slots[i].right != right))
        i = (i + 1) & map->mask;
    map->slots[i] = (struct pair_slot){
        .left = left, .right = right, .value = value, .extra = extra};
}

bool vocab_init(struct vocab *v, size_t count, ey_err *e)
{
    size_t slots = slots_for(count);
    v->index = calloc(slots, sizeof(*v->index));
    if (!v->index) return ey_fail_memory(e, "vocabulary", slots * sizeof(*v->index));
    v->index_mask = slots - 1;
    return true;
}

void vocab_finish(struct vocab *v)
{
    free(v->tokens);
    free(v->bytes);
    free(v->index);
    *v = (struct vocab){0};
}

static bool reserve_tokens(struct vocab *v, uint32_t size)
{
    if (size <= v->capacity) return true;
    uint32_t capacity = v->capacity ? v->capacity : 1024;
    while (capacity < size)
        capacity *= 2;
    struct token *tokens = realloc(v->tokens, capacity * sizeof(*tokens));
    if (!tokens) return false;
    memset(tokens + v->capacity, 0, (capacity - v->capacity) * sizeof(*tokens));
    v->tokens = tokens;
    v->capacity = capacity;
    return true;
}

static bool reserve_bytes(struct vocab *v, size_t add)
{
    if (v->bytes_capacity - v->n_bytes >= add) return true;
    size_t capacity = v->bytes_capacity * 2 + EY_MAX_TOKEN_BYTES;
    char *bytes = realloc(v->bytes, capacity);
    if (!bytes) return false;
    v->bytes = bytes;
    v->bytes_capacity = capacity;
    return true;
}

bool vocab_put(struct vocab *v, uint32_t id, const char *bytes, size_t n, ey_err *e)
{
    assert(id < EY_MAX_VOCAB_SIZE && n >= 1 && n <= EY_MAX_TOKEN_BYTES && !vocab_token(v, id));
    if (!reserve_tokens(v, id + 1) || !reserve_bytes(v, n))
        return ey_fail_memory(e, "vocabulary", v->n_bytes + n);
    v->tokens[id] = (struct token){.at = (uint32_t)v->n_bytes, .n = (uint16_t)n};
    memcpy(v->bytes + v->n_bytes, bytes, n);
    v->n_bytes += n;
    if (id >= v->size) v->size = id + 1;
    return true;
}

const struct token *vocab_token(const struct vocab *v, int64_t id)
{
    return id >= 0 && id < v->size && v->tokens[id].n ? &v->tokens[id] : NULL;
}

bool vocab_token_is(const struct vocab *v, int64_t id, const char *bytes, size_t n)
{
    const struct token *token = vocab_token(v, id);
    return token && token->n == n && !memcmp(v->bytes + token->at, bytes, n);
}

static uint32_t token_bytes_hash(const char *bytes, size_t n)
{
    uint64_t h = fnv1a_64(FNV1A_64_START, bytes, n);
    return (uint32_t)(h ^ h >> 32);
}

void vocab_index(struct vocab *v, uint32_t id)
{
    const struct token *token = &v->tokens[id];
    uint32_t hash = token_bytes_hash(v->bytes + token->at, token->n);
    size_t i = hash & v->index_mask;
    while (v->index[i].id_plus_1)
        i = (i + 1) & v->index_mask;
    v->index[i] = (struct vocab_slot){.hash = hash, .id_plus_1 = id + 1};
}

int32_t vocab_find(const struct vocab *v, const char *bytes, size_t n)
{
    uint32_t hash = token_bytes_hash(bytes, n);
    size_t i = hash & v->index_mask;
    for (; v->index[i].id_plus_1; i = (i + 1) & v->index_mask)
        if (v->index[i].hash == hash && vocab_token_is(v, v->index[i].id_plus_1 - 1, bytes, n))
            break;
    return (int32_t)v->index[i].id_plus_1 - 1;
}

/* Returns the byte that a letter stands for, or -1. Printable Latin-1 stands for itself; the other
 * 68 bytes are U+0100 and up, in ascending order. */
static int letter_byte(uint32_t letter)
{
    if (letter < 0x100) {
        bool itself = (letter >= 33 && letter <= 126) || (letter >= 161 && letter <= 172) ||
                      letter >= 174;
        return itself ? (int)letter : -1;
    }
    if (letter < 0x100 + 33) return (int)letter - 0x100;                 /* 0..32 */
    if (letter < 0x100 + 33 + 34) return (int)letter - 0x100 - 33 + 127; /* 127..160 */
    return letter == 0x100 + 33 + 34 ? 173 : -1;
}

bool byte_level_decode(const char *letters, size_t n, char *out, size_t *n_out)
{
    size_t used = 0;
    for (size_t i = 0; i < n;) {
        uint32_t letter = (uint8_t)letters[i];
        int length = letter < 0x80 ? 1 : utf8_decode(letters + i, n - i, &letter);
        int byte = length > 0 ? letter_byte(letter) : -1;
        if (byte < 0) return false;
        out[used++] = (char)byte;
        i += (size_t)length;
    }
    *n_out = used;
    return true;
}

bool metaspace_decode(const char *text, size_t n, char *out, size_t *n_out)
{
    *n_out = 0;
    for (size_t i = 0; i < n; i++) {
        bool mark = n - i >= 3 && !memcmp(text + i, "\xe2\x96\x81", 3);
        if (text[i] == ' ') return false;
        out[(*n_out)++] = mark ? ' ' : text[i];
        if (mark) i += 2;
    }
    return true;
}
