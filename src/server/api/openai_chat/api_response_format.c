/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the fields of chat that constrain an answer. The grammar is compiled later, when the whole
 * request has been found valid. */
#include "server/api/openai_chat/api_response_format.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- kinds ---- */

bool format_read_regex(const struct api_reading *r, struct answer_format *format, const char *path,
                       json_object *value)
{
    const char *pattern;
    size_t n;
    return field_text(r, path, value, EY_MAX_PATTERN_BYTES, &pattern, &n) &&
           format_choose(r, format, FORMAT_REGEX, path, value);
}

bool format_read_choice(const struct api_reading *r, struct answer_format *format, const char *path,
                        json_object *value)
{
    size_t n;
    return field_array(r, path, value, 1, EY_MAX_CHOICES, &n) &&
           format_choose(r, format, FORMAT_CHOICE, path, value);
}

static bool read_object(const struct api_reading *r, struct answer_format *format, const char *path,
                        json_object *value)
{
    bool wanted;
    return field_bool(r, path, value, &wanted) &&
           (!wanted || format_choose(r, format, FORMAT_OBJECT, path, value));
}

static bool refuse_member(const struct api_reading *r, struct answer_format *format,
                          const char *path, json_object *value)
{
    (void)format;
    return field_is_neutral(value) ||
           api_fail(r->error, path, "%s is not supported; leave it out", path);
}

static bool accept_member(const struct api_reading *r, struct answer_format *format,
                          const char *path, json_object *value)
{
    (void)r;
    (void)format;
    (void)path;
    (void)value;
    return true;
}

/* ---- response_format ---- */

/* Reads {name, schema, strict, description}. `strict` has no effect: answers always match. */
static bool read_json_schema(const struct api_reading *r, struct answer_format *format,
                             const struct field_path *path, json_object *value)
{
    static const char *const known[] = {"name", "schema", "strict", "description"};
    struct field_path schema_path = field_member(path, "schema"),
                      name_path = field_member(path, "name");
    struct field_path strict_path = field_member(path, "strict");
    const char *text;
    bool strict;
    if (!value) return api_fail_value(r->error, path->text, "%s is missing", path->text);
    if (!field_object(r, path->text, value) ||
        !field_members_known(r, path->text, value, known, COUNT(known)))
        return false;
    json_object *name = json_member(value, "name"), *flag = json_member(value, "strict"),
                *schema = json_member(value, "schema");
    if (name && !field_name(r, name_path.text, name, EY_MAX_NAME_BYTES, r->passing, &text))
        return false;
    if (flag && !field_bool(r, strict_path.text, flag, &strict)) return false;
    if (!schema)
        return api_fail_value(r->error, schema_path.text, "%s is missing", schema_path.text);
    return field_object(r, schema_path.text, schema) &&
           format_choose(r, format, FORMAT_SCHEMA, schema_path.text, schema);
}

/* In llama.cpp's form, which instructor-js sends, json_object may have a schema. */
static bool read_json_mode(const struct api_reading *r, struct answer_format *format,
                           const struct field_path *whole, json_object *value)
{
    struct field_path path = field_member(whole, "schema");
    json_object *schema = json_member(value, "schema");
    if (!schema) return format_choose(r, format, FORMAT_OBJECT, whole->text, value);
    return field_object(r, path.text, schema) &&
           format_choose(r, format, FORMAT_SCHEMA, path.text, schema);
}

bool format_read_response(const struct api_reading *r, struct answer_format *format,
                          const char *path, json_object *value)
{
    static const char *const known[] = {"type", "json_schema", "schema"};
    struct field_path whole = field_root(path), type_path = field_member(&whole, "type"),
                      schema_path = field_member(&whole, "json_schema");
    if (!field_object(r, path, value)) return false;
    json_object *type = json_member(value, "type");
    if (!type) return api_fail_value(r->error, type_path.text, "%s is missing", type_path.text);
    if (field_text_is(type, "structural_tag"))
        return api_fail(r->error, type_path.text,
                        "%s structural_tag is not supported; use json_schema", path);
    bool object = field_text_is(type, "json_object");
    if (!field_members_known(r, path, value, known, object ? COUNT(known) : COUNT(known) - 1))
        return false;
    if (field_text_is(type, "text")) return true;
    if (object) return read_json_mode(r, format, &whole, value);
    if (field_text_is(type, "json_schema"))
        return read_json_schema(r, format, &schema_path, json_member(value, "json_schema"));
    return api_fail_field(r->error, type_path.text, "\"text\", \"json_object\" or \"json_schema\"",
                          type);
}

/* ---- structured_outputs ---- */

/* Options about white space are refused, because the grammar always allows at most one space after
 * "," and ":" and none elsewhere. disable_fallback is accepted, because there is no fallback. */
