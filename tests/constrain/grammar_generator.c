/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas are generated from the outside in. Definitions may refer to each other and to themselves.
 */
#include "constrain/grammar_generator.h"

#include <stdio.h>

enum { DEFINITIONS = 3 };

struct growing {
    uint64_t *state;
    bool recursive; /* references are allowed */
};

uint32_t random_below(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % n);
}

static uint32_t below(struct growing *g, uint32_t n)
{
    return random_below(g->state, n);
}

static bool chance(struct growing *g, uint32_t one_in)
{
    return below(g, one_in) == 0;
}

static void put(json_object *object, const char *key, json_object *value)
{
    json_object_object_add(object, key, value);
}

static json_object *text(const char *s)
{
    return json_object_new_string(s);
}

/* ---- patterns ---- */

static void random_atom(uint64_t *state, struct buf *out, int depth)
{
    static const char *const atoms[] = {"a",   "b",   "7",      "é",  "[a-c]", "[^a-z\\n]",
                                        "\\d", "\\w", ".",      "x-", "\\.",   "[0-9a-f]",
                                        "日",  "\\W", "[\\d_]", "\"", "\\\\",  " "};
    if (depth > 0 && random_below(state, 3) == 0) {
        buf_add_text(out, random_below(state, 2) ? "(" : "(?:");
        random_pattern(state, out, depth - 1);
        buf_add_text(out, ")");
    } else {
        buf_add_text(out, atoms[random_below(state, sizeof(atoms) / sizeof(atoms[0]))]);
    }
}

void random_pattern(uint64_t *state, struct buf *out, int depth)
{
    static const char *const repeats[] = {"*",    "+",     "?",  "{2}", "{1,3}",
                                          "{2,}", "{0,4}", "+?", "*?"};
    uint32_t branches = random_below(state, 4) ? 1 : 2;
    for (uint32_t b = 0; b < branches; b++) {
        if (b) buf_add_text(out, "|");
        for (uint32_t i = random_below(state, 3) + 1; i; i--) {
            random_atom(state, out, depth);
            if (random_below(state, 3) == 0)
                buf_add_text(out,
                             repeats[random_below(state, sizeof(repeats) / sizeof(repeats[0]))]);
        }
    }
}

static json_object *pattern_text(struct growing *g)
{
    struct buf b = buf_with_max(1 << 16);
    bool begin = below(g, 2), end = below(g, 2);
    if (begin) buf_add_text(&b, "^(?:");
    random_pattern(g->state, &b, 2);
    if (begin) buf_add_text(&b, ")");
    if (end && begin) buf_add_text(&b, "$");
    json_object *value = text(b.data);
    buf_free(&b);
    return value;
}

/* ---- scalars ---- */

static json_object *random_constant(struct growing *g, int depth)
{
    static const char *const texts[] = {"",  "a",    "ab",     "abc",         "yes",  "no",
                                        "é", "日本", "a\"b\\", "line\nbreak", "\x01", "/"};
    switch (below(g, depth > 0 ? 9 : 6)) {
    case 0: return NULL;
    case 1: return json_object_new_boolean((int)below(g, 2));
    case 2: return json_object_new_int64((int64_t)below(g, 2000) - 1000);
    case 3: return json_object_new_double(((double)below(g, 2000) - 1000) / 8);
    case 6:
    case 7: {
        json_object *list = json_object_new_array();
        for (uint32_t n = below(g, 3); n; n--)
            json_object_array_add(list, random_constant(g, depth - 1));
        return list;
    }
    case 8: {
        json_object *object = json_object_new_object();
        for (uint32_t n = below(g, 3); n; n--)
            put(object, texts[1 + below(g, 6)], random_constant(g, depth - 1));
        return object;
    }
    default: return text(texts[below(g, sizeof(texts) / sizeof(texts[0]))]);
    }
}

static json_object *constants_schema(struct growing *g)
{
    json_object *schema = json_object_new_object();
    if (chance(g, 3)) {
        put(schema, "const", random_constant(g, 2));
        return schema;
    }
    json_object *list = json_object_new_array();
    for (uint32_t n = below(g, 6) + 1; n; n--)
        json_object_array_add(list, random_constant(g, 2));
    put(schema, "enum", list);
    return schema;
}

