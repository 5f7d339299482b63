/* SPDX-License-Identifier: Apache-2.0 */
/* Routes of OpenAI's chat and completions, and of vLLM and llama.cpp for prompts and tokens. */
#ifndef EY_SERVER_API_ROUTES_H
#define EY_SERVER_API_ROUTES_H

#include "server/server_context.h"

route_fn route_chat_completions, route_completions, route_tokenize, route_detokenize, route_render;
route_fn route_apply_template, route_input_tokens;

#endif
