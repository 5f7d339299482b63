/* SPDX-License-Identifier: Apache-2.0 */
/* struct tokenizer and its parts, private to src/tokenizer. */
#ifndef EY_TOKENIZER_TOKENIZER_INTERNAL_H
#define EY_TOKENIZER_TOKENIZER_INTERNAL_H

#include "tokenizer/added_tokens.h"
#include "tokenizer/pretok.h"
#include "tokenizer/tok_vocab.h"
#include "tokenizer/tokenizer.h"

/* How text becomes the symbols that BPE merges. */
enum tok_pipeline {
    TOK_BYTE_LEVEL,    /* pieces split by a pattern, one symbol per byte */
    TOK_SENTENCEPIECE, /* a dummy space and the segment are one piece; one symbol per character, or
                          per byte of a character without a token */
};

#define TOK_NO_TOKEN UINT32_MAX

struct tokenizer {
    enum tok_pipeline pipeline;
    bool nfc;           /* normalizer NFC (byte-level) */
    bool ignore_merges; /* a piece that is in the vocabulary becomes that token, whatever the merges
                           are */
    struct vocab vocab;
    uint32_t byte_id[256];  /* token of each byte (SentencePiece: <0xHH>), or TOK_NO_TOKEN */
    struct pair_map merges; /* (left id, right id) → (rank, merged id) */
    struct pretok pretok;
    struct added_set added;
    int32_t bos_id; /* put before a prompt, or -1 */
};

/* Appends the normalized text. For SentencePiece, U+2581 becomes a space, as it does in tokens. */
bool tok_normalize(const struct tokenizer *tok, struct buf *out, const char *text, size_t n);
/* Quick check: true only if tok_normalize() would change nothing. */
bool tok_normal_quick_check(const struct tokenizer *tok, const char *text, size_t n);

/* Scratch memory of bpe_encode, reused for each piece. */
struct bpe {
    const struct tokenizer *tok;
    struct bpe_symbol *symbols;
    size_t n_symbols, n_first; /* capacity; symbols of the current piece */
    uint64_t *heap;
    size_t n_heap, heap_capacity;
};

/* Appends the ids of a piece of n >= 1 bytes. */
bool bpe_encode(struct bpe *b, const char *piece, size_t n, struct ids *out, ey_err *e);
void bpe_finish(struct bpe *b);

#endif
