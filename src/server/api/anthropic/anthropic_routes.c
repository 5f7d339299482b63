/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/messages, and how many tokens a request for it has. */
#include "server/api/anthropic/anthropic_routes.h"

#include "base/text/json_writer.h"
#include "server/api/anthropic/anthropic_dialect.h"
#include "server/api/common/completion.h"

enum { MAX_COUNT_BYTES = 256 };

void route_anthropic_messages(struct server *server, struct exchange *x)
{
    completion_run(server, x, &anthropic_dialects[ANTHROPIC_MESSAGES]);
}

static bool reply_token_count(struct completion *a, struct exchange *x)
{
    struct buf out = buf_with_max(MAX_COUNT_BYTES);
    ey_prompt *prompt;
    if (!completion_prepare_prompt(a, &prompt)) return false;
    struct json_writer w = json_write_to(&out, JSON_COMPACT);
    json_open_object(&w);
    json_add_uint(&w, "input_tokens", ey_prompt_describe(prompt).n_ids);
    json_close_object(&w);
    ey_prompt_free(&prompt);
    exchange_reply(x, 200, "application/json", &out);
    buf_free(&out);
    return true;
}

void route_anthropic_count(struct server *server, struct exchange *x)
{
    struct completion *a = completion_open(server, x, &anthropic_dialects[ANTHROPIC_COUNT]);
    if (!a) return;
    if (!reply_token_count(a, x)) completion_fail(a, x);
    completion_close(a);
}
