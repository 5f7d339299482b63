/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer must be → a grammar. Values are checked where they are read; what costs more waits
 * until all of the request was read and found good. */
#include "server/api/openai_chat/api_response_format.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"

enum {
    MAX_GRAMMAR_KEY_BYTES = 1 << 20
}; /* of what grammars are found by; longer ones are compiled each time */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* An answer can keep to one thing only. */
static bool choose_format(const struct api_reading *r, struct api_response_format *format,
                          enum api_format_kind kind, const char *path, json_object *value)
{
    if (format->kind)
        return api_fail(r->error, path,
                        "%s and %s cannot both be given: an answer keeps to one of them",
                        format->path.text, path);
    format->kind = kind;
    format->path = field_root(path);
    format->value = value;
    return true;
}

/* ---- kinds ---- */

/* A schema, also as a string of JSON. */
bool format_read_schema(const struct api_reading *r, struct api_response_format *format,
                        const char *path, json_object *value)
{
    if (!json_object_is_type(value, json_type_object) &&
        !json_object_is_type(value, json_type_string))
        return api_fail_field(r->error, path, "an object or a string of JSON", value);
    return choose_format(r, format, FORMAT_SCHEMA, path, value);
}

bool format_read_regex(const struct api_reading *r, struct api_response_format *format,
                       const char *path, json_object *value)
{
    const char *pattern;
    size_t n;
    return field_text(r, path, value, EY_MAX_PATTERN_BYTES, &pattern, &n) &&
           choose_format(r, format, FORMAT_REGEX, path, value);
}

bool format_read_choice(const struct api_reading *r, struct api_response_format *format,
                        const char *path, json_object *value)
{
    size_t n;
    return field_array(r, path, value, 1, EY_MAX_CHOICES, &n) &&
           choose_format(r, format, FORMAT_CHOICE, path, value);
}

static bool read_object(const struct api_reading *r, struct api_response_format *format,
                        const char *path, json_object *value)
{
    bool wanted;
    return field_bool(r, path, value, &wanted) &&
           (!wanted || choose_format(r, format, FORMAT_OBJECT, path, value));
}

static bool refuse_member(const struct api_reading *r, struct api_response_format *format,
                          const char *path, json_object *value)
{
    (void)format;
    return field_is_neutral(value) ||
           api_fail(r->error, path, "%s is not supported; leave it out", path);
}

static bool accept_member(const struct api_reading *r, struct api_response_format *format,
                          const char *path, json_object *value)
{
    (void)r;
    (void)format;
    (void)path;
    (void)value;
    return true;
}

/* ---- response_format ---- */

/* {name, schema, strict, description}. An answer is always as strict as it can be. */
static bool read_json_schema(const struct api_reading *r, struct api_response_format *format,
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
           choose_format(r, format, FORMAT_SCHEMA, schema_path.text, schema);
}

bool format_read_response(const struct api_reading *r, struct api_response_format *format,
                          const char *path, json_object *value)
{
    static const char *const known[] = {"type", "json_schema"};
    struct field_path whole = field_root(path), type_path = field_member(&whole, "type"),
                      schema_path = field_member(&whole, "json_schema");
    if (!field_object(r, path, value)) return false;
    json_object *type = json_member(value, "type");
    if (!type) return api_fail_value(r->error, type_path.text, "%s is missing", type_path.text);
    if (field_text_is(type, "structural_tag"))
        return api_fail(r->error, type_path.text,
                        "%s structural_tag is not supported; use json_schema", path);
    if (!field_members_known(r, path, value, known, COUNT(known))) return false;
    if (field_text_is(type, "text")) return true;
    if (field_text_is(type, "json_object"))
        return choose_format(r, format, FORMAT_OBJECT, path, value);
    if (field_text_is(type, "json_schema"))
        return read_json_schema(r, format, &schema_path, json_member(value, "json_schema"));
    return api_fail_field(r->error, type_path.text, "\"text\", \"json_object\" or \"json_schema\"",
                          type);
}

/* ---- structured_outputs ---- */

/* White space is never more than one blank, and there is no second way of making an answer valid to
 * fall back to. */
