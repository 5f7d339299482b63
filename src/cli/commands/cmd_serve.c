/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet serve [MODEL...] translates its options, which are named as in vLLM, into server_options.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/commands/commands.h"
#include "cli/options/thinking_options.h"
#include "cli/options/engine_options.h"
#include "cli/options/model_default.h"
#include "cli/pull_model.h"
#include "cli/terminal/term.h"
#include "cli/options/vllm_flags.h"
#include "server/core_dumps.h"
#include "server/server.h"

struct serve_setup {
    const struct options *options;
    struct server_options server;
    const char *names[SERVER_MAX_NAMES]; /* --served-model-name */
    size_t n_names;
    struct arena memory; /* owns names, paths and texts from JSON */
};

/* ---- numbers with units ---- */

static bool read_seconds(int *out, const char *text, ey_err *e)
{
    enum { MAX_SECONDS = 30 * 86400 };
    double number;
    const char *unit;
    if (!text) return true;
    bool ok = option_read_amount(text, &number, &unit);
    if (ok && strcmp(unit, "m") == 0)
        number *= 60;
    else if (ok && strcmp(unit, "h") == 0)
        number *= 3600;
    else
        ok = ok && (!*unit || strcmp(unit, "s") == 0);
    if (!ok || number > MAX_SECONDS || (number > 0 && number < 1))
        return ey_fail(e, EY_BAD_REQUEST,
                       "--idle-unload takes a time such as 300, 5m or 1h, or 0 for never, not "
                       "\"%s\"",
                       text);
    *out = (int)number;
    return true;
}

/* ---- JSON ---- */

/* Appends an option's values to out[], which holds *n values and has space for `most`. As in vLLM,
 * a value may be a JSON list of several. */
static bool read_list(struct serve_setup *s, const char **out, size_t *n, size_t most,
                      const char *name, const struct text_list *list, ey_err *e)
{
    char option[64];
    snprintf(option, sizeof(option), "--%s", name);
    for (size_t i = 0; i < list->n; i++) {
        bool is_json = list->item[i][0] == '[';
        json_object *json = is_json ? json_parse(list->item[i], strlen(list->item[i]), option,
                                                 EY_BAD_REQUEST, e)
                                    : NULL;
        if (is_json && !json) return false;
        size_t items = is_json ? json_object_array_length(json) : 1;
        bool ok = *n + items <= most ||
                  ey_fail(e, EY_BAD_REQUEST, "%s takes at most %zu values", option, most);
        for (size_t k = 0; ok && k < items; k++) {
            const char *text = is_json ? json_object_get_string(json_object_array_get_idx(json, k))
                                       : list->item[i];
            char *copy = text ? arena_copy_text(&s->memory, text, strlen(text)) : NULL;
            ok = copy && copy[0] ? true
                                 : ey_fail(e, EY_BAD_REQUEST, "%s takes strings, not %s", option,
                                           list->item[i]);
            if (ok) out[(*n)++] = copy;
        }
        json_object_put(json);
        if (!ok) return false;
    }
    return true;
}

static bool fail_limit(const char *text, ey_err *e)
{
    return ey_fail(
        e, EY_BAD_REQUEST,
        "--limit-mm-per-prompt takes 0 to %d images, written {\"image\": 4}, image=4 or 4, not "
        "\"%s\"",
        EY_MAX_IMAGES, text);
}

static bool read_count(int *out, const char *digits, const char *text, ey_err *e)
{
    size_t n = strspn(digits, "0123456789");
    long count = n && n < 6 && !digits[n] ? strtol(digits, NULL, 10) : -1;
    if (count < 0) return fail_limit(text, e);
    *out = count < EY_MAX_IMAGES ? (int)count
                                 : EY_MAX_IMAGES; /* users of vLLM write 999 for no limit */
    return true;
}

/* Reads `{"image": 4}`, `{"image": {"count": 4, "width": 512}}`, `image=4`, `image=4,video=0` or
 * `4`. */
