/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the internal conversation. One internal message may come from several of the client's
 * items, or several from one. Parts and calls are added to the last message. */
#ifndef EY_SERVER_MESSAGE_LIST_H
#define EY_SERVER_MESSAGE_LIST_H

#include "server/api/common/api_parser.h"

struct message_list {
    ey_message *message; /* [n] */
    ey_part *part;
    ey_tool_call *call;
    size_t n, n_parts, n_calls;
    size_t max; /* capacity of message and call */
    size_t max_parts;
    const char *thought; /* [n_thought] for the next assistant message; NULL: none */
    size_t n_thought;
};

/* Counts the objects in the value, itself included. */
size_t message_list_count(json_object *value);
/* Allocates room for the messages, parts and calls of n_objects JSON objects. */
bool message_list_open(const struct api_reading *r, struct message_list *list, size_t n_objects);

/* These functions return false or NULL, with an error about `path`, if there are too many messages,
 * parts or calls. */
bool message_list_begin(const struct api_reading *r, struct message_list *list, const char *path,
                        const char *role);
/* Begins a message unless the last one has the same role. */
bool message_list_continue(const struct api_reading *r, struct message_list *list, const char *path,
                           const char *role);
ey_part *message_list_add_part(const struct api_reading *r, struct message_list *list,
                               const char *path);
ey_tool_call *message_list_add_call(const struct api_reading *r, struct message_list *list,
                                    const char *path);
bool message_list_add_bytes(const struct api_reading *r, struct message_list *list,
                            const char *path, const char *text, size_t n);
/* Adds a value that must be text; NULL means that it is missing. */
bool message_list_add_text(const struct api_reading *r, struct message_list *list,
                           const struct field_path *path, json_object *value);
/* Adds a text, or an array whose items `read_part` reads; error messages call the items `parts`. */
typedef bool message_part_fn(struct api_parser *p, struct message_list *list,
                             const struct field_path *path, json_object *part);
bool message_list_add_content(struct api_parser *p, struct message_list *list,
                              const struct field_path *path, json_object *content,
                              const char *parts, message_part_fn *read_part);
/* Reads the member "tool_calls" of an assistant's message: each item with `read_call`. A NULL value
 * means that the message has none. */
typedef bool past_call_fn(const struct api_reading *r, const struct field_path *path,
                          json_object *value, ey_tool_call *out);
bool message_read_calls(const struct api_reading *r, const struct field_path *message,
                        json_object *value, ey_message *out, past_call_fn *read_call);
/* Sets the thought of the last message, which must exist, unless the thought is empty. The last of
 * several thoughts wins. */
void message_list_set_thought(struct message_list *list, const char *text, size_t n);
/* Adds an empty line between two texts of a message. */
bool message_list_add_gap(const struct api_reading *r, struct message_list *list, const char *path);

/* Cuts white space from the end of the last message, which has parts of text only. */
void message_list_trim_end(struct message_list *list);

/* Returns the last message, or NULL if there is none. */
ey_message *message_list_last(const struct message_list *list);
/* Stores the conversation in the request. */
void message_list_finish(const struct api_reading *r, const struct message_list *list);

#endif
