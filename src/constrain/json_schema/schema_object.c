/* SPDX-License-Identifier: Apache-2.0 */
/* Objects: members in the order of the schema; members that are not required may be absent. */
#include "constrain/json_schema/schema.h"

#include <string.h>

#include "base/limits.h"
#include "constrain/json_schema/json_grammar.h"

struct property {
    const char *name;
    json_object *schema; /* NULL if `any` */
    bool any;            /* any value */
    bool additional;     /* the schema is additionalProperties */
    bool required;
};

struct object_spec {
    struct property *property;
    const char **names; /* [n] */
    size_t n;
    bool open;               /* other members may follow … */
    json_object *additional; /* … with values of this schema, NULL: any value */
};

static bool read_properties(struct compiler *c, json_object *schema, const char *path,
                            struct object_spec *s)
{
    json_object *properties = json_member(schema, "properties");
    if (!properties) return true;
    if (!json_object_is_type(properties, json_type_object))
        return compiler_fail(c, "%s/properties: it must be an object", path);
    json_object_object_foreach(properties, name, property)
    {
        if (strlen(name) > EY_MAX_PROPERTY_BYTES)
            return compiler_fail(c, "%s/properties: the name \"%.60s…\" is longer than %d bytes",
                                 path, name, EY_MAX_PROPERTY_BYTES);
        s->property[s->n++] = (struct property){.name = name, .schema = property};
    }
    return true;
}

/* A property that is required but has no schema may have any value. */
static bool require_property(struct compiler *c, struct object_spec *s, json_object *name,
                             const char *path)
{
    if (!json_object_is_type(name, json_type_string))
        return compiler_fail(c, "%s/required: it must be a list of names", path);
    const char *text = json_object_get_string(name);
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->property[i].name, text) == 0) return s->property[i].required = true;
    if (strlen(text) > EY_MAX_PROPERTY_BYTES)
        return compiler_fail(c, "%s/required: the name \"%.60s…\" is longer than %d bytes", path,
                             text, EY_MAX_PROPERTY_BYTES);
    s->property[s->n++] = (struct property){.name = text, .any = true, .required = true};
    return true;
}

/* additionalProperties is also the schema of properties that `required` names and `properties` does
 * not. */
static bool read_additional(struct compiler *c, json_object *schema, const char *path,
                            struct object_spec *s)
{
    json_object *additional = NULL;
    bool given = json_object_object_get_ex(schema, "additionalProperties", &additional);
    bool boolean = json_object_is_type(additional, json_type_boolean);
    if (given && !boolean && !json_object_is_type(additional, json_type_object))
        return compiler_fail(c, "%s/additionalProperties: it must be a schema or a boolean", path);
    s->open = given ? !boolean || json_object_get_boolean(additional)
                    : !json_member(schema, "properties");
    s->additional = boolean ? NULL : additional;
    for (size_t i = 0; i < s->n; i++) {
        struct property *p = &s->property[i];
        if (!p->any || !given) continue;
        if (!s->open)
            return compiler_fail(
                c, "%s/required: \"%s\" is not among the properties, and others are not allowed",
                path, p->name);
        p->any = boolean;
        p->additional = true;
        p->schema = s->additional;
    }
    return true;
}

/* Supports only propertyNames that allow every name. */
static bool check_property_names(struct compiler *c, json_object *names, const char *path)
{
    json_object *type = json_member_of_type(names, "type", json_type_string);
    bool any = type && strcmp(json_object_get_string(type), "string") == 0 &&
               json_object_object_length(names) == 1;
    return !names || any ||
           compiler_fail(c, "%s/propertyNames: only {\"type\": \"string\"} is supported", path);
}

static bool read_object_spec(struct compiler *c, json_object *schema, const char *path,
                             struct object_spec *s)
{
    json_object *properties = json_member(schema, "properties"),
                *required = json_member(schema, "required");
    size_t n = json_object_is_type(properties, json_type_object)
                   ? (size_t)json_object_object_length(properties)
                   : 0;
    if (!check_property_names(c, json_member(schema, "propertyNames"), path)) return false;
    if (required && !json_object_is_type(required, json_type_array))
        return compiler_fail(c, "%s/required: it must be a list of names", path);
    size_t n_required = required ? json_object_array_length(required) : 0, most = n + n_required;
    if (n > EY_MAX_SCHEMA_BRANCHES || n_required > EY_MAX_SCHEMA_BRANCHES)
        return compiler_fail(c, "%s/%s: %zu are more than the limit of %d", path,
                             n > EY_MAX_SCHEMA_BRANCHES ? "properties" : "required",
                             n > EY_MAX_SCHEMA_BRANCHES ? n : n_required, EY_MAX_SCHEMA_BRANCHES);
    *s = (struct object_spec){.property = compiler_alloc(c, most, sizeof(*s->property)),
                              .names = compiler_alloc(c, most, sizeof(*s->names))};
    if (c->failed || !read_properties(c, schema, path, s)) return false;
    for (size_t i = 0; required && i < json_object_array_length(required); i++)
        if (!require_property(c, s, json_object_array_get_idx(required, i), path)) return false;
    for (size_t i = 0; i < s->n; i++)
        s->names[i] = s->property[i].name;
    return read_additional(c, schema, path, s);
}

