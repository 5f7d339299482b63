/* SPDX-License-Identifier: Apache-2.0 */
/* Converts text to token ids and back, as a checkpoint's tokenizer.json describes (spec 6). Knows
 * nothing of models and chat formats. */
#ifndef EY_TOKENIZER_H
#define EY_TOKENIZER_H

#include "base/buf.h"
#include "base/err.h"

struct tokenizer;
struct json_object;

/* Reads tokenizer.json of `directory`, or vocab.json and merges.txt. Supports byte-level BPE
 * (ByteLevel alone or after Split or Digits, with or without NFC) and SentencePiece BPE with byte
 * fallback; merges are "A B" or ["A","B"]. Fails on other pipelines with an error that names the
 * unsupported part. */
bool tokenizer_open(struct tokenizer **tok, const char *directory, ey_err *e);
/* Like tokenizer_open, but from n bytes of JSON, for tests and fuzzing. `what` names them in
 * errors. */
bool tokenizer_open_memory(struct tokenizer **tok, const char *json, size_t n, const char *what,
                           ey_err *e);
/* Like tokenizer_open, but from parsed JSON. */
bool tokenizer_open_json(struct tokenizer **tok, const struct json_object *root, const char *what,
                         ey_err *e);
void tokenizer_close(struct tokenizer *tok);

struct ids {
    int32_t *id;
    size_t n, capacity;
};
void ids_free(struct ids *ids);
bool ids_push(struct ids *ids, int32_t id);

/* Appends the ids of `text`. With parse_special, text that spells an added token becomes that
 * token, otherwise it stays ordinary text. Malformed UTF-8 is first replaced by U+FFFD. */
bool tokenizer_encode(const struct tokenizer *tok, const char *text, size_t n, bool parse_special,
                      struct ids *out, ey_err *e);

/* One more than the largest id. */
int32_t tokenizer_size(const struct tokenizer *tok);
/* Id of an added token by its exact content, or -1. */
int32_t tokenizer_added_id(const struct tokenizer *tok, const char *content);
/* Returns whether the token has "special": true. Such tokens are not part of the visible text. */
bool tokenizer_is_special(const struct tokenizer *tok, int32_t id);
/* Id of the token that belongs before a prompt (BOS, Llama's <s>), or -1. tokenizer_encode() does
 * not add it. */
int32_t tokenizer_bos_id(const struct tokenizer *tok);
/* Returns the length in bytes of the white space at the beginning of `text` that belongs to the
 * added token `id` in front of it ("rstrip": true). */
size_t tokenizer_rstrip_length(const struct tokenizer *tok, int32_t id, const char *text, size_t n);
/* Returns the raw bytes of a token, or the content of an added token. *n is 0 for an unused id. */
const char *tokenizer_bytes(const struct tokenizer *tok, int32_t id, size_t *n);

/* A streaming detokenizer, which takes tokens and emits whole characters (spec 6.5). */
struct detok {
    const struct tokenizer *tok;
    char tail[4]; /* an incomplete character */
    int n_tail;
    bool strip; /* drop one leading space of the text (SentencePiece) */
};
struct detok detok_start(const struct tokenizer *tok);
/* Appends to `out` the characters that this token completes. Special tokens add nothing. */
bool detok_push(struct detok *d, int32_t id, struct buf *out);
/* Flushes an incomplete tail as U+FFFD. */
bool detok_finish(struct detok *d, struct buf *out);

#endif
