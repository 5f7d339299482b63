/* SPDX-License-Identifier: Apache-2.0 */
/* A streaming JSON writer. One streamed token makes some fifty calls, so integers avoid printf and
 * runs of plain characters are copied with one memcpy. */
#include "base/text/json_writer.h"

#include <math.h>
#include <string.h>

#include "base/text/base64.h"
#include "base/utf8.h"

/* ---- strings ---- */

static bool dump_character(struct buf *out, const char *s, int length, uint32_t cp)
{
    static const char *const escapes[] = {
        ['"'] = "\\\"", ['\\'] = "\\\\", ['\n'] = "\\n", ['\r'] = "\\r",
        ['\t'] = "\\t", ['\b'] = "\\b",  ['\f'] = "\\f"};
    if (cp < sizeof(escapes) / sizeof(escapes[0]) && escapes[cp])
        return buf_add_text(out, escapes[cp]);
    if (cp < 0x20) return buf_printf(out, "\\u%04x", cp);
    return buf_add(out, s, (size_t)length);
}

/* Counts the bytes from s on that need no escape: ASCII except control characters, " and \. */
static size_t plain_length(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && (unsigned char)s[i] >= 0x20 && (unsigned char)s[i] < 0x80 && s[i] != '"' &&
           s[i] != '\\')
        i++;
    return i;
}

bool json_dump_string(struct buf *out, const char *text, size_t n)
{
    buf_add(out, "\"", 1);
    for (size_t i = 0; i < n;) {
        size_t plain = plain_length(text + i, n - i);
        uint32_t cp;
        if (plain) {
            buf_add(out, text + i, plain);
            i += plain;
            continue;
        }
        int length = utf8_decode(text + i, n - i, &cp);
        if (length > 0) {
            dump_character(out, text + i, length, cp);
            i += (size_t)length;
        } else {
            buf_add_text(out, "\xef\xbf\xbd");
            i += utf8_bad_length(text + i, n - i);
        }
    }
    return buf_add(out, "\"", 1);
}

/* ---- separators ---- */

struct json_writer json_write_to(struct buf *out, enum json_style style)
{
    return (struct json_writer){.out = out, .style = style};
}

static void begin_line(struct json_writer *w)
{
    buf_add(w->out, "\n", 1);
    for (unsigned i = 0; i < w->depth; i++)
        buf_add(w->out, "  ", 2);
}

/* Writes the comma and indentation before an item or a key. */
static void separate(struct json_writer *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->needs_comma) buf_add(w->out, ", ", w->style == JSON_SPACED ? 2 : 1);
    if (w->style == JSON_INDENTED && w->depth) begin_line(w);
}

static void open_container(struct json_writer *w, char bracket)
{
    separate(w);
    buf_add(w->out, &bracket, 1);
    w->depth++;
    w->needs_comma = false;
}

static void close_container(struct json_writer *w, char bracket)
{
    w->depth--;
    if (w->style == JSON_INDENTED && w->needs_comma) begin_line(w);
    buf_add(w->out, &bracket, 1);
    w->needs_comma = true;
}

void json_open_object(struct json_writer *w)
{
    open_container(w, '{');
}

void json_close_object(struct json_writer *w)
{
    close_container(w, '}');
}

void json_open_array(struct json_writer *w)
{
    open_container(w, '[');
}

void json_close_array(struct json_writer *w)
{
    close_container(w, ']');
}

void json_write_key(struct json_writer *w, const char *key)
{
    separate(w);
    json_dump_string(w->out, key, strlen(key));
    buf_add(w->out, ": ", w->style == JSON_COMPACT ? 1 : 2);
    w->after_key = true;
}

/* ---- values ---- */

void json_write_raw(struct json_writer *w, const char *json, size_t n)
{
    separate(w);
    buf_add(w->out, json, n);
    w->needs_comma = true;
}

void json_write_text(struct json_writer *w, const char *text, size_t n)
{
    separate(w);
    json_dump_string(w->out, text, n);
    w->needs_comma = true;
}

void json_write_string(struct json_writer *w, const char *text)
{
    if (text)
        json_write_text(w, text, strlen(text));
    else
        json_write_null(w);
}

