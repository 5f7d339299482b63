/* SPDX-License-Identifier: Apache-2.0 */
/* Reads requests of /api/chat and /api/generate: a table of all fields, in the order in which they
 * are read. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "server/api/common/sampling_fields.h"
#include "server/api/common/message_list.h"
#include "server/api/ollama/ollama_dialect.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- images ---- */

/* Reads an array of images, each bare base64 or a data: URL. */
static bool read_base64_images(struct api_parser *p, const struct field_path *path,
                               json_object *value, ey_part *parts)
{
    size_t n = json_object_array_length(value);
    for (size_t i = 0; i < n; i++)
        if (!image_refs_add_item(&p->reading, &p->images, path, value, i, &parts[i])) return false;
    return true;
}

/* Reads a message's parts: its images, then its text. `message` is empty if they are fields of the
 * request itself. */
static bool read_parts(struct api_parser *p, const struct field_path *message,
                       const struct field_path *text_path, json_object *text, json_object *images,
                       ey_message *out)
{
    const struct api_reading *r = &p->reading;
    struct field_path images_path = field_member(message, "images");
    size_t n_images = 0, n = 0;
    const char *bytes = "";
    if (!message->text[0]) images_path = field_root("images");
    if (images && !field_array(r, images_path.text, images, 0, EY_MAX_CONTENT_PARTS - 1, &n_images))
        return false;
    if (n_images && strcmp(out->role, "user") != 0 && strcmp(out->role, "tool") != 0)
        return api_fail(r->error, images_path.text,
                        "%s: an image cannot be in a message of the %s; put it into a user message",
                        images_path.text, out->role);
    if (json_object_is_type(text, json_type_array))
        return api_fail(r->error, text_path->text,
                        "%s must be a string; images go into \"images\", as base64",
                        text_path->text);
    if (text && !field_text(r, text_path->text, text, EY_MAX_TEXT_BYTES, &bytes, &n)) return false;
    ey_part *parts = arena_array(r->passing, n_images + 1, sizeof(*parts));
    if (!parts) return api_fail_memory(r->error);
    if (n_images && !read_base64_images(p, &images_path, images, parts)) return false;
    parts[n_images] = (ey_part){.type = EY_PART_TEXT, .bytes = bytes, .n_bytes = n};
    out->parts = parts;
    out->n_parts = n_images + 1;
    return true;
}

/* ---- messages ---- */

static bool read_ollama_role(const struct api_reading *r, const struct field_path *message,
                             json_object *value, const char **out)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    struct field_path path = field_member(message, "role");
    const char *given = json_object_is_type(value, json_type_string) ? json_object_get_string(value)
                                                                     : "";
    for (size_t i = 0; i < COUNT(roles); i++)
        if (strcasecmp(given, roles[i]) == 0) return *out = roles[i], true;
    if (!value) return api_fail_value(r->error, path.text, "%s is missing", path.text);
    return api_fail_field(r->error, path.text, "\"system\", \"user\", \"assistant\" or \"tool\"",
                          value);
}

/* Reads a call, whose arguments are an object, or a string of JSON as in other APIs. */
static bool read_past_call(const struct api_reading *r, const struct field_path *path,
                           json_object *value, ey_tool_call *out)
{
    struct field_path function = field_member(path, "function"),
                      name = field_member(&function, "name"),
                      arguments = field_member(&function, "arguments");
    json_object *called = json_member(value, "function"), *given = json_member(called, "name"),
                *said = json_member(called, "arguments");
    if (!given) return api_fail_value(r->error, name.text, "%s is missing", name.text);
    if (!field_name(r, name.text, given, EY_MAX_NAME_BYTES, r->passing, &out->name)) return false;
    if (!said || field_text_is(said, "")) return out->arguments = "{}", true;
    if (json_object_is_type(said, json_type_string))
        return field_name(r, arguments.text, said, EY_MAX_TEXT_BYTES, r->passing, &out->arguments);
    return field_object(r, arguments.text, said) && field_copy_json(r, said, &out->arguments);
}

static bool read_ollama_thought(const struct api_reading *r, const struct field_path *message,
                                json_object *value, ey_message *out)
{
    return !value || field_text(r, field_member(message, "thinking").text, value, EY_MAX_TEXT_BYTES,
                                &out->thought, &out->n_thought);
}

static bool read_ollama_message(struct api_parser *p, const struct field_path *path,
                                json_object *value, ey_message *out)
{
    struct field_path content = field_member(path, "content");
    return field_object(&p->reading, path->text, value) &&
           read_ollama_role(&p->reading, path, json_member(value, "role"), &out->role) &&
           read_parts(p, path, &content, json_member(value, "content"),
                      json_member(value, "images"), out) &&
           read_ollama_thought(&p->reading, path, json_member(value, "thinking"), out) &&
           message_read_calls(&p->reading, path, json_member(value, "tool_calls"), out,
                              read_past_call);
}

