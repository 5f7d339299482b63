/* SPDX-License-Identifier: Apache-2.0 */
/* /completion, and routes that are refused. */
#include "server/api/llamacpp/llamacpp_routes.h"

#include "server/api/common/completion.h"
#include "server/api/llamacpp/llamacpp_dialect.h"

void route_llamacpp_completion(struct server *server, struct exchange *x)
{
    completion_run(server, x, &llamacpp_dialect);
}

void route_llamacpp_unsupported(struct server *server, struct exchange *x)
{
    (void)server;
    exchange_fail(x, 501, NULL, NULL, "this route is not supported by eyelet");
}
