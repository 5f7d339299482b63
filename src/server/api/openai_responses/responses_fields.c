/* SPDX-License-Identifier: Apache-2.0 */
/* Reads requests of /v1/responses: a table of all fields in reading order, tools, and the parts
 * that the answer repeats. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/text/json_writer.h"
#include "server/api/common/sampling_fields.h"
#include "server/api/common/thinking_fields.h"
#include "server/api/openai_responses/responses_dialect.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { MAX_METADATA = 16 };

static struct responses_request *own_of(struct api_parser *p)
{
    return p->reading.out->own;
}

/* ---- single fields ---- */

static bool read_include(struct api_parser *p, const char *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    size_t n;
    if (!field_array(r, path, value, 0, 64, &n)) return false;
    for (size_t i = 0; i < n; i++) {
        json_object *item = json_object_array_get_idx(value, i);
        if (field_text_is(item, "message.output_text.logprobs")) p->logprobs = true;
        if (field_text_is(item, "reasoning.encrypted_content"))
            own_of(p)->encrypted_thoughts = true;
    }
    if (p->logprobs) r->out->request.top_logprobs = 0;
    return true;
}

static bool read_included_logprobs(struct api_parser *p, const char *path, json_object *value)
{
    int64_t got;
    if (!field_int(&p->reading, path, value, 0, EY_MAX_TOP_LOGPROBS, &got)) return false;
    if (p->logprobs) p->reading.out->request.top_logprobs = (int)got;
    return true;
}

static bool read_truncation(struct api_parser *p, const char *path, json_object *value)
{
    p->reading.out->drops_messages = field_text_is(value, "auto");
    return p->reading.out->drops_messages || field_text_is(value, "disabled") ||
           api_fail_field(p->reading.error, path, "\"auto\" or \"disabled\"", value);
}

static bool read_texts_of_client(struct api_parser *p, const char *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    struct field_path whole = field_root(path);
    if (!field_object(r, path, value)) return false;
    if (json_object_object_length(value) > MAX_METADATA)
        return api_fail_value(r->error, path, "%s has more than %d members", path, MAX_METADATA);
    json_object_object_foreach(value, key, member)
    {
        const char *text;
        size_t n;
        if (!field_text(r, field_member(&whole, key).text, member, 512, &text, &n)) return false;
    }
    return true;
}

static bool read_reasoning(struct api_parser *p, const char *path, json_object *value)
{
    if (!field_object(&p->reading, path, value)) return false;
    json_object *effort = json_member(value, "effort");
    return !effort || read_reasoning_effort(p, "reasoning.effort", effort);
}

static bool read_flag(struct api_parser *p, const char *path, json_object *value)
{
    bool ignored;
    return field_bool(&p->reading, path, value, &ignored);
}

static bool read_parallel_flag(struct api_parser *p, const char *path, json_object *value)
{
    bool parallel;
    if (!field_bool(&p->reading, path, value, &parallel)) return false;
    p->reading.out->single_call = !parallel;
    return true;
}

/* {"format": {"type", "schema", …}, "verbosity"} */
static bool read_text_options(struct api_parser *p, const char *path, json_object *value)
{
    static const char schema_path[] = "text.format.schema";
    const struct api_reading *r = &p->reading;
    if (!field_object(r, path, value)) return false;
    json_object *format = json_member(value, "format"), *type = json_member(format, "type"),
                *schema = json_member(format, "schema");
    if (!format || field_text_is(type, "text")) return true;
    if (!field_object(r, "text.format", format)) return false;
    if (field_text_is(type, "json_object"))
        return format_choose(r, &p->format, FORMAT_OBJECT, "text.format", format);
    if (!field_text_is(type, "json_schema"))
        return api_fail_field(r->error, "text.format.type",
                              "\"text\", \"json_object\" or \"json_schema\"", type);
    if (!schema) return api_fail_value(r->error, schema_path, "%s is missing", schema_path);
    return field_object(r, schema_path, schema) &&
           format_choose(r, &p->format, FORMAT_SCHEMA, schema_path, schema);
}

/* ---- tools ---- */

/* Reads a flat tool, or one with an inner `function` as in chat. */
static bool read_function_tool(const struct api_reading *r, const struct field_path *path,
                               json_object *value, struct api_tool *out, const char **json)
{
    json_object *inner = json_member(value, "function");
    const struct field_path inner_path = field_member(path, "function"),
                            *at = inner ? &inner_path : path;
    if (inner && !field_object(r, inner_path.text, inner)) return false;
    if (inner) value = inner;
    return tools_read_function(r, at, value, "parameters", out, json);
}

