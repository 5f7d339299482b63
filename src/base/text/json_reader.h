/* SPDX-License-Identifier: Apache-2.0 */
/* Parses JSON text into json-c objects. json-c's own parser loses members or crashes when an
 * allocation fails. */
#ifndef EY_BASE_JSON_READER_H
#define EY_BASE_JSON_READER_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

struct json_reading {
    size_t end;          /* offset after the value, or of the error */
    const char *problem; /* what is wrong, or NULL */
    bool no_memory;      /* an allocation failed */
};

/* Parses one value, with white space around it. The caller has checked that the text is UTF-8.
 * Accepts RFC 8259 plus NaN and infinities, as Python writes them, and raw line breaks in strings,
 * as models write them. If a name is repeated, the last value takes the place of the first. Returns
 * NULL for a JSON null or on an error, which *reading describes. */
json_object *json_read(struct json_reading *reading, const char *text, size_t n);

#endif
