/* SPDX-License-Identifier: Apache-2.0 */
/* Reads request fields: types, ranges, and errors that name the field. */
#include "server/api/common/api_fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/text/json_writer.h"
#include "server/api/common/api_dialect.h"

/* ---- paths ---- */

struct field_path field_root(const char *name)
{
    struct field_path path;
    snprintf(path.text, sizeof(path.text), "%s", name);
    return path;
}

struct field_path field_member(const struct field_path *parent, const char *name)
{
    struct field_path path = *parent;
    size_t n = strlen(path.text);
    snprintf(path.text + n, sizeof(path.text) - n, ".%s", name);
    return path;
}

struct field_path field_item(const struct field_path *parent, size_t index)
{
    struct field_path path = *parent;
    size_t n = strlen(path.text);
    snprintf(path.text + n, sizeof(path.text) - n, "[%zu]", index);
    return path;
}

/* ---- errors ---- */

static void set_error(struct api_error *error, int status, const char *type, const char *param,
                      const char *message)
{
    ey_err visible;
    *error = (struct api_error){.status = status};
    snprintf(error->type, sizeof(error->type), "%s", type);
    ey_fail(&visible, EY_BAD_REQUEST, "%s", param);
    snprintf(error->param, sizeof(error->param), "%.*s", (int)sizeof(error->param) - 1,
             visible.text);
    ey_fail(&visible, EY_BAD_REQUEST, "%s", message);
    memcpy(error->message, visible.text, sizeof(error->message));
}

bool api_fail(struct api_error *error, const char *param, const char *fmt, ...)
{
    char message[sizeof(error->message)];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    set_error(error, 400, "BadRequestError", param, message);
    return false;
}

static const char value_prefix[] = "1 validation error: ";

bool api_fail_value(struct api_error *error, const char *param, const char *fmt, ...)
{
    char message[sizeof(error->message)];
    size_t n = (size_t)snprintf(message, sizeof(message), "%s", value_prefix);
    va_list args;
    va_start(args, fmt);
    vsnprintf(message + n, sizeof(message) - n, fmt, args);
    va_end(args);
    set_error(error, 400, "Bad Request", param, message);
    return false;
}

/* Returns the value as error messages show it: objects and arrays by kind, long values cut. */
static const char *shown(json_object *value, char out[64])
{
    const char *text;
    if (json_object_is_type(value, json_type_object))
        text = "an object";
    else if (json_object_is_type(value, json_type_array))
        text = "an array";
    else
        text = json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN);
    if (!text) text = "a long value"; /* too little memory to write it */
    snprintf(out, 64, strlen(text) < 60 ? "%s" : "%.56s…", text);
    return out;
}

bool api_fail_field(struct api_error *error, const char *param, const char *wanted,
                    json_object *value)
{
    char text[64];
    return api_fail_value(error, param, "%s must be %s, got %s", param, wanted, shown(value, text));
}

bool api_fail_status(struct api_error *error, int status, const char *param, const char *message)
{
    const char *type = status == 400   ? "BadRequestError"
                       : status == 404 ? "NotFoundError"
                       : status == 422 ? "UnprocessableEntityError"
                       : status == 503 ? "ServiceUnavailableError"
                                       : "InternalServerError";
    set_error(error, status, type, param, message);
    return false;
}

bool api_fail_memory(struct api_error *error)
{
    return api_fail_status(error, 503, "", "no memory for the request; send it again later");
}

const char *api_error_text(const struct api_error *error)
{
    size_t n = sizeof(value_prefix) - 1;
    return error->message + (strncmp(error->message, value_prefix, n) == 0 ? n : 0);
}

/* ---- values ---- */

/* Reads an integer, which may be written as 16.0. json-c saturates integers beyond 64 bits, so
 * INT64_MIN and INT64_MAX are rejected. */
static bool field_exact_int(json_object *value, int64_t *out)
{
    if (json_object_is_type(value, json_type_double)) {
        double d = json_object_get_double(value);
        if (!(fabs(d) < 9007199254740992.0) || d != floor(d)) return false;
        return *out = (int64_t)d, true;
    }
    if (!json_object_is_type(value, json_type_int)) return false;
    *out = json_object_get_int64(value);
    return *out != INT64_MAX && *out != INT64_MIN;
}

