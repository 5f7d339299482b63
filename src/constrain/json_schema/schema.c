/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles a JSON schema to an NFA: keywords, references, alternatives and types.
 *
 * Where a schema can be read in two ways, the narrower one applies, so answers stay valid. An
 * object with `properties` has no others unless additionalProperties allows them, members come in
 * the order of the schema, and an array with prefixItems has no further items unless `items`
 * describes them. */
#include "constrain/json_schema/schema.h"

#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "constrain/json_schema/json_grammar.h"

static const struct {
    const char *name;
    unsigned type;
} types[] = {{"object", TYPE_OBJECT},
             {"array", TYPE_ARRAY},
             {"string", TYPE_STRING},
             {"integer", TYPE_INTEGER},
             {"number", TYPE_INTEGER | TYPE_NUMBER},
             {"boolean", TYPE_BOOLEAN},
             {"null", TYPE_NULL}};

/* The role of a keyword. */
enum keyword_role {
    NO_CONSTRAINT, /* does not constrain the value, or is read with another keyword */
    CHOOSES_VALUE, /* determines the value alone: a schema may have one such keyword */
    NAMES_TYPES,
    OF_OBJECTS,
    OF_ARRAYS,
    OF_STRINGS,
    OF_NUMBERS,
};

static const struct {
    const char *name;
    enum keyword_role role;
} keywords[] = {
    {"$schema", NO_CONSTRAINT},
    {"$id", NO_CONSTRAINT},
    {"$comment", NO_CONSTRAINT},
    {"$defs", NO_CONSTRAINT},
    {"definitions", NO_CONSTRAINT},
    {"title", NO_CONSTRAINT},
    {"description", NO_CONSTRAINT},
    {"default", NO_CONSTRAINT},
    {"example", NO_CONSTRAINT},
    {"examples", NO_CONSTRAINT},
    {"deprecated", NO_CONSTRAINT},
    {"readOnly", NO_CONSTRAINT},
    {"writeOnly", NO_CONSTRAINT},
    {"discriminator", NO_CONSTRAINT},
    {"contentMediaType", NO_CONSTRAINT},
    {"contentEncoding", NO_CONSTRAINT},
    {"$ref", CHOOSES_VALUE},
    {"allOf", CHOOSES_VALUE},
    {"anyOf", CHOOSES_VALUE},
    {"oneOf", CHOOSES_VALUE},
    {"enum", CHOOSES_VALUE},
    {"const", CHOOSES_VALUE},
    {"type", NAMES_TYPES},
    {"nullable", NAMES_TYPES},
    {"properties", OF_OBJECTS},
    {"required", OF_OBJECTS},
    {"additionalProperties", OF_OBJECTS},
    {"propertyNames", OF_OBJECTS},
    {"items", OF_ARRAYS},
    {"prefixItems", OF_ARRAYS},
    {"additionalItems", OF_ARRAYS},
    {"minItems", OF_ARRAYS},
    {"maxItems", OF_ARRAYS},
    {"uniqueItems", OF_ARRAYS},
    {"minLength", OF_STRINGS},
    {"maxLength", OF_STRINGS},
    {"pattern", OF_STRINGS},
    {"format", OF_STRINGS},
    {"minimum", OF_NUMBERS},
    {"maximum", OF_NUMBERS},
    {"exclusiveMinimum", OF_NUMBERS},
    {"exclusiveMaximum", OF_NUMBERS},
    {"multipleOf", OF_NUMBERS},
};

/* Summary of a schema's keywords. */
struct schema_outline {
    const char *chooser; /* a CHOOSES_VALUE keyword */
    const char *other;   /* another keyword that constrains the value, except `type` */
    unsigned implied;    /* types that the keywords apply to */
};

static bool note_keyword(struct compiler *c, struct schema_outline *o, const char *name,
                         const char *path)
{
    static const unsigned implied[] = {[OF_OBJECTS] = TYPE_OBJECT,
                                       [OF_ARRAYS] = TYPE_ARRAY,
                                       [OF_STRINGS] = TYPE_STRING,
                                       [OF_NUMBERS] = TYPE_INTEGER | TYPE_NUMBER};
    for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++) {
        if (strcmp(keywords[i].name, name) != 0) continue;
        enum keyword_role role = keywords[i].role;
        if (role == CHOOSES_VALUE && !o->chooser)
            o->chooser = name;
        else if (role >= OF_OBJECTS || role == CHOOSES_VALUE) {
            o->other = name;
            o->implied |= implied[role == CHOOSES_VALUE ? NAMES_TYPES : role];
        }
        return true;
    }
    if (strncmp(name, "x-", 2) == 0) return true; /* OpenAPI's extensions */
    return compiler_fail(c, "%s: the keyword \"%s\" is not supported", path, name);
}

