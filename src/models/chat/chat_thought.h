/* SPDX-License-Identifier: Apache-2.0 */
/* Thoughts in prompts, as in the templates of Qwen3-VL-Thinking (apis 6.1, 6.4). */
#ifndef EY_MODELS_CHAT_THOUGHT_H
#define EY_MODELS_CHAT_THOUGHT_H

#include "models/chat/chat_writer.h"

#define THOUGHT_START "<think>"
#define THOUGHT_END "</think>"

/* An assistant's message, split into thought and text. */
struct thoughtful_message {
    ey_message said; /* the message without the thought */
    ey_part part;    /* target of said.parts if all of them are text */
    char *joined;    /* the text of several parts; NULL for one */
    const char *thought;
    size_t n_thought;
};

/* Splits the message: the thought comes from its field, or from the beginning of the text. `out`
 * must not be moved afterwards. Fails only without memory. */
bool thought_take_apart(struct thoughtful_message *out, const ey_message *message, ey_err *e);
void thought_free(struct thoughtful_message *message);
/* Returns the index of the user's last question; later messages keep their thoughts. */
size_t thought_last_question(const ey_request *request);
/* Writes the thought; the text that follows has no leading line breaks. */
void thought_write(struct chat_writer *w, struct thoughtful_message *message);

#endif
