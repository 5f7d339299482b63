/* SPDX-License-Identifier: Apache-2.0 */
/* Routes that only llama.cpp has. */
#ifndef EY_SERVER_LLAMACPP_ROUTES_H
#define EY_SERVER_LLAMACPP_ROUTES_H

#include "server/server_context.h"

route_fn route_llamacpp_completion, route_llamacpp_unsupported;

#endif
