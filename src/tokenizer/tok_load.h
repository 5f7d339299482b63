/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that read tokenizer.json. */
#ifndef EY_TOKENIZER_TOK_LOAD_H
#define EY_TOKENIZER_TOK_LOAD_H

#include "base/json.h"
#include "tokenizer/tokenizer_internal.h"

struct loading {
    struct tokenizer *tok;
    const json_object *root;
    const char *what; /* names the file in errors */
    ey_err *e;
};

/* Returns a value as text for messages; the text lives as long as the value. */
const char *tok_shown(json_object *value);
/* Returns the "type" of a part of the pipeline for messages: "(no type)" if it has none, "null" if
 * there is no part. */
const char *tok_type_of(const json_object *part);
bool tok_is_text(const json_object *value, const char *text);
/* Fails with a message that `member` is `found` but must be `supported`. Returns false. */
bool tok_unsupported(const struct loading *l, const char *member, const char *found,
                     const char *supported);

/* ---- steps ---- */

/* A step of the pipeline: a member of the file, and the key that lists the parts of a "Sequence".
 */
struct tok_step {
    const char *member, *list;
};
extern const struct tok_step tok_normalizer, tok_pre_tokenizer, tok_post_processor, tok_decoder;

/* The parts of a step: the step itself, or those of a "Sequence", flattened. Parts that do nothing
 * are left out. */
enum { MAX_PARTS = 8 };
struct tok_parts {
    const json_object *at[MAX_PARTS + 1];
    size_t n; /* if it exceeds MAX_PARTS, only the first MAX_PARTS are stored */
};
struct tok_parts tok_parts_of(const json_object *root, const struct tok_step *step);
/* Whether there are exactly n parts of these types. */
bool tok_parts_are(const struct tok_parts *parts, const char *const *types, size_t n);
/* Fails with a message that describes the step and lists `supported`. Returns false. */
bool tok_unsupported_step(const struct loading *l, const struct tok_step *step,
                          const char *supported);

/* ---- files ---- */

/* Whether the folder has vocab.json and merges.txt, the layout before tokenizer.json. */
bool tok_has_vocab_and_merges(const char *directory);
/* Builds the tokenizer.json that transformers makes of vocab.json, merges.txt, added_tokens.json
 * and tokenizer_config.json. The caller frees it with json_object_put. Returns NULL with a message
 * on failure. */
json_object *tok_json_of_files(const char *directory, ey_err *e);

/* Returns whether the normalizer is SentencePiece's: it prepends a dummy space and replaces spaces
 * by U+2581. */
bool tok_is_sentencepiece(const json_object *root);
/* Checks that the other steps are SentencePiece's too, and selects that pipeline. */
bool tok_load_sentencepiece(struct loading *l);
/* Loads vocabulary, merges and added tokens. The pipeline must be loaded before, because it
 * normalizes added tokens. */
bool tok_load_tables(struct loading *l, const json_object *model);

#endif
