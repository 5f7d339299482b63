/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer must be, and the tools that it may call → a grammar. */
#ifndef EY_SERVER_ANSWER_GRAMMAR_H
#define EY_SERVER_ANSWER_GRAMMAR_H

#include "server/api/common/api_fields.h"

/* The request's tools, in the order of request.tools as they were given. */
struct api_tool {
    const char *name;
    json_object *parameters; /* schema of the arguments; NULL: any object */
    struct field_path path;  /* of the parameters */
};

struct api_tools {
    struct api_tool *tool; /* [n] */
    size_t n;
};

/* The tools of the prompt and of the grammar: json[i] is tool[i] as the model is given it. */
void tools_set(const struct api_reading *r, struct api_tools *tools, struct api_tool *tool,
               const char *const *json, size_t n);
/* Reads a tool that is an object of a name, a description and, in the member `parameters`, a
 * schema. *json, in the passing arena, is as all models are given it: {"type": "function",
 * "function": {name, description, parameters}} without what the tool does not have. */
bool tools_read_function(const struct api_reading *r, const struct field_path *path,
                         json_object *value, const char *parameters, struct api_tool *out,
                         const char **json);
/* Leaves them out of the prompt: no call, and no text that was meant to be one. */
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

/* What the request says of it; one of its fields may. The values stay the JSON's. */
struct answer_format {
    enum answer_format_kind kind;
    struct field_path path; /* of the field that says it */
    json_object *value;     /* schema, pattern or choices */
    const char **names;     /* of CALLS: [n_names] tools that may be called; none: all of them */
    size_t n_names;
    bool one_call; /* of CALLS: no more than one, whatever else the request says */
};

/* An answer can keep to one thing only: an error where another field said something already. */
bool format_choose(const struct api_reading *r, struct answer_format *format,
                   enum answer_format_kind kind, const char *path, json_object *value);
/* A schema, also as a string of JSON. */
bool format_read_schema(const struct api_reading *r, struct answer_format *format, const char *path,
                        json_object *value);
/* Leaves the tools that are not among format->names out of the prompt. */
void format_keep_named_tools(const struct api_reading *r, const struct answer_format *format,
                             const struct api_tools *tools);

/* Makes the grammar, which is the request's then. Where it is not of calls, the answer is no longer
 * looked through for calls: what spells one stands in a string. */
bool format_compile(const struct api_reading *r, const struct answer_format *format,
                    const struct api_tools *tools);

#endif
