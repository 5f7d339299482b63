/* SPDX-License-Identifier: Apache-2.0 */
/* Grammars constrain the text of an answer.
 *
 * At each step the sampler only considers tokens that keep the text a prefix of a valid one. A
 * grammar is compiled once and may be used by any number of answers, engines and threads. Each
 * ey_grammar_of_... function compiles *grammar, which the caller frees. Errors with
 * EY_BAD_REQUEST name the unsupported part and its location. */
#ifndef EYELET_GRAMMAR_H
#define EYELET_GRAMMAR_H

#include "eyelet/error.h"

EY_BEGIN_DECLS

typedef struct grammar ey_grammar;

/* Accepts values of a JSON schema (docs/guides/structured.md lists the supported subset). */
EY_API bool ey_grammar_of_schema(ey_grammar **grammar, const char *json, size_t n, ey_err *err);
/* Accepts any JSON object. */
EY_API bool ey_grammar_of_json_object(ey_grammar **grammar, ey_err *err);
/* Accepts texts that the regular expression matches entirely. Look-around and back-references are
 * not supported. */
EY_API bool ey_grammar_of_regex(ey_grammar **grammar, const char *pattern, size_t n, ey_err *err);
/* Accepts one of n texts. */
EY_API bool ey_grammar_of_choices(ey_grammar **grammar, const char *const *choices, size_t n,
                                  ey_err *err);
/* For tool calls in a model's format see ey_grammar_of_tool_calls (tool_calls.h). */

/* Returns the memory of the grammar in bytes. Compiling one takes up to 48 MiB in addition to the
 * parsed JSON of a schema. */
EY_API size_t ey_grammar_bytes(const ey_grammar *grammar);
/* Releases the caller's reference and sets *grammar to NULL; accepts NULL. Requests that use the
 * grammar keep theirs. */
EY_API void ey_grammar_free(ey_grammar **grammar);

/* An LRU cache of compiled grammars and their token masks, limited in entries and bytes.
 * Thread-safe. The key must contain everything that the grammar was made of. */
typedef struct ey_grammar_cache ey_grammar_cache;
enum { EY_GRAMMAR_CACHE_ENTRIES = 64 };
/* Opens a cache, which the caller closes. */
EY_API bool ey_grammar_cache_open(ey_grammar_cache **cache, size_t max_bytes, ey_err *err);
/* Releases the cache's grammars and sets *cache to NULL; accepts NULL. */
EY_API void ey_grammar_cache_close(ey_grammar_cache **cache);
/* Returns a new reference to the grammar of this key, which the caller frees, or NULL. */
EY_API ey_grammar *ey_grammar_cache_find(ey_grammar_cache *cache, const char *key, size_t n);
/* Stores the grammar with a reference of its own. Does nothing if it is larger than the cache. */
EY_API void ey_grammar_cache_put(ey_grammar_cache *cache, const char *key, size_t n,
                                 ey_grammar *grammar);

EY_END_DECLS

#endif
