/* SPDX-License-Identifier: Apache-2.0 */
/* A conversation in the form that the engine accepts: messages that own their texts and images. It
 * keeps to the engine's limits on messages and images. */
#ifndef EY_CLI_CONVERSATION_H
#define EY_CLI_CONVERSATION_H

#include "base/err.h"
#include "base/limits.h"
#include "eyelet/request.h"

struct conversation {
    ey_message *message; /* [EY_MAX_MESSAGES], n in use; owned, with all that they point to */
    size_t n;
    bool has_system;                  /* message[0] is the system prompt */
    ey_part draft[EY_MAX_IMAGES];     /* images of the next message */
    char *image_names[EY_MAX_IMAGES]; /* of all images, the draft's last; owned */
    size_t n_draft, n_images;         /* n_images counts the draft's too */
};

bool conversation_open(struct conversation *c, ey_err *e);
void conversation_close(struct conversation *c);
/* Removes all messages and the draft, but keeps the system prompt. */
void conversation_clear(struct conversation *c);

/* Sets the system prompt of later answers; NULL removes it. */
bool conversation_set_system(struct conversation *c, const char *text, ey_err *e);
/* Returns the system prompt, or NULL. */
const char *conversation_system(const struct conversation *c);

/* Adds an image to the next message. Takes ownership of its bytes, which free() must be able to
 * release, unless it fails. */
bool conversation_add_image(struct conversation *c, ey_part image, const char *name, ey_err *e);
/* Removes all images of the draft except the first n. */
void conversation_shorten_draft(struct conversation *c, size_t n);
/* Adds a user message: the draft's images, then the text. Leaves space for its answer. */
bool conversation_say(struct conversation *c, const char *text, size_t n, ey_err *e);
/* Adds the answer to the last message. */
bool conversation_answer(struct conversation *c, const char *text, size_t n, ey_err *e);
/* Moves the last answer to *answer, so that its question is the last message. Returns false if
 * there is no answer. The caller puts it back or frees it. */
bool conversation_take_answer(struct conversation *c, ey_message *answer);
void conversation_put_answer(struct conversation *c, ey_message *answer);
/* Frees what conversation_take_answer() returned. Accepts an empty message. */
void conversation_free_answer(ey_message *answer);
/* Removes the last message. Its images are freed, or moved to the draft if `keep_images`. */
void conversation_undo(struct conversation *c, bool keep_images);

/* Writes the conversation to a file: as {"messages": [...]} if the name ends with .json, otherwise
 * as Markdown. Fails if the file exists, unless `overwrite`. */
bool conversation_save(const struct conversation *c, const char *path, bool overwrite, ey_err *e);

#endif
