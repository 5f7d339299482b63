/* SPDX-License-Identifier: Apache-2.0 */
/* What chat formats are made with: the prompt being written, and checks that hold for all of them.
 * Text in, text out. */
#ifndef EY_MODELS_CHAT_H
#define EY_MODELS_CHAT_H

#include "models/prompt.h"

/* After a failure all calls do nothing, and the error is the first one's. */
struct writing {
    struct prompt *out;
    const ey_request *request;
    ey_err *e;
    bool ok;
};

void write_bytes(struct writing *w, const void *text, size_t n);
void write_text(struct writing *w, const char *text);
/* A token by its content, a static string. */
void write_special(struct writing *w, const char *content);
/* A message's parts in order, nothing between them. */
void write_parts(struct writing *w, const ey_message *message);

bool chat_has_role(const ey_message *message, const char *role);
/* It has no text. */
bool chat_is_empty(const ey_message *message);

struct chat_rules {
    bool pictures, tools;
};
/* Roles, parts and tool calls that a format of such rules can write. */
bool chat_check(const ey_request *request, const struct chat_rules *rules, ey_err *e);

#endif
