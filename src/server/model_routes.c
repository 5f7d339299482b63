/* SPDX-License-Identifier: Apache-2.0 */
/* Routes that list models. One JSON object serves all dialects: each client reads the members that
 * it knows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/json_writer.h"
#include "base/text/short_names.h"
#include "server/api/common/image_refs.h"
#include "server/api/common/model_card.h"
#include "server/status_routes.h"

enum { MAX_LIST_BYTES = 1 << 22, MODEL_WAIT_US = 20000 };
#define MODEL_WAIT_SECONDS 1.0

static void reply_json_list(struct exchange *x, struct buf *out)
{
    exchange_reply(x, 200, "application/json", out);
}

/* Waits briefly until the model's plan, and with it the context length, is known. If it is not by
 * then, info.max_model_len is 0. */
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

/* A fixed permission object, which vLLM's clients expect. */
static void write_permission(struct json_writer *w, const struct server *server)
{
    json_open_object(w);
    json_add_string(w, "id", "modelperm-eyelet");
    json_add_string(w, "object", "model_permission");
    json_add_int(w, "created", server->started);
    json_add_bool(w, "allow_create_engine", false);
    json_add_bool(w, "allow_sampling", true);
    json_add_bool(w, "allow_logprobs", true);
    json_add_bool(w, "allow_search_indices", false);
    json_add_bool(w, "allow_view", true);
    json_add_bool(w, "allow_fine_tuning", false);
    json_add_string(w, "organization", "*");
    json_add_null(w, "group");
    json_add_bool(w, "is_blocking", false);
    json_close_object(w);
}

static void add_int_or_null(struct json_writer *w, const char *key, int64_t value)
{
    if (value)
        json_add_int(w, key, value);
    else
        json_add_null(w, key);
}

/* ---- names ---- */

/* A model's further names, without duplicates. */
struct alias_list {
    const char *item[SERVER_MAX_NAMES + SERVER_MAX_ALIASES + 1];
    size_t n;
};

static void add_alias(struct alias_list *list, const char *listed, const char *name)
{
    if (strcmp(name, listed) == 0) return;
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->item[i], name) == 0) return;
    list->item[list->n++] = name;
}

static void write_aliases(struct json_writer *w, const struct server_model *m, const char *listed)
{
    struct alias_list list = {.n = 0};
    char short_name[SHORT_NAME_BYTES];
    for (size_t i = 0; i < m->n_names; i++)
        add_alias(&list, listed, m->names[i]);
    for (size_t i = 0; i < SERVER_MAX_ALIASES && m->aliases[i]; i++)
        add_alias(&list, listed, m->aliases[i]);
    if (short_name_of(short_name, listed) ||
        short_name_of(short_name, m->aliases[0] ? m->aliases[0] : m->path))
        add_alias(&list, listed, short_name);
    json_open_array(w);
    for (size_t i = 0; i < list.n; i++)
        json_write_string(w, list.item[i]);
    json_close_array(w);
}

static const char *last_part(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash && slash[1] ? slash + 1 : name;
}

/* ---- /v1/models ---- */

/* llama.cpp's members. */
static void add_model_meta(struct json_writer *w, const struct model_card *card, int context)
{
    json_write_key(w, "meta");
    json_open_object(w);
    add_int_or_null(w, "n_ctx", context);
    add_int_or_null(w, "n_ctx_train", card->context);
    add_int_or_null(w, "n_vocab", card->vocab_size);
    add_int_or_null(w, "n_embd", card->hidden_size);
    json_add_uint(w, "n_params", card->parameters);
    json_add_uint(w, "size", card->bytes);
    json_close_object(w);
    json_write_key(w, "architecture");
    json_open_object(w);
    json_write_key(w, "input_modalities");
    json_open_array(w);
    json_write_string(w, "text");
    if (card->vision) json_write_string(w, "image");
    json_close_array(w);
    json_write_key(w, "output_modalities");
    json_open_array(w);
    json_write_string(w, card->task == EY_TASK_GENERATE ? "text"
                         : card->task == EY_TASK_EMBED  ? "embedding"
                                                        : "score");
    json_close_array(w);
    json_close_object(w);
}