static bool read_image_limit(int *out, const char *text, ey_err *e)
{
    if (!text) return true;
    if (text[0] == '{') {
        json_object *json = json_parse(text, strlen(text), "--limit-mm-per-prompt", EY_BAD_REQUEST,
                                       e);
        if (!json) return false;
        json_object *image = json_member(json, "image");
        json_object *count = json_object_is_type(image, json_type_object)
                                 ? json_member(image, "count")
                                 : image;
        bool ok = !count ||
                  (json_object_is_type(count, json_type_int) &&
                   read_count(out, json_object_get_string(count), text, e)) ||
                  fail_limit(text, e);
        json_object_put(json);
        return ok;
    }
    const char *image = strstr(text, "image=");
    if (!image && strchr(text, '=')) return true; /* only other media are limited */
    char digits[16];
    image = image ? image + 6 : text;
    size_t n = strcspn(image, ",");
    if (n >= sizeof(digits)) return fail_limit(text, e);
    memcpy(digits, image, n);
    digits[n] = 0;
    return read_count(out, digits, text, e);
}

/* Reads {"max_pixels": N} or {"size": {"longest_edge": N}}, the name in Qwen3-VL's processor. */
static bool serve_read_processor_kwargs(uint64_t *max_pixels, const char *text, ey_err *e)
{
    if (!text) return true;
    json_object *json = json_parse(text, strlen(text), "--mm-processor-kwargs", EY_BAD_REQUEST, e);
    if (!json) return false;
    if (!json_object_is_type(json, json_type_object)) {
        json_object_put(json);
        return ey_fail(
            e, EY_BAD_REQUEST,
            "--mm-processor-kwargs takes a JSON object such as {\"max_pixels\": 1310720}, not %s",
            text);
    }
    int64_t pixels = 0;
    json_object *size = json_member_of_type(json, "size", json_type_object);
    bool ok = json_optional_int(json, "max_pixels", 1024, (int64_t)EY_MAX_IMAGE_PIXELS, &pixels,
                                "--mm-processor-kwargs", e) &&
              (!size || json_optional_int(size, "longest_edge", 1024, (int64_t)EY_MAX_IMAGE_PIXELS,
                                          &pixels, "--mm-processor-kwargs", e));
    json_object_put(json);
    if (ok && pixels) *max_pixels = (uint64_t)pixels;
    if (!ok) e->code = EY_BAD_REQUEST;
    return ok;
}

/* ---- keys ---- */

static bool read_keys(struct serve_setup *s, ey_err *e)
{
    const struct options *o = s->options;
    struct server_options *v = &s->server;
    char *environment = getenv("VLLM_API_KEY");
    for (size_t i = 0; i < o->api_keys.n; i++)
        if (!api_keys_add(&v->keys, o->api_keys.item[i], e)) return false;
    if (!v->keys.n && !o->api_key_file && environment && environment[0] &&
        !api_keys_add(&v->keys, environment, e))
        return false;
    options_wipe_keys(o);
    if (environment) explicit_bzero(environment, strlen(environment));
    v->n_given_keys = v->keys.n;
    v->api_key_file = o->api_key_file;
    return !o->api_key_file || api_keys_add_file(&v->keys, o->api_key_file, e);
}

/* ---- the models ---- */

/* Writes the repository name A/B of a path models--A--B/snapshots/… in the Hugging Face cache. */
static bool cache_name(char *out, const char *path)
{
    const char *folder = strstr(path, "/models--"),
               *end = folder ? strstr(folder, "/snapshots/") : NULL;
    if (!end) return false;
    size_t used = 0;
    for (const char *p = folder + 9; p < end; p++) {
        bool slash = p[0] == '-' && p[1] == '-' && p + 2 < end;
        out[used++] = slash ? '/' : *p;
        p += slash;
    }
    out[used] = 0;
    return used > 0;
}

static void folder_name(char *out, const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    const char *end = path + n, *start = end;
    while (start > path && start[-1] != '/')
        start--;
    snprintf(out, EY_MAX_PATH, "%.*s", (int)(end - start), start);
}

