/* SPDX-License-Identifier: Apache-2.0 */
/* Grammars: made from parts, owned by several. */
#include "constrain/grammar.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "constrain/chars.h"
#include "constrain/compile.h"
#include "constrain/determinize.h"
#include "constrain/texts.h"

struct part {
    struct frag frag;
    bool used;
};

struct grammar_builder {
    struct compiler c;
    struct part parts[EY_MAX_GRAMMAR_PARTS + 1]; /* part 0 is none */
    int n_parts;
    ey_err error;
};

/* ---- parts
 * --------------------------------------------------------------------------------------- */

struct grammar_builder *grammar_builder_open(ey_err *e)
{
    struct grammar_builder *b = calloc(1, sizeof(*b));
    if (!b) return ey_fail_memory(e, "a grammar", sizeof(*b)), NULL;
    compiler_init(&b->c, &b->error);
    return b;
}

static int add_part(struct grammar_builder *b, struct frag frag)
{
    if (!compiler_ok(&b->c)) return 0;
    if (b->n_parts == EY_MAX_GRAMMAR_PARTS)
        return compiler_fail(&b->c, "a grammar of more than %d parts", EY_MAX_GRAMMAR_PARTS), 0;
    b->parts[++b->n_parts] = (struct part){.frag = frag};
    return b->n_parts;
}

static bool use_part(struct grammar_builder *b, int part, struct frag *frag)
{
    *frag = (struct frag){0, 0};
    if (b->c.failed) return false;
    if (part < 1 || part > b->n_parts || b->parts[part].used)
        return compiler_fail(&b->c, "a part of a grammar is used twice, or is none");
    b->parts[part].used = true;
    *frag = b->parts[part].frag;
    return true;
}

int grammar_text(struct grammar_builder *b, const char *text, size_t n)
{
    if (!b) return 0;
    if (n > EY_MAX_SCHEMA_BYTES)
        compiler_fail(&b->c, "a text of %zu bytes is larger than the limit of %d", n,
                      EY_MAX_SCHEMA_BYTES);
    if (!b->c.failed && !utf8_valid(text, n)) compiler_fail(&b->c, "a text is not UTF-8");
    return b->c.failed ? 0 : add_part(b, json_literal(&b->c, text, n));
}

int grammar_regex(struct grammar_builder *b, const char *pattern, size_t n)
{
    if (!b || b->c.failed) return 0;
    struct net chars = net_with_max(EY_MAX_GRAMMAR_NET);
    struct frag f = {0, 0};
    b->c.failed = !texts_of_pattern(&chars, &f, (struct pattern_text){pattern, n, false},
                                    (struct text_bounds){.max = UINT32_MAX}, &b->error);
    if (!b->c.failed) f = net_spell(&b->c.net, &chars, f, SPELL_TEXT, 0);
    net_finish(&chars);
    return add_part(b, f);
}

int grammar_schema(struct grammar_builder *b, const char *json, size_t n)
{
    return b ? add_part(b, schema_root(&b->c, json, n)) : 0;
}

int grammar_json_object(struct grammar_builder *b)
{
    return b ? add_part(b, json_any_object(&b->c)) : 0;
}

int grammar_sequence(struct grammar_builder *b, const int *parts, size_t n)
{
    if (!b || b->c.failed) return 0;
    struct frag all = json_literal(&b->c, "", 0), next;
    for (size_t i = 0; i < n && use_part(b, parts[i], &next); i++)
        all = net_sequence(&b->c.net, all, next);
    return add_part(b, all);
}

int grammar_any(struct grammar_builder *b, const int *parts, size_t n)
{
    if (!b || b->c.failed) return 0;
    struct frag all = net_frag(&b->c.net), next;
    for (size_t i = 0; i < n && use_part(b, parts[i], &next); i++) {
        net_empty(&b->c.net, all.start, next.start);
        net_empty(&b->c.net, next.end, all.end);
    }
    return add_part(b, all);
}

int grammar_some(struct grammar_builder *b, int part)
{
    struct frag f;
    return b && use_part(b, part, &f) ? add_part(b, net_some(&b->c.net, f)) : 0;
}

/* ---- the whole
 * ----------------------------------------------------------------------------------- */

static atomic_uint_fast64_t serials;

static bool compile(struct grammar_builder *b, int whole, struct grammar **out)
{
    struct compiler *c = &b->c;
    struct frag f;
    if (!use_part(b, whole, &f)) return false;
    while (!c->failed && c->n_built < c->n_rules) {
        uint32_t i = c->n_built++;
        if (!c->rules[i].built) build_rule(c, i, c->rules[i].has_counter);
    }
    if (!compiler_ok(c)) return false;
    /* behind the end nothing comes, also where the part has loops */
    struct frag all = net_frag(&c->net);
    net_empty(&c->net, all.start, f.start);
    net_empty(&c->net, f.end, all.end);
    c->rules[0].body[0].frag = all;
    if (!compiler_ok(c) || !determinize(out, c)) return false;
    (*out)->serial = atomic_fetch_add(&serials, 1);
    return true;
}

bool grammar_builder_finish(struct grammar_builder **builder, int whole, struct grammar **out,
                            ey_err *e)
{
    struct grammar_builder *b = *builder;
    if (!b) return false;
    bool ok = compile(b, whole, out);
    if (!ok && e) *e = b->error;
    compiler_finish(&b->c);
    free(b);
    *builder = NULL;
    return ok;
}

/* ---- whole grammars of one part
 * ------------------------------------------------------------------- */

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

/* Choices are not parts, of which there are fewer. */
static int add_choices(struct grammar_builder *b, const char *const *choices, size_t n)
{
    size_t bytes = 0;
    if (!b) return 0;
    if (!n || n > EY_MAX_CHOICES)
        compiler_fail(&b->c, "%zu choices: there must be 1 to %d", n, EY_MAX_CHOICES);
    struct frag all = net_frag(&b->c.net);
    for (size_t i = 0; i < n && compiler_ok(&b->c); i++) {
        size_t length = strlen(choices[i]);
        if (!length) compiler_fail(&b->c, "choice %zu is empty", i);
        if ((bytes += length) > EY_MAX_SCHEMA_BYTES)
            compiler_fail(&b->c, "the choices together have more than %d bytes",
                          EY_MAX_SCHEMA_BYTES);
        if (!utf8_valid(choices[i], length)) compiler_fail(&b->c, "choice %zu is not UTF-8", i);
        if (!b->c.failed)
            net_empty(&b->c.net, net_bytes(&b->c.net, all.start, choices[i], length), all.end);
    }
    return add_part(b, all);
}

bool grammar_of_choices(struct grammar **out, const char *const *choices, size_t n, ey_err *e)
{
    struct grammar_builder *b = grammar_builder_open(e);
    return grammar_builder_finish(&b, add_choices(b, choices, n), out, e);
}

/* ---- owners
 * -------------------------------------------------------------------------------------- */

struct grammar *grammar_hold(struct grammar *g)
{
    atomic_fetch_add(&g->owners, 1);
    return g;
}

void grammar_release(struct grammar **grammar)
{
    struct grammar *g = *grammar;
    *grammar = NULL;
    if (!g || atomic_fetch_sub(&g->owners, 1) > 1) return;
    free(g->states);
    free(g->edges);
    free(g->calls);
    free(g->sites);
    free(g->returns);
    free(g->counters);
    free(g->alphabets);
    free(g);
}

size_t grammar_bytes(const struct grammar *g)
{
    return g->bytes;
}