static bool read_outline(struct compiler *c, json_object *schema, const char *path,
                         struct schema_outline *o)
{
    *o = (struct schema_outline){0};
    json_object_object_foreach(schema, name, value)
    {
        (void)value;
        if (!note_keyword(c, o, name, path)) return false;
    }
    if (o->chooser && o->other)
        return compiler_fail(c, "%s: \"%s\" with \"%s\" is not supported", path, o->other,
                             o->chooser);
    return true;
}

/* ---- types ---- */

/* Returns the bits of a type's name, or 0 if it is not a type. */
static unsigned type_named(json_object *name)
{
    const char *text = json_object_is_type(name, json_type_string) ? json_object_get_string(name)
                                                                   : "";
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].name, text) == 0) return types[i].type;
    return 0;
}

static bool add_type(struct compiler *c, json_object *name, const char *path, unsigned *set)
{
    unsigned type = type_named(name);
    *set |= type;
    return type ||
           compiler_fail(
               c,
               "%s/type: %.60s is not a type; the types are object, array, string, integer, "
               "number, boolean and null",
               path, json_object_to_json_string_ext(name, JSON_C_TO_STRING_PLAIN));
}

bool schema_is_nullable(json_object *schema)
{
    json_object *nullable = json_member_of_type(schema, "nullable", json_type_boolean);
    return nullable && json_object_get_boolean(nullable);
}

/* Reads the types that `type` and `nullable` allow, `otherwise` if there is no `type`. */
static bool read_types(struct compiler *c, json_object *schema, const char *path,
                       unsigned otherwise, unsigned *set)
{
    json_object *type = json_member(schema, "type");
    *set = type ? 0 : otherwise;
    if (json_object_is_type(type, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(type); i++)
            if (!add_type(c, json_object_array_get_idx(type, i), path, set)) return false;
    } else if (type && !add_type(c, type, path, set)) {
        return false;
    }
    if (schema_is_nullable(schema)) *set |= TYPE_NULL;
    return *set || compiler_fail(c, "%s/type: the list has no types", path);
}

static unsigned type_of_value(json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_object: return TYPE_OBJECT;
    case json_type_array: return TYPE_ARRAY;
    case json_type_string: return TYPE_STRING;
    case json_type_int: return TYPE_INTEGER;
    case json_type_double: {
        double d = json_object_get_double(value);
        return isfinite(d) && d == floor(d) ? TYPE_INTEGER : TYPE_NUMBER;
    }
    case json_type_boolean: return TYPE_BOOLEAN;
    default: return TYPE_NULL;
    }
}

unsigned schema_types(json_object *schema)
{
    json_object *type = json_member(schema, "type"),
                *list = json_member_of_type(schema, "enum", json_type_array), *constant = NULL;
    unsigned set = schema_is_nullable(schema) ? TYPE_NULL : 0;
    if (json_object_is_type(type, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(type); i++)
            set |= type_named(json_object_array_get_idx(type, i));
    } else if (type) {
        set |= type_named(type);
    } else if (json_object_is_type(schema, json_type_object) &&
               json_object_object_get_ex(schema, "const", &constant)) {
        set |= type_of_value(constant);
    } else if (list) {
        for (size_t i = 0; i < json_object_array_length(list); i++)
            set |= type_of_value(json_object_array_get_idx(list, i));
    } else {
        set = ALL_TYPES;
    }
    return set;
}

static struct frag value_of_types(struct compiler *c, json_object *schema, const char *path,
                                  unsigned set)
{
    struct frag kinds[8];
    size_t n = 0;
    if (set & TYPE_OBJECT) kinds[n++] = schema_object(c, schema, path);
    if (set & TYPE_ARRAY) kinds[n++] = schema_array(c, schema, path);
    if (set & TYPE_STRING) kinds[n++] = schema_string(c, schema, path);
    if (set & (TYPE_NUMBER | TYPE_INTEGER))
        kinds[n++] = schema_number(c, schema, path, !(set & TYPE_NUMBER));
    if (set & TYPE_BOOLEAN) {
        kinds[n++] = json_literal(c, "true", 4);
        kinds[n++] = json_literal(c, "false", 5);
    }
    if (set & TYPE_NULL) kinds[n++] = json_literal(c, "null", 4);
    return nfa_union(&c->nfa, kinds, n);
}

