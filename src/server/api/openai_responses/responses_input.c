/* SPDX-License-Identifier: Apache-2.0 */
/* Reads items into messages. Text is borrowed from the JSON. Consecutive items of the assistant
 * become one message, and results are put in the order of their calls. */
#include <openssl/evp.h>
#include <string.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "server/api/openai_responses/responses_dialect.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The items of the previous response and of this request as one sequence. */
struct input_items {
    json_object *previous, *input; /* arrays, or NULL */
    size_t n_previous, n;
    bool *done; /* whether each was read; results may be read out of order */
};

static json_object *item_at(const struct input_items *items, size_t i)
{
    return i < items->n_previous ? json_object_array_get_idx(items->previous, i)
                                 : json_object_array_get_idx(items->input, i - items->n_previous);
}

static struct field_path item_path(const struct input_items *items, size_t i)
{
    struct field_path previous = field_root("previous_response_id"), input = field_root("input");
    return i < items->n_previous ? field_item(&previous, i)
                                 : field_item(&input, i - items->n_previous);
}

static bool fail_unsupported_item(const struct api_reading *r, const struct field_path *path,
                                  const char *what)
{
    api_fail(r->error, path->text, "%s: %s", path->text, what);
    r->error->code = API_ERROR_UNSUPPORTED;
    return false;
}

/* ---- parts ---- */

/* `image_url` is a string, or an object {"url"} as in chat. */
static bool read_input_image(struct api_parser *p, struct message_list *list,
                             const struct field_path *path, json_object *part)
{
    const struct api_reading *r = &p->reading;
    struct field_path url_path = field_member(path, "image_url");
    json_object *url = json_member(part, "image_url"), *detail = json_member(part, "detail"),
                *holder = part;
    const char *member = "image_url";
    if (!url && json_member(part, "file_id"))
        return fail_unsupported_item(r, path, "files are not kept here; send the image itself");
    if (json_object_is_type(url, json_type_object)) {
        holder = url;
        member = "url";
        url_path = field_member(&url_path, member);
        url = json_member(holder, member);
    }
    if (!url) return api_fail_value(r->error, url_path.text, "%s is missing", url_path.text);
    ey_part *out = message_list_add_part(r, list, path->text);
    struct image_ref *ref = out ? image_refs_add(r, &p->images, &url_path, out) : NULL;
    if (!ref || (detail && !image_ref_read_detail(r, path, detail, ref))) return false;
    ref->holder = holder;
    ref->member = member;
    return field_text(r, url_path.text, url, EY_MAX_JSON_BYTES, &ref->url, &ref->n_url);
}

/* Reads an image or a document, from file_data or file_url. Each page of a document becomes an
 * image with the part's `detail`. */
static bool read_input_file(struct api_parser *p, struct message_list *list,
                            const struct field_path *path, json_object *part)
{
    const struct api_reading *r = &p->reading;
    const char *member = json_member(part, "file_url") ? "file_url" : "file_data";
    if (json_member(part, "file_id"))
        return fail_unsupported_item(r, path, "files are not kept here; send file_data");
    ey_part *out = message_list_add_part(r, list, path->text);
    struct image_ref *ref = out ? image_refs_add(r, &p->images, path, out) : NULL;
    json_object *detail = json_member(part, "detail");
    return ref && (!detail || image_ref_read_detail(r, path, detail, ref)) &&
           image_ref_read_file(r, ref, path, part, member);
}

static bool read_input_part(struct api_parser *p, struct message_list *list,
                            const struct field_path *path, json_object *part)
{
    static const char *const texts[] = {"input_text", "output_text", "text", "summary_text",
                                        "reasoning_text"};
    const struct api_reading *r = &p->reading;
    struct field_path text_path = field_member(path, "text"),
                      refusal_path = field_member(path, "refusal"),
                      type_path = field_member(path, "type");
    if (!field_object(r, path->text, part)) return false;
    json_object *type = json_member(part, "type");
    for (size_t i = 0; i < COUNT(texts); i++)
        if (field_text_is(type, texts[i]))
            return message_list_add_text(r, list, &text_path, json_member(part, "text"));
    if (field_text_is(type, "refusal"))
        return message_list_add_text(r, list, &refusal_path, json_member(part, "refusal"));
    bool file = field_text_is(type, "input_file");
    if (!file && !field_text_is(type, "input_image"))
        return api_fail_field(r->error, type_path.text,
                              "\"input_text\", \"input_image\", \"input_file\" or \"output_text\"",
                              type);
    const char *role = message_list_last(list)->role;
    if (strcmp(role, "user") != 0 && strcmp(role, "tool") != 0)
        return api_fail(r->error, path->text,
                        "%s: an image cannot be in a message of the %s; put it into a user message",
                        path->text, role);
    return file ? read_input_file(p, list, path, part) : read_input_image(p, list, path, part);
}

