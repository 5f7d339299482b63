/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the grammar compiler share: the NFA that they build, and its rules.
 *
 * A rule is a bracketed text: a JSON object, array or string. Its automaton reads the opening byte
 * too, and ends with the closing one, behind which nothing of it can follow. All else (numbers,
 * literals, keys, free text) is spelled out where it stands. So a byte alone says whether a rule
 * begins, goes on or ends, and one stack does for any grammar (dfa_builder.h). */
#ifndef EY_CONSTRAIN_GRAMMAR_COMPILER_H
#define EY_CONSTRAIN_GRAMMAR_COMPILER_H

#include "base/buf.h"
#include "base/json.h"
#include "constrain/automaton/nfa.h"

struct compiler;
struct rule;
struct string_spec;

/* Adds the texts of a rule to c->nfa, as consecutive states. counted: a counter bounds the length
 * (NFA_COUNTS, NFA_CLOSES); else it is unrolled. */
typedef struct frag rule_builder(struct compiler *c, const struct rule *rule, bool counted);

struct rule_body {
    struct frag frag;
    uint32_t begin, end; /* all its states */
};

struct rule {
    rule_builder *build;
    uint8_t first_byte;
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
    uint32_t min_depth; /* levels that its shallowest text needs, its own included; UNBOUNDED_DEPTH:
                           it has none */
    uint32_t max_depth; /* levels that it can use; UNBOUNDED_DEPTH: recursive */
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
/* Also checks the NFA for problems. */
bool compiler_ok(struct compiler *c);

/* Memory of the compiler, or NULL and a failure. */
void *compiler_alloc(struct compiler *c, size_t count, size_t size);
const char *compiler_printf(struct compiler *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The number of the rule, or of an earlier one with the same key. */
uint32_t compiler_add_rule(struct compiler *c, struct rule rule);
/* A call of the rule, as a fragment. */
struct frag compiler_call_rule(struct compiler *c, struct rule rule);
bool compiler_build_rule(struct compiler *c, uint32_t rule, bool counted);

#endif
