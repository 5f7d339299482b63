/* SPDX-License-Identifier: Apache-2.0 */
/* A made-up byte-level BPE vocabulary of a given size. */
#ifndef EY_TOOLS_MKCHECKPOINT_MK_VOCAB_H
#define EY_TOOLS_MKCHECKPOINT_MK_VOCAB_H

#include "base/buf.h"

enum { MK_BYTES = 256, MK_TOKEN_BYTES = 24 };

struct mk_token {
    uint8_t n;
    char bytes[MK_TOKEN_BYTES];
    int32_t left, right; /* the merge that makes it; unused for the 256 single bytes */
};

struct mk_vocab {
    struct mk_token *tokens; /* [n]; 0..255 are the bytes in the order of the official vocabulary */
    int n, wanted;
    int32_t *slots; /* hash table: token + 1, or 0 */
    size_t n_slots;
};

/* Makes `size` tokens: the 256 bytes, pieces of words that test prompts need, and made-up words.
 * Each token but the bytes is the merge of two earlier ones, so the list of tokens is also the list
 * of merges. `reranks`: "yes" and "no" are tokens. */
bool vocab_make(struct mk_vocab *v, int size, bool reranks, ey_err *e);
void vocab_free(struct mk_vocab *v);
/* Return the byte of the single-byte token `id`, and the code point that stands for a byte in
 * byte-level vocabularies. */
int byte_of_token(int id);
uint32_t letter_of_byte(int byte);

#endif
