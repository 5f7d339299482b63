/* SPDX-License-Identifier: Apache-2.0 */
/* What the server reports about itself: health, readiness, version, models, plan and metrics. */
#include "server/status_routes.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "server/http/http_server.h"

enum { MAX_REPLY_BYTES = 1 << 22, MODEL_WAIT_US = 20000 };
#define MODEL_WAIT_SECONDS 1.0

static void reply_json(struct exchange *x, int status, struct buf *out)
{
    exchange_reply(x, status, "application/json", out);
}

/* ---- is it alive ---- */

/* Of all models together. */
struct health {
    bool stuck, spilled;
    ey_stats stats; /* of the one that is stuck */
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
        exchange_reply(x, 200, "text/plain", &out);
        return;
    }
    if (h.stuck)
        buf_printf(
            &out,
            "{\"status\": \"stuck\", \"step_age_seconds\": %.1f, \"running\": %d, \"waiting\": %d}",
            h.stats.heartbeat_age, h.stats.running, h.stats.waiting);
    else
        buf_printf(&out,
                   "{\"status\": \"slow\", \"spilled\": true, \"spilled_bytes\": %llu, "
                   "\"held_bytes\": %llu}", /* it serves, but no longer as it should */
                   (unsigned long long)h.spilled_bytes, (unsigned long long)h.held_bytes);
    reply_json(x, h.stuck ? 503 : 200, &out);
}

static const char *const model_state_names[] = {[MODEL_LOADING] = "loading",
                                                [MODEL_READY] = "ready",
                                                [MODEL_UNLOADED] = "unloaded",
                                                [MODEL_FAILED] = "failed",
                                                [MODEL_CLOSING] = "stopping"};

/* The model that says how ready the server is: one that could not be loaded, else one that is still
 * loaded for the first time, else the first. */
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

static void add_model_states(struct server *server, struct buf *out)
{
    buf_add_text(out, ", \"models\": [");
    for (size_t i = 0; i < model_manager_count(server->model_manager); i++) {
        const char *name = server_model_name(server, i);
        buf_add_text(out, i ? ", {\"id\": " : "{\"id\": ");
        json_dump_string(out, name, strlen(name));
        buf_printf(out, ", \"status\": \"%s\"}",
                   model_state_names[model_manager_status(server->model_manager, i).state]);
    }
    buf_add_text(out, "]");
}

/* A server that unloaded its models is ready: the next request wakes them. So is one that loads a
 * model again, or one that takes turns. */
void route_ready(struct server *server, struct exchange *x)
{
    struct model_status k = model_manager_status(server->model_manager, deciding_model(server));
    struct buf out = buf_with_max(MAX_REPLY_BYTES);
    const bool several = model_manager_count(server->model_manager) > 1,
               waits = several && k.state == MODEL_LOADING && (k.loads || k.info.shares_memory);
    const char *word = server_is_draining(server) ? "stopping"
                       : waits                    ? "unloaded"
                                                  : model_state_names[k.state];
    bool ready = strcmp(word, "ready") == 0 || strcmp(word, "unloaded") == 0;
    buf_printf(&out, "{\"status\": \"%s\", \"stage\": \"%s\", \"percent\": %d", word,
               k.state == MODEL_LOADING ? ey_phase_text(k.stage) : word, k.percent);
    if (k.load_seconds > 0) buf_printf(&out, ", \"load_seconds\": %.3f", k.load_seconds);
    if (k.state == MODEL_FAILED) {
        buf_add_text(&out, ", \"message\": ");
        json_dump_string(&out, k.error.text, strlen(k.error.text));
    }
    if (several) add_model_states(server, &out);
    buf_add_text(&out, "}");
    reply_json(x, ready ? 200 : 503, &out);
}

/* ---- what is it ---- */

void route_version(struct server *server, struct exchange *x)
{
    struct buf out = buf_with_max(MAX_REPLY_BYTES);
    (void)server;
    buf_printf(&out, "{\"version\": \"%s\"}", ey_version());
    reply_json(x, 200, &out);
}

/* The context that clients want to know is in the headers of the model's files, which are read
 * first: it is waited for, but not for long. facts.max_model_len 0: not known yet. */
static struct model_status wait_for_plan(struct server *server, size_t model, struct exchange *x)
{
    double until = seconds_now() + MODEL_WAIT_SECONDS;
    struct model_status k = model_manager_status(server->model_manager, model);
    while (!k.info.planned && k.state == MODEL_LOADING && seconds_now() < until &&
           !exchange_hung_up(x)) {
        usleep(MODEL_WAIT_US);
        k = model_manager_status(server->model_manager, model);
    }
    return k;
}

