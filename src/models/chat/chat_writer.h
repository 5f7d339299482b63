/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for writing chat formats: the prompt being written, and checks that all formats share. */
#ifndef EY_MODELS_CHAT_CHAT_WRITER_H
#define EY_MODELS_CHAT_CHAT_WRITER_H

#include "eyelet/request.h"
#include "models/chat/prompt_pieces.h"

/* A prompt being written. After a failure all calls do nothing, and *e keeps the first error. */
struct chat_writer {
    struct prompt *out;
    const ey_request *request;
    ey_err *e;
    bool ok;
};

void chat_write_bytes(struct chat_writer *w, const void *text, size_t n);
void chat_write_text(struct chat_writer *w, const char *text);
/* Writes a special token by its content, a static string. */
void chat_write_special(struct chat_writer *w, const char *content);
/* Writes a special token, or the same text if the tokenizer lacks it; a static string. */
void chat_write_tag(struct chat_writer *w, const char *content);
/* Writes a message's parts in order, with nothing between them. */
void chat_write_parts(struct chat_writer *w, const ey_message *message);

bool chat_has_role(const ey_message *message, const char *role);
/* Whether message `at` is the beginning of the answer, so that its turn stays open. */
bool chat_is_continued(const ey_request *request, size_t at);
/* Whether the message has no text. */
bool chat_is_empty(const ey_message *message);

/* Writes request.parts as they stand. `images`: whether the model reads images. Fills *out, which
 * the caller frees also after an error. */
bool chat_write_raw(struct prompt *out, const ey_request *request, bool images, ey_err *e);

struct chat_rules {
    bool images, tools;
};
/* Checks that a format with these rules can write the request's roles, parts and tool calls. */
bool chat_check(const ey_request *request, const struct chat_rules *rules, ey_err *e);

#endif
