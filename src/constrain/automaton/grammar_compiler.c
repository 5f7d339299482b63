/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, failures and rules of the grammar compiler. */
#include "constrain/automaton/grammar_compiler.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"

void compiler_init(struct compiler *c, ey_err *e)
{
    *c = (struct compiler){.nfa = nfa_with_max(EY_MAX_GRAMMAR_NFA_STATES), .e = e};
    compiler_add_rule(c, (struct rule){.key = "", .built = true}); /* the whole grammar */
}

void compiler_finish(struct compiler *c)
{
    for (struct document *d = c->documents; d; d = d->next)
        json_object_put(d->root);
    nfa_finish(&c->nfa);
    free(c->rules);
    free(c->rule_index);
    arena_free(&c->arena);
}

bool compiler_fail(struct compiler *c, const char *fmt, ...)
{
    if (c->failed) return false;
    char text[sizeof(c->e->text)];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    c->failed = true;
    return ey_fail(c->e, EY_BAD_REQUEST, "%s", text);
}

bool compiler_fail_memory(struct compiler *c, const char *what, size_t bytes)
{
    if (c->failed) return false;
    c->failed = true;
    return ey_fail_memory(c->e, what, bytes);
}

bool compiler_ok(struct compiler *c)
{
    if (!c->failed && !nfa_check(&c->nfa, c->e)) c->failed = true;
    return !c->failed;
}

void *compiler_alloc(struct compiler *c, size_t count, size_t size)
{
    void *memory = c->failed ? NULL : arena_array(&c->arena, count ? count : 1, size);
    if (!memory) compiler_fail_memory(c, "a grammar", count * size);
    return memory;
}

const char *compiler_printf(struct compiler *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = n < 0 ? NULL : compiler_alloc(c, (size_t)n + 1, 1);
    if (!text) return "";
    va_start(args, fmt);
    vsnprintf(text, (size_t)n + 1, fmt, args);
    va_end(args);
    return text;
}

/* ---- rules ---- */

static uint32_t rule_key_hash(const char *key, size_t n)
{
    uint64_t hash = fnv1a_64(FNV1A_64_START, key, n);
    return (uint32_t)(hash ^ hash >> 32);
}

/* Returns the rule's slot in the index, or the empty slot for it. Empty slots hold 0: rule 0, the
 * whole grammar, is never looked up. */
static uint32_t *rule_index_slot(struct compiler *c, const struct rule *rule)
{
    uint32_t i = rule_key_hash(rule->key, rule->n_key) & (c->rule_index_size - 1);
    for (;; i = (i + 1) & (c->rule_index_size - 1)) {
        uint32_t at = c->rule_index[i];
        if (!at) return &c->rule_index[i];
        const struct rule *other = &c->rules[at];
        if (other->build == rule->build && other->n_key == rule->n_key &&
            memcmp(other->key, rule->key, rule->n_key) == 0)
            return &c->rule_index[i];
    }
}

static bool grow_rules(struct compiler *c)
{
    uint32_t capacity = c->rules_capacity ? c->rules_capacity * 2 : 64;
    if (c->n_rules >= EY_MAX_GRAMMAR_RULES)
        return compiler_fail(c,
                             "it is too large: more than %d different objects, arrays and strings",
                             EY_MAX_GRAMMAR_RULES);
    struct rule *rules = realloc(c->rules, capacity * sizeof(*rules));
    if (rules) c->rules = rules;
    uint32_t *index = rules ? calloc(2 * (size_t)capacity, sizeof(*index)) : NULL;
    if (!index) return compiler_fail_memory(c, "a grammar's rules", capacity * sizeof(*rules));
    free(c->rule_index);
    c->rule_index = index;
    c->rule_index_size = 2 * capacity;
    c->rules_capacity = capacity;
    for (uint32_t i = 1; i < c->n_rules; i++)
        *rule_index_slot(c, &c->rules[i]) = i;
    return true;
}

uint32_t compiler_add_rule(struct compiler *c, struct rule rule)
{
    if (c->failed || (c->n_rules == c->rules_capacity && !grow_rules(c))) return 0;
    uint32_t *slot = rule_index_slot(c, &rule);
    if (*slot) return *slot;
    rule.min_depth = rule.max_depth = UNBOUNDED_DEPTH;
    rule.root = c->root;
    c->rules[c->n_rules] = rule;
    if (c->n_rules) *slot = c->n_rules;
    return c->n_rules++;
}

struct frag compiler_call_rule(struct compiler *c, struct rule rule)
{
    struct frag f = nfa_new_frag(&c->nfa);
    nfa_add_call(&c->nfa, f.start, f.end, compiler_add_rule(c, rule));
    return f;
}

bool compiler_build_rule(struct compiler *c, uint32_t i, bool counted)
{
    struct rule rule = c->rules[i]; /* a copy: building may add rules and move the array */
    c->root = rule.root;
    struct rule_body body = {.begin = c->nfa.n_states ? c->nfa.n_states : 1};
    body.frag = rule.build(c, &rule, counted);
    body.end = c->nfa.n_states;
    c->rules[i].body[counted] = body;
    c->rules[i].built = true;
    return compiler_ok(c);
}
