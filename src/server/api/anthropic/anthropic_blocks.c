/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the blocks of a message into message parts, and reads `tools` and `tool_choice`. Texts are
 * not copied: they point into the parsed JSON. */
#include <string.h>

#include "base/limits.h"
#include "server/api/anthropic/anthropic_dialect.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool fail_unsupported(const struct api_reading *r, const struct field_path *path,
                             const char *what)
{
    api_fail(r->error, path->text, "%s: %s", path->text, what);
    r->error->code = API_ERROR_UNSUPPORTED;
    return false;
}

/* ---- images ---- */

/* Reads {"type": "base64", "data"} or {"type": "url", "url"}. `media_type` is ignored, because the
 * image's bytes tell its format. */
static bool read_image_block(struct api_parser *p, struct message_list *list,
                             const struct field_path *path, json_object *block)
{
    const struct api_reading *r = &p->reading;
    struct field_path source_path = field_member(path, "source"),
                      type_path = field_member(&source_path, "type");
    json_object *source = json_member(block, "source"), *type = json_member(source, "type");
    if (!source)
        return api_fail_value(r->error, source_path.text, "%s is missing", source_path.text);
    if (!field_object(r, source_path.text, source)) return false;
    if (field_text_is(type, "file"))
        return fail_unsupported(r, &source_path, "files are not kept here; send the image itself");
    bool base64 = field_text_is(type, "base64");
    if (!base64 && !field_text_is(type, "url"))
        return api_fail_field(r->error, type_path.text, "\"base64\" or \"url\"", type);
    const char *member = base64 ? "data" : "url";
    struct field_path data_path = field_member(&source_path, member);
    json_object *data = json_member(source, member);
    if (!data) return api_fail_value(r->error, data_path.text, "%s is missing", data_path.text);
    ey_part *part = message_list_add_part(r, list, path->text);
    struct image_ref *ref = part ? image_refs_add(r, &p->images, &data_path, part) : NULL;
    if (!ref) return false;
    ref->base64 = base64;
    ref->holder = source;
    ref->member = member;
    return field_text(r, data_path.text, data, EY_MAX_JSON_BYTES, &ref->url, &ref->n_url);
}

/* ---- texts of documents and search results ---- */

static void note_citations(const struct api_reading *r, const struct field_path *path,
                           json_object *block)
{
    json_object *enabled = json_member(json_member(block, "citations"), "enabled");
    if (json_object_is_type(enabled, json_type_boolean) && json_object_get_boolean(enabled))
        api_note(r, "%s was ignored: answers have no citations",
                 field_member(path, "citations").text);
}

/* Adds the title, if there is one, and notes ignored citations. */
static bool add_title(struct api_parser *p, struct message_list *list,
                      const struct field_path *path, json_object *block)
{
    struct field_path title_path = field_member(path, "title");
    json_object *title = json_member(block, "title");
    note_citations(&p->reading, path, block);
    return field_is_neutral(title) ||
           (message_list_add_text(&p->reading, list, &title_path, title) &&
            message_list_add_bytes(&p->reading, list, path->text, "\n", 1));
}

static bool read_document(struct api_parser *p, struct message_list *list,
                          const struct field_path *path, json_object *block)
{
    const struct api_reading *r = &p->reading;
    struct field_path source_path = field_member(path, "source"),
                      type_path = field_member(&source_path, "type"),
                      data_path = field_member(&source_path, "data"),
                      content_path = field_member(&source_path, "content");
    json_object *source = json_member(block, "source"), *type = json_member(source, "type");
    if (!field_text_is(type, "text") && !field_text_is(type, "content"))
        return type ? fail_unsupported(r, &type_path,
                                       "a document's source must have the type \"text\" or "
                                       "\"content\"; send pages as images")
                    : api_fail_value(r->error, type_path.text, "%s is missing", type_path.text);
    if (!add_title(p, list, path, block)) return false;
    if (field_text_is(type, "text"))
        return message_list_add_text(r, list, &data_path, json_member(source, "data"));
    return anthropic_read_blocks(p, list, &content_path, json_member(source, "content"));
}

static bool read_search_result(struct api_parser *p, struct message_list *list,
                               const struct field_path *path, json_object *block)
{
    struct field_path content_path = field_member(path, "content");
    return add_title(p, list, path, block) &&
           anthropic_read_blocks(p, list, &content_path, json_member(block, "content"));
}

/* ---- blocks ---- */

