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
 * A grammar is a deterministic automaton over bytes with a stack of at most EY_MAX_GRAMMAR_NESTING
 * levels (dfa_builder.h), so a matcher has one position in it, not a set. Texts are well-formed
 * UTF-8. From every reachable position the text can be completed, and since each byte is a token of
 * the vocabulary, by tokens too: only the mask at the end is empty.
 *
 * JSON is written with at most one space after "," and ":" and none elsewhere; members come in the
 * order of the schema. */
#ifndef EY_CONSTRAIN_H
#define EY_CONSTRAIN_H

#include "base/err.h"
#include "tokenizer/tokenizer.h"

/* ---- grammars ---- */

struct grammar; /* immutable; may be used by several threads at once */

/* The values of a JSON schema: the subset of OpenAI's strict mode and some more (docs).
 * EY_BAD_REQUEST names a keyword that is not supported and where it stands; a schema that no text
 * satisfies, or that is too large, is an error too. */
bool grammar_of_schema(struct grammar **out, const char *json, size_t n, ey_err *e);
/* Any JSON object. */
bool grammar_of_json_object(struct grammar **out, ey_err *e);
/* The texts that a regular expression matches from their first to their last character. */
bool grammar_of_regex(struct grammar **out, const char *pattern, size_t n, ey_err *e);
/* One of the texts. */
bool grammar_of_choices(struct grammar **out, const char *const *choices, size_t n, ey_err *e);

/* Adds a reference; returns the grammar. */
struct grammar *grammar_retain(struct grammar *g);
/* Drops a reference; the last one frees the grammar. *g becomes NULL; NULL is fine. */
void grammar_release(struct grammar **g);
/* Memory that it takes. */
size_t grammar_bytes(const struct grammar *g);

/* Grammars put together. A part is a number; each is used once, in another part or as the whole.
 * After a failure all calls return 0, and grammar_builder_finish says what the first one was.
 *
 *     struct grammar_builder *b = grammar_builder_open(&err);
 *     int parts[] = {
 *         grammar_literal(b, "<a>", 3),
 *         grammar_schema(b, json, n),
 *         grammar_literal(b, "</a>", 4),
 *     };
 *     bool ok = grammar_builder_finish(&b, grammar_sequence(b, parts, 3), &g, &err);
 *
 * Where one alternative begins with {, [ or " of a schema, no other may begin there with that byte
 * as plain text. */
struct grammar_builder;

struct grammar_builder *grammar_builder_open(ey_err *e); /* NULL: no memory */
int grammar_literal(struct grammar_builder *b, const char *text, size_t n);
int grammar_regex(struct grammar_builder *b, const char *pattern, size_t n);
int grammar_schema(struct grammar_builder *b, const char *json, size_t n);
int grammar_json_object(struct grammar_builder *b);
int grammar_sequence(struct grammar_builder *b, const int *parts, size_t n);
int grammar_alternatives(struct grammar_builder *b, const int *parts, size_t n);
/* The part once or more often. */
int grammar_one_or_more(struct grammar_builder *b, int part);
/* Frees the builder in any case; NULL is fine and leaves the error of grammar_builder_open. */
bool grammar_builder_finish(struct grammar_builder **b, int whole, struct grammar **out, ey_err *e);

/* ---- vocabulary ---- */

/* The tokens of a tokenizer, ready to be walked through, and masks that were made: answers of any
 * grammars share it, also from several threads. */
struct vocabulary;

enum { VOCABULARY_CACHED_MASKS = 256 }; /* masks; a good number for cache_masks */

/* `size`: of the model's vocabulary, so that masks have a bit for each of its logits. Special
 * tokens are never allowed. A tokenizer that lacks a token for some byte is an error. Borrows the
 * tokenizer only for the call. */
bool vocabulary_open(struct vocabulary **out, const struct tokenizer *tok, int size,
                     size_t cache_masks, ey_err *e);
void vocabulary_close(struct vocabulary **v);
/* Memory that it takes, from now on. */
size_t vocabulary_bytes(const struct vocabulary *v);
/* 32-bit words of a mask. */
size_t vocabulary_words(const struct vocabulary *v);

/* ---- one answer ---- */

struct matcher;

/* Retains the grammar and borrows the vocabulary. Allocates all memory that the matcher needs. */
bool matcher_open(struct matcher **out, struct grammar *g, const struct vocabulary *v, ey_err *e);
void matcher_close(struct matcher **m);
/* Memory that one matcher takes. */
size_t matcher_bytes(const struct grammar *g, const struct vocabulary *v);
/* Back to the beginning. */
void matcher_reset(struct matcher *m);

/* Which tokens may come next: bit i % 32 of word i / 32. Valid until the next call with this
 * matcher. End tokens are not in it. */
const uint32_t *matcher_mask(struct matcher *m);
/* The text may end here. */
bool matcher_may_end(const struct matcher *m);
/* … and nothing may follow. */
bool matcher_must_end(const struct matcher *m);
/* Advances by the token. False, with nothing changed: it is not allowed. */
bool matcher_accept_token(struct matcher *m, int32_t id);
/* The same for text that is not from a token. */
bool matcher_accept_text(struct matcher *m, const char *text, size_t n);

#endif
