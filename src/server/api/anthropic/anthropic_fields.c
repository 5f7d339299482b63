/* SPDX-License-Identifier: Apache-2.0 */
/* Reads requests of /v1/messages: a table of all fields, in the order in which they are read. */
#include "base/limits.h"
#include "server/api/anthropic/anthropic_dialect.h"
#include "server/api/common/sampling_fields.h"
#include "server/api/common/thinking_fields.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { DEFAULT_TOKENS = 4096 }; /* default length of an answer, as in llama.cpp */

static bool is_any_of(json_object *value, const char *const *names, size_t n)
{
    bool found = false;
    for (size_t i = 0; i < n; i++)
        found = found || field_text_is(value, names[i]);
    return found;
}

/* ---- thinking ---- */

/* With "omitted", the answer has thinking blocks without their text. */
static bool read_thinking_display(struct api_parser *p, json_object *value)
{
    struct anthropic_request *own = p->reading.out->own;
    own->omits_thoughts = field_text_is(value, "omitted");
    return !value || own->omits_thoughts || field_text_is(value, "summarized") ||
           api_fail_field(p->reading.error, "thinking.display", "\"summarized\" or \"omitted\"",
                          value);
}

/* The field is not refused for models that cannot think, because Claude Code always sends it. */
static bool read_thinking(struct api_parser *p, const char *path, json_object *value)
{
    static const char *const types[] = {"enabled", "disabled", "adaptive", "between_tools"};
    const struct api_reading *r = &p->reading;
    bool off;
    int64_t tokens;
    if (!field_object(r, path, value)) return false;
    json_object *type = json_member(value, "type"), *budget = json_member(value, "budget_tokens");
    if (!is_any_of(type, types, COUNT(types)))
        return api_fail_field(r->error, "thinking.type",
                              "\"enabled\", \"disabled\", \"adaptive\" or \"between_tools\"", type);
    if (!read_thinking_display(p, json_member(value, "display"))) return false;
    off = field_text_is(type, "disabled");
    if (r->limits->thinks) thinking_ask(p, "thinking.type", !off);
    if (!budget || off) return true;
    return field_int(r, "thinking.budget_tokens", budget, 1, INT32_MAX, &tokens) &&
           read_thinking_budget(p, "thinking.budget_tokens", budget);
}

/* ---- the format of the answer ---- */

static bool read_output_format(struct api_parser *p, json_object *value)
{
    static const char path[] = "output_config.format",
                      schema_path[] = "output_config.format.schema";
    const struct api_reading *r = &p->reading;
    json_object *type = json_member(value, "type"), *schema = json_member(value, "schema");
    if (!field_object(r, path, value)) return false;
    if (!field_text_is(type, "json_schema"))
        return api_fail_field(r->error, "output_config.format.type", "\"json_schema\"", type);
    if (!schema) return api_fail_value(r->error, schema_path, "%s is missing", schema_path);
    return field_object(r, schema_path, schema) &&
           format_choose(r, &p->format, FORMAT_SCHEMA, schema_path, schema);
}

static bool read_output_config(struct api_parser *p, const char *path, json_object *value)
{
    static const char *const known[] = {"effort", "format"}, *const efforts[] = {"low", "medium",
                                                                                 "high", "xhigh",
                                                                                 "max"};
    const struct api_reading *r = &p->reading;
    if (!field_object(r, path, value) || !field_members_known(r, path, value, known, COUNT(known)))
        return false;
    json_object *effort = json_member(value, "effort"), *format = json_member(value, "format");
    if (effort && !is_any_of(effort, efforts, COUNT(efforts)))
        return api_fail_field(r->error, "output_config.effort",
                              "\"low\", \"medium\", \"high\", \"xhigh\" or \"max\"", effort);
    if (effort && !read_reasoning_effort(p, "output_config.effort", effort)) return false;
    return !format || read_output_format(p, format);
}

/* `output_format` is the former name of output_config.format. */
static bool read_bare_output_format(struct api_parser *p, const char *path, json_object *value)
{
    (void)path;
    return read_output_format(p, value);
}

/* ---- the table ---- */

enum { ASK = 1 << ANTHROPIC_MESSAGES, BOTH = ASK | 1 << ANTHROPIC_COUNT };

/* `system` and `messages` are read together, after the table's fields. */
static const struct api_field fields[] = {
    {"model", BOTH, accept_field},
    {"stream", ASK, read_stream_flag},
    {"stream", 1 << ANTHROPIC_COUNT, accept_field},
    {"max_tokens", BOTH, read_max_tokens},
    {"temperature", BOTH, read_temperature},
    {"top_p", BOTH, read_top_p},
    {"top_k", BOTH, read_top_k},
    {"stop_sequences", BOTH, read_stop},
    {"thinking", BOTH, read_thinking},
    {"output_config", BOTH, read_output_config},
    {"output_format", BOTH, read_bare_output_format},
    {"metadata", BOTH, accept_field},
    {"service_tier", BOTH, accept_field},
    {"container", BOTH, accept_field},
    {"inference_geo", BOTH, accept_field},
    {"cache_control", BOTH, accept_field},
    {"context_management", BOTH, accept_field},
    {"user_profile_id", BOTH, accept_field},
    {"betas", BOTH, accept_field},
    {"speed", BOTH, accept_field},
    {"diagnostics", BOTH, accept_field},
    {"chat_template_kwargs", BOTH, read_template_options},
    {"mcp_servers", BOTH, refuse_field},
    {"mm_processor_kwargs", BOTH, read_mm_processor},
    {"tools", BOTH, anthropic_read_tools},
    {"tool_choice", BOTH, anthropic_read_tool_choice},
    {"system", BOTH, accept_field},
    {"messages", BOTH, accept_field},
};

bool anthropic_read(struct api_parser *p)
{
    struct api_request *out = p->reading.out;
    out->request.max_tokens = DEFAULT_TOKENS;
    out->own = arena_alloc(p->reading.lasting, sizeof(struct anthropic_request));
    if (!out->own) return api_fail_memory(p->reading.error);
    if (!out->model[0]) return api_fail_value(p->reading.error, "model", "model is missing");
    if (!image_refs_open(&p->reading, &p->images) || !api_read_fields(p, fields, COUNT(fields)) ||
        !api_note_unknown_fields(p, fields, COUNT(fields)) || !anthropic_read_conversation(p))
        return false;
    if (out->kind == ANTHROPIC_COUNT)
        p->format = (struct answer_format){0}; /* counting tokens generates no answer */
    return true;
}
