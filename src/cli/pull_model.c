/* SPDX-License-Identifier: Apache-2.0 */
/* Downloads a model and shows the progress on standard error. Asks first if the model will not run
 * on this machine. */
#include "cli/pull_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/model_headers.h"
#include "cli/terminal/cancel.h"
#include "cli/terminal/confirm.h"
#include "cli/terminal/progress.h"
#include "cli/output/fit_message.h"
#include "hub/hub.h"

struct pull_state {
    const struct options *options;
    struct progress_line progress;
    struct hub hub;
    struct hub_model model;
    double started;
};

/* ---- callbacks of the hub ---- */

static bool pull_should_stop(void *user)
{
    (void)user;
    return cancel_requested();
}

static void pull_show_progress(void *user, uint64_t done, uint64_t total)
{
    struct pull_state *p = user;
    progress_bytes(&p->progress, done, total);
    if (done == total) progress_phase(&p->progress, "checking, and writing to the disk", 0, 0);
}

static void pull_print_notice(void *user, const char *text)
{
    struct pull_state *p = user;
    progress_clear(&p->progress);
    if (!p->options->quiet) fprintf(stderr, "eyelet: %s\n", text);
}

/* ---- whether it will run here ---- */

static bool make_plan(struct pull_state *p, const char *directory, ey_plan *plan, ey_err *e)
{
    ey_engine_options engine = ey_engine_defaults();
    engine.model = directory;
    return hub_fetch_headers(&p->hub, &p->model, directory, e) && ey_plan_make(&engine, plan, e);
}

static void pull_print_plan(const struct pull_state *p, const ey_plan *plan)
{
    struct buf text = buf_with_max(1 << 16);
    if (p->options->quiet) return;
    buf_printf(&text, "eyelet: on this machine (%s, context %d tokens) it ", plan->device,
               plan->max_model_len);
    add_fit_message(&text, plan);
    for (size_t i = 0; i < plan->n_choices; i++)
        buf_printf(&text, "  chosen: %s\n", plan->choices[i]);
    for (size_t i = 0; i < plan->n_suggestions; i++)
        if (plan->suggestions[i].fits)
            buf_printf(&text, "  it would fit with %s\n", plan->suggestions[i].options);
    fputs(text.data ? text.data : "", stderr);
    buf_free(&text);
}

/* Removes the temporary directory's name from an error, because the directory is gone. */
static void drop_directory(ey_err *e, const char *directory)
{
    size_t n = strlen(directory);
    char *at = strstr(e->text, directory);
    if (!at) return;
    n += at[n] == '/' || at[n] == ':' ? 1 : 0;
    memmove(at, at + n, strlen(at + n) + 1);
}

/* Plans the model and prints the plan. Returns false and sets e->code to EY_OK if the model does
 * not fit; the user then decides. */
static bool will_run(struct pull_state *p, ey_err *e)
{
    ey_plan plan;
    char directory[EY_MAX_PATH];
    if (!temporary_directory_make(directory, e)) return false;
    bool ok = make_plan(p, directory, &plan, e);
    hub_remove_header_files(directory);
    if (ok) pull_print_plan(p, &plan);
    if (ok)
        e->code = EY_OK;
    else
        drop_directory(e, directory);
    return ok && plan.fits;
}

static bool is_network_failure(const ey_err *e)
{
    return e->code == EY_IO || e->code == EY_CANCELLED || e->code == EY_BUSY;
}

static bool pull_check_fit(struct pull_state *p, ey_err *e)
{
    const char *name = p->model.repository.name;
    progress_phase(&p->progress, "reading headers", 0, 0);
    bool runs = will_run(p, e);
    progress_clear(&p->progress);
    if (runs) return true;
    if (is_network_failure(e)) return false;
    if (e->code != EY_OK && !p->options->quiet)
        fprintf(stderr, "eyelet: this machine cannot run it: %s\n", e->text);
    if (p->options->yes || p->options->dry_run) return true;
    cancel_unwatch();
    bool ask = confirm_possible(),
         agreed = ask && confirm("Download %.2f GB anyway?", (double)p->model.missing_bytes / 1e9);
    cancel_watch();
    if (agreed) return true;
    return ey_fail(e, ask ? EY_CANCELLED : EY_NO_MEMORY,
                   "%s will not run on this machine, so it was not downloaded; --yes downloads it "
                   "anyway",
                   name);
}

/* ---- pulling ---- */

