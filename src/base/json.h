/* SPDX-License-Identifier: Apache-2.0 */
/* JSON by json-c, with our limits and our errors: strict, UTF-8 checked, depth bounded, members in
 * order. */
#ifndef EY_BASE_JSON_H
#define EY_BASE_JSON_H

#include <json-c/json.h>

#include "base/buf.h"
#include "base/err.h"

/* Parses n bytes; `what` names them in errors. The caller frees with json_object_put. Trailing
 * bytes other than white space, duplicate-free keys, depth > EY_MAX_JSON_DEPTH and NUL are errors
 * (code EY_BAD_MODEL unless `code` says otherwise). */
json_object *json_parse(const char *text, size_t n, const char *what, ey_code code, ey_err *e);
/* The same for a file of at most EY_MAX_JSON_BYTES. */
json_object *json_parse_file(const char *path, ey_code code, ey_err *e);

/* Members of an object; NULL when absent, JSON null or `object` is no object. */
json_object *json_member(const json_object *object, const char *key);
json_object *json_member_of_type(const json_object *object, const char *key, json_type type);

/* Typed members with range: false with a message naming `what`, key and value when the member is
 * absent, of another type, not integral or outside [lo, hi]. */
bool json_int(const json_object *object, const char *key, int64_t lo, int64_t hi, int64_t *out,
              const char *what, ey_err *e);
/* Number (integer or float) in [lo, hi], finite. */
bool json_number(const json_object *object, const char *key, double lo, double hi, double *out,
                 const char *what, ey_err *e);
/* Absent: *out keeps its value and true is returned. */
bool json_optional_int(const json_object *object, const char *key, int64_t lo, int64_t hi,
                       int64_t *out, const char *what, ey_err *e);
bool json_optional_number(const json_object *object, const char *key, double lo, double hi,
                          double *out, const char *what, ey_err *e);
bool json_optional_bool(const json_object *object, const char *key, bool *out, const char *what,
                        ey_err *e);

#endif
