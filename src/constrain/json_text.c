/* SPDX-License-Identifier: Apache-2.0 */
/* What JSON is made of, as fragments: blanks, keys, strings, constants, any value.
 *
 * Blanks: one may stand behind "," and ":", none elsewhere. That is what models write when they do
 * not indent, and it leaves no place where one could go on for ever. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "constrain/chars.h"
#include "constrain/compile.h"
#include "constrain/numbers.h"
#include "constrain/texts.h"

struct frag json_literal(struct compiler *c, const char *bytes, size_t n)
{
    uint32_t start = net_state(&c->net);
    return (struct frag){start, net_bytes(&c->net, start, bytes, n)};
}

uint32_t json_blank(struct compiler *c, uint32_t from)
{
    uint32_t to = net_state(&c->net);
    net_empty(&c->net, from, to);
    net_span(&c->net, from, to, ' ', ' ', 0);
    return to;
}

/* ---- strings
 * ------------------------------------------------------------------------------------- */

/* The texts of one or two characters and more that json_dump_string makes of a string, quotes
 * included. */
static uint32_t add_quoted(struct compiler *c, uint32_t from, const char *text, size_t n,
                           size_t skip)
{
    struct buf quoted = buf_with_max(EY_MAX_SCHEMA_BYTES * 8);
    if (json_dump_string(&quoted, text, n))
        from = net_bytes(&c->net, from, quoted.data + skip, quoted.size - skip);
    else
        compiler_fail_memory(c, "a string", n);
    buf_free(&quoted);
    return from;
}

static struct frag build_values(struct compiler *c, const struct text_form *form)
{
    struct frag f = net_frag(&c->net);
    uint32_t open = net_bytes(&c->net, f.start, "\"", 1);
    for (size_t i = 0; i < form->n_values && !c->net.problem; i++) {
        json_object *value = form->values[i];
        const char *text = json_object_get_string(value);
        net_empty(&c->net, add_quoted(c, open, text, (size_t)json_object_get_string_len(value), 1),
                  f.end);
    }
    return f;
}

/* Strings of a pattern, a format or both, over code points. Where the most characters are counted,
 * only the least is worked into the net. */
static bool pattern_texts(struct compiler *c, const struct text_form *form, bool counted,
                          struct net *chars, struct frag *f)
{
    struct pattern_text pattern = {form->pattern, form->n_pattern, true},
                        format = {form->format, form->n_format, false};
    struct text_bounds bounds = {form->min, counted ? UINT32_MAX : form->max};
    if (form->pattern && form->format)
        return texts_of_both(chars, f, pattern, format, bounds, c->e);
    return texts_of_pattern(chars, f, form->pattern ? pattern : format, bounds, c->e);
}

static struct frag build_pattern(struct compiler *c, const struct rule *rule, bool counted)
{
    struct net chars = net_with_max(EY_MAX_GRAMMAR_NET);
    struct frag f = {0, 0}, all = net_frag(&c->net);
    uint32_t open = net_bytes(&c->net, all.start, "\"", 1);
    if (c->failed) return all;
    if (!pattern_texts(c, rule->text, counted, &chars, &f)) {
        ey_fail_within(c->e, "%s", rule->path);
        c->failed = true;
    } else if (shortest_text(&chars, f) <= rule->text->max) {
        f = net_spell(&c->net, &chars, f, SPELL_JSON, counted ? NET_COUNTS : 0);
        net_empty(&c->net, open, f.start);
        net_span(&c->net, f.end, all.end, '"', '"', counted ? NET_CLOSES : 0);
    }
    if (chars.problem && !c->net.problem) c->net.problem = chars.problem;
    net_finish(&chars);
    return all;
}

static struct frag build_counted_text(struct compiler *c)
{
    struct frag all = net_frag(&c->net);
    uint32_t body = net_bytes(&c->net, all.start, "\"", 1);
    net_json_char(&c->net, body, body, NET_COUNTS);
    net_span(&c->net, body, all.end, '"', '"', NET_CLOSES);
    return all;
}

static struct frag build_spelled_text(struct compiler *c, uint32_t min, uint32_t max)
{
    struct net *net = &c->net;
    struct frag all = net_frag(net);
    uint32_t open = net_bytes(net, all.start, "\"", 1), begin = net->n_states;
    struct frag f = net_frag(net);
    net_json_char(net, f.start, f.end, 0);
    f = net_repeat(net, begin, f, min, max);
    net_empty(net, open, f.start);
    net_span(net, f.end, all.end, '"', '"', 0);
    return all;
}

