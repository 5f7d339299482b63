/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer must be: response_format, structured_outputs, the guided_ fields that
 * came before it, and tool_choice where it asks for a call. */
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
/* "required", a named function or allowed_tools; `tools` are those that were read before. Tools
 * that are not allowed leave the prompt too. */
bool format_read_tool_choice(const struct api_reading *r, struct answer_format *format,
                             const char *path, json_object *value, const struct api_tools *tools);

#endif
