/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays: prefixItems (or a list as `items`) one by one, then any number of `items` within the
 * bounds. */
#include "base/limits.h"
#include "constrain/compile.h"

struct items {
    json_object *prefix; /* list; NULL: none */
    size_t n_prefix;
    bool more;         /* others may follow … */
    json_object *each; /* … of this schema; NULL: any value */
    const char *each_name;
    uint32_t min, max;
};

static bool read_bounds(struct compiler *c, json_object *schema, const char *path, struct items *a)
{
    json_object *unique = json_member(schema, "uniqueItems");
    if (unique && json_object_get_boolean(unique))
        return compiler_fail(c, "%s: the keyword \"uniqueItems\" is not supported", path);
    if (!schema_count(c, schema, path, "minItems", &a->min) ||
        !schema_count(c, schema, path, "maxItems", &a->max))
        return false;
    if (!a->more && a->max > a->n_prefix) a->max = (uint32_t)a->n_prefix;
    return a->min <= a->max || compiler_fail(c, "%s: no array has at least %u and at most %u items",
                                             path, a->min, a->max);
}

static bool read_items(struct compiler *c, json_object *schema, const char *path, struct items *a)
{
    json_object *each = NULL, *prefix = json_member(schema, "prefixItems");
    a->each_name = "items";
    bool given = json_object_object_get_ex(schema, "items", &each);
    if (json_object_is_type(each, json_type_array)) { /* as before 2020-12 */
        if (prefix)
            return compiler_fail(
                c, "%s: a list as \"items\" beside \"prefixItems\" is not supported", path);
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
    a->more = given ? !boolean || json_object_get_boolean(each) : !a->n_prefix;
    a->each = boolean ? NULL : each;
    if (a->n_prefix > EY_MAX_SCHEMA_BRANCHES)
        return compiler_fail(c, "%s/prefixItems: %zu are more than the limit of %d", path,
                             a->n_prefix, EY_MAX_SCHEMA_BRANCHES);
    return read_bounds(c, schema, path, a);
}

static struct frag each_item(struct compiler *c, const struct items *a, const char *path)
{
    return a->each ? schema_value(c, a->each, compiler_print(c, "%s/%s", path, a->each_name))
                   : json_any(c);
}

/* A comma, a blank, and what f holds: f's states are all those from `begin` on. */
static struct frag after_comma(struct compiler *c, struct frag f)
{
    uint32_t start = net_state(&c->net);
    net_empty(&c->net, json_blank(c, net_bytes(&c->net, start, ",", 1)), f.start);
    return (struct frag){start, f.end};
}

/* Items that are alike, in one loop; the counter counts commas. */
static void add_counted(struct compiler *c, const struct items *a, uint32_t open, uint32_t end,
                        const char *path)
{
    struct net *net = &c->net;
    struct frag item = each_item(c, a, path);
    uint32_t comma = net_state(net);
    net_empty(net, open, item.start);
    net_span(net, item.end, comma, ',', ',', NET_COUNTS);
    net_empty(net, json_blank(c, comma), item.start);
    net_span(net, item.end, end, ']', ']', NET_CLOSES);
}

/* Items one by one; `open` is behind the bracket. */
static void add_spelled(struct compiler *c, const struct items *a, uint32_t open, uint32_t end,
                        const char *path)
{
    struct net *net = &c->net;
    uint32_t at = open, i = 0;
    for (; i < a->n_prefix && i < a->max && compiler_ok(c); i++) {
        struct frag item = schema_value(c, json_object_array_get_idx(a->prefix, i),
                                        compiler_print(c, "%s/prefixItems/%u", path, i));
        if (i) item = after_comma(c, item);
        net_empty(net, at, item.start);
        at = item.end;
        if (i + 1 >= a->min) net_span(net, at, end, ']', ']', 0);
    }
    if (!a->more || i >= a->max) return;
    if (!i) { /* the first has no comma */
        struct frag item = each_item(c, a, path);
        net_empty(net, at, item.start);
        at = item.end;
        i = 1;
        if (a->min <= 1) net_span(net, at, end, ']', ']', 0);
    }
    uint32_t begin = net->n_states;
    struct frag rest = after_comma(c, each_item(c, a, path));
    rest = net_repeat(net, begin, rest, a->min > i ? a->min - i : 0,
                      a->max == UINT32_MAX ? UINT32_MAX : a->max - i);
    net_empty(net, at, rest.start);
    net_span(net, rest.end, end, ']', ']', 0);
}

static struct frag build_array(struct compiler *c, const struct rule *rule, bool counted)
{
    struct items a = {.max = UINT32_MAX};
    struct frag all = net_frag(&c->net);
    uint32_t open = net_bytes(&c->net, all.start, "[", 1);
    if (!read_items(c, rule->schema, rule->path, &a)) return all;
    if (!a.min) net_span(&c->net, open, all.end, ']', ']', 0);
    if (counted)
        add_counted(c, &a, open, all.end, rule->path);
    else
        add_spelled(c, &a, open, all.end, rule->path);
    return all;
}

struct frag schema_array(struct compiler *c, json_object *schema, const char *path)
{
    struct items a = {.max = UINT32_MAX};
    json_object **key = compiler_alloc(c, 1, sizeof(*key));
    if (!key || !read_items(c, schema, path, &a)) return (struct frag){0, 0};
    *key = schema;
    struct rule rule = {.build = build_array,
                        .opens = '[',
                        .schema = schema,
                        .path = path,
                        .key = (const char *)key,
                        .n_key = sizeof(*key)};
    /* items that differ, and bounds that need no counting, are spelled out */
    rule.has_counter = !a.n_prefix && a.max > 0 && (a.min > 1 || a.max != UINT32_MAX);
    rule.min = a.min ? a.min - 1 : 0;
    rule.max = a.max == UINT32_MAX || !a.max ? a.max : a.max - 1;
    return compiler_call(c, rule);
}
