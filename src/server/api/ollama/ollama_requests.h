/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the routes of Ollama's API whose requests have a body. */
#ifndef EY_SERVER_OLLAMA_REQUESTS_H
#define EY_SERVER_OLLAMA_REQUESTS_H

#include "server/api/common/completion.h"
#include "server/api/ollama/ollama_dialect.h"

/* Parses the body, which names a model. On an error, answers the exchange and returns NULL. */
struct completion *ollama_open(struct server *server, struct exchange *x, enum ollama_kind kind);

enum { OLLAMA_DIGEST_BYTES = 65 };
/* Writes a model's digest as lists show it. Returns the size of the model's files in bytes. */
uint64_t ollama_model_digest(struct server *server, size_t model, char out[OLLAMA_DIGEST_BYTES]);

#endif
