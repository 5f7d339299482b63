/* SPDX-License-Identifier: Apache-2.0 */
/* Recursion over schema and value; PCRE2 matches the patterns. */
#include "constrain/schema_checker.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { WHY = 200 };

struct check {
    json_object *root;
    char *why;
};

static bool check(struct check *c, json_object *schema, json_object *value);

static bool no(struct check *c, const char *keyword, json_object *value)
{
    snprintf(c->why, WHY, "%s: %.150s", keyword,
             json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN));
    return false;
}

static json_object *get(json_object *object, const char *key)
{
    json_object *value = NULL;
    if (json_object_is_type(object, json_type_object))
        json_object_object_get_ex(object, key, &value);
    return value;
}

bool checker_matches(const char *pattern, const char *text, size_t n, bool anywhere)
{
    int error;
    PCRE2_SIZE offset;
    uint32_t options = PCRE2_UTF | PCRE2_DOLLAR_ENDONLY |
                       (anywhere ? 0 : PCRE2_ANCHORED | PCRE2_ENDANCHORED);
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, options, &error,
                                     &offset, NULL);
    if (!code) {
        fprintf(stderr, "PCRE2 does not read %s\n", pattern);
        abort();
    }
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    /* pcre2_dfa_match does not backtrack: random patterns make the other matcher take forever */
    static int workspace[1 << 18];
    int found = pcre2_dfa_match(code, (PCRE2_SPTR)text, n, 0, 0, match, NULL, workspace,
                                sizeof(workspace) / sizeof(workspace[0]));
    pcre2_match_data_free(match);
    pcre2_code_free(code);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
        fprintf(stderr, "PCRE2 gives up (%d) on %s\n", found, pattern);
        abort();
    }
    return found >= 0;
}

static bool is_number(json_object *v)
{
    return json_object_is_type(v, json_type_int) || json_object_is_type(v, json_type_double);
}

static bool has_type(json_object *value, const char *type)
{
    static const struct {
        const char *name;
        json_type type;
    } types[] = {{"object", json_type_object},
                 {"array", json_type_array},
                 {"string", json_type_string},
                 {"boolean", json_type_boolean},
                 {"null", json_type_null}};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].name, type) == 0) return json_object_is_type(value, types[i].type);
    if (!is_number(value)) return false;
    double d = json_object_get_double(value);
    return strcmp(type, "number") == 0 || d == floor(d);
}

static bool check_type(struct check *c, json_object *schema, json_object *value)
{
    json_object *type = get(schema, "type"), *nullable = get(schema, "nullable");
    if (!type || (!value && nullable && json_object_get_boolean(nullable))) return true;
    if (json_object_is_type(type, json_type_string))
        return has_type(value, json_object_get_string(type)) || no(c, "type", value);
    for (size_t i = 0; i < json_object_array_length(type); i++)
        if (has_type(value, json_object_get_string(json_object_array_get_idx(type, i))))
            return true;
    return no(c, "type", value);
}

static bool equal(json_object *a, json_object *b)
{
    return is_number(a) && is_number(b) ? json_object_get_double(a) == json_object_get_double(b)
                                        : json_object_equal(a, b);
}

static bool check_constants(struct check *c, json_object *schema, json_object *value)
{
    json_object *list = get(schema, "enum"), *constant;
    if (json_object_object_get_ex(schema, "const", &constant) && !equal(constant, value))
        return no(c, "const", value);
    if (!list) return true;
    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (equal(json_object_array_get_idx(list, i), value)) return true;
    return no(c, "enum", value);
}

static bool check_combined(struct check *c, json_object *schema, json_object *value)
{
    static const char *const names[] = {"allOf", "anyOf", "oneOf"};
    for (int k = 0; k < 3; k++) {
        json_object *list = get(schema, names[k]), *nullable = get(schema, "nullable");
        if (!list || (!value && nullable && json_object_get_boolean(nullable))) continue;
        size_t valid = 0, n = json_object_array_length(list);
        for (size_t i = 0; i < n; i++)
            valid += check(c, json_object_array_get_idx(list, i), value);
        if (k == 0 ? valid < n : k == 1 ? valid < 1 : valid != 1) return no(c, names[k], value);
    }
    return true;
}

static bool check_ref(struct check *c, json_object *schema, json_object *value)
{
    json_object *ref = get(schema, "$ref"), *at = c->root, *nullable = get(schema, "nullable");
    if (!ref || (!value && nullable && json_object_get_boolean(nullable))) return true;
    char path[300];
    snprintf(path, sizeof(path), "%s", json_object_get_string(ref) + 1);
    for (char *name = strtok(path, "/"); name; name = strtok(NULL, "/"))
        at = get(at, name);
    return check(c, at, value);
}