static const char *serve_copy_text(struct serve_setup *s, const char *text)
{
    const char *copy = arena_copy_text(&s->memory, text, strlen(text));
    return copy ? copy : "";
}

/* Adds a model. Its id is the repository's name for a model of the cache, otherwise the folder's
 * name. The API reports the name given on the command line, or else the id, and accepts both. */
static bool serve_add_model(struct serve_setup *s, const char *requested, ey_err *e)
{
    char path[EY_MAX_PATH], id[EY_MAX_PATH];
    struct server_model *m = &s->server.models[s->server.n_models++];
    if (!model_choose(path, requested, s->options->quiet, e) ||
        !pull_model_if_missing(path, s->options, e))
        return false;
    if (!cache_name(id, path)) folder_name(id, path);
    m->path = serve_copy_text(s, path);
    m->names[m->n_names++] = requested ? requested : serve_copy_text(s, id);
    m->aliases[0] = serve_copy_text(s, id);
    return true;
}

/* Assigns --served-model-name: all names to a single model, or one to each of several. */
static void serve_assign_names(struct serve_setup *s)
{
    struct server_options *v = &s->server;
    if (!s->n_names) return;
    for (size_t i = 0; i < v->n_models; i++) {
        v->models[i].aliases[1] = v->models[i].names[0];
        v->models[i].n_names = 0;
    }
    for (size_t i = 0; i < s->n_names; i++) {
        struct server_model *m = &v->models[v->n_models > 1 ? i : 0];
        m->names[m->n_names++] = s->names[i];
    }
}

/* Fails if the API would report two models under the same name. An id that two models share selects
 * the first one. */
static bool serve_check_names(const struct server_options *v, ey_err *e)
{
    for (size_t i = 0; i < v->n_models; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(v->models[i].names[0], v->models[k].names[0]) == 0)
                return ey_fail(e, EY_BAD_REQUEST,
                               "two models are called %.200s; name them with --served-model-name",
                               v->models[i].names[0]);
    return true;
}

static bool read_models(struct serve_setup *s, ey_err *e)
{
    const struct options *o = s->options;
    if (o->n_args > SERVER_MAX_MODELS)
        return ey_fail(e, EY_BAD_REQUEST,
                       "serve takes at most %d models, not %zu; for several API keys, repeat "
                       "--api-key",
                       SERVER_MAX_MODELS, o->n_args);
    if (o->n_args > 1 && s->n_names &&
        s->n_names != o->n_args) /* checked before a model is searched for or downloaded */
        return ey_fail(e, EY_BAD_REQUEST,
                       "--served-model-name has %zu names for %zu models; several models need one "
                       "each, in the same order",
                       s->n_names, o->n_args);
    if (!o->n_args && !serve_add_model(s, o->model, e)) return false;
    for (size_t i = 0; i < o->n_args; i++)
        if (!serve_add_model(s, o->args[i], e)) return false;
    serve_assign_names(s);
    return serve_check_names(&s->server, e);
}

static bool read_engine(struct serve_setup *s, ey_err *e)
{
    const struct options *o = s->options;
    ey_engine_options *engine = &s->server.engine;
    if (!engine_options_set(engine, o, e)) return false;
    if (o->task && strcmp(o->task, "auto") != 0 && o->n_args > 1)
        return ey_fail(e, EY_BAD_REQUEST,
                       "--task %s is for one model; with several, eyelet derives the task from "
                       "each model's files and name",
                       o->task);
    engine->serving = true;
    engine->max_num_queued = (int)o->max_num_queued;
    engine->max_num_batched_tokens = (int)(o->max_num_batched_tokens < EY_MAX_BATCHED_TOKENS
                                               ? o->max_num_batched_tokens
                                               : EY_MAX_BATCHED_TOKENS);
    s->server.max_pixels = (uint64_t)o->max_pixels;
    if (!read_image_limit(&s->server.max_images, o->image_limit, e) ||
        !serve_read_processor_kwargs(&s->server.max_pixels, o->processor_kwargs, e))
        return false;
    engine->max_pixels = s->server.max_pixels;
    if (o->language_only) s->server.max_images = 0;
    engine->max_images = s->server.max_images ? s->server.max_images : 1;
    return true;
}

