/* SPDX-License-Identifier: Apache-2.0 */
/* NFA fragments of JSON: spaces, keys, strings, constants, any value.
 *
 * One space may follow "," and ":", and there is no other white space. Models write JSON this way
 * when they do not indent, and they cannot emit spaces forever. */
#include "constrain/json_schema/json_grammar.h"

#include <math.h>

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "base/text/json_writer.h"
#include "constrain/automaton/charset.h"
#include "constrain/json_schema/number_ranges.h"
#include "constrain/automaton/string_pattern.h"

struct frag json_literal(struct compiler *c, const char *bytes, size_t n)
{
    uint32_t start = nfa_add_state(&c->nfa);
    return (struct frag){start, nfa_add_bytes(&c->nfa, start, bytes, n)};
}

uint32_t json_optional_space(struct compiler *c, uint32_t from)
{
    uint32_t to = nfa_add_state(&c->nfa);
    nfa_add_epsilon(&c->nfa, from, to);
    nfa_add_span(&c->nfa, from, to, ' ', ' ', 0);
    return to;
}

/* ---- strings ---- */

/* Adds the string as json_dump_string writes it, from output byte `skip` on. */
static uint32_t add_quoted(struct compiler *c, uint32_t from, const char *text, size_t n,
                           size_t skip)
{
    struct buf quoted = buf_with_max(EY_MAX_SCHEMA_BYTES * 8);
    if (json_dump_string(&quoted, text, n))
        from = nfa_add_bytes(&c->nfa, from, quoted.data + skip, quoted.size - skip);
    else
        compiler_fail_memory(c, "a string", n);
    buf_free(&quoted);
    return from;
}

static struct frag build_string_values(struct compiler *c, const struct string_spec *spec)
{
    struct frag f = nfa_new_frag(&c->nfa);
    uint32_t open = nfa_add_bytes(&c->nfa, f.start, "\"", 1);
    for (size_t i = 0; i < spec->n_values && !c->nfa.problem; i++) {
        json_object *value = spec->values[i];
        const char *text = json_object_get_string(value);
        nfa_add_epsilon(&c->nfa,
                        add_quoted(c, open, text, (size_t)json_object_get_string_len(value), 1),
                        f.end);
    }
    return f;
}

/* Builds an NFA over code points of the strings of a pattern, a format or both. If `counted`, a
 * counter enforces the maximum length, and the NFA only the minimum. */
static bool pattern_strings(struct compiler *c, const struct string_spec *spec, bool counted,
                            struct nfa *code_points, struct frag *f)
{
    struct string_pattern pattern = {spec->pattern, spec->n_pattern, true},
                          format = {spec->format, spec->n_format, false};
    struct length_bounds bounds = {spec->min, counted ? UINT32_MAX : spec->max};
    if (spec->pattern && spec->format)
        return string_pattern_intersect(code_points, f, pattern, format, bounds, c->e);
    return string_pattern_compile(code_points, f, spec->pattern ? pattern : format, bounds, c->e);
}

static struct frag build_pattern(struct compiler *c, const struct rule *rule, bool counted)
{
    struct nfa code_points = nfa_with_max(EY_MAX_GRAMMAR_NFA_STATES);
    struct frag f = {0, 0}, all = nfa_new_frag(&c->nfa);
    uint32_t open = nfa_add_bytes(&c->nfa, all.start, "\"", 1);
    if (c->failed) return all;
    if (!pattern_strings(c, rule->string, counted, &code_points, &f)) {
        ey_fail_within(c->e, "%s", rule->path);
        c->failed = true;
    } else if (nfa_shortest_length(&code_points, f) <= rule->string->max) {
        f = nfa_encode(&c->nfa, &code_points, f, ENCODE_JSON_STRING, counted ? NFA_COUNTS : 0);
        nfa_add_epsilon(&c->nfa, open, f.start);
        nfa_add_span(&c->nfa, f.end, all.end, '"', '"', counted ? NFA_CLOSES : 0);
    }
    if (code_points.problem && !c->nfa.problem) c->nfa.problem = code_points.problem;
    nfa_finish(&code_points);
    return all;
}