static bool read_text_block(struct api_parser *p, struct message_list *list,
                            const struct field_path *path, json_object *block)
{
    struct field_path text_path = field_member(path, "text");
    return message_list_add_text(&p->reading, list, &text_path, json_member(block, "text"));
}

static bool read_tool_reference(struct api_parser *p, struct message_list *list,
                                const struct field_path *path, json_object *block)
{
    struct field_path name_path = field_member(path, "tool_name");
    return message_list_add_text(&p->reading, list, &name_path, json_member(block, "tool_name"));
}

/* `input` must be an object; its JSON text is passed to the model. */
static bool read_tool_use(struct api_parser *p, struct message_list *list,
                          const struct field_path *path, json_object *block)
{
    const struct api_reading *r = &p->reading;
    struct field_path name_path = field_member(path, "name"),
                      input_path = field_member(path, "input");
    json_object *name = json_member(block, "name"), *input = json_member(block, "input");
    ey_tool_call *call = message_list_add_call(r, list, path->text);
    if (!call) return false;
    if (!name) return api_fail_value(r->error, name_path.text, "%s is missing", name_path.text);
    call->arguments = "{}";
    return field_name(r, name_path.text, name, EY_MAX_NAME_BYTES, r->passing, &call->name) &&
           (!input || (field_object(r, input_path.text, input) &&
                       field_copy_json(r, input, &call->arguments)));
}

/* The signature is not verified, because a forged thought can do no more than any other text that
 * the client sends. */
static bool read_thinking_block(struct api_parser *p, struct message_list *list,
                                const struct field_path *path, json_object *block)
{
    const struct api_reading *r = &p->reading;
    struct field_path text_path = field_member(path, "thinking");
    json_object *text = json_member(block, "thinking");
    const char *thought;
    size_t n;
    if (!text) return api_fail_value(r->error, text_path.text, "%s is missing", text_path.text);
    if (!field_text(r, text_path.text, text, EY_MAX_TEXT_BYTES, &thought, &n)) return false;
    message_list_set_thought(list, thought, n);
    return true;
}

/* Skips redacted_thinking, which is encrypted, and tool_result, which was read already. */
static bool skip_block(struct api_parser *p, struct message_list *list,
                       const struct field_path *path, json_object *block)
{
    (void)p;
    (void)list;
    (void)path;
    (void)block;
    return true;
}

/* Skips a block of a tool that runs on Anthropic's servers, and notes that it was ignored. */
static bool note_block(struct api_parser *p, struct message_list *list,
                       const struct field_path *path, json_object *block)
{
    (void)list;
    api_note(&p->reading, "%s (%.40s) was ignored", path->text,
             json_object_get_string(json_member(block, "type")));
    return true;
}

enum { IN_USER = 1, IN_ASSISTANT = 2, IN_RESULT = 4, IN_SYSTEM = 8, IN_ALL = 15 };

static const struct {
    const char *type;
    int places;
    bool (*read)(struct api_parser *p, struct message_list *list, const struct field_path *path,
                 json_object *block);
} block_types[] = {
    {"text", IN_ALL, read_text_block},
    {"image", IN_USER | IN_RESULT, read_image_block},
    {"document", IN_USER | IN_RESULT, read_document},
    {"search_result", IN_USER | IN_RESULT, read_search_result},
    {"tool_reference", IN_RESULT, read_tool_reference},
    {"tool_use", IN_ASSISTANT, read_tool_use},
    {"tool_result", IN_USER, skip_block},
    {"thinking", IN_ASSISTANT, read_thinking_block},
    {"redacted_thinking", IN_ASSISTANT, skip_block},
    {"server_tool_use", IN_ASSISTANT, note_block},
    {"web_search_tool_result", IN_USER | IN_ASSISTANT, note_block},
    {"web_fetch_tool_result", IN_USER | IN_ASSISTANT, note_block},
    {"code_execution_tool_result", IN_USER | IN_ASSISTANT, note_block},
    {"bash_code_execution_tool_result", IN_USER | IN_ASSISTANT, note_block},
    {"text_editor_code_execution_tool_result", IN_USER | IN_ASSISTANT, note_block},
    {"tool_search_tool_result", IN_USER | IN_ASSISTANT, note_block},
    {"mcp_tool_use", IN_ASSISTANT, note_block},
    {"mcp_tool_result", IN_USER | IN_ASSISTANT, note_block},
    {"container_upload", IN_USER | IN_ASSISTANT, note_block},
    {"browser_state", IN_USER | IN_RESULT, note_block},
};

