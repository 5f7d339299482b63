/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by those routes of Ollama's API that have a body. */
#ifndef EY_SERVER_OLLAMA_REQUESTS_H
#define EY_SERVER_OLLAMA_REQUESTS_H

#include "server/api/common/completion.h"
#include "server/api/ollama/ollama_dialect.h"

/* Parses the body, which names a model. On an error, answers the exchange and returns NULL. */
struct completion *ollama_open(struct server *server, struct exchange *x, enum ollama_kind kind);

enum { OLLAMA_DIGEST_BYTES = 65 };
/* Writes the digest that lists show of a model. Returns its size in bytes. */
uint64_t ollama_model_digest(struct server *server, size_t model, char out[OLLAMA_DIGEST_BYTES]);

#endif
