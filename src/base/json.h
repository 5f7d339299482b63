/* SPDX-License-Identifier: Apache-2.0 */
/* Parses JSON into json-c objects, strictly: UTF-8 checked, depth bounded, members in order. */
#ifndef EY_BASE_JSON_H
#define EY_BASE_JSON_H

#include <json-c/json.h>

#include "base/buf.h"
#include "base/err.h"

/* Parses n bytes, at most EY_MAX_JSON_BYTES; `what` names them in errors. The caller frees the
 * result with json_object_put. Fails with `code` on a JSON null, on trailing bytes other than white
 * space, on a depth of EY_MAX_JSON_DEPTH and on a NUL. */
json_object *json_parse(const char *text, size_t n, const char *what, ey_code code, ey_err *e);
/* Like json_parse(), but takes up to `max` bytes. */
json_object *json_parse_up_to(const char *text, size_t n, size_t max, const char *what,
                              ey_code code, ey_err *e);
/* Parses a file of at most EY_MAX_JSON_BYTES. */
json_object *json_parse_file(const char *path, ey_code code, ey_err *e);

/* Returns a member, or NULL if it is absent or JSON null, or `object` is not an object. */
json_object *json_member(const json_object *object, const char *key);
json_object *json_member_of_type(const json_object *object, const char *key, json_type type);

/* Reads an integer member in [lo, hi]. If it is absent, not an integer or out of range, fails with
 * a message that names `what`, the key and the value. */
bool json_int(const json_object *object, const char *key, int64_t lo, int64_t hi, int64_t *out,
              const char *what, ey_err *e);
/* Like json_int for a finite number, integer or float. */
bool json_number(const json_object *object, const char *key, double lo, double hi, double *out,
                 const char *what, ey_err *e);
/* If the member is absent, these return true and leave *out as it is. */
bool json_optional_int(const json_object *object, const char *key, int64_t lo, int64_t hi,
                       int64_t *out, const char *what, ey_err *e);
bool json_optional_number(const json_object *object, const char *key, double lo, double hi,
                          double *out, const char *what, ey_err *e);
bool json_optional_bool(const json_object *object, const char *key, bool *out, const char *what,
                        ey_err *e);

#endif
