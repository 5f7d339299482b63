/* SPDX-License-Identifier: Apache-2.0 */
/* NFA fragments of JSON: strings, keys, constants and any value. */
#ifndef EY_CONSTRAIN_JSON_GRAMMAR_H
#define EY_CONSTRAIN_JSON_GRAMMAR_H

#include "constrain/automaton/grammar_compiler.h"

/* Constraints of a string. */
struct string_spec {
    uint32_t min, max;   /* code points; UINT32_MAX: any number */
    const char *pattern; /* matches anywhere in the string; NULL: none */
    const char *format;  /* a pattern that matches the whole string; NULL: none */
    size_t n_pattern, n_format;
    json_object **values; /* [n_values] the only strings allowed, if any */
    size_t n_values;
};

/* `path` names the schema in messages. */
struct frag json_string(struct compiler *c, struct string_spec spec, const char *path);
/* Matches exactly this value, spelled as by json.dumps, with an optional space after "," and ":".
 */
struct frag json_constant(struct compiler *c, json_object *value, const char *path);
/* Match any value of the kind, nested up to the limit. */
struct frag json_any_value(struct compiler *c);
struct frag json_any_object(struct compiler *c);
struct frag json_any_array(struct compiler *c);
struct frag json_literal(struct compiler *c, const char *bytes, size_t n);

/* Adds an optional space. Returns the state behind it. */
uint32_t json_optional_space(struct compiler *c, uint32_t from);
/* Adds `"key":` and an optional space. Returns the state behind them. */
uint32_t json_key(struct compiler *c, uint32_t from, const char *key);
/* Adds any key except these n, and the colon. Returns the state behind them. */
uint32_t json_other_key(struct compiler *c, uint32_t from, const char *const *keys, size_t n);

#endif