/* Anthropic's members. */
static void add_lifecycle(struct json_writer *w, const char *name, int64_t created, int context)
{
    char text[40];
    struct tm utc;
    time_t at = (time_t)created;
    gmtime_r(&at, &utc);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_add_string(w, "type", "model");
    json_add_string(w, "display_name", last_part(name));
    json_add_string(w, "lifecycle", "active");
    json_add_string(w, "created_at", text);
    add_int_or_null(w, "max_input_tokens", context);
    add_int_or_null(w, "max_tokens", context);
}

static void write_model(struct json_writer *w, struct server *server, size_t model,
                        const char *name, const struct model_status *k)
{
    const struct server_model *m = &server->options->models[model];
    struct model_card card = server_model_card(server, model);
    int64_t created = card.modified ? card.modified : server->started;
    json_open_object(w);
    json_add_string(w, "id", name);
    json_add_string(w, "object", "model");
    json_add_int(w, "created", created);
    json_add_string(w, "owned_by", "eyelet");
    json_add_string(w, "root", m->path);
    json_add_null(w, "parent");
    add_int_or_null(w, "max_model_len", k->info.max_model_len);
    json_add_bool(w, "resident", k->state == MODEL_READY);
    json_write_key(w, "aliases");
    write_aliases(w, m, name);
    json_write_key(w, "tags");
    json_open_array(w);
    json_close_array(w);
    add_model_meta(w, &card, k->info.max_model_len);
    add_lifecycle(w, name, created, k->info.max_model_len);
    json_write_key(w, "permission");
    json_open_array(w);
    write_permission(w, server);
    json_close_array(w);
    json_close_object(w);
}

static const char *name_number(const struct server *server, size_t model, size_t i)
{
    const struct server_model *m = &server->options->models[model];
    return i < m->n_names ? m->names[i] : server_model_name(server, model);
}

static void write_names(struct json_writer *w, struct server *server, size_t model,
                        struct exchange *x)
{
    size_t n = server->options->models[model].n_names;
    struct model_status k = wait_for_plan(server, model, x);
    for (size_t i = 0; i < n || i == 0; i++)
        write_model(w, server, model, name_number(server, model, i), &k);
}

void route_models(struct server *server, struct exchange *x)
{
    struct buf out = buf_with_max(MAX_LIST_BYTES);
    struct json_writer w = json_write_to(&out, JSON_SPACED);
    size_t n = model_manager_count(server->model_manager), last = n - 1,
           n_names = server->options->models[last].n_names;
    json_open_object(&w);
    json_add_string(&w, "object", "list");
    json_write_key(&w, "data");
    json_open_array(&w);
    for (size_t i = 0; i < n; i++)
        write_names(&w, server, i, x);
    json_close_array(&w);
    json_add_bool(&w, "has_more", false);
    json_add_string(&w, "first_id", name_number(server, 0, 0));
    json_add_string(&w, "last_id", name_number(server, last, n_names ? n_names - 1 : 0));
    json_close_object(&w);
    reply_json_list(x, &out);
}

bool find_model_or_fail(struct server *server, struct exchange *x, const char *name, size_t *model)
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
    struct buf out = buf_with_max(MAX_LIST_BYTES);
    size_t model;
    if (!find_model_or_fail(server, x, name, &model)) return;
    struct model_status k = wait_for_plan(server, model, x);
    struct json_writer w = json_write_to(&out, JSON_SPACED);
    write_model(&w, server, model, name, &k);
    reply_json_list(x, &out);
}

/* ---- llama.cpp's ---- */

static int count_slots(const struct model_status *k)
{
    return k->info.max_num_seqs > 0 ? k->info.max_num_seqs : 1;
}