/* Reads [ADDRESS:]PORT, with an IPv6 address in brackets. */
static bool read_ollama(struct serve_setup *s, const char *text, ey_err *e)
{
    struct server_options *v = &s->server;
    if (!text) return true;
    const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
    size_t n = colon ? (size_t)(colon - text) : 0;
    bool bracketed = n > 2 && text[0] == '[' && text[n - 1] == ']';
    char *end;
    long number = strtol(port, &end, 10);
    const char *host = bracketed ? arena_copy_text(&s->memory, text + 1, n - 2)
                       : n       ? arena_copy_text(&s->memory, text, n)
                                 : "127.0.0.1";
    v->ollama_host = host;
    v->ollama_port = (int)number;
    if (host && isdigit((unsigned char)port[0]) && !*end && number <= 65535 && (n || !colon))
        return true;
    return ey_fail(e, EY_BAD_REQUEST,
                   "--ollama takes a port such as 11434, or an address and a port such as "
                   "0.0.0.0:11434, not \"%s\"",
                   text);
}

static bool read_server(struct serve_setup *s, ey_err *e)
{
    const struct options *o = s->options;
    struct server_options *v = &s->server;
    v->host = o->host;
    v->port = (int)o->port;
    v->insecure = o->insecure;
    v->allow_pull = o->allow_pull;
    v->ollama_insecure = o->ollama_insecure;
    v->ssl_keyfile = o->ssl_keyfile;
    v->ssl_certfile = o->ssl_certfile;
    v->local_media_path = o->local_media_path;
    v->max_loaded = (int)o->max_loaded;
    v->max_connections = (int)o->max_connections;
    v->seed = o->seed;
    v->drain_seconds = (int)o->drain_seconds;
    v->responses_bytes = (size_t)o->responses_store;
    if (o->host_memory) v->host_bytes = (uint64_t)o->host_memory;
    v->strict = o->strict;
    v->thinking = option_thinking(o);
    v->thinking_reserve = o->thinking_reserve;
    v->effort_budgets = o->effort_budgets;
    v->thinking_end = o->thinking_end;
    v->log_requests = o->log_requests;
    v->quiet = o->quiet;
    if (v->local_media_path && !path_is_directory(v->local_media_path))
        return ey_fail(e, EY_BAD_REQUEST, "--allowed-local-media-path %s: no such folder",
                       v->local_media_path);
    return option_loop_tokens(&v->loop_tokens, o, e) && option_thinking_end_check(o, e) &&
           read_list(s, s->names, &s->n_names, SERVER_MAX_NAMES, "served-model-name", &o->names,
                     e) &&
           read_list(s, v->origins, &v->n_origins, SERVER_MAX_DOMAINS, "allowed-origins",
                     &o->origins, e) &&
           read_list(s, v->hosts, &v->n_hosts, SERVER_MAX_DOMAINS, "allowed-hosts", &o->hosts, e) &&
           read_list(s, v->media_domains, &v->n_media_domains, SERVER_MAX_DOMAINS,
                     "allowed-media-domains", &o->media_domains, e) &&
           read_list(s, v->proxies, &v->n_proxies, SERVER_MAX_DOMAINS, "trusted-proxy", &o->proxies,
                     e) &&
           read_ollama(s, o->ollama, e) &&
           read_seconds(&v->idle_unload_seconds, o->idle_unload, e) && read_keys(s, e);
}

int cmd_serve(const struct options *o)
{
    ey_err e;
    if (!o->allow_core_dumps) core_dumps_forbid();
    struct serve_setup s = {.options = o, .server = server_defaults()};
    bool ok = read_server(&s, &e) && read_engine(&s, &e) && read_models(&s, &e);
    if (ok && !o->quiet) vllm_flags_print_ignored(o);
    ok = ok && server_run(&s.server, &e);
    arena_free(&s.memory);
    return ok ? 0 : term_complain(&e);
}
