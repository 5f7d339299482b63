/* SPDX-License-Identifier: Apache-2.0 */
/* OpenAI's chat and completions as vLLM speaks them, and vLLM's routes that count tokens. */
#ifndef EY_SERVER_OPENAI_DIALECT_H
#define EY_SERVER_OPENAI_DIALECT_H

#include "server/api/common/api_dialect.h"

/* The kinds: which route a request came by. */
enum openai_kind { API_CHAT, API_COMPLETION, API_TOKENIZE, API_DETOKENIZE };

enum {
    API_COMPLETION_TOKENS = 16
}; /* of a completion that does not say how many: OpenAI's default */

extern const struct api_dialect openai_dialects[]; /* by kind */

bool openai_read(struct api_parser *p);

#endif