static struct frag build_counted_string(struct compiler *c)
{
    struct frag all = nfa_new_frag(&c->nfa);
    uint32_t body = nfa_add_bytes(&c->nfa, all.start, "\"", 1);
    nfa_add_json_char(&c->nfa, body, body, NFA_COUNTS);
    nfa_add_span(&c->nfa, body, all.end, '"', '"', NFA_CLOSES);
    return all;
}

static struct frag build_unrolled_string(struct compiler *c, uint32_t min, uint32_t max)
{
    struct nfa *nfa = &c->nfa;
    struct frag all = nfa_new_frag(nfa);
    uint32_t open = nfa_add_bytes(nfa, all.start, "\"", 1), begin = nfa->n_states;
    struct frag f = nfa_new_frag(nfa);
    nfa_add_json_char(nfa, f.start, f.end, 0);
    f = nfa_repeat(nfa, begin, f, min, max);
    nfa_add_epsilon(nfa, open, f.start);
    nfa_add_span(nfa, f.end, all.end, '"', '"', 0);
    return all;
}

static struct frag build_string(struct compiler *c, const struct rule *rule, bool counted)
{
    if (rule->string->values) return build_string_values(c, rule->string);
    if (rule->string->pattern || rule->string->format) return build_pattern(c, rule, counted);
    return counted ? build_counted_string(c)
                   : build_unrolled_string(c, rule->string->min, rule->string->max);
}

/* Equal string constraints share a rule, and so their cached masks. */
static bool string_rule_key(struct compiler *c, const struct string_spec *spec, struct rule *rule)
{
    struct buf key = buf_with_max((size_t)EY_MAX_SCHEMA_BYTES * 8);
    buf_printf(&key, "%u %u ", spec->min, spec->max);
    if (spec->format) {
        buf_printf(&key, "format %zu ", spec->n_format);
        buf_add(&key, spec->format, spec->n_format);
    }
    if (spec->pattern) {
        buf_printf(&key, "pattern ");
        buf_add(&key, spec->pattern, spec->n_pattern);
    }
    for (size_t i = 0; i < spec->n_values; i++)
        json_dump(&key, spec->values[i]);
    char *copy = key.failed ? NULL : compiler_alloc(c, key.size, 1);
    if (copy) memcpy(copy, key.data, key.size);
    rule->key = copy;
    rule->n_key = key.size;
    buf_free(&key);
    return copy || compiler_fail_memory(c, "a grammar", 0);
}

struct frag json_string(struct compiler *c, struct string_spec spec, const char *path)
{
    struct string_spec *kept = compiler_alloc(c, 1, sizeof(*kept));
    struct rule rule = {.build = build_string,
                        .first_byte = '"',
                        .path = path,
                        .string = kept,
                        .min = spec.min,
                        .max = spec.max};
    if (!kept || !string_rule_key(c, &spec, &rule)) return (struct frag){0, 0};
    *kept = spec;
    bool pattern = spec.pattern || spec.format;
    rule.has_counter = !spec.values && (spec.max != UINT32_MAX || (spec.min && !pattern));
    if (pattern) rule.min = 0; /* the NFA enforces the minimum */
    return compiler_call_rule(c, rule);
}

/* ---- keys ---- */

uint32_t json_key(struct compiler *c, uint32_t from, const char *key)
{
    from = add_quoted(c, from, key, strlen(key), 0);
    return json_optional_space(c, nfa_add_bytes(&c->nfa, from, ":", 1));
}

/* Builds the complement of sorted keys: adds what may follow the characters that keys [lo, hi)
 * share up to byte `at`. Any character that no key has there leads to any_suffix. */
struct other_keys {
    struct nfa *nfa;
    const char *const *keys;
    uint32_t end, any_suffix;
};

