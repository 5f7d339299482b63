/* SPDX-License-Identifier: Apache-2.0 */
/* Routes of Anthropic's API. */
#ifndef EY_SERVER_ANTHROPIC_ROUTES_H
#define EY_SERVER_ANTHROPIC_ROUTES_H

#include "server/http/http_exchange.h"

route_fn route_anthropic_messages, route_anthropic_count;

#endif