static bool read_ollama_messages(struct api_parser *p, const char *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    struct field_path whole = field_root(path);
    size_t n;
    if (!field_array(r, path, value, 1, EY_MAX_MESSAGES, &n)) return false;
    ey_message *messages = arena_array(r->passing, n, sizeof(*messages));
    if (!messages) return api_fail_memory(r->error);
    for (size_t i = 0; i < n; i++) {
        struct field_path item = field_item(&whole, i);
        if (!read_ollama_message(p, &item, json_object_array_get_idx(value, i), &messages[i]))
            return false;
    }
    r->out->request.messages = messages;
    r->out->request.n_messages = n;
    return true;
}

/* ---- tools ---- */

static bool read_ollama_tool(const struct api_reading *r, const struct field_path *path,
                             json_object *value, struct api_tool *out, const char **json)
{
    struct field_path function = field_member(path, "function"),
                      name = field_member(&function, "name");
    json_object *described = json_member(value, "function"),
                *given = json_member(described, "name");
    if (!given) return api_fail_value(r->error, name.text, "%s is missing", name.text);
    out->parameters = json_member(described, "parameters");
    out->path = field_member(&function, "parameters");
    return field_name(r, name.text, given, EY_MAX_NAME_BYTES, r->passing, &out->name) &&
           field_copy_json(r, value, json);
}

static bool read_ollama_tools(struct api_parser *p, const char *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    struct field_path whole = field_root(path);
    size_t n;
    if (!field_array(r, path, value, 0, EY_MAX_TOOLS, &n)) return false;
    if (n && !r->limits->tool_format) {
        api_fail(r->error, path, "%.200s does not support tools", r->out->model);
        r->error->code = API_ERROR_UNSUPPORTED;
        return false;
    }
    const char **json = arena_array(r->passing, n + 1, sizeof(*json));
    struct api_tool *tool = arena_array(r->passing, n + 1, sizeof(*tool));
    if (!json || !tool) return api_fail_memory(r->error);
    for (size_t i = 0; i < n; i++) {
        struct field_path item = field_item(&whole, i);
        if (!read_ollama_tool(r, &item, json_object_array_get_idx(value, i), &tool[i], &json[i]))
            return false;
    }
    tools_set(r, &p->tools, tool, json, n);
    return true;
}

/* ---- generate's prompt ---- */

static bool read_raw_prompt(struct api_parser *p, json_object *prompt)
{
    const struct api_reading *r = &p->reading;
    static const char *const others[] = {"system", "template", "context"};
    for (size_t i = 0; i < COUNT(others); i++)
        if (!field_is_neutral(json_member(p->json, others[i])))
            return api_fail(r->error, others[i],
                            "raw mode does not support template, system, or context");
    if (!field_is_neutral(json_member(p->json, "images")))
        return api_fail(r->error, "images", "raw mode does not support images");
    r->out->prompts = arena_array(r->passing, 1, sizeof(*r->out->prompts));
    if (!r->out->prompts) return api_fail_memory(r->error);
    r->out->n_prompts = 1;
    r->out->request.parse_special_tokens = true;
    return field_text(r, "prompt", prompt, EY_MAX_TEXT_BYTES, &r->out->prompts->text,
                      &r->out->prompts->n_text);
}

/* Makes a system message, if `system` is given, and a user message of the images and the prompt. */
static bool read_prompt_messages(struct api_parser *p, json_object *prompt)
{
    const struct api_reading *r = &p->reading;
    const struct field_path top = field_root(""), prompt_path = field_root("prompt"),
                            system_path = field_root("system");
    json_object *system = json_member(p->json, "system");
    ey_message *messages = arena_array(r->passing, 2, sizeof(*messages));
    size_t n = 0;
    if (!messages) return api_fail_memory(r->error);
    if (!field_is_neutral(system)) {
        messages[n].role = "system";
        if (!read_parts(p, &top, &system_path, system, NULL, &messages[n++])) return false;
    }
    messages[n].role = "user";
    if (!read_parts(p, &top, &prompt_path, prompt, json_member(p->json, "images"), &messages[n++]))
        return false;
    r->out->request.messages = messages;
    r->out->request.n_messages = n;
    return true;
}

static bool read_generate_prompt(struct api_parser *p)
{
    json_object *prompt = json_member(p->json, "prompt"), *raw = json_member(p->json, "raw");
    bool is_raw = false;
    if (prompt && !json_object_is_type(prompt, json_type_string))
        return api_fail_field(p->reading.error, "prompt", "a string", prompt);
    if (raw && !field_bool(&p->reading, "raw", raw, &is_raw)) return false;
    return is_raw ? read_raw_prompt(p, prompt) : read_prompt_messages(p, prompt);
}

/* ---- single fields ---- */

