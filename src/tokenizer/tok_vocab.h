/* SPDX-License-Identifier: Apache-2.0 */
/* Vocabulary tables: id to bytes, bytes to id, and a hash map of pairs (merges, tries). Filled when
 * the tokenizer is opened, read-only afterwards. */
#ifndef EY_TOKENIZER_TOK_VOCAB_H
#define EY_TOKENIZER_TOK_VOCAB_H

#include "base/err.h"

/* Maps (left, right) to (value, extra); open addressing with linear probing. */
struct pair_slot {
    uint32_t left, right; /* left == PAIR_FREE: empty slot */
    uint32_t value, extra;
};
#define PAIR_FREE UINT32_MAX

struct pair_map {
    struct pair_slot *slots;
    unsigned shift; /* 64 - log2(number of slots) */
    size_t mask;
};

/* Allocates a map for at most `count` entries. */
bool pair_map_init(struct pair_map *map, size_t count, ey_err *e);
void pair_map_finish(struct pair_map *map);
/* The last value put for a key wins. */
void pair_map_put(struct pair_map *map, uint32_t left, uint32_t right, uint32_t value,
                  uint32_t extra);

static inline size_t pair_map_start(const struct pair_map *map, uint32_t left, uint32_t right)
{
    uint64_t key = (uint64_t)left << 32 | right;
    key ^= key >> 29; /* mixes both halves into the top bits, which are used below */
    return (size_t)(key * 0x9e3779b97f4a7c15u >> map->shift);
}

/* Returns NULL if there is no such pair. Inline because encoding spends most of its time here. */
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
    uint32_t at; /* offset in vocab.bytes */
    uint16_t n;  /* 0: unused id */
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

/* Allocates an index for `count` tokens. */
bool vocab_init(struct vocab *v, size_t count, ey_err *e);
void vocab_finish(struct vocab *v);
/* Stores the bytes, 1 to EY_MAX_TOKEN_BYTES, of an unused id below EY_MAX_VOCAB_SIZE. */
bool vocab_put(struct vocab *v, uint32_t id, const char *bytes, size_t n, ey_err *e);
/* Adds a token to the index; at most the `count` of vocab_init() may be added. Its bytes must not
 * be in the index yet. */
void vocab_index(struct vocab *v, uint32_t id);
/* Returns the token of an id, or NULL. */
const struct token *vocab_token(const struct vocab *v, int64_t id);
bool vocab_token_is(const struct vocab *v, int64_t id, const char *bytes, size_t n);
/* Returns the id of the indexed token with these bytes, or -1. */
int32_t vocab_find(const struct vocab *v, const char *bytes, size_t n);

/* Byte-level vocabularies spell each byte as a printable letter (spec 6.1): space is Ġ. Decodes n
 * bytes of such letters to at most n bytes in `out`. Fails on a letter that stands for no byte. */
bool byte_level_decode(const char *letters, size_t n, char *out, size_t *n_out);
/* SentencePiece vocabularies spell a space as U+2581. Decodes to `out`. Fails if there is a space.
 */
bool metaspace_decode(const char *text, size_t n, char *out, size_t *n_out);

#endif
