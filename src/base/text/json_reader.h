/* SPDX-License-Identifier: Apache-2.0 */
/* JSON text to values of json-c. Its own parser goes on with members missing, or crashes, where
 * memory is refused. */
#ifndef EY_BASE_JSON_READER_H
#define EY_BASE_JSON_READER_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

struct json_reading {
    size_t end;          /* bytes that were read: behind the value, or where the problem is */
    const char *problem; /* NULL: there is none */
    bool no_memory;      /* that is the problem */
};

/* Reads one value of UTF-8 text, which the caller has checked: RFC 8259, and NaN, Infinity and
 * -Infinity as Python writes them, and line ends in strings as models do. Blanks may stand around
 * it. NULL: it is null, or *reading says what is wrong. Of members with the same name the last one
 * counts, at the place of the first. */
json_object *json_read(struct json_reading *reading, const char *text, size_t n);

#endif
