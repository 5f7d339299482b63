/* SPDX-License-Identifier: Apache-2.0 */
/* OpenAI's chat and completions with vLLM's extensions, and vLLM's routes that count tokens. */
#ifndef EY_SERVER_OPENAI_DIALECT_H
#define EY_SERVER_OPENAI_DIALECT_H

#include "server/api/common/api_dialect.h"

/* Kinds of requests, one per route. */
enum openai_kind { API_CHAT, API_COMPLETION, API_TOKENIZE, API_DETOKENIZE };

enum { API_COMPLETION_TOKENS = 16 }; /* OpenAI's default length of a completion */

extern const struct api_dialect openai_dialects[]; /* by kind */

bool openai_read(struct api_parser *p);

#endif
