/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the grammar of an answer from its required format and the tools that it may call. */
#ifndef EY_SERVER_ANSWER_GRAMMAR_H
#define EY_SERVER_ANSWER_GRAMMAR_H

#include "server/api/common/api_fields.h"

/* A tool of the request; the tools have the order of request.tools. */
struct api_tool {
    const char *name;
    json_object *parameters; /* schema of the arguments; NULL: any object */
    struct field_path path;  /* path of the parameters */
};

struct api_tools {
    struct api_tool *tool; /* [n] */
    size_t n;
};

/* Sets the tools of the prompt and of the grammar. json[i] is tool[i] as the prompt shows it. */
void tools_set(const struct api_reading *r, struct api_tools *tools, struct api_tool *tool,
               const char *const *json, size_t n);
/* Reads a tool: an object with a name, a description and, in the member that `parameters` names, a
 * schema. Sets *json, in the passing arena, to the form for prompts: {"type": "function",
 * "function": {name, description, parameters}}, without absent members. */
bool tools_read_function(const struct api_reading *r, const struct field_path *path,
                         json_object *value, const char *parameters, struct api_tool *out,
                         const char **json);
/* Removes the tools from the prompt; the answer is not parsed for calls. */
void tools_drop(const struct api_reading *r);
bool tools_have(const struct api_tools *tools, const char *name);

enum answer_format_kind {
    FORMAT_FREE,
    FORMAT_SCHEMA,
    FORMAT_OBJECT,
    FORMAT_REGEX,
    FORMAT_CHOICE,
    FORMAT_CALLS,
};

/* The required format. At most one field of the request may set it. Values are owned by the
 * request's JSON. */
struct answer_format {
    enum answer_format_kind kind;
    struct field_path path; /* path of the field that sets it */
    json_object *value;     /* schema, pattern or choices */
    const char **names;     /* FORMAT_CALLS: [n_names] callable tools; none means all */
    size_t n_names;
    bool one_call; /* FORMAT_CALLS: at most one call, whatever other fields say */
};

/* Sets the format. Fails if another field set one already. */
bool format_choose(const struct api_reading *r, struct answer_format *format,
                   enum answer_format_kind kind, const char *path, json_object *value);
/* Reads a schema: an object, or a string of JSON. */
bool format_read_schema(const struct api_reading *r, struct answer_format *format, const char *path,
                        json_object *value);
/* Removes tools that are not in format->names from the prompt. */
void format_keep_named_tools(const struct api_reading *r, const struct answer_format *format,
                             const struct api_tools *tools);

/* Compiles the grammar, which the request then owns. If a format other than calls is required, the
 * answer is not parsed for calls, because a text like a call could only be part of a string. */
bool format_compile(const struct api_reading *r, const struct answer_format *format,
                    const struct api_tools *tools);

#endif
