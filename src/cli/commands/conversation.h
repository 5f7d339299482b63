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
    ey_part draft[EY_MAX_IMAGES]; /* images of the message that comes next */
    size_t n_draft, n_images;     /* n_images: all, the draft's too */
};

bool conversation_open(struct conversation *c, ey_err *e);
void conversation_close(struct conversation *c);
/* Forgets all that was said, and the draft. */
void conversation_clear(struct conversation *c);

/* An image for the next message. Takes its bytes, which free() must take, but when it fails. */
bool conversation_add_image(struct conversation *c, ey_part image, ey_err *e);
/* Adds a user message: the draft's images, then the text. Leaves space for its answer. */
bool conversation_say(struct conversation *c, const char *text, size_t n, ey_err *e);
/* The answer to the last message. */
bool conversation_answer(struct conversation *c, const char *text, size_t n, ey_err *e);
/* As if the last message had not been said; its images are dropped, or go with the next one. */
void conversation_undo(struct conversation *c, bool keep_images);

#endif
