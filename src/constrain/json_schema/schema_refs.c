/* SPDX-License-Identifier: Apache-2.0 */
/* Local references of a schema, and whether two schemas are disjoint. */
#include "constrain/json_schema/schema.h"

#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/limits.h"

/* ---- references ---- */

/* Reads a byte of a URI fragment, decoding percent escapes (%41 is A). */
static char next_fragment_byte(const char **at)
{
    const char *text = *at;
    int high = *text == '%' ? hex_digit_value(text[1]) : -1,
        low = high >= 0 ? hex_digit_value(text[2]) : -1;
    *at += low >= 0 ? 3 : 1;
    return low >= 0 ? (char)(high << 4 | low) : *text;
}

/* Reads one token of a JSON pointer in a URI fragment, up to the next slash. Percent
 * escapes are decoded first, then ~0, ~1 and slashes are recognized (RFC 6901, section 6). Returns
 * false if the token is too long or contains %00. */
static bool read_pointer_token(const char **at, char *name, size_t size)
{
    size_t n = 0;
    bool escape = false; /* the last character was ~ */
    while (**at) {
        const char *next = *at;
        char c = next_fragment_byte(&next);
        if (c == '/') break;
        if (!c) return false;
        if (escape && (c == '0' || c == '1')) {
            name[n - 1] = c == '0' ? '~' : '/';
            escape = false;
        } else {
            if (n + 1 >= size) return false;
            name[n++] = c;
            escape = c == '~';
        }
        *at = next;
    }
    name[n] = 0;
    return true;
}

static json_object *pointer_step(json_object *of, const char *name)
{
    char *end;
    if (!json_object_is_type(of, json_type_array)) return json_member(of, name);
    unsigned long i = strtoul(name, &end, 10);
    return *name >= '0' && *name <= '9' && !*end ? json_object_array_get_idx(of, i) : NULL;
}

json_object *schema_at(struct compiler *c, const char *reference)
{
    json_object *at = c->root;
    char name[EY_MAX_PROPERTY_BYTES + 1];
    if (*reference++ != '#') return NULL;
    while (at && *reference) {
        if (next_fragment_byte(&reference) != '/') return NULL;
        if (!read_pointer_token(&reference, name, sizeof(name))) return NULL;
        at = pointer_step(at, name);
    }
    return at;
}

/* ---- disjoint schemas ---- */

/* Comparisons count as visits (compiler.visits). Beyond their limit, schemas are assumed to
 * overlap. */

/* Follows references, and allOf with a single schema, to the final schema. Returns NULL if the
 * reference is circular, points to nothing, or is itself nullable: then overlap is assumed. */
static json_object *resolve_references(struct compiler *c, json_object *schema)
{
    for (int i = 0; i < EY_MAX_SCHEMA_DEPTH; i++) {
        json_object *reference = json_member_of_type(schema, "$ref", json_type_string),
                    *all = json_member_of_type(schema, "allOf", json_type_array);
        if ((reference || all) && schema_is_nullable(schema)) return NULL;
        if (reference)
            schema = schema_at(c, json_object_get_string(reference));
        else if (all && json_object_array_length(all) == 1)
            schema = json_object_array_get_idx(all, 0);
        else
            return schema;
    }
    return NULL;
}

/* Returns the values of enum or const (stored in *one), or NULL if the schema has neither. */
static json_object *const *constants_of(json_object *schema, json_object **one, size_t *n)
{
    json_object *list = json_member_of_type(schema, "enum", json_type_array);
    *n = 1;
    if (json_object_is_type(schema, json_type_object) &&
        json_object_object_get_ex(schema, "const", one))
        return one;
    if (!list || !json_object_array_length(list)) return NULL;
    *n = json_object_array_length(list);
    return (json_object *const *)json_object_get_array(list)->array;
}

/* Whether two constants may be equal; objects and arrays are not compared. */
static bool may_be_same(json_object *a, json_object *b)
{
    bool numbers =
        (json_object_is_type(a, json_type_int) || json_object_is_type(a, json_type_double)) &&
        (json_object_is_type(b, json_type_int) || json_object_is_type(b, json_type_double));
    if (numbers) return json_object_get_double(a) == json_object_get_double(b);
    json_type type = json_object_get_type(a);
    return type == json_object_get_type(b) &&
           (type == json_type_object || type == json_type_array || json_object_equal(a, b));
}

static bool constants_disjoint(struct compiler *c, json_object *a, json_object *b)
{
    json_object *one_a, *one_b;
    size_t n_a, n_b;
    json_object *const *values_a = constants_of(a, &one_a, &n_a), *const *values_b = constants_of(
                                                                      b, &one_b, &n_b);
    if (!values_a || !values_b) return false;
    for (size_t i = 0; i < n_a; i++)
        for (size_t j = 0; j < n_b; j++) {
            if (++c->visits > EY_MAX_SCHEMA_VISITS || may_be_same(values_a[i], values_b[j]))
                return false;
        }
    return true;
}

static bool requires_property(struct compiler *c, json_object *schema, const char *name)
{
    json_object *required = json_member_of_type(schema, "required", json_type_array);
    for (size_t i = 0; required && i < json_object_array_length(required); i++) {
        if (++c->visits > EY_MAX_SCHEMA_VISITS) return false;
        json_object *one = json_object_array_get_idx(required, i);
        if (json_object_is_type(one, json_type_string) &&
            strcmp(json_object_get_string(one), name) == 0)
            return true;
    }
    return false;
}

/* Whether both require a property whose schemas are disjoint. */
static bool objects_disjoint(struct compiler *c, json_object *a, json_object *b)
{
    json_object *properties = json_member_of_type(a, "properties", json_type_object),
                *others = json_member(b, "properties");
    if (!properties || schema_types(a) != TYPE_OBJECT || schema_types(b) != TYPE_OBJECT)
        return false;
    json_object_object_foreach(properties, name, property)
    {
        json_object *other = json_member(others, name);
        if (++c->visits > EY_MAX_SCHEMA_VISITS) return false;
        if (other && requires_property(c, a, name) && requires_property(c, b, name) &&
            constants_disjoint(c, resolve_references(c, property), resolve_references(c, other)))
            return true;
    }
    return false;
}

bool schemas_disjoint(struct compiler *c, json_object *a, json_object *b)
{
    a = resolve_references(c, a);
    b = resolve_references(c, b);
    return (a && b && !(schema_types(a) & schema_types(b))) || constants_disjoint(c, a, b) ||
           objects_disjoint(c, a, b);
}