static struct frag build_text(struct compiler *c, const struct rule *rule, bool counted)
{
    if (rule->text->values) return build_values(c, rule->text);
    if (rule->text->pattern || rule->text->format) return build_pattern(c, rule, counted);
    return counted ? build_counted_text(c)
                   : build_spelled_text(c, rule->text->min, rule->text->max);
}

/* Strings of the same form are one rule, whose masks are known once for all. */
static bool text_key(struct compiler *c, const struct text_form *form, struct rule *rule)
{
    struct buf key = buf_with_max((size_t)EY_MAX_SCHEMA_BYTES * 8);
    buf_printf(&key, "%u %u ", form->min, form->max);
    if (form->format) {
        buf_printf(&key, "format %zu ", form->n_format);
        buf_add(&key, form->format, form->n_format);
    }
    if (form->pattern) {
        buf_printf(&key, "pattern ");
        buf_add(&key, form->pattern, form->n_pattern);
    }
    for (size_t i = 0; i < form->n_values; i++)
        json_dump(&key, form->values[i]);
    char *copy = key.failed ? NULL : compiler_alloc(c, key.size, 1);
    if (copy) memcpy(copy, key.data, key.size);
    rule->key = copy;
    rule->n_key = key.size;
    buf_free(&key);
    return copy || compiler_fail_memory(c, "a grammar", 0);
}

struct frag json_text(struct compiler *c, struct text_form form, const char *path)
{
    struct text_form *kept = compiler_alloc(c, 1, sizeof(*kept));
    struct rule rule = {.build = build_text,
                        .opens = '"',
                        .path = path,
                        .text = kept,
                        .min = form.min,
                        .max = form.max};
    if (!kept || !text_key(c, &form, &rule)) return (struct frag){0, 0};
    *kept = form;
    bool pattern = form.pattern || form.format;
    rule.has_counter = !form.values && (form.max != UINT32_MAX || (form.min && !pattern));
    if (pattern) rule.min = 0; /* it is in the net */
    return compiler_call(c, rule);
}

/* ---- keys
 * ---------------------------------------------------------------------------------------- */

uint32_t json_key(struct compiler *c, uint32_t from, const char *key)
{
    from = add_quoted(c, from, key, strlen(key), 0);
    return json_blank(c, net_bytes(&c->net, from, ":", 1));
}

/* Adds to a net over code points: what follows the characters that keys [lo, hi), sorted, share up
 * to byte `at`. From any other character on all is free. */
struct other_keys {
    struct net *net;
    const char *const *keys;
    uint32_t end, free;
};

static void add_others(struct other_keys *o, uint32_t from, size_t lo, size_t hi, size_t at)
{
    struct char_set set = {0};
    bool is_key = lo < hi && !o->keys[lo][at];
    if (!is_key) net_empty(o->net, from, o->end);
    for (size_t i = lo + is_key; i < hi && !o->net->problem;) {
        uint32_t cp;
        int length = utf8_decode(o->keys[i] + at, strlen(o->keys[i] + at), &cp);
        size_t j = i + 1;
        while (j < hi && memcmp(o->keys[j] + at, o->keys[i] + at, (size_t)length) == 0)
            j++;
        uint32_t next = net_state(o->net);
        net_span(o->net, from, next, cp, cp, 0);
        char_set_add(&set, cp, cp);
        add_others(o, next, i, j, at + (size_t)length);
        i = j;
    }
    char_set_invert(&set);
    net_chars(o->net, from, o->free, &set);
    if (set.failed) o->net->problem = NET_NO_MEMORY;
    char_set_finish(&set);
}

static int key_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Spelled in the shortest way only: another spelling could hide one of the keys. */
static struct frag other_keys(struct compiler *c, const char *const *keys, size_t n)
{
    const char **sorted = compiler_alloc(c, n, sizeof(*sorted));
    if (!sorted) return (struct frag){0, 0};
    memcpy(sorted, keys, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), key_order);
    struct net chars = net_with_max(EY_MAX_GRAMMAR_NET);
    struct frag f = net_frag(&chars);
    struct other_keys o = {.net = &chars, .keys = sorted, .end = f.end, .free = net_state(&chars)};
    net_span(&chars, o.free, o.free, 0, 0xd7ff, 0);
    net_span(&chars, o.free, o.free, 0xe000, 0x10ffff, 0);
    net_empty(&chars, o.free, f.end);
    add_others(&o, f.start, 0, n, 0);
    if (chars.problem && !c->net.problem) c->net.problem = chars.problem;
    f = net_spell(&c->net, &chars, f, SPELL_JSON, 0);
    net_finish(&chars);
    return f;
}

