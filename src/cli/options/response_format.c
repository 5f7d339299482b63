/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles schemas, patterns and choices into grammars. */
#include "cli/options/response_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/text/json_writer.h"
#include "cli/options/input.h"

/* Takes ownership of `text`. Errors name its source, `name`. */
static bool open_schema_text(struct cli_response_format *format, char *text, size_t n,
                             const char *name, ey_err *e)
{
    *format = (struct cli_response_format){
        .text = text}; /* without a NUL: the JSON parser refuses it */
    format->remote.schema = format->text;
    return ey_grammar_of_schema(&format->grammar, format->text, n, e) ||
           ey_fail_within(e, "%s", name);
}

bool response_format_open_schema(struct cli_response_format *format, const char *path, ey_err *e)
{
    struct input file;
    *format = (struct cli_response_format){0};
    if (path[strspn(path, " \t\n")] == '{') {
        char *copy = strdup(path);
        return copy ? open_schema_text(format, copy, strlen(copy), "--schema", e)
                    : ey_fail_memory(e, "the schema", strlen(path));
    }
    if (!input_read(&file, path, EY_MAX_SCHEMA_BYTES, e)) return false;
    return open_schema_text(format, file.bytes, file.size, path, e);
}

/* ---- --fields ---- */

enum { MAX_FIELD_NAME = 100 };
static const char blanks[] = " \t\n";

static void trim(const char **text, size_t *n)
{
    while (*n && strchr(blanks, **text))
        ++*text, --*n;
    while (*n && strchr(blanks, (*text)[*n - 1]))
        --*n;
}

static bool add_field(struct json_writer *w, const char *field, size_t n, ey_err *e)
{
    static const char *const types[] = {"string", "number", "integer", "boolean", "list"};
    const char *colon = memchr(field, ':', n), *name = field, *type = types[0];
    size_t n_name = colon ? (size_t)(colon - field) : n, n_type = strlen(type);
    if (colon) {
        type = colon + 1;
        n_type = n - n_name - 1;
    }
    trim(&name, &n_name);
    trim(&type, &n_type);
    size_t t = 0;
    while (t < 5 && (strlen(types[t]) != n_type || memcmp(types[t], type, n_type) != 0))
        t++;
    char key[MAX_FIELD_NAME + 1];
    if (t == 5 || !n_name || n_name > MAX_FIELD_NAME)
        return ey_fail(
            e, EY_BAD_REQUEST,
            "--fields takes names, each of which may have a type (string, number, "
            "integer, boolean or list), such as \"shop, date, total:number\", not \"%.*s\"",
            (int)(n < 100 ? n : 100), field);
    snprintf(key, sizeof(key), "%.*s", (int)n_name, name);
    json_write_key(w, key);
    json_open_object(w);
    json_add_string(w, "type", t == 4 ? "array" : types[t]);
    if (t == 4) {
        static const char items[] = "{\"type\": \"string\"}";
        json_write_key(w, "items");
        json_write_raw(w, items, sizeof(items) - 1);
    }
    json_close_object(w);
    return true;
}

/* Writes each field's schema, or with `names` only the names. */
static bool write_fields(struct json_writer *w, const char *fields, bool names, ey_err *e)
{
    for (const char *at = fields; at;) {
        const char *comma = strchr(at, ',');
        size_t n = comma ? (size_t)(comma - at) : strlen(at);
        const char *field = at;
        trim(&field, &n);
        const char *colon = memchr(field, ':', n);
        size_t n_name = colon ? (size_t)(colon - field) : n;
        if (names) {
            trim(&field, &n_name);
            json_write_text(w, field, n_name);
        } else if (!add_field(w, field, n, e)) {
            return false;
        }
        at = comma ? comma + 1 : NULL;
    }
    return true;
}

bool response_format_open_fields(struct cli_response_format *format, const char *fields, ey_err *e)
{
    struct buf text = buf_with_max(EY_MAX_SCHEMA_BYTES);
    struct json_writer w = json_write_to(&text, JSON_SPACED);
    *format = (struct cli_response_format){0};
    json_open_object(&w);
    json_add_string(&w, "type", "object");
    json_write_key(&w, "properties");
    json_open_object(&w);
    bool ok = write_fields(&w, fields, false, e);
    json_close_object(&w);
    json_write_key(&w, "required");
    json_open_array(&w);
    ok = ok && write_fields(&w, fields, true, e);
    json_close_array(&w);
    json_add_bool(&w, "additionalProperties", false);
    json_close_object(&w);
    ok = ok && (!text.failed || ey_fail_memory(e, "the schema", text.max));
    if (ok) return open_schema_text(format, text.data, text.size, "--fields", e);
    buf_free(&text);
    return false;
}

bool response_format_open_regex(struct cli_response_format *format, const char *pattern, ey_err *e)
{
    *format = (struct cli_response_format){.remote.regex = pattern};
    return ey_grammar_of_regex(&format->grammar, pattern, strlen(pattern), e);
}

bool response_format_open_choices(struct cli_response_format *format, const char *const *choices,
                                  size_t n, ey_err *e)
{
    *format = (struct cli_response_format){.remote = {.choices = choices, .n_choices = n}};
    return ey_grammar_of_choices(&format->grammar, choices, n, e);
}

void response_format_close(struct cli_response_format *format)
{
    ey_grammar_free(&format->grammar);
    free(format->text);
    *format = (struct cli_response_format){0};
}
