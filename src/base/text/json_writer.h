/* SPDX-License-Identifier: Apache-2.0 */
/* A streaming JSON writer: it adds commas, colons, quotes and escapes. It does not track open
 * containers; a function that opens one closes it. Check the buffer's `failed` at the end. */
#ifndef EY_BASE_JSON_WRITER_H
#define EY_BASE_JSON_WRITER_H

#include <json-c/json.h>

#include "base/buf.h"

enum json_style {
    JSON_COMPACT, /* {"a":1,"b":[2,3]} */
    JSON_SPACED,  /* {"a": 1, "b": [2, 3]}, as Python's json.dumps writes it */
    JSON_INDENTED /* one line per member and item, two spaces per level */
};

struct json_writer {
    struct buf *out;
    enum json_style style;
    unsigned depth;
    bool needs_comma; /* before the next key or item */
    bool after_key;
};

struct json_writer json_write_to(struct buf *out, enum json_style style);

void json_open_object(struct json_writer *w);
void json_close_object(struct json_writer *w);
void json_open_array(struct json_writer *w);
void json_close_array(struct json_writer *w);
/* Writes a member's name; the next value or container becomes its value. */
void json_write_key(struct json_writer *w, const char *key);

/* Write a value: an array's item, or a member's after json_write_key. NaN and infinities become
 * null, malformed UTF-8 becomes U+FFFD. */
void json_write_text(struct json_writer *w, const char *text, size_t n);
void json_write_string(struct json_writer *w, const char *text); /* NULL: null */
void json_write_int(struct json_writer *w, int64_t value);
void json_write_uint(struct json_writer *w, uint64_t value);
void json_write_fixed(struct json_writer *w, double value, int decimals);
/* 9 digits round-trip a float, 17 a double. */
void json_write_digits(struct json_writer *w, double value, int digits);
void json_write_bool(struct json_writer *w, bool value);
void json_write_null(struct json_writer *w);
/* "data:TYPE;base64,…"; `type` needs no escapes. */
void json_write_data_url(struct json_writer *w, const char *type, const void *bytes, size_t n);
/* Writes text that is JSON already. */
void json_write_raw(struct json_writer *w, const char *json, size_t n);
void json_write_value(struct json_writer *w, const json_object *value);

/* Write a member: key and value. */
void json_add_string(struct json_writer *w, const char *key, const char *text); /* NULL: null */
void json_add_int(struct json_writer *w, const char *key, int64_t value);
void json_add_uint(struct json_writer *w, const char *key, uint64_t value);
void json_add_fixed(struct json_writer *w, const char *key, double value, int decimals);
void json_add_digits(struct json_writer *w, const char *key, double value, int digits);
void json_add_bool(struct json_writer *w, const char *key, bool value);
void json_add_null(struct json_writer *w, const char *key);

/* Appends a value in JSON_SPACED style, as Python's json.dumps(ensure_ascii=False) writes it. */
bool json_dump(struct buf *out, const json_object *value);
/* Appends a JSON string literal, quotes included; malformed UTF-8 becomes U+FFFD. */
bool json_dump_string(struct buf *out, const char *text, size_t n);

#endif
