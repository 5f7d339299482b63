/* SPDX-License-Identifier: Apache-2.0 */
/* State shared by the parts of the grammar compiler: the NFA under construction, and its rules.
 *
 * A rule is a bracketed text: a JSON object, array or string. Its automaton reads the opening byte
 * and ends with the closing byte. Everything else (numbers, literals, keys, free text) is inlined.
 * So a single byte tells whether a rule begins, continues or ends, and one stack suffices for any
 * grammar (dfa_builder.h). */
#ifndef EY_CONSTRAIN_GRAMMAR_COMPILER_H
#define EY_CONSTRAIN_GRAMMAR_COMPILER_H

#include "base/buf.h"
#include "base/json.h"
#include "constrain/automaton/nfa.h"

struct compiler;
struct rule;
struct string_spec;

/* Adds a rule's texts to c->nfa as consecutive states. If `counted`, a counter bounds the length
 * (NFA_COUNTS, NFA_CLOSES), else the repetition is unrolled. */
typedef struct frag rule_builder(struct compiler *c, const struct rule *rule, bool counted);

struct rule_body {
    struct frag frag;
    uint32_t begin, end; /* all its states */
};

struct rule {
    rule_builder *build;
    uint8_t first_byte;
    bool has_counter;
    uint32_t min, max;                /* bounds of the counter */
    json_object *schema;              /* schema or constant, borrowed from a document … */
    json_object *root;                /* … whose root this is */
    const char *path;                 /* path of the schema, for messages */
    const struct string_spec *string; /* of a string */
    const char *key;                  /* rules with the same key and builder are one rule */
    size_t n_key;
    bool built;               /* body[has_counter] exists */
    struct rule_body body[2]; /* [counted]; body[0] of a rule with a counter is built on demand */
    uint32_t min_depth; /* levels of its shallowest text, its own included; UNBOUNDED_DEPTH if no
                          text completes it */
    uint32_t max_depth; /* levels that it can use; UNBOUNDED_DEPTH if recursive */
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
    json_object *root; /* the document being compiled */
    uint32_t visits;   /* schemas visited */
    int depth;
    ey_err *e;
    bool failed; /* *e has the error; anything built afterwards is discarded */
};

void compiler_init(struct compiler *c, ey_err *e);
void compiler_finish(struct compiler *c);
/* Records the first failure in *e and sets c->failed. Returns false. */
bool compiler_fail(struct compiler *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool compiler_fail_memory(struct compiler *c, const char *what, size_t bytes);
/* Whether neither the compiler nor its NFA has failed. */
bool compiler_ok(struct compiler *c);

/* Allocates from the compiler's arena. Returns NULL and fails if out of memory. */
void *compiler_alloc(struct compiler *c, size_t count, size_t size);
const char *compiler_printf(struct compiler *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds a rule, unless one with the same key exists. Returns its number. */
uint32_t compiler_add_rule(struct compiler *c, struct rule rule);
/* Returns a fragment that calls the rule. */
struct frag compiler_call_rule(struct compiler *c, struct rule rule);
bool compiler_build_rule(struct compiler *c, uint32_t rule, bool counted);

#endif
