/* SPDX-License-Identifier: Apache-2.0 */
/* The routing table. */
#include "server/routes.h"

#include <stdio.h>
#include <string.h>

#include "server/api/anthropic/anthropic_dialect.h"
#include "server/api/anthropic/anthropic_routes.h"
#include "server/api/llamacpp/llamacpp_dialect.h"
#include "server/api/llamacpp/llamacpp_routes.h"
#include "server/api/ollama/ollama_dialect.h"
#include "server/api/ollama/ollama_routes.h"
#include "server/api/openai_chat/api_routes.h"
#include "server/api/openai_responses/responses_dialect.h"
#include "server/api/openai_responses/responses_routes.h"
#include "server/api/pooling/pooling_routes.h"
#include "server/preview_route.h"
#include "server/status_routes.h"

static const struct route routes[] = {
    {"POST", "/v1/chat/completions", route_chat_completions, 0},
    {"POST", "/v1/chat/completions/render", route_render, 0},
    {"POST", "/v1/completions", route_completions, 0},
    {"POST", "/v1/responses", route_responses, ROUTE_ZSTD},
    {"POST", "/v1/responses/input_tokens", route_responses_count, ROUTE_ZSTD},
    {"GET", "/v1/responses/", route_stored_response, ROUTE_ANY_END},
    {"DELETE", "/v1/responses/", route_delete_response, ROUTE_ANY_END | ROUTE_ANY_TYPE},
    {"POST", "/v1/responses/", route_responses_other, ROUTE_ANY_END | ROUTE_ANY_TYPE},
    {"POST", "/responses", route_responses, ROUTE_ZSTD},
    {"POST", "/responses/input_tokens", route_responses_count, ROUTE_ZSTD},
    {"GET", "/responses/", route_stored_response, ROUTE_ANY_END},
    {"DELETE", "/responses/", route_delete_response, ROUTE_ANY_END | ROUTE_ANY_TYPE},
    {"POST", "/v1/messages", route_anthropic_messages, 0},
    {"POST", "/v1/messages/count_tokens", route_anthropic_count, 0},
    {"POST", "/chat/completions", route_chat_completions, 0},
    {"POST", "/completions", route_completions, 0},
    {"POST", "/tokenize", route_tokenize, 0},
    {"POST", "/detokenize", route_detokenize, 0},
    {"POST", "/apply-template", route_apply_template, ROUTE_ANY_TYPE},
    {"POST", "/chat/completions/input_tokens", route_input_tokens, 0},
    {"POST", "/v1/chat/completions/input_tokens", route_input_tokens, 0},
    {"POST", "/completion", route_llamacpp_completion, ROUTE_ANY_TYPE},
    {"POST", "/v1/embeddings", route_embeddings, 0},
    {"POST", "/embedding", route_llamacpp_embeddings, ROUTE_ANY_TYPE},
    {"POST", "/embeddings", route_llamacpp_embeddings, ROUTE_ANY_TYPE},
    {"POST", "/v1/rerank", route_rerank, 0},
    {"POST", "/v2/rerank", route_rerank, 0},
    {"POST", "/v1/v2/rerank", route_rerank, 0}, /* Cohere's client with a base that ends in /v1 */
    {"POST", "/rerank", route_rerank, 0},
    {"POST", "/v1/reranking", route_rerank, 0},
    {"POST", "/reranking", route_rerank, 0},
    {"POST", "/v1/score", route_score, 0},
    {"POST", "/score", route_score, 0},
    {"POST", "/infill", route_llamacpp_unsupported, ROUTE_ANY_TYPE},
    {"POST", "/props", route_llamacpp_unsupported, ROUTE_ANY_TYPE},
    {"POST", "/slots/", route_llamacpp_unsupported, ROUTE_ANY_TYPE | ROUTE_ANY_END},
    {"POST", "/lora-adapters", route_llamacpp_unsupported, ROUTE_ANY_TYPE},
    {"POST", "/models/load", route_llamacpp_unsupported, ROUTE_ANY_TYPE},
    {"POST", "/models/unload", route_llamacpp_unsupported, ROUTE_ANY_TYPE},
    {"GET", "/", route_ollama_root, ROUTE_OPEN | ROUTE_PROBE},
    {"GET", "/api/version", route_ollama_version, 0},
    {"GET", "/api/tags", route_ollama_tags, 0},
    {"GET", "/api/ps", route_ollama_ps, 0},
    {"GET", "/api/status", route_ollama_status, 0},
    {"POST", "/api/show", route_ollama_show, ROUTE_ANY_TYPE},
    {"POST", "/api/chat", route_ollama_chat, ROUTE_ANY_TYPE},
    {"POST", "/api/generate", route_ollama_generate, ROUTE_ANY_TYPE},
    {"POST", "/api/embed", route_ollama_embed, ROUTE_ANY_TYPE},
    {"POST", "/api/embeddings", route_ollama_embeddings, ROUTE_ANY_TYPE},
    {"POST", "/api/pull", route_ollama_pull, ROUTE_ANY_TYPE},
    {"DELETE", "/api/delete", route_ollama_delete, ROUTE_ANY_TYPE},
    {"POST", "/api/copy", route_ollama_unsupported, ROUTE_ANY_TYPE},
    {"POST", "/api/push", route_ollama_unsupported, ROUTE_ANY_TYPE},
    {"POST", "/api/create", route_ollama_unsupported, ROUTE_ANY_TYPE},
    {"POST", "/api/blobs/", route_ollama_unsupported, ROUTE_ANY_TYPE | ROUTE_ANY_END},
    {"POST", "/api/me", route_ollama_absent, ROUTE_ANY_TYPE},
    {"GET", "/v1/models", route_models, 0},
    {"GET", "/v1/models/", route_model, ROUTE_ANY_END},
    {"GET", "/models", route_models, 0},
    {"GET", "/models/", route_model, ROUTE_ANY_END},
    {"GET", "/props", route_props, 0},
    {"GET", "/slots", route_slots, 0},
    {"GET", "/lora-adapters", route_lora_adapters, 0},
    {"GET", "/health", route_health, ROUTE_OPEN | ROUTE_PROBE},
    {"GET", "/v1/health", route_health, ROUTE_OPEN | ROUTE_PROBE},
    {"GET", "/healthz", route_health, ROUTE_OPEN | ROUTE_PROBE},
    {"GET", "/livez", route_health, ROUTE_OPEN | ROUTE_PROBE},
    {"GET", "/ping", route_health, ROUTE_OPEN | ROUTE_PROBE},
    {"GET", "/ready", route_ready, ROUTE_OPEN | ROUTE_PROBE},
    {"GET", "/readyz", route_ready, ROUTE_OPEN | ROUTE_PROBE},
    {"GET", "/version", route_version, 0},
    {"GET", "/metrics", route_metrics, ROUTE_PROBE},
    {"GET", "/eyelet/plan", route_plan, 0},
    {"POST", "/eyelet/preview", route_preview, 0},
};

