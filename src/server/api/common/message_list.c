/* SPDX-License-Identifier: Apache-2.0 */
/* Builds messages whose parts are stored consecutively in one array, in order of arrival. */
#include "server/api/common/message_list.h"

#include <stdio.h>
#include <string.h>

/* A search result whose content is a string becomes three parts: a title, a line break and a text.
 * Other objects become fewer parts. */
enum { PARTS_OF_OBJECT = 3, MESSAGES_OF_OBJECT = 2, SPARE = 8 };

size_t message_list_count(json_object *value)
{
    size_t n = 0;
    if (json_object_is_type(value, json_type_array))
        for (size_t i = 0; i < json_object_array_length(value); i++)
            n += message_list_count(json_object_array_get_idx(value, i));
    if (!json_object_is_type(value, json_type_object)) return n;
    json_object_object_foreach(value, key, member)
    {
        (void)key;
        n += message_list_count(member);
    }
    return n + 1;
}

bool message_list_open(const struct api_reading *r, struct message_list *list, size_t n_objects)
{
    size_t max = MESSAGES_OF_OBJECT * n_objects + SPARE,
           max_parts = PARTS_OF_OBJECT * n_objects + SPARE;
    *list = (struct message_list){.message = arena_array(r->passing, max, sizeof(ey_message)),
                                  .part = arena_array(r->passing, max_parts, sizeof(ey_part)),
                                  .call = arena_array(r->passing, max, sizeof(ey_tool_call)),
                                  .max = max,
                                  .max_parts = max_parts};
    return (list->message && list->part && list->call) || api_fail_memory(r->error);
}

static bool is_trimmed_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

void message_list_trim_end(struct message_list *list)
{
    size_t n = message_list_last(list)->n_parts;
    for (bool all = true; n-- > 0 && all;) {
        ey_part *part = &list->part[list->n_parts - message_list_last(list)->n_parts + n];
        const char *text = part->bytes;
        while (part->n_bytes && is_trimmed_space(text[part->n_bytes - 1]))
            part->n_bytes--;
        all = part->n_bytes == 0;
    }
}

ey_message *message_list_last(const struct message_list *list)
{
    return list->n ? &list->message[list->n - 1] : NULL;
}

void message_list_set_thought(struct message_list *list, const char *text, size_t n)
{
    ey_message *last = message_list_last(list);
    if (!n) return;
    last->thought = text;
    last->n_thought = n;
}

/* Gives the pending thought to the last message, or drops the thought if that message is not the
 * assistant's. */
static void take_thought(struct message_list *list)
{
    if (strcmp(message_list_last(list)->role, "assistant") == 0)
        message_list_set_thought(list, list->thought, list->n_thought);
    list->thought = NULL;
    list->n_thought = 0;
}

bool message_list_begin(const struct api_reading *r, struct message_list *list, const char *path,
                        const char *role)
{
    if (list->n == EY_MAX_MESSAGES || list->n == list->max)
        return api_fail_value(r->error, path, "%s has more than %d messages", path,
                              EY_MAX_MESSAGES);
    list->message[list->n++] = (ey_message){.role = role,
                                            .parts = &list->part[list->n_parts],
                                            .tool_calls = &list->call[list->n_calls]};
    take_thought(list);
    return true;
}

bool message_list_continue(const struct api_reading *r, struct message_list *list, const char *path,
                           const char *role)
{
    const ey_message *last = message_list_last(list);
    if (!last || strcmp(last->role, role) != 0) return message_list_begin(r, list, path, role);
    take_thought(list);
    return true;
}

ey_part *message_list_add_part(const struct api_reading *r, struct message_list *list,
                               const char *path)
{
    ey_message *last = message_list_last(list);
    if (!last || last->n_parts == EY_MAX_CONTENT_PARTS || list->n_parts == list->max_parts) {
        api_fail_value(r->error, path, "%s: a message has more than %d parts", path,
                       EY_MAX_CONTENT_PARTS);
        return NULL;
    }
    last->n_parts++;
    return &list->part[list->n_parts++];
}

ey_tool_call *message_list_add_call(const struct api_reading *r, struct message_list *list,
                                    const char *path)
{
    ey_message *last = message_list_last(list);
    if (!last || last->n_tool_calls == EY_MAX_TOOL_CALLS || list->n_calls == list->max) {
        api_fail_value(r->error, path, "%s: a message has more than %d tool calls", path,
                       EY_MAX_TOOL_CALLS);
        return NULL;
    }
    last->n_tool_calls++;
    return &list->call[list->n_calls++];
}

bool message_list_add_bytes(const struct api_reading *r, struct message_list *list,
                            const char *path, const char *text, size_t n)
{
    ey_part *part = message_list_add_part(r, list, path);
    if (part) *part = (ey_part){.type = EY_PART_TEXT, .bytes = text, .n_bytes = n};
    return part;
}

bool message_list_add_text(const struct api_reading *r, struct message_list *list,
                           const struct field_path *path, json_object *value)
{
    ey_part text;
    return field_text_part(r, path, value, &text) &&
           message_list_add_bytes(r, list, path->text, text.bytes, text.n_bytes);
}

bool message_list_add_content(struct api_parser *p, struct message_list *list,
                              const struct field_path *path, json_object *content,
                              const char *parts, message_part_fn *read_part)
{
    const struct api_reading *r = &p->reading;
    char wanted[64];
    size_t n;
    if (!content) return api_fail_value(r->error, path->text, "%s is missing", path->text);
    if (json_object_is_type(content, json_type_string))
        return message_list_add_text(r, list, path, content);
    snprintf(wanted, sizeof(wanted), "a string or an array of %s", parts);
    if (!json_object_is_type(content, json_type_array))
        return api_fail_field(r->error, path->text, wanted, content);
    if (!field_array(r, path->text, content, 0, EY_MAX_CONTENT_PARTS, &n)) return false;
    for (size_t i = 0; i < n; i++) {
        struct field_path item = field_item(path, i);
        if (!read_part(p, list, &item, json_object_array_get_idx(content, i))) return false;
    }
    return true;
}

bool message_read_calls(const struct api_reading *r, const struct field_path *message,
                        json_object *value, ey_message *out, past_call_fn *read_call)
{
    struct field_path path = field_member(message, "tool_calls");
    size_t n;
    if (!value) return true;
    if (!field_array(r, path.text, value, 0, EY_MAX_TOOL_CALLS, &n)) return false;
    if (n && strcmp(out->role, "assistant") != 0)
        return api_fail(r->error, path.text,
                        "%s: tool calls belong to the assistant, not to the %s", path.text,
                        out->role);
    ey_tool_call *calls = arena_array(r->passing, n + 1, sizeof(*calls));
    if (!calls) return api_fail_memory(r->error);
    for (size_t i = 0; i < n; i++) {
        struct field_path item = field_item(&path, i);
        if (!read_call(r, &item, json_object_array_get_idx(value, i), &calls[i])) return false;
    }
    out->tool_calls = calls;
    out->n_tool_calls = n;
    return true;
}

bool message_list_add_gap(const struct api_reading *r, struct message_list *list, const char *path)
{
    const ey_message *last = message_list_last(list);
    bool needed = last && last->n_parts && last->parts[last->n_parts - 1].type == EY_PART_TEXT;
    return !needed || message_list_add_bytes(r, list, path, "\n\n", 2);
}

void message_list_finish(const struct api_reading *r, const struct message_list *list)
{
    r->out->request.messages = list->message;
    r->out->request.n_messages = list->n;
}