uint32_t json_other_key(struct compiler *c, uint32_t from, const char *const *keys, size_t n)
{
    uint32_t open = net_bytes(&c->net, from, "\"", 1), closed = net_state(&c->net);
    if (n) {
        struct frag f = other_keys(c, keys, n);
        net_empty(&c->net, open, f.start);
        net_span(&c->net, f.end, closed, '"', '"', 0);
    } else {
        uint32_t body = net_state(&c->net);
        net_empty(&c->net, open, body);
        net_json_char(&c->net, body, body, 0);
        net_span(&c->net, body, closed, '"', '"', 0);
    }
    return json_blank(c, net_bytes(&c->net, closed, ":", 1));
}

/* ---- any value
 * ----------------------------------------------------------------------------------- */

/* `open` item {"," item} `close`, or nothing between them. */
static struct frag build_list(struct compiler *c, const char *open, const char *close, bool keys)
{
    struct net *net = &c->net;
    struct frag all = net_frag(net);
    uint32_t first = net_bytes(net, all.start, open, 1), item = net_state(net),
             last = net_bytes(net, first, close, 1);
    net_empty(net, first, item);
    uint32_t at = keys ? json_other_key(c, item, NULL, 0) : item;
    struct frag value = json_any(c);
    net_empty(net, at, value.start);
    net_empty(net, json_blank(c, net_bytes(net, value.end, ",", 1)), item);
    net_empty(net, net_bytes(net, value.end, close, 1), all.end);
    net_empty(net, last, all.end);
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
    return compiler_call(
        c, (struct rule){.build = build_any_object, .opens = '{', .key = "", .path = "any object"});
}

struct frag json_any_array(struct compiler *c)
{
    return compiler_call(
        c, (struct rule){.build = build_any_array, .opens = '[', .key = "", .path = "any array"});
}

struct frag json_any(struct compiler *c)
{
    struct number_form any_number = {0};
    struct frag kinds[] = {json_any_object(c),
                           json_any_array(c),
                           json_text(c, (struct text_form){.max = UINT32_MAX}, "string"),
                           net_number(&c->net, &any_number),
                           json_literal(c, "true", 4),
                           json_literal(c, "false", 5),
                           json_literal(c, "null", 4)};
    return net_alternatives(&c->net, kinds, sizeof(kinds) / sizeof(kinds[0]));
}

/* ---- constants
 * ----------------------------------------------------------------------------------- */

/* A constant's member or item, and what stands before it: the state behind it. */
static uint32_t add_element(struct compiler *c, uint32_t from, bool is_first, const char *key,
                            json_object *value, const char *path)
{
    if (!is_first) from = json_blank(c, net_bytes(&c->net, from, ",", 1));
    if (key) from = json_key(c, from, key);
    struct frag f = json_constant(c, value, path);
    net_empty(&c->net, from, f.start);
    return f.end;
}

static struct frag build_constant(struct compiler *c, const struct rule *rule, bool counted)
{
    (void)counted;
    bool object = rule->opens == '{';
    uint32_t start = net_state(&c->net), at = net_bytes(&c->net, start, object ? "{" : "[", 1);
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
    return (struct frag){start, net_bytes(&c->net, at, object ? "}" : "]", 1)};
}

struct frag json_constant(struct compiler *c, json_object *value, const char *path)
{
    json_type type = json_object_get_type(value);
    if (type == json_type_string) {
        json_object **kept = compiler_alloc(c, 1, sizeof(*kept));
        if (!kept) return (struct frag){0, 0};
        *kept = value;
        return json_text(c, (struct text_form){.max = UINT32_MAX, .values = kept, .n_values = 1},
                         path);
    }
    if (type == json_type_object || type == json_type_array) {
        json_object **key = compiler_alloc(c, 1, sizeof(*key));
        if (!key) return (struct frag){0, 0};
        *key = value;
        return compiler_call(c, (struct rule){.build = build_constant,
                                              .opens = type == json_type_object ? '{' : '[',
                                              .schema = value,
                                              .key = (const char *)key,
                                              .n_key = sizeof(*key),
                                              .path = path});
    }
    struct buf text = buf_with_max(EY_MAX_SCHEMA_BYTES);
    struct frag f = {0, 0};
    if (json_dump(&text, value))
        f = json_literal(c, text.data, text.size);
    else
        compiler_fail_memory(c, "a constant", 0);
    buf_free(&text);
    return f;
}
