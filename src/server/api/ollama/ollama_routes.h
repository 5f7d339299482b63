/* SPDX-License-Identifier: Apache-2.0 */
/* The routes of Ollama's API. */
#ifndef EY_SERVER_OLLAMA_ROUTES_H
#define EY_SERVER_OLLAMA_ROUTES_H

#include "server/server_context.h"

route_fn route_ollama_root, route_ollama_version, route_ollama_tags, route_ollama_ps;
route_fn route_ollama_show, route_ollama_chat, route_ollama_generate;
route_fn route_ollama_pull, route_ollama_delete, route_ollama_embed, route_ollama_embeddings,
    route_ollama_status;
route_fn route_ollama_unsupported, route_ollama_absent;

#endif