/* ---- constants ---- */

static struct frag value_of_constants(struct compiler *c, json_object *schema,
                                      json_object *const *values, size_t n, const char *path)
{
    unsigned allowed;
    struct frag *kinds = compiler_alloc(c, n + 1, sizeof(*kinds));
    json_object **texts = compiler_alloc(c, n, sizeof(*texts));
    size_t n_kinds = 0, n_texts = 0;
    if (!kinds || !texts || !read_types(c, schema, path, ALL_TYPES, &allowed))
        return (struct frag){0, 0};
    for (size_t i = 0; i < n && !c->failed; i++) {
        unsigned type = type_of_value(values[i]);
        if (!(type & allowed)) continue;
        if (type == TYPE_STRING)
            texts[n_texts++] = values[i];
        else
            kinds[n_kinds++] = json_constant(c, values[i], path);
    }
    if (n_texts)
        kinds[n_kinds++] = json_string(
            c, (struct string_spec){.max = UINT32_MAX, .values = texts, .n_values = n_texts}, path);
    if (!n_kinds) compiler_fail(c, "%s: no value of the enum or const has the type", path);
    return c->failed ? (struct frag){0, 0} : nfa_union(&c->nfa, kinds, n_kinds);
}

static struct frag value_of_enum(struct compiler *c, json_object *schema, json_object *list,
                                 const char *path)
{
    size_t n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    json_object **values = compiler_alloc(c, n, sizeof(*values));
    if (!n) compiler_fail(c, "%s/enum: it must be a list of at least one value", path);
    for (size_t i = 0; i < n && values; i++)
        values[i] = json_object_array_get_idx(list, i);
    return c->failed ? (struct frag){0, 0} : value_of_constants(c, schema, values, n, path);
}

/* ---- alternatives ---- */

/* oneOf is compiled as anyOf, which is the same only if its schemas are pairwise disjoint. Any
 * other oneOf is an error. */
static bool check_disjoint(struct compiler *c, json_object *list, size_t n, const char *path)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            if (!schemas_disjoint(c, json_object_array_get_idx(list, i),
                                  json_object_array_get_idx(list, j)))
                return compiler_fail(c,
                                     "%s/oneOf: values may be valid for both %zu and %zu, which is "
                                     "not supported; use anyOf, or give both a "
                                     "required property with different constants",
                                     path, j, i);
    return true;
}

static struct frag value_of_alternatives(struct compiler *c, json_object *schema, json_object *list,
                                         const char *name, const char *path)
{
    size_t n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    struct frag *branches = compiler_alloc(c, n + 1, sizeof(*branches));
    json_object *type = json_member(schema, "type");
    if (!n) compiler_fail(c, "%s/%s: it must be a list of at least one schema", path, name);
    if (type) compiler_fail(c, "%s: \"type\" with \"%s\" is not supported", path, name);
    if (strcmp(name, "allOf") == 0 && n > 1)
        compiler_fail(c, "%s/allOf: more than one schema is not supported", path);
    if (n > EY_MAX_SCHEMA_BRANCHES)
        compiler_fail(c, "%s/%s: %zu schemas are more than the limit of %d", path, name, n,
                      EY_MAX_SCHEMA_BRANCHES);
    if (c->failed || (strcmp(name, "oneOf") == 0 && !check_disjoint(c, list, n, path)))
        return (struct frag){0, 0};
    for (size_t i = 0; i < n && !c->failed; i++)
        branches[i] = schema_value(c, json_object_array_get_idx(list, i),
                                   compiler_printf(c, "%s/%s/%zu", path, name, i));
    if (schema_is_nullable(schema)) branches[n++] = json_literal(c, "null", 4);
    return c->failed ? (struct frag){0, 0} : nfa_union(&c->nfa, branches, n);
}

