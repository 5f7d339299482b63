/* SPDX-License-Identifier: Apache-2.0 */
/* A conversation as a dialect's reader makes it, where a message of ours comes from several items
 * of the client's, or one of the client's becomes several of ours. Parts and calls are those of the
 * message that was begun last. */
#ifndef EY_SERVER_MESSAGE_LIST_H
#define EY_SERVER_MESSAGE_LIST_H

#include "server/api/common/api_parser.h"

struct message_list {
    ey_message *message; /* [n] */
    ey_part *part;
    ey_tool_call *call;
    size_t n, n_parts, n_calls;
    size_t max;          /* of each */
    const char *thought; /* [n_thought] for the assistant's message that comes next; NULL: none */
    size_t n_thought;
};

/* As many objects as the value has in it, itself included. */
size_t message_list_count(json_object *value);
/* Room for what n_objects of the client's become. */
bool message_list_open(const struct api_reading *r, struct message_list *list, size_t n_objects);

/* Each returns false or NULL with an error about `path` when there are too many. */
bool message_list_begin(const struct api_reading *r, struct message_list *list, const char *path,
                        const char *role);
/* Begins one unless the last message is of that role; then it goes on. */
bool message_list_continue(const struct api_reading *r, struct message_list *list, const char *path,
                           const char *role);
ey_part *message_list_add_part(const struct api_reading *r, struct message_list *list,
                               const char *path);
ey_tool_call *message_list_add_call(const struct api_reading *r, struct message_list *list,
                                    const char *path);
bool message_list_add_bytes(const struct api_reading *r, struct message_list *list,
                            const char *path, const char *text, size_t n);
/* A value that must be text; NULL: it is missing. */
bool message_list_add_text(const struct api_reading *r, struct message_list *list,
                           const struct field_path *path, json_object *value);
/* A text, or an array whose items `read_part` takes; `parts` is what they are called. */
typedef bool message_part_fn(struct api_parser *p, struct message_list *list,
                             const struct field_path *path, json_object *part);
bool message_list_add_content(struct api_parser *p, struct message_list *list,
                              const struct field_path *path, json_object *content,
                              const char *parts, message_part_fn *read_part);
/* Calls that an assistant made before, each read by `read_call`, in the member "tool_calls" of a
 * message whose role is known. NULL: it has none. */
typedef bool past_call_fn(const struct api_reading *r, const struct field_path *path,
                          json_object *value, ey_tool_call *out);
bool message_read_calls(const struct api_reading *r, const struct field_path *message,
                        json_object *value, ey_message *out, past_call_fn *read_call);
/* The last message's thought, unless it is empty; of several the last stays. */
void message_list_set_thought(struct message_list *list, const char *text, size_t n);
/* An empty line between two texts of one message. */
bool message_list_add_gap(const struct api_reading *r, struct message_list *list, const char *path);

/* The last message; NULL: there is none. */
ey_message *message_list_last(const struct message_list *list);
/* The conversation is the request's. */
void message_list_finish(const struct api_reading *r, const struct message_list *list);

#endif