static void add_generation_settings(struct json_writer *w, const struct model_card *card,
                                    const struct model_status *k)
{
    json_write_key(w, "default_generation_settings");
    json_open_object(w);
    add_int_or_null(w, "n_ctx", k->info.max_model_len);
    json_write_key(w, "params");
    json_open_object(w);
    if (card->has_sampling) {
        json_add_digits(w, "temperature", card->temperature, 6);
        json_add_int(w, "top_k", card->top_k);
        json_add_digits(w, "top_p", card->top_p, 6);
    }
    json_add_int(w, "n_predict", -1);
    json_close_object(w);
    json_close_object(w);
}

static void add_template_abilities(struct json_writer *w, const struct model_card *card)
{
    json_write_key(w, "chat_template_caps");
    json_open_object(w);
    json_add_bool(w, "supports_string_content", true);
    json_add_bool(w, "supports_typed_content", true);
    json_add_bool(w, "supports_tools", card->tools);
    json_add_bool(w, "supports_tool_calls", card->tools);
    json_add_bool(w, "supports_parallel_tool_calls", card->tools);
    json_add_bool(w, "supports_system_role", true);
    json_add_bool(w, "supports_object_arguments", card->tools);
    json_add_bool(w, "supports_preserve_reasoning", false);
    json_add_bool(w, "supports_reasoning_effort", false);
    json_close_object(w);
}

/* Finds the model that the query names, or the first. */
static bool model_of_query(struct server *server, struct exchange *x, size_t *model)
{
    const char *name = exchange_query(x, "model");
    *model = 0;
    return !name || !name[0] || find_model_or_fail(server, x, name, model);
}

void route_props(struct server *server, struct exchange *x)
{
    struct buf out = buf_with_max(MAX_LIST_BYTES);
    size_t model;
    if (!model_of_query(server, x, &model)) return;
    struct model_status k = wait_for_plan(server, model, x);
    struct model_card card = server_model_card(server, model);
    char *template = server_model_template(server, model);
    struct json_writer w = json_write_to(&out, JSON_SPACED);
    json_open_object(&w);
    add_generation_settings(&w, &card, &k);
    json_add_int(&w, "total_slots", count_slots(&k));
    json_add_string(&w, "model_alias", server_model_name(server, model));
    json_add_string(&w, "model_path", server->options->models[model].path);
    json_write_key(&w, "modalities");
    json_open_object(&w);
    json_add_bool(&w, "vision", card.vision);
    json_add_bool(&w, "audio", false);
    json_add_bool(&w, "video", false);
    json_close_object(&w);
    json_add_string(&w, "media_marker", API_MEDIA_MARKER);
    json_add_string(&w, "chat_template", template ? template : "");
    add_template_abilities(&w, &card);
    json_add_string(&w, "build_info", "eyelet-" EY_VERSION);
    json_add_bool(&w, "is_sleeping", k.state != MODEL_READY);
    json_close_object(&w);
    free(template);
    reply_json_list(x, &out);
}

/* Requests have no fixed slot here. The first `running` slots are reported as busy. */
void route_slots(struct server *server, struct exchange *x)
{
    struct buf out = buf_with_max(MAX_LIST_BYTES);
    const char *fail = exchange_query(x, "fail_on_no_slot");
    size_t model;
    if (!model_of_query(server, x, &model)) return;
    struct model_status k = model_manager_status(server->model_manager, model);
    int running = model_manager_stats(server->model_manager, model).running, n = count_slots(&k);
    if (fail && strcmp(fail, "0") != 0 && running >= n) {
        exchange_fail(x, 503, NULL, NULL, "no slot available");
        return;
    }
    struct json_writer w = json_write_to(&out, JSON_SPACED);
    json_open_array(&w);
    for (int i = 0; i < n; i++) {
        json_open_object(&w);
        json_add_int(&w, "id", i);
        add_int_or_null(&w, "n_ctx", k.info.max_model_len);
        json_add_bool(&w, "is_processing", i < running);
        json_close_object(&w);
    }
    json_close_array(&w);
    reply_json_list(x, &out);
}

void route_lora_adapters(struct server *server, struct exchange *x)
{
    struct buf out = buf_with_max(MAX_LIST_BYTES);
    (void)server;
    buf_add_text(&out, "[]");
    reply_json_list(x, &out);
}
