/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the messages of a chat request into ey_message. Text is borrowed from the JSON. Content
 * that the template would silently drop is refused here, where the error can name the field. */
#include "server/api/openai_chat/api_messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/common/message_list.h"

#include "base/limits.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- parts ---- */

/* Reads an image_url part: an object {url, detail}, or a string as some clients send. */
static bool read_image_url(const struct api_reading *r, const struct field_path *path,
                           json_object *holder, struct image_ref *ref)
{
    static const char *const known[] = {"url", "detail"};
    json_object *image = json_member(holder, "image_url"), *detail;
    struct field_path name = field_member(path, "image_url");
    ref->holder = holder;
    ref->member = "image_url";
    ref->path = name;
    if (!image) return api_fail_value(r->error, name.text, "%s is missing", name.text);
    if (json_object_is_type(image, json_type_object)) {
        if (!field_members_known(r, "messages[].content[].image_url", image, known, COUNT(known)))
            return false;
        if ((detail = json_member(image, "detail")) &&
            !image_ref_read_detail(r, &name, detail, ref))
            return false;
        ref->holder = image;
        ref->member = "url";
        ref->path = field_member(&name, "url");
        image = json_member(image, "url");
        if (!image)
            return api_fail_value(r->error, ref->path.text, "%s is missing", ref->path.text);
    }
    return field_text(r, ref->path.text, image, EY_MAX_JSON_BYTES, &ref->url, &ref->n_url);
}

static bool read_image_part(const struct api_reading *r, struct image_refs *images,
                            const struct field_path *path, json_object *value, ey_part *out)
{
    struct image_ref *ref = image_refs_add(r, images, path, out);
    json_object *detail = json_member(value, "detail"); /* as in Responses */
    return ref && (!detail || image_ref_read_detail(r, path, detail, ref)) &&
           read_image_url(r, path, value, ref);
}

/* Reads a file part's object {file_data, filename}: a PDF, a TIFF or an image, as a data: URL or
 * bare base64. The part's `detail` applies to each page. */
static bool read_file_part(const struct api_reading *r, struct image_refs *images,
                           const struct field_path *path, json_object *part, ey_part *out)
{
    static const char *const known[] = {"file_data", "filename", "file_id"};
    struct field_path name = field_member(path, "file");
    json_object *file = json_member(part, "file");
    if (!file) return api_fail_value(r->error, name.text, "%s is missing", name.text);
    if (!field_object(r, name.text, file) ||
        !field_members_known(r, "messages[].content[].file", file, known, COUNT(known)))
        return false;
    if (json_member(file, "file_id"))
        return api_fail(r->error, field_member(&name, "file_id").text,
                        "%s: files are not kept here; send file_data", name.text);
    struct image_ref *ref = image_refs_add(r, images, &name, out);
    json_object *detail = json_member(part, "detail");
    return ref && (!detail || image_ref_read_detail(r, path, detail, ref)) &&
           image_ref_read_file(r, ref, &name, file, "file_data");
}

/* Returns the type of a part. vLLM's clients may omit it, or send the types of Responses. */
static const char *part_type(json_object *part)
{
    json_object *type = json_member(part, "type");
    if (field_text_is(type, "input_text") || field_text_is(type, "output_text")) return "text";
    if (field_text_is(type, "input_image")) return "image_url";
    if (type)
        return json_object_is_type(type, json_type_string) ? json_object_get_string(type) : "";
    return json_member(part, "image_url") ? "image_url" : json_member(part, "text") ? "text" : "";
}

static bool refuse_part(const struct api_reading *r, const struct field_path *path,
                        json_object *part, const char *type)
{
    static const char *const media[] = {"video_url", "video", "input_audio", "audio_url"};
    for (size_t i = 0; i < COUNT(media); i++)
        if (!strcmp(type, media[i]))
            return api_fail(r->error, field_member(path, type).text,
                            "%s: %s is not supported; a part may be text, image_url or file",
                            path->text, type);
    return api_fail_field(r->error, field_member(path, "type").text,
                          "\"text\", \"image_url\" or \"file\"", json_member(part, "type"));
}

