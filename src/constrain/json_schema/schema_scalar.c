/* SPDX-License-Identifier: Apache-2.0 */
/* Strings and numbers of a schema. */
#include "constrain/json_schema/schema.h"

#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "constrain/json_schema/number_ranges.h"
#include "constrain/json_schema/json_grammar.h"
#include "constrain/json_schema/string_formats.h"

static bool is_number(json_object *value)
{
    return json_object_is_type(value, json_type_int) ||
           json_object_is_type(value, json_type_double);
}

bool schema_count(struct compiler *c, json_object *schema, const char *path, const char *key,
                  uint32_t *out)
{
    json_object *value = json_member(schema, key);
    if (!value) return true;
    double number = is_number(value) ? json_object_get_double(value) : -1;
    if (!(number >= 0) || number != floor(number))
        return compiler_fail(c, "%s/%s: %.60s is not a count", path, key,
                             json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN));
    *out = number >= EY_MAX_SCHEMA_COUNT ? EY_MAX_SCHEMA_COUNT : (uint32_t)number;
    return true;
}

/* ---- strings ---- */

/* Reads pattern and format. An unknown format is an error unless there is a pattern. */
static bool read_pattern(struct compiler *c, json_object *schema, const char *path,
                         struct string_spec *spec)
{
    json_object *pattern = json_member(schema, "pattern"), *format = json_member(schema, "format");
    const char *name = json_object_is_type(format, json_type_string)
                           ? json_object_get_string(format)
                           : "";
    if (pattern && !json_object_is_type(pattern, json_type_string))
        return compiler_fail(c, "%s/pattern: it must be a string", path);
    if (pattern) {
        spec->pattern = json_object_get_string(pattern);
        spec->n_pattern = (size_t)json_object_get_string_len(pattern);
    }
    if (format) spec->format = format_pattern(name);
    if (format && !spec->format && !pattern)
        return compiler_fail(c, "%s/format: the format \"%.60s\" is not supported", path, name);
    spec->n_format = spec->format ? strlen(spec->format) : 0;
    return true;
}

struct frag schema_string(struct compiler *c, json_object *schema, const char *path)
{
    struct string_spec spec = {.max = UINT32_MAX};
    if (!schema_count(c, schema, path, "minLength", &spec.min) ||
        !schema_count(c, schema, path, "maxLength", &spec.max) ||
        !read_pattern(c, schema, path, &spec))
        return (struct frag){0, 0};
    if (spec.min > spec.max)
        compiler_fail(c, "%s: no string has at least %u and at most %u characters", path, spec.min,
                      spec.max);
    return json_string(c, spec, path);
}

/* ---- numbers ---- */

#define EXACT_INTEGERS 9007199254740992.0 /* 2^53; doubles skip integers above it */

static bool read_number_bound(struct compiler *c, json_object *schema, const char *path,
                              const char *key, struct number_bound *bound, double *value)
{
    json_object *given = json_member(schema, key);
    bound->set = given;
    if (!given) return true;
    if (!is_number(given) || !isfinite(json_object_get_double(given)))
        return compiler_fail(c, "%s/%s: %.60s is not a number", path, key,
                             json_object_to_json_string_ext(given, JSON_C_TO_STRING_PLAIN));
    *value = json_object_get_double(given);
    int64_t whole = json_object_get_int64(given);
    bool exact = json_object_is_type(given, json_type_int) && whole != INT64_MAX &&
                 whole != INT64_MIN;
    bound->value = exact ? decimal_of_int(whole) : decimal_of_double(*value);
    return true;
}

/* Reads the tighter of an inclusive and an exclusive bound. `sign` is 1 for lower bounds, -1 for
 * upper ones. */
static bool read_number_bounds(struct compiler *c, json_object *schema, const char *path,
                               const char *inclusive, const char *exclusive, int sign,
                               struct number_bound *out)
{
    struct number_bound strict;
    double value = 0, strict_value = 0;
    if (!read_number_bound(c, schema, path, inclusive, out, &value) ||
        !read_number_bound(c, schema, path, exclusive, &strict, &strict_value))
        return false;
    if (strict.set && fabs(strict_value) > EXACT_INTEGERS)
        return compiler_fail(c, "%s/%s: values beyond ±2^53 are not supported; use \"%s\"", path,
                             exclusive, inclusive);
    if (strict.set && (!out->set || strict_value * sign >= value * sign)) {
        *out = strict;
        out->exclusive = true;
    }
    return true;
}

static bool read_multiple(struct compiler *c, json_object *schema, const char *path,
                          struct number_spec *spec)
{
    json_object *given = json_member(schema, "multipleOf");
    if (!given) return true;
    double value = is_number(given) ? json_object_get_double(given) : 0;
    if (!(value >= 1) || value > EY_MAX_MULTIPLE_OF || value != floor(value))
        return compiler_fail(
            c, "%s/multipleOf: %.60s is not supported; it must be an integer from 1 to %d", path,
            json_object_to_json_string_ext(given, JSON_C_TO_STRING_PLAIN), EY_MAX_MULTIPLE_OF);
    spec->multiple_of = (uint32_t)value;
    spec->integer = true;
    return true;
}

struct frag schema_number(struct compiler *c, json_object *schema, const char *path, bool integer)
{
    struct number_spec spec = {.integer = integer};
    if (!read_number_bounds(c, schema, path, "minimum", "exclusiveMinimum", 1, &spec.min) ||
        !read_number_bounds(c, schema, path, "maximum", "exclusiveMaximum", -1, &spec.max) ||
        !read_multiple(c, schema, path, &spec))
        return (struct frag){0, 0};
    return nfa_number(&c->nfa, &spec);
}
