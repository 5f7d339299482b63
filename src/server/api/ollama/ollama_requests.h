/* SPDX-License-Identifier: Apache-2.0 */
/* What all routes of Ollama's API that take a body begin with. */
#ifndef EY_SERVER_OLLAMA_REQUESTS_H
#define EY_SERVER_OLLAMA_REQUESTS_H

#include "server/api/common/completion.h"
#include "server/api/ollama/ollama_dialect.h"

/* Parses the body, which names a model. NULL: the exchange is answered. */
struct completion *ollama_open(struct server *server, struct exchange *x, enum ollama_kind kind);

#endif
