/* SPDX-License-Identifier: Apache-2.0 */
/* What a tokenizer is made of, for the files of src/tokenizer. */
#ifndef EY_TOKENIZER_TOKENIZER_INTERNAL_H
#define EY_TOKENIZER_TOKENIZER_INTERNAL_H

#include "tokenizer/added_tokens.h"
#include "tokenizer/pretok.h"
#include "tokenizer/tok_vocab.h"
#include "tokenizer/tokenizer.h"

/* How text becomes the symbols that merges work on. */
enum tok_pipeline {
    TOK_BYTE_LEVEL,    /* pieces by a pattern, one symbol a byte */
    TOK_SENTENCEPIECE, /* a segment after a space is one piece, one symbol a character; bytes where
                          a character has no token */
};

#define TOK_NO_TOKEN UINT32_MAX

struct tokenizer {
    enum tok_pipeline pipeline;
    bool nfc;           /* normalizer NFC (byte-level) */
    bool ignore_merges; /* a piece that is a token is that token, whatever the merges say */
    struct vocab vocab;
    uint32_t byte_id[256];  /* token of each single byte, TOK_NO_TOKEN: it has none; SentencePiece:
                               <0xHH>, although a character  may have its own too */
    struct pair_map merges; /* (left id, right id) → (rank, merged id) */
    struct pretok pretok;
    struct added_set added;
    int32_t bos_id; /* of a prompt; -1: none */
};

/* Appends the text in the vocabulary's normal form. In SentencePiece's, U+2581 is a space
 * everywhere, in tokens too. */
bool tok_normalize(const struct tokenizer *tok, struct buf *out, const char *text, size_t n);
/* A quick check: true if tok_normalize() surely changes nothing. */
bool tok_normal_quick_check(const struct tokenizer *tok, const char *text, size_t n);

/* Scratch of bpe_encode, kept from piece to piece. */
struct bpe {
    const struct tokenizer *tok;
    struct bpe_symbol *symbols;
    size_t n_symbols, n_first; /* room for them; those of the piece */
    uint64_t *heap;
    size_t n_heap, heap_capacity;
};

/* Appends the ids of one piece of n ≥ 1 bytes. */
bool bpe_encode(struct bpe *b, const char *piece, size_t n, struct ids *out, ey_err *e);
void bpe_finish(struct bpe *b);

#endif
