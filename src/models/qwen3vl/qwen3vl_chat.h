/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen3-VL's chat format (spec 7.1). */
#ifndef EY_MODELS_QWEN3VL_CHAT_H
#define EY_MODELS_QWEN3VL_CHAT_H

#include "eyelet/request.h"
#include "models/chat/prompt_pieces.h"

extern const struct vision_marks qwen3vl_vision_marks;

/* Fills *out with the prompt of the request's messages and tools, up to the assistant's turn. The
 * caller frees *out, also after an error. Keeps no pointers into the request. */
bool qwen3vl_prompt(struct prompt *out, const ey_request *request, ey_err *e);

#endif