static int place_of(const struct message_list *list)
{
    const char *role = message_list_last(list)->role;
    return !strcmp(role, "user")        ? IN_USER
           : !strcmp(role, "assistant") ? IN_ASSISTANT
           : !strcmp(role, "tool")      ? IN_RESULT
                                        : IN_SYSTEM;
}

static bool read_block(struct api_parser *p, struct message_list *list,
                       const struct field_path *path, json_object *block)
{
    struct field_path type_path = field_member(path, "type");
    int place = place_of(list);
    if (!field_object(&p->reading, path->text, block)) return false;
    json_object *type = json_member(block, "type");
    for (size_t i = 0; i < COUNT(block_types); i++)
        if (block_types[i].places & place && field_text_is(type, block_types[i].type))
            return block_types[i].read(p, list, path, block);
    return api_fail_field(p->reading.error, type_path.text,
                          place == IN_ASSISTANT ? "a block type that an assistant message may have"
                          : place == IN_USER    ? "a block type that a user message may have"
                          : place == IN_RESULT  ? "a block type that a tool result may have"
                                                : "\"text\"",
                          type);
}

bool anthropic_read_blocks(struct api_parser *p, struct message_list *list,
                           const struct field_path *path, json_object *blocks)
{
    return message_list_add_content(p, list, path, blocks, "blocks", read_block);
}

/* ---- tools ---- */

/* Whether Anthropic defines the tool. Such a tool has a type like "web_search_20250305"; the type
 * of a tool that the client defines is "custom" or absent. */
static bool is_own_tool(json_object *tool)
{
    json_object *type = json_member(tool, "type");
    return type && !field_text_is(type, "custom");
}

bool anthropic_read_tools(struct api_parser *p, const char *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    struct field_path whole = field_root(path);
    size_t n, kept = 0;
    if (!field_array(r, path, value, 0, EY_MAX_TOOLS, &n)) return false;
    const char **json = arena_array(r->passing, n + 1, sizeof(*json));
    struct api_tool *tool = arena_array(r->passing, n + 1, sizeof(*tool));
    if (!json || !tool) return api_fail_memory(r->error);
    for (size_t i = 0; i < n; i++) {
        struct field_path item = field_item(&whole, i);
        json_object *given = json_object_array_get_idx(value, i);
        if (!field_object(r, item.text, given)) return false;
        if (is_own_tool(given))
            api_note(r, "%s (%.40s) was ignored: this server cannot run it", item.text,
                     json_object_get_string(json_member(given, "type")));
        else if (tools_read_function(r, &item, given, "input_schema", &tool[kept], &json[kept]))
            kept++;
        else
            return false;
    }
    tools_set(r, &p->tools, tool, json, kept);
    return true;
}

static bool choose_tool(struct api_parser *p, const char *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    struct answer_format *format = &p->format;
    json_object *name = json_member(value, "name");
    if (!name) return api_fail_value(r->error, "tool_choice.name", "tool_choice.name is missing");
    format->names = arena_array(r->passing, 1, sizeof(*format->names));
    if (!format->names) return api_fail_memory(r->error);
    if (!field_name(r, "tool_choice.name", name, EY_MAX_NAME_BYTES, r->passing, &format->names[0]))
        return false;
    if (!tools_have(&p->tools, format->names[0]))
        return api_fail(r->error, "tool_choice.name",
                        "tool_choice.name: %s is not one of the tools", format->names[0]);
    format->n_names = 1;
    format->one_call = true;
    return format_choose(r, format, FORMAT_CALLS, path, NULL);
}

bool anthropic_read_tool_choice(struct api_parser *p, const char *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    bool single = false;
    if (!field_object(r, path, value)) return false;
    json_object *type = json_member(value, "type"),
                *flag = json_member(value, "disable_parallel_tool_use");
    if (flag && !field_bool(r, "tool_choice.disable_parallel_tool_use", flag, &single))
        return false;
    r->out->single_call = single;
    if (field_text_is(type, "auto")) return true;
    if (field_text_is(type, "none")) return tools_drop(r), true;
    bool any = field_text_is(type, "any");
    if (!any && !field_text_is(type, "tool"))
        return api_fail_field(r->error, "tool_choice.type",
                              "\"auto\", \"any\", \"tool\" or \"none\"", type);
    if (!r->out->tools_given)
        return api_fail(r->error, path, "tool_choice needs a tool that the client defines");
    return any ? format_choose(r, &p->format, FORMAT_CALLS, path, NULL)
               : choose_tool(p, path, value);
}