static bool read_part(const struct api_reading *r, struct image_refs *images,
                      const struct field_path *path, const char *role, json_object *part,
                      ey_part *out)
{
    static const char *const known[] = {"type", "text", "refusal", "image_url",
                                        "file", "uuid", "detail"};
    if (json_object_is_type(part, json_type_string)) return field_text_part(r, path, part, out);
    if (!json_object_is_type(part, json_type_object))
        return api_fail_field(r->error, path->text, "an object", part);
    const char *type = part_type(part);
    if (!field_members_known(r, "messages[].content[]", part, known, COUNT(known))) return false;
    if (!strcmp(type, "text") || !strcmp(type, "refusal")) {
        if (json_member(part, "detail"))
            api_note(r, "%s was ignored: a text has no detail", field_member(path, "detail").text);
        struct field_path name = field_member(path, type);
        return field_text_part(r, &name, json_member(part, type), out);
    }
    bool file = !strcmp(type, "file");
    if (!file && strcmp(type, "image_url") != 0) return refuse_part(r, path, part, type);
    if (strcmp(role, "user") != 0 && strcmp(role, "tool") != 0)
        return api_fail(r->error, path->text,
                        "%s: an image cannot be in a message of the %s; put it into a user message",
                        path->text, role);
    return file ? read_file_part(r, images, path, part, out)
                : read_image_part(r, images, path, part, out);
}

/* ---- messages ---- */

static bool read_content(const struct api_reading *r, struct image_refs *images,
                         const struct field_path *message, json_object *value, ey_message *out)
{
    struct field_path path = field_member(message, "content");
    size_t n = 1;
    if (!value && (!strcmp(out->role, "assistant") || !strcmp(out->role, "tool"))) return true;
    if (!value) return api_fail_value(r->error, path.text, "%s is missing", path.text);
    bool list = json_object_is_type(value, json_type_array);
    if (!list && !json_object_is_type(value, json_type_string))
        return api_fail_field(r->error, path.text, "a string or an array of parts", value);
    if (list && !field_array(r, path.text, value, 0, EY_MAX_CONTENT_PARTS, &n)) return false;
    ey_part *parts = arena_array(r->passing, n + 1, sizeof(*parts));
    if (!parts) return api_fail_memory(r->error);
    out->parts = parts;
    out->n_parts = n;
    if (!list) return field_text_part(r, &path, value, parts);
    for (size_t i = 0; i < n; i++) {
        struct field_path item = field_item(&path, i);
        if (!read_part(r, images, &item, out->role, json_object_array_get_idx(value, i), &parts[i]))
            return false;
    }
    return true;
}

/* Reads arguments: a string of JSON, which the model gets unchanged, or an object as some clients
 * send. */
static bool read_arguments(const struct api_reading *r, const struct field_path *path,
                           json_object *value, const char **out)
{
    if (!value) return *out = "{}", true;
    if (json_object_is_type(value, json_type_object)) return field_copy_json(r, value, out);
    if (field_text_is(value, "")) return *out = "{}", true;
    return field_name(r, path->text, value, EY_MAX_TEXT_BYTES, r->passing, out);
}

static bool read_tool_call(const struct api_reading *r, const struct field_path *path,
                           json_object *value, ey_tool_call *out)
{
    struct field_path function = field_member(path, "function"),
                      name = field_member(&function, "name");
    struct field_path arguments = field_member(&function, "arguments");
    json_object *called = json_member(value, "function");
    if (!called || !field_object(r, function.text, called))
        return called ? false
                      : api_fail_value(r->error, function.text, "%s is missing", function.text);
    json_object *given = json_member(called, "name");
    if (!given) return api_fail_value(r->error, name.text, "%s is missing", name.text);
    return field_name(r, name.text, given, EY_MAX_NAME_BYTES, r->passing, &out->name) &&
           read_arguments(r, &arguments, json_member(called, "arguments"), &out->arguments);
}

static bool read_role(const struct api_reading *r, const struct field_path *message,
                      json_object *value, const char **out)
{
    static const struct {
        const char *given, *role;
    } roles[] = {{"system", "system"},
                 {"developer", "system"},
                 {"user", "user"},
                 {"assistant", "assistant"},
                 {"tool", "tool"}};
    struct field_path path = field_member(message, "role");
    for (size_t i = 0; i < COUNT(roles); i++)
        if (value && field_text_is(value, roles[i].given)) return *out = roles[i].role, true;
    if (!value) return api_fail_value(r->error, path.text, "%s is missing", path.text);
    return api_fail_field(r->error, path.text,
                          "\"system\", \"developer\", \"user\", \"assistant\" or \"tool\"", value);
}

