/* SPDX-License-Identifier: Apache-2.0 */
/* Thoughts in prompts, as the templates of Qwen3-VL-Thinking have them (apis 6.1, 6.4). */
#ifndef EY_MODELS_CHAT_THOUGHT_H
#define EY_MODELS_CHAT_THOUGHT_H

#include "models/chat/chat_writer.h"

#define THOUGHT_START "<think>"
#define THOUGHT_END "</think>"

/* An assistant's message, taken apart. */
struct thoughtful_message {
    ey_message said; /* without the thought */
    ey_part part;    /* what said.parts is, where text was cut off in front */
    const char *thought;
    size_t n_thought;
};

/* Takes the thought from its field, or from the front of the text. `out` must not move. */
void thought_take_apart(struct thoughtful_message *out, const ey_message *message);
/* Index of the user's last question: what stands behind it keeps its thoughts. */
size_t thought_last_question(const ey_request *request);
/* The thought; what was said follows without line breaks in front. */
void thought_write(struct chat_writer *w, struct thoughtful_message *message);

#endif
