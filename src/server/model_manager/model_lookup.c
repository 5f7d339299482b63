/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the model that a request names. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text/short_names.h"
#include "server/server_context.h"

const char *server_model_name(const struct server *s, size_t model)
{
    const struct server_model *m = &s->options->models[model];
    return m->n_names ? m->names[0] : m->path;
}

/* ---- a model's own names ---- */

typedef int compare_names_fn(const char *a, const char *b);

static bool is_called(const struct server_model *m, const char *name, compare_names_fn *compare)
{
    if (compare(m->path, name) == 0) return true;
    for (size_t i = 0; i < m->n_names; i++)
        if (compare(m->names[i], name) == 0) return true;
    for (size_t i = 0; i < SERVER_MAX_ALIASES && m->aliases[i]; i++)
        if (compare(m->aliases[i], name) == 0) return true;
    return false;
}

static bool find_by_name(const struct server *s, const char *name, compare_names_fn *compare,
                         size_t *model)
{
    for (size_t i = 0; i < s->options->n_models; i++)
        if (is_called(&s->options->models[i], name, compare)) return *model = i, true;
    return false;
}

/* ---- names as Ollama's users write them ---- */

/* Strips a registry's prefix and the tag "latest". */
static void plain_name(char out[EY_MAX_PATH], const char *name)
{
    static const char *const begins[] = {"registry.ollama.ai/", "library/", "hf.co/",
                                         "huggingface.co/"};
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
        if (strncasecmp(name, begins[i], strlen(begins[i])) == 0) name += strlen(begins[i]);
    snprintf(out, EY_MAX_PATH, "%.*s", (int)name_without_latest(name), name);
}

struct name_search {
    const struct server *server;
    size_t *model;
};

static bool find_short_name(void *user, const char *name)
{
    const struct name_search *search = user;
    char repositories[SHORT_NAME_REPOSITORIES][SHORT_NAME_BYTES];
    size_t n = short_name_find(name, repositories);
    for (size_t i = 0; i < n; i++)
        if (find_by_name(search->server, repositories[i], strcasecmp, search->model)) return true;
    return false;
}

/* Finds OWNER/REPOSITORY:fp8 and the like; the tag must match the repository's format. */
static bool find_tagged_repository(const struct server *s, const char *name, size_t *model)
{
    char repository[EY_MAX_PATH];
    const char *slash = strchr(name, '/'), *tag = slash ? strchr(slash, ':') : NULL;
    if (!tag) return false;
    snprintf(repository, sizeof(repository), "%.*s", (int)(tag - name), name);
    size_t n = strlen(repository);
    bool fp8 = n > 4 && strcasecmp(repository + n - 4, "-FP8") == 0,
         fits = fp8 ? strcasecmp(tag, ":fp8") == 0 || strcasecmp(tag, ":q8_0") == 0
                    : strcasecmp(tag, ":bf16") == 0;
    return fits && find_by_name(s, repository, strcasecmp, model);
}

bool server_find_model(const struct server *s, const char *name, size_t *model)
{
    char plain[EY_MAX_PATH];
    struct name_search search = {s, model};
    *model = 0;
    if (!name[0] || find_by_name(s, name, strcmp, model)) return true;
    plain_name(plain, name);
    return find_by_name(s, plain, strcasecmp, model) || find_short_name(&search, plain) ||
           short_name_each(plain, find_short_name, &search) ||
           find_tagged_repository(s, plain, model);
}

/* ---- unknown names ---- */

void server_list_names(const struct server *s, const char *quote, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < s->options->n_models; i++) {
        const struct server_model *m = &s->options->models[i];
        for (size_t n = 0; (n < m->n_names || !n) && used < size; n++)
            used += (size_t)snprintf(out + used, size - used, "%s%s%.120s%s", used ? ", " : "",
                                     quote, m->n_names ? m->names[n] : m->path, quote);
    }
}

void server_unknown_model_message(const struct server *s, const char *asked, char *out, size_t size)
{
    char names[640];
    server_list_names(s, "`", names, sizeof(names));
    snprintf(out, size, "The model `%.200s` does not exist. This server has %s", asked, names);
}
