/* SPDX-License-Identifier: Apache-2.0 */
/* Chat, generate, embeddings, and requests without a prompt, which load or unload a model. */
#include "server/api/ollama/ollama_routes.h"

#include <stdlib.h>

#include "server/api/common/completion.h"
#include "server/api/ollama/ollama_dialect.h"
#include "server/api/ollama/ollama_requests.h"

enum { MAX_LOAD_REPLY = 4096 };

static void reply_load(struct completion *a, struct exchange *x, const char *reason)
{
    struct buf out = buf_with_max(MAX_LOAD_REPLY);
    ollama_write_load(&out, &a->reply, reason);
    exchange_reply(x, 200, "application/json; charset=utf-8", &out);
    buf_free(&out);
}

/* keep_alive 0 unloads the model once it has no request in progress. */
static bool answer_unload(struct completion *a, struct exchange *x)
{
    size_t model;
    if (!completion_find_model(a, &model)) return false;
    model_manager_unload(a->server->model_manager, model);
    reply_load(a, x, "unload");
    return true;
}

static bool answer_load(struct completion *a, struct exchange *x, bool kept, double seconds)
{
    if (!completion_lease(a, x)) return false;
    if (kept) model_manager_keep(a->server->model_manager, a->lease.model, seconds);
    reply_load(a, x, "load");
    return true;
}

static void run_ollama(struct server *server, struct exchange *x, enum ollama_kind kind)
{
    bool given;
    double seconds;
    struct completion *a = ollama_open(server, x, kind);
    if (!a) return;
    json_object *json = api_request_json(&a->request);
    bool ok = ollama_read_keep_alive(json, &given, &seconds, &a->error);
    if (ok && !ollama_asks_nothing(json, kind)) {
        if (!completion_read(a, x)) return;
        if (given) model_manager_keep(server->model_manager, a->lease.model, seconds);
        completion_answer(a, x);
        return;
    }
    if (ok) ok = given && seconds == 0 ? answer_unload(a, x) : answer_load(a, x, given, seconds);
    if (!ok) completion_fail(a, x);
    completion_close(a);
}

/* An embedding request without input only loads the model. */
static void reply_no_vectors(struct completion *a, struct exchange *x)
{
    struct buf out = buf_with_max(MAX_LOAD_REPLY);
    struct api_usage usage = {0};
    ollama_write_embed(&out, &a->reply, NULL, 0, &usage);
    exchange_reply(x, 200, a->request.dialect->json_type, &out);
    buf_free(&out);
    completion_close(a);
}

static void run_embed(struct server *server, struct exchange *x, enum ollama_kind kind)
{
    bool given;
    double seconds;
    struct completion *a = ollama_open(server, x, kind);
    if (!a) return;
    if (!ollama_read_keep_alive(api_request_json(&a->request), &given, &seconds, &a->error)) {
        completion_fail(a, x);
        completion_close(a);
        return;
    }
    if (!completion_read(a, x)) return;
    if (given) model_manager_keep(server->model_manager, a->lease.model, seconds);
    if (a->request.n_prompts)
        completion_answer(a, x);
    else
        reply_no_vectors(a, x);
}

void route_ollama_embed(struct server *server, struct exchange *x)
{
    run_embed(server, x, OLLAMA_EMBED);
}

void route_ollama_embeddings(struct server *server, struct exchange *x)
{
    run_embed(server, x, OLLAMA_EMBEDDINGS);
}

void route_ollama_chat(struct server *server, struct exchange *x)
{
    run_ollama(server, x, OLLAMA_CHAT);
}

void route_ollama_generate(struct server *server, struct exchange *x)
{
    run_ollama(server, x, OLLAMA_GENERATE);
}
