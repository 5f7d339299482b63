/* SPDX-License-Identifier: Apache-2.0 */
/* Routes about the server itself: health, readiness, version, plan and metrics. */
#include "server/status_routes.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text/json_writer.h"
#include "server/http/http_server.h"
#include "server/plan_json.h"

enum { MAX_REPLY_BYTES = 1 << 22 };

static void reply_json(struct exchange *x, int status, struct buf *out)
{
    exchange_reply(x, status, "application/json", out);
}

/* ---- health ---- */

/* Health of all models together. */
struct health {
    bool stuck, spilled;
    ey_stats stats; /* of the stuck model */
    uint64_t spilled_bytes, held_bytes;
};

static struct health read_health(struct server *server)
{
    struct health h = {0};
    for (size_t i = 0; i < model_manager_count(server->model_manager); i++) {
        struct model_status k = model_manager_status(server->model_manager, i);
        bool stuck = model_manager_is_stuck(server->model_manager, i);
        if (stuck && !h.stuck) h.stats = model_manager_stats(server->model_manager, i);
        h.stuck |= stuck;
        h.spilled |= k.memory.spilled;
        if (k.memory.spilled) {
            h.spilled_bytes += k.memory.spilled_bytes;
            h.held_bytes += k.memory.allocated_bytes;
        }
    }
    return h;
}

void route_health(struct server *server, struct exchange *x)
{
    struct health h = read_health(server);
    struct buf out = buf_with_max(MAX_REPLY_BYTES);
    if (!h.stuck && !h.spilled) {
        buf_add_text(&out, "{\"status\": \"ok\"}");
        reply_json(x, 200, &out);
        return;
    }
    struct json_writer w = json_write_to(&out, JSON_SPACED);
    json_open_object(&w);
    json_add_string(&w, "status", h.stuck ? "stuck" : "slow");
    if (h.stuck) {
        json_add_fixed(&w, "step_age_seconds", h.stats.heartbeat_age, 1);
        json_add_int(&w, "running", h.stats.running);
        json_add_int(&w, "waiting", h.stats.waiting);
    } else { /* it serves, but slowly */
        json_add_bool(&w, "spilled", true);
        json_add_uint(&w, "spilled_bytes", h.spilled_bytes);
        json_add_uint(&w, "held_bytes", h.held_bytes);
    }
    json_close_object(&w);
    reply_json(x, h.stuck ? 503 : 200, &out);
}

static const char *const model_state_names[] = {[MODEL_LOADING] = "loading",
                                                [MODEL_READY] = "ready",
                                                [MODEL_UNLOADED] = "unloaded",
                                                [MODEL_FAILED] = "failed",
                                                [MODEL_CLOSING] = "stopping"};

/* Returns the model that decides readiness: one that failed to load, else one that is loading for
 * the first time, else the first. */
static size_t deciding_model(struct server *server)
{
    size_t telling = 0;
    for (size_t i = model_manager_count(server->model_manager); i-- > 0;) {
        struct model_status k = model_manager_status(server->model_manager, i);
        if (k.state == MODEL_FAILED) return i;
        if (k.state == MODEL_LOADING && !k.loads && !k.info.shares_memory) telling = i;
    }
    return telling;
}

static void write_model_states(struct json_writer *w, struct server *server)
{
    json_open_array(w);
    for (size_t i = 0; i < model_manager_count(server->model_manager); i++) {
        json_open_object(w);
        json_add_string(w, "id", server_model_name(server, i));
        json_add_string(w, "status",
                        model_state_names[model_manager_status(server->model_manager, i).state]);
        json_close_object(w);
    }
    json_close_array(w);
}

/* A server that has unloaded idle models is ready, since the next request loads them; so is one
 * that reloads a model or swaps models. */
