/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the fields of a request: each reader checks type and range and says what is wrong by the
 * field's path. */
#ifndef EY_SERVER_API_FIELDS_H
#define EY_SERVER_API_FIELDS_H

#include "base/json.h"
#include "server/api/common/api_request.h"

enum { API_PARAM_BYTES = 160 }; /* of a field's path */

struct api_reading {
    struct api_request *out;
    const struct api_limits *limits;
    struct api_error *error;
    struct arena *lasting; /* what the answer needs */
    struct arena *passing; /* what only the prompt needs */
};

/* A field's path, built as one goes down. */
struct field_path {
    char text[API_PARAM_BYTES];
};
struct field_path field_root(const char *name);
struct field_path field_member(const struct field_path *parent, const char *name);
struct field_path field_item(const struct field_path *parent, size_t index);

/* A rule that the request breaks: 400 BadRequestError. Bytes that are not printable are shown as
 * \xNN. All return false. */
bool api_fail(struct api_error *error, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A value of the wrong type or outside its range, worded as vLLM does: "1 validation error: …". */
bool api_fail_value(struct api_error *error, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* `param` is `value` and must be `wanted`. */
bool api_fail_field(struct api_error *error, const char *param, const char *wanted,
                    json_object *value);
bool api_fail_memory(struct api_error *error);
/* Anything else; the type follows from the status. */
bool api_fail_status(struct api_error *error, int status, const char *param, const char *message);

/* Each takes a value that is there and not null. */
bool field_int(const struct api_reading *r, const char *path, json_object *value, int64_t lo,
               int64_t hi, int64_t *out);
/* `range` is how the message puts it: "[0, 2]". */
/* Any integer of 64 bits. What is below them reads as the least one, as json-c has it. */
bool field_int64(const struct api_reading *r, const char *path, json_object *value, int64_t *out);
bool field_number(const struct api_reading *r, const char *path, json_object *value, double lo,
                  double hi, const char *range, float *out);
bool field_bool(const struct api_reading *r, const char *path, json_object *value, bool *out);
/* Text of at most `max` bytes, borrowed from the JSON; it may hold NUL bytes. */
bool field_text(const struct api_reading *r, const char *path, json_object *value, size_t max,
                const char **text, size_t *n);
/* A part of at most EY_MAX_TEXT_BYTES of text, borrowed from the JSON. Fails if `value` is NULL. */
bool field_text_part(const struct api_reading *r, const struct field_path *path, json_object *value,
                     ey_part *out);
/* The same as a C string of 1 .. max bytes, copied to `arena`. */
bool field_name(const struct api_reading *r, const char *path, json_object *value, size_t max,
                struct arena *arena, const char **text);
/* An array of lo .. hi items. */
bool field_array(const struct api_reading *r, const char *path, json_object *value, size_t lo,
                 size_t hi, size_t *n);
bool field_object(const struct api_reading *r, const char *path, json_object *value);
/* An array of 0 .. max token ids of the vocabulary, copied to `arena`. */
bool field_ids(const struct api_reading *r, const char *path, json_object *value, size_t max,
               struct arena *arena, const int **ids, size_t *n);

/* The value's JSON as text, copied to the passing arena. */
bool field_copy_json(const struct api_reading *r, json_object *value, const char **out);

/* It is this text and no other; one that goes on after a NUL is another. */
bool field_text_is(json_object *value, const char *wanted);

/* Null, false, 0, and what is empty: a client that spells out a default asks for nothing. */
bool field_is_neutral(json_object *value);

/* Something was not done as asked: a sentence for the Warning header. */
void api_note(const struct api_reading *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* An error's words without vLLM's "1 validation error: ". */
const char *api_error_text(const struct api_error *error);

/* A field that is not known: named in out->unknown, or refused when the server is strict. */
bool field_unknown(const struct api_reading *r, const char *path);
/* Every member of `object` must be one of names[n]; others are unknown, by the name "parent.name".
 */
bool field_members_known(const struct api_reading *r, const char *parent, json_object *object,
                         const char *const *names, size_t n);

#endif