static size_t code_points(const char *text, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* Checks that the day exists and that all parts have their lengths, which shows that a format was
 * followed. */
static bool check_format(const char *format, const char *text)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    static const char *const simple[][2] = {
        {"time", "\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?(Z|[+-]\\d\\d:\\d\\d)"},
        {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
        {"email", "[^@ ]+@[^@ ]+\\.[^@ .]+"},
        {"ipv4", "([0-9]{1,3}\\.){3}[0-9]{1,3}"},
        {"ipv6", "[0-9a-fA-F:]{2,39}"},
        {"hostname", "[A-Za-z0-9.-]{1,255}"},
        {"uri", "[A-Za-z][A-Za-z0-9+.-]*://[^ \"<>]+"},
        {"duration", "P(\\d+W|(\\d+Y)?(\\d+M)?(\\d+D)?(T(\\d+H)?(\\d+M)?(\\d+S)?)?)"},
    };
    int year, month, day, read = 0;
    if (strncmp(format, "date", 4) == 0) {
        if (sscanf(text, "%4d-%2d-%2d%n", &year, &month, &day, &read) != 3 || read != 10 ||
            month < 1 || month > 12)
            return false;
        bool leap = year % 4 == 0 && (year % 100 || year % 400 == 0);
        if (day < 1 || day > days[month - 1] + (month == 2 && leap)) return false;
        return format[4] ? text[10] == 'T' && check_format("time", text + 11) : !text[10];
    }
    for (size_t i = 0; i < sizeof(simple) / sizeof(simple[0]); i++)
        if (strcmp(simple[i][0], format) == 0)
            return checker_matches(simple[i][1], text, strlen(text), false);
    return false;
}

static bool check_string(struct check *c, json_object *schema, json_object *value)
{
    json_object *min = get(schema, "minLength"), *max = get(schema, "maxLength"),
                *pattern = get(schema, "pattern"), *format = get(schema, "format");
    if (!json_object_is_type(value, json_type_string)) return true;
    const char *text = json_object_get_string(value);
    size_t bytes = (size_t)json_object_get_string_len(value), n = code_points(text, bytes);
    if (min && n < (size_t)json_object_get_int64(min)) return no(c, "minLength", value);
    if (max && n > (size_t)json_object_get_int64(max)) return no(c, "maxLength", value);
    if (pattern && !checker_matches(json_object_get_string(pattern), text, bytes, true))
        return no(c, "pattern", value);
    return !format || check_format(json_object_get_string(format), text) || no(c, "format", value);
}

static bool check_number(struct check *c, json_object *schema, json_object *value)
{
    static const char *const names[] = {"minimum", "maximum", "exclusiveMinimum",
                                        "exclusiveMaximum", "multipleOf"};
    if (!is_number(value)) return true;
    double d = json_object_get_double(value);
    if (!isfinite(d)) return no(c, "finite", value);
    for (int i = 0; i < 5; i++) {
        json_object *bound = get(schema, names[i]);
        if (!bound) continue;
        double b = json_object_get_double(bound);
        if (!(i == 0   ? d >= b
              : i == 1 ? d <= b
              : i == 2 ? d > b
              : i == 3 ? d < b
                       : d / b == floor(d / b)))
            return no(c, names[i], value);
    }
    return true;
}

static bool check_array(struct check *c, json_object *schema, json_object *value)
{
    json_object *min = get(schema, "minItems"), *max = get(schema, "maxItems"),
                *prefix = get(schema, "prefixItems"), *items = get(schema, "items");
    if (!json_object_is_type(value, json_type_array)) return true;
    if (json_object_is_type(items, json_type_array)) {
        prefix = items;
        items = get(schema, "additionalItems");
    }
    size_t n = json_object_array_length(value),
           n_prefix = prefix ? json_object_array_length(prefix) : 0;
    if (min && n < (size_t)json_object_get_int64(min)) return no(c, "minItems", value);
    if (max && n > (size_t)json_object_get_int64(max)) return no(c, "maxItems", value);
    for (size_t i = 0; i < n; i++) {
        json_object *of = i < n_prefix ? json_object_array_get_idx(prefix, i) : items;
        if (of && !check(c, of, json_object_array_get_idx(value, i))) return false;
    }
    return true;
}

static bool check_object(struct check *c, json_object *schema, json_object *value)
{
    json_object *properties = get(schema, "properties"), *required = get(schema, "required"),
                *additional = get(schema, "additionalProperties");
    if (!json_object_is_type(value, json_type_object)) return true;
    json_object_object_foreach(value, name, member)
    {
        json_object *of = NULL;
        bool known = properties && json_object_object_get_ex(properties, name, &of);
        if (known ? !check(c, of, member) : additional && !check(c, additional, member))
            return false;
    }
    for (size_t i = 0; required && i < json_object_array_length(required); i++)
        if (!json_object_object_get_ex(
                value, json_object_get_string(json_object_array_get_idx(required, i)), NULL))
            return no(c, "required", value);
    return true;
}

static bool check(struct check *c, json_object *schema, json_object *value)
{
    if (json_object_is_type(schema, json_type_boolean))
        return json_object_get_boolean(schema) || no(c, "false", value);
    return check_ref(c, schema, value) && check_type(c, schema, value) &&
           check_constants(c, schema, value) && check_combined(c, schema, value) &&
           check_string(c, schema, value) && check_number(c, schema, value) &&
           check_array(c, schema, value) && check_object(c, schema, value);
}

bool checker_valid(json_object *schema, json_object *value, char *why)
{
    struct check c = {.root = schema, .why = why};
    why[0] = 0;
    return check(&c, schema, value);
}

bool checker_valid_text(json_object *schema, const char *text, size_t n, char *why)
{
    struct json_tokener *tok = json_tokener_new_ex(200);
    json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    json_object *value = json_tokener_parse_ex(tok, text, (int)n);
    if (json_tokener_get_error(tok) == json_tokener_continue)
        value = json_tokener_parse_ex(tok, "", 1); /* a bare number */
    bool ok = json_tokener_get_error(tok) == json_tokener_success &&
              json_tokener_get_parse_end(tok) <= n;
    json_tokener_free(tok);
    if (!ok) snprintf(why, WHY, "not JSON");
    ok = ok && checker_valid(schema, value, why);
    json_object_put(value);
    return ok;
}