/* Leaves out tools that run on OpenAI's servers, because Codex and n8n always send some. */
bool responses_read_tools(struct api_parser *p, const char *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    struct field_path whole = field_root(path);
    size_t n, kept = 0;
    if (!field_array(r, path, value, 0, EY_MAX_TOOLS, &n)) return false;
    const char **json = arena_array(r->passing, n + 1, sizeof(*json));
    struct api_tool *tool = arena_array(r->passing, n + 1, sizeof(*tool));
    if (!json || !tool) return api_fail_memory(r->error);
    for (size_t i = 0; i < n; i++) {
        struct field_path item = field_item(&whole, i), type_path = field_member(&item, "type");
        json_object *given = json_object_array_get_idx(value, i),
                    *type = json_member(given, "type");
        if (!field_object(r, item.text, given)) return false;
        if (!json_object_is_type(type, json_type_string))
            return api_fail_field(r->error, type_path.text, "a string", type);
        if (!field_text_is(type, "function"))
            api_note(r, "%s (%.40s) was ignored: this server cannot run it", item.text,
                     json_object_get_string(type));
        else if (read_function_tool(r, &item, given, &tool[kept], &json[kept]))
            kept++;
        else
            return false;
    }
    tools_set(r, &p->tools, tool, json, kept);
    return true;
}

static bool read_function_name(struct api_parser *p, const struct field_path *path,
                               json_object *value, const char **out)
{
    const struct api_reading *r = &p->reading;
    struct field_path type_path = field_member(path, "type"),
                      name_path = field_member(path, "name");
    json_object *type = json_member(value, "type"), *name = json_member(value, "name");
    if (!field_object(r, path->text, value)) return false;
    if (!field_text_is(type, "function"))
        return api_fail_field(r->error, type_path.text, "\"function\"", type);
    if (!name) return api_fail_value(r->error, name_path.text, "%s is missing", name_path.text);
    if (!field_name(r, name_path.text, name, EY_MAX_NAME_BYTES, r->passing, out)) return false;
    return tools_have(&p->tools, *out) ||
           api_fail(r->error, name_path.text, "%s: %s is not one of the tools", name_path.text,
                    *out);
}

/* With "required", tools that may not be called stay in the prompt, so that its cached prefix can
 * be used; the grammar keeps the answer from calling them. With "auto" there is no grammar, so they
 * are removed from the prompt. */
static bool read_allowed_functions(struct api_parser *p, const char *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    struct field_path list_path = field_root("tool_choice.tools");
    json_object *mode = json_member(value, "mode"), *list = json_member(value, "tools");
    bool required = field_text_is(mode, "required");
    size_t n;
    if (!required && !field_text_is(mode, "auto"))
        return api_fail_field(r->error, "tool_choice.mode", "\"auto\" or \"required\"", mode);
    if (!list) return api_fail_value(r->error, list_path.text, "%s is missing", list_path.text);
    if (!field_array(r, list_path.text, list, 1, EY_MAX_TOOLS, &n)) return false;
    p->format.names = arena_array(r->passing, n, sizeof(*p->format.names));
    if (!p->format.names) return api_fail_memory(r->error);
    for (; p->format.n_names < n; p->format.n_names++) {
        struct field_path item = field_item(&list_path, p->format.n_names);
        if (!read_function_name(p, &item, json_object_array_get_idx(list, p->format.n_names),
                                &p->format.names[p->format.n_names]))
            return false;
    }
    if (required) return format_choose(r, &p->format, FORMAT_CALLS, path, NULL);
    format_keep_named_tools(r, &p->format, &p->tools);
    return true;
}

bool responses_read_tool_choice(struct api_parser *p, const char *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    struct field_path whole = field_root(path);
    if (field_text_is(value, "auto")) return true;
    if (field_text_is(value, "none")) return tools_drop(r), true;
    bool object = json_object_is_type(value, json_type_object);
    if (!object && !field_text_is(value, "required"))
        return api_fail_field(r->error, path, "\"auto\", \"none\", \"required\" or an object",
                              value);
    if (!r->out->tools_given)
        return api_fail(r->error, path, "tool_choice: the request has no function tools");
    if (object && field_text_is(json_member(value, "type"), "allowed_tools"))
        return read_allowed_functions(p, path, value);
    if (!format_choose(r, &p->format, FORMAT_CALLS, path, NULL)) return false;
    if (!object) return true;
    p->format.names = arena_array(r->passing, 1, sizeof(*p->format.names));
    if (!p->format.names) return api_fail_memory(r->error);
    p->format.n_names = 1;
    p->format.one_call = true;
    return read_function_name(p, &whole, value, &p->format.names[0]);
}

