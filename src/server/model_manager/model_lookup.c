/* SPDX-License-Identifier: Apache-2.0 */
/* Which model a request means, and how they are called. */
#include <stdio.h>
#include <string.h>

#include "server/server_context.h"

const char *server_model_name(const struct server *s, size_t model)
{
    const struct server_model *m = &s->options->models[model];
    return m->n_names ? m->names[0] : m->path;
}

static bool is_called(const struct server_model *m, const char *name)
{
    if (strcmp(m->path, name) == 0) return true;
    for (size_t i = 0; i < m->n_names; i++)
        if (strcmp(m->names[i], name) == 0) return true;
    for (size_t i = 0; i < SERVER_MAX_ALIASES && m->aliases[i]; i++)
        if (strcmp(m->aliases[i], name) == 0) return true;
    return false;
}

bool server_find_model(const struct server *s, const char *name, size_t *model)
{
    *model = 0;
    if (!name[0]) return true;
    for (size_t i = 0; i < s->options->n_models; i++)
        if (is_called(&s->options->models[i], name)) return *model = i, true;
    return false;
}

void server_unknown_model_message(const struct server *s, const char *asked, char *out, size_t size)
{
    int used = snprintf(out, size, "The model `%.200s` does not exist. This server has", asked);
    for (size_t i = 0; i < s->options->n_models; i++) {
        const struct server_model *m = &s->options->models[i];
        for (size_t n = 0; (n < m->n_names || !n) && used > 0 && (size_t)used < size; n++)
            used += snprintf(out + used, size - (size_t)used, "%s `%.120s`", i || n ? "," : "",
                             m->n_names ? m->names[n] : m->path);
    }
}
