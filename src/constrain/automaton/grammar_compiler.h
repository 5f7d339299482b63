/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the grammar compiler share: the net that they build, and its rules.
 *
 * A rule is a bracketed text: a JSON object, array or string. Its automaton reads the opening byte
 * too, and ends with the closing one, behind which nothing of it can follow. All else (numbers,
 * literals, keys, free text) is spelled out where it stands. So a byte alone says whether a rule
 * begins, goes on or ends, and one stack does for any grammar (determinize.h). */
#ifndef EY_CONSTRAIN_COMPILE_H
#define EY_CONSTRAIN_COMPILE_H

#include "base/json.h"
#include "constrain/constrain.h"
#include "constrain/automaton/nfa.h"

struct compiler;
struct rule;

/* Builds a rule's texts into c->net, its states one behind the other. counted: lengths by a counter
 * (NFA_COUNTS, NFA_CLOSES), else spelled out. */
typedef struct frag rule_builder(struct compiler *c, const struct rule *rule, bool counted);

struct rule_body {
    struct frag frag;
    uint32_t begin, end; /* all its states */
};

struct rule {
    rule_builder *build;
    uint8_t first_byte; /* first byte */
    bool has_counter;
    uint32_t min, max;   /* of the counter */
    json_object *schema; /* or constant; borrowed from a document of the compiler … */
    json_object *root;   /* … whose root this is */
    const char *path;    /* of the schema, for messages */
    const struct string_spec *string; /* strings */
    const char *key;                  /* rules with the same key are one */
    size_t n_key;
    bool built; /* body[has_counter] is there */
    struct rule_body
        body[2];        /* [counted]; body[0] of a rule with a counter is built when it is needed */
    uint32_t min_depth; /* levels that its smallest text needs, itself included; UNBOUNDED_DEPTH: it
                        has no text */
    uint32_t max_depth; /* levels that it can use; UNBOUNDED_DEPTH: it is recursive */
};
#define UNBOUNDED_DEPTH UINT32_MAX

struct document {
    struct document *next;
    json_object *root;
};

struct compiler {
    struct nfa nfa;
    struct rule *rules; /* [n_rules]; rule 0 is the whole grammar */
    uint32_t n_rules, rules_capacity, n_built;
    uint32_t *rule_index; /* [rule_index_size] rules by the hash of their keys */
    uint32_t rule_index_size;
    struct arena arena;
    struct document *documents;
    json_object *root; /* document that is being read */
    uint32_t visits;   /* schemas looked at */
    int depth;
    ey_err *e;
    bool failed; /* *e says why; all that is built from then on is of no use */
};

void compiler_init(struct compiler *c, ey_err *e);
void compiler_finish(struct compiler *c);
/* ey_fail, and c->failed; returns false. Only the first failure counts. */
bool compiler_fail(struct compiler *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool compiler_fail_memory(struct compiler *c, const char *what, size_t bytes);
/* Looks for problems of the net too. */
bool compiler_ok(struct compiler *c);

/* Memory of the compiler, or NULL and a failure. */
void *compiler_alloc(struct compiler *c, size_t count, size_t size);
const char *compiler_printf(struct compiler *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The number of the rule; one with the same key is taken where there is one. */
uint32_t compiler_add_rule(struct compiler *c, struct rule rule);
/* A text of the rule, as a fragment. */
struct frag compiler_call_rule(struct compiler *c, struct rule rule);
bool compiler_build_rule(struct compiler *c, uint32_t rule, bool counted);

/* ---- json_string.c: what JSON is made of
 * ------------------------------------------------------------ */

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
/* The very value: as json.dumps spells it, one optional blank behind "," and ":". */
struct frag json_constant(struct compiler *c, json_object *value, const char *path);
/* Any value; objects and arrays as deep as levels allow. */
struct frag json_any_value(struct compiler *c);
struct frag json_any_object(struct compiler *c);
struct frag json_any_array(struct compiler *c);
struct frag json_literal(struct compiler *c, const char *bytes, size_t n);

/* One optional blank: the state behind it. */
uint32_t json_optional_space(struct compiler *c, uint32_t from);
/* `"key":` and a blank: the state behind them. */
uint32_t json_key(struct compiler *c, uint32_t from, const char *key);
/* Any key but these n, and the colon. */
uint32_t json_other_key(struct compiler *c, uint32_t from, const char *const *keys, size_t n);

/* ---- schema.c
 * ------------------------------------------------------------------------------------- */

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

/* Regular expression of a format, over the whole string; NULL: not known. */
const char *format_pattern(const char *name);

#endif
