/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of the fields that constrain an answer: response_format, structured_outputs, the older
 * guided_ fields, and a tool_choice that requires a call. */
#ifndef EY_SERVER_API_RESPONSE_FORMAT_H
#define EY_SERVER_API_RESPONSE_FORMAT_H

#include "server/api/common/answer_grammar.h"

bool format_read_response(const struct api_reading *r, struct answer_format *format,
                          const char *path, json_object *value);
bool format_read_structured(const struct api_reading *r, struct answer_format *format,
                            const char *path, json_object *value);
bool format_read_regex(const struct api_reading *r, struct answer_format *format, const char *path,
                       json_object *value);
bool format_read_choice(const struct api_reading *r, struct answer_format *format, const char *path,
                        json_object *value);
/* Reads "required", a named function or allowed_tools. `tools` must have been read. Tools that
 * allowed_tools does not list are removed from the prompt. */
bool format_read_tool_choice(const struct api_reading *r, struct answer_format *format,
                             const char *path, json_object *value, const struct api_tools *tools);

#endif
