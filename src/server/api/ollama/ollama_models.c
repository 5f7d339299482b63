/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and describes the models, and refuses the routes that create, copy or upload one. */
#include <math.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text/json_writer.h"
#include "base/text/short_names.h"
#include "server/api/common/model_card.h"
#include "server/api/ollama/ollama_requests.h"
#include "server/api/ollama/ollama_routes.h"

enum { MAX_LIST_BYTES = 1 << 20, DIGEST_HEX = 64 };

/* The version of Ollama's API; clients compare it with the one that they need. */
#define OLLAMA_VERSION "0.33.0"

static void reply_ollama(struct exchange *x, int status, struct buf *out)
{
    exchange_reply(x, status, "application/json; charset=utf-8", out);
    buf_free(out);
}

/* ---- bodies ---- */

static bool set_model_by_name(struct completion *a)
{
    if (!a->request.model[0] && !api_read_model_name(&a->request, "name", &a->error)) return false;
    return a->request.model[0] || api_fail(&a->error, "model", "model is required");
}

struct completion *ollama_open(struct server *server, struct exchange *x, enum ollama_kind kind)
{
    size_t n;
    exchange_body(x, &n);
    if (!n) {
        exchange_fail(x, 400, NULL, NULL, "missing request body");
        return NULL;
    }
    struct completion *a = completion_parse(server, x, &ollama_dialects[kind]);
    if (!a || set_model_by_name(a)) return a;
    completion_fail(a, x);
    completion_close(a);
    return NULL;
}

/* Finds the model named in the body. On an error, answers the exchange and returns NULL. */
static struct completion *open_named_model(struct server *server, struct exchange *x, size_t *model)
{
    struct completion *a = ollama_open(server, x, OLLAMA_NAME);
    if (!a || completion_find_model(a, model)) return a;
    completion_fail(a, x);
    completion_close(a);
    return NULL;
}

/* ---- the server ---- */

void route_ollama_root(struct server *server, struct exchange *x)
{
    struct buf out = buf_with_max(MAX_LIST_BYTES);
    (void)server;
    buf_add_text(&out, "Ollama is running");
    exchange_reply(x, 200, "text/plain; charset=utf-8", &out);
    buf_free(&out);
}

void route_ollama_version(struct server *server, struct exchange *x)
{
    struct buf out = buf_with_max(MAX_LIST_BYTES);
    struct json_writer w = json_write_to(&out, JSON_COMPACT);
    (void)server;
    json_open_object(&w);
    json_add_string(&w, "version", OLLAMA_VERSION);
    json_add_string(&w, "server", "eyelet");
    json_add_string(&w, "server_version", ey_version());
    json_close_object(&w);
    reply_ollama(x, 200, &out);
}

void route_ollama_status(struct server *server, struct exchange *x)
{
    struct buf out = buf_with_max(MAX_LIST_BYTES);
    (void)server;
    buf_add_text(&out, "{\"cloud\":{\"disabled\":true,\"source\":\"config\"}}");
    reply_ollama(x, 200, &out);
}

/* ---- one model ---- */

/* The repository or folder of a model. */
static const char *model_origin(const struct server *server, size_t model)
{
    const struct server_model *m = &server->options->models[model];
    return m->path[0] == '/' && m->aliases[0] ? m->aliases[0] : m->path;
}

/* Writes the name with a tag: a repository's short name, else the served name. */
static void tagged_name(char out[EY_MAX_PATH + 16], const char *name)
{
    char short_name[SHORT_NAME_BYTES];
    const char *slash = strrchr(name, '/');
    bool tagged = strchr(slash ? slash : name, ':') != NULL;
    if (short_name_of(short_name, name))
        snprintf(out, EY_MAX_PATH + 16, "%s", short_name);
    else
        snprintf(out, EY_MAX_PATH + 16, "%s%s", name, tagged ? "" : ":latest");
}

