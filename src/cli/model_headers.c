/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/model_headers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "checkpoint/hf_cache.h"
#include "cli/terminal/cancel.h"
#include "cli/terminal/progress.h"
#include "hub/hub.h"
#include "hub/official_models.h"

/* Prefers a file system in memory, because some disks take half a second to remove a sparse file of
 * 10 GB. */
bool temporary_directory_make(char *out, ey_err *e)
{
    const char *temporary = getenv("TMPDIR");
    const char *const places[] = {temporary && temporary[0] ? temporary : "/dev/shm", "/tmp"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(out, EY_MAX_PATH, "%.3000s/eyelet-XXXXXX", places[i]);
        if (mkdtemp(out)) return true;
        if (places[i] == temporary) break;
    }
    return ey_fail(e, EY_IO, "cannot create the folder %.500s; set TMPDIR to a writable folder",
                   out);
}

static bool headers_should_stop(void *user)
{
    (void)user;
    return cancel_requested();
}

/* Downloads the headers by range requests: some kilobytes instead of gigabytes. */
static bool fetch_headers(struct model_headers *out, const struct repository *repository, ey_err *e)
{
    const struct hub_options options = {.stop = headers_should_stop};
    struct hub hub = {0};
    struct hub_model model = {0};
    if (!hub_open(&hub, &options, e)) return false;
    bool ok = hub_list_repo(&hub, repository, &model, e);
    out->temporary = ok && temporary_directory_make(out->directory, e);
    ok = ok && out->temporary && hub_fetch_headers(&hub, &model, out->directory, e);
    out->bytes = model.bytes;
    hub_model_free(&model);
    hub_close(&hub);
    return ok;
}

static bool ask_hub(struct model_headers *out, const struct repository *repository,
                    const struct options *o, ey_err *e)
{
    struct progress_line progress = progress_start(o->quiet);
    progress_phase(&progress, "asking the hub for headers", 0, 0);
    cancel_watch();
    bool ok = fetch_headers(out, repository, e);
    cancel_unwatch();
    progress_clear(&progress);
    return ok;
}

bool model_headers_official(struct model_headers *out, const char *repository, ey_err *e)
{
    *out = (struct model_headers){.official = true, .bytes = official_model_bytes(repository)};
    out->temporary = temporary_directory_make(out->directory, e);
    return out->temporary && official_model_write_headers(repository, out->directory, e);
}

/* Returns whether `name` may be a repository of the hub: it has the form OWNER/NAME and is not a
 * path on this machine. Planning reports a path that does not exist. */
static bool is_repository(struct repository *out, const char *name)
{
    return strchr(name, '/') && name[0] != '.' && name[0] != '/' && !path_is_file(name) &&
           repository_parse(out, name);
}

bool model_headers_find(struct model_headers *out, const char *name, const struct options *o,
                        ey_err *e)
{
    struct repository repository;
    ey_err missing;
    *out = (struct model_headers){0};
    bool here = model_directory_find(out->directory, name, &missing);
    if (here || !is_repository(&repository, name)) {
        snprintf(out->directory, sizeof(out->directory), "%s", name);
        return true; /* planning reports what is wrong */
    }
    bool plain = !repository.revision_given && !repository.tag[0];
    if (plain && official_model_is(repository.name))
        return model_headers_official(out, repository.name, e);
    if (hub_is_offline()) return *e = missing, false;
    return ask_hub(out, &repository, o, e);
}

void model_headers_say(const struct model_headers *headers, const char *name, const char *done,
                       const struct options *o)
{
    if (!headers->temporary || o->quiet) return;
    fprintf(stderr, "eyelet: %s is not downloaded (%.2f GB); %s %s\n", name,
            (double)headers->bytes / 1e9, done,
            headers->official ? "its built-in shapes" : "its headers on the hub");
}

void model_headers_remove(struct model_headers *headers)
{
    if (headers->temporary) hub_remove_header_files(headers->directory);
    headers->temporary = false;
}