bool field_int(const struct api_reading *r, const char *path, json_object *value, int64_t lo,
               int64_t hi, int64_t *out)
{
    char wanted[96];
    int64_t got;
    if (field_exact_int(value, &got) && got >= lo && got <= hi) return *out = got, true;
    snprintf(wanted, sizeof(wanted), "an integer from %" PRId64 " to %" PRId64, lo, hi);
    return api_fail_field(r->error, path, wanted, value);
}

bool field_int64(const struct api_reading *r, const char *path, json_object *value, int64_t *out)
{
    if (json_object_is_type(value, json_type_int) &&
        json_object_get_uint64(value) <= INT64_MAX) { /* 0 for negative values */
        *out = json_object_get_int64(value);
        return true;
    }
    return field_int(r, path, value, INT64_MIN, INT64_MAX, out);
}

bool field_number(const struct api_reading *r, const char *path, json_object *value, double lo,
                  double hi, const char *range, float *out)
{
    char wanted[64];
    bool numeric = json_object_is_type(value, json_type_int) ||
                   json_object_is_type(value, json_type_double);
    double got = numeric ? json_object_get_double(value) : NAN;
    if (got >= lo && got <= hi) return *out = (float)got, true;
    snprintf(wanted, sizeof(wanted), numeric ? "in %s" : "a number in %s", range);
    return api_fail_field(r->error, path, wanted, value);
}

bool field_bool(const struct api_reading *r, const char *path, json_object *value, bool *out)
{
    if (!json_object_is_type(value, json_type_boolean))
        return api_fail_field(r->error, path, "true or false", value);
    return *out = json_object_get_boolean(value), true;
}

bool field_text(const struct api_reading *r, const char *path, json_object *value, size_t max,
                const char **text, size_t *n)
{
    if (!json_object_is_type(value, json_type_string))
        return api_fail_field(r->error, path, "a string", value);
    *text = json_object_get_string(value);
    *n = (size_t)json_object_get_string_len(value);
    if (*n > max)
        return api_fail_value(r->error, path, "%s has %zu bytes; the limit is %zu", path, *n, max);
    return true;
}

bool field_text_part(const struct api_reading *r, const struct field_path *path, json_object *value,
                     ey_part *out)
{
    const char *text = NULL;
    size_t n = 0;
    if (!value) return api_fail_value(r->error, path->text, "%s is missing", path->text);
    if (!field_text(r, path->text, value, EY_MAX_TEXT_BYTES, &text, &n)) return false;
    *out = (ey_part){.type = EY_PART_TEXT, .bytes = text, .n_bytes = n};
    return true;
}

bool field_name(const struct api_reading *r, const char *path, json_object *value, size_t max,
                struct arena *arena, const char **text)
{
    const char *given = "";
    size_t n = 0;
    if (!field_text(r, path, value, max, &given, &n)) return false;
    if (!n || memchr(given, 0, n))
        return api_fail_value(r->error, path, "%s must not %s", path,
                              n ? "contain a NUL" : "be empty");
    *text = arena_copy_text(arena, given, n);
    return *text || api_fail_memory(r->error);
}

bool field_array(const struct api_reading *r, const char *path, json_object *value, size_t lo,
                 size_t hi, size_t *n)
{
    if (!json_object_is_type(value, json_type_array))
        return api_fail_field(r->error, path, "an array", value);
    *n = json_object_array_length(value);
    if (*n < lo) return api_fail_value(r->error, path, "%s must not be empty", path);
    if (*n > hi)
        return api_fail_value(r->error, path, "%s has %zu items; the limit is %zu", path, *n, hi);
    return true;
}

bool field_object(const struct api_reading *r, const char *path, json_object *value)
{
    return json_object_is_type(value, json_type_object) ||
           api_fail_field(r->error, path, "an object", value);
}