/* Adds a text or an array of parts to the last message. */
static bool read_item_content(struct api_parser *p, struct message_list *list,
                              const struct field_path *path, json_object *content)
{
    return message_list_add_content(p, list, path, content, "parts", read_input_part);
}

/* ---- items ---- */

static bool is_system_item(json_object *item)
{
    json_object *type = json_member(item, "type"), *role = json_member(item, "role");
    return (!type || field_text_is(type, "message")) &&
           (field_text_is(role, "system") || field_text_is(role, "developer"));
}

static bool read_message_item(struct api_parser *p, struct message_list *list,
                              const struct field_path *path, json_object *item)
{
    const struct api_reading *r = &p->reading;
    struct field_path role_path = field_member(path, "role"),
                      content_path = field_member(path, "content");
    json_object *role = json_member(item, "role"), *content = json_member(item, "content");
    const ey_message *last = message_list_last(list);
    if (is_system_item(item)) return true; /* read_system_texts() has read it */
    if (field_text_is(role, "user"))
        return message_list_begin(r, list, path->text, "user") &&
               read_item_content(p, list, &content_path, content);
    if (!field_text_is(role, "assistant"))
        return api_fail_field(r->error, role_path.text,
                              "\"user\", \"assistant\", \"system\" or \"developer\"", role);
    bool goes_on = last && !strcmp(last->role, "assistant") && !last->n_tool_calls;
    return (goes_on ? message_list_continue(r, list, path->text, "assistant")
                    : message_list_begin(r, list, path->text, "assistant")) &&
           read_item_content(p, list, &content_path, content);
}

static bool read_call_item(struct api_parser *p, struct message_list *list,
                           const struct field_path *path, json_object *item)
{
    const struct api_reading *r = &p->reading;
    struct field_path name_path = field_member(path, "name"),
                      arguments_path = field_member(path, "arguments");
    json_object *name = json_member(item, "name"), *arguments = json_member(item, "arguments");
    if (!message_list_continue(r, list, path->text, "assistant")) return false;
    ey_tool_call *call = message_list_add_call(r, list, path->text);
    if (!call) return false;
    if (!name) return api_fail_value(r->error, name_path.text, "%s is missing", name_path.text);
    if (!field_name(r, name_path.text, name, EY_MAX_NAME_BYTES, r->passing, &call->name))
        return false;
    call->arguments = "{}";
    if (!arguments || field_text_is(arguments, "")) return true;
    return field_name(r, arguments_path.text, arguments, EY_MAX_TEXT_BYTES, r->passing,
                      &call->arguments);
}

static bool read_output_item(struct api_parser *p, struct message_list *list,
                             const struct field_path *path, json_object *item)
{
    struct field_path output_path = field_member(path, "output");
    return message_list_begin(&p->reading, list, path->text, "tool") &&
           read_item_content(p, list, &output_path, json_member(item, "output"));
}

/* ---- thoughts ---- */

/* Joins the texts of the parts at `path` with line breaks. */
static bool read_thought_parts(struct api_parser *p, const struct field_path *path,
                               json_object *parts, struct buf *out)
{
    const struct api_reading *r = &p->reading;
    const char *text;
    size_t n, n_text;
    if (field_is_neutral(parts)) return true;
    if (!field_array(r, path->text, parts, 0, EY_MAX_CONTENT_PARTS, &n)) return false;
    for (size_t i = 0; i < n; i++) {
        struct field_path item = field_item(path, i), text_path = field_member(&item, "text");
        json_object *part = json_object_array_get_idx(parts, i);
        if (!field_object(r, item.text, part) ||
            !field_text(r, text_path.text, json_member(part, "text"), EY_MAX_TEXT_BYTES, &text,
                        &n_text))
            return false;
        if (out->size) buf_add_text(out, "\n");
        if (!buf_add(out, text, n_text)) return api_fail_memory(r->error);
    }
    return true;
}

/* Our encrypted thoughts are base64 text; those of other servers cannot be read. */
static void read_encrypted_thought(json_object *value, struct buf *out)
{
    const char *text = json_object_is_type(value, json_type_string) ? json_object_get_string(value)
                                                                    : "";
    size_t n = strlen(text), bytes = n / 4 * 3;
    if (!n || n % 4 || n > EY_MAX_TEXT_BYTES || !buf_reserve(out, bytes)) return;
    int got = EVP_DecodeBlock((unsigned char *)out->data, (const unsigned char *)text, (int)n);
    size_t padding = (size_t)(text[n - 1] == '=') + (size_t)(text[n - 2] == '=');
    if (got == (int)bytes && utf8_valid(out->data, bytes - padding)) out->size = bytes - padding;
}

