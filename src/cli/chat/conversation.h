/* SPDX-License-Identifier: Apache-2.0 */
/* What was said so far, as the engine takes it: messages that own their texts and images, up to
 * the engine's limits. */
#ifndef EY_CLI_CONVERSATION_H
#define EY_CLI_CONVERSATION_H

#include "base/err.h"
#include "base/limits.h"
#include "eyelet/request.h"

struct conversation {
    ey_message *message; /* [EY_MAX_MESSAGES], n of them used; all that they point to is ours */
    size_t n;
    bool has_system;                  /* message[0] is the system prompt */
    ey_part draft[EY_MAX_IMAGES];     /* images of the message that comes next */
    char *image_names[EY_MAX_IMAGES]; /* of all images, in the order in which they came; ours */
    size_t n_draft, n_images;         /* n_images: all, the draft's too */
};

bool conversation_open(struct conversation *c, ey_err *e);
void conversation_close(struct conversation *c);
/* Forgets all that was said, and the draft; the system prompt stays. */
void conversation_clear(struct conversation *c);

/* The system prompt of all that follows; NULL: none. */
bool conversation_set_system(struct conversation *c, const char *text, ey_err *e);
/* NULL: there is none. */
const char *conversation_system(const struct conversation *c);

/* An image for the next message. Takes its bytes, which free() must take, but when it fails. */
bool conversation_add_image(struct conversation *c, ey_part image, const char *name, ey_err *e);
/* Adds a user message: the draft's images, then the text. Leaves space for its answer. */
bool conversation_say(struct conversation *c, const char *text, size_t n, ey_err *e);
/* The answer to the last message. */
bool conversation_answer(struct conversation *c, const char *text, size_t n, ey_err *e);
/* Takes the last answer back, so that its question is the last message. False: nothing was
 * answered. */
bool conversation_reopen(struct conversation *c);
/* As if the last message had not been said; its images are dropped, or go with the next one. */
void conversation_undo(struct conversation *c, bool keep_images);

/* Writes it to a file: one that ends in .json as {"messages": [...]}, any other as Markdown. An
 * existing file is an error unless `overwrite`. */
bool conversation_save(const struct conversation *c, const char *path, bool overwrite, ey_err *e);

#endif