bool field_ids(const struct api_reading *r, const char *path, json_object *value, size_t max,
               struct arena *arena, const int **ids, size_t *n)
{
    if (!field_array(r, path, value, 0, max, n)) return false;
    int *copy = arena_array(arena, *n + 1, sizeof(*copy));
    if (!copy) return api_fail_memory(r->error);
    struct field_path whole = field_root(path);
    for (size_t i = 0; i < *n; i++) {
        json_object *item = json_object_array_get_idx(value, i);
        int64_t id;
        if (!field_exact_int(item, &id) || id < 0 || id >= r->limits->vocab_size) {
            char wanted[64];
            snprintf(wanted, sizeof(wanted), "a token id from 0 to %d", r->limits->vocab_size - 1);
            return api_fail_field(r->error, field_item(&whole, i).text, wanted, item);
        }
        copy[i] = (int)id;
    }
    *ids = copy;
    return true;
}

bool field_copy_json(const struct api_reading *r, json_object *value, const char **out)
{
    struct buf text = buf_with_max(EY_MAX_JSON_BYTES);
    char *copy = json_dump(&text, value) ? arena_copy_text(r->passing, text.data, text.size) : NULL;
    buf_free(&text);
    return (*out = copy) || api_fail_memory(r->error);
}

bool field_text_is(json_object *value, const char *wanted)
{
    size_t n = strlen(wanted);
    return json_object_is_type(value, json_type_string) &&
           (size_t)json_object_get_string_len(value) == n &&
           memcmp(json_object_get_string(value), wanted, n) == 0;
}

bool field_is_neutral(json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_null: return true;
    case json_type_boolean: return !json_object_get_boolean(value);
    case json_type_int:
    case json_type_double: return json_object_get_double(value) == 0;
    case json_type_string: return json_object_get_string_len(value) == 0;
    case json_type_array: return json_object_array_length(value) == 0;
    case json_type_object: return json_object_object_length(value) == 0;
    }
    return false;
}

/* ---- unknown fields ---- */

/* Copies a name into a header's value, with "?" for characters that could end or split it. */
static void printable_name(char out[96], const char *path)
{
    size_t n = 0;
    for (; path[n] && n < 95; n++)
        out[n] = path[n] > ' ' && path[n] < 0x7f && !strchr("\",\\", path[n]) ? path[n] : '?';
    out[n] = 0;
}

static bool is_in_name_list(const struct buf *names, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = names->size ? names->data : NULL; at;
         at = strstr(at, ", ") ? strstr(at, ", ") + 2 : NULL)
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || !at[n])) return true;
    return false;
}

static void add_note(struct buf *notes, const char *fmt, va_list args)
{
    char text[256];
    vsnprintf(text, sizeof(text), fmt, args);
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\') *c = *c == '"' ? '\'' : '?';
    if (notes->size + strlen(text) + 2 > notes->max) return;
    buf_printf(notes, "%s%s", notes->size ? "; " : "", text);
}

void api_request_note(struct api_request *request, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_note(&request->notes, fmt, args);
    va_end(args);
}

void api_note(const struct api_reading *r, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_note(&r->out->notes, fmt, args);
    va_end(args);
}

bool field_unknown(const struct api_reading *r, const char *path)
{
    struct buf *names = &r->out->unknown;
    char name[96];
    if (r->limits->strict && !r->out->dialect->lenient)
        return api_fail(r->error, path, "Unrecognized request argument supplied: %s", path);
    printable_name(name, path);
    if (names->size + strlen(name) + 2 > names->max || is_in_name_list(names, name)) return true;
    return buf_printf(names, "%s%s", names->size ? ", " : "", name) || api_fail_memory(r->error);
}

bool field_members_known(const struct api_reading *r, const char *parent, json_object *object,
                         const char *const *names, size_t n)
{
    json_object_object_foreach(object, key, value)
    {
        char path[160];
        bool known = !value;
        for (size_t i = 0; i < n && !known; i++)
            known = strcmp(key, names[i]) == 0;
        snprintf(path, sizeof(path), "%s.%s", parent, key);
        if (!known && !field_unknown(r, path)) return false;
    }
    return true;
}