static json_object *string_schema(struct growing *g)
{
    static const char *const formats[] = {"date", "time", "date-time", "uuid", "email",
                                          "ipv4", "ipv6", "hostname",  "uri",  "duration"};
    json_object *schema = json_object_new_object();
    put(schema, "type", text("string"));
    uint32_t kind = below(g, 6), min = below(g, 4), max = min + below(g, 12);
    if (kind == 0)
        put(schema, "format", text(formats[below(g, sizeof(formats) / sizeof(formats[0]))]));
    if (kind == 1) put(schema, "pattern", pattern_text(g));
    if (kind == 1 && chance(g, 6)) {
        put(schema, "format", text("hostname"));
        put(schema, "pattern", text("[a-c]{2}(-|\\.)"));
    }
    if (kind < 2 && chance(g, 3)) put(schema, "maxLength", json_object_new_int64(below(g, 40) + 8));
    if (kind == 1 && chance(g, 4)) put(schema, "minLength", json_object_new_int64(below(g, 5)));
    if (kind == 2) {
        put(schema, "pattern", text("^[a-z]{2,8}$"));
        put(schema, "maxLength", json_object_new_int64(5));
    }
    if (kind == 3 || kind == 4) {
        if (chance(g, 2)) put(schema, "minLength", json_object_new_int64(min));
        if (chance(g, 2)) put(schema, "maxLength", json_object_new_int64(max));
    }
    return schema;
}

static json_object *bound(struct growing *g, int64_t around)
{
    static const double odd[] = {0.1, 0.25, 1e-7, 1e20, 123456.789, 0.30000000000000004, 2.5};
    if (chance(g, 3))
        return json_object_new_double((double)around + odd[below(g, sizeof(odd) / sizeof(odd[0]))]);
    return json_object_new_int64(around);
}

static json_object *number_schema(struct growing *g)
{
    static const int64_t scales[] = {1, 10, 1000, 1000000, 1000000000000};
    json_object *schema = json_object_new_object();
    bool integer = chance(g, 2);
    put(schema, "type", text(integer ? "integer" : "number"));
    int64_t scale = scales[below(g, 5)], low = ((int64_t)below(g, 200) - 100) * scale,
            high = low + (int64_t)below(g, 50) * scale;
    if (chance(g, 3)) put(schema, chance(g, 3) ? "exclusiveMinimum" : "minimum", bound(g, low));
    if (chance(g, 3))
        put(schema, chance(g, 3) ? "exclusiveMaximum" : "maximum", bound(g, high + 2));
    if (integer && chance(g, 5)) put(schema, "multipleOf", json_object_new_int64(below(g, 20) + 1));
    return schema;
}

/* ---- containers ---- */

static json_object *any_schema(struct growing *g, int depth);

static json_object *object_schema(struct growing *g, int depth)
{
    static const char *const names[] = {"a", "ab",   "abc", "name", "total_amount",
                                        "é", "b\"q", "x y", "type"};
    json_object *schema = json_object_new_object(), *properties = json_object_new_object(),
                *required = json_object_new_array();
    put(schema, "type", text("object"));
    for (uint32_t n = below(g, 5); n; n--) {
        const char *name = names[below(g, sizeof(names) / sizeof(names[0]))];
        if (json_object_object_get_ex(properties, name, NULL)) continue;
        put(properties, name, any_schema(g, depth - 1));
        if (chance(g, 2)) json_object_array_add(required, text(name));
    }
    put(schema, "properties", properties);
    put(schema, "required", required);
    switch (below(g, 5)) {
    case 0: put(schema, "additionalProperties", any_schema(g, depth - 1)); break;
    case 1: put(schema, "additionalProperties", json_object_new_boolean(1)); break;
    case 2: break;
    default: put(schema, "additionalProperties", json_object_new_boolean(0));
    }
    return schema;
}

