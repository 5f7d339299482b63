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

/* ---- steps ---- */

/* A step of the pipeline: a member of the file, and what lists the members of a "Sequence" there.
 */
struct tok_step {
    const char *member, *list;
};
extern const struct tok_step tok_normalizer, tok_pre_tokenizer, tok_post_processor, tok_decoder;

/* What a step does: itself, or what a "Sequence" lists, to any depth, without what does nothing. */
enum { MAX_PARTS = 8 };
struct tok_parts {
    const json_object *at[MAX_PARTS + 1];
    size_t n; /* of more than MAX_PARTS only the number is known */
};
struct tok_parts tok_parts_of(const json_object *root, const struct tok_step *step);
/* Whether there are n and of these types. */
bool tok_parts_are(const struct tok_parts *parts, const char *const *types, size_t n);
/* Fails: the step is what it is, which is not among `supported`. Returns false. */
bool tok_unsupported_step(const struct loading *l, const struct tok_step *step,
                          const char *supported);

/* ---- files ---- */

/* Whether the vocabulary is there as it was before tokenizer.json. */
bool tok_has_vocab_and_merges(const char *directory);
/* The tokenizer.json that transformers makes of vocab.json, merges.txt, added_tokens.json and
 * tokenizer_config.json. NULL with a message; the caller puts it. */
json_object *tok_json_of_files(const char *directory, ey_err *e);

/* Whether the normalizer is SentencePiece's: a space before each segment, and U+2581 for spaces. */
bool tok_is_sentencepiece(const json_object *root);
/* Checks that all else is of that pipeline too, and sets it. */
bool tok_load_sentencepiece(struct loading *l);
/* Vocabulary, merges and added tokens; the pipeline (l->tok->nfc) is known already. */
bool tok_load_tables(struct loading *l, const json_object *model);

#endif
