/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/search/index_update.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "cli/options/image_list.h"
#include "cli/terminal/cancel.h"

#define COMMIT_SECONDS 2.0 /* at most this much work is lost when the program is killed */

struct changed_image {
    const char *name; /* borrowed from the list */
    int64_t size, time;
};

struct update_run {
    struct index_update *update;
    struct image_list list;
    const char **paths;            /* [list.n] relative to the folder, sorted */
    struct changed_image *changed; /* [n_changed] */
    size_t n_changed;
    double committed; /* time of the last commit, in seconds */
    char **gone;      /* [n_gone] */
    size_t n_gone;
    ey_err error; /* of the index while storing vectors; set if `failed` */
    bool failed;
};

/* ---- changed images ---- */

static const char *path_in_folder(const struct index_update *update, const char *name)
{
    size_t n = strlen(update->folder);
    while (n > 1 && update->folder[n - 1] == '/')
        n--;
    name += strncmp(name, update->folder, n) == 0 ? n : 0;
    return name + strspn(name, "/");
}

static bool add_if_changed(struct update_run *r, const char *name, ey_err *e)
{
    struct stat st;
    bool has = false;
    if (stat(name, &st) != 0) return true; /* it was removed after the folder was read */
    const int64_t time = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    if (!search_index_has(r->update->index, path_in_folder(r->update, name), st.st_size, time, &has,
                          e))
        return false;
    if (!has) r->changed[r->n_changed++] = (struct changed_image){name, st.st_size, time};
    return true;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool find_changed(struct update_run *r, ey_err *e)
{
    const size_t n = r->list.n;
    r->changed = calloc(n + 1, sizeof(*r->changed));
    r->paths = calloc(n + 1, sizeof(*r->paths));
    if (!r->changed || !r->paths)
        return ey_fail_memory(e, "the list of images", n * sizeof(*r->changed));
    for (size_t i = 0; i < n; i++) {
        r->paths[i] = path_in_folder(r->update, r->list.names[i]);
        if (!add_if_changed(r, r->list.names[i], e)) return false;
    }
    qsort(r->paths, n, sizeof(*r->paths), compare_paths);
    return true;
}

/* ---- removed images ---- */

static bool note_if_gone(void *user, const char *path, const float *vector, int dimensions)
{
    struct update_run *r = user;
    (void)vector;
    (void)dimensions;
    if (bsearch(&path, r->paths, r->list.n, sizeof(*r->paths), compare_paths)) return true;
    char **grown = realloc(r->gone, (r->n_gone + 1) * sizeof(*grown));
    if (!grown) return false; /* the next update will find it */
    r->gone = grown;
    r->gone[r->n_gone] = strdup(path);
    r->n_gone += r->gone[r->n_gone] != NULL;
    return true;
}

static bool remove_gone(struct update_run *r, ey_err *e)
{
    if (!search_index_each(r->update->index, note_if_gone, r, e)) return false;
    for (size_t i = 0; i < r->n_gone; i++)
        if (!search_index_remove(r->update->index, r->gone[i], e)) return false;
    r->update->n_removed = r->n_gone;
    return search_index_commit(r->update->index, e);
}

/* ---- vectors ---- */

static void index_item(void *user, size_t i, struct batch_item *item)
{
    const struct update_run *r = user;
    embedder_run(r->update->embedder, &(struct embed_input){.image = r->changed[i].name}, item);
}

static void say_image_failed(const struct update_run *r, const struct batch_item *item,
                             const char *name)
{
    const struct cli_engine *cli = r->update->embedder->cli;
    struct buf line = buf_with_max(EY_MAX_PATH * 4);
    if (cli->options->quiet) return;
    progress_clear(&r->update->embedder->cli->progress);
    term_add_name(&line, name);
    fprintf(stderr, "eyelet: %s: %s\n", line.data ? line.data : "", item->error.text);
    buf_free(&line);
}

/* Returns whether the image itself caused the error. After any other error, such as a lack of
 * memory, the next update tries the image again. A bad request to a server may have another
 * cause than the image. */
static bool is_about_image(const struct update_run *r, const ey_err *e)
{
    return e->code == EY_BAD_IMAGE || e->code == EY_TOO_LONG ||
           (e->code == EY_BAD_REQUEST && !r->update->embedder->cli->remote);
}

static bool put_item(struct update_run *r, const struct changed_image *image,
                     const struct batch_item *item, ey_err *e)
{
    const struct embedded vector = embedded_of(item);
    const char *path = path_in_folder(r->update, image->name);
    r->update->n_new += item->ok;
    r->update->n_failed += !item->ok;
    if (!item->ok) say_image_failed(r, item, image->name);
    if (!item->ok && !is_about_image(r, &item->error)) return true;
    return search_index_put(r->update->index, path, image->size, image->time,
                            item->ok ? vector.number : NULL, (int)vector.n,
                            item->ok ? NULL : item->error.text, e);
}

static bool commit_now_and_then(struct update_run *r, ey_err *e)
{
    const double now = seconds_now();
    if (now - r->committed < COMMIT_SECONDS) return true;
    r->committed = now;
    return search_index_commit(r->update->index, e);
}

static bool take_indexed(void *user, size_t i, struct batch_item *item)
{
    struct update_run *r = user;
    if (cancel_requested()) return false;
    if (put_item(r, &r->changed[i], item, &r->error) && commit_now_and_then(r, &r->error)) {
        progress_count(&r->update->embedder->cli->progress, i + 1, r->n_changed);
        return true;
    }
    r->failed = true;
    return false;
}

static bool embed_changed(struct update_run *r, ey_err *e)
{
    struct batch_work work = {
        .n = r->n_changed, .user = r, .ask = index_item, .take = take_indexed};
    r->committed = seconds_now();
    cancel_watch();
    bool ok = embedder_run_all(r->update->embedder, &work, e);
    cancel_unwatch();
    progress_clear(&r->update->embedder->cli->progress);
    if (r->failed) *e = r->error;
    return ok && !r->failed && search_index_commit(r->update->index, e);
}

/* ---- the update ---- */

static void free_update(struct update_run *r)
{
    for (size_t i = 0; i < r->n_gone; i++)
        free(r->gone[i]);
    free(r->gone);
    free(r->paths);
    free(r->changed);
    image_list_free(&r->list);
}

bool index_update_run(struct index_update *update, ey_err *e)
{
    struct update_run r = {.update = update};
    char *const folder[] = {(char *)(uintptr_t)update->folder};
    bool ok = image_list_open(&r.list, folder, 1, true, "search", e) && find_changed(&r, e) &&
              remove_gone(&r, e);
    update->n_images = r.list.n;
    if (ok && r.n_changed) ok = embedder_load(update->embedder, e) && embed_changed(&r, e);
    free_update(&r);
    return ok;
}
