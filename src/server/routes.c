/* SPDX-License-Identifier: Apache-2.0 */
/* The table of routes: which path and method lead to which handler. */
#include "server/routes.h"

#include <string.h>

#include "server/api/openai_chat/api_routes.h"
#include "server/preview_route.h"
#include "server/status_routes.h"

static const struct route routes[] = {
    {"POST", "/v1/chat/completions", route_chat_completions, 0},
    {"POST", "/v1/chat/completions/render", route_render, 0},
    {"POST", "/v1/completions", route_completions, 0},
    {"POST", "/tokenize", route_tokenize, 0},
    {"POST", "/detokenize", route_detokenize, 0},
    {"GET", "/v1/models", route_models, 0},
    {"GET", "/v1/models/", route_model, ROUTE_ANY_END},
    {"GET", "/health", route_health, ROUTE_OPEN | ROUTE_PROBE},
    {"GET", "/ready", route_ready, ROUTE_OPEN | ROUTE_PROBE},
    {"GET", "/version", route_version, 0},
    {"GET", "/metrics", route_metrics, ROUTE_PROBE},
    {"GET", "/eyelet/plan", route_plan, 0},
    {"POST", "/eyelet/preview", route_preview, 0},
};

static bool route_matches(const struct route *r, const char *path)
{
    if (r->flags & ROUTE_ANY_END) return strncmp(path, r->path, strlen(r->path)) == 0;
    return strcmp(path, r->path) == 0;
}

const struct route *route_find(const char *method, const char *path, const char **allow)
{
    *allow = "";
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        const struct route *r = &routes[i];
        bool reads = strcmp(r->method, "GET") == 0;
        if (!route_matches(r, path)) continue;
        *allow = reads ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
        if (strcmp(method, r->method) == 0 || (reads && strcmp(method, "HEAD") == 0)) return r;
    }
    return NULL;
}

/* The first that the path begins with. */
static const struct {
    const char *begin;
    error_form_fn *form;
} error_forms[] = {
    {"/", write_openai_error},
};

error_form_fn *route_error_form(const char *path)
{
    for (size_t i = 0; i < sizeof(error_forms) / sizeof(error_forms[0]); i++)
        if (strncmp(path, error_forms[i].begin, strlen(error_forms[i].begin)) == 0)
            return error_forms[i].form;
    return write_openai_error;
}
