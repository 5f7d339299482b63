/* SPDX-License-Identifier: Apache-2.0 */
/* Llama-2's chat format (spec 7.4). */
#ifndef EY_LLAMA_H
#define EY_LLAMA_H

#include "eyelet/request.h"
#include "models/chat/prompt_pieces.h"

/* Like chatml_prompt(). Fails unless user and assistant take turns. */
bool llama_prompt(struct prompt *out, const ey_request *request, ey_err *e);

#endif