static const struct {
    const char *name;
    bool (*read)(const struct api_reading *r, struct answer_format *format, const char *path,
                 json_object *value);
} members[] = {
    {"json", format_read_schema},
    {"regex", format_read_regex},
    {"choice", format_read_choice},
    {"json_object", read_object},
    {"grammar", refuse_member},
    {"structural_tag", refuse_member},
    {"whitespace_pattern", refuse_member},
    {"disable_any_whitespace", refuse_member},
    {"disable_additional_properties", refuse_member},
    {"disable_fallback", accept_member},
};

bool format_read_structured(const struct api_reading *r, struct answer_format *format,
                            const char *path, json_object *value)
{
    const char *names[COUNT(members)];
    struct field_path whole = field_root(path);
    if (!field_object(r, path, value)) return false;
    for (size_t i = 0; i < COUNT(members); i++) {
        json_object *member = json_member(value, members[i].name);
        struct field_path name = field_member(&whole, names[i] = members[i].name);
        if (member && !members[i].read(r, format, name.text, member)) return false;
    }
    return field_members_known(r, path, value, names, COUNT(members));
}

/* ---- tool_choice ---- */

/* {"type": "function", "function": {"name"}} */
static bool read_named(const struct api_reading *r, const struct field_path *whole,
                       json_object *value, const struct api_tools *tools, const char **out)
{
    struct field_path type_path = field_member(whole, "type"),
                      function_path = field_member(whole, "function");
    struct field_path name_path = field_member(&function_path, "name");
    json_object *type = json_member(value, "type"), *function = json_member(value, "function"),
                *name = json_member(function, "name");
    if (!field_object(r, whole->text, value)) return false;
    if (type && !field_text_is(type, "function"))
        return api_fail_field(r->error, type_path.text, "\"function\" or \"allowed_tools\"", type);
    if (!function)
        return api_fail_value(r->error, function_path.text, "%s is missing", function_path.text);
    if (!field_object(r, function_path.text, function)) return false;
    if (!name) return api_fail_value(r->error, name_path.text, "%s is missing", name_path.text);
    if (!field_name(r, name_path.text, name, EY_MAX_NAME_BYTES, r->passing, out)) return false;
    return tools_have(tools, *out) || api_fail(r->error, name_path.text,
                                               "The tool specified in `tool_choice` does not match "
                                               "any of the specified `tools`: %s",
                                               *out);
}

/* Reads {"mode": "auto" or "required", "tools": [named functions]}. */
static bool read_allowed_tools(const struct api_reading *r, struct answer_format *format,
                               const char *path, json_object *value, const struct api_tools *tools)
{
    static const char *const known[] = {"mode", "tools"};
    struct field_path outer = field_root(path), whole = field_member(&outer, "allowed_tools"),
                      mode_path = field_member(&whole, "mode"),
                      list_path = field_member(&whole, "tools");
    json_object *allowed = json_member(value, "allowed_tools"),
                *mode = json_member(allowed, "mode"), *list = json_member(allowed, "tools");
    size_t n;
    if (!allowed) return api_fail_value(r->error, whole.text, "%s is missing", whole.text);
    if (!field_object(r, whole.text, allowed) ||
        !field_members_known(r, whole.text, allowed, known, COUNT(known)))
        return false;
    bool required = mode && field_text_is(mode, "required");
    if (!required && !(mode && field_text_is(mode, "auto")))
        return api_fail_field(r->error, mode_path.text, "\"auto\" or \"required\"", mode);
    if (!list) return api_fail_value(r->error, list_path.text, "%s is missing", list_path.text);
    if (!field_array(r, list_path.text, list, 1, EY_MAX_TOOLS, &n)) return false;
    if (required && !format_choose(r, format, FORMAT_CALLS, path, NULL)) return false;
    format->names = arena_array(r->passing, n, sizeof(*format->names));
    if (!format->names) return api_fail_memory(r->error);
    for (; format->n_names < n; format->n_names++) {
        struct field_path item = field_item(&list_path, format->n_names);
        if (!read_named(r, &item, json_object_array_get_idx(list, format->n_names), tools,
                        &format->names[format->n_names]))
            return false;
    }
    format_keep_named_tools(r, format, tools);
    return true;
}

bool format_read_tool_choice(const struct api_reading *r, struct answer_format *format,
                             const char *path, json_object *value, const struct api_tools *tools)
{
    struct field_path whole = field_root(path);
    json_object *type = json_member(value, "type");
    if (!r->out->tools_given)
        return api_fail(r->error, path, "When using `tool_choice`, `tools` must be set.");
    if (type && field_text_is(type, "allowed_tools"))
        return read_allowed_tools(r, format, path, value, tools);
    if (!format_choose(r, format, FORMAT_CALLS, path, NULL)) return false;
    if (!json_object_is_type(value, json_type_object)) return true;
    format->names = arena_array(r->passing, 1, sizeof(*format->names));
    if (!format->names) return api_fail_memory(r->error);
    if (!read_named(r, &whole, value, tools, &format->names[0])) return false;
    format->n_names = 1;
    format->one_call = true;
    return true;
}