/* Reads the thought, which clients send under one of two names. The first that has text wins. */
static bool read_past_thought(const struct api_reading *r, const struct field_path *message,
                              json_object *value, ey_message *out)
{
    static const char *const names[] = {"reasoning_content", "reasoning"};
    for (size_t i = 0; i < COUNT(names) && !out->n_thought; i++) {
        json_object *thought = json_member(value, names[i]);
        if (json_object_is_type(thought, json_type_string) &&
            !field_text(r, field_member(message, names[i]).text, thought, EY_MAX_TEXT_BYTES,
                        &out->thought, &out->n_thought))
            return false;
    }
    return true;
}

static bool read_message(const struct api_reading *r, struct image_refs *images,
                         const struct field_path *path, json_object *value, ey_message *out)
{
    static const char *const known[] = {"role",        "content",      "name",
                                        "tool_calls",  "tool_call_id", "refusal",
                                        "annotations", "reasoning",    "reasoning_content"};
    return field_object(r, path->text, value) &&
           field_members_known(r, "messages[]", value, known, COUNT(known)) &&
           read_role(r, path, json_member(value, "role"), &out->role) &&
           read_content(r, images, path, json_member(value, "content"), out) &&
           read_past_thought(r, path, value, out) &&
           message_read_calls(r, path, json_member(value, "tool_calls"), out, read_tool_call);
}

bool messages_read(const struct api_reading *r, struct image_refs *images, json_object *value)
{
    struct field_path path = field_root("messages");
    size_t n;
    if (!field_array(r, path.text, value, 1, EY_MAX_MESSAGES, &n)) return false;
    ey_message *messages = arena_array(r->passing, n, sizeof(*messages));
    if (!messages) return api_fail_memory(r->error);
    if (!image_refs_open(r, images)) return false;
    for (size_t i = 0; i < n; i++) {
        struct field_path item = field_item(&path, i);
        if (!read_message(r, images, &item, json_object_array_get_idx(value, i), &messages[i]))
            return false;
    }
    r->out->request.messages = messages;
    r->out->request.n_messages = n;
    return true;
}

/* ---- tools ---- */

static bool read_tool(const struct api_reading *r, const struct field_path *path,
                      json_object *value, struct api_tool *out, const char **json)
{
    struct field_path function = field_member(path, "function"),
                      name = field_member(&function, "name");
    if (!field_object(r, path->text, value)) return false;
    json_object *type = json_member(value, "type"), *described = json_member(value, "function"),
                *given = json_member(described, "name");
    if (type && !field_text_is(type, "function"))
        return api_fail_field(r->error, field_member(path, "type").text, "\"function\"", type);
    if (!described) return api_fail_value(r->error, function.text, "%s is missing", function.text);
    if (!field_object(r, function.text, described)) return false;
    if (!given) return api_fail_value(r->error, name.text, "%s is missing", name.text);
    out->parameters = json_member(described, "parameters");
    out->path = field_member(&function, "parameters");
    return field_name(r, name.text, given, EY_MAX_NAME_BYTES, r->passing, &out->name) &&
           field_copy_json(r, value, json);
}

bool tools_read(const struct api_reading *r, struct api_tools *tools, json_object *value)
{
    struct field_path path = field_root("tools");
    size_t n;
    if (!field_array(r, path.text, value, 0, EY_MAX_TOOLS, &n)) return false;
    const char **json = arena_array(r->passing, n + 1, sizeof(*json));
    struct api_tool *tool = arena_array(r->passing, n + 1, sizeof(*tool));
    if (!json || !tool) return api_fail_memory(r->error);
    for (size_t i = 0; i < n; i++) {
        struct field_path item = field_item(&path, i);
        if (!read_tool(r, &item, json_object_array_get_idx(value, i), &tool[i], &json[i]))
            return false;
    }
    tools_set(r, tools, tool, json, n);
    return true;
}