static struct frag property_value(struct compiler *c, const struct property *p, const char *path)
{
    if (p->any) return json_any_value(c);
    return schema_value(c, p->schema,
                        p->additional ? compiler_printf(c, "%s/additionalProperties", path)
                                      : compiler_printf(c, "%s/properties/%s", path, p->name));
}

/* States before the next property: behind the brace, behind a comma, and behind a member, where a
 * comma or the end follows. */
struct member_states {
    uint32_t first, comma, member;
};

static struct member_states new_member_states(struct nfa *nfa)
{
    uint32_t first = nfa_add_state(nfa), comma = nfa_add_state(nfa);
    return (struct member_states){first, comma, nfa_add_state(nfa)};
}

/* Returns the state before a key, which follows the brace, a comma, or a member and a comma. */
static uint32_t key_state(struct compiler *c, struct member_states at)
{
    uint32_t key = nfa_add_state(&c->nfa);
    nfa_add_epsilon(&c->nfa, at.first, key);
    nfa_add_epsilon(&c->nfa, at.comma, key);
    nfa_add_epsilon(&c->nfa, json_optional_space(c, nfa_add_bytes(&c->nfa, at.member, ",", 1)),
                    at.comma);
    return key;
}

/* Adds a property between the states before and behind it. */
static void add_property(struct compiler *c, struct member_states at, struct member_states next,
                         const struct property *p, const char *path)
{
    struct nfa *nfa = &c->nfa;
    uint32_t key = key_state(c, at);
    struct frag value = property_value(c, p, path);
    nfa_add_epsilon(nfa, json_key(c, key, p->name), value.start);
    nfa_add_epsilon(nfa, value.end, next.member);
    if (!p->required) {
        nfa_add_epsilon(nfa, at.first, next.first);
        nfa_add_epsilon(nfa, at.comma, next.comma);
    }
}

static void add_additional_properties(struct compiler *c, struct member_states at,
                                      const struct object_spec *s, const char *path)
{
    struct nfa *nfa = &c->nfa;
    uint32_t behind = json_other_key(c, key_state(c, at), s->names, s->n);
    struct frag value = s->additional
                            ? schema_value(c, s->additional,
                                           compiler_printf(c, "%s/additionalProperties", path))
                            : json_any_value(c);
    nfa_add_epsilon(nfa, behind, value.start);
    nfa_add_epsilon(nfa, value.end, at.member);
}

static struct frag build_object(struct compiler *c, const struct rule *rule, bool counted)
{
    (void)counted;
    struct object_spec s = {0};
    struct frag all = nfa_new_frag(&c->nfa);
    if (!read_object_spec(c, rule->schema, rule->path, &s)) return all;
    struct member_states *member_states = compiler_alloc(c, s.n + 1, sizeof(*member_states));
    for (size_t i = 0; i <= s.n && member_states; i++)
        member_states[i] = new_member_states(&c->nfa);
    for (size_t i = 0; i < s.n && compiler_ok(c); i++)
        add_property(c, member_states[i], member_states[i + 1], &s.property[i], rule->path);
    if (!compiler_ok(c)) return all;
    if (s.open) add_additional_properties(c, member_states[s.n], &s, rule->path);
    nfa_add_epsilon(&c->nfa, nfa_add_bytes(&c->nfa, all.start, "{", 1), member_states[0].first);
    nfa_add_span(&c->nfa, member_states[s.n].first, all.end, '}', '}', 0);
    /* Every member state after the last required property needs a "}" of its own, because member
     * states, unlike comma states, have no edges that skip optional properties. */
    for (size_t i = s.n;; i--) {
        nfa_add_span(&c->nfa, member_states[i].member, all.end, '}', '}', 0);
        if (!i || s.property[i - 1].required) return all;
    }
}

struct frag schema_object(struct compiler *c, json_object *schema, const char *path)
{
    json_object **key = compiler_alloc(c, 1, sizeof(*key));
    if (!key) return (struct frag){0, 0};
    *key = schema;
    return compiler_call_rule(c, (struct rule){.build = build_object,
                                               .first_byte = '{',
                                               .schema = schema,
                                               .path = path,
                                               .key = (const char *)key,
                                               .n_key = sizeof(*key)});
}
