/* SPDX-License-Identifier: Apache-2.0 */
/* Constrains answers to a schema, a pattern, a choice or tool calls. The grammar is compiled only
 * after the whole request has been read and found valid. */
#include "server/api/common/answer_grammar.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/processors.h"
#include "base/text/json_writer.h"
#include "server/api/common/api_charge.h"

/* Grammars with longer cache keys are not cached. */
enum { MAX_GRAMMAR_KEY_BYTES = 1 << 20 };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- formats ---- */

bool format_choose(const struct api_reading *r, struct answer_format *format,
                   enum answer_format_kind kind, const char *path, json_object *value)
{
    if (format->kind)
        return api_fail(r->error, path,
                        "%s and %s cannot both be given: an answer can have only one format",
                        format->path.text, path);
    format->kind = kind;
    format->path = field_root(path);
    format->value = value;
    return true;
}

bool format_read_schema(const struct api_reading *r, struct answer_format *format, const char *path,
                        json_object *value)
{
    if (!json_object_is_type(value, json_type_object) &&
        !json_object_is_type(value, json_type_string))
        return api_fail_field(r->error, path, "an object or a string of JSON", value);
    return format_choose(r, format, FORMAT_SCHEMA, path, value);
}

/* ---- tools ---- */

void tools_set(const struct api_reading *r, struct api_tools *tools, struct api_tool *tool,
               const char *const *json, size_t n)
{
    *tools = (struct api_tools){tool, n};
    r->out->request.tools = json;
    r->out->request.n_tools = n;
    r->out->tools_given = n > 0;
}

static bool tools_write_function(const struct api_reading *r, const char *name,
                                 json_object *description, json_object *parameters,
                                 const char **json)
{
    struct buf text = buf_with_max(EY_MAX_JSON_BYTES);
    struct json_writer w = json_write_to(&text, JSON_SPACED);
    json_open_object(&w);
    json_add_string(&w, "type", "function");
    json_write_key(&w, "function");
    json_open_object(&w);
    json_add_string(&w, "name", name);
    if (description) {
        json_write_key(&w, "description");
        json_write_value(&w, description);
    }
    if (parameters) {
        json_write_key(&w, "parameters");
        json_write_value(&w, parameters);
    }
    json_close_object(&w);
    json_close_object(&w);
    *json = text.failed ? NULL : arena_copy_text(r->passing, text.data, text.size);
    buf_free(&text);
    return *json || api_fail_memory(r->error);
}

bool tools_read_function(const struct api_reading *r, const struct field_path *path,
                         json_object *value, const char *parameters, struct api_tool *out,
                         const char **json)
{
    struct field_path name_path = field_member(path, "name");
    json_object *name = json_member(value, "name");
    out->parameters = json_member(value, parameters);
    out->path = field_member(path, parameters);
    if (!name) return api_fail_value(r->error, name_path.text, "%s is missing", name_path.text);
    return field_name(r, name_path.text, name, EY_MAX_NAME_BYTES, r->passing, &out->name) &&
           (!out->parameters || field_object(r, out->path.text, out->parameters)) &&
           tools_write_function(r, out->name, json_member(value, "description"), out->parameters,
                                json);
}

void tools_drop(const struct api_reading *r)
{
    r->out->request.tools = NULL;
    r->out->request.n_tools = 0;
    r->out->tools_given = false;
}

bool tools_have(const struct api_tools *tools, const char *name)
{
    for (size_t i = 0; i < tools->n; i++)
        if (strcmp(tools->tool[i].name, name) == 0) return true;
    return false;
}

static bool may_be_called(const struct answer_format *format, const char *name)
{
    for (size_t i = 0; i < format->n_names; i++)
        if (strcmp(format->names[i], name) == 0) return true;
    return !format->n_names;
}

void format_keep_named_tools(const struct api_reading *r, const struct answer_format *format,
                             const struct api_tools *tools)
{
    ey_request *request = &r->out->request;
    const char **kept = (const char **)(uintptr_t)request->tools; /* this request's own array */
    size_t n = 0;
    for (size_t i = 0; i < request->n_tools; i++)
        if (may_be_called(format, tools->tool[i].name)) kept[n++] = kept[i];
    request->n_tools = n;
}

/* ---- grammars ---- */

static bool check_compiled(const struct api_reading *r, bool ok, const char *path, const ey_err *e)
{
    if (ok) return true;
    return e->code == EY_NO_MEMORY ? api_fail_memory(r->error)
                                   : api_fail(r->error, path, "%s: %s", path, e->text);
}

