/* SPDX-License-Identifier: Apache-2.0 */
/* JSON schemas as NFA fragments: one file a kind of value, and what these files share. */
#ifndef EY_CONSTRAIN_SCHEMA_H
#define EY_CONSTRAIN_SCHEMA_H

#include "constrain/automaton/grammar_compiler.h"

struct frag schema_root(struct compiler *c, const char *json, size_t n);
/* The values of one schema. */
struct frag schema_value(struct compiler *c, json_object *schema, const char *path);
/* Its values of one type. */
struct frag schema_object(struct compiler *c, json_object *schema, const char *path);
struct frag schema_array(struct compiler *c, json_object *schema, const char *path);
struct frag schema_string(struct compiler *c, json_object *schema, const char *path);
struct frag schema_number(struct compiler *c, json_object *schema, const char *path, bool integer);

/* A number that is whole is an integer, others are numbers. */
enum schema_type {
    TYPE_OBJECT = 1,
    TYPE_ARRAY = 2,
    TYPE_STRING = 4,
    TYPE_INTEGER = 8,
    TYPE_NUMBER = 16,
    TYPE_BOOLEAN = 32,
    TYPE_NULL = 64,
    ALL_TYPES = 127,
};

/* Types that its values may be of, as far as `type`, `enum` and `const` say, as bits. */
unsigned schema_types(json_object *schema);
/* Whether no value can be valid for both. */
bool schemas_disjoint(struct compiler *c, json_object *a, json_object *b);
/* What a local reference points to; NULL: nothing. */
json_object *schema_at(struct compiler *c, const char *reference);
/* A count in 0..most; absent: *out keeps its value. False: c has failed. */
bool schema_count(struct compiler *c, json_object *schema, const char *path, const char *key,
                  uint32_t *out);

#endif
