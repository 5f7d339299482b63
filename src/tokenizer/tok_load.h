/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files that read tokenizer.json share. */
#ifndef EY_TOKENIZER_TOK_LOAD_H
#define EY_TOKENIZER_TOK_LOAD_H

#include "base/json.h"
#include "tokenizer/tokenizer_internal.h"

struct loading {
    struct tokenizer *tok;
    const json_object *root;
    const char *what; /* names the file */
    ey_err *e;
};

/* A value as it may stand in a message; lives as long as the value. */
const char *tok_shown(json_object *value);
/* The "type" of a part of the pipeline, or what stands there instead, for messages. */
const char *tok_type_of(const json_object *part);
bool tok_is_text(const json_object *value, const char *text);
/* Fails: `member` is `found`, which is not among `supported`. Returns false. */
bool tok_unsupported(const struct loading *l, const char *member, const char *found,
                     const char *supported);
/* The same of a "Sequence" of these parts. */
bool tok_unsupported_sequence(const struct loading *l, const char *member, const json_object *list,
                              const char *supported);
/* The `index`-th of the parts listed under `key` of a "Sequence" of this type; NULL: there is none.
 */
const json_object *tok_part(const json_object *sequence, const char *key, size_t index,
                            const char *type);

/* Whether the normalizer is SentencePiece's: a space before each segment, and U+2581 for spaces. */
bool tok_is_sentencepiece(const json_object *root);
/* Checks that all else is of that pipeline too, and sets it. */
bool tok_load_sentencepiece(struct loading *l);
/* Vocabulary, merges and added tokens; the pipeline (l->tok->nfc) is known already. */
bool tok_load_tables(struct loading *l, const json_object *model);

#endif
