/* SPDX-License-Identifier: Apache-2.0 */
/* The chat format of the Qwen models (spec 7.1, 7.2): messages → prompt. */
#ifndef EY_MODELS_CHATML_H
#define EY_MODELS_CHATML_H

#include "models/chat/tool_call_format.h"

/* In what their templates differ. */
struct chatml {
    const char
        *default_system; /* where the first message is not the system's; NULL: no such turn */
    bool later_system; /* system messages behind the first are turns; otherwise they are left out */
    const struct tool_call_format *tools; /* NULL: tools are refused */
    bool images;
    bool thinks; /* a checkpoint may: then request.thinking is ON or OFF */
};

/* Fills *out, which the caller frees (also after an error), with the prompt of request's messages
 * and tools, up to where the assistant is to speak. Keeps nothing of the request. */
bool chatml_prompt(struct prompt *out, const ey_request *request, const struct chatml *style,
                   ey_err *e);

#endif