static const struct {
    const char *name;
    bool (*read)(const struct api_reading *r, struct api_response_format *format, const char *path,
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

bool format_read_structured(const struct api_reading *r, struct api_response_format *format,
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

static const char *tool_name(json_object *tool)
{
    return json_object_get_string(json_member(json_member(tool, "function"), "name"));
}

static bool has_tool(json_object *tools, const char *name)
{
    for (size_t i = 0; i < json_object_array_length(tools); i++)
        if (strcmp(tool_name(json_object_array_get_idx(tools, i)), name) == 0) return true;
    return false;
}

/* {"type": "function", "function": {"name"}} */
static bool read_named(const struct api_reading *r, const struct field_path *whole,
                       json_object *value, json_object *tools, const char **out)
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
    return has_tool(tools, *out) || api_fail(r->error, name_path.text,
                                             "The tool specified in `tool_choice` does not match "
                                             "any of the specified `tools`: %s",
                                             *out);
}

static bool may_be_called(const struct api_response_format *format, const char *name)
{
    for (size_t i = 0; i < format->n_tools; i++)
        if (strcmp(format->tools[i], name) == 0) return true;
    return !format->n_tools;
}

/* Leaves the tools that may not be called out of the prompt. */
static void keep_named_tools(const struct api_reading *r, const struct api_response_format *format,
                             json_object *tools)
{
    ey_request *request = &r->out->request;
    const char **kept = (const char **)(uintptr_t)request->tools; /* this request's own array */
    size_t n = 0;
    for (size_t i = 0; i < request->n_tools; i++)
        if (may_be_called(format, tool_name(json_object_array_get_idx(tools, i))))
            kept[n++] = kept[i];
    request->n_tools = n;
}

/* {"mode": "auto" or "required", "tools": [named functions]} */
static bool read_allowed_tools(const struct api_reading *r, struct api_response_format *format,
                               const char *path, json_object *value, json_object *tools)
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
    if (required && !choose_format(r, format, FORMAT_CALLS, path, tools)) return false;
    format->tools = arena_array(r->passing, n, sizeof(*format->tools));
    if (!format->tools) return api_fail_memory(r->error);
    for (; format->n_tools < n; format->n_tools++) {
        struct field_path item = field_item(&list_path, format->n_tools);
        if (!read_named(r, &item, json_object_array_get_idx(list, format->n_tools), tools,
                        &format->tools[format->n_tools]))
            return false;
    }
    keep_named_tools(r, format, tools);
    return true;
}

bool format_read_tool_choice(const struct api_reading *r, struct api_response_format *format,
                             const char *path, json_object *value, json_object *tools)
{
    struct field_path whole = field_root(path);
    json_object *type = json_member(value, "type");
    if (!r->out->tools_given)
        return api_fail(r->error, path, "When using `tool_choice`, `tools` must be set.");
    if (type && field_text_is(type, "allowed_tools"))
        return read_allowed_tools(r, format, path, value, tools);
    if (!choose_format(r, format, FORMAT_CALLS, path, tools)) return false;
    if (!json_object_is_type(value, json_type_object)) return true;
    format->tools = arena_array(r->passing, 1, sizeof(*format->tools));
    if (!format->tools) return api_fail_memory(r->error);
    if (!read_named(r, &whole, value, tools, &format->tools[0])) return false;
    format->n_tools = 1;
    format->one_call = true;
    return true;
}

/* ---- grammars ---- */

static bool check_compiled(const struct api_reading *r, bool ok, const char *path, const ey_err *e)
{
    if (ok) return true;
    return e->code == EY_NO_MEMORY ? api_fail_memory(r->error)
                                   : api_fail(r->error, path, "%s: %s", path, e->text);
}

static bool compile_schema(const struct api_reading *r, const struct api_response_format *f,
                           ey_grammar **out)
{
    const char *text = json_object_get_string(f->value);
    ey_err e;
    if (!json_object_is_type(f->value, json_type_string) && !field_copy_json(r, f->value, &text))
        return false;
    size_t n = json_object_is_type(f->value, json_type_string)
                   ? (size_t)json_object_get_string_len(f->value)
                   : strlen(text);
    return check_compiled(r, ey_grammar_of_schema(out, text, n, &e), f->path.text, &e);
}

static bool compile_object(const struct api_reading *r, const struct api_response_format *f,
                           ey_grammar **out)
{
    ey_err e;
    return check_compiled(r, ey_grammar_of_json_object(out, &e), f->path.text, &e);
}

static bool compile_regex(const struct api_reading *r, const struct api_response_format *f,
                          ey_grammar **out)
{
    ey_err e;
    size_t n = (size_t)json_object_get_string_len(f->value);
    return check_compiled(r, ey_grammar_of_regex(out, json_object_get_string(f->value), n, &e),
                          f->path.text, &e);
}

static bool compile_choice(const struct api_reading *r, const struct api_response_format *f,
                           ey_grammar **out)
{
    size_t n = json_object_array_length(f->value);
    const char **choices = arena_array(r->passing, n, sizeof(*choices));
    ey_err e;
    if (!choices) return api_fail_memory(r->error);
    for (size_t i = 0; i < n; i++)
        if (!field_name(r, field_item(&f->path, i).text, json_object_array_get_idx(f->value, i),
                        EY_MAX_SCHEMA_BYTES, r->passing, &choices[i]))
            return false;
    return check_compiled(r, ey_grammar_of_choices(out, choices, n, &e), f->path.text, &e);
}

/* ---- calls ---- */

static struct field_path parameters_path(size_t tool)
{
    struct field_path tools = field_root("tools"), item = field_item(&tools, tool),
                      function = field_member(&item, "function");
    return field_member(&function, "parameters");
}

/* It says of which types its values are, if not by `type`. */
static bool says_otherwise(json_object *schema)
{
    static const char *const names[] = {"$ref", "allOf", "anyOf", "oneOf", "enum", "const"};
    bool found = false;
    for (size_t i = 0; i < COUNT(names); i++)
        found = found || json_object_object_get_ex(schema, names[i], NULL);
    return found;
}

/* Arguments are an object, also where the schema does not say so. */
static bool read_parameters(const struct api_reading *r, const struct field_path *path,
                            json_object *schema, const char **out)
{
    struct field_path type_path = field_member(path, "type");
    json_object *type = json_member(schema, "type");
    *out = NULL;
    if (!schema) return true;
    if (!field_object(r, path->text, schema)) return false;
    if (!json_object_object_length(schema)) return true;
    if (type && !field_text_is(type, "object"))
        return api_fail_field(r->error, type_path.text, "\"object\"", type);
    if (!type && !says_otherwise(schema)) {
        json_object *object = json_object_new_string("object");
        if (!object || json_object_object_add(schema, "type", object) < 0)
            return json_object_put(object), api_fail_memory(r->error);
    }
    return field_copy_json(r, schema, out);
}

/* index[i] is where the grammar's tool i is among the request's. */
static bool fail_calls(const struct api_reading *r, const size_t *index, const ey_err *e)
{
    if (e->item_kind != EY_ITEM_TOOL) return check_compiled(r, false, "tools", e);
    ey_err within;
    ey_fail(&within, e->code, "%s", e->text + e->detail);
    return check_compiled(r, false, parameters_path(index[e->item]).text, &within);
}

static bool compile_calls(const struct api_reading *r, const struct api_response_format *f,
                          ey_grammar **out)
{
    size_t n = json_object_array_length(f->value), n_wanted = 0, index[EY_MAX_TOOLS];
    ey_tool tools[EY_MAX_TOOLS];
    ey_err e;
    for (size_t i = 0; i < n; i++) {
        json_object *tool = json_object_array_get_idx(f->value, i),
                    *function = json_member(tool, "function");
        struct field_path path = parameters_path(i);
        if (!may_be_called(f, tool_name(tool))) continue;
        index[n_wanted] = i;
        tools[n_wanted].name = tool_name(tool);
        if (!read_parameters(r, &path, json_member(function, "parameters"),
                             &tools[n_wanted++].schema))
            return false;
    }
    bool several = !f->one_call && !r->out->single_call;
    return ey_grammar_of_tool_calls(out, r->limits->tool_format, tools, n_wanted, several, &e) ||
           fail_calls(r, index, &e);
}

/* ---- grammars of earlier requests ---- */

/* All that the grammar is made of: the kind, of calls which and in what format, and the field's
 * JSON. False: it has no key. */
static bool write_key(const struct api_reading *r, const struct api_response_format *f,
                      struct buf *key)
{
    size_t n;
    const char *value = json_object_to_json_string_length(f->value, JSON_C_TO_STRING_PLAIN, &n),
               *calls = f->kind == FORMAT_CALLS ? ey_tool_format_name(r->limits->tool_format) : "";
    bool ok = value &&
              buf_printf(key, "%d %d %d %s ", f->kind, r->out->single_call, f->one_call, calls);
    for (size_t i = 0; ok && i < f->n_tools; i++)
        ok = buf_printf(key, "%zu %s ", strlen(f->tools[i]), f->tools[i]);
    return ok && buf_add(key, value, n);
}

typedef bool compile_fn(const struct api_reading *r, const struct api_response_format *f,
                        ey_grammar **out);

static bool find_or_compile(const struct api_reading *r, const struct api_response_format *f,
                            compile_fn *compile, ey_grammar **out)
{
    ey_grammar_cache *cache = r->limits->grammars;
    struct buf key = buf_with_max(MAX_GRAMMAR_KEY_BYTES);
    bool has_key = cache &&
                   write_key(r, f, &key); /* before compiling, which may complete a tool's schema */
    *out = has_key ? ey_grammar_cache_find(cache, key.data, key.size) : NULL;
    bool ok = *out || compile(r, f, out);
    if (ok && has_key) ey_grammar_cache_put(cache, key.data, key.size, *out);
    buf_free(&key);
    return ok;
}

/* ---- the whole ---- */

bool format_compile(const struct api_reading *r, const struct api_response_format *format)
{
    static compile_fn *const compile[] = {[FORMAT_SCHEMA] = compile_schema,
                                          [FORMAT_OBJECT] = compile_object,
                                          [FORMAT_REGEX] = compile_regex,
                                          [FORMAT_CHOICE] = compile_choice,
                                          [FORMAT_CALLS] = compile_calls};
    if (format->kind == FORMAT_FREE || r->out->kind == API_TOKENIZE) return true;
    if (format->kind != FORMAT_CALLS) r->out->tools_given = false;
    if (format->kind == FORMAT_CALLS && !r->limits->tool_format)
        return true; /* the prompt will be refused, which says why */
    return find_or_compile(r, format, compile[format->kind], &r->out->request.grammar);
}
