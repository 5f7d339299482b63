/* SPDX-License-Identifier: Apache-2.0 */
/* What chat formats are made with: the prompt being written, and checks that hold for all of them.
 * Text in, text out. */
#ifndef EY_MODELS_CHAT_H
#define EY_MODELS_CHAT_H

#include "eyelet/request.h"
#include "models/chat/prompt_pieces.h"

/* After a failure all calls do nothing, and the error is the first one's. */
struct chat_writer {
    struct prompt *out;
    const ey_request *request;
    ey_err *e;
    bool ok;
};

void chat_write_bytes(struct chat_writer *w, const void *text, size_t n);
void chat_write_text(struct chat_writer *w, const char *text);
/* A token by its content, a static string. */
void chat_write_special(struct chat_writer *w, const char *content);
/* A message's parts in order, nothing between them. */
void chat_write_parts(struct chat_writer *w, const ey_message *message);

bool chat_has_role(const ey_message *message, const char *role);
/* It has no text. */
bool chat_is_empty(const ey_message *message);

struct chat_rules {
    bool images, tools;
};
/* Roles, parts and tool calls that a format of such rules can write. */
bool chat_check(const ey_request *request, const struct chat_rules *rules, ey_err *e);

#endif