void route_ready(struct server *server, struct exchange *x)
{
    struct model_status k = model_manager_status(server->model_manager, deciding_model(server));
    struct buf out = buf_with_max(MAX_REPLY_BYTES);
    const bool several = model_manager_count(server->model_manager) > 1,
               waits = k.state == MODEL_LOADING && (k.loads || k.info.shares_memory);
    const char *word = server_is_draining(server) ? "stopping"
                       : waits                    ? "unloaded"
                                                  : model_state_names[k.state];
    bool ready = strcmp(word, "ready") == 0 || strcmp(word, "unloaded") == 0;
    struct json_writer w = json_write_to(&out, JSON_SPACED);
    json_open_object(&w);
    json_add_string(&w, "status", word);
    json_add_string(&w, "stage", k.state == MODEL_LOADING ? ey_phase_text(k.stage) : word);
    json_add_int(&w, "percent", k.percent);
    if (k.load_seconds > 0) json_add_fixed(&w, "load_seconds", k.load_seconds, 3);
    if (k.state == MODEL_FAILED) json_add_string(&w, "message", k.error.text);
    if (several) {
        json_write_key(&w, "models");
        write_model_states(&w, server);
    }
    json_close_object(&w);
    reply_json(x, ready ? 200 : 503, &out);
}

/* ---- version ---- */

void route_version(struct server *server, struct exchange *x)
{
    struct buf out = buf_with_max(MAX_REPLY_BYTES);
    (void)server;
    struct json_writer w = json_write_to(&out, JSON_SPACED);
    json_open_object(&w);
    json_add_string(&w, "version", ey_version());
    json_close_object(&w);
    reply_json(x, 200, &out);
}

/* ---- metrics and plan ---- */

void route_metrics(struct server *server, struct exchange *x)
{
    struct buf out = buf_with_max(MAX_REPLY_BYTES);
    struct metrics_sources sources = {
        .model_manager = server->model_manager,
        .budget = server->budget,
        .connections = connections_count(http_server_connections(server->http_server)).open};
    for (size_t i = 0; i < model_manager_count(server->model_manager); i++)
        sources.model_name[i] = server_model_name(server, i);
    if (metrics_write(server->metrics, &sources, &out))
        exchange_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", &out);
    else
        exchange_fail(x, 503, NULL, NULL, "no memory for the metrics");
}

static void write_model_plan(struct json_writer *w, const struct server *server,
                             const struct model_status *k)
{
    const struct model_info *f = &k->info;
    const uint64_t missing = f->total_bytes > f->budget_bytes ? f->total_bytes - f->budget_bytes
                                                              : 0;
    json_open_object(w);
    json_add_bool(w, "fits", !missing);
    json_add_bool(w, "loaded", k->state == MODEL_READY);
    json_add_string(w, "device", f->device);
    json_add_uint(w, "budget_bytes", f->budget_bytes);
    json_add_uint(w, "total_bytes", f->total_bytes);
    json_add_uint(w, "shortfall_bytes", missing);
    json_write_key(w, "items");
    json_open_array(w);
    for (size_t i = 0; i < f->n_items; i++)
        write_plan_item(w, &f->item[i]);
    json_close_array(w);
    json_write_key(w, "choices");
    json_open_array(w);
    for (size_t i = 0; i < f->n_choices; i++)
        json_write_string(w, f->choice[i]);
    json_close_array(w);
    json_add_bool(w, "takes_turns", f->shares_memory);
    json_add_int(w, "max_model_len", f->max_model_len);
    json_add_int(w, "kv_tokens", f->kv_tokens);
    json_add_int(w, "max_num_seqs", f->max_num_seqs);
    json_add_uint(w, "max_pixels", f->max_pixels);
    json_add_uint(w, "host_budget_bytes", ey_budget_total(server->budget));
    json_close_object(w);
}

void route_plan(struct server *server, struct exchange *x)
{
    const char *name = exchange_query(x, "model");
    size_t model = 0;
    if (name && !find_model_or_fail(server, x, name, &model)) return;
    struct model_status k = model_manager_status(server->model_manager, model);
    if (!k.info.planned) {
        exchange_fail(x, 503, NULL, NULL, "the model's files are still being read");
        return;
    }
    struct buf out = buf_with_max(MAX_REPLY_BYTES);
    struct json_writer w = json_write_to(&out, JSON_SPACED);
    write_model_plan(&w, server, &k);
    reply_json(x, 200, &out);
}