static bool read_suffix(struct api_parser *p, const char *path, json_object *value)
{
    if (field_is_neutral(value)) return true; /* PhotoPrism always sends it */
    api_fail(p->reading.error, path, "%.200s does not support insert", p->reading.out->model);
    p->reading.error->code = API_ERROR_UNSUPPORTED;
    return false;
}

static bool note_field(struct api_parser *p, const char *path, json_object *value)
{
    if (!field_is_neutral(value)) api_note(&p->reading, "%s was ignored", path);
    return true;
}

static bool read_ollama_logprobs(struct api_parser *p, const char *path, json_object *value)
{
    if (!field_bool(&p->reading, path, value, &p->logprobs)) return false;
    if (p->logprobs) p->reading.out->request.top_logprobs = 0;
    return true;
}

static bool read_ollama_top_logprobs(struct api_parser *p, const char *path, json_object *value)
{
    int64_t got;
    if (!json_object_is_type(value, json_type_int) || (got = json_object_get_int64(value)) < 0 ||
        got > EY_MAX_TOP_LOGPROBS)
        return api_fail(p->reading.error, path, "top_logprobs must be between 0 and %d",
                        EY_MAX_TOP_LOGPROBS);
    if (p->logprobs) p->reading.out->request.top_logprobs = (int)got;
    return true;
}

/* Unless this is false, the oldest messages of a chat that is too long are dropped. */
static bool read_truncate(struct api_parser *p, const char *path, json_object *value)
{
    return field_bool(&p->reading, path, value, &p->reading.out->drops_messages);
}

/* ---- the table ---- */

enum { CHAT = 1 << OLLAMA_CHAT, GENERATE = 1 << OLLAMA_GENERATE, BOTH = CHAT | GENERATE };

/* The route reads `keep_alive`. The fields that make generate's prompt are read together, after the
 * table's fields. */
static const struct api_field fields[] = {
    {"model", BOTH, accept_field},
    {"stream", BOTH, read_stream_flag},
    {"think", BOTH, ollama_read_think},
    {"options", BOTH, ollama_read_options},
    {"logprobs", BOTH, read_ollama_logprobs},
    {"top_logprobs", BOTH, read_ollama_top_logprobs},
    {"format", BOTH, ollama_read_format},
    {"suffix", GENERATE, read_suffix},
    {"template", GENERATE, note_field},
    {"context", GENERATE, note_field},
    {"keep_alive", BOTH, accept_field},
    {"truncate", CHAT, read_truncate},
    {"truncate", GENERATE, accept_field},
    {"shift", BOTH, accept_field},
    {"system", BOTH, accept_field}, /* LLM Vision sends this and the next two with a chat */
    {"prompt", BOTH, accept_field},
    {"images", BOTH, accept_field},
    {"raw", GENERATE, accept_field},
    {"width", GENERATE, accept_field},
    {"height", GENERATE, accept_field},
    {"steps", GENERATE, accept_field},
    {"_debug_render_only", BOTH, accept_field},
    {"mm_processor_kwargs", BOTH, read_mm_processor},
    {"tools", CHAT, read_ollama_tools},
    {"messages", CHAT, read_ollama_messages},
};

static bool refuse_task(const struct api_reading *r)
{
    api_fail(r->error, "model", "\"%.200s\" does not support %s", r->out->model,
             r->out->kind == OLLAMA_CHAT ? "chat" : "generate");
    r->error->code = API_ERROR_UNSUPPORTED;
    return false;
}

/* Whether the answer continues the last message, as in Ollama. */
static bool is_answer_begun(const struct api_parser *p)
{
    const ey_request *request = &p->reading.out->request;
    if (!request->n_messages || p->format.kind != FORMAT_FREE) return false;
    const ey_message *last = &request->messages[request->n_messages - 1];
    return strcmp(last->role, "assistant") == 0 && !last->n_tool_calls &&
           last->parts[last->n_parts - 1].n_bytes;
}

bool ollama_read(struct api_parser *p)
{
    struct api_request *out = p->reading.out;
    if (p->reading.limits->task != EY_TASK_GENERATE) return refuse_task(&p->reading);
    out->stream = true;
    out->drops_messages = out->kind == OLLAMA_CHAT;
    if (!image_refs_open(&p->reading, &p->images) || !api_read_fields(p, fields, COUNT(fields)) ||
        !api_note_unknown_fields(p, fields, COUNT(fields)))
        return false;
    if (out->kind == OLLAMA_GENERATE) return read_generate_prompt(p);
    out->request.continue_answer = is_answer_begun(p);
    return out->request.n_messages ||
           api_fail_value(p->reading.error, "messages", "messages is missing");
}

bool ollama_asks_nothing(json_object *request, enum ollama_kind kind)
{
    if (kind == OLLAMA_CHAT) return field_is_neutral(json_member(request, "messages"));
    return field_is_neutral(json_member(request, "prompt")) &&
           field_is_neutral(json_member(request, "images"));
}
