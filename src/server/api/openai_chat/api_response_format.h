/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer must be → a grammar: response_format, structured_outputs, the guided_ fields that
 * came before it, and tool_choice where it asks for a call. */
#ifndef EY_SERVER_API_RESPONSE_FORMAT_H
#define EY_SERVER_API_RESPONSE_FORMAT_H

#include "server/api/common/api_fields.h"

enum api_format_kind {
    FORMAT_FREE,
    FORMAT_SCHEMA,
    FORMAT_OBJECT,
    FORMAT_REGEX,
    FORMAT_CHOICE,
    FORMAT_CALLS,
};

/* What the request says of it; one of its fields may. The values stay the JSON's. */
struct api_response_format {
    enum api_format_kind kind;
    struct field_path path; /* of the field that says it */
    json_object *value;     /* schema, pattern or choices; of CALLS all tools */
    const char **tools;     /* of CALLS: [n_tools] those that may be called; none: all of them */
    size_t n_tools;
    bool one_call; /* of CALLS: no more than one, whatever else the request says */
};

bool format_read_response(const struct api_reading *r, struct api_response_format *format,
                          const char *path, json_object *value);
bool format_read_structured(const struct api_reading *r, struct api_response_format *format,
                            const char *path, json_object *value);
bool format_read_schema(const struct api_reading *r, struct api_response_format *format,
                        const char *path, json_object *value);
bool format_read_regex(const struct api_reading *r, struct api_response_format *format,
                       const char *path, json_object *value);
bool format_read_choice(const struct api_reading *r, struct api_response_format *format,
                        const char *path, json_object *value);
/* "required", a named function or allowed_tools; `tools` is the field that was read before. Tools
 * that are not allowed leave the prompt too. */
bool format_read_tool_choice(const struct api_reading *r, struct api_response_format *format,
                             const char *path, json_object *value, json_object *tools);

/* Makes the grammar, which is the request's then. Where it is not of calls, the answer is no longer
 * looked through for calls: what spells one stands in a string. */
bool format_compile(const struct api_reading *r, const struct api_response_format *format);

#endif
