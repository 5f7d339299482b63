/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of request fields. Each checks type and range, and names the field's path in errors. */
#ifndef EY_SERVER_API_FIELDS_H
#define EY_SERVER_API_FIELDS_H

#include "base/json.h"
#include "server/api/common/api_request.h"

enum { API_PARAM_BYTES = 160 }; /* size of a field's path */

struct api_reading {
    struct api_request *out;
    const struct api_limits *limits;
    struct api_error *error;
    struct arena *lasting; /* lives until the end of the answer */
    struct arena *passing; /* freed with the prompts */
};

/* A field's path, built while descending. */
struct field_path {
    char text[API_PARAM_BYTES];
};
struct field_path field_root(const char *name);
struct field_path field_member(const struct field_path *parent, const char *name);
struct field_path field_item(const struct field_path *parent, size_t index);

/* Reports that the request breaks a rule, as 400 BadRequestError. Unprintable bytes are shown as
 * \xNN. All these functions return false. */
bool api_fail(struct api_error *error, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Reports a value of the wrong type or range in vLLM's words: "1 validation error: ...". */
bool api_fail_value(struct api_error *error, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Fails with "PARAM must be WANTED, got VALUE". */
bool api_fail_field(struct api_error *error, const char *param, const char *wanted,
                    json_object *value);
bool api_fail_memory(struct api_error *error);
/* Fails with another status, which determines the error type. */
bool api_fail_status(struct api_error *error, int status, const char *param, const char *message);

/* These readers take a value that is present and not null. */
bool field_int(const struct api_reading *r, const char *path, json_object *value, int64_t lo,
               int64_t hi, int64_t *out);
/* Reads a 64-bit integer. An integer below INT64_MIN is not refused but read as INT64_MIN, because
 * json-c saturates it. */
bool field_int64(const struct api_reading *r, const char *path, json_object *value, int64_t *out);
/* Reads a number in [lo, hi]; `range` is its text for messages: "[0, 2]". */
bool field_number(const struct api_reading *r, const char *path, json_object *value, double lo,
                  double hi, const char *range, float *out);
bool field_bool(const struct api_reading *r, const char *path, json_object *value, bool *out);
/* Reads text of at most `max` bytes, borrowed from the JSON. It may contain NUL bytes. */
bool field_text(const struct api_reading *r, const char *path, json_object *value, size_t max,
                const char **text, size_t *n);
/* Like field_text, for a text part of at most EY_MAX_TEXT_BYTES. Fails if `value` is NULL. */
bool field_text_part(const struct api_reading *r, const struct field_path *path, json_object *value,
                     ey_part *out);
/* Reads a C string of 1 .. max bytes, copied to `arena`. */
bool field_name(const struct api_reading *r, const char *path, json_object *value, size_t max,
                struct arena *arena, const char **text);
/* Checks for an array of lo .. hi items. */
bool field_array(const struct api_reading *r, const char *path, json_object *value, size_t lo,
                 size_t hi, size_t *n);
bool field_object(const struct api_reading *r, const char *path, json_object *value);
/* Reads an array of 0 .. max token ids of the vocabulary, copied to `arena`. */
bool field_ids(const struct api_reading *r, const char *path, json_object *value, size_t max,
               struct arena *arena, const int **ids, size_t *n);

/* Writes the value as JSON text to the passing arena. */
bool field_copy_json(const struct api_reading *r, json_object *value, const char **out);

/* Whether the value is exactly this text. A string that contains a NUL byte never is. */
bool field_text_is(json_object *value, const char *wanted);

/* Whether the value is null, false, 0 or empty, which only spells out a default. */
bool field_is_neutral(json_object *value);

/* Adds a sentence to the Warning header: how the answer deviates from the request. */
void api_note(const struct api_reading *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* An error's text without vLLM's "1 validation error: ". */
const char *api_error_text(const struct api_error *error);

/* Handles an unknown field: adds it to out->unknown, or fails if the server is strict. */
bool field_unknown(const struct api_reading *r, const char *path);
/* Handles members of `object` that are not in names[n] as unknown fields "parent.name". */
bool field_members_known(const struct api_reading *r, const char *parent, json_object *object,
                         const char *const *names, size_t n);

#endif
