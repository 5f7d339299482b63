/* SPDX-License-Identifier: Apache-2.0 */
/* Routes of OpenAI's Responses API. */
#ifndef EY_SERVER_RESPONSES_ROUTES_H
#define EY_SERVER_RESPONSES_ROUTES_H

#include "server/http/http_exchange.h"

route_fn route_responses, route_responses_count;
/* /v1/responses/ID and its subpaths. */
route_fn route_stored_response, route_delete_response, route_responses_other;

#endif
