/* SPDX-License-Identifier: Apache-2.0 */
/* The chat format of the Qwen models (spec 7.1, 7.2). */
#ifndef EY_MODELS_CHATML_H
#define EY_MODELS_CHATML_H

#include "models/chat/tool_call_format.h"

/* The differences between their templates. */
struct chatml {
    const char *
        default_system; /* used if the first message is not the system's; NULL for no system turn */
    bool later_system;  /* later system messages are turns; otherwise they are left out */
    const struct tool_call_format *tools; /* NULL if tools are refused */
    bool images;
    bool thinks; /* some checkpoints think; request.thinking is AUTO for the others */
};

/* Fills *out with the prompt of the request's messages and tools, up to the assistant's turn. The
 * caller frees *out, also after an error. Keeps no pointers into the request. */
bool chatml_prompt(struct prompt *out, const ey_request *request, const struct chatml *style,
                   ey_err *e);

#endif
