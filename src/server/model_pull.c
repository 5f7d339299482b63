/* SPDX-License-Identifier: Apache-2.0 */
#include "server/model_pull.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/short_names.h"
#include "hub/hub.h"
#include "server/log.h"

struct model_pull {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct pull_status status;
    unsigned n_changes, n_seen;
    atomic_bool stopping;
    struct repository candidate[SHORT_NAME_REPOSITORIES];
    size_t n_candidates;
};

static atomic_flag pulling = ATOMIC_FLAG_INIT;

/* ---- names ---- */

/* Returns the repositories that a name may mean, preferred first. */
static size_t repositories_of(const char *name, struct repository out[SHORT_NAME_REPOSITORIES])
{
    char plain[EY_MAX_PATH], names[SHORT_NAME_REPOSITORIES][SHORT_NAME_BYTES];
    snprintf(plain, sizeof(plain), "%.*s", (int)name_without_latest(name), name);
    size_t n = short_name_find(plain, names), n_parsed = 0;
    for (size_t i = 0; i < n; i++)
        n_parsed += repository_parse(&out[n_parsed], names[i]);
    return n ? n_parsed : strchr(plain, '/') && repository_parse(&out[0], plain);
}

static bool fail_name(const char *name, ey_err *e)
{
    return ey_fail(e, EY_NOT_FOUND,
                   "'%.200s' is neither a repository (owner/name) nor a short name of one", name);
}

/* ---- the thread ---- */