static void add_other_keys(struct other_keys *o, uint32_t from, size_t lo, size_t hi, size_t at)
{
    struct charset set = {0};
    bool is_key = lo < hi && !o->keys[lo][at];
    if (!is_key) nfa_add_epsilon(o->nfa, from, o->end);
    for (size_t i = lo + is_key; i < hi && !o->nfa->problem;) {
        uint32_t cp;
        int length = utf8_decode(o->keys[i] + at, strlen(o->keys[i] + at), &cp);
        size_t j = i + 1;
        while (j < hi && memcmp(o->keys[j] + at, o->keys[i] + at, (size_t)length) == 0)
            j++;
        uint32_t next = nfa_add_state(o->nfa);
        nfa_add_span(o->nfa, from, next, cp, cp, 0);
        charset_add(&set, cp, cp);
        add_other_keys(o, next, i, j, at + (size_t)length);
        i = j;
    }
    charset_invert(&set);
    nfa_add_charset(o->nfa, from, o->any_suffix, &set);
    if (set.failed) o->nfa->problem = NFA_NO_MEMORY;
    charset_finish(&set);
}

static int compare_key_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Allows only the shortest encoding, since another escape could spell one of the keys. */
static struct frag other_keys_frag(struct compiler *c, const char *const *keys, size_t n)
{
    const char **sorted = compiler_alloc(c, n, sizeof(*sorted));
    if (!sorted) return (struct frag){0, 0};
    memcpy(sorted, keys, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), compare_key_names);
    struct nfa code_points = nfa_with_max(EY_MAX_GRAMMAR_NFA_STATES);
    struct frag f = nfa_new_frag(&code_points);
    struct other_keys o = {.nfa = &code_points,
                           .keys = sorted,
                           .end = f.end,
                           .any_suffix = nfa_add_state(&code_points)};
    nfa_add_span(&code_points, o.any_suffix, o.any_suffix, 0, 0xd7ff, 0);
    nfa_add_span(&code_points, o.any_suffix, o.any_suffix, 0xe000, 0x10ffff, 0);
    nfa_add_epsilon(&code_points, o.any_suffix, f.end);
    add_other_keys(&o, f.start, 0, n, 0);
    if (code_points.problem && !c->nfa.problem) c->nfa.problem = code_points.problem;
    f = nfa_encode(&c->nfa, &code_points, f, ENCODE_JSON_STRING, 0);
    nfa_finish(&code_points);
    return f;
}

uint32_t json_other_key(struct compiler *c, uint32_t from, const char *const *keys, size_t n)
{
    uint32_t open = nfa_add_bytes(&c->nfa, from, "\"", 1), closed = nfa_add_state(&c->nfa);
    if (n) {
        struct frag f = other_keys_frag(c, keys, n);
        nfa_add_epsilon(&c->nfa, open, f.start);
        nfa_add_span(&c->nfa, f.end, closed, '"', '"', 0);
    } else {
        uint32_t body = nfa_add_state(&c->nfa);
        nfa_add_epsilon(&c->nfa, open, body);
        nfa_add_json_char(&c->nfa, body, body, 0);
        nfa_add_span(&c->nfa, body, closed, '"', '"', 0);
    }
    return json_optional_space(c, nfa_add_bytes(&c->nfa, closed, ":", 1));
}

/* ---- any value ---- */

/* Builds `open` [ item { "," item } ] `close`. */
static struct frag build_list(struct compiler *c, const char *open, const char *close, bool keys)
{
    struct nfa *nfa = &c->nfa;
    struct frag all = nfa_new_frag(nfa);
    uint32_t first = nfa_add_bytes(nfa, all.start, open, 1), item = nfa_add_state(nfa),
             last = nfa_add_bytes(nfa, first, close, 1);
    nfa_add_epsilon(nfa, first, item);
    uint32_t at = keys ? json_other_key(c, item, NULL, 0) : item;
    struct frag value = json_any_value(c);
    nfa_add_epsilon(nfa, at, value.start);
    nfa_add_epsilon(nfa, json_optional_space(c, nfa_add_bytes(nfa, value.end, ",", 1)), item);
    nfa_add_epsilon(nfa, nfa_add_bytes(nfa, value.end, close, 1), all.end);
    nfa_add_epsilon(nfa, last, all.end);
    return all;
}