static void write_digits_of(struct json_writer *w, uint64_t value, bool negative)
{
    char text[24], *end = text + sizeof(text), *at = end;
    do
        *--at = (char)('0' + value % 10);
    while (value /= 10);
    if (negative) *--at = '-';
    json_write_raw(w, at, (size_t)(end - at));
}

void json_write_int(struct json_writer *w, int64_t value)
{
    write_digits_of(w, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
}

void json_write_uint(struct json_writer *w, uint64_t value)
{
    write_digits_of(w, value, false);
}

void json_write_fixed(struct json_writer *w, double value, int decimals)
{
    if (!isfinite(value)) {
        json_write_null(w);
        return;
    }
    separate(w);
    buf_printf(w->out, "%.*f", decimals, value);
    w->needs_comma = true;
}

void json_write_digits(struct json_writer *w, double value, int digits)
{
    if (!isfinite(value)) {
        json_write_null(w);
        return;
    }
    separate(w);
    buf_printf(w->out, "%.*g", digits, value);
    w->needs_comma = true;
}

void json_write_bool(struct json_writer *w, bool value)
{
    json_write_raw(w, value ? "true" : "false", value ? 4 : 5);
}

void json_write_null(struct json_writer *w)
{
    json_write_raw(w, "null", 4);
}

void json_write_data_url(struct json_writer *w, const char *type, const void *bytes, size_t n)
{
    separate(w);
    buf_printf(w->out, "\"data:%s;base64,", type);
    base64_encode(w->out, bytes, n);
    buf_add(w->out, "\"", 1);
    w->needs_comma = true;
}

/* ---- values of json-c ---- */

static void write_object(struct json_writer *w, const json_object *value)
{
    json_open_object(w);
    json_object_object_foreach(value, key, member)
    {
        json_write_key(w, key);
        json_write_value(w, member);
    }
    json_close_object(w);
}

static void write_array(struct json_writer *w, const json_object *value)
{
    size_t n = json_object_array_length(value);
    json_open_array(w);
    for (size_t i = 0; i < n; i++)
        json_write_value(w, json_object_array_get_idx(value, i));
    json_close_array(w);
}

void json_write_value(struct json_writer *w, const json_object *value)
{
    json_object *changeable = (json_object *)(uintptr_t)value; /* json-c caches spellings */
    switch (json_object_get_type(value)) {
    case json_type_object: write_object(w, value); break;
    case json_type_array: write_array(w, value); break;
    case json_type_string:
        json_write_text(w, json_object_get_string(changeable),
                        (size_t)json_object_get_string_len(value));
        break;
    default: { /* numbers keep their spelling */
        const char *text = json_object_to_json_string_ext(changeable, JSON_C_TO_STRING_PLAIN);
        if (text)
            json_write_raw(w, text, strlen(text));
        else
            buf_fail(w->out);
    }
    }
}

bool json_dump(struct buf *out, const json_object *value)
{
    struct json_writer w = json_write_to(out, JSON_SPACED);
    json_write_value(&w, value);
    return !out->failed;
}

/* ---- members ---- */

void json_add_string(struct json_writer *w, const char *key, const char *text)
{
    json_write_key(w, key);
    json_write_string(w, text);
}

void json_add_int(struct json_writer *w, const char *key, int64_t value)
{
    json_write_key(w, key);
    json_write_int(w, value);
}

void json_add_uint(struct json_writer *w, const char *key, uint64_t value)
{
    json_write_key(w, key);
    json_write_uint(w, value);
}

void json_add_fixed(struct json_writer *w, const char *key, double value, int decimals)
{
    json_write_key(w, key);
    json_write_fixed(w, value, decimals);
}

void json_add_digits(struct json_writer *w, const char *key, double value, int digits)
{
    json_write_key(w, key);
    json_write_digits(w, value, digits);
}

void json_add_bool(struct json_writer *w, const char *key, bool value)
{
    json_write_key(w, key);
    json_write_bool(w, value);
}

void json_add_null(struct json_writer *w, const char *key)
{
    json_write_key(w, key);
    json_write_null(w);
}
