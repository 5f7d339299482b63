/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of the routes about the server itself. */
#ifndef EY_SERVER_STATUS_ROUTES_H
#define EY_SERVER_STATUS_ROUTES_H

#include "server/server_context.h"

route_fn route_health, route_ready, route_version, route_metrics, route_plan;

/* Listings of models for the clients of OpenAI, vLLM, llama.cpp and Anthropic (model_routes.c). */
route_fn route_models, route_model, route_props, route_slots, route_lora_adapters;
/* Finds a model by name. If there is none, replies with an error and returns false. */
bool find_model_or_fail(struct server *server, struct exchange *x, const char *name, size_t *model);

#endif
