/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/messages and /v1/messages/count_tokens. */
#include "server/api/anthropic/anthropic_routes.h"

#include "base/text/json_writer.h"
#include "server/api/anthropic/anthropic_dialect.h"
#include "server/api/common/completion.h"

void route_anthropic_messages(struct server *server, struct exchange *x)
{
    completion_run(server, x, &anthropic_dialects[ANTHROPIC_MESSAGES]);
}

void route_anthropic_count(struct server *server, struct exchange *x)
{
    struct completion *a = completion_open(server, x, &anthropic_dialects[ANTHROPIC_COUNT]);
    if (!a) return;
    if (!completion_reply_input_tokens(a, x, NULL)) completion_fail(a, x);
    completion_close(a);
}