static struct frag value_of_reference(struct compiler *c, json_object *schema,
                                      json_object *reference, const char *path)
{
    const char *text = json_object_is_type(reference, json_type_string)
                           ? json_object_get_string(reference)
                           : "";
    json_object *target = schema_at(c, text);
    if (json_member(schema, "type"))
        compiler_fail(c, "%s: \"type\" with \"$ref\" is not supported", path);
    if (!target)
        compiler_fail(c,
                      "%s/$ref: \"%.200s\" is not in this schema; only local references "
                      "(\"#/$defs/…\") are supported",
                      path, text);
    if (c->failed) return (struct frag){0, 0};
    struct frag both[2] = {schema_value(c, target, compiler_printf(c, "%.300s", text))};
    if (!schema_is_nullable(schema)) return both[0];
    both[1] = json_literal(c, "null", 4);
    return nfa_union(&c->nfa, both, 2);
}

/* ---- a schema ---- */

static struct frag value_of_chooser(struct compiler *c, json_object *schema, const char *name,
                                    const char *path)
{
    json_object *value = NULL;
    json_object_object_get_ex(schema, name, &value);
    if (strcmp(name, "$ref") == 0) return value_of_reference(c, schema, value, path);
    if (strcmp(name, "const") == 0) return value_of_constants(c, schema, &value, 1, path);
    if (strcmp(name, "enum") == 0) return value_of_enum(c, schema, value, path);
    return value_of_alternatives(c, schema, value, name, path);
}

static struct frag value_of_object(struct compiler *c, json_object *schema, const char *path)
{
    struct schema_outline o;
    unsigned set;
    if (!read_outline(c, schema, path, &o)) return (struct frag){0, 0};
    if (o.chooser) return value_of_chooser(c, schema, o.chooser, path);
    if (!json_member(schema, "type") && !o.implied) return json_any_value(c);
    return read_types(c, schema, path, o.implied, &set) ? value_of_types(c, schema, path, set)
                                                        : (struct frag){0, 0};
}

struct frag schema_value(struct compiler *c, json_object *schema, const char *path)
{
    if (!compiler_ok(c)) return (struct frag){0, 0};
    if (++c->visits > EY_MAX_SCHEMA_VISITS)
        compiler_fail(
            c,
            "%s: references lead to more than %d schemas in total; use fewer alternatives "
            "that refer to others",
            path, EY_MAX_SCHEMA_VISITS);
    if (c->depth >= EY_MAX_SCHEMA_DEPTH)
        compiler_fail(c,
                      "%s: it refers to itself without an object or array between, or alternatives "
                      "are nested deeper than %d",
                      path, EY_MAX_SCHEMA_DEPTH);
    if (json_object_is_type(schema, json_type_boolean))
        return json_object_get_boolean(schema) ? json_any_value(c) : nfa_new_frag(&c->nfa);
    if (!json_object_is_type(schema, json_type_object))
        compiler_fail(c, "%s: a schema must be an object or a boolean", path);
    if (c->failed) return (struct frag){0, 0};
    c->depth++;
    struct frag f = value_of_object(c, schema, path);
    c->depth--;
    return f;
}

/* json-c's keys end at a NUL, so distinct keys could become equal. */
static bool has_nul_escape(const char *json, size_t n)
{
    for (size_t i = 0; i + 5 < n; i++) {
        if (json[i] != '\\') continue;
        if (memcmp(json + i, "\\u0000", 6) == 0) return true;
        i++;
    }
    return false;
}

struct frag schema_root(struct compiler *c, const char *json, size_t n)
{
    struct document *d = compiler_alloc(c, 1, sizeof(*d));
    if (n > EY_MAX_SCHEMA_BYTES)
        compiler_fail(c, "a JSON schema of %zu bytes is larger than the limit of %d", n,
                      EY_MAX_SCHEMA_BYTES);
    if (has_nul_escape(json, n))
        compiler_fail(c, "the character \\u0000 in a JSON schema is not supported");
    if (c->failed) return (struct frag){0, 0};
    d->root = json_parse(json, n, "JSON schema", EY_BAD_REQUEST, c->e);
    if (!d->root) {
        c->failed = true;
        return (struct frag){0, 0};
    }
    d->next = c->documents;
    c->documents = d;
    c->root = d->root;
    struct frag f = schema_value(c, d->root, "#");
    /* build this document's rules while its references can be resolved */
    while (!c->failed && c->n_built < c->n_rules) {
        uint32_t i = c->n_built++;
        if (!c->rules[i].built) compiler_build_rule(c, i, c->rules[i].has_counter);
    }
    return f;
}
