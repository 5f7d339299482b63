/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a grammar from parts: compiles them to one NFA with rules, determinises it and precomputes
 * what masks need. */
#include "constrain/automaton/automaton.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "constrain/analysis/max_remaining.h"
#include "constrain/analysis/min_remaining.h"
#include "constrain/automaton/charset.h"
#include "constrain/automaton/dfa_builder.h"
#include "constrain/automaton/grammar_compiler.h"
#include "constrain/automaton/string_pattern.h"
#include "constrain/json_schema/json_grammar.h"
#include "constrain/json_schema/schema.h"

struct grammar_part {
    struct frag frag;
    bool used;
};

struct grammar_builder {
    struct compiler c;
    struct grammar_part parts[EY_MAX_GRAMMAR_PARTS + 1]; /* part 0 means failure */
    int n_parts;
    ey_err error;
};

/* ---- parts ---- */

struct grammar_builder *grammar_builder_open(ey_err *e)
{
    struct grammar_builder *b = calloc(1, sizeof(*b));
    if (!b) {
        ey_fail_memory(e, "a grammar", sizeof(*b));
        return NULL;
    }
    compiler_init(&b->c, &b->error);
    return b;
}

static int grammar_add_part(struct grammar_builder *b, struct frag frag)
{
    if (!compiler_ok(&b->c)) return 0;
    if (b->n_parts == EY_MAX_GRAMMAR_PARTS) {
        compiler_fail(&b->c, "a grammar has more parts than the limit of %d", EY_MAX_GRAMMAR_PARTS);
        return 0;
    }
    b->parts[++b->n_parts] = (struct grammar_part){.frag = frag};
    return b->n_parts;
}

static bool grammar_use_part(struct grammar_builder *b, int part, struct frag *frag)
{
    *frag = (struct frag){0, 0};
    if (b->c.failed) return false;
    if (part < 1 || part > b->n_parts || b->parts[part].used)
        return compiler_fail(&b->c, "a part of a grammar is used twice or does not exist");
    b->parts[part].used = true;
    *frag = b->parts[part].frag;
    return true;
}

int grammar_literal(struct grammar_builder *b, const char *text, size_t n)
{
    if (!b) return 0;
    if (n > EY_MAX_SCHEMA_BYTES)
        compiler_fail(&b->c, "a text of %zu bytes is larger than the limit of %d", n,
                      EY_MAX_SCHEMA_BYTES);
    if (!b->c.failed && !utf8_valid(text, n)) compiler_fail(&b->c, "a text is not UTF-8");
    return b->c.failed ? 0 : grammar_add_part(b, json_literal(&b->c, text, n));
}

int grammar_regex(struct grammar_builder *b, const char *pattern, size_t n)
{
    if (!b || b->c.failed) return 0;
    struct nfa code_points = nfa_with_max(EY_MAX_GRAMMAR_NFA_STATES);
    struct frag f = {0, 0};
    b->c.failed = !string_pattern_compile(&code_points, &f,
                                          (struct string_pattern){pattern, n, false},
                                          (struct length_bounds){.max = UINT32_MAX}, &b->error);
    if (!b->c.failed) f = nfa_encode(&b->c.nfa, &code_points, f, ENCODE_UTF8, 0);
    nfa_finish(&code_points);
    return grammar_add_part(b, f);
}

int grammar_schema(struct grammar_builder *b, const char *json, size_t n)
{
    return b ? grammar_add_part(b, schema_root(&b->c, json, n)) : 0;
}

int grammar_json_object(struct grammar_builder *b)
{
    return b ? grammar_add_part(b, json_any_object(&b->c)) : 0;
}

int grammar_sequence(struct grammar_builder *b, const int *parts, size_t n)
{
    if (!b || b->c.failed) return 0;
    struct frag all = json_literal(&b->c, "", 0), next;
    for (size_t i = 0; i < n && grammar_use_part(b, parts[i], &next); i++)
        all = nfa_concat(&b->c.nfa, all, next);
    return grammar_add_part(b, all);
}

int grammar_alternatives(struct grammar_builder *b, const int *parts, size_t n)
{
    if (!b || b->c.failed) return 0;
    struct frag all = nfa_new_frag(&b->c.nfa), next;
    for (size_t i = 0; i < n && grammar_use_part(b, parts[i], &next); i++) {
        nfa_add_epsilon(&b->c.nfa, all.start, next.start);
        nfa_add_epsilon(&b->c.nfa, next.end, all.end);
    }
    return grammar_add_part(b, all);
}