static void add_model_object(struct server *server, struct buf *out, size_t model, const char *name,
                             const struct model_status *k)
{
    const char *root = server->options->models[model].path;
    buf_add_text(out, "{\"id\": ");
    json_dump_string(out, name, strlen(name));
    buf_printf(out,
               ", \"object\": \"model\", \"created\": %lld, \"owned_by\": \"eyelet\", \"root\": ",
               (long long)server->started);
    json_dump_string(out, root, strlen(root));
    buf_add_text(out, ", \"parent\": null, \"max_model_len\": ");
    if (k->info.max_model_len)
        buf_printf(out, "%d", k->info.max_model_len);
    else
        buf_add_text(out, "null");
    buf_printf(out,
               ", \"resident\": %s, \"permission\": [{\"id\": \"modelperm-eyelet\", \"object\": "
               "\"model_permission\", \"created\": %lld, "
               "\"allow_create_engine\": false, \"allow_sampling\": true, \"allow_logprobs\": "
               "true, \"allow_search_indices\": false, "
               "\"allow_view\": true, \"allow_fine_tuning\": false, \"organization\": \"*\", "
               "\"group\": null, \"is_blocking\": false}]}",
               k->state == MODEL_READY ? "true" : "false", (long long)server->started);
}

static void add_names(struct server *server, struct buf *out, size_t model, struct exchange *x)
{
    const struct server_model *m = &server->options->models[model];
    struct model_status k = wait_for_plan(server, model, x);
    for (size_t i = 0; i < m->n_names || i == 0; i++) {
        if (model || i) buf_add_text(out, ", ");
        add_model_object(server, out, model, i ? m->names[i] : server_model_name(server, model),
                         &k);
    }
}

void route_models(struct server *server, struct exchange *x)
{
    struct buf out = buf_with_max(MAX_REPLY_BYTES);
    buf_add_text(&out, "{\"object\": \"list\", \"data\": [");
    for (size_t i = 0; i < model_manager_count(server->model_manager); i++)
        add_names(server, &out, i, x);
    buf_add_text(&out, "]}");
    reply_json(x, 200, &out);
}

/* False: there is none of this name, and the exchange is answered. */
static bool find_model_or_fail(struct server *server, struct exchange *x, const char *name,
                               size_t *model)
{
    char message[768];
    if (name[0] && server_find_model(server, name, model)) return true;
    server_unknown_model_message(server, name, message, sizeof(message));
    exchange_fail(x, 404, NULL, "model", "%s", message);
    return false;
}

void route_model(struct server *server, struct exchange *x)
{
    const char *name = exchange_argument(x);
    struct buf out = buf_with_max(MAX_REPLY_BYTES);
    size_t model;
    if (!find_model_or_fail(server, x, name, &model)) return;
    struct model_status k = wait_for_plan(server, model, x);
    add_model_object(server, &out, model, name, &k);
    reply_json(x, 200, &out);
}

/* ---- what does it do ---- */

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

static void add_plan_item(struct buf *out, const ey_plan_item *item)
{
    buf_add_text(out, "{\"name\": ");
    json_dump_string(out, item->name, strlen(item->name));
    buf_add_text(out, ", \"device\": ");
    json_dump_string(out, item->device, strlen(item->device));
    buf_printf(out, ", \"bytes\": %llu, \"life\": ", (unsigned long long)item->bytes);
    json_dump_string(out, item->lifetime, strlen(item->lifetime));
    buf_add_text(out, "}");
}

void route_plan(struct server *server, struct exchange *x)
{
    const char *name = exchange_query(x, "model");
    size_t model = 0;
    if (name && !find_model_or_fail(server, x, name, &model)) return;
    struct model_status k = model_manager_status(server->model_manager, model);
    struct model_info *f = &k.info;
    struct buf out = buf_with_max(MAX_REPLY_BYTES);
    if (!f->planned) {
        exchange_fail(x, 503, NULL, NULL, "the model's files are still being read");
        return;
    }
    uint64_t missing = f->total_bytes > f->budget_bytes ? f->total_bytes - f->budget_bytes : 0;
    buf_printf(&out,
               "{\"fits\": %s, \"loaded\": %s, \"device\": \"%s\", \"budget_bytes\": %llu, "
               "\"total_bytes\": %llu, "
               "\"shortfall_bytes\": %llu, \"items\": [",
               missing ? "false" : "true", k.state == MODEL_READY ? "true" : "false", f->device,
               (unsigned long long)f->budget_bytes, (unsigned long long)f->total_bytes,
               (unsigned long long)missing);
    for (size_t i = 0; i < f->n_items; i++) {
        if (i) buf_add_text(&out, ", ");
        add_plan_item(&out, &f->item[i]);
    }
    buf_add_text(&out, "], \"choices\": [");
    for (size_t i = 0; i < f->n_choices; i++) {
        if (i) buf_add_text(&out, ", ");
        json_dump_string(&out, f->choice[i], strlen(f->choice[i]));
    }
    buf_printf(&out,
               "], \"takes_turns\": %s, \"max_model_len\": %d, \"kv_tokens\": %d, "
               "\"max_num_seqs\": %d, \"max_pixels\": %llu, "
               "\"host_budget_bytes\": %llu}",
               f->shares_memory ? "true" : "false", f->max_model_len, f->kv_tokens, f->max_num_seqs,
               (unsigned long long)f->max_pixels,
               (unsigned long long)ey_budget_total(server->budget));
    reply_json(x, 200, &out);
}