/* Wakes waiters. The lock is held, and is released here. */
static void note_change(struct model_pull *p)
{
    p->n_changes++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static bool pull_is_stopping(void *user)
{
    struct model_pull *p = user;
    return atomic_load(&p->stopping);
}

static void set_pull_progress(void *user, uint64_t done, uint64_t total)
{
    struct model_pull *p = user;
    pthread_mutex_lock(&p->lock);
    p->status.done = done;
    p->status.total = total;
    note_change(p);
}

static void set_pull_model(struct model_pull *p, const struct hub_model *model)
{
    const struct hub_file *largest = NULL;
    for (size_t i = 0; i < model->n; i++)
        if (!largest || model->files[i].size > largest->size) largest = &model->files[i];
    pthread_mutex_lock(&p->lock);
    p->status.stage = PULL_FETCHING;
    p->status.total = model->bytes;
    p->status.done = model->bytes - model->missing_bytes;
    if (largest) snprintf(p->status.digest, sizeof(p->status.digest), "%.64s", largest->etag);
    note_change(p);
}

static void set_pull_end(struct model_pull *p, bool ok, const ey_err *e)
{
    pthread_mutex_lock(&p->lock);
    p->status.stage = ok ? PULL_DONE : PULL_FAILED;
    if (ok) p->status.done = p->status.total;
    if (!ok) p->status.error = *e;
    note_change(p);
}

/* Lists the files of the first candidate that the hub has. */
static bool list_any(struct model_pull *p, struct hub *hub, struct hub_model *model, ey_err *e)
{
    for (size_t i = 0; i < p->n_candidates; i++) {
        if (hub_list_repo(hub, &p->candidate[i], model, e)) return true;
        hub_model_free(model);
        *model = (struct hub_model){0};
        if (e->code != EY_NOT_FOUND) return false;
    }
    return false;
}

static bool pull_all(struct model_pull *p, ey_err *e)
{
    const struct hub_options options = {
        .stop = pull_is_stopping, .progress = set_pull_progress, .user = p};
    struct hub hub = {0};
    struct hub_model model = {0};
    bool ok = hub_open(&hub, &options, e) && list_any(p, &hub, &model, e);
    if (ok) set_pull_model(p, &model);
    ok = ok && hub_download(&hub, &model, e);
    if (ok)
        log_line("pulled %s; to serve it, start eyelet serve %s", model.repository.name,
                 model.repository.name);
    hub_model_free(&model);
    hub_close(&hub);
    return ok;
}

static bool find_offline(const struct model_pull *p, ey_err *e)
{
    char directory[EY_MAX_PATH];
    for (size_t i = 0; i < p->n_candidates; i++)
        if (model_snapshot_find(directory, &p->candidate[i], e)) return true;
    return false;
}

static void *run_pull(void *user)
{
    struct model_pull *p = user;
    ey_err e = {0};
    bool ok = hub_is_offline() ? find_offline(p, &e) : pull_all(p, &e);
    set_pull_end(p, ok, &e);
    return NULL;
}

/* ---- for routes ---- */

static bool start_pull(struct model_pull *p, ey_err *e)
{
    pthread_mutex_init(&p->lock, NULL);
    cond_init_monotonic(&p->changed);
    if (pthread_create(&p->thread, NULL, run_pull, p) == 0) return true;
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
    return ey_fail(e, EY_NO_MEMORY, "no thread for the download");
}

bool model_pull_open(struct model_pull **pull, const char *name, ey_err *e)
{
    *pull = NULL;
    if (atomic_flag_test_and_set(&pulling))
        return ey_fail(e, EY_BUSY, "another model is being pulled; try again later");
    struct model_pull *p = calloc(1, sizeof(*p));
    bool ok = p || ey_fail_memory(e, "the download", sizeof(*p));
    if (ok) p->n_candidates = repositories_of(name, p->candidate);
    ok = ok && (p->n_candidates || fail_name(name, e)) && start_pull(p, e);
    if (ok) return *pull = p, true;
    free(p);
    atomic_flag_clear(&pulling);
    return false;
}

struct pull_status model_pull_wait(struct model_pull *p, int ms)
{
    const struct timespec until = deadline_after(ms / 1e3);
    pthread_mutex_lock(&p->lock);
    while (p->n_seen == p->n_changes &&
           pthread_cond_timedwait(&p->changed, &p->lock, &until) != ETIMEDOUT)
        ;
    p->n_seen = p->n_changes;
    struct pull_status status = p->status;
    pthread_mutex_unlock(&p->lock);
    return status;
}

void model_pull_close(struct model_pull **pull)
{
    struct model_pull *p = *pull;
    *pull = NULL;
    if (!p) return;
    atomic_store(&p->stopping, true);
    pthread_join(p->thread, NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
    free(p);
    atomic_flag_clear(&pulling);
}

static bool is_within(const char *path, const char *folder)
{
    const size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '/' || !path[n]);
}

/* Whether the server serves a model from this folder, under whatever name. */
static bool serves_from(const struct server_options *options, const char *folder)
{
    char *whole = realpath(folder, NULL);
    bool found = false;
    for (size_t i = 0; whole && !found && i < options->n_models; i++) {
        char *path = realpath(options->models[i].path, NULL);
        found = path && is_within(path, whole);
        free(path);
    }
    free(whole);
    return found;
}

static bool delete_unserved(const struct server_options *options, const char *name,
                            const struct hub_removal *removal, ey_err *e)
{
    if (serves_from(options, removal->directory))
        return ey_fail(e, EY_BAD_REQUEST,
                       "model '%.200s' is being served; stop the server and use eyelet rm", name);
    return hub_remove(removal, e);
}

bool model_delete(const struct server_options *options, const char *name, ey_err *e)
{
    struct repository candidate[SHORT_NAME_REPOSITORIES];
    const size_t n = repositories_of(name, candidate);
    struct hub_removal removal;
    if (!n) return fail_name(name, e);
    for (size_t i = 0; i < n; i++) {
        if (hub_plan_removal(&removal, &candidate[i], e)) {
            if (!delete_unserved(options, name, &removal, e)) return false;
            log_line("deleted %s", candidate[i].name);
            return true;
        }
        if (e->code != EY_NOT_FOUND) return false;
    }
    return false;
}
