/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes → token ids → bytes, as a checkpoint's tokenizer.json says (spec 6). Knows no model and no
 * chat format. */
#ifndef EY_TOKENIZER_H
#define EY_TOKENIZER_H

#include "base/buf.h"
#include "base/err.h"

struct tokenizer;
struct json_object;

/* Reads tokenizer.json of `directory`, or vocab.json and merges.txt. Supported: byte-level BPE
 * (Split by its own pattern + ByteLevel, NFC), and SentencePiece's BPE with byte fallback, with
 * merges as "A B" or ["A","B"]; another pipeline is an error that names the part. */
bool tokenizer_open(struct tokenizer **tok, const char *directory, ey_err *e);
/* The same from bytes (tests, fuzzing); `what` is for messages. */
bool tokenizer_open_memory(struct tokenizer **tok, const char *json, size_t n, const char *what,
                           ey_err *e);
/* The same from JSON that is parsed already. */
bool tokenizer_open_json(struct tokenizer **tok, const struct json_object *root, const char *what,
                         ey_err *e);
void tokenizer_close(struct tokenizer *tok);

struct ids {
    int32_t *id;
    size_t n, capacity;
};
void ids_free(struct ids *ids);
bool ids_push(struct ids *ids, int32_t id);

/* Appends the ids of `text`. parse_special: text that spells an added token becomes that token;
 * otherwise all of it is ordinary text. Malformed UTF-8 is replaced by U+FFFD first, as the
 * reference would never see it. */
bool tokenizer_encode(const struct tokenizer *tok, const char *text, size_t n, bool parse_special,
                      struct ids *out, ey_err *e);

/* One more than the largest id. */
int32_t tokenizer_size(const struct tokenizer *tok);
/* Id of an added token by its exact content, or -1. */
int32_t tokenizer_added_id(const struct tokenizer *tok, const char *content);
bool tokenizer_is_special(const struct tokenizer *tok,
                          int32_t id); /* "special": true, skipped in visible text */
/* Id of the token that the file puts before a whole prompt (BOS; Llama's <s>), or -1.
 * tokenizer_encode() does not. */
int32_t tokenizer_bos_id(const struct tokenizer *tok);
/* Bytes of white space at the beginning of `text` that the added token `id` before it takes in
 * ("rstrip": true). */
size_t tokenizer_rstrip_length(const struct tokenizer *tok, int32_t id, const char *text, size_t n);
/* Raw bytes of a token (an added token: its content); *n = 0 for an id without a token. */
const char *tokenizer_bytes(const struct tokenizer *tok, int32_t id, size_t *n);

/* Streaming detokeniser: bytes go in token by token, whole characters come out (spec 6.5). */
struct detok {
    const struct tokenizer *tok;
    char tail[4]; /* an incomplete character */
    int n_tail;
    bool strip; /* nothing has come yet, and one space at the beginning is dropped (SentencePiece)
                 */
};
struct detok detok_start(const struct tokenizer *tok);
/* Appends to `out` the characters that this token completes. Special tokens give nothing. */
bool detok_push(struct detok *d, int32_t id, struct buf *out);
/* Flushes an incomplete tail as U+FFFD. */
bool detok_finish(struct detok *d, struct buf *out);

#endif
