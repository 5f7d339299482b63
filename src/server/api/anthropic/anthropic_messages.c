/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the conversation. System texts come first, and the tool results of a user message come
 * before its text. */
#include <string.h>

#include "base/limits.h"
#include "server/api/anthropic/anthropic_dialect.h"

/* ---- system texts ---- */

/* Whether the text is the billing header that Claude Code sends before its system texts. The header
 * differs in each request and would defeat the prefix cache. */
static bool is_billing_header(json_object *text)
{
    static const char begin[] = "x-anthropic-billing-header:";
    return json_object_is_type(text, json_type_string) &&
           strncmp(json_object_get_string(text), begin, sizeof(begin) - 1) == 0;
}

static bool add_system_text(struct api_parser *p, struct message_list *list,
                            const struct field_path *path, json_object *text)
{
    const struct api_reading *r = &p->reading;
    if (is_billing_header(text)) return true;
    return message_list_continue(r, list, path->text, "system") &&
           message_list_add_gap(r, list, path->text) && message_list_add_text(r, list, path, text);
}

/* Reads a text, or blocks of text. */
static bool add_system_texts(struct api_parser *p, struct message_list *list,
                             const struct field_path *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    size_t n;
    if (!json_object_is_type(value, json_type_array)) return add_system_text(p, list, path, value);
    if (!field_array(r, path->text, value, 0, EY_MAX_CONTENT_PARTS, &n)) return false;
    for (size_t i = 0; i < n; i++) {
        struct field_path item = field_item(path, i), text_path = field_member(&item, "text"),
                          type_path = field_member(&item, "type");
        json_object *block = json_object_array_get_idx(value, i);
        if (!field_object(r, item.text, block)) return false;
        if (!field_text_is(json_member(block, "type"), "text"))
            return api_fail_field(r->error, type_path.text, "\"text\"", json_member(block, "type"));
        if (!add_system_text(p, list, &text_path, json_member(block, "text"))) return false;
    }
    return true;
}

/* Puts all system messages at the front, because chat templates ignore them elsewhere. */
static bool add_all_system(struct api_parser *p, struct message_list *list, json_object *messages,
                           size_t n)
{
    struct field_path root = field_root("system"), whole = field_root("messages");
    json_object *system = json_member(p->json, "system");
    if (system && !add_system_texts(p, list, &root, system)) return false;
    for (size_t i = 0; i < n; i++) {
        json_object *message = json_object_array_get_idx(messages, i);
        struct field_path item = field_item(&whole, i), path = field_member(&item, "content");
        if (field_text_is(json_member(message, "role"), "system") &&
            !add_system_texts(p, list, &path, json_member(message, "content")))
            return false;
    }
    return true;
}

/* ---- messages ---- */

static bool read_result(struct api_parser *p, struct message_list *list,
                        const struct field_path *path, json_object *block)
{
    const struct api_reading *r = &p->reading;
    struct field_path content_path = field_member(path, "content"),
                      flag_path = field_member(path, "is_error");
    json_object *content = json_member(block, "content"), *flag = json_member(block, "is_error");
    bool failed = false;
    if (!message_list_begin(r, list, path->text, "tool")) return false;
    if (flag && !field_bool(r, flag_path.text, flag, &failed)) return false;
    if (field_is_neutral(content))
        return !failed || message_list_add_bytes(r, list, path->text, "Error", 5);
    return anthropic_read_blocks(p, list, &content_path, content);
}

/* Reads the tool results among a message's blocks, and counts the other blocks in *n_others. */
static bool read_results(struct api_parser *p, struct message_list *list,
                         const struct field_path *path, json_object *blocks, size_t *n_others)
{
    size_t n = json_object_is_type(blocks, json_type_array) ? json_object_array_length(blocks) : 0;
    *n_others = n;
    for (size_t i = 0; i < n; i++) {
        json_object *block = json_object_array_get_idx(blocks, i);
        struct field_path item = field_item(path, i);
        if (!field_text_is(json_member(block, "type"), "tool_result")) continue;
        --*n_others;
        if (!read_result(p, list, &item, block)) return false;
    }
    return true;
}

/* Adds a message, or joins it to the last one if that has the same role. */
static bool read_spoken(struct api_parser *p, struct message_list *list,
                        const struct field_path *path, json_object *content, const char *role)
{
    const struct api_reading *r = &p->reading;
    return message_list_continue(r, list, path->text, role) &&
           message_list_add_gap(r, list, path->text) &&
           anthropic_read_blocks(p, list, path, content);
}

static bool read_user_message(struct api_parser *p, struct message_list *list,
                              const struct field_path *path, json_object *content)
{
    size_t n_others;
    if (!read_results(p, list, path, content, &n_others)) return false;
    bool only_results = json_object_is_type(content, json_type_array) &&
                        json_object_array_length(content) && !n_others;
    return only_results || read_spoken(p, list, path, content, "user");
}

static bool read_one_message(struct api_parser *p, struct message_list *list,
                             const struct field_path *path, json_object *message)
{
    const struct api_reading *r = &p->reading;
    struct field_path content_path = field_member(path, "content"),
                      role_path = field_member(path, "role");
    if (!field_object(r, path->text, message)) return false;
    json_object *role = json_member(message, "role"), *content = json_member(message, "content");
    if (field_text_is(role, "system")) return true;
    if (field_text_is(role, "user")) return read_user_message(p, list, &content_path, content);
    if (field_text_is(role, "assistant"))
        return read_spoken(p, list, &content_path, content, "assistant");
    return api_fail_field(r->error, role_path.text, "\"user\", \"assistant\" or \"system\"", role);
}

/* If the last message is the assistant's, the answer continues it; white space at its end is
 * removed. A schema is refused, because it would apply to the continuation only. */
static bool continue_last_message(struct api_parser *p, struct message_list *list,
                                  const struct field_path *path)
{
    const struct api_reading *r = &p->reading;
    const ey_message *last = message_list_last(list);
    if (strcmp(last->role, "assistant") != 0 || last->n_tool_calls) return true;
    if (p->format.kind == FORMAT_SCHEMA)
        return api_fail(r->error, path->text,
                        "%s: output_config.format is not supported if the last message is from the "
                        "assistant, because the answer then continues that message",
                        path->text);
    message_list_trim_end(list);
    r->out->request.continue_answer = true;
    return true;
}

bool anthropic_read_conversation(struct api_parser *p)
{
    const struct api_reading *r = &p->reading;
    struct field_path whole = field_root("messages");
    json_object *messages = json_member(p->json, "messages");
    struct message_list list;
    size_t n;
    if (!messages) return api_fail_value(r->error, "messages", "messages is missing");
    if (!field_array(r, whole.text, messages, 1, EY_MAX_MESSAGES, &n)) return false;
    size_t objects = message_list_count(messages) +
                     message_list_count(json_member(p->json, "system"));
    if (!message_list_open(r, &list, objects) || !add_all_system(p, &list, messages, n))
        return false;
    size_t n_system = list.n;
    for (size_t i = 0; i < n; i++) {
        struct field_path item = field_item(&whole, i);
        if (!read_one_message(p, &list, &item, json_object_array_get_idx(messages, i)))
            return false;
    }
    if (list.n == n_system)
        return api_fail_value(r->error, "messages",
                              "messages has only system messages; add a user message");
    struct field_path last = field_item(&whole, n - 1);
    if (!continue_last_message(p, &list, &last)) return false;
    message_list_finish(r, &list);
    return true;
}