static json_object *array_schema(struct growing *g, int depth)
{
    json_object *schema = json_object_new_object();
    uint32_t min = below(g, 4), max = min + below(g, 4);
    put(schema, "type", text("array"));
    if (chance(g, 6)) {
        json_object *prefix = json_object_new_array();
        for (uint32_t n = below(g, 3) + 1; n; n--)
            json_object_array_add(prefix, any_schema(g, depth - 1));
        put(schema, "prefixItems", prefix);
        put(schema, "items", chance(g, 2) ? json_object_new_boolean(0) : any_schema(g, depth - 1));
        return schema;
    }
    put(schema, "items", any_schema(g, depth - 1));
    if (chance(g, 2)) put(schema, "minItems", json_object_new_int64(min));
    if (chance(g, 2)) put(schema, "maxItems", json_object_new_int64(max));
    return schema;
}

/* Two objects with the same first members, distinguished by a constant. */
static json_object *variants_schema(struct growing *g, int depth)
{
    json_object *schema = json_object_new_object(), *list = json_object_new_array();
    for (int i = 0; i < 2; i++) {
        json_object *variant = json_object_new_object();
        json_object *properties = json_object_new_object();
        json_object *tag = json_object_new_object();
        json_object *required = json_object_new_array();
        put(tag, "const", text(i ? "ab" : "a"));
        put(properties, "kind", tag);
        put(properties, "value", any_schema(g, depth - 1));
        json_object_array_add(required, text("kind"));
        if (chance(g, 2)) json_object_array_add(required, text("value"));
        put(variant, "type", text("object"));
        put(variant, "properties", properties);
        put(variant, "required", required);
        put(variant, "additionalProperties", json_object_new_boolean(0));
        json_object_array_add(list, variant);
    }
    put(schema, chance(g, 2) ? "oneOf" : "anyOf", list);
    return schema;
}

static json_object *alternatives_schema(struct growing *g, int depth)
{
    json_object *schema = json_object_new_object(), *list = json_object_new_array();
    for (uint32_t n = below(g, 3) + 2; n; n--)
        json_object_array_add(list, any_schema(g, depth - 1));
    put(schema, "anyOf", list);
    return schema;
}

static json_object *reference_schema(struct growing *g)
{
    char path[32];
    json_object *schema = json_object_new_object();
    snprintf(path, sizeof(path), "#/$defs/d%u", below(g, DEFINITIONS));
    put(schema, "$ref", text(path));
    return schema;
}

static json_object *types_schema(struct growing *g)
{
    static const char *const names[] = {"string", "integer", "number", "boolean",
                                        "null",   "object",  "array"};
    json_object *schema = json_object_new_object(), *list = json_object_new_array();
    for (uint32_t n = below(g, 3) + 1, i = below(g, 7); n; n--, i = (i + 2) % 7)
        json_object_array_add(list, text(names[i]));
    put(schema, "type", list);
    return schema;
}

static json_object *any_schema(struct growing *g, int depth)
{
    json_object *schema;
    uint32_t kind = below(g, depth > 0 ? 14 : 7);
    if (kind == 6 && !g->recursive) kind = 0;
    switch (kind) {
    case 0:
    case 1: schema = string_schema(g); break;
    case 2:
    case 3: schema = number_schema(g); break;
    case 4: schema = constants_schema(g); break;
    case 5: schema = types_schema(g); break;
    case 6: schema = reference_schema(g); break;
    case 7:
    case 8:
    case 9: schema = object_schema(g, depth); break;
    case 10:
    case 11: schema = array_schema(g, depth); break;
    case 12: schema = variants_schema(g, depth); break;
    default: schema = alternatives_schema(g, depth);
    }
    if (chance(g, 12)) put(schema, "description", text("whatever"));
    if (chance(g, 12) &&
        json_object_is_type(json_object_object_get(schema, "type"), json_type_string))
        put(schema, "nullable", json_object_new_boolean(1));
    return schema;
}

json_object *random_schema(uint64_t *state)
{
    struct growing g = {.state = state, .recursive = random_below(state, 2)};
    json_object *schema = object_schema(&g, 3);
    if (!g.recursive)
        return random_below(state, 2) ? schema : (json_object_put(schema), any_schema(&g, 3));
    json_object *definitions = json_object_new_object();
    for (int i = 0; i < DEFINITIONS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "d%d", i);
        put(definitions, name, object_schema(&g, 2));
    }
    put(schema, "$defs", definitions);
    return schema;
}