/* ---- the table ---- */

enum { ASK = 1 << RESPONSES_CREATE, BOTH = ASK | 1 << RESPONSES_COUNT };

/* `instructions`, `previous_response_id` and `input` are read together, after the table's fields.
 */
static const struct api_field fields[] = {
    {"model", BOTH, accept_field},
    {"stream", ASK, read_stream_flag},
    {"stream_options", BOTH, accept_field},
    {"max_output_tokens", BOTH, read_max_tokens},
    {"temperature", BOTH, read_temperature},
    {"top_p", BOTH, read_top_p},
    {"top_k", BOTH, read_top_k},
    {"min_p", BOTH, read_min_p},
    {"repetition_penalty", BOTH, read_repetition_penalty},
    {"presence_penalty", BOTH, read_presence_penalty},
    {"frequency_penalty", BOTH, read_frequency_penalty},
    {"seed", BOTH, read_seed},
    {"stop", BOTH, read_stop},
    {"include", BOTH, read_include},
    {"top_logprobs", BOTH, read_included_logprobs},
    {"truncation", BOTH, read_truncation},
    {"metadata", BOTH, read_texts_of_client},
    {"reasoning", BOTH, read_reasoning},
    {"store", BOTH, read_flag},
    {"text", BOTH, read_text_options},
    {"background", BOTH, refuse_field},
    {"conversation", BOTH, refuse_field},
    {"prompt", BOTH, refuse_field},
    {"structured_outputs", BOTH, refuse_field},
    {"stream", 1 << RESPONSES_COUNT, accept_field},
    {"max_tool_calls", BOTH, accept_field},
    {"user", BOTH, accept_field},
    {"safety_identifier", BOTH, accept_field},
    {"prompt_cache_key", BOTH, accept_field},
    {"prompt_cache_retention", BOTH, accept_field},
    {"service_tier", BOTH, accept_field},
    {"moderation", BOTH, accept_field},
    {"context_management", BOTH, accept_field},
    {"multi_agent", BOTH, accept_field},
    {"chat_template_kwargs", BOTH, read_template_options},
    {"repetition_detection", BOTH, read_repetition_detection},
    {"mm_processor_kwargs", BOTH, read_mm_processor},
    {"tools", BOTH, responses_read_tools},
    {"tool_choice", BOTH, responses_read_tool_choice},
    {"parallel_tool_calls", BOTH, read_parallel_flag},
    {"instructions", BOTH, accept_field},
    {"previous_response_id", BOTH, accept_field},
    {"input", BOTH, accept_field},
};

bool responses_read(struct api_parser *p)
{
    const struct api_reading *r = &p->reading;
    json_object *store = json_member(p->json, "store");
    r->out->own = arena_alloc(r->lasting, sizeof(struct responses_request));
    if (!r->out->own) return api_fail_memory(r->error);
    if (!image_refs_open(r, &p->images) || !api_read_fields(p, fields, COUNT(fields)) ||
        !api_note_unknown_fields(p, fields, COUNT(fields)) || !responses_read_input(p))
        return false;
    if (r->out->kind == RESPONSES_COUNT) {
        p->format = (struct answer_format){0}; /* counting has no answer */
        return true;
    }
    bool stored = !store || json_object_get_boolean(store); /* true by default */
    return responses_keep_request(p, stored);
}

/* ---- repeated and stored parts ---- */

/* The members that the answer repeats from the request, with their defaults. */
static const struct {
    const char *name, *otherwise;
} repeated[] = {{"background", "false"},
                {"instructions", "null"},
                {"max_output_tokens", "null"},
                {"max_tool_calls", "null"},
                {"metadata", "{}"},
                {"parallel_tool_calls", "true"},
                {"prompt_cache_key", "null"},
                {"prompt_cache_retention", "null"},
                {"safety_identifier", "null"},
                {"tool_choice", "\"auto\""},
                {"tools", "[]"},
                {"top_logprobs", "0"},
                {"truncation", "\"disabled\""},
                {"user", "null"}};

