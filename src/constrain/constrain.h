/* SPDX-License-Identifier: Apache-2.0 */
/* Constrained decoding: each step allows only tokens that keep the text a prefix of a valid one.
 *
 *     struct grammar *g = NULL;
 *     if (!grammar_of_schema(&g, json, n, &err)) …     // compiled once, for any number of answers
 *     struct matcher *m = NULL;
 *     if (!matcher_open(&m, g, vocabulary, &err)) …    // one answer; retains the grammar
 *     grammar_release(&g);
 *     for (;;) {
 *         const uint32_t *mask = matcher_mask(m);      // bit i: token i may come next
 *         … choose a token of the mask, or an end token where matcher_may_end(m) …
 *         matcher_accept_token(m, id);
 *     }
 *     matcher_close(&m);
 *
 * A grammar is a deterministic automaton over bytes with a stack of at most
 * EY_MAX_GRAMMAR_NESTING levels (dfa_builder.h), so a matcher has a single position in it. Texts
 * are well-formed UTF-8. Every reachable position can be completed, also by tokens, since each byte
 * is a token of the vocabulary: the mask is empty only at the end.
 *
 * JSON is written with at most one space after "," and ":" and none elsewhere; members come in the
 * order of the schema. */
#ifndef EY_CONSTRAIN_H
#define EY_CONSTRAIN_H

#include "base/err.h"
#include "tokenizer/tokenizer.h"

/* ---- grammars ---- */

struct grammar; /* immutable and thread-safe */

/* Compiles a JSON schema: OpenAI's strict subset and more (docs/guides/structured.md). Fails with
 * EY_BAD_REQUEST on an unsupported keyword, naming it and its path, on a schema that no text
 * satisfies, and on one that is too large. */
bool grammar_of_schema(struct grammar **out, const char *json, size_t n, ey_err *e);
/* Allows any JSON object. */
bool grammar_of_json_object(struct grammar **out, ey_err *e);
/* Allows the texts that a regular expression matches as a whole. */
bool grammar_of_regex(struct grammar **out, const char *pattern, size_t n, ey_err *e);
/* Allows one of n texts. */
bool grammar_of_choices(struct grammar **out, const char *const *choices, size_t n, ey_err *e);

/* Adds a reference; returns the grammar. */
struct grammar *grammar_retain(struct grammar *g);
/* Drops a reference, frees the grammar with the last one, and sets *g to NULL. Accepts NULL. */
void grammar_release(struct grammar **g);
/* Returns the bytes of memory in use. */
size_t grammar_bytes(const struct grammar *g);

/* Composes a grammar of parts. A part is a number and is used once, in another part or as the
 * whole. After a failure all calls return 0, and grammar_builder_finish reports the first failure.
 *
 *     struct grammar_builder *b = grammar_builder_open(&err);
 *     int parts[] = {
 *         grammar_literal(b, "<a>", 3),
 *         grammar_schema(b, json, n),
 *         grammar_literal(b, "</a>", 4),
 *     };
 *     bool ok = grammar_builder_finish(&b, grammar_sequence(b, parts, 3), &g, &err);
 *
 * If one alternative begins with {, [ or " of a schema, no other alternative may begin with that
 * byte as plain text. */
struct grammar_builder;

struct grammar_builder *grammar_builder_open(ey_err *e); /* NULL if out of memory */
int grammar_literal(struct grammar_builder *b, const char *text, size_t n);
int grammar_regex(struct grammar_builder *b, const char *pattern, size_t n);
int grammar_schema(struct grammar_builder *b, const char *json, size_t n);
int grammar_json_object(struct grammar_builder *b);
int grammar_sequence(struct grammar_builder *b, const int *parts, size_t n);
int grammar_alternatives(struct grammar_builder *b, const int *parts, size_t n);
/* Repeats the part one or more times. */
int grammar_one_or_more(struct grammar_builder *b, int part);
/* Compiles the grammar and frees the builder in any case. A NULL builder keeps the error of
 * grammar_builder_open. */
bool grammar_builder_finish(struct grammar_builder **b, int whole, struct grammar **out, ey_err *e);

/* ---- vocabulary ---- */

/* The tokens of a tokenizer as tries, and a cache of masks. Shared by all answers. Thread-safe. */
struct vocabulary;

enum { VOCABULARY_CACHED_MASKS = 256 }; /* a good value for cache_masks */

/* `size` is the size of the model's vocabulary: a mask has a bit per logit. Special tokens are
 * never allowed. Fails if the tokenizer has no token for some byte of UTF-8. Needs the tokenizer
 * during the call only. */
bool vocabulary_open(struct vocabulary **out, const struct tokenizer *tok, int size,
                     size_t cache_masks, ey_err *e);
void vocabulary_close(struct vocabulary **v);
/* Returns the bytes of memory in use. They do not grow. */
size_t vocabulary_bytes(const struct vocabulary *v);
/* Returns the number of 32-bit words in a mask. */
size_t vocabulary_words(const struct vocabulary *v);

/* ---- one answer ---- */

struct matcher;

/* Opens a matcher at the grammar's start. Retains the grammar, borrows the vocabulary, and
 * allocates all memory that the matcher will need. */
bool matcher_open(struct matcher **out, struct grammar *g, const struct vocabulary *v, ey_err *e);
void matcher_close(struct matcher **m);
/* Returns the bytes of memory of one matcher. */
size_t matcher_bytes(const struct grammar *g, const struct vocabulary *v);
/* Returns to the grammar's start. */
void matcher_reset(struct matcher *m);

/* Returns the tokens that may come next: bit i % 32 of word i / 32. End tokens are not in it. Valid
 * until the next call with this matcher. */
const uint32_t *matcher_mask(struct matcher *m);
/* Whether the text may end here. */
bool matcher_may_end(const struct matcher *m);
/* Whether the text is complete, so that nothing may follow. */
bool matcher_must_end(const struct matcher *m);
/* Advances by a token. Returns false and changes nothing if it is not allowed. */
bool matcher_accept_token(struct matcher *m, int32_t id);
/* Advances by n bytes of text. Returns false and changes nothing if they are not allowed. */
bool matcher_accept_text(struct matcher *m, const char *text, size_t n);

#endif
