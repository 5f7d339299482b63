/* SPDX-License-Identifier: Apache-2.0 */
/* JSON into json-c objects, with our limits and error messages. */
#include "base/json.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/text/json_reader.h"
#include "base/utf8.h"

json_object *json_parse(const char *text, size_t n, const char *what, ey_code code, ey_err *e)
{
    return json_parse_up_to(text, n, EY_MAX_JSON_BYTES, what, code, e);
}

json_object *json_parse_up_to(const char *text, size_t n, size_t max, const char *what,
                              ey_code code, ey_err *e)
{
    json_object *value = NULL;
    if (n > max) {
        ey_fail(e, code, "%s: %zu bytes of JSON are more than the limit of %zu", what, n, max);
        return NULL;
    }
    if (!utf8_valid(text, n)) {
        ey_fail(e, code, "%s: not valid JSON: it is not UTF-8", what);
        return NULL;
    }
    struct json_reading reading;
    value = json_read(&reading, text, n);
    if (reading.no_memory) {
        ey_fail_memory(e, what, n);
    } else if (reading.problem) {
        ey_fail(e, code, "%s: not valid JSON at byte %zu: %s", what, reading.end, reading.problem);
    } else if (reading.end < n) {
        ey_fail(e, code, "%s: not valid JSON: something follows the value at byte %zu", what,
                reading.end);
        json_object_put(value);
        value = NULL;
    } else if (!value) {
        ey_fail(e, code, "%s: the JSON value is null", what);
    }
    return value;
}

json_object *json_parse_file(const char *path, ey_code code, ey_err *e)
{
    char *text;
    size_t n;
    if (!file_read_regular(&text, &n, path, EY_MAX_JSON_BYTES, e)) return NULL;
    bool whole = file_check_not_lfs_pointer(text, n, path, e);
    json_object *value = whole ? json_parse(text, n, path, code, e) : NULL;
    free(text);
    return value;
}

json_object *json_member(const json_object *object, const char *key)
{
    json_object *value = NULL;
    if (!object || !json_object_is_type(object, json_type_object)) return NULL;
    json_object_object_get_ex(object, key, &value);
    return value;
}

json_object *json_member_of_type(const json_object *object, const char *key, json_type type)
{
    json_object *value = json_member(object, key);
    return value && json_object_is_type(value, type) ? value : NULL;
}

/* The parser saturates integers beyond 64 bits, so the ends of the range count as overflow. */
static bool json_exact_int(json_object *value, int64_t *out)
{
    if (!json_object_is_type(value, json_type_int)) return false;
    *out = json_object_get_int64(value);
    return *out != INT64_MAX && *out != INT64_MIN;
}

/* Truncates a long value between characters. */
static void show_json_value(char out[64], json_object *value)
{
    enum { MOST = 60 };
    const char *text = json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN);
    if (!text) text = "a long value"; /* memory is exhausted */
    const size_t n = strlen(text), shown = utf8_prefix(text, n, MOST);
    snprintf(out, 64, "%.*s%s", (int)shown, text, shown < n ? "…" : "");
}

static bool json_fail_value(ey_err *e, const char *what, const char *key, json_object *value,
                            const char *wanted)
{
    char shown[64] = "absent";
    if (value) show_json_value(shown, value);
    return ey_fail(e, EY_BAD_MODEL, "%s: %s is %s; it must be %s", what, key, shown, wanted);
}

bool json_int(const json_object *object, const char *key, int64_t lo, int64_t hi, int64_t *out,
              const char *what, ey_err *e)
{
    json_object *value = json_member(object, key);
    int64_t got;
    if (value && json_exact_int(value, &got) && got >= lo && got <= hi) return *out = got, true;
    char wanted[96];
    snprintf(wanted, sizeof(wanted), "an integer from %" PRId64 " to %" PRId64, lo, hi);
    return json_fail_value(e, what, key, value, wanted);
}

bool json_number(const json_object *object, const char *key, double lo, double hi, double *out,
                 const char *what, ey_err *e)
{
    json_object *value = json_member(object, key);
    bool numeric = value && (json_object_is_type(value, json_type_int) ||
                             json_object_is_type(value, json_type_double));
    double got = numeric ? json_object_get_double(value) : NAN;
    if (got >= lo && got <= hi) return *out = got, true;
    char wanted[96];
    snprintf(wanted, sizeof(wanted), "a number from %g to %g", lo, hi);
    return json_fail_value(e, what, key, value, wanted);
}

bool json_optional_int(const json_object *object, const char *key, int64_t lo, int64_t hi,
                       int64_t *out, const char *what, ey_err *e)
{
    return !json_member(object, key) || json_int(object, key, lo, hi, out, what, e);
}

bool json_optional_number(const json_object *object, const char *key, double lo, double hi,
                          double *out, const char *what, ey_err *e)
{
    return !json_member(object, key) || json_number(object, key, lo, hi, out, what, e);
}

bool json_optional_bool(const json_object *object, const char *key, bool *out, const char *what,
                        ey_err *e)
{
    json_object *value = json_member(object, key);
    if (!value) return true;
    if (!json_object_is_type(value, json_type_boolean))
        return json_fail_value(e, what, key, value, "true or false");
    return *out = json_object_get_boolean(value), true;
}
