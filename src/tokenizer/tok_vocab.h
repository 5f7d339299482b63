/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a vocabulary: id → bytes, bytes → id, and pair of numbers → pair of numbers
 * (merges, tries). Filled once while a tokenizer is opened, read-only afterwards. */
#ifndef EY_TOKENIZER_TOK_VOCAB_H
#define EY_TOKENIZER_TOK_VOCAB_H

#include "base/err.h"

/* (left, right) → (value, extra), open addressing with linear probing. */
struct pair_slot {
    uint32_t left, right; /* left == PAIR_FREE: no entry */
    uint32_t value, extra;
};
#define PAIR_FREE UINT32_MAX

struct pair_map {
    struct pair_slot *slots;
    unsigned shift; /* 64 - log2(number of slots) */
    size_t mask;
};

/* Room for `count` entries; no more may be put. */
bool pair_map_init(struct pair_map *map, size_t count, ey_err *e);
void pair_map_finish(struct pair_map *map);
/* The last put of a key wins. */
void pair_map_put(struct pair_map *map, uint32_t left, uint32_t right, uint32_t value,
                  uint32_t extra);

static inline size_t pair_map_start(const struct pair_map *map, uint32_t left, uint32_t right)
{
    uint64_t key = (uint64_t)left << 32 | right;
    key ^= key >> 29; /* so that both halves reach the top bits taken below */
    return (size_t)(key * 0x9e3779b97f4a7c15u >> map->shift);
}

/* NULL: no such pair. Inline: it is most of the time that encoding takes. */
static inline const struct pair_slot *pair_map_find(const struct pair_map *map, uint32_t left,
                                                    uint32_t right)
{
    for (size_t i = pair_map_start(map, left, right);; i = (i + 1) & map->mask) {
        const struct pair_slot *slot = &map->slots[i];
        if (slot->left == left && slot->right == right) return slot;
        if (slot->left == PAIR_FREE) return NULL;
    }
}

struct token {
    uint32_t at; /* of vocab.bytes */
    uint16_t n;  /* 0: the id has no token */
    bool added, special;
};

struct vocab_slot {
    uint32_t hash, id_plus_1; /* 0: free */
};

struct vocab {
    struct token *tokens; /* [capacity] */
    uint32_t size;        /* one more than the largest id */
    uint32_t capacity;
    char *bytes; /* of all tokens */
    size_t n_bytes, bytes_capacity;
    struct vocab_slot *index; /* [index_mask + 1] */
    size_t index_mask;
};

/* Room for `count` tokens in the index. */
bool vocab_init(struct vocab *v, size_t count, ey_err *e);
void vocab_finish(struct vocab *v);
/* Stores 1..EY_MAX_TOKEN_BYTES bytes as token `id` < EY_MAX_VOCAB_SIZE, which has none yet. */
bool vocab_put(struct vocab *v, uint32_t id, const char *bytes, size_t n, ey_err *e);
/* Makes a token findable by its bytes, which no other token in the index has. At most `count`
 * times. */
void vocab_index(struct vocab *v, uint32_t id);
/* The token of this id, or NULL. */
const struct token *vocab_token(const struct vocab *v, int64_t id);
bool vocab_token_is(const struct vocab *v, int64_t id, const char *bytes, size_t n);
/* Id of the indexed token with these bytes, or -1. */
int32_t vocab_find(const struct vocab *v, const char *bytes, size_t n);

/* Byte-level vocabularies write a byte as a printable letter (spec 6.1): space is Ġ. Writes the
 * bytes that n bytes of such letters stand for (never more than n) and their number; false when a
 * letter is none. */
bool byte_level_decode(const char *letters, size_t n, char *out, size_t *n_out);
/* SentencePiece's vocabularies write a space as U+2581. The same; false if there is a space. */
bool metaspace_decode(const char *text, size_t n, char *out, size_t *n_out);

#endif
