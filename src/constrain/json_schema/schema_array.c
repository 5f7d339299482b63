/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays: prefixItems (or a list as `items`) in order, then `items` within the bounds. */
#include "constrain/json_schema/schema.h"

#include "base/limits.h"
#include "constrain/json_schema/json_grammar.h"

struct array_spec {
    json_object *prefix; /* list, or NULL */
    const char *prefix_name;
    size_t n_prefix;
    bool open;         /* further items may follow … */
    json_object *each; /* … of this schema; NULL: any value */
    const char *each_name;
    uint32_t min, max;
};

static bool read_item_bounds(struct compiler *c, json_object *schema, const char *path,
                             struct array_spec *a)
{
    json_object *unique = json_member(schema, "uniqueItems");
    if (unique && json_object_get_boolean(unique))
        return compiler_fail(c, "%s: the keyword \"uniqueItems\" is not supported", path);
    if (!schema_count(c, schema, path, "minItems", &a->min) ||
        !schema_count(c, schema, path, "maxItems", &a->max))
        return false;
    if (!a->open && a->max > a->n_prefix) a->max = (uint32_t)a->n_prefix;
    return a->min <= a->max || compiler_fail(c, "%s: no array has at least %u and at most %u items",
                                             path, a->min, a->max);
}

static bool read_array_spec(struct compiler *c, json_object *schema, const char *path,
                            struct array_spec *a)
{
    json_object *each = NULL, *prefix = json_member(schema, "prefixItems");
    a->prefix_name = "prefixItems";
    a->each_name = "items";
    bool given = json_object_object_get_ex(schema, "items", &each);
    if (json_object_is_type(each, json_type_array)) { /* drafts before 2020-12 */
        if (prefix)
            return compiler_fail(c, "%s: a list as \"items\" with \"prefixItems\" is not supported",
                                 path);
        a->prefix_name = "items";
        a->each_name = "additionalItems";
        prefix = each;
        each = NULL;
        given = json_object_object_get_ex(schema, "additionalItems", &each);
    }
    if (prefix && !json_object_is_type(prefix, json_type_array))
        return compiler_fail(c, "%s/prefixItems: it must be a list of schemas", path);
    bool boolean = json_object_is_type(each, json_type_boolean);
    if (given && !boolean && !json_object_is_type(each, json_type_object))
        return compiler_fail(c, "%s/%s: it must be a schema or a boolean", path, a->each_name);
    a->prefix = prefix;
    a->n_prefix = prefix ? json_object_array_length(prefix) : 0;
    a->open = given ? !boolean || json_object_get_boolean(each) : !a->n_prefix;
    a->each = boolean ? NULL : each;
    if (a->n_prefix > EY_MAX_SCHEMA_BRANCHES)
        return compiler_fail(c, "%s/%s: %zu are more than the limit of %d", path, a->prefix_name,
                             a->n_prefix, EY_MAX_SCHEMA_BRANCHES);
    return read_item_bounds(c, schema, path, a);
}

static struct frag each_item(struct compiler *c, const struct array_spec *a, const char *path)
{
    return a->each ? schema_value(c, a->each, compiler_printf(c, "%s/%s", path, a->each_name))
                   : json_any_value(c);
}

/* Returns a comma, an optional space, and f. */
static struct frag after_comma(struct compiler *c, struct frag f)
{
    uint32_t start = nfa_add_state(&c->nfa);
    nfa_add_epsilon(&c->nfa, json_optional_space(c, nfa_add_bytes(&c->nfa, start, ",", 1)),
                    f.start);
    return (struct frag){start, f.end};
}

/* Adds items of one schema as a loop whose counter counts commas. */
static void add_counted_items(struct compiler *c, const struct array_spec *a, uint32_t open,
                              uint32_t end, const char *path)
{
    struct nfa *nfa = &c->nfa;
    struct frag item = each_item(c, a, path);
    uint32_t comma = nfa_add_state(nfa);
    nfa_add_epsilon(nfa, open, item.start);
    nfa_add_span(nfa, item.end, comma, ',', ',', NFA_COUNTS);
    nfa_add_epsilon(nfa, json_optional_space(c, comma), item.start);
    nfa_add_span(nfa, item.end, end, ']', ']', NFA_CLOSES);
}

/* Adds items one by one from `open`, the state behind the bracket, on. */
static void add_unrolled_items(struct compiler *c, const struct array_spec *a, uint32_t open,
                               uint32_t end, const char *path)
{
    struct nfa *nfa = &c->nfa;
    uint32_t at = open, i = 0;
    for (; i < a->n_prefix && i < a->max && compiler_ok(c); i++) {
        struct frag item = schema_value(c, json_object_array_get_idx(a->prefix, i),
                                        compiler_printf(c, "%s/%s/%u", path, a->prefix_name, i));
        if (i) item = after_comma(c, item);
        nfa_add_epsilon(nfa, at, item.start);
        at = item.end;
        if (i + 1 >= a->min) nfa_add_span(nfa, at, end, ']', ']', 0);
    }
    if (!a->open || i >= a->max) return;
    if (!i) { /* no comma before the first */
        struct frag item = each_item(c, a, path);
        nfa_add_epsilon(nfa, at, item.start);
        at = item.end;
        i = 1;
        if (a->min <= 1) nfa_add_span(nfa, at, end, ']', ']', 0);
    }
    uint32_t begin = nfa->n_states;
    struct frag rest = after_comma(c, each_item(c, a, path));
    rest = nfa_repeat(nfa, begin, rest, a->min > i ? a->min - i : 0,
                      a->max == UINT32_MAX ? UINT32_MAX : a->max - i);
    nfa_add_epsilon(nfa, at, rest.start);
    nfa_add_span(nfa, rest.end, end, ']', ']', 0);
}

static struct frag build_array(struct compiler *c, const struct rule *rule, bool counted)
{
    struct array_spec a = {.max = UINT32_MAX};
    struct frag all = nfa_new_frag(&c->nfa);
    uint32_t open = nfa_add_bytes(&c->nfa, all.start, "[", 1);
    if (!read_array_spec(c, rule->schema, rule->path, &a)) return all;
    if (!a.min) nfa_add_span(&c->nfa, open, all.end, ']', ']', 0);
    if (counted)
        add_counted_items(c, &a, open, all.end, rule->path);
    else
        add_unrolled_items(c, &a, open, all.end, rule->path);
    return all;
}

struct frag schema_array(struct compiler *c, json_object *schema, const char *path)
{
    struct array_spec a = {.max = UINT32_MAX};
    json_object **key = compiler_alloc(c, 1, sizeof(*key));
    if (!key || !read_array_spec(c, schema, path, &a)) return (struct frag){0, 0};
    *key = schema;
    struct rule rule = {.build = build_array,
                        .first_byte = '[',
                        .schema = schema,
                        .path = path,
                        .key = (const char *)key,
                        .n_key = sizeof(*key)};
    /* arrays with a prefix, or with bounds that need no counter, are unrolled */
    rule.has_counter = !a.n_prefix && a.max > 0 && (a.min > 1 || a.max != UINT32_MAX);
    rule.min = a.min ? a.min - 1 : 0;
    rule.max = a.max == UINT32_MAX || !a.max ? a.max : a.max - 1;
    return compiler_call_rule(c, rule);
}
