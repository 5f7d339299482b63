/* SPDX-License-Identifier: Apache-2.0 */
/* OpenAI's routes for chat and completions, and the routes of vLLM and llama.cpp that render
 * prompts or count and convert tokens. */
#ifndef EY_SERVER_API_ROUTES_H
#define EY_SERVER_API_ROUTES_H

#include "server/server_context.h"

route_fn route_chat_completions, route_completions, route_tokenize, route_detokenize, route_render;
route_fn route_apply_template, route_input_tokens;

#endif