static void print_download_size(const struct pull_state *p)
{
    const struct hub_model *m = &p->model;
    if (p->options->quiet) return;
    fprintf(stderr, "eyelet: %s, commit %.8s: %zu files, %.2f GB", m->repository.name, m->commit,
            m->n, (double)m->bytes / 1e9);
    if (!m->missing_bytes)
        fprintf(stderr, ", already downloaded\n");
    else if (m->missing_bytes < m->bytes)
        fprintf(stderr, ", %.2f GB left to download\n", (double)m->missing_bytes / 1e9);
    else
        fprintf(stderr, "\n");
}

static void print_download_files(const struct pull_state *p)
{
    for (size_t i = 0; i < p->model.n; i++)
        fprintf(stderr, "  %-40s %12llu bytes\n", p->model.files[i].name,
                (unsigned long long)p->model.files[i].size);
}

static void print_download_summary(const struct pull_state *p)
{
    double seconds = seconds_now() - p->started;
    if (p->options->quiet || !p->model.missing_bytes) return;
    fprintf(stderr, "eyelet: %.2f GB in %.0f s, %.1f MB/s; hashes verified\n",
            (double)p->model.missing_bytes / 1e9, seconds,
            (double)p->model.missing_bytes / 1e6 / (seconds > 0.001 ? seconds : 0.001));
}

static bool download(struct pull_state *p, char *out, ey_err *e)
{
    p->started = seconds_now();
    bool ok = hub_download(&p->hub, &p->model, e);
    progress_clear(&p->progress);
    if (!ok) return false;
    print_download_summary(p);
    int n = snprintf(out, EY_MAX_PATH, "%s/snapshots/%s", p->model.directory, p->model.commit);
    return n < EY_MAX_PATH || ey_fail(e, EY_BAD_REQUEST, "the path of the cache is too long");
}

static bool pull_snapshot(struct pull_state *p, char *out, const struct repository *repository,
                          ey_err *e)
{
    const struct hub_options options = {.stop = pull_should_stop,
                                        .progress = pull_show_progress,
                                        .notice = pull_print_notice,
                                        .user = p};
    if (!hub_open(&p->hub, &options, e)) return false;
    progress_phase(&p->progress, "asking the hub", 0, 0);
    bool ok = hub_list_repo(&p->hub, repository, &p->model, e);
    progress_clear(&p->progress);
    if (!ok) return false;
    print_download_size(p);
    if (p->options->dry_run && !p->options->quiet) print_download_files(p);
    if ((p->model.missing_bytes || p->options->dry_run) && !pull_check_fit(p, e)) return false;
    return p->options->dry_run || download(p, out, e);
}

/* Offline, a model that is in the cache counts as pulled. */
static bool find_in_cache_offline(char *out, const struct repository *r, ey_err *e)
{
    char name[REPOSITORY_NAME_BYTES + REPOSITORY_REVISION_BYTES + REPOSITORY_TAG_BYTES + 3];
    snprintf(name, sizeof(name), "%s%s%s%s%s", r->name, r->tag[0] ? ":" : "", r->tag,
             r->revision_given ? "@" : "", r->revision_given ? r->revision : "");
    if (model_directory_find(out, name, NULL)) return true;
    return ey_fail(e, EY_NOT_FOUND,
                   "%s is not in the Hugging Face cache, and HF_HUB_OFFLINE forbids downloads; "
                   "unset it to download",
                   name);
}

bool pull_model(char *out, const struct repository *repository, const struct options *o, ey_err *e)
{
    struct pull_state p = {.options = o, .progress = progress_start(o->quiet)};
    out[0] = 0;
    if (hub_is_offline()) return find_in_cache_offline(out, repository, e);
    cancel_watch();
    bool ok = pull_snapshot(&p, out, repository, e);
    cancel_unwatch();
    progress_clear(&p.progress);
    hub_model_free(&p.model);
    hub_close(&p.hub);
    return ok;
}

/* ---- a missing model ---- */

bool pull_model_if_missing(const char *model, const struct options *o, ey_err *e)
{
    struct repository repository;
    char directory[EY_MAX_PATH];
    ey_err missing;
    if (model_directory_find(directory, model, &missing) || !strchr(model, '/') ||
        path_is_file(model) || !repository_parse(&repository, model))
        return true;
    bool agreed = o->yes || (confirm_possible() && !hub_is_offline() &&
                             confirm("%s is not downloaded. Download it now?", model));
    if (!agreed) return *e = missing, false;
    return pull_model(directory, &repository, o, e);
}