/* Writes an object of two members: for each the value in `object`, or its default. */
static void add_pair(struct json_writer *w, json_object *object, const char *first,
                     const char *first_otherwise, const char *second, const char *second_otherwise)
{
    const char *names[] = {first, second}, *otherwise[] = {first_otherwise, second_otherwise};
    json_open_object(w);
    for (size_t i = 0; i < 2; i++) {
        json_object *value = json_member(object, names[i]);
        json_write_key(w, names[i]);
        if (value)
            json_write_value(w, value);
        else
            json_write_raw(w, otherwise[i], strlen(otherwise[i]));
    }
    json_close_object(w);
}

static void write_repeated(struct buf *out, json_object *request, const ey_sampling *sampling)
{
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    json_open_object(&w);
    for (size_t i = 0; i < COUNT(repeated); i++) {
        json_object *value = json_member(request, repeated[i].name);
        json_write_key(&w, repeated[i].name);
        if (value)
            json_write_value(&w, value);
        else
            json_write_raw(&w, repeated[i].otherwise, strlen(repeated[i].otherwise));
    }
    json_write_key(&w, "reasoning");
    add_pair(&w, json_member(request, "reasoning"), "effort", "null", "summary", "null");
    json_write_key(&w, "text");
    add_pair(&w, json_member(request, "text"), "format", "{\"type\":\"text\"}", "verbosity",
             "\"medium\"");
    json_add_string(&w, "service_tier", "default");
    json_add_digits(&w, "temperature", (double)sampling->temperature, 7);
    json_add_digits(&w, "top_p", (double)sampling->top_p, 7);
    json_close_object(&w);
}

/* Writes an item as the list of input items shows it: always with an id and a type. */
static void write_kept_item(struct json_writer *w, json_object *item)
{
    char id[48];
    bool message = !json_member(item, "type") ||
                   field_text_is(json_member(item, "type"), "message");
    json_open_object(w);
    if (!json_member(item, "id")) {
        api_random_id(id, message ? "msg_" : "item_");
        json_add_string(w, "id", id);
    }
    if (!json_member(item, "type")) json_add_string(w, "type", "message");
    json_object_object_foreach(item, key, value)
    {
        if (!value && (!strcmp(key, "id") || !strcmp(key, "type")))
            continue; /* null means absent */
        json_write_key(w, key);
        json_write_value(w, value);
    }
    json_close_object(w);
}

static void write_kept_input(struct buf *out, json_object *input)
{
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    json_open_array(&w);
    if (json_object_is_type(input, json_type_string)) {
        char id[48];
        api_random_id(id, "msg_");
        json_open_object(&w);
        json_add_string(&w, "id", id);
        json_add_string(&w, "type", "message");
        json_add_string(&w, "role", "user");
        json_write_key(&w, "content");
        json_open_array(&w);
        json_open_object(&w);
        json_add_string(&w, "type", "input_text");
        json_write_key(&w, "text");
        json_write_value(&w, input);
        json_close_object(&w);
        json_close_array(&w);
        json_close_object(&w);
    }
    size_t n = json_object_is_type(input, json_type_array) ? json_object_array_length(input) : 0;
    for (size_t i = 0; i < n; i++)
        write_kept_item(&w, json_object_array_get_idx(input, i));
    json_close_array(&w);
}

/* Keeps the input for the store. If it is too long, nothing is stored, and the answer's `store` is
 * false. */
static bool keep_input(struct api_parser *p)
{
    const struct api_reading *r = &p->reading;
    struct buf text = buf_with_max(RESPONSES_STORE_BYTES);
    write_kept_input(&text, json_member(p->json, "input"));
    char *copy = text.failed ? NULL : arena_copy_text(r->lasting, text.data, text.size);
    if (copy) r->out->kept_bytes += text.size;
    bool ok = copy || text.failed;
    buf_free(&text);
    own_of(p)->input = copy;
    return ok || api_fail_memory(r->error);
}

bool responses_keep_request(struct api_parser *p, bool store)
{
    const struct api_reading *r = &p->reading;
    struct buf text = buf_with_max(2 * (size_t)EY_MAX_JSON_BYTES);
    write_repeated(&text, p->json, &r->out->request.sampling);
    char *copy = text.failed ? NULL : arena_copy_text(r->lasting, text.data, text.size);
    r->out->kept_bytes += text.size;
    buf_free(&text);
    if (!copy) return api_fail_memory(r->error);
    copy[0] = ','; /* the members follow others, so a comma replaces the braces */
    copy[strlen(copy) - 1] = 0;
    own_of(p)->repeated = copy;
    return !store || keep_input(p);
}
