/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of the routes by which the server reports about itself. */
#ifndef EY_SERVER_STATUS_ROUTES_H
#define EY_SERVER_STATUS_ROUTES_H

#include "server/server_context.h"

route_fn route_health, route_ready, route_version, route_models, route_model, route_metrics,
    route_plan;

#endif
