/* SPDX-License-Identifier: Apache-2.0 */
/* NFA fragments of JSON schemas: one file per kind of value, and their shared functions. */
#ifndef EY_CONSTRAIN_SCHEMA_H
#define EY_CONSTRAIN_SCHEMA_H

#include "constrain/automaton/grammar_compiler.h"

struct frag schema_root(struct compiler *c, const char *json, size_t n);
/* Matches any value of a schema. */
struct frag schema_value(struct compiler *c, json_object *schema, const char *path);
/* Match a schema's values of one type. */
struct frag schema_object(struct compiler *c, json_object *schema, const char *path);
struct frag schema_array(struct compiler *c, json_object *schema, const char *path);
struct frag schema_string(struct compiler *c, json_object *schema, const char *path);
struct frag schema_number(struct compiler *c, json_object *schema, const char *path, bool integer);

/* Whole numbers are TYPE_INTEGER, others TYPE_NUMBER. */
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

/* Whether `nullable` allows null besides what the schema's other keywords allow. */
bool schema_is_nullable(json_object *schema);
/* Returns the types (bits) that `type`, `enum` and `const` allow. */
unsigned schema_types(json_object *schema);
/* Whether it is certain that no value is valid for both. */
bool schemas_disjoint(struct compiler *c, json_object *a, json_object *b);
/* Resolves a local reference; returns NULL if it points to nothing. */
json_object *schema_at(struct compiler *c, const char *reference);
/* Reads a non-negative count; *out keeps its value if it is absent. Returns false if c has failed.
 */
bool schema_count(struct compiler *c, json_object *schema, const char *path, const char *key,
                  uint32_t *out);

#endif