static struct frag build_any_object(struct compiler *c, const struct rule *rule, bool counted)
{
    (void)rule;
    (void)counted;
    return build_list(c, "{", "}", true);
}

static struct frag build_any_array(struct compiler *c, const struct rule *rule, bool counted)
{
    (void)rule;
    (void)counted;
    return build_list(c, "[", "]", false);
}

struct frag json_any_object(struct compiler *c)
{
    return compiler_call_rule(
        c, (struct rule){
               .build = build_any_object, .first_byte = '{', .key = "", .path = "any object"});
}

struct frag json_any_array(struct compiler *c)
{
    return compiler_call_rule(
        c,
        (struct rule){.build = build_any_array, .first_byte = '[', .key = "", .path = "any array"});
}

struct frag json_any_value(struct compiler *c)
{
    struct number_spec any_number = {0};
    struct frag kinds[] = {json_any_object(c),
                           json_any_array(c),
                           json_string(c, (struct string_spec){.max = UINT32_MAX}, "string"),
                           nfa_number(&c->nfa, &any_number),
                           json_literal(c, "true", 4),
                           json_literal(c, "false", 5),
                           json_literal(c, "null", 4)};
    return nfa_union(&c->nfa, kinds, sizeof(kinds) / sizeof(kinds[0]));
}

/* ---- constants ---- */

/* Adds a member or item of a constant, with the comma before it. Returns the state behind it. */
static uint32_t add_element(struct compiler *c, uint32_t from, bool is_first, const char *key,
                            json_object *value, const char *path)
{
    if (!is_first) from = json_optional_space(c, nfa_add_bytes(&c->nfa, from, ",", 1));
    if (key) from = json_key(c, from, key);
    struct frag f = json_constant(c, value, path);
    nfa_add_epsilon(&c->nfa, from, f.start);
    return f.end;
}

static struct frag build_constant(struct compiler *c, const struct rule *rule, bool counted)
{
    (void)counted;
    bool object = rule->first_byte == '{';
    uint32_t start = nfa_add_state(&c->nfa),
             at = nfa_add_bytes(&c->nfa, start, object ? "{" : "[", 1);
    if (object) {
        bool first = true;
        json_object_object_foreach(rule->schema, key, member)
        {
            at = add_element(c, at, first, key, member, rule->path);
            first = false;
        }
    } else {
        for (size_t i = 0; i < json_object_array_length(rule->schema); i++)
            at = add_element(c, at, !i, NULL, json_object_array_get_idx(rule->schema, i),
                             rule->path);
    }
    return (struct frag){start, nfa_add_bytes(&c->nfa, at, object ? "}" : "]", 1)};
}

struct frag json_constant(struct compiler *c, json_object *value, const char *path)
{
    json_type type = json_object_get_type(value);
    if (type == json_type_string) {
        json_object **kept = compiler_alloc(c, 1, sizeof(*kept));
        if (!kept) return (struct frag){0, 0};
        *kept = value;
        return json_string(
            c, (struct string_spec){.max = UINT32_MAX, .values = kept, .n_values = 1}, path);
    }
    if (type == json_type_object || type == json_type_array) {
        json_object **key = compiler_alloc(c, 1, sizeof(*key));
        if (!key) return (struct frag){0, 0};
        *key = value;
        return compiler_call_rule(c,
                                  (struct rule){.build = build_constant,
                                                .first_byte = type == json_type_object ? '{' : '[',
                                                .schema = value,
                                                .key = (const char *)key,
                                                .n_key = sizeof(*key),
                                                .path = path});
    }
    struct buf text = buf_with_max(EY_MAX_SCHEMA_BYTES);
    struct frag f = {0, 0};
    if (type == json_type_double && !isfinite(json_object_get_double(value)))
        compiler_fail(c, "%s: NaN and Infinity are not JSON", path);
    else if (json_dump(&text, value))
        f = json_literal(c, text.data, text.size);
    else
        compiler_fail_memory(c, "a constant", 0);
    buf_free(&text);
    return f;
}