/* Digest of the origin, the folder (whose name contains the commit) and the quantization. */
static void model_digest(struct server *server, size_t model, const struct model_card *card,
                         char out[DIGEST_HEX + 1])
{
    char text[2 * EY_MAX_PATH];
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    int length = snprintf(text, sizeof(text), "%.4000s %.4000s %s", model_origin(server, model),
                          server->options->models[model].path, card->quantization);
    if (!EVP_Digest(text, (size_t)length, digest, &n, EVP_sha256(), NULL)) n = 0;
    for (unsigned i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", i < n ? digest[i] : 0);
}

uint64_t ollama_model_digest(struct server *server, size_t model, char out[OLLAMA_DIGEST_BYTES])
{
    const struct model_card card = server_model_card(server, model);
    model_digest(server, model, &card, out);
    return card.bytes;
}

static void add_details(struct json_writer *w, const struct model_card *card, const char *parent)
{
    char size[32];
    double parameters = (double)card->parameters;
    snprintf(size, sizeof(size), parameters < 1e9 ? "%.1fM" : "%.1fB",
             parameters < 1e9 ? parameters / 1e6 : parameters / 1e9);
    json_write_key(w, "details");
    json_open_object(w);
    json_add_string(w, "parent_model", parent);
    json_add_string(w, "format", card->format);
    json_add_string(w, "family", card->family);
    json_write_key(w, "families");
    json_open_array(w);
    json_write_string(w, card->family);
    json_close_array(w);
    json_add_string(w, "parameter_size", size);
    json_add_string(w, "quantization_level", card->quantization);
}

static void add_capabilities(struct json_writer *w, const struct model_card *card)
{
    json_write_key(w, "capabilities");
    json_open_array(w);
    json_write_string(w, card->task == EY_TASK_GENERATE ? "completion"
                         : card->task == EY_TASK_EMBED  ? "embedding"
                                                        : "rerank");
    if (card->vision) json_write_string(w, "vision");
    if (card->tools) json_write_string(w, "tools");
    if (card->thinking) json_write_string(w, "thinking");
    json_close_array(w);
}

static void add_modified(struct json_writer *w, const struct model_card *card)
{
    char text[40];
    ollama_write_time(text, card->modified, 0);
    json_add_string(w, "modified_at", text);
}

static int served_context(const struct model_status *status, const struct model_card *card)
{
    return status->info.max_model_len ? status->info.max_model_len : card->context;
}

/* The i-th name of a model. */
static const char *served_name(const struct server *server, size_t model, size_t i)
{
    const struct server_model *m = &server->options->models[model];
    return i < m->n_names ? m->names[i] : server_model_name(server, model);
}

static void open_listed_model(struct json_writer *w, struct server *server, size_t model, size_t i)
{
    char name[EY_MAX_PATH + 16];
    tagged_name(name, served_name(server, model, i));
    json_open_object(w);
    json_add_string(w, "name", name);
    json_add_string(w, "model", name);
}

static void write_tag(struct json_writer *w, struct server *server, size_t model, size_t i)
{
    struct model_card card = server_model_card(server, model);
    struct model_status status = model_manager_status(server->model_manager, model);
    char digest[DIGEST_HEX + 1];
    model_digest(server, model, &card, digest);
    open_listed_model(w, server, model, i);
    add_modified(w, &card);
    json_add_uint(w, "size", card.bytes);
    json_add_string(w, "digest", digest);
    add_details(w, &card, model_origin(server, model));
    json_add_int(w, "context_length", served_context(&status, &card));
    json_add_int(w, "embedding_length", card.hidden_size);
    json_close_object(w);
    add_capabilities(w, &card);
    json_close_object(w);
}

/* ---- lists ---- */

typedef void write_model_fn(struct json_writer *w, struct server *server, size_t model, size_t i);

static void reply_list(struct server *server, struct exchange *x, bool loaded_only,
                       write_model_fn *write)
{
    struct buf out = buf_with_max(MAX_LIST_BYTES);
    struct json_writer w = json_write_to(&out, JSON_COMPACT);
    json_open_object(&w);
    json_write_key(&w, "models");
    json_open_array(&w);
    for (size_t m = 0; m < server->options->n_models; m++) {
        bool loaded = model_manager_status(server->model_manager, m).state == MODEL_READY;
        size_t n = server->options->models[m].n_names;
        for (size_t i = 0; (loaded || !loaded_only) && (i < n || !i); i++)
            write(&w, server, m, i);
    }
    json_close_array(&w);
    json_close_object(&w);
    reply_ollama(x, 200, &out);
}

void route_ollama_tags(struct server *server, struct exchange *x)
{
    reply_list(server, x, false, write_tag);
}

/* A model that stays loaded for ever gets a date that every client accepts. */
static void add_expiry(struct json_writer *w, double seconds)
{
    char text[40] = "2100-01-01T00:00:00Z";
    if (isfinite(seconds))
        ollama_write_time(text, (int64_t)time(NULL) + (seconds > 0 ? (int64_t)seconds : 0), 0);
    json_add_string(w, "expires_at", text);
}

static void write_running(struct json_writer *w, struct server *server, size_t model, size_t i)
{
    struct model_card card = server_model_card(server, model);
    struct model_status status = model_manager_status(server->model_manager, model);
    const struct model_info *info = &status.info;
    bool gpu = strncmp(info->device, "cuda", 4) == 0;
    char digest[DIGEST_HEX + 1];
    model_digest(server, model, &card, digest);
    open_listed_model(w, server, model, i);
    json_add_uint(w, "size", gpu ? info->total_bytes : info->total_bytes + card.bytes);
    json_add_string(w, "digest", digest);
    add_details(w, &card, model_origin(server, model));
    json_close_object(w);
    add_expiry(w, status.unload_seconds);
    json_add_uint(w, "size_vram", gpu ? info->total_bytes : 0);
    json_add_int(w, "context_length", served_context(&status, &card));
    json_close_object(w);
}

void route_ollama_ps(struct server *server, struct exchange *x)
{
    reply_list(server, x, true, write_running);
}

/* ---- show ---- */

static void add_parameters(struct json_writer *w, const struct model_card *card, int context)
{
    struct buf text = buf_with_max(1024);
    buf_printf(&text, "%-30s %d", "num_ctx", context);
    if (strncmp(card->family, "qwen", 4) == 0) buf_printf(&text, "\n%-30s \"<|im_end|>\"", "stop");
    if (card->has_sampling) {
        buf_printf(&text, "\n%-30s %g", "temperature", card->temperature);
        if (card->top_k) buf_printf(&text, "\n%-30s %d", "top_k", card->top_k);
        buf_printf(&text, "\n%-30s %g", "top_p", card->top_p);
    }
    json_add_string(w, "parameters", text.data);
    buf_free(&text);
}

static void add_family_int(struct json_writer *w, const struct model_card *card, const char *name,
                           int value)
{
    char key[96];
    snprintf(key, sizeof(key), "%s.%s", card->family, name);
    json_add_int(w, key, value);
}

static void add_model_info(struct json_writer *w, const struct model_card *card, const char *name,
                           int context)
{
    json_write_key(w, "model_info");
    json_open_object(w);
    json_add_string(w, "general.architecture", card->family);
    json_add_string(w, "general.basename", name);
    json_add_int(w, "general.file_type", 0);
    json_add_uint(w, "general.parameter_count", card->parameters);
    json_add_int(w, "general.quantization_version", 2);
    add_family_int(w, card, "context_length", context);
    add_family_int(w, card, "embedding_length", card->hidden_size);
    add_family_int(w, card, "block_count", card->n_layers);
    add_family_int(w, card, "attention.head_count", card->n_heads);
    add_family_int(w, card, "attention.head_count_kv", card->n_kv_heads);
    json_close_object(w);
}

static void write_show(struct json_writer *w, struct completion *a, struct exchange *x,
                       size_t model)
{
    struct server *server = a->server;
    struct model_card card = server_model_card(server, model);
    struct model_status status = model_manager_status(server->model_manager, model);
    const char *agent = exchange_request_header(x, "User-Agent"),
               *origin = model_origin(server, model), *slash = strrchr(origin, '/');
    /* Copilot shows the basename to its users. */
    bool copilot = agent && strncmp(agent, "GitHubCopilotChat", 17) == 0;
    char modelfile[EY_MAX_PATH + 16];
    int context = served_context(&status, &card);
    snprintf(modelfile, sizeof(modelfile), "FROM %.4000s\n", origin);
    json_open_object(w);
    json_add_string(w, "modelfile", modelfile);
    add_parameters(w, &card, context);
    json_add_string(w, "template", "{{ .Prompt }}");
    add_details(w, &card, "");
    json_close_object(w);
    add_model_info(w, &card, copilot ? a->request.model : slash ? slash + 1 : origin, context);
    json_write_key(w, "projector_info");
    json_open_object(w);
    json_close_object(w);
    json_write_key(w, "tensors");
    json_open_array(w);
    json_close_array(w);
    add_capabilities(w, &card);
    add_modified(w, &card);
    json_close_object(w);
}

void route_ollama_show(struct server *server, struct exchange *x)
{
    size_t model;
    struct completion *a = open_named_model(server, x, &model);
    if (!a) return;
    struct buf out = buf_with_max(MAX_LIST_BYTES);
    struct json_writer w = json_write_to(&out, JSON_COMPACT);
    write_show(&w, a, x, model);
    completion_close(a);
    reply_ollama(x, 200, &out);
}

/* ---- routes that are not supported ---- */

void route_ollama_unsupported(struct server *server, struct exchange *x)
{
    (void)server;
    exchange_fail(x, 501, NULL, NULL, "this route is not supported by eyelet");
}

void route_ollama_absent(struct server *server, struct exchange *x)
{
    (void)server;
    exchange_fail(x, 404, NULL, NULL, "not found");
}