/* Sets the thought of the next assistant message: `content`, else `summary`, else the encrypted
 * content. */
static bool read_reasoning_item(struct api_parser *p, struct message_list *list,
                                const struct field_path *path, json_object *item)
{
    const struct api_reading *r = &p->reading;
    struct field_path content = field_member(path, "content"),
                      summary = field_member(path, "summary");
    struct buf thought = buf_with_max(EY_MAX_TEXT_BYTES);
    bool ok = read_thought_parts(p, &content, json_member(item, "content"), &thought) &&
              (thought.size ||
               read_thought_parts(p, &summary, json_member(item, "summary"), &thought));
    if (ok && !thought.size)
        read_encrypted_thought(json_member(item, "encrypted_content"), &thought);
    if (ok && thought.size) {
        char *text = arena_copy_text(r->passing, thought.data, thought.size);
        list->thought = text;
        list->n_thought = thought.size;
        ok = text || api_fail_memory(r->error);
    }
    buf_free(&thought);
    return ok;
}

/* Reads an item of a tool that this server does not know: `output` becomes a tool's result, and an
 * item without it is ignored. */
static bool read_foreign_item(struct api_parser *p, struct message_list *list,
                              const struct field_path *path, json_object *item)
{
    if (json_object_is_type(json_member(item, "output"), json_type_string))
        return read_output_item(p, list, path, item);
    api_note(&p->reading, "%s (%.40s) was ignored", path->text,
             json_object_get_string(json_member(item, "type")));
    return true;
}

static bool fail_reference(struct api_parser *p, struct message_list *list,
                           const struct field_path *path, json_object *item)
{
    (void)list;
    const char *id = json_object_get_string(json_member(item, "id"));
    return api_fail(p->reading.error, path->text, RESPONSES_ITEM_GONE, id ? id : "");
}

static const struct {
    const char *type;
    bool (*read)(struct api_parser *p, struct message_list *list, const struct field_path *path,
                 json_object *item);
} item_types[] = {{"message", read_message_item},
                  {"function_call", read_call_item},
                  {"function_call_output", read_output_item},
                  {"reasoning", read_reasoning_item},
                  {"item_reference", fail_reference},
                  {"custom_tool_call", read_foreign_item},
                  {"custom_tool_call_output", read_foreign_item},
                  {"local_shell_call", read_foreign_item},
                  {"local_shell_call_output", read_foreign_item},
                  {"shell_call", read_foreign_item},
                  {"shell_call_output", read_foreign_item},
                  {"apply_patch_call", read_foreign_item},
                  {"apply_patch_call_output", read_foreign_item},
                  {"web_search_call", read_foreign_item},
                  {"file_search_call", read_foreign_item},
                  {"computer_call", read_foreign_item},
                  {"computer_call_output", read_foreign_item},
                  {"code_interpreter_call", read_foreign_item},
                  {"image_generation_call", read_foreign_item},
                  {"mcp_list_tools", read_foreign_item},
                  {"mcp_approval_request", read_foreign_item},
                  {"mcp_approval_response", read_foreign_item},
                  {"mcp_call", read_foreign_item},
                  {"tool_search_call", read_foreign_item},
                  {"tool_search_output", read_foreign_item},
                  {"additional_tools", read_foreign_item},
                  {"compaction", read_foreign_item},
                  {"compaction_trigger", read_foreign_item},
                  {"context_compaction", read_foreign_item}};

static bool read_input_item(struct api_parser *p, struct message_list *list,
                            const struct field_path *path, json_object *item)
{
    struct field_path type_path = field_member(path, "type");
    if (!field_object(&p->reading, path->text, item)) return false;
    json_object *type = json_member(item, "type");
    if (!type && json_member(item, "role")) return read_message_item(p, list, path, item);
    for (size_t i = 0; i < COUNT(item_types); i++)
        if (field_text_is(type, item_types[i].type)) return item_types[i].read(p, list, path, item);
    return api_fail_field(p->reading.error, type_path.text, "the type of an input item", type);
}

/* ---- the order of results ---- */

static bool is_result(json_object *item)
{
    return field_text_is(json_member(item, "type"), "function_call_output");
}

static const char *call_id_of(json_object *item)
{
    json_object *id = json_member(item, "call_id");
    return json_object_is_type(id, json_type_string) ? json_object_get_string(id) : "";
}

/* Finds the result of the item `call` among the consecutive results that begin at the item `from`.
 * Returns items->n if there is none. */