const struct route *route_at(size_t i)
{
    return i < sizeof(routes) / sizeof(routes[0]) ? &routes[i] : NULL;
}

/* Ignores one trailing slash. */
static bool route_matches(const struct route *r, const char *path)
{
    size_t n = strlen(r->path);
    if (strncmp(path, r->path, n) != 0) return false;
    return (r->flags & ROUTE_ANY_END) || !path[n] || (path[n] == '/' && !path[n + 1]);
}

enum { GETS = 1, POSTS = 2, DELETES = 4 };

static unsigned method_bit(const char *method)
{
    return strcmp(method, "GET") == 0 ? GETS : strcmp(method, "POST") == 0 ? POSTS : DELETES;
}

const struct route *route_find(const char *method, const char *path, const char **allow)
{
    static const char *const methods[] = {"",
                                          "GET, HEAD, OPTIONS",
                                          "POST, OPTIONS",
                                          "GET, HEAD, POST, OPTIONS",
                                          "DELETE, OPTIONS",
                                          "GET, HEAD, DELETE, OPTIONS",
                                          "POST, DELETE, OPTIONS",
                                          "GET, HEAD, POST, DELETE, OPTIONS"};
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    const struct route *found = NULL;
    unsigned allowed = 0;
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        const struct route *r = &routes[i];
        if (!route_matches(r, path)) continue;
        allowed |= method_bit(r->method);
        if (!found && strcmp(wanted, r->method) == 0) found = r;
    }
    *allow = methods[allowed];
    return found;
}

/* Paths of other servers that clients try, and what to use instead. */
static const struct {
    const char *begin, *hint;
} hints[] = {
    {"/v1/audio/", "audio is not supported; send images to /v1/chat/completions"},
    {"/v1/images/", "images are not generated here; to ask about one, use /v1/chat/completions"},
    {"/v1/assistants", "use /v1/chat/completions"},
    {"/v1/threads", "use /v1/chat/completions"},
    {"/v1/files", "images go into the request, as data: URLs"},
    {"/api/v0/", "use /v1/models and /v1/chat/completions"},
    {"/api/v1/", "use /v1/models and /v1/chat/completions"},
    {"/upstream/", "use /props"},
    {"/predict", "Immich's own models are not served here; for captions use /v1/chat/completions"},
};

/* Returns the longest route that the path ends with: the client's base URL has a needless prefix.
 */
static const struct route *route_at_end(const char *path)
{
    const struct route *best = NULL;
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        size_t n = strlen(path), m = strlen(routes[i].path);
        if (n > m && m > 1 && strcmp(path + n - m, routes[i].path) == 0 &&
            (!best || m > strlen(best->path)))
            best = &routes[i];
    }
    return best;
}

void route_hint(const char *path, char out[160])
{
    const struct route *near = route_at_end(path);
    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
        if (strncmp(path, hints[i].begin, strlen(hints[i].begin)) == 0) {
            snprintf(out, 160, "%s", hints[i].hint);
            return;
        }
    if (near)
        snprintf(out, 160, "use %.100s; remove the prefix before it from the base URL", near->path);
    else
        snprintf(out, 160, "there are /v1/chat/completions, /v1/models, /api/chat and /api/tags");
}

/* Dialects by path prefix; the first match applies. */
static const struct {
    const char *begin;
    error_form_fn *form;
} error_forms[] = {
    {"/api/", write_ollama_error},
    {"/completions", write_openai_error},
    {"/completion", write_llamacpp_error},
    {"/embedding", write_llamacpp_error},
    {"/infill", write_llamacpp_error},
    {"/props", write_llamacpp_error},
    {"/slots", write_llamacpp_error},
    {"/lora-adapters", write_llamacpp_error},
    {"/apply-template", write_llamacpp_error},
    {"/models/load", write_llamacpp_error},
    {"/models/unload", write_llamacpp_error},
    {"/v1/responses", write_responses_error},
    {"/responses", write_responses_error},
    {"/v1/messages", write_anthropic_error},
    {"/", write_openai_error},
};

error_form_fn *route_error_form(const char *path)
{
    for (size_t i = 0; i < sizeof(error_forms) / sizeof(error_forms[0]); i++)
        if (strncmp(path, error_forms[i].begin, strlen(error_forms[i].begin)) == 0)
            return error_forms[i].form;
    return write_openai_error;
}
