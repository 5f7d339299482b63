/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EY_SERVER_POOLING_ROUTES_H
#define EY_SERVER_POOLING_ROUTES_H

#include "server/http/http_exchange.h"

route_fn route_embeddings, route_llamacpp_embeddings, route_rerank, route_score;

#endif