static bool compile_schema(const struct api_reading *r, const struct answer_format *f,
                           const struct api_tools *tools, ey_grammar **out)
{
    (void)tools;
    const char *text = json_object_get_string(f->value);
    ey_err e;
    if (!json_object_is_type(f->value, json_type_string) && !field_copy_json(r, f->value, &text))
        return false;
    size_t n = json_object_is_type(f->value, json_type_string)
                   ? (size_t)json_object_get_string_len(f->value)
                   : strlen(text);
    return check_compiled(r, ey_grammar_of_schema(out, text, n, &e), f->path.text, &e);
}

static bool compile_object(const struct api_reading *r, const struct answer_format *f,
                           const struct api_tools *tools, ey_grammar **out)
{
    (void)tools;
    ey_err e;
    return check_compiled(r, ey_grammar_of_json_object(out, &e), f->path.text, &e);
}

static bool compile_regex(const struct api_reading *r, const struct answer_format *f,
                          const struct api_tools *tools, ey_grammar **out)
{
    (void)tools;
    ey_err e;
    size_t n = (size_t)json_object_get_string_len(f->value);
    return check_compiled(r, ey_grammar_of_regex(out, json_object_get_string(f->value), n, &e),
                          f->path.text, &e);
}

static bool compile_choice(const struct api_reading *r, const struct answer_format *f,
                           const struct api_tools *tools, ey_grammar **out)
{
    (void)tools;
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

/* Whether the schema restricts its type by other means than `type`. */
static bool says_otherwise(json_object *schema)
{
    static const char *const names[] = {"$ref", "allOf", "anyOf", "oneOf", "enum", "const"};
    bool found = false;
    for (size_t i = 0; i < COUNT(names); i++)
        found = found || json_object_object_get_ex(schema, names[i], NULL);
    return found;
}

/* Sets *out to the text of the arguments' schema, to which type "object" is added if the schema
 * does not restrict the type. */
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

/* Reports the compiler's error with the path of the tool that caused it. Tool i of the grammar is
 * tools->tool[index[i]]. */
static bool fail_calls(const struct api_reading *r, const struct api_tools *tools,
                       const size_t *index, const ey_err *e)
{
    if (e->item_kind != EY_ITEM_TOOL) return check_compiled(r, false, "tools", e);
    ey_err within;
    ey_fail(&within, e->code, "%s", e->text + e->detail);
    return check_compiled(r, false, tools->tool[index[e->item]].path.text, &within);
}

static bool compile_calls(const struct api_reading *r, const struct answer_format *f,
                          const struct api_tools *tools, ey_grammar **out)
{
    size_t n = 0, index[EY_MAX_TOOLS];
    ey_tool wanted[EY_MAX_TOOLS];
    ey_err e;
    for (size_t i = 0; i < tools->n; i++) {
        const struct api_tool *tool = &tools->tool[i];
        if (!may_be_called(f, tool->name)) continue;
        index[n] = i;
        wanted[n].name = tool->name;
        if (!read_parameters(r, &tool->path, tool->parameters, &wanted[n++].schema)) return false;
    }
    bool several = !f->one_call && !r->out->single_call;
    return ey_grammar_of_tool_calls(out, r->limits->tool_format, wanted, n, several, &e) ||
           fail_calls(r, tools, index, &e);
}

/* ---- cache ---- */

/* Writes the part of the cache key for tools: names, then JSON. */
static bool write_tools_key(const struct answer_format *f, const struct api_tools *tools,
                            struct buf *key)
{
    bool ok = true;
    for (size_t i = 0; ok && i < f->n_names; i++)
        ok = buf_printf(key, "%zu %s ", strlen(f->names[i]), f->names[i]);
    for (size_t i = 0; ok && i < tools->n; i++) {
        size_t n = 0;
        const struct api_tool *tool = &tools->tool[i];
        const char *schema = tool->parameters ? json_object_to_json_string_length(
                                                    tool->parameters, JSON_C_TO_STRING_PLAIN, &n)
                                              : "";
        ok = schema && buf_printf(key, "%zu %s %zu ", strlen(tool->name), tool->name, n) &&
             buf_add(key, schema, n);
    }
    return ok;
}

/* Writes the cache key. It contains everything that determines the grammar: the format's kind, and
 * for calls the tools and their format, for other kinds the field's JSON. Fails if the key is too
 * long. */
static bool write_key(const struct api_reading *r, const struct answer_format *f,
                      const struct api_tools *tools, struct buf *key)
{
    size_t n;
    bool calls = f->kind == FORMAT_CALLS;
    const char *name = calls ? ey_tool_format_name(r->limits->tool_format) : "";
    if (!buf_printf(key, "%d %d %d %s ", f->kind, r->out->single_call, f->one_call, name))
        return false;
    if (calls) return write_tools_key(f, tools, key);
    const char *value = json_object_to_json_string_length(f->value, JSON_C_TO_STRING_PLAIN, &n);
    return value && buf_add(key, value, n);
}

typedef bool compile_fn(const struct api_reading *r, const struct answer_format *f,
                        const struct api_tools *tools, ey_grammar **out);

static bool compile_in_turn(const struct api_reading *r, const struct answer_format *f,
                            const struct api_tools *tools, compile_fn *compile, ey_grammar **out)
{
    ey_err e;
    if (!compute_turn_take(&e)) return api_fail_status(r->error, 499, "", e.text);
    bool ok = compile(r, f, tools, out);
    compute_turn_give();
    return ok;
}

static uint64_t values_bytes_of(json_object *value)
{
    size_t n = 0;
    const char *text = json_object_to_json_string_length(value, JSON_C_TO_STRING_PLAIN, &n);
    return text ? api_json_bytes(text, n) : 0;
}

/* Returns the memory that the compiler needs for the JSON values of the schemas, because it parses
 * their text again. */
static uint64_t schema_values_bytes(const struct answer_format *f, const struct api_tools *tools)
{
    uint64_t sum = 0;
    if (f->kind == FORMAT_SCHEMA && json_object_is_type(f->value, json_type_string))
        return api_json_bytes(json_object_get_string(f->value),
                              (size_t)json_object_get_string_len(f->value));
    if (f->kind != FORMAT_CALLS) return f->value ? values_bytes_of(f->value) : 0;
    for (size_t i = 0; i < tools->n; i++)
        if (tools->tool[i].parameters) sum += values_bytes_of(tools->tool[i].parameters);
    return sum;
}

/* Upper bound of the memory for compiling: 48 MiB and a schema's values. The largest measured use
 * was 40 MiB, for a class of 900 characters repeated 800 times. At most half of the budget is
 * charged: if the budget is small, that still suffices for all but such extreme grammars. */
static uint64_t compiling_bytes(const struct api_reading *r, const struct answer_format *f,
                                const struct api_tools *tools)
{
    enum { COMPILER_BYTES = 48 << 20 };
    const struct media_policy *media = r->limits->media;
    uint64_t total = ey_budget_total(media->budget),
             left = total > media->own ? total - media->own : 0,
             whole = COMPILER_BYTES + schema_values_bytes(f, tools);
    return whole < left / 2 ? whole : left / 2;
}

/* Charges compilation to the budget; afterwards only the grammar's own memory stays charged. */
static bool compile_within(const struct api_reading *r, const struct answer_format *f,
                           const struct api_tools *tools, compile_fn *compile, ey_grammar **out)
{
    struct api_charge *charge = &r->out->grammar;
    if (charge->from &&
        !api_charge_take(charge, compiling_bytes(r, f, tools), &r->out->request, r->error))
        return false;
    bool ok = compile_in_turn(r, f, tools, compile, out);
    api_charge_keep(charge, ok ? ey_grammar_bytes(*out) : 0);
    return ok;
}

static bool charge_found(const struct api_reading *r, const ey_grammar *grammar)
{
    return api_charge_take(&r->out->grammar, ey_grammar_bytes(grammar), &r->out->request, r->error);
}

static bool find_or_compile(const struct api_reading *r, const struct answer_format *f,
                            const struct api_tools *tools, compile_fn *compile, ey_grammar **out)
{
    ey_grammar_cache *cache = r->limits->grammars;
    struct buf key = buf_with_max(MAX_GRAMMAR_KEY_BYTES);
    bool has_key = cache &&
                   write_key(r, f, tools, &key); /* before compiling, which may modify the schema */
    *out = has_key ? ey_grammar_cache_find(cache, key.data, key.size) : NULL;
    r->out->grammar.from = r->limits->media ? r->limits->media->budget : NULL;
    bool ok = *out ? charge_found(r, *out) : compile_within(r, f, tools, compile, out);
    if (ok && has_key) ey_grammar_cache_put(cache, key.data, key.size, *out);
    buf_free(&key);
    return ok;
}

/* ---- compile ---- */

bool format_compile(const struct api_reading *r, const struct answer_format *format,
                    const struct api_tools *tools)
{
    static compile_fn *const compile[] = {[FORMAT_SCHEMA] = compile_schema,
                                          [FORMAT_OBJECT] = compile_object,
                                          [FORMAT_REGEX] = compile_regex,
                                          [FORMAT_CHOICE] = compile_choice,
                                          [FORMAT_CALLS] = compile_calls};
    if (format->kind == FORMAT_FREE) return true;
    if (format->kind != FORMAT_CALLS) r->out->tools_given = false;
    if (format->kind == FORMAT_CALLS && !r->limits->tool_format)
        return true; /* preparing the prompt will fail and say why */
    return find_or_compile(r, format, tools, compile[format->kind], &r->out->request.grammar);
}
