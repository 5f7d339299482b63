/* SPDX-License-Identifier: Apache-2.0 */
#include "server/api/pooling/pooling_routes.h"

#include "server/api/common/completion.h"
#include "server/api/pooling/pooling_dialects.h"

void route_embeddings(struct server *server, struct exchange *x)
{
    completion_run(server, x, &embeddings_dialects[EMBEDDINGS_OPENAI]);
}

void route_llamacpp_embeddings(struct server *server, struct exchange *x)
{
    completion_run(server, x, &embeddings_dialects[EMBEDDINGS_LLAMACPP]);
}

void route_rerank(struct server *server, struct exchange *x)
{
    completion_run(server, x, &scoring_dialects[SCORING_RERANK]);
}

void route_score(struct server *server, struct exchange *x)
{
    completion_run(server, x, &scoring_dialects[SCORING_SCORE]);
}