int grammar_one_or_more(struct grammar_builder *b, int part)
{
    struct frag f;
    return b && grammar_use_part(b, part, &f) ? grammar_add_part(b, nfa_one_or_more(&b->c.nfa, f))
                                              : 0;
}

/* ---- compiling ---- */

static atomic_uint_fast64_t serials;

static bool grammar_compile(struct grammar_builder *b, int whole, struct grammar **out)
{
    struct compiler *c = &b->c;
    struct frag f;
    if (!grammar_use_part(b, whole, &f)) return false;
    while (!c->failed && c->n_built < c->n_rules) {
        uint32_t i = c->n_built++;
        if (!c->rules[i].built) compiler_build_rule(c, i, c->rules[i].has_counter);
    }
    if (!compiler_ok(c)) return false;
    /* The grammar's end must have no successors, even if the part loops. */
    struct frag all = nfa_new_frag(&c->nfa);
    nfa_add_epsilon(&c->nfa, all.start, f.start);
    nfa_add_epsilon(&c->nfa, f.end, all.end);
    c->rules[0].body[0].frag = all;
    if (!compiler_ok(c) || !determinize(out, c)) return false;
    if (!measure_max_remaining(*out) || !measure_min_remaining(*out)) {
        compiler_fail_memory(c, "a grammar", (*out)->n_states);
        grammar_release(out);
        return false;
    }
    (*out)->serial = atomic_fetch_add(&serials, 1);
    return true;
}

bool grammar_builder_finish(struct grammar_builder **builder, int whole, struct grammar **out,
                            ey_err *e)
{
    struct grammar_builder *b = *builder;
    if (!b) return false;
    bool ok = grammar_compile(b, whole, out);
    if (!ok && e) *e = b->error;
    compiler_finish(&b->c);
    free(b);
    *builder = NULL;
    return ok;
}

/* ---- grammars of one part ---- */

bool grammar_of_schema(struct grammar **out, const char *json, size_t n, ey_err *e)
{
    struct grammar_builder *b = grammar_builder_open(e);
    return grammar_builder_finish(&b, grammar_schema(b, json, n), out, e);
}

bool grammar_of_json_object(struct grammar **out, ey_err *e)
{
    struct grammar_builder *b = grammar_builder_open(e);
    return grammar_builder_finish(&b, grammar_json_object(b), out, e);
}

bool grammar_of_regex(struct grammar **out, const char *pattern, size_t n, ey_err *e)
{
    struct grammar_builder *b = grammar_builder_open(e);
    return grammar_builder_finish(&b, grammar_regex(b, pattern, n), out, e);
}

/* Adds choices as one part: there may be more of them than parts. */
static int grammar_add_choices(struct grammar_builder *b, const char *const *choices, size_t n)
{
    size_t bytes = 0;
    if (!b) return 0;
    if (!n || n > EY_MAX_CHOICES)
        compiler_fail(&b->c, "%zu choices: there must be 1 to %d", n, EY_MAX_CHOICES);
    struct frag all = nfa_new_frag(&b->c.nfa);
    for (size_t i = 0; i < n && compiler_ok(&b->c); i++) {
        size_t length = strlen(choices[i]);
        if (!length) compiler_fail(&b->c, "choice %zu is empty", i);
        if ((bytes += length) > EY_MAX_SCHEMA_BYTES)
            compiler_fail(&b->c, "the choices together have more than %d bytes",
                          EY_MAX_SCHEMA_BYTES);
        if (!utf8_valid(choices[i], length)) compiler_fail(&b->c, "choice %zu is not UTF-8", i);
        if (!b->c.failed)
            nfa_add_epsilon(&b->c.nfa, nfa_add_bytes(&b->c.nfa, all.start, choices[i], length),
                            all.end);
    }
    return grammar_add_part(b, all);
}

bool grammar_of_choices(struct grammar **out, const char *const *choices, size_t n, ey_err *e)
{
    struct grammar_builder *b = grammar_builder_open(e);
    return grammar_builder_finish(&b, grammar_add_choices(b, choices, n), out, e);
}
