/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of JSON itself: strings, keys, constants and any value, as NFA fragments. */
#ifndef EY_CONSTRAIN_JSON_GRAMMAR_H
#define EY_CONSTRAIN_JSON_GRAMMAR_H

#include "constrain/automaton/grammar_compiler.h"

/* Which strings. */
struct string_spec {
    uint32_t min, max;   /* code points; UINT32_MAX: any number */
    const char *pattern; /* matches somewhere; NULL: any string */
    const char *format;  /* another that matches the whole; NULL: any string */
    size_t n_pattern, n_format;
    json_object **values; /* [n_values] these strings */
    size_t n_values;
};

/* `path` is for messages. */
struct frag json_string(struct compiler *c, struct string_spec spec, const char *path);
/* Exactly this value, as json.dumps writes it, with an optional space after "," and ":". */
struct frag json_constant(struct compiler *c, json_object *value, const char *path);
/* Any value; objects and arrays nest as deep as the limit allows. */
struct frag json_any_value(struct compiler *c);
struct frag json_any_object(struct compiler *c);
struct frag json_any_array(struct compiler *c);
struct frag json_literal(struct compiler *c, const char *bytes, size_t n);

/* One optional space; returns the state after it. */
uint32_t json_optional_space(struct compiler *c, uint32_t from);
/* `"key":` and an optional space; returns the state after them. */
uint32_t json_key(struct compiler *c, uint32_t from, const char *key);
/* Any key but these n, and the colon. */
uint32_t json_other_key(struct compiler *c, uint32_t from, const char *const *keys, size_t n);

#endif
