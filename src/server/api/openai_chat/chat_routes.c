/* SPDX-License-Identifier: Apache-2.0 */
/* Chat and completions. */
#include "server/api/common/completion.h"
#include "server/api/openai_chat/api_routes.h"
#include "server/api/openai_chat/openai_dialect.h"

void route_chat_completions(struct server *server, struct exchange *x)
{
    completion_run(server, x, &openai_dialects[API_CHAT]);
}

void route_completions(struct server *server, struct exchange *x)
{
    completion_run(server, x, &openai_dialects[API_COMPLETION]);
}