static size_t result_of_call(const struct input_items *items, size_t from, size_t call)
{
    const char *id = call_id_of(item_at(items, call));
    for (size_t i = from; i < items->n && i - from < EY_MAX_TOOL_CALLS; i++) {
        json_object *item = item_at(items, i);
        if (!is_result(item)) break;
        if (id[0] && !items->done[i] && !strcmp(call_id_of(item), id)) return i;
    }
    return items->n;
}

static bool read_item_once(struct api_parser *p, struct message_list *list,
                           struct input_items *items, size_t i)
{
    struct field_path path = item_path(items, i);
    if (items->done[i]) return true;
    items->done[i] = true;
    return read_input_item(p, list, &path, item_at(items, i));
}

/* Reads the consecutive results that begin at `from` in the order of the calls before them. */
static bool read_results_in_order(struct api_parser *p, struct message_list *list,
                                  struct input_items *items, size_t from)
{
    size_t first = from;
    while (first &&
           field_text_is(json_member(item_at(items, first - 1), "type"), "function_call") &&
           from - first < EY_MAX_TOOL_CALLS)
        first--;
    for (size_t call = first; call < from; call++) {
        size_t result = result_of_call(items, from, call);
        if (result < items->n && !read_item_once(p, list, items, result)) return false;
    }
    return true;
}

/* ---- conversation ---- */

static bool read_system_text(struct api_parser *p, struct message_list *list,
                             const struct field_path *path, json_object *content)
{
    const struct api_reading *r = &p->reading;
    return message_list_continue(r, list, path->text, "system") &&
           message_list_add_gap(r, list, path->text) && read_item_content(p, list, path, content);
}

/* Puts all system messages at the front, because chat templates ignore them elsewhere. */
static bool read_system_texts(struct api_parser *p, struct message_list *list,
                              const struct input_items *items)
{
    struct field_path root = field_root("instructions");
    json_object *instructions = json_member(p->json, "instructions");
    if (!field_is_neutral(instructions) && !read_system_text(p, list, &root, instructions))
        return false;
    for (size_t i = 0; i < items->n; i++) {
        json_object *item = item_at(items, i);
        struct field_path whole = item_path(items, i), path = field_member(&whole, "content");
        if (is_system_item(item) && !read_system_text(p, list, &path, json_member(item, "content")))
            return false;
    }
    return true;
}

static bool read_all_items(struct api_parser *p, struct message_list *list,
                           struct input_items *items)
{
    for (size_t i = 0; i < items->n; i++) {
        bool first = is_result(item_at(items, i)) && (!i || !is_result(item_at(items, i - 1)));
        if (first && !read_results_in_order(p, list, items, i)) return false;
        if (!read_item_once(p, list, items, i)) return false;
    }
    return true;
}

static bool open_items(struct api_parser *p, struct input_items *items)
{
    const struct api_reading *r = &p->reading;
    json_object *input = json_member(p->json, "input"),
                *previous = json_member(p->json, "previous_response_id");
    size_t n = 0;
    *items = (struct input_items){0};
    if (previous && !field_array(r, "previous_response_id", previous, 0, EY_MAX_REQUEST_VALUES,
                                 &items->n_previous))
        return false;
    bool list = json_object_is_type(input, json_type_array);
    if (input && !list && !json_object_is_type(input, json_type_string))
        return api_fail_field(r->error, "input", "a string or an array of items", input);
    if (list && !field_array(r, "input", input, 0, EY_MAX_REQUEST_VALUES, &n)) return false;
    items->previous = previous;
    items->input = list ? input : NULL;
    items->n = items->n_previous + n;
    items->done = arena_array(r->passing, items->n + 1, sizeof(*items->done));
    return items->done || api_fail_memory(r->error);
}

bool responses_read_input(struct api_parser *p)
{
    const struct api_reading *r = &p->reading;
    struct field_path path = field_root("input");
    json_object *input = json_member(p->json, "input");
    struct input_items items;
    struct message_list list;
    if (!open_items(p, &items)) return false;
    size_t objects = message_list_count(items.previous) + message_list_count(items.input) +
                     message_list_count(json_member(p->json, "instructions"));
    if (!message_list_open(r, &list, objects) || !read_system_texts(p, &list, &items) ||
        !read_all_items(p, &list, &items))
        return false;
    if (json_object_is_type(input, json_type_string) &&
        (!message_list_begin(r, &list, "input", "user") ||
         !message_list_add_text(r, &list, &path, input)))
        return false;
    if (!list.n) return api_fail_value(r->error, "input", "input is missing");
    message_list_finish(r, &list);
    return true;
}
